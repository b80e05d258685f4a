"""What a snapshot leaves in Airflow: lines in the task's log, XComs, and an asset event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer_ops.lifecycle.clock import Clock
    from trainer_ops.model.snapshot import Snapshot, SnapshotKind

__all__ = ["SnapshotLog", "alias_of", "describe_assets", "extra_of", "publish"]

# A log of a day would be all progress: a line for each so many per cent, or after so many seconds.
_STEP = 10
_SILENCE = 60.0
# What else than its fields is asked of a snapshot in a DAG: each has an XCom of its own (see ``results.publish``).
_XCOMS = ("location", "uri", "revision", "key", "digest", "files", "bytes", "hit")


class SnapshotLog:
    """A SnapshotListener that writes to a task's log.

    Args:
        log: Airflow's logger.
        uri: what is fetched.
        clock: for the lines that say that it still goes on.
    """

    def __init__(self, log: Any, uri: str, clock: Clock) -> None:
        self._log = log
        self._uri = uri
        self._clock = clock
        self._size: int | None = None
        self._files = 0
        self._tens = 0
        self._said = clock.now()

    def on_start(self, files: int, size: int | None, done: int) -> None:
        """What there is to do."""
        self._size, self._files, self._said = size, files, self._clock.now()
        self._tens = self._tens_of(done)
        kept = f"; {done:,} bytes are there from an earlier try" if done else ""
        self._log.info("%s: %d files, %s%s", self._uri, files, _bytes(size), kept)

    def on_progress(self, bytes_done: int, files_done: int) -> None:
        """A line now and then."""
        tens, now = self._tens_of(bytes_done), self._clock.now()
        if tens > self._tens or now - self._said >= _SILENCE:
            self._tens, self._said = tens, now
            self._log.info("%s: %s, %d of %d files", self._uri, _bytes(bytes_done), files_done, self._files)

    def on_note(self, text: str) -> None:
        """Write it."""
        self._log.info("%s", text)

    def _tens_of(self, done: int) -> int:
        return done * 100 // self._size // _STEP if self._size else 0


def _bytes(size: int | None) -> str:
    return "size unknown" if size is None else f"{size:,} bytes"


def publish(ti: Any, snapshot: Snapshot) -> None:
    """Push each field under its own name: ``init.output["location"]`` is the XCom ``location``."""
    data = snapshot.to_json()
    for name in _XCOMS:
        ti.xcom_push(key=name, value=data[name])


def extra_of(snapshot: Snapshot) -> dict[str, Any]:
    """What an asset event says of a snapshot."""
    data = snapshot.to_json()
    return {name: data[name] for name in ("uri", "revision", "bytes", "files", "key", "digest", "location", "hit")}


def alias_of(kind: SnapshotKind) -> Any:
    """The outlet of a task that was given none.

    An alias, because the asset's URI is known only when the task runs; a DAG may be scheduled on the alias (any
    dataset) as well as on ``Asset("s3://bucket/digits")``.
    """
    from airflow.sdk import AssetAlias

    return AssetAlias(f"trainer-ops-{kind}s")


def describe_assets(context: Mapping[str, Any], outlets: Iterable[Any], snapshot: Snapshot, log: Any) -> None:
    """Put the snapshot into the events of declared assets; an alias becomes the asset at the snapshot's source."""
    from airflow.sdk import Asset, AssetAlias

    extra = extra_of(snapshot)
    for outlet in outlets:
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra.update(extra)
        elif isinstance(outlet, AssetAlias):
            try:
                asset = Asset(snapshot.uri)
            except ValueError as exc:  # longer than Airflow stores, or not as a provider wants such URIs
                log.warning("No asset event: Airflow does not take %s as an asset: %s", snapshot.uri, exc)
                continue
            context["outlet_events"][outlet].add(asset, extra=extra)
