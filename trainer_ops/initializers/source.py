"""What is asked for: a URI, a revision and patterns, as one canonical value. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """A source as somebody asks for it; made by ``parse`` only, which refuses what cannot be fetched.

    Attributes:
        uri: canonical, without credentials: ``hf://datasets/org/name``, ``s3://bucket/prefix``, ``gs://…``, ``az://…``,
            ``http(s)://…``, ``file:///…``, ``pvc://claim/folder``.
        revision: as asked ("main", "v1", a commit); "" for the newest.
        include: glob patterns of paths to take; () for all.
        ignore: glob patterns of paths to leave out; wins over ``include``.
    """

    uri: str
    revision: str = ""
    include: Sequence[str] = ()
    ignore: Sequence[str] = ()

    @property
    def scheme(self) -> str:
        """The part before ``://``: ``hf``, ``s3``."""
        return self.uri.partition("://")[0]
