"""DatasetInitializerOperator and ModelInitializerOperator: one snapshot as one task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from trainer_ops.airflow.base import MAX_REDEFERS, WaitingOperator
from trainer_ops.airflow.compat import settings
from trainer_ops.airflow.run import TimeUp, attended
from trainer_ops.airflow.snapshot_run import SnapshotRun, in_operator_terms
from trainer_ops.airflow.snapshots import alias_of, describe_assets, publish
from trainer_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from trainer_ops.lifecycle.snapshot_wait import SnapshotWait
    from trainer_ops.model.snapshot import Snapshot, SnapshotKind

__all__ = ["DatasetInitializerOperator", "ModelInitializerOperator"]

# The operator's parameters that are arguments of ``take_snapshot``, but for the one that Airflow has a word for.
_FIELDS = (
    "uri", "revision", "include", "ignore", "to", "storage", "storage_class", "access_mode", "secret_ref", "env",
    "image", "job_resources", "pod", "labels", "active_deadline_seconds", "startup_timeout",
)  # fmt: skip


class _NotGiven(list[Any]):
    """No outlets were given. A list, because Airflow fills a mapped task's arguments with this default."""


class _InitializerOperator(WaitingOperator):
    """Makes one verified snapshot, which many trainings share, or finds it made.

    The snapshot is known by its source, the revision that this resolves to and the patterns: a retry, a second task
    and tomorrow's run find the same one, in milliseconds, and a broken download goes on where it stopped. The return
    value is the snapshot as JSON, for ``TrainJobOperator(dataset=init.output)``; each field is an XCom of its own too
    (``init.output["location"]``).

    **Where.** On the engine a folder of this machine, in the task's own process. On a cluster a Job that writes to a
    claim; killing, clearing or marking the task deletes the Job and keeps what it has fetched.

    **Asset event.** A task that succeeds emits one event with ``uri``, ``revision``, ``bytes``, ``files``, ``key``,
    ``digest``, ``location`` and ``hit``, also for a snapshot that was there already (``hit``): a try that dies after
    the download would lose it otherwise. Without ``outlets`` it is an event of ``Asset(<the source's URI>)`` through
    ``AssetAlias("trainer-ops-datasets")`` (or ``-models``), so that a DAG may be scheduled on either. An asset given
    as ``outlets`` gets the event instead; ``outlets=[]`` means none.

    **Credentials.** ``secret_ref`` names a Secret of the cluster. ``source_conn_id`` names an Airflow connection, read
    by the worker when the task runs: its secrets are in no XCom, log line, rendered field or trigger.

    Args:
        uri: ``hf://``, ``s3://``, ``gs://``, ``az://``, ``http(s)://``, ``file://`` or ``pvc://``.
        revision: branch, tag, commit or version; the newest when left out.
        include: glob patterns of paths to take.
        ignore: glob patterns of paths to leave out; goes before ``include``.
        to: where it is kept: ``pvc://claim[/folder]``, ``s3://bucket/prefix``, ``file:///folder``; the engine's own
            store when left out.
        storage: make the claim of ``to`` when it is not there, of this size ("20Gi").
        storage_class: of which class.
        access_mode: ``ReadWriteMany`` unless the class can only do another.
        secret_ref: Secret with the source's credentials as environment variables.
        env: more environment of the Job.
        image: container image of the Job.
        job_resources: of the Job's container, as Kubernetes has them. (``resources`` is Airflow's own.)
        pod: fields of the Job's pod spec (``serviceAccountName``, ``nodeSelector``, …).
        labels: of the Job, such as Kueue's queue.
        active_deadline_seconds: the Job's own deadline.
        startup_timeout: how long the Job may take to start, in seconds or as timedelta; half an hour when left out.
        conn_id: a connection of type ``trainer-local`` or ``kubernetes``; None: see ``TrainerHook``.
        namespace: instead of the connection's.
        source_conn_id: a connection with the source's credentials: ``aws`` for s3, a token as the password of
            ``huggingface``, ``http`` or ``generic`` for hf (its host, if any, is the hub's) and http(s),
            ``google_cloud_platform`` for gs, ``wasb`` for az. On a cluster give ``secret_ref`` instead.
        refresh: make it anew, though it is there.
        deferrable: wait for the Job in the triggerer; on the engine the worker makes the snapshot itself and says so.
        outlets: see above.
    """

    kind: ClassVar[SnapshotKind]
    _awaited = "Job"
    template_fields: Sequence[str] = (*_FIELDS, "conn_id", "namespace", "source_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"env": "json", "job_resources": "json", "pod": "json"}
    ui_color = "#eaf6ec"

    def __init__(
        self,
        *,
        uri: str,
        revision: str = "",
        include: Sequence[str] | str | None = None,
        ignore: Sequence[str] | str | None = None,
        to: str = "",
        storage: str | None = None,
        storage_class: str | None = None,
        access_mode: str | None = None,
        secret_ref: str | None = None,
        env: Mapping[str, Any] | None = None,
        image: str | None = None,
        job_resources: Mapping[str, Any] | None = None,
        pod: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        active_deadline_seconds: int | str | timedelta | None = None,
        startup_timeout: float | str | timedelta | None = None,
        conn_id: str | None = None,
        namespace: str | None = None,
        source_conn_id: str | None = None,
        refresh: bool = False,
        deferrable: bool | None = None,
        outlets: Any = _NotGiven(),  # noqa: B008  # never changed
        **kwargs: Any,
    ) -> None:
        given = outlets is not None and not isinstance(outlets, _NotGiven)
        outlets = outlets if given else [alias_of(self.kind)]
        super().__init__(conn_id=conn_id, namespace=namespace, outlets=outlets, **kwargs)
        self.uri = uri
        self.revision = revision
        self.include = include
        self.ignore = ignore
        self.to = to
        self.storage = storage
        self.storage_class = storage_class
        self.access_mode = access_mode
        self.secret_ref = secret_ref
        self.env = env
        self.image = image
        self.job_resources = job_resources
        self.pod = pod
        self.labels = labels
        self.active_deadline_seconds = active_deadline_seconds
        self.startup_timeout = startup_timeout
        self.source_conn_id = source_conn_id
        self.refresh = refresh
        if deferrable is None:
            deferrable = settings().getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = deferrable

    def execute(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Make the snapshot here, or ask the cluster for it and wait here or in the triggerer.

        Raises:
            SnapshotError: it could not be made; nothing half made is visible.
            AirflowFailException: what was asked for cannot be fetched; a retry would not help.
        """
        with self._attended(context) as run:
            ask = self._ask()
            if run.here:
                if self.deferrable:
                    self.log.info("deferrable: on this machine the worker makes the snapshot itself")
                return self._finish(context, run.take(ask))
            wait = run.begin(ask)
            if self.deferrable:
                self._defer(context, run, wait)
            return self._finish(context, run.wait(wait))

    def execute_complete(self, context: Mapping[str, Any], event: Mapping[str, Any]) -> dict[str, Any]:
        """Go on after the trigger fired, in a new process: with the event and the operator's own parameters only."""
        from trainer_ops.initializers.provider import error_from_json
        from trainer_ops.lifecycle.snapshot_wait import SnapshotWait
        from trainer_ops.model.snapshot import Snapshot

        with self._attended(context) as run:
            if event["status"] == "ended":
                return self._finish(context, Snapshot.from_json(event["snapshot"]))
            if event["status"] == "failed":
                raise error_from_json(event["error"])
            wait = run.waiting = SnapshotWait.from_json(event["wait"])
            if event["status"] == "timeout":
                raise self._out_of_time(run)
            self.log.warning("The triggerer could not wait for Job %s: %s", wait.name, event["error"])
            if event["redefers"] < MAX_REDEFERS:
                self._defer(context, run, wait, redefers=event["redefers"] + 1)
            return self._wait_here(context, run, wait)

    def _abandoned(self, context: Mapping[str, Any], *, timed_out: bool) -> dict[str, Any]:
        with self._attended(context) as run:
            # The same asker finds the Job that its first process has started.
            wait = run.begin(self._ask())
            if timed_out:
                raise self._out_of_time(run)
            return self._wait_here(context, run, wait)

    @contextmanager
    def _attended(self, context: Mapping[str, Any]) -> Iterator[SnapshotRun]:
        self._run = run = SnapshotRun(self._connect, context, log=self.log, clock=self.clock())
        with attended(run, told=self._told_to_stop):
            try:
                yield run
            except InvalidRequest as exc:
                raise in_operator_terms(exc, here=run.here) from exc

    def _ask(self) -> dict[str, Any]:
        """The rendered parameters as arguments of ``take_snapshot``; those left out keep its defaults."""
        from trainer_ops.airflow.sources import source_credentials

        if not self.uri:  # an XCom of a task that returned nothing
            raise InvalidRequest("uri", "is empty", "Say where it is: hf://, s3://, gs://, az://, https://, pvc://")
        if self.to and "://" not in self.to and not self.to.startswith("/"):
            reason = f'"{self.to}" is below whatever folder the worker was started in'
            raise InvalidRequest("to", reason, "Write file:///folder, with the whole path")
        if self.env is not None and not isinstance(self.env, Mapping):
            raise InvalidRequest("env", f"{self.env!r} is no mapping"[:200], "Give names and values")
        given = {name: getattr(self, name) for name in _FIELDS}
        given |= {name: _patterns(name, given[name]) for name in ("include", "ignore")}
        given |= {name: _seconds(name, given[name]) for name in ("active_deadline_seconds", "startup_timeout")}
        given["resources"] = given.pop("job_resources")
        given["credentials"] = source_credentials(self.source_conn_id, str(self.uri))
        return {"kind": self.kind, "refresh": self.refresh} | {
            k: v for k, v in given.items() if v not in (None, "", ())
        }

    def _defer(self, context: Mapping[str, Any], run: SnapshotRun, wait: SnapshotWait, redefers: int = 0) -> None:
        from trainer_ops.airflow.snapshot_trigger import SnapshotTrigger

        deadline = self._deadline(context)
        trigger = SnapshotTrigger(
            wait.to_json(), conn_id=self.conn_id, namespace=self.namespace, deadline=deadline, redefers=redefers
        )
        self._hand_over(context, run, trigger)

    def _wait_here(self, context: Mapping[str, Any], run: SnapshotRun, wait: SnapshotWait) -> dict[str, Any]:
        try:
            return self._finish(context, run.wait(wait, deadline=self._deadline(context)))
        except TimeUp:
            raise self._out_of_time(run) from None

    def _finish(self, context: Mapping[str, Any], snapshot: Snapshot) -> dict[str, Any]:
        how = "was there already" if snapshot.hit else "made"
        self.log.info(
            "Snapshot %s %s: %d files, %d bytes of %s at %s, in %s",
            *(snapshot.key, how, snapshot.files, snapshot.size, snapshot.uri, snapshot.revision, snapshot.location),
        )
        if self.do_xcom_push:
            publish(context["ti"], snapshot)
        describe_assets(context, self.outlets, snapshot, self.log)
        return snapshot.to_json()


def _patterns(name: str, value: Any) -> tuple[str, ...]:
    """One pattern may be given as text. A template may render a list as nothing."""
    if not value:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise InvalidRequest(name, f"{value!r}"[:200] + " is no list of patterns", 'Write it like ["*.parquet"]')


def _seconds(name: str, value: float | str | timedelta | None) -> float | None:
    """A rendered template is text; a deadline is whole seconds."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    try:
        number = None if value is None else float(value)
    except ValueError:
        raise InvalidRequest(name, f"{value!r} is not a number of seconds", "Write it like 3600") from None
    return int(number) if number is not None and number.is_integer() else number


class DatasetInitializerOperator(_InitializerOperator):
    """A dataset's snapshot as one task; see the base class."""

    kind = "dataset"


class ModelInitializerOperator(_InitializerOperator):
    """A model's snapshot as one task; see the base class."""

    kind = "model"
