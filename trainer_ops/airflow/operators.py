"""TrainJobOperator: one training as one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trainer_ops.airflow.base import MAX_REDEFERS, WaitingOperator
from trainer_ops.airflow.compat import exception, settings
from trainer_ops.airflow.inputs import FIELDS
from trainer_ops.airflow.run import KillPolicy, TaskRun, TimeUp, attended
from trainer_ops.errors import TrainerOpsError

if TYPE_CHECKING:
    from trainer_ops.model.outcome import Outcome
    from trainer_ops.model.request import TrainRequest

__all__ = ["TrainJobOperator"]

_MANIFEST_FILES = (".yaml", ".yml", ".json")
_POLICIES = ("delete", "suspend", "keep")


class TrainJobOperator(WaitingOperator):
    """Trains, and waits for it.

    One task instance has one training: a retry adopts the one that still runs, takes the result of one that has
    trained, or makes the next attempt after one that failed. Clearing the task trains again. The result is the task's
    return value; the XComs ``metrics``, ``model_uri`` and one per metric are pushed beside it, ``trainjob`` as soon as
    the training exists, ``diagnosis`` when it failed. A failure raises one of ``trainer_ops.errors.TrainingEnded``.

    All fields of the training are templated, nested values included. Numbers may be given as (rendered) text.

    Args:
        conn_id: a connection of type ``trainer-local`` or ``kubernetes``; None: see ``TrainerHook``.
        namespace: instead of the connection's.
        deferrable: wait in the triggerer instead of in a worker slot.
        on_kill: what happens to the training when the task is killed, marked, cleared or out of execution_timeout:
            ``delete``, ``suspend`` (a retry resumes it) or ``keep``.
        follow_logs: write the training's log lines to the task's log.
        report: where one HTML page of how it went is written when it ends, well or not: a path or URI, or with a ``/``
            at its end a folder. Its URI is the XCom ``report``.
        python_callable: a function to ship instead of ``script``: it runs on every node.
        op_kwargs: its arguments, plain data.
        manifest: a whole TrainJob: a mapping, YAML text, or the path of a template that ends in .yaml, .yml or .json,
            found where Airflow finds templates (beside the DAG file). Its ``metadata.name`` becomes the readable
            part of the name, because every run of the DAG is a training of its own.
        script: a file to ship, relative to the DAG file's folder or to the working folder, absolute, or a URI.
        queue_name: Kueue's LocalQueue. (``queue`` is Airflow's own.)
        name: see ``TrainRequest`` for this and all the others; times may also be given as timedelta.
    """

    template_fields: Sequence[str] = (*FIELDS, "conn_id", "namespace", "op_kwargs", "report")
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "manifest": "yaml",
        "env": "json",
        "runtime_patches": "json",
        "op_kwargs": "json",
    }
    ui_color = "#e8f1fb"
    _awaited = "training"

    def __init__(
        self,
        *,
        runtime: str | None = None,
        script: str | None = None,
        python_callable: Callable[..., Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        image: str | None = None,
        command: list[str] | None = None,
        args: list[str] | None = None,
        num_nodes: int | str | None = None,
        num_proc_per_node: int | str | None = None,
        resources_per_node: Mapping[str, Any] | None = None,
        env: Mapping[str, Any] | None = None,
        packages: list[str] | None = None,
        pip_index_url: str | None = None,
        runner: str | None = None,
        dataset: str | Mapping[str, Any] | None = None,
        model: str | Mapping[str, Any] | None = None,
        checkpoint_dir: str | None = None,
        manifest: Mapping[str, Any] | str | None = None,
        name: str | None = None,
        runtime_kind: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        queue_name: str | None = None,
        priority_class: str | None = None,
        runtime_patches: list[Mapping[str, Any]] | None = None,
        termination_grace_period_seconds: int | str | None = None,
        suspend: bool | str | None = None,
        active_deadline_seconds: int | str | None = None,
        managed_by: str | None = None,
        queue_timeout: float | str | timedelta | None = None,
        startup_timeout: float | str | timedelta | None = None,
        wait_timeout: float | str | timedelta | None = None,
        unreachable_timeout: float | str | timedelta | None = None,
        missing_grace: float | str | timedelta | None = None,
        max_restarts: int | str | None = None,
        conn_id: str | None = None,
        namespace: str | None = None,
        deferrable: bool | None = None,
        on_kill: KillPolicy = "delete",
        follow_logs: bool = True,
        report: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(conn_id=conn_id, namespace=namespace, **kwargs)
        if on_kill not in _POLICIES:
            raise ValueError(f"on_kill: {on_kill!r} is none of {', '.join(_POLICIES)}")
        self.runtime = runtime
        self.script = script
        self.python_callable = python_callable
        self.op_kwargs = op_kwargs
        self.image = image
        self.command = command
        self.args = args
        self.num_nodes = num_nodes
        self.num_proc_per_node = num_proc_per_node
        self.resources_per_node = resources_per_node
        self.env = env
        self.packages = packages
        self.pip_index_url = pip_index_url
        self.runner = runner
        self.dataset = dataset
        self.model = model
        self.checkpoint_dir = checkpoint_dir
        self.manifest = manifest
        self.name = name
        self.runtime_kind = runtime_kind
        self.labels = labels
        self.annotations = annotations
        self.queue_name = queue_name
        self.priority_class = priority_class
        self.runtime_patches = runtime_patches
        self.termination_grace_period_seconds = termination_grace_period_seconds
        self.suspend = suspend
        self.active_deadline_seconds = active_deadline_seconds
        self.managed_by = managed_by
        self.queue_timeout = queue_timeout
        self.startup_timeout = startup_timeout
        self.wait_timeout = wait_timeout
        self.unreachable_timeout = unreachable_timeout
        self.missing_grace = missing_grace
        self.max_restarts = max_restarts
        if deferrable is None:
            deferrable = settings().getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable
        self.kill_policy: KillPolicy = on_kill
        self.follow_logs = follow_logs
        self.report = report

    def execute(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Submit, then wait here or in the triggerer.

        Raises:
            TrainingEnded: it is over and no success.
            AirflowFailException: what was asked for cannot be trained; a retry would not help.
        """
        from trainer_ops.status.wait import Wait

        with self._attended(context) as run:
            request = self._request(run.cycle)
            submitted = run.submit(request)
            self._announce(context, submitted)
            wait = Wait.begin(submitted.ref, request.limits, now=run.clock.now(), attempt=submitted.attempt)
            if self.deferrable and submitted.how != "finished":
                self._defer(context, run, wait.to_json())
            return self._finish(context, run.wait(wait, log=self.log, follow_logs=self.follow_logs))

    def execute_complete(self, context: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
        """Go on after the trigger fired, in a new process: with the event and the operator's own parameters only."""
        from trainer_ops.model.identity import JobRef
        from trainer_ops.model.outcome import Outcome

        with self._attended(context) as run:
            if event["status"] == "ended":
                return self._finish(context, Outcome.from_json(event["outcome"]))
            run.ref = JobRef.from_json(event["wait"]["ref"])
            if event["status"] == "timeout":
                raise self._out_of_time(run)
            self.log.warning("The triggerer could not wait for %s: %s", run.ref, event["error"])
            if event["redefers"] < MAX_REDEFERS:
                self._defer(context, run, event["wait"], cursor=event["cursor"], redefers=event["redefers"] + 1)
            return self._wait_here(context, run)

    def _abandoned(self, context: Mapping[str, Any], *, timed_out: bool) -> dict[str, Any]:
        with self._attended(context) as run:
            if timed_out:
                raise self._out_of_time(run)
            return self._wait_here(context, run)

    def render_template(self, content: Any, context: Any, jinja_env: Any = None, seen_oids: Any = None) -> Any:
        """Airflow's own, but only ``manifest`` may be the path of a template.

        With Airflow's ``template_ext`` every value would be one: ``args=["conf.yaml"]`` would fail the task.
        """
        if content is self.manifest and isinstance(content, str) and content.endswith(_MANIFEST_FILES):
            content = self._template_text(content, jinja_env or self.get_template_env())
        return super().render_template(content, context, jinja_env, seen_oids)

    @contextmanager
    def _attended(self, context: Mapping[str, Any]) -> Iterator[TaskRun]:
        """See ``run.attended``."""
        self._run = run = TaskRun(self._connect, context, policy=self.kill_policy, clock=self.clock())
        with attended(run, told=self._told_to_stop):
            yield run

    def _request(self, cycle: str) -> TrainRequest:
        from trainer_ops.airflow.identity import ANNOTATION_CYCLE
        from trainer_ops.airflow.inputs import folders_of, make_request

        return make_request(
            {name: getattr(self, name) for name in FIELDS},
            title=f"{self.dag_id}-{self.task_id}",
            function=self.python_callable,
            function_kwargs=self.op_kwargs,
            folders=folders_of(self),
            note={ANNOTATION_CYCLE: cycle},
        )

    def _announce(self, context: Mapping[str, Any], submitted: Any) -> None:
        from trainer_ops.airflow.results import announce
        from trainer_ops.airflow.tasklog import how_to_reach

        for warning in submitted.warnings:
            self.log.warning("%s", warning)
        for name in submitted.superseded:
            self.log.info("TrainJob %s of before the task was cleared was deleted", name)
        ref = submitted.ref
        self.log.info("TrainJob %s (%s, attempt %d) on %s", ref, submitted.how, submitted.attempt, ref.target)
        self.log.info("%s", how_to_reach(ref))
        if self.do_xcom_push:
            announce(context["ti"], ref)

    def _defer(self, context: Mapping[str, Any], run: TaskRun, wait: Mapping[str, Any], **more: Any) -> None:
        from trainer_ops.airflow.triggers import TrainJobTrigger

        trigger = TrainJobTrigger(
            wait,
            conn_id=self.conn_id,
            namespace=self.namespace,
            follow_logs=self.follow_logs,
            kill_policy=self.kill_policy,
            deadline=self._deadline(context),
            **more,
        )
        self._hand_over(context, run, trigger)

    def _wait_here(self, context: Mapping[str, Any], run: TaskRun) -> dict[str, Any]:
        from trainer_ops.lifecycle.find import begin

        ref = run.find()
        if ref is None:
            raise TrainerOpsError("the training of this task is gone", remedy="Clear the task to train again")
        wait = begin(run.backend, ref, now=run.clock.now())
        try:
            outcome = run.wait(wait, log=self.log, follow_logs=self.follow_logs, deadline=self._deadline(context))
        except TimeUp:
            raise self._out_of_time(run) from None
        return self._finish(context, outcome)

    def _finish(self, context: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
        from trainer_ops.airflow.results import describe_assets, publish
        from trainer_ops.status.verdict import error_for

        if self.do_xcom_push:
            publish(context["ti"], outcome)
        if self.report:
            self._write_report(context, outcome, self.report)
        error = error_for(outcome)
        if error is not None:
            raise error
        describe_assets(context, self.outlets, outcome)
        return outcome.to_json()

    def _write_report(self, context: Mapping[str, Any], outcome: Outcome, place: str) -> None:
        from trainer_ops.airflow.report import write_report
        from trainer_ops.airflow.results import XCOM_REPORT

        uri = write_report(place, outcome, context, log=self.log, now=self.clock().now())
        if uri is not None and self.do_xcom_push:
            context["ti"].xcom_push(key=XCOM_REPORT, value=uri)

    def _template_text(self, path: str, jinja_env: Any) -> str:
        file = Path(path)
        if file.is_absolute() and file.is_file():
            return file.read_text(encoding="utf-8")
        try:
            return str(jinja_env.loader.get_source(jinja_env, path)[0])
        except Exception as exc:
            folders = ", ".join(getattr(jinja_env.loader, "searchpath", ())) or "no folder: the task is in no DAG"
            raise exception("AirflowFailException")(
                f"invalid request: manifest: there is no template {path} (looked in {folders})"
            ) from exc
