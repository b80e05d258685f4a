"""What stands around the training of a scheduled retraining: whether to train, and whether the model takes its place.

The rules are those of ``lifecycle.retraining``, as in KFP; what is said of them goes to the log, to the XCom ``text``
(``WebhookNotifier`` tells it), and, where nothing is to be done, into the reason why the task is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.sdk import BaseOperator

from trainer_ops.airflow.compat import exception, no_retry
from trainer_ops.airflow.notifier import XCOM_TEXT
from trainer_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from trainer_ops.lifecycle.champion import Registry
    from trainer_ops.lifecycle.retraining import Conclusion, Plan

__all__ = ["DecideRetrainingOperator", "PromoteModelOperator"]

_TRUTH = {"true": True, "1": True, "false": False, "0": False, "": False, "none": False}


class _OfRegistry(BaseOperator):  # type: ignore[misc]  # Airflow is Any to mypy
    """Works on a registry of champions."""

    ui_color = "#f3eef8"

    def __init__(self, *, registry: str, **kwargs: Any) -> None:
        # Each key is an XCom of its own: ``plan.output["champion_uri"]``.
        super().__init__(**{"multiple_outputs": True, **kwargs})
        self.registry = registry

    def _open(self, copy: bool = True) -> Registry:
        from trainer_ops.lifecycle.champion import open_registry

        return open_registry(self.registry, copy=copy)

    def _say(self, context: Mapping[str, Any], text: str) -> None:
        self.log.info("%s", text)
        if self.do_xcom_push:
            context["ti"].xcom_push(key=XCOM_TEXT, value=text)


class DecideRetrainingOperator(_OfRegistry):
    """Whether there is anything new to learn: skipped when the model in use was made from the very same parts.

    Returns the plan for ``PromoteModelOperator``; its ``champion_uri`` is the model in use ("" for none), for an
    evaluation that measures it too.

    Args:
        registry: where champions are: ``file:///folder``, ``s3://bucket/prefix`` or ``mlflow://NAME``.
        snapshot: the data: what ``DatasetInitializerOperator`` returned.
        script: the code, as ``TrainJobOperator`` gets it: beside the DAG file, an absolute path, or a URI.
        settings: what else the model is made from: rounds, rates, the image; plain data.
        force: train all the same.
    """

    template_fields: Sequence[str] = ("registry", "snapshot", "script", "settings", "force")
    template_fields_renderers: ClassVar[dict[str, str]] = {"settings": "json"}

    def __init__(
        self,
        *,
        registry: str,
        snapshot: Any = None,
        script: str = "",
        settings: Mapping[str, Any] | None = None,
        force: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(registry=registry, **kwargs)
        self.snapshot = snapshot
        self.script = script
        self.settings = settings
        self.force = force

    def execute(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Decide.

        Raises:
            AirflowSkipException: there is nothing to train.
            AirflowFailException: nothing says what the model is made from, or it cannot be read.
            RegistryError: the registry cannot be read.
        """
        with no_retry():
            plan = self._plan()
        self._say(context, plan.reason)
        if not plan.train:
            raise exception("AirflowSkipException")(plan.reason)
        return plan.to_json()

    def _plan(self) -> Plan:
        from trainer_ops.airflow.inputs import find_script, folders_of
        from trainer_ops.lifecycle.retraining import decide_from

        script = find_script(str(self.script), folders_of(self)) if self.script else ""
        force = _truth("force", self.force)
        return decide_from(self._open(), snapshot=self.snapshot, script=script, settings=self.settings, force=force)


class PromoteModelOperator(_OfRegistry):
    """Puts a model into use when it is better than the one in use, at once or not at all; skipped when it is not.

    So its outlets have an event for promotions only; the event of an asset has ``version``, ``model_uri`` and
    ``metrics``. A retry concludes the same. Returns the conclusion: ``promoted``, ``text``, ``champion``, ….

    Args:
        registry: as ``DecideRetrainingOperator``.
        plan: what that returned.
        model_uri: where the training left the model: ``train.output["model_uri"]``.
        metrics: of the evaluation: ``evaluate.output["metrics"]``; ``champion_<metric>`` among them is what the model
            in use has on the same data.
        metric: which of them decides.
        margin: by how much it must be better, in the metric's own unit.
        mode: ``max`` where more is better, ``min`` where less is.
        threshold: what even the first model must reach.
        keep: how many promoted models stay, the one in use counted.
        copy: keep a copy in the registry; without one the model is where the training left it.
        note: plain data to keep beside the model.
    """

    template_fields: Sequence[str] = (
        "registry", "plan", "model_uri", "metrics", "metric", "margin", "mode", "threshold", "keep", "copy", "note",
    )  # fmt: skip
    template_fields_renderers: ClassVar[dict[str, str]] = {"metrics": "json", "note": "json"}

    def __init__(
        self,
        *,
        registry: str,
        plan: Any,
        model_uri: Any,
        metrics: Any,
        metric: str,
        margin: float | str = 0.0,
        mode: Literal["max", "min"] = "max",
        threshold: float | str | None = None,
        keep: int | str = 5,
        copy: bool | str = True,
        note: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(registry=registry, **kwargs)
        self.plan = plan
        self.model_uri = model_uri
        self.metrics = metrics
        self.metric = metric
        self.margin = margin
        self.mode: Literal["max", "min"] = mode
        self.threshold = threshold
        self.keep = keep
        self.copy = copy
        self.note = note

    def execute(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Judge, promote, remove old ones.

        Raises:
            AirflowSkipException: the model in use stays.
            AirflowFailException: there is no model, no such metric, or a setting is wrong.
            RegistryError: the registry cannot be read or written, or others promoted again and again meanwhile.
        """
        with no_retry():
            done = self._conclude()
        self._say(context, done.text)
        if not done.promoted:
            raise exception("AirflowSkipException")(done.text)
        self._describe(context, done)
        return done.to_json()

    def _conclude(self) -> Conclusion:
        from trainer_ops.lifecycle.retraining import Plan, conclude, mapping_of

        try:
            plan = Plan.from_json(self.plan)
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise InvalidRequest("plan", "is none", "Give the output of DecideRetrainingOperator, whole") from exc
        return conclude(
            self._open(_truth("copy", self.copy)),
            plan,
            model_uri=self.model_uri,
            metrics=mapping_of("metrics", self.metrics),
            metric=self.metric,
            margin=self.margin,
            mode=self.mode,
            threshold=self.threshold,
            keep=self.keep,
            note=mapping_of("note", self.note),
        )

    def _describe(self, context: Mapping[str, Any], done: Conclusion) -> None:
        from airflow.sdk import Asset

        champion = done.champion
        if champion is None:
            return
        extra = {"version": champion.version, "model_uri": champion.model_uri, "metrics": dict(champion.metrics)}
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                context["outlet_events"][outlet].extra.update(extra)


def _truth(field: str, given: bool | str | None) -> bool:
    """Jinja renders ``True`` as text."""
    if isinstance(given, bool):
        return given
    found = _TRUTH.get(str(given).strip().lower() if given is not None else "")
    if found is None:
        raise InvalidRequest(field, f"{given!r} is neither true nor false", "Correct it, or the template it came from")
    return found
