"""The report of a task's training, written where people can open it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer_ops.model.outcome import Outcome

__all__ = ["write_report"]


def write_report(place: str, outcome: Outcome, context: Mapping[str, Any], *, log: Any, now: float) -> str | None:
    """Write the page; returns its URI, or None where that was not possible: that is logged and fails no task.

    Args:
        place: a path or URI of anything that Airflow's object storage reaches (``s3://conn_id@bucket/x.html``); one
            that ends in ``/`` is a folder, in which the training's name is the file's.
        outcome: of the training.
        context: the task's.
        log: the task's.
        now: seconds since the epoch.
    """
    from airflow.sdk import ObjectStoragePath

    from trainer_ops.pages.report import render

    ti = context["ti"]
    title = f"{ti.dag_id}, {ti.task_id}" + (f" [{ti.map_index}]" if (ti.map_index or -1) >= 0 else "")
    try:
        path = ObjectStoragePath(f"{place}{outcome.name}.html" if place.endswith("/") else place)
        if path.protocol in ("", "file"):  # object stores have no folders, and must not be asked to make a bucket
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(outcome, title=title, now=now), encoding="utf-8")
    except Exception as exc:  # whatever a driver raises: the training has ended as it has ended
        log.warning("There is no report at %s: %s: %s", place, type(exc).__name__, exc)
        return None
    log.info("Report: %s", path)
    return str(path)
