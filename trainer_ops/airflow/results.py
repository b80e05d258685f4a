"""What a finished training leaves in Airflow: XComs, and the extra of asset events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer_ops.model.identity import JobRef
    from trainer_ops.model.outcome import Outcome

__all__ = ["announce", "describe_assets", "publish"]

XCOM_TRAINJOB = "trainjob"
XCOM_METRICS = "metrics"
XCOM_MODEL_URI = "model_uri"
XCOM_DIAGNOSIS = "diagnosis"
XCOM_REPORT = "report"
# A metric of such a name is found in "metrics" only.
_TAKEN = frozenset(
    {XCOM_TRAINJOB, XCOM_METRICS, XCOM_MODEL_URI, XCOM_DIAGNOSIS, XCOM_REPORT, "return_value", "skipmixin_key"}
)


def publish(ti: Any, outcome: Outcome) -> None:
    """Push ``metrics``, ``model_uri`` and each metric under its own name; for a failure ``diagnosis`` instead.

    Each metric has its own key because an index into ``task.output["metrics"]`` *replaces* the key (Airflow's
    ``XComArg`` knows one level): so ``task.output["metrics"]["accuracy"]`` is the XCom ``accuracy``.
    """
    if outcome.diagnosis is not None:
        ti.xcom_push(key=XCOM_DIAGNOSIS, value=outcome.diagnosis.to_json())
        return
    ti.xcom_push(key=XCOM_METRICS, value=dict(outcome.metrics))
    ti.xcom_push(key=XCOM_MODEL_URI, value=outcome.model_uri)
    for name, value in outcome.metrics.items():
        if name not in _TAKEN and not name.startswith("_link_"):
            ti.xcom_push(key=name, value=value)


def describe_assets(context: Mapping[str, Any], outlets: Iterable[Any], outcome: Outcome) -> None:
    """Put metrics and model URI into the events of declared assets; an alias becomes the asset at the model's URI."""
    from airflow.sdk import Asset, AssetAlias

    extra = {"metrics": dict(outcome.metrics), "model_uri": outcome.model_uri, "trainjob": outcome.name}
    for outlet in outlets:
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra.update(extra)
        elif isinstance(outlet, AssetAlias) and outcome.model_uri:
            context["outlet_events"][outlet].add(Asset(outcome.model_uri), extra=extra)


def announce(ti: Any, ref: JobRef) -> None:
    """Push which training it is, before it is waited for."""
    ti.xcom_push(key=XCOM_TRAINJOB, value=ref.to_json())
