"""The use cases, written once: submit, wait, cancel, read logs, find again.

Here time passes and calls are repeated; what an answer means is decided below (``status``), how a target is asked is
the adapter's (``backends``, ``local``). ``drive`` has the only two loops that wait for a training; front ends give
them a ``Listener`` and translate an ``Outcome``, nothing more. Every wait takes a ``Clock``. May import: everything
but the front ends and ``testing``.
"""
