"""What every code means, at length, for ``--explain CODE``; ``text.explain`` says it.

One table a topic (``nodes``, ``policy``, ``pods``, ``kinds``, ``files``, ``code``), keyed by code: what v1 did, what v2
does, why that matters, what to do. A test holds the tables against ``codes.CODES``. May import: ``codes``.
"""
