"""What a list and the watch after it say, kept in memory: the rules of Kubernetes' watch protocol, without I/O.

A list gives objects and a resource version; the watch from that version gives every change. Bookmarks move the version
on while nothing changes. "410 Gone", as an HTTP status or as an ERROR event inside the stream, means that the version
is too old: list again, and tell the difference to whoever waits (Kubernetes API concepts, "Efficient detection of
changes").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from trainer_ops.backends.kubernetes.failures import Gone
from trainer_ops.backends.kubernetes.kinds import Kind, RawObject
from trainer_ops.errors import BackendError, Unreachable

__all__ = ["Mirror"]


class Mirror:
    """The objects of one kind in one namespace, trimmed. Not safe for threads; its owner locks.

    Attributes:
        version: where the next watch starts; "" means that a list is needed.
    """

    def __init__(self, kind: Kind) -> None:
        self.version = ""
        self._kind = kind
        self._objects: dict[str, RawObject] = {}
        self._names: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def keep(self, items: Iterable[RawObject]) -> list[RawObject]:
        """Of a page of a list what ``replace`` wants, trimmed."""
        return [self._kind.trim(item) for item in items if self._kind.owners(item)]

    def replace(self, items: Iterable[RawObject], version: str) -> set[str]:
        """Take a whole list; the owners for which something changed."""
        before = self._objects
        self._objects, self._names = {}, {}
        for item in items:
            self._put(item)
        self.version = version
        changed: set[str] = set()
        for name in before.keys() | self._objects.keys():
            old, new = before.get(name), self._objects.get(name)
            if _identity(old) != _identity(new):
                changed.update(owner for obj in (old, new) if obj for owner in self._kind.owners(obj))
        return changed

    def apply(self, event: Mapping[str, Any]) -> tuple[str, ...]:
        """Take one event of the watch; the owners that it concerns.

        Raises:
            Gone: an ERROR event with code 410.
            Unreachable: any other ERROR event, or something else than an event; the watch has ended.
        """
        kind, obj = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            raise self._error(obj)
        meta = obj.get("metadata") or {}
        if kind == "BOOKMARK":
            self.version = meta.get("resourceVersion") or self.version
            return ()
        if kind not in ("ADDED", "MODIFIED", "DELETED") or not meta.get("name"):
            raise Unreachable(f"watching {self._kind.plural}: not an event: {str(event)[:200]}")
        if kind == "DELETED":
            self._drop(str(meta["name"]))
        else:
            self._put(self._kind.trim(obj))
        self.version = meta.get("resourceVersion") or self.version
        return self._kind.owners(obj)

    def get(self, name: str) -> RawObject | None:
        """One object by its own name."""
        return self._objects.get(name)

    def of(self, owner: str) -> list[RawObject]:
        """The objects of one owner."""
        return [self._objects[name] for name in sorted(self._names.get(owner, ()))]

    def all(self) -> list[RawObject]:
        """Every object."""
        return list(self._objects.values())

    def owners(self) -> set[str]:
        """All that own something here."""
        return set(self._names)

    def _put(self, obj: RawObject) -> None:
        name = str(obj["metadata"]["name"])
        self._drop(name)
        owners = self._kind.owners(obj)
        if owners:
            self._objects[name] = obj
        for owner in owners:
            self._names.setdefault(owner, set()).add(name)

    def _drop(self, name: str) -> None:
        # By the owners of what is kept: those of the newer object may be others.
        kept = self._objects.pop(name, None)
        for owner in self._kind.owners(kept) if kept is not None else ():
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
