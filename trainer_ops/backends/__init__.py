"""The port to a target, and its adapters.

``base`` is the port: what a target must be able to do, in plain dicts of the cluster's own shape. An adapter does I/O
and turns foreign errors into ours; it decides nothing about a training (that is ``status``) and waits for nothing
(that is ``lifecycle``). May import: ``build``, ``status``, ``validate``, ``model``, ``errors``.
"""
