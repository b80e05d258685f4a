"""Airflow in a folder of this session's own, and its real task runner over a supervisor in memory."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.fixtures import cluster_namespace, control_plane
from tests.controlplane.trainings import cluster_target

__all__ = ["cluster_namespace", "cluster_target", "control_plane"]

HERE = Path(__file__).parent
HAS_AIRFLOW = importlib.util.find_spec("airflow") is not None
if not HAS_AIRFLOW:
    collect_ignore_glob = ["test_*.py"]

# Before anything imports airflow: it makes AIRFLOW_HOME, and reads all of these, at import.
HOME = Path(tempfile.mkdtemp(prefix="trainer-ops-airflow-"))
os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "false",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(HOME / "logs"),
        "AIRFLOW__TRACES__OTEL_ON": "false",
    }
)
(HOME / "dags").mkdir()
EMPTY = HOME / "empty.db"

# Each names who emits it: nothing of ours is hidden.
THIRD_PARTY_WARNINGS = (
    # airflow 3.3.2 reads .airflowignore with a class that pathspec 1 deprecates.
    "ignore:GitWildMatchPattern:DeprecationWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.airflow)
            for text in THIRD_PARTY_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(text))


def pytest_sessionfinish() -> None:
    shutil.rmtree(HOME, ignore_errors=True)


@dataclass
class Ran:
    """What the task runner made of one try."""

    state: str
    error: BaseException | None
    message: Any
    xcoms: dict[str, Any]
    context: Mapping[str, Any]
    ti: Any

    @property
    def result(self) -> Any:
        return self.xcoms.get("return_value")


@dataclass
class Supervisor:
    """Answers what the task runner asks its supervisor for, and keeps what it is told."""

    sent: list[Any] = field(default_factory=list)

    def send(self, msg: Any) -> Any:
        from airflow.sdk.execution_time.comms import InactiveAssetsResult, OKResponse

        self.sent.append(msg)
        if type(msg).__name__ == "ValidateInletsAndOutlets":
            return InactiveAssetsResult(inactive_assets=[])
        return OKResponse(ok=True)

    @property
    def xcoms(self) -> dict[str, Any]:
        from airflow.sdk.serde import deserialize

        return {m.key: deserialize(m.value) for m in self.sent if type(m).__name__ == "SetXCom"}


Worker = Callable[..., Ran]


@pytest.fixture
def worker() -> Worker:
    """Runs a task as a worker does: rendering, signals, retries, deferral; ``retries`` is the operator's own."""
    return _run


def _run(
    task: Any,
    *,
    run_id: str = "manual__1",
    try_number: int = 1,
    max_tries: int | None = None,
    clear_number: int = 0,
    map_index: int = -1,
    start: float | None = None,
    resume: tuple[str, Mapping[str, Any]] | None = None,
    params: Mapping[str, Any] | None = None,
) -> Ran:
    import structlog
    from airflow.sdk.api.datamodels._generated import DagRun, DagRunState, DagRunType, TIRunContext
    from airflow.sdk.execution_time.supervisor import set_supervisor_comms
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance, run
    from airflow.sdk.serde import serialize
    from airflow.utils.state import TaskInstanceState

    now = datetime.now(tz=timezone.utc)
    max_tries = task.retries if max_tries is None else max_tries
    dag_run = DagRun(
        dag_id=task.dag_id, run_id=run_id, logical_date=now, data_interval_start=now, data_interval_end=now,
        run_after=now, start_date=now, end_date=None, clear_number=clear_number, run_type=DagRunType.MANUAL,
        state=DagRunState.RUNNING, conf=dict(params or {}), consumed_asset_events=[], partition_key=None,
    )  # fmt: skip
    from_server = TIRunContext(
        dag_run=dag_run,
        max_tries=max_tries,
        should_retry=try_number <= max_tries,
        next_method=resume[0] if resume else None,
        next_kwargs=serialize(dict(resume[1])) if resume else None,
    )
    ti = RuntimeTaskInstance.model_construct(
        id=uuid.uuid4(), task_id=task.task_id, dag_id=task.dag_id, run_id=run_id, try_number=try_number,
        map_index=map_index, dag_version_id=uuid.uuid4(), task=task, _ti_context_from_server=from_server,
        max_tries=max_tries, start_date=datetime.fromtimestamp(start, tz=timezone.utc) if start else now,
        state=TaskInstanceState.RUNNING,
    )  # fmt: skip
    supervisor = Supervisor()
    with set_supervisor_comms(supervisor):
        context = ti.get_template_context()
        state, message, error = run(ti, context, structlog.get_logger(logger_name="task"))
    return Ran(state.value, error, message, supervisor.xcoms, context, ti)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Defines a connection by URI."""
    return lambda conn_id, uri: monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", uri)


@pytest.fixture
def memory(memory_backend: Any, virtual_clock: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The target of every task without a connection, on a clock on which nobody waits."""
    from trainer_ops.airflow import TrainJobEventTrigger, TrainJobOperator, TrainJobSensor, TrainJobTrigger
    from trainer_ops.airflow.base import TargetOperator
    from trainer_ops.airflow.waits import TrainJobsTrigger

    monkeypatch.setenv("TRAINER_OPS_TARGET", memory_backend.target)
    waiting = (TrainJobOperator, TrainJobTrigger, TrainJobSensor, TrainJobsTrigger, TrainJobEventTrigger)
    for kind in (*waiting, TargetOperator):
        monkeypatch.setattr(kind, "clock", lambda _self: virtual_clock)
    return memory_backend


@pytest.fixture(scope="session")
def database() -> Path:
    """The database of this session's AIRFLOW_HOME, with all its tables, made once; ``EMPTY`` is a copy of it as new."""
    from airflow.utils.db import initdb

    initdb()
    # Not a copy of the file: Airflow's is in WAL mode, what was written last is beside it.
    with closing(sqlite3.connect(HOME / "airflow.db")) as ours, closing(sqlite3.connect(EMPTY)) as copy:
        ours.backup(copy)
    return HOME / "airflow.db"


@pytest.fixture(scope="module")
def dags(database: Path) -> Iterator[dict[str, Any]]:
    """The DAGs of ``dags`` and ``tests/airflow/dags``, in this session's DAG folder."""
    from airflow.dag_processing.dagbag import DagBag

    folder = database.parent / "dags"
    for source in (HERE.parents[1] / "dags", HERE / "dags"):
        shutil.copytree(source, folder, dirs_exist_ok=True)
    bag = DagBag(folder, bundle_name="dags-folder")
    assert bag.import_errors == {}
    yield bag.dags
    shutil.rmtree(folder)
    folder.mkdir()


@pytest.fixture
def xcoms() -> Callable[..., list[Any]]:
    """Reads the XComs of a task of a run, by map index."""
    return _xcoms


def _xcoms(run: Any, task_id: str, key: str = "return_value") -> list[Any]:
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(XComModel.value).where(XComModel.run_id == run.run_id, XComModel.key == key)
        query = query.where(XComModel.task_id == task_id, XComModel.dag_id == run.dag_id)
        return [XComModel.deserialize_value(row) for row in session.execute(query.order_by(XComModel.map_index))]


@pytest.fixture
def states() -> Callable[[Any], dict[str, str]]:
    """Reads how the tasks of a run have ended; those of a mapped task by their index."""
    return _states


def _states(run: Any) -> dict[str, str]:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.execute(select(TaskInstance).where(TaskInstance.run_id == run.run_id)).scalars()
        return {f"{ti.task_id}[{ti.map_index}]".replace("[-1]", ""): str(ti.state) for ti in rows}


@pytest.fixture(scope="module")  # its four processes are not to run beside all the other tests
def airflow(database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real Airflow over the example DAGs and ``tests/airflow/dags``; ``training`` is an engine of its own."""
    spec = importlib.util.spec_from_file_location("standalone", HERE / "standalone.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    home = tmp_path_factory.mktemp("airflow")
    shutil.copy(EMPTY, home / "airflow.db")
    for folder in (HERE.parents[1] / "dags", HERE / "dags"):
        shutil.copytree(folder, home / "dags", dirs_exist_ok=True)
    trainings = home / "trainings"
    standalone = module.Standalone(home, home / "dags", {"AIRFLOW_CONN_TRAINING": f"trainer-local://{trainings}"})
    try:
        yield standalone.start()
    finally:
        standalone.stop()
        _end_all(f"local://{trainings}")


def _end_all(target: str) -> None:
    from trainer_ops.lifecycle.target import open_backend

    backend = open_backend(target)
    for job in backend.list():
        backend.delete(job["metadata"]["name"])
    backend.close()
