"""Small operators: suspend, resume and delete trainings, whoever made them, and apply a runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trainer_ops.airflow.base import TargetOperator
from trainer_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from trainer_ops.lifecycle.cleanup import Only

__all__ = [
    "DeleteTrainJobsOperator",
    "ResumeTrainJobOperator",
    "SuspendTrainJobOperator",
    "TrainingRuntimeOperator",
]

_FILES = (".yaml", ".yml", ".json")


class _Action(TargetOperator):
    ui_color = "#eef3e8"


class _SetSuspended(_Action):
    """Sets ``spec.suspend`` of one training."""

    template_fields: Sequence[str] = ("name", "conn_id", "namespace")
    _suspended: ClassVar[bool]

    def __init__(self, *, name: str, missing_ok: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.missing_ok = missing_ok

    def execute(self, context: Mapping[str, Any]) -> dict[str, Any] | None:
        """Do it, once or again: the same comes of it.

        Returns:
            Which TrainJob, and whether it is suspended now; None where there is none.

        Raises:
            AirflowFailException: there is no such training, or it has ended.
            BackendError: the target refused.
        """
        from trainer_ops.lifecycle.attempts import Attempt
        from trainer_ops.lifecycle.find import find
        from trainer_ops.lifecycle.patience import persist

        with self._target() as backend:
            if not self.name:  # an XCom of a task that returned nothing
                raise InvalidRequest("name", "is empty", "Name a TrainJob")
            try:
                ref = persist(lambda: find(backend, self.name), clock=self.clock(), patience=60.0)
            except InvalidRequest:
                if not self.missing_ok:
                    raise
                self.log.info("there is no TrainJob %s", self.name)
                return None
            raw = persist(lambda: backend.get(ref.name), clock=self.clock(), patience=60.0)
            phase = None if raw is None else Attempt.from_raw(raw, now=self.clock().now()).phase
            if phase is not None and phase.finished:
                verb = "suspended" if self._suspended else "resumed"
                raise InvalidRequest("name", f"{ref.name} has {phase} already and cannot be {verb}", "Name another")
            persist(
                lambda: backend.set_suspended(ref.name, self._suspended, uid=ref.uid),
                clock=self.clock(),
                patience=60.0,
            )
        self.log.info("TrainJob %s %s", ref, "is suspended" if self._suspended else "goes on")
        return {**ref.to_json(), "suspended": self._suspended}


class SuspendTrainJobOperator(_SetSuspended):
    """Stops a training's processes and keeps it, to be resumed.

    Args:
        name: of the TrainJob; of a run of this tool the newest attempt is meant.
        missing_ok: there being none is no failure.
        conn_id: as ``TrainJobOperator``.
        namespace: as ``TrainJobOperator``.
    """

    _suspended = True


class ResumeTrainJobOperator(_SetSuspended):
    """Lets a suspended training go on: its processes start anew, from their checkpoints if they write any.

    Args:
        name: of the TrainJob; of a run of this tool the newest attempt is meant.
        missing_ok: there being none is no failure.
        conn_id: as ``TrainJobOperator``.
        namespace: as ``TrainJobOperator``.
    """

    _suspended = False


class DeleteTrainJobsOperator(_Action):
    """Deletes trainings and stops what they run: a teardown, or a nightly clean-up. None to delete is no failure.

    Give ``name`` or ``labels``; with both, both must hold.

    Args:
        name: of a TrainJob, or several in a list.
        labels: those with all these labels; a mapping, or text: ``a=b,c=d``.
        only: ``active`` (not ended; queued and suspended ones too), ``failed``, ``finished``, or ``all``.
        older_than: those that were created at least so long ago; seconds, or a timedelta.
        conn_id: as ``TrainJobOperator``.
        namespace: as ``TrainJobOperator``.
    """

    template_fields: Sequence[str] = ("name", "labels", "only", "conn_id", "namespace")
    template_fields_renderers: ClassVar[dict[str, str]] = {"labels": "json"}

    def __init__(
        self,
        *,
        name: str | list[str] | None = None,
        labels: Mapping[str, str] | str | None = None,
        only: Only = "all",
        older_than: float | timedelta | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.labels = labels
        self.only: Only = only
        self.older_than = older_than

    def execute(self, context: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Delete them; the refs of those that were, with ``phase`` (where each stood) and ``how``.

        Raises:
            AirflowFailException: nothing is selected.
            BackendError: the target refused one of them; the others are deleted.
        """
        from trainer_ops.lifecycle.cleanup import cleanup
        from trainer_ops.lifecycle.selection import wanted_labels

        names = [self.name] if isinstance(self.name, str) and self.name else list(self.name or ())
        age = self.older_than.total_seconds() if isinstance(self.older_than, timedelta) else self.older_than
        with self._target() as backend:
            done = cleanup(
                backend,
                labels=wanted_labels(self.labels),
                names=names,
                only=self.only,
                older_than=age,
                clock=self.clock(),
            )
        for one in done:
            self.log.info("TrainJob %s (%s): %s", one.ref, one.phase, one.how)
        if not done:
            self.log.info("there was none to delete")
        return [{**one.ref.to_json(), "phase": one.phase.value, "how": one.how} for one in done]


class TrainingRuntimeOperator(_Action):
    """Makes a runtime be as it is written: created, changed, or left as it is when it is like that already.

    On a cluster it needs the right to ``get``, ``create`` and ``update`` runtimes of that kind; on this machine the
    engine keeps it in its own folder.

    Args:
        runtime: a (Cluster)TrainingRuntime: a mapping, YAML text, or the path of a template that ends in .yaml, .yml or
            .json, found where Airflow finds templates (beside the DAG file), or else absolute. ``kind`` may be left out
            and means ClusterTrainingRuntime.
        conn_id: as ``TrainJobOperator``.
        namespace: as ``TrainJobOperator``.
    """

    template_fields: Sequence[str] = ("runtime", "conn_id", "namespace")
    template_fields_renderers: ClassVar[dict[str, str]] = {"runtime": "yaml"}

    def __init__(self, *, runtime: Mapping[str, Any] | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.runtime = runtime

    def execute(self, context: Mapping[str, Any]) -> dict[str, str]:
        """Apply it; ``kind``, ``name`` and ``how``: ``created``, ``changed`` or ``unchanged``.

        Raises:
            AirflowFailException: it is no runtime, or a wrong one. Nothing was changed.
            BackendError: the target refused.
        """
        from trainer_ops.lifecycle.runtimes import apply_runtime

        with self._target() as backend:
            applied = apply_runtime(backend, self.runtime, clock=self.clock())
        for warning in applied.warnings:
            self.log.warning("%s", warning)
        self.log.info("%s %s: %s on %s", applied.kind, applied.name, applied.how, backend.target)
        return {"kind": applied.kind, "name": applied.name, "how": applied.how}

    def render_template(self, content: Any, context: Any, jinja_env: Any = None, seen_oids: Any = None) -> Any:
        """Airflow's own, but ``runtime`` may be the path of a template: see ``TrainJobOperator.render_template``."""
        if content is self.runtime and isinstance(content, str) and content.endswith(_FILES) and "\n" not in content:
            content = self._text(content, jinja_env or self.get_template_env())
        return super().render_template(content, context, jinja_env, seen_oids)

    def _text(self, path: str, jinja_env: Any) -> str:
        if Path(path).is_absolute():
            try:
                return Path(path).read_text(encoding="utf-8")
            except OSError:
                return path  # told in words when it is applied
        from jinja2 import TemplateNotFound

        try:
            return str(jinja_env.loader.get_source(jinja_env, path)[0])
        except (TemplateNotFound, AttributeError):  # without a DAG there is no loader
            return path
