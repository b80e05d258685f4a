"""What a list and the watch after it say, kept in memory: the rules of Kubernetes' watch protocol, without I/O.

A list gives objects and a resource version; the watch from that version gives every change. Bookmarks move the version
on while nothing changes. "410 Gone", as an HTTP status or as an ERROR event inside the stream, means that the version
is too old: list again, and tell the difference to whoever waits (Kubernetes API concepts, "Efficient detection of
changes").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trainer_ops.backends.kubernetes.kinds import Kind
from trainer_ops.errors import BackendError, Unreachable

__all__ = ["Gone", "Mirror"]

RawObject = dict[str, Any]


class Gone(BackendError):
    """The watch's resource version is too old: list again."""

    retryable = True


class Mirror:
    """The objects of one kind in one namespace. Not safe for threads; its owner locks.

    Attributes:
        objects: name -> object, trimmed.
        version: where the next watch starts; "" means that a list is needed.
    """

    def __init__(self, kind: Kind) -> None:
        self.objects: dict[str, RawObject] = {}
        self.version = ""
        self._kind = kind
        self._names: dict[str, set[str]] = {}

    def replace(self, items: Iterable[RawObject], version: str) -> set[str]:
        """Take a whole list; the owners for which something changed."""
        before = self.objects
        self.objects, self._names = {}, {}
        for item in items:
            self._put(item)
        self.version = version
        changed: set[str] = set()
        for name in before.keys() | self.objects.keys():
            old, new = before.get(name), self.objects.get(name)
            if _identity(old) != _identity(new):
                changed.update(self._kind.owners(new or old or {}))
        return changed

    def apply(self, event: Mapping[str, Any]) -> tuple[str, ...]:
        """Take one event of the watch; the owners that it concerns.

        Raises:
            Gone: an ERROR event with code 410.
            Unreachable: any other ERROR event; the watch has ended.
        """
        kind, obj = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise self._error(obj)
        meta = obj.get("metadata") or {}
        self.version = meta.get("resourceVersion") or self.version
        if kind == "BOOKMARK":
            return ()
        if kind == "DELETED":
            self._drop(obj)
        else:
            self._put(obj)
        return self._kind.owners(obj)

    def of(self, owner: str) -> list[RawObject]:
        """The objects of one owner."""
        return [self.objects[name] for name in sorted(self._names.get(owner, ()))]

    def _put(self, obj: RawObject) -> None:
        owners = self._kind.owners(obj)
        if not owners:
            return
        name = obj["metadata"]["name"]
        self.objects[name] = self._kind.trim(obj)
        for owner in owners:
            self._names.setdefault(owner, set()).add(name)

    def _drop(self, obj: RawObject) -> None:
        name = obj["metadata"]["name"]
        self.objects.pop(name, None)
        for owner in self._kind.owners(obj):
            names = self._names.get(owner, set())
            names.discard(name)
            if not names:
                self._names.pop(owner, None)

    def _error(self, status: Mapping[str, Any]) -> BackendError:
        code, text = status.get("code"), str(status.get("message") or "")
        if code == 410 or status.get("reason") in ("Expired", "Gone"):
            self.version = ""
            return Gone(f"watching {self._kind.plural}: {text}", status=410)
        return Unreachable(
            f"watching {self._kind.plural}: {code} {text}", status=code if isinstance(code, int) else None
        )


def _identity(obj: RawObject | None) -> tuple[Any, Any]:
    meta = (obj or {}).get("metadata") or {}
    return meta.get("uid"), meta.get("resourceVersion")
