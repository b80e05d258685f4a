"""The bodies of ``decide_retraining`` and ``promote_model``: what stands around the training of a scheduled retraining.

The rules are those of ``lifecycle.retraining``, as in Airflow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.kfp.artifacts import place
from trainer_ops.kfp.body import say
from trainer_ops.kfp.data import snapshot_from
from trainer_ops.kfp.ending import without_null
from trainer_ops.kfp.inputs import plain, spoiled_numbers
from trainer_ops.kfp.task import Task
from trainer_ops.lifecycle.champion import Registry, open_registry
from trainer_ops.lifecycle.retraining import Conclusion, Plan, conclude, decide_from, mapping_of
from trainer_ops.lifecycle.webhook import post_text

__all__ = ["decide_retraining", "promote_model"]

# A webhook's URL is a secret: it comes out of one, see ``kubernetes.use_secret_as_env``.
ENV_WEBHOOK: Final = "TRAINER_OPS_WEBHOOK"


def decide_retraining(task: Task) -> Mapping[str, Any]:
    """The component ``decide_retraining``."""
    given = plain(dict(task.inputs), spoiled_numbers(task.channels))
    snapshot, script, settings = given.get("snapshot"), str(given.get("script_uri") or ""), given.get("settings")
    plan = decide_from(
        _registry(given),
        snapshot=snapshot_from("snapshot", snapshot) if snapshot else None,
        script=script,
        settings=settings,
        force=bool(given.get("force")),
        script_field="script_uri",
    )
    _tell(plan.reason, quietly=plan.train)
    made = plan.to_json()
    return {
        "train": plan.train,
        "reason": plan.reason,
        "champion_uri": made["champion_uri"],
        "plan": without_null(made),
    }


def promote_model(task: Task) -> Mapping[str, Any]:
    """The component ``promote_model``."""
    given = plain(dict(task.inputs))
    registry = _registry(given)
    try:
        plan = Plan.from_json(given.get("plan") or {})
    except (KeyError, TypeError, ValueError) as exc:
        raise InvalidRequest("plan", "is none", "Give the output plan of decide_retraining, whole") from exc
    done = conclude(
        registry,
        plan,
        model_uri=str(given.get("model_uri") or ""),
        metrics=_metrics(given),
        metric=str(given.get("metric") or "accuracy"),
        margin=given.get("margin") or 0.0,
        mode=given.get("mode") or "max",
        threshold=given.get("threshold"),
        keep=_default(given, "keep", 5),
        note=mapping_of("note", given.get("note")),
    )
    _describe(task, done)
    _tell(done.text)
    return {
        "promoted": done.promoted,
        "text": done.text,
        "champion_uri": done.champion.model_uri if done.champion else "",
        "conclusion": without_null(done.to_json()),
    }


def _registry(given: Mapping[str, Any]) -> Registry:
    return open_registry(str(given.get("registry") or ""), copy=bool(_default(given, "copy", True)))


def _default(given: Mapping[str, Any], name: str, value: Any) -> Any:
    """Null stands for "left out"."""
    found = given.get(name)
    return value if found is None else found


def _metrics(given: Mapping[str, Any]) -> Mapping[str, float | str]:
    """What the evaluation measured: given by itself, or in its outcome."""
    outcome, metrics = (mapping_of(name, given.get(name)) for name in ("outcome", "metrics"))
    if bool(outcome) == bool(metrics):
        raise InvalidRequest("outcome", "one of outcome and metrics says what was measured", "Give one of them")
    found: Mapping[str, float | str] = metrics or outcome.get("metrics") or {}
    return found


def _describe(task: Task, done: Conclusion) -> None:
    """The champion as it is now, as an artifact."""
    model, champion = task.artifacts.get("model"), done.champion
    if model is None:
        return
    model.metadata.update(promoted=done.promoted, text=done.text)
    if champion is not None:
        metrics = {f"metric_{name}": value for name, value in champion.metrics.items()}
        model.metadata.update(
            version=champion.version, model_uri=champion.model_uri, promoted_at=champion.promoted_at, **metrics
        )
        place(champion.model_uri, model)


def _tell(text: str, *, quietly: bool = False) -> None:
    """In the log, and where the webhook leads. A chat that is away undoes nothing that was done."""
    say(text)
    url = os.environ.get(ENV_WEBHOOK)
    if not url or quietly:
        return
    try:
        post_text(url, text)
    except TrainerOpsError as error:
        say(str(error))
