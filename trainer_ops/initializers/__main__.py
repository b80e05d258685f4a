"""The snapshot step of a pod: ``python -m trainer_ops.initializers take --kind dataset --uri … --store /store``.

Prints how it gets on, a line at a time, and its result as one JSON line at the end. The result, or ``{"error": …}``,
is also the container's termination message (``$TRAINER_OPS_RESULT_PATH``, else ``/dev/termination-log``), in at most
4096 bytes. Credentials come from the environment only.

Exit codes: 0; 1 for what the input or the source is to blame for, and for damage that ``verify`` found; 2 for wrong
flags; 75 for what may work when it is run again (no answer, a lock that is held); 143 after SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, Final, NoReturn

from trainer_ops.errors import TrainerOpsError
from trainer_ops.initializers.collect import collect
from trainer_ops.initializers.environment import credentials_from
from trainer_ops.initializers.manifest import Manifest
from trainer_ops.initializers.open import open_provider
from trainer_ops.initializers.provider import SnapshotError, error_to_json
from trainer_ops.initializers.source import parse
from trainer_ops.initializers.store import Store, WallClock, open_store
from trainer_ops.initializers.take import human, pinned_hit, take

__all__ = ["Printer", "fitting", "main", "run"]

_MESSAGE_BYTES: Final = 4096
_EVERY: Final = 5.0
EXIT_FAILED: Final = 1
EXIT_AGAIN: Final = 75


class Printer:
    """A line every few seconds: pod logs are no place for a bar."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._files, self._size, self._next, self._began, self._done = 0, 0, 0.0, 0.0, 0

    def on_start(self, files: int, size: int, done: int) -> None:
        """What there is to do."""
        self._files, self._size, self._done = files, size, done
        self._began = self._clock()
        self._next = self._began + _EVERY
        there = f", {human(done)} are there already" if done else ""
        _say(f"fetching {files} files, {human(size)}{there}")

    def on_progress(self, size: int, files: int) -> None:
        """How far it is."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _EVERY
        speed = human(int(max(0, size - self._done) / max(now - self._began, 0.001)))
        _say(f"{human(size)} of {human(self._size)}, {files} of {self._files} files, {speed}/s")

    def on_note(self, text: str) -> None:
        """As it is."""
        _say(text)


def _say(text: str) -> None:
    print(text, flush=True)


def main(argv: Sequence[str] | None = None, env: Mapping[str, str] | None = None) -> int:
    """Run one verb.

    Args:
        argv: without the program's name; None for this process's own.
        env: None for this process's own.

    Returns:
        The exit code.
    """
    given = os.environ if env is None else env
    arguments = _parser().parse_args(argv)
    try:
        result, code = _VERBS[arguments.verb](arguments, given)
    except TrainerOpsError as problem:
        print(f"error: {problem}", file=sys.stderr, flush=True)
        result = {"error": error_to_json(problem)}
        code = EXIT_AGAIN if isinstance(problem, SnapshotError) and problem.transient else EXIT_FAILED
    _say(json.dumps(result))
    _write_message(result, given)
    return code


def _take(arguments: argparse.Namespace, env: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    source = parse(
        arguments.uri,
        revision=arguments.revision,
        include=arguments.include,
        ignore=arguments.ignore,
        kind=arguments.kind,
    )
    store = _store(arguments, env)
    found = None if arguments.verify else pinned_hit(source, store, kind=arguments.kind)
    if found is None:
        provider = open_provider(
            source, credentials_from(env, source.scheme), mounts=dict(m.split("=", 1) for m in arguments.mount)
        )
        try:
            found = take(
                source,
                store,
                kind=arguments.kind,
                provider=provider,
                clock=WallClock(),
                jobs=arguments.jobs,
                listener=Printer(),
                lock_timeout=arguments.lock_timeout,
                verify_hit=arguments.verify,
            )
        finally:
            provider.close()
    how = "was there already" if found.hit else "is whole"
    _say(f"snapshot {found.key} {how}: {found.files} files, {human(found.size)}, {found.location}")
    return found.to_json(), 0


def _list(arguments: argparse.Namespace, env: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    store = _store(arguments, env)
    return {"snapshots": [_described(store, one) for one in store.list()]}, 0


def _verify(arguments: argparse.Namespace, env: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    store = _store(arguments, env)
    problems: dict[str, list[str]] = {}
    for key in arguments.keys or [*(one.key for one in store.list()), *store.broken()]:
        found = store.verify(key)
        _say(f"snapshot {key} " + (f"is damaged: {len(found)} problems" if found else "is sound"))
        for problem in found:
            _say(f"  {problem}")
        problems[key] = list(found)
    return {"problems": problems}, EXIT_FAILED if any(problems.values()) else 0


def _gc(arguments: argparse.Namespace, env: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    store = _store(arguments, env)
    freed = collect(
        store,
        now=time.time(),
        keep=arguments.keep,
        keep_last=arguments.keep_last,
        older_than=arguments.older_than,
        partials_older_than=arguments.partials_older_than,
        dry_run=arguments.dry_run,
    )
    for one in freed.snapshots:
        _say(f"{'would remove' if arguments.dry_run else 'removed'} {one.key}: {one.uri}, {human(one.size)}")
    result = {
        "snapshots": [_described(store, one) for one in freed.snapshots],
        "partials": list(freed.partials),
        "bytes": freed.size,
        "busy": list(freed.busy),
        "dry_run": arguments.dry_run,
    }
    return result, 0


_VERBS: Final = {"take": _take, "list": _list, "verify": _verify, "gc": _gc}


def _described(store: Store, one: Manifest) -> dict[str, Any]:
    return {**one.to_json(), "location": store.location(one.key)}


def _store(arguments: argparse.Namespace, env: Mapping[str, str]) -> Store:
    scheme = arguments.store.partition("://")[0]
    return open_store(arguments.store, credentials_from(env, scheme), location=arguments.location)


def _write_message(result: dict[str, Any], env: Mapping[str, str]) -> None:
    path = env.get("TRAINER_OPS_RESULT_PATH") or "/dev/termination-log"
    if path == "/dev/termination-log" and not os.path.exists(path):
        return  # No container.
    try:
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(fitting(result))
    except OSError as problem:
        print(f"the result cannot be written to {path}: {problem}", file=sys.stderr, flush=True)


def fitting(result: dict[str, Any]) -> str:
    """The JSON in at most 4096 bytes: long texts are cut, long lists end early and say so (``"left_out"``)."""
    if _fits(result):
        return _text(result)
    if "error" in result:
        return next(
            _text(cut)
            for limit in (1000, 500, 100)
            if _fits(cut := {"error": {name: _cut(value, limit) for name, value in result["error"].items()}})
        )
    short: dict[str, Any] = {**result, "left_out": 0}
    name, entries = max(
        ((name, value) for name, value in result.items() if isinstance(value, (list, dict))),
        key=lambda item: len(json.dumps(item[1])),
    )
    while entries and not _fits(short):
        fewer = len(entries) // 2
        entries = entries[:fewer] if isinstance(entries, list) else dict(list(entries.items())[:fewer])
        short.update({name: entries, "left_out": len(result[name]) - fewer})
    return _text(short)


def _text(result: dict[str, Any]) -> str:
    return json.dumps(result, ensure_ascii=False)


def _fits(result: dict[str, Any]) -> bool:
    return len(_text(result).encode(errors="replace")) <= _MESSAGE_BYTES


def _cut(value: Any, limit: int) -> Any:
    return value[:limit] if isinstance(value, str) else value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trainer_ops.initializers", description="Dataset and model snapshots."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--store", required=True, help="folder, file:///folder or s3://bucket/folder")
    common.add_argument("--location", default="", help="the URL that others reach the store by: pvc://claim/folder")
    made = verbs.add_parser("take", parents=[common], help="make a snapshot, or find that it is there")
    made.add_argument("--kind", choices=("dataset", "model"), required=True)
    made.add_argument("--uri", required=True)
    made.add_argument("--revision", default="")
    made.add_argument("--include", action="append", default=[], metavar="PATTERN")
    made.add_argument("--ignore", action="append", default=[], metavar="PATTERN")
    made.add_argument("--mount", action="append", default=[], metavar="CLAIM=PATH", type=_mount)
    made.add_argument("--jobs", type=_at_least(1), default=8, help="files fetched at once")
    made.add_argument("--lock-timeout", type=float, default=3600.0, metavar="SECONDS")
    made.add_argument("--verify", action="store_true", help="read a snapshot that is there; damaged: make it anew")
    verbs.add_parser("list", parents=[common], help="the snapshots that are there")
    checked = verbs.add_parser("verify", parents=[common], help="read snapshots again")
    checked.add_argument("keys", nargs="*", metavar="KEY", help="all when none is given")
    freed = verbs.add_parser("gc", parents=[common], help="remove what nobody needs")
    freed.add_argument("--keep", action="append", default=[], metavar="KEY")
    freed.add_argument("--keep-last", type=_at_least(0), default=None, metavar="N")
    freed.add_argument("--older-than", type=float, default=None, metavar="SECONDS")
    freed.add_argument("--partials-older-than", type=float, default=86400.0, metavar="SECONDS")
    freed.add_argument("--dry-run", action="store_true")
    return parser


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is not at least {least}")
        return int(text)

    return number


def _mount(text: str) -> str:
    claim, separator, path = text.partition("=")
    if not (claim and separator and path.startswith("/")):
        raise argparse.ArgumentTypeError(f"{text} is not CLAIM=/PATH")
    return text


def run(argv: Sequence[str] | None = None) -> NoReturn:
    """``main`` as a process of its own."""
    signal.signal(signal.SIGTERM, _on_term)
    sys.exit(main(argv))


def _on_term(_number: int, _frame: FrameType | None) -> NoReturn:
    # An exception, so that threads end and the lock is let go: another node must not wait until it is stale.
    raise SystemExit(128 + signal.SIGTERM)


if __name__ == "__main__":
    run()
