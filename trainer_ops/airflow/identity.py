"""Who asks: from a task instance to a RunKey."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainer_ops.model import keys
from trainer_ops.model.identity import JobRef, RunKey

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend, RawObject

__all__ = ["ANNOTATION_CYCLE", "cycle_of", "newest_ref", "run_key", "settle", "source_link"]

ANNOTATION_CYCLE = "trainer-ops/airflow-max-tries"


def run_key(context: Mapping[str, Any]) -> RunKey:
    """The identity of what this task instance trains, before ``settle``: its generation is the run's clear_number."""
    ti = context["ti"]
    parts = {"dag_id": ti.dag_id, "run_id": ti.run_id, "task_id": ti.task_id, "map_index": _map_index(ti)}
    generation = int(getattr(context["dag_run"], "clear_number", 0) or 0)
    return RunKey.of("airflow", parts, generation=generation, slug=f"{ti.dag_id}-{ti.task_id}")


def cycle_of(context: Mapping[str, Any]) -> str:
    """What stays the same from one clearing of a task instance to the next: its ``max_tries``.

    Airflow sets it to "tries so far plus retries" when this very task instance is cleared. The run's ``clear_number``
    counts the clearing of any of its tasks (both seen in 3.3.2, ``clear_task_instances``).
    """
    return str(context["ti"].max_tries or 0)


def settle(backend: Backend, key: RunKey, cycle: str) -> RunKey:
    """The key under which this task instance trains since it was last cleared.

    Its first try takes the run's clear_number, which only grows. A later one keeps that number, found by label, even
    when a neighbour was cleared in between: its retry must adopt the training, or go on from its checkpoints.
    """
    found = backend.list({keys.LABEL_SUBJECT: key.subject})
    newest = max(found, key=lambda raw: _number(raw, keys.LABEL_GENERATION), default=None)
    if newest is None:
        return key
    generation = _number(newest, keys.LABEL_GENERATION)
    if (newest["metadata"].get("annotations") or {}).get(ANNOTATION_CYCLE) == cycle:
        return replace(key, generation=generation)
    # Equal only where Airflow does not say the clear_number. A smaller one is a process of before the clearing: it
    # is told that it was superseded.
    return replace(key, generation=generation + 1) if key.generation == generation else key


def newest_ref(backend: Backend, key: RunKey) -> JobRef | None:
    """The last attempt of a run, found by label; None when there is none."""
    found = backend.list({keys.LABEL_RUN_KEY: key.digest})
    newest = max(found, key=lambda raw: _number(raw, keys.LABEL_ATTEMPT), default=None)
    if newest is None:
        return None
    return JobRef(backend.target, backend.namespace, newest["metadata"]["name"], newest["metadata"]["uid"])


def source_link(context: Mapping[str, Any]) -> str:
    """The task's log page, for the TrainJob's annotation; "" where Airflow knows no address of itself."""
    return str(getattr(context["ti"], "log_url", "") or "")


def _map_index(ti: Any) -> int:
    return -1 if ti.map_index is None else int(ti.map_index)


def _number(raw: RawObject, label: str) -> int:
    text = str((raw["metadata"].get("labels") or {}).get(label, ""))
    return int(text) if text.isdigit() else 0
