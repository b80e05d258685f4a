"""Trainer's admission, on the client's side: what the API server, Trainer's webhooks and JobSet will say.

Here belong rules, one function per group of them, each naming what is wrong by its path in the manifest and what to
write instead: what is refused at creation, and what is accepted and then never starts, never ends or fails later.
All rule ids are in ``rules.RULES``. Nothing here asks a cluster: what only a cluster knows (does the Secret exist, is
there quota) is not judged. Rules read manifests of any shape without raising, through ``peek``.
May import: ``model``, ``errors``. ``fields.json`` is written by ``python -m tests.validate.fields``.
"""
