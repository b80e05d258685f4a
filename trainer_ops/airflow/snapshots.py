"""What a snapshot leaves in Airflow: lines in the task's log, XComs, and an asset event."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from trainer_ops.lifecycle.snapshot_lines import SnapshotLines

if TYPE_CHECKING:
    from trainer_ops.lifecycle.clock import Clock
    from trainer_ops.model.snapshot import Snapshot, SnapshotKind

__all__ = ["SnapshotLog", "alias_of", "describe_assets", "extra_of", "publish"]

# What else than its fields is asked of a snapshot in a DAG: each has an XCom of its own (see ``results.publish``).
_XCOMS = ("location", "uri", "revision", "key", "digest", "files", "bytes", "hit")


class SnapshotLog(SnapshotLines):
    """A SnapshotListener that writes to a task's log.

    Args:
        log: Airflow's logger.
        uri: what is fetched.
        clock: for the lines that say that it still goes on.
    """

    def __init__(self, log: Any, uri: str, clock: Clock) -> None:
        super().__init__(lambda text: log.info("%s", text), uri, clock)


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
