"""TrainJobSensor: wait for trainings that somebody else started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from airflow.sdk import BaseSensorOperator

from trainer_ops.airflow.compat import exception, no_retry, settings
from trainer_ops.lifecycle.clock import Clock, RealClock

if TYPE_CHECKING:
    from airflow.sdk import Asset

    from trainer_ops.lifecycle.group import Rule, Verdict
    from trainer_ops.lifecycle.selection import Selection

__all__ = ["TrainJobSensor"]

# How often a wait that broke in the triggerer goes back there; after that the task fails.
_MAX_REDEFERS = 3
# The trigger reports the time-out itself; Airflow's own deferral timeout is for a triggerer that is away.
_BACKSTOP = timedelta(seconds=60)


class TrainJobSensor(BaseSensorOperator):  # type: ignore[misc]  # Airflow is Any to mypy
    """Waits for trainings that this task did not start, whoever made them: another DAG, a pipeline, ``kubectl``.

    Give one of ``name``, ``labels`` and ``asset``. What is not there yet is waited for. The return value is the JSON
    outcome of the training (of several selected by ``labels`` a list of them), as ``TrainJobOperator`` returns it.

    A training that ends otherwise raises its error (one of ``trainer_ops.errors.TrainingEnded``), with ``soft_fail``
    the task is skipped. A target that does not answer is asked again until ``timeout``.

    ``mode`` ``poke`` and ``reschedule`` look afresh every ``poke_interval``: they do not see what comes and goes in
    between, and a training that was deleted is for them one that is not there yet. ``deferrable`` waits in the
    triggerer, sees every change at once, and shares its connection with all waits there: of a failure it has the
    evidence that is gone when it is looked for afterwards.

    Args:
        name: of the TrainJob; of a run of this tool the newest attempt is meant.
        labels: all TrainJobs with all these labels, also those that appear while it waits; a mapping, or ``a=b,c=d``.
        asset: the training of a model: one that trained and reported (``trainer_ops.report(model_uri=…)``) this
            asset's URI, or one under it. Which training that will be is known only at its end, so those that fail, or
            report another model, are passed over. With ``labels`` only those are looked at.
        since: pass over trainings that had ended before; a time, or text of one such as
            ``{{ data_interval_start }}``. Without it a training of yesterday, as long as it stands, is as good.
        until: ``success`` (the default), ``end`` (also a failure), or a phase: ``running`` and the others on the way of
            a training that goes well are met by later ones too, ``queued``, ``suspended``, ``failed``, … only while it
            is in them.
        metric: a metric that must have been reported by then, on the way or in the result.
        at_least: its least value.
        at_most: its greatest value.
        of: with ``labels``: ``all`` of them (the first failure ends the wait), or ``any``, the first.
        conn_id: as ``TrainJobOperator``.
        namespace: as ``TrainJobOperator``.
        deferrable: wait in the triggerer; ``timeout`` and ``execution_timeout`` hold there too.
    """

    template_fields: Sequence[str] = (
        "name", "labels", "asset", "since", "until", "metric", "at_least", "at_most", "conn_id", "namespace",
    )  # fmt: skip
    template_fields_renderers: ClassVar[dict[str, str]] = {"labels": "json"}

    def __init__(
        self,
        *,
        name: str | None = None,
        labels: Mapping[str, str] | str | None = None,
        asset: str | Asset | None = None,
        since: datetime | str | None = None,
        until: str | None = None,
        metric: str | None = None,
        at_least: float | str | None = None,
        at_most: float | str | None = None,
        of: Literal["all", "any"] = "all",
        conn_id: str | None = None,
        namespace: str | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if of not in ("all", "any"):
            raise ValueError(f"of: {of!r} is neither all nor any")
        self.name = name
        self.labels = labels
        self.asset: str | None = getattr(asset, "uri", asset)
        self.since = since
        self.until = until
        self.metric = metric
        self.at_least = at_least
        self.at_most = at_most
        self.of: Literal["all", "any"] = of
        self.conn_id = conn_id
        self.namespace = namespace
        if deferrable is None:
            deferrable = settings().getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable

    def poke(self, context: Mapping[str, Any]) -> Any:
        """One look.

        Raises:
            TrainingEnded: what is waited for cannot come any more.
            AirflowFailException: what is asked for makes no sense; a retry would not help.
        """
        from airflow.sdk import PokeReturnValue

        verdict = self._look()
        return PokeReturnValue(is_done=True, xcom_value=self._value(verdict)) if self._over(verdict) else False

    def execute(self, context: Mapping[str, Any]) -> Any:
        """Wait here, or look once and wait on in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        verdict = self._look()
        if self._over(verdict):
            return self._value(verdict)
        return self._defer(context)

    def execute_complete(self, context: Mapping[str, Any], event: Mapping[str, Any]) -> Any:
        """Go on after the trigger fired, in a new process: with the event and the sensor's own parameters only."""
        from trainer_ops.lifecycle.group import Verdict

        if event["status"] == "timeout":
            self._out_of_time(context)
        if event["status"] == "error":
            self.log.warning("The triggerer could not wait: %s", event["error"])
            if event["redefers"] >= _MAX_REDEFERS:
                raise self._skip_or(exception("AirflowException")(event["error"]))
            return self._defer(context, redefers=event["redefers"] + 1)
        verdict = Verdict.from_json(event["verdict"], self._rule().until)
        self._over(verdict)
        return self._value(verdict)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Mapping[str, Any]) -> Any:
        """Airflow's own, but where the trigger could not even start this worker waits instead."""
        if next_method == "__fail__" and str((next_kwargs or {}).get("error")) != "Trigger timeout":
            self.log.warning("The trigger failed; this worker waits instead.")
            return super().execute(context)
        return super().resume_execution(next_method, next_kwargs, context)

    def clock(self) -> Clock:
        """What sleeps in the triggerer, and what time it is."""
        return RealClock()

    def _selection(self) -> Selection:
        from trainer_ops.lifecycle.selection import Selection

        since = _seconds(self.since)
        with no_retry():
            return Selection.of(name=self.name, labels=self.labels, model_uri=self.asset, since=since)

    def _rule(self, deadline: float | None = None) -> Rule:
        from trainer_ops.lifecycle.group import Rule
        from trainer_ops.status.until import Until

        with no_retry():
            until = Until.of(self.until, metric=self.metric, at_least=self.at_least, at_most=self.at_most)
        return Rule(until, of=self.of, deadline=deadline)

    def _look(self) -> Verdict:
        from trainer_ops.airflow.hook import TrainerHook
        from trainer_ops.lifecycle.select import wait_for

        clock = self.clock()
        selection, rule = self._selection(), self._rule(deadline=clock.now())
        with no_retry():
            backend = TrainerHook(self.conn_id, self.namespace).get_conn()
        try:
            verdict = wait_for(backend, selection, rule, clock=clock)
        finally:
            backend.close()
        for waited in verdict.trainings:
            self.log.info("%s  %s", waited.ref.name, waited.outcome.phase)
        if not verdict.trainings:
            self.log.info("no TrainJob %s yet on %s", selection, backend.target)
        return verdict

    def _over(self, verdict: Verdict) -> bool:
        """Whether what is waited for has come.

        Raises:
            TrainingEnded: it cannot come any more.
        """
        if verdict.error is not None:
            raise self._skip_or(verdict.error)
        return verdict.met

    def _skip_or(self, error: Exception) -> Exception:
        if not (self.soft_fail or self.never_fail):
            return error
        skip: Exception = exception("AirflowSkipException")(str(error))
        skip.__cause__ = error
        return skip

    def _value(self, verdict: Verdict) -> Any:
        outcomes = [waited["outcome"] for waited in verdict.to_json()["trainings"] if waited["answer"] == "met"]
        return outcomes if self.labels and not self.asset else outcomes[-1]

    def _defer(self, context: Mapping[str, Any], redefers: int = 0) -> NoReturn:
        from trainer_ops.airflow.waits import TrainJobsTrigger

        deadline, now = self._deadline(context), self.clock().now()
        self.log.info("waiting for %s %s", self._selection(), self._rule().until)
        trigger = TrainJobsTrigger(
            self._selection().to_json(),
            self._rule().until.to_json(),
            of=self.of,
            conn_id=self.conn_id,
            namespace=self.namespace,
            deadline=deadline,
            redefers=redefers,
        )
        timeout = timedelta(seconds=max(0.0, deadline - now)) + _BACKSTOP
        self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)
        raise AssertionError("defer raises")

    def _deadline(self, context: Mapping[str, Any]) -> float:
        """When the first of the two limits is over: both count from this try's start."""
        limits = [self.timeout] + ([self.execution_timeout.total_seconds()] if self.execution_timeout else [])
        return float(context["ti"].start_date.timestamp() + min(limits))

    def _out_of_time(self, context: Mapping[str, Any]) -> NoReturn:
        limit = self.execution_timeout.total_seconds() if self.execution_timeout else None
        if limit is not None and limit <= self.timeout:
            raise exception("AirflowTaskTimeout")(f"execution_timeout of {limit:g} s is over")
        text = f"Sensor has timed out: {self._selection()} is not {self._rule().until} after {self.timeout:g} s"
        raise self._skip_or(exception("AirflowSensorTimeout")(text))


def _seconds(given: datetime | str | None) -> float | None:
    """A time as seconds since the epoch.

    Raises:
        AirflowFailException: text that is no time.
    """
    if given is None or given == "" or given == "None":
        return None
    from trainer_ops.model.times import parse_time

    at = given.timestamp() if isinstance(given, datetime) else parse_time(str(given).strip().replace(" ", "T", 1))
    if at is None:
        raise exception("AirflowFailException")(f"since: {given!r} is not a time. Write it like 2026-11-30T12:00:00Z")
    return at
