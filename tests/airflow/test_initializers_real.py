"""Snapshots as tasks over real servers on loopback, in a real DAG with its database, and on a real control plane."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.controlplane.fixtures import Cluster
from tests.controlplane.plane import wait_until
from tests.initializers.hubserver import Hub, HubRepo
from tests.initializers.s3server import KEY, SECRET, S3Server
from tests.initializers.webserver import Reply, WebServer, serve
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.local.engine import LocalBackend

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TOKEN = "hf_letmein0123456789"
FILES = {"train.csv": b"1,2\n", "test/test.csv": b"3,4,5\n"}


def make(**kwargs: Any) -> Any:
    from airflow.sdk import DAG

    from trainer_ops.airflow import DatasetInitializerOperator

    with DAG("digits", schedule=None):
        return DatasetInitializerOperator(**{"task_id": "init", **kwargs})


@pytest.fixture
def engine(local_trainer: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> LocalBackend:
    monkeypatch.setenv("TRAINER_OPS_TARGET", local_trainer.target)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "HF_TOKEN", "HTTP_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return local_trainer


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def define(kind: str, **fields: Any) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SOURCE", json.dumps({"conn_type": kind, **fields}))

    return define


def everything_said(ran: Any, capsys: pytest.CaptureFixture[str]) -> str:
    """What of a task leaves the worker: its log, XComs, rendered fields, events."""
    fields = {name: str(getattr(ran.ti.task, name)) for name in ran.ti.task.template_fields}
    return capsys.readouterr().out + json.dumps(ran.xcoms) + json.dumps(fields) + str(ran.context["outlet_events"])


# -- sources over a network


@pytest.fixture
def s3() -> Iterator[S3Server]:
    pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    server = S3Server()
    server.bucket("data", {f"digits/{path}": data for path, data in FILES.items()}).close()
    yield server
    server.close()


def test_s3_with_an_aws_connection(
    worker: Any, engine: LocalBackend, s3: S3Server, connect: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    connect("aws", login=KEY, password=SECRET, extra={"endpoint_url": s3.url, "region_name": "us-east-1"})
    ran = worker(make(uri="s3://data/digits", source_conn_id="source"))
    assert ran.state == "success", ran.error
    assert (ran.result["files"], ran.result["bytes"], ran.result["hit"]) == (2, 10, False)
    again = worker(make(uri="s3://data/digits", source_conn_id="source"), run_id="2")
    assert (again.result["hit"], again.result["key"]) == (True, ran.result["key"])
    assert SECRET not in everything_said(ran, capsys)


@pytest.fixture
def hub() -> Iterator[Hub]:
    pytest.importorskip("huggingface_hub")
    server = Hub()
    server.tokens[TOKEN] = {"datasets/org/digits"}
    server.tokens["hf_of_a_stranger"] = set()
    repo = server.repos["datasets/org/digits"] = HubRepo(private=True)
    repo.commit(FILES)
    yield server
    server.close()
    from huggingface_hub.utils import close_session

    close_session()


def test_the_hub_with_a_token_from_a_connection(
    worker: Any, engine: LocalBackend, hub: Hub, connect: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    connect("huggingface", host=hub.url, password=TOKEN)
    given = {"uri": "hf://datasets/org/digits", "revision": "main", "source_conn_id": "source"}
    ran = worker(make(**given))
    assert ran.state == "success", ran.error
    assert ran.result["revision"] == hub.repos["datasets/org/digits"].refs["main"]
    assert TOKEN not in everything_said(ran, capsys)
    connect("huggingface", host=hub.url, password="hf_of_a_stranger")
    ran = worker(make(**given, retries=1), run_id="2")
    assert ran.state != "success"
    assert "hf_of_a_stranger" not in everything_said(ran, capsys) + str(ran.error)


def test_a_server_with_a_bearer_token(
    worker: Any, engine: LocalBackend, connect: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(question: Any) -> Reply:
        if question.headers.get("authorization") != f"Bearer {TOKEN}":
            return Reply(401)
        return serve(question, FILES["train.csv"], etag='"v1"')

    server = WebServer(answer)
    try:
        uri = f"{server.url}/train.csv"
        connect("http", password=TOKEN)
        ran = worker(make(uri=uri, source_conn_id="source"))
        assert ran.state == "success", ran.error
        assert TOKEN not in everything_said(ran, capsys)
        refused = worker(make(uri=uri), run_id="2")
        assert refused.state == "failed"
        assert "source_conn_id" in str(refused.error) or "token" in str(refused.error)
    finally:
        server.close()


# -- a DAG with its database


def test_a_training_of_the_snapshot_and_its_asset_event(
    dags: Any,
    xcoms: Any,
    local_trainer: LocalBackend,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from airflow.models.asset import AssetAliasModel, AssetDagRunQueue, AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    monkeypatch.setenv("AIRFLOW_CONN_TRAINING", local_trainer.target.replace("local:", "trainer-local:"))
    folder = Path(os.environ["AIRFLOW_HOME"]) / "digits"
    folder.mkdir()
    (folder / "train.csv").write_text("1,2,3\n")
    tell_airflow_of(dags, "snapshot", "on_any_dataset", "on_digits")
    run = dags["snapshot"].test(run_conf={"data": f"file://{folder}"})
    assert str(run.state) == "success"
    (snapshot,) = xcoms(run, "data")
    assert xcoms(run, "train", "bytes") == [6.0]
    with create_session() as session:
        (event,) = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == run.run_id)).all()
        (alias,) = session.scalars(select(AssetAliasModel).where(AssetAliasModel.name == "trainer-ops-datasets")).all()
        assert event.asset.uri == f"file://{folder}"
        assert event.extra == {name: snapshot[name] for name in event.extra}
        assert {"uri", "revision", "bytes", "files", "key", "location"} <= set(event.extra)
        assert event in alias.asset_events
        queued = session.scalars(select(AssetDagRunQueue.target_dag_id)).all()
        assert set(queued) == {"on_any_dataset", "on_digits"}


def tell_airflow_of(dags: Any, *names: str) -> None:
    """Put DAGs into the database as the dag processor does, and let them run."""
    from airflow.dag_processing.collection import update_dag_parsing_results_in_db
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.serialization.serialized_objects import LazyDeserializedDAG
    from airflow.utils.session import create_session
    from sqlalchemy import update

    made = [LazyDeserializedDAG.from_dag(dags[name]) for name in names]
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        update_dag_parsing_results_in_db("dags-folder", None, made, {}, None, set(), session=session)
        session.execute(update(DagModel).where(DagModel.dag_id.in_(names)).values(is_paused=False))


# -- a cluster

HOLD = """
import os, time
while os.path.exists("/claims/raw/held"):
    time.sleep(0.05)
"""


class Room:
    """A namespace with a claim ``raw`` that has data on it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "raw"}, "spec": spec}
        cluster.api.create(claim, namespace=namespace)
        raw = cluster.kubelet.claim(namespace, "raw")
        (raw / "digits" / "test").mkdir(parents=True)
        for path, data in FILES.items():
            (raw / "digits" / path).write_bytes(data)
        (raw / "sitecustomize.py").write_text(HOLD)
        raw.chmod(0o755)
        self.held = raw / "held"

    def jobs(self) -> list[dict[str, Any]]:
        return self.cluster.api.list("Job", namespace=self.namespace, labelSelector="trainer-ops/snapshot")

    def hold(self) -> dict[str, str]:
        """Jobs with this environment wait at their beginning until ``held`` is deleted."""
        self.held.touch()
        return {"PYTHONPATH": "/claims/raw"}

    def running(self) -> bool:
        pods = self.cluster.api.list("Pod", namespace=self.namespace, labelSelector="trainer-ops/snapshot")
        return [pod["status"].get("phase") for pod in pods] == ["Running"]


@pytest.fixture
def room(
    control_plane: Cluster, cluster_namespace: str, cluster_target: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Room]:
    if control_plane.kubelet.mode == "plain":
        pytest.skip("it needs containers: what a Job mounts is at paths of its own")
    url = urlsplit(cluster_target)
    extra = {"kube_config_path": parse_qs(url.query)["kubeconfig"][0], "cluster_context": url.netloc}
    conn = {"conn_type": "kubernetes", "extra": {**extra, "namespace": cluster_namespace}}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING", json.dumps(conn))
    before = signal.getsignal(signal.SIGTERM)
    made = Room(control_plane, cluster_namespace)
    yield made
    made.held.unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, before)


def on_cluster(**kwargs: Any) -> Any:
    given = {"uri": "pvc://raw/digits", "to": "pvc://store", "storage": "1Gi", "conn_id": "training"}
    return make(**{**given, **kwargs})


def trigger_of(ran: Any) -> Any:
    from airflow.sdk.module_loading import import_string
    from airflow.sdk.serde import deserialize

    return import_string(ran.message.classpath)(**json.loads(json.dumps(deserialize(ran.message.trigger_kwargs))))


def fire(trigger: Any) -> dict[str, Any]:
    async def events() -> list[Any]:
        return [event async for event in trigger.run()]

    (event,) = asyncio.run(events())
    payload: dict[str, Any] = json.loads(json.dumps(event.payload))
    return payload


@pytest.mark.cluster
def test_a_job_in_a_worker_and_deferred(worker: Any, room: Room) -> None:
    ran = worker(on_cluster())
    assert ran.state == "success", ran.error
    assert (ran.result["files"], ran.result["hit"]) == (2, False)
    assert ran.result["location"].startswith("pvc://store/")
    deferred = worker(on_cluster(deferrable=True), run_id="2")
    assert deferred.state == "deferred"
    event = fire(trigger_of(deferred))
    done = worker(on_cluster(), run_id="2", resume=("execute_complete", {"event": event}))
    assert done.state == "success", done.error
    assert done.result == {**ran.result, "hit": True}


@pytest.mark.cluster
def test_killed_in_a_worker_and_tried_again(worker: Any, room: Room) -> None:
    env = room.hold()

    def end() -> None:
        wait_until("the Job runs", room.running)
        os.kill(os.getpid(), signal.SIGTERM)

    killer = threading.Thread(target=end)
    killer.start()
    ran = worker(on_cluster(env=env, retries=1))
    killer.join()
    assert ran.state == "up_for_retry"
    assert isinstance(ran.error, SnapshotError)
    wait_until("the Job is gone", lambda: not room.jobs())
    room.held.unlink()
    ran = worker(on_cluster(env=env, retries=1), try_number=2)
    assert ran.state == "success", ran.error


@pytest.mark.cluster
def test_killed_while_deferred(worker: Any, room: Room) -> None:
    trigger = trigger_of(worker(on_cluster(env=room.hold(), deferrable=True)))
    wait_until("the Job runs", room.running)
    asyncio.run(trigger.on_kill())
    wait_until("the Job is gone", lambda: not room.jobs())


@pytest.mark.cluster
def test_what_the_job_refuses_is_not_tried_again(worker: Any, room: Room) -> None:
    deferred = worker(on_cluster(include=["*.parquet"], deferrable=True))
    event = fire(trigger_of(deferred))
    done = worker(on_cluster(retries=3), resume=("execute_complete", {"event": event}))
    assert done.state == "failed"
    assert "include: *.parquet matches none of the 2 files" in str(done.error)
