"""What a target's store holds: listed, verified, cleared; in this process, or by a Job where it is on a claim."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trainer_ops.backends.base import Backend
from trainer_ops.backends.steps import steps_of
from trainer_ops.build.image import default_image
from trainer_ops.build.snapshot_job import DEFAULT_CLAIM, SnapshotAsk
from trainer_ops.errors import BackendError, InvalidRequest
from trainer_ops.initializers.provider import Credentials, SnapshotError
from trainer_ops.initializers.source import parse
from trainer_ops.lifecycle import snapshot_job as jobs
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.snapshot_here import store_here
from trainer_ops.lifecycle.version import tool_version

if TYPE_CHECKING:
    from trainer_ops.initializers.manifest import Manifest
    from trainer_ops.initializers.store import Freed

__all__ = [
    "ENV_IMAGE",
    "broken_snapshots",
    "cluster_store",
    "gc_snapshots",
    "image_of",
    "list_snapshots",
    "verify_snapshot",
]

ENV_IMAGE: Final = "TRAINER_OPS_INITIALIZER_IMAGE"
_STORES: Final = ("pvc", "s3", "gs", "az")


def image_of(given: str | None) -> str:
    """The image of a Job: as given, of the environment, or the one that is built from this version."""
    return given or os.environ.get(ENV_IMAGE) or default_image(tool_version())


def cluster_store(to: str) -> str:
    """The canonical URL of a store on a cluster.

    Raises:
        InvalidRequest: field ``to``.
    """
    if not to:
        return f"pvc://{DEFAULT_CLAIM}"
    store = parse(to, field="to")
    if store.scheme not in _STORES:
        raise InvalidRequest(
            "to", f"{store.uri} cannot keep a cluster's snapshots", "Give pvc://claim/folder or s3://bucket/folder"
        )
    return store.uri


def list_snapshots(
    backend: Backend,
    *,
    to: str = "",
    secret_ref: str | None = None,
    env: Mapping[str, Any] | None = None,
    credentials: Credentials | None = None,
    image: str | None = None,
    clock: Clock,
) -> tuple[Manifest, ...]:
    """The snapshots that are there, oldest first, without their files.

    Args:
        backend: the target.
        to: the store, as of ``take_snapshot``.
        secret_ref: cluster: the Secret with what object storage wants.
        env: see ``take_snapshot``.
        credentials: engine: of object storage.
        image: cluster: of the Job.
        clock: what sleeps while a Job runs.

    Raises:
        InvalidRequest: field ``to``.
        SnapshotError: it cannot be read.
    """
    if steps_of(backend) is None:
        return store_here(backend, to, credentials, env).list()
    answer = _asked(backend, "list", (), to, secret_ref, env, image, clock)
    return tuple(_manifest(row) for row in answer.get("snapshots") or ())


def broken_snapshots(backend: Backend, *, to: str = "", credentials: Credentials | None = None) -> tuple[str, ...]:
    """Keys of what is damaged so that it is not listed: it has no data, or no manifest that can be read.

    () on a cluster: a Job that verifies all looks at them too, and says so in its log.

    Parameters and errors are those of ``list_snapshots``.
    """
    return store_here(backend, to, credentials).broken() if steps_of(backend) is None else ()


def verify_snapshot(
    backend: Backend,
    key: str,
    *,
    to: str = "",
    secret_ref: str | None = None,
    env: Mapping[str, Any] | None = None,
    credentials: Credentials | None = None,
    image: str | None = None,
    clock: Clock,
) -> tuple[str, ...]:
    """Read everything of a snapshot again: what is wrong, a line each; () for a sound one.

    Parameters and errors are those of ``list_snapshots``.
    """
    if steps_of(backend) is None:
        return store_here(backend, to, credentials, env).verify(key)
    answer = _asked(backend, "verify", (key,), to, secret_ref, env, image, clock)
    return tuple((answer.get("problems") or {}).get(key) or ())


def gc_snapshots(
    backend: Backend,
    *,
    to: str = "",
    keep: Collection[str] = (),
    keep_last: int | None = None,
    older_than: float | None = None,
    partials_older_than: float = 86400.0,
    dry_run: bool = False,
    secret_ref: str | None = None,
    env: Mapping[str, Any] | None = None,
    credentials: Credentials | None = None,
    image: str | None = None,
    clock: Clock,
) -> Freed:
    """Remove snapshots that nobody needs, and downloads that nobody goes on with.

    What goes is said in ``initializers.collect.collect``; the other parameters and errors are those of
    ``list_snapshots``.
    """
    from trainer_ops.initializers.collect import collect
    from trainer_ops.initializers.store import Freed

    if steps_of(backend) is None:
        return collect(
            store_here(backend, to, credentials, env),
            now=clock.now(),
            keep=keep,
            keep_last=keep_last,
            older_than=older_than,
            partials_older_than=partials_older_than,
            dry_run=dry_run,
        )
    args = [word for one in sorted(keep) for word in ("--keep", one)]
    args += [] if keep_last is None else ["--keep-last", str(keep_last)]
    args += [] if older_than is None else ["--older-than", f"{older_than:g}"]
    args += ["--partials-older-than", f"{partials_older_than:g}", *(["--dry-run"] if dry_run else [])]
    answer = _asked(backend, "gc", args, to, secret_ref, env, image, clock)
    return Freed(
        tuple(_manifest(row) for row in answer.get("snapshots") or ()),
        tuple(answer.get("partials") or ()),
        int(answer.get("bytes") or 0),
        tuple(answer.get("busy") or ()),
    )


def _manifest(row: Mapping[str, Any]) -> Manifest:
    from trainer_ops.initializers.manifest import Manifest

    head = Manifest.head(json.dumps(dict(row))[:-1] + ', "files": [')
    return replace(head, used=float(row.get("used") or head.used))


def _asked(
    backend: Backend,
    verb: str,
    args: Sequence[str],
    to: str,
    secret_ref: str | None,
    env: Mapping[str, Any] | None,
    image: str | None,
    clock: Clock,
) -> Mapping[str, Any]:
    """The answer of a Job of this call's own; it is deleted afterwards."""
    ask = SnapshotAsk(
        verb=verb,
        args=tuple(args),
        store=cluster_store(to),
        secret_ref=secret_ref or "",
        env=dict(env or {}),
        image=image_of(image),
        token=uuid.uuid4().hex,
    )
    if ask.claim:
        jobs.ensure_claim(backend, ask.claim, storage=None, storage_class=None, access_mode="")
    wait = jobs.begin(backend, ask, now=clock.now(), startup_timeout=jobs.STARTUP_SECONDS)
    lines: list[str] = []
    try:
        while True:
            wait, answer = jobs.look(backend, wait, clock.now(), lines.append)
            if answer is not None:
                return _whole(answer, lines)
            clock.sleep(wait.pause(clock.now()))
    finally:
        try:
            jobs.cancel(backend, wait)
        except BackendError:
            pass  # Its time to live ends it.


def _whole(answer: Mapping[str, Any], lines: Sequence[str]) -> Mapping[str, Any]:
    """A termination message has 4096 bytes; what did not fit is in the log, where a long line comes in parts."""
    if not answer.get("left_out"):
        return answer
    starts = [number for number, line in enumerate(lines) if line.startswith("{")]
    for start in reversed(starts):
        try:
            found = json.loads("".join(lines[start:]))
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    raise SnapshotError(
        "the answer of the Job is longer than a termination message, and its log cannot be read",
        remedy="Give this user the right to get pods/log",
    )
