"""Which snapshots and broken downloads go, and how they go without hurting who makes one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Final

from trainer_ops.initializers.manifest import Manifest
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.initializers.store import Freed, Store, WallClock

__all__ = ["collect", "superfluous"]

# Seconds after which an untouched claim is nobody's, whatever the clocks of hosts say: it is touched every few seconds.
_DEAD: Final = 3600.0


def superfluous(
    snapshots: Sequence[Manifest], *, now: float, keep: Collection[str], keep_last: int | None, older_than: float | None
) -> tuple[Manifest, ...]:
    """The snapshots that nothing keeps; see ``collect``. Pure."""
    if keep_last is None and older_than is None:
        return ()
    kept = set(keep)
    families: dict[tuple[object, ...], list[Manifest]] = defaultdict(list)
    for one in snapshots:
        families[one.uri, one.include, one.ignore].append(one)
    for family in families.values():
        family.sort(key=lambda one: (one.created, one.key))
        kept.update(one.key for one in family[len(family) - (keep_last or 0) :])
    if older_than is not None:
        kept.update(one.key for one in snapshots if now - max(one.used, one.created) < older_than)
    return tuple(one for one in snapshots if one.key not in kept)


def collect(
    store: Store,
    *,
    now: float,
    keep: Collection[str] = (),
    keep_last: int | None = None,
    older_than: float | None = None,
    partials_older_than: float = 86400.0,
    dry_run: bool = False,
) -> Freed:
    """Remove snapshots that nobody needs and downloads that nobody goes on with.

    Args:
        store: from which.
        now: seconds since the epoch.
        keep: keys that stay: those that trainings use.
        keep_last: so many of each source and patterns stay, the newest.
        older_than: seconds; a snapshot used within them stays (where the store notes no use: made within them).
        partials_older_than: seconds; a broken download touched within them stays.
        dry_run: say it, do not do it.

    Raises:
        SnapshotError: this user may not read, lock or remove what is there.

    With neither ``keep_last`` nor ``older_than`` no snapshot goes; with both, those go that both let go. What is being
    made, or locked for another reason, never goes.
    """
    snapshots = store.list()
    going = superfluous(snapshots, now=now, keep=keep, keep_last=keep_last, older_than=older_than)
    whole = {one.key for one in snapshots}
    # Beside a whole snapshot a partial is what a maker left that was killed just after the rename.
    stale = [p for p in store.partials() if p[0] in whole or now - p[1] >= partials_older_than]
    wanted = {one.key for one in going} | {partial[0] for partial in stale}
    busy: set[str] = set()

    def remove(key: str, how: Callable[[str], None]) -> bool:
        try:
            with store.lock(key, clock=WallClock(), timeout=0, note=lambda _text: None):
                if not dry_run:
                    how(key)
        except SnapshotError as problem:
            if not problem.transient:
                raise  # It cannot be locked at all: nobody works on it, and waiting would not help.
            busy.add(key)
            return False
        return True

    used = {one.key: one.used for one in going}

    def discard(key: str) -> None:
        found = store.look(key)
        if found is None or found.used > used[key]:
            busy.add(key)  # Somebody has just been given it.
        else:
            store.discard(key)

    gone = tuple(one for one in going if remove(one.key, discard) and one.key not in busy)
    left = [partial for partial in stale if remove(partial[0], store.drop_partial)]
    if not dry_run:
        for key in store.sweep(now - max(partials_older_than, _DEAD)):
            remove(key, lambda _key: None)  # Whoever takes a lock cleans up after a dead holder.
    return Freed(
        snapshots=gone,
        partials=tuple(key for key, _, _ in left),
        size=sum(one.size for one in gone) + sum(size for _, _, size in left),
        busy=tuple(sorted(busy & wanted)),
    )
