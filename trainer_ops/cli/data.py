"""What ``--dataset`` and ``--model`` mean: a URI, or a snapshot by its location, its JSON or the start of its key."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.snapshot import Snapshot

if TYPE_CHECKING:
    from trainer_ops.model.snapshot import SnapshotKind

__all__ = ["data_of", "pick_key"]

_LOCATION = re.compile(r"\w+://.*/([0-9a-f]{32})/data/?")
_KEY = re.compile(r"[0-9a-f]{4,32}")


def data_of(
    text: str,
    kind: SnapshotKind,
    *,
    read: Callable[[str], str | None],
    find: Callable[[str, SnapshotKind], Snapshot],
) -> str | Snapshot:
    """What a TrainRequest takes.

    Args:
        text: as it was typed.
        kind: which flag.
        read: the text of a file; None where there is no such file.
        find: the snapshot of which a key begins like this; raises where there is not exactly one.

    Raises:
        InvalidRequest: it is none of these.
    """
    location = _LOCATION.fullmatch(text)
    if location:
        where = text.rstrip("/")
        return Snapshot(kind, where, "", location[1], where)
    if "://" in text or text.lstrip().startswith("{"):
        return text
    said = read(text)
    if said is not None:
        if not said.lstrip().startswith("{"):
            raise InvalidRequest(
                f"--{kind}",
                f'"{text}" is a file, but not the JSON of a snapshot',
                f"For the data itself: {Path(text).absolute().as_uri()}",
            )
        return said
    if _KEY.fullmatch(text):
        return find(text, kind)
    raise InvalidRequest(
        f"--{kind}",
        f'"{text}" is no URI, no file and no key of a snapshot',
        "Write it like hf://datasets/org/digits; snapshots: trainer-ops snapshots list",
    )


def pick_key(prefix: str, keys: list[str], flag: str) -> str:
    """The one key that begins like this.

    Raises:
        InvalidRequest: none does, or several do.
    """
    found = sorted(key for key in keys if key.startswith(prefix))
    if len(found) == 1:
        return found[0]
    if found:
        reason = f'"{prefix}" is the start of {len(found)} keys: {", ".join(found[:4])}'
        raise InvalidRequest(flag, reason, "Write more of it")
    raise InvalidRequest(
        flag, f'no snapshot has a key that begins with "{prefix}"', "See them: trainer-ops snapshots list"
    )
