"""Kills the maker of a snapshot at its first, second, third … step, and looks each time at what is left.

A step is whatever changes a file system: what Python's audit hooks tell of before it is done, and each block of a
download. ``python killer.py STORE WORK`` prints one JSON line: how many steps there were, what was wrong after which.
A process of its own, because it forks: the maker's threads begin in the child only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.initializers.stand_ins import MemoryProvider, tree
from trainer_ops.initializers.collect import collect
from trainer_ops.initializers.folder_store import FolderStore
from trainer_ops.initializers.object_store import ObjectStore
from trainer_ops.initializers.provider import Credentials
from trainer_ops.initializers.source import parse
from trainer_ops.initializers.store import Store
from trainer_ops.initializers.take import take

FILES = {"a": b"alpha", "sub/b": b"b" * 100, "sub/c": b""}
LATER = 7200.0
STEPS = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.link", "os.utime", "os.truncate")


class Clock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def open_kind(kind: str, work: Path, number: int) -> Store:
    if kind == "folder":
        return FolderStore(work / f"store{number}")
    # fsspec's own driver of this machine's files: a bucket that outlives the process.
    url = f"file://{work}/bucket{number}"
    return ObjectStore(url, Credentials(options={"auto_mkdir": True}), scratch=work / f"scratch{number}")


def make(store: Store, remote: MemoryProvider) -> Any:
    return take(parse("s3://bucket/data"), store, kind="dataset", provider=remote, clock=Clock(), jobs=1)


def killed_at(step: int, act: Callable[[MemoryProvider], object]) -> bool:
    """Whether a child that acts was killed at that step; False: it came to its end."""
    child = os.fork()
    if child == 0:
        seen = 0

        def count() -> None:
            nonlocal seen
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

        def audit(event: str, given: tuple[Any, ...]) -> None:
            writes = event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
            if event in STEPS or writes:
                count()

        sys.addaudithook(audit)
        code = 1
        try:
            act(MemoryProvider(dict(FILES), block=40, after_block=lambda file, there: count()))
            code = 0
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, -signal.SIGKILL):
        raise SystemExit(f"the child ended with {status} at step {step}")
    return status != 0


def wrong_after_making(store: Store) -> str:
    """A maker was killed: what is there is whole, and the next one ends well."""
    for one in store.list():
        if problems := store.verify(one.key):
            return f"a snapshot that is not whole: {problems}"
    remote = MemoryProvider(dict(FILES), block=40)
    made = make(store, remote)
    if problems := store.verify(made.key):
        return f"made again, it is not whole: {problems}"
    data = Path(made.location.removeprefix("file://"))
    if tree(data) != FILES:
        return f"made again, it holds {sorted(tree(data))}"
    collect(store, now=time.time() + LATER, partials_older_than=0)
    root = data.parent.parent
    left = sorted(path.name for where in root.glob(".*") for path in where.rglob("*") if path.is_file())
    return f"left after gc: {left}" if left else ""


def wrong_after_gc(store: Store) -> str:
    """A removal was killed: the snapshot is whole or gone, and the next removal leaves nothing."""
    for one in store.list():
        if problems := store.verify(one.key):
            return f"a snapshot that is not whole: {problems}"
    collect(store, now=time.time() + LATER, keep_last=0, partials_older_than=0)
    root = Path(store.url.removeprefix("file://"))
    left = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return f"left after gc: {left}" if left else ""


def main(kind: str, what: str, work: Path) -> None:
    wrong: dict[int, str] = {}
    step = 0
    going = True
    while going:
        step += 1
        store = open_kind(kind, work, step)
        if what == "make":
            going = killed_at(step, lambda remote, store=store: make(store, remote))  # type: ignore[misc]
            found = wrong_after_making(store)
        else:
            make(store, MemoryProvider(dict(FILES)))
            going = killed_at(step, lambda remote, store=store: collect(store, now=time.time(), keep_last=0))  # type: ignore[misc]
            found = wrong_after_gc(store)
        if found:
            wrong[step] = found
    print(json.dumps({"steps": step - 1, "wrong": wrong}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
