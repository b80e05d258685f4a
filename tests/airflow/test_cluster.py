"""The operator on a real control plane: a connection of type ``kubernetes`` in place of ``trainer-local``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.controlplane.fixtures import Cluster
from tests.controlplane.plane import wait_until
from trainer_ops import errors

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(240)]

HOLDS = """
import time, trainer_ops
print("holding", flush=True)
time.sleep({seconds})
trainer_ops.report({{"a": 1}})
"""


@pytest.fixture
def extra(cluster_target: str) -> dict[str, Any]:
    """The fields of a connection of type ``kubernetes`` that mean this cluster."""
    url = urlsplit(cluster_target)
    path = parse_qs(url.query)["kubeconfig"][0]
    return {"kube_config_path": path, "cluster_context": url.netloc, "namespace": url.path.strip("/")}


@pytest.fixture
def conn(extra: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Defines the connection ``training``; called again it changes it."""

    def define(**changed: Any) -> None:
        text = json.dumps({"conn_type": "kubernetes", "extra": {**extra, **changed}})
        monkeypatch.setenv("AIRFLOW_CONN_TRAINING", text)

    define()
    return define


@pytest.fixture
def make(conn: Any, tmp_path: Path) -> Callable[..., Any]:
    """A task that ships a script to this cluster."""

    def task(text: str, **kwargs: Any) -> Any:
        from airflow.sdk import DAG

        from trainer_ops.airflow import TrainJobOperator

        script = tmp_path / "train.py"
        script.write_text(text)
        given = {"task_id": "train", "runtime": "xgboost-distributed", "script": str(script), "conn_id": "training"}
        with DAG("digits", schedule=None):
            return TrainJobOperator(**{**given, **kwargs})

    return task


@pytest.fixture
def sigterm_is_restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def jobs(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    return cluster.api.list("TrainJob", namespace=namespace)


def running(cluster: Cluster, namespace: str) -> bool:
    """Whether a pod of the namespace runs and has said something."""
    return any(pod["status"].get("phase") == "Running" for pod in cluster.pods(namespace))


def sigterm_when(cluster: Cluster, namespace: str) -> threading.Thread:
    """What ends a worker, as soon as a training runs."""

    def wait() -> None:
        wait_until("a pod runs", lambda: running(cluster, namespace))
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("given", ["a file", "its content"])
def test_the_example_trains_unchanged(
    given: str,
    dags: Any,
    xcoms: Callable[..., list[Any]],
    conn: Callable[..., None],
    extra: Mapping[str, Any],
    cluster_namespace: str,
    control_plane: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if given == "its content":
        conn(kube_config=Path(extra["kube_config_path"]).read_text(), kube_config_path=None)
    run = dags["digits"].test(run_conf={"rounds": 6})
    text = capsys.readouterr().out
    assert str(run.state) == "success", text
    (outcome,) = xcoms(run, "train")
    assert outcome["metrics"]["accuracy"] > 0.9
    assert outcome["target"].startswith(f"kubernetes://{extra['cluster_context']}/{cluster_namespace}")
    assert xcoms(run, "report") == [f"accuracy {outcome['metrics']['accuracy']:.3f}   model {outcome['model_uri']}"]
    assert [job["metadata"]["name"] for job in jobs(control_plane, cluster_namespace)] == [outcome["name"]]
    assert "[node-1] round  6" in text
    assert "admin-token" not in text
    assert "admin-token" not in json.dumps(xcoms(run, "train", "trainjob"))


def test_in_a_worker_and_deferred_give_the_same(make: Any, worker: Any) -> None:
    text = HOLDS.format(seconds=1)
    sync = worker(make(text, num_nodes=2))
    assert sync.state == "success", sync.error
    ran = worker(make(text, num_nodes=2, deferrable=True), run_id="deferred")
    assert ran.state == "deferred"
    assert "admin-token" not in json.dumps(ran.message.model_dump(mode="json"))
    event = fire(trigger_of(ran))
    done = worker(make(text), run_id="deferred", resume=("execute_complete", {"event": event}))
    assert done.state == "success", done.error
    assert sync.xcoms["a"] == done.xcoms["a"] == 1
    assert set(sync.result) == set(done.result)


def trigger_of(ran: Any) -> Any:
    """The trigger as the triggerer makes it: from JSON, by its path."""
    from airflow.sdk.module_loading import import_string
    from airflow.sdk.serde import deserialize

    kwargs = json.loads(json.dumps(deserialize(ran.message.trigger_kwargs)))
    return import_string(ran.message.classpath)(**kwargs)


def fire(trigger: Any) -> dict[str, Any]:
    """Run it as the triggerer does."""

    async def events() -> list[Any]:
        return [event async for event in trigger.run()]

    (event,) = asyncio.run(events())
    payload: dict[str, Any] = json.loads(json.dumps(event.payload))
    return payload


def test_a_failure_is_the_typed_error_with_its_cause(make: Any, worker: Any) -> None:
    ran = worker(make("print('so far')\nopen('/data/train.csv')\n", max_restarts=0))
    assert ran.state == "failed"
    assert isinstance(ran.error, errors.TrainJobFailed)
    assert "No such file or directory: '/data/train.csv'" in str(ran.error)
    assert ran.xcoms["diagnosis"]["category"] in ("exit_code", "restarts_exhausted")


@pytest.mark.usefixtures("sigterm_is_restored")
def test_on_kill_deletes_on_the_cluster(make: Any, worker: Any, control_plane: Cluster, cluster_namespace: str) -> None:
    killer = sigterm_when(control_plane, cluster_namespace)
    ran = worker(make(HOLDS.format(seconds=600)))
    killer.join()
    assert ran.state == "failed"
    assert isinstance(ran.error, errors.TrainJobDeleted)
    assert jobs(control_plane, cluster_namespace) == []
    wait_until("its pods are gone", lambda: not control_plane.pods(cluster_namespace))


def test_a_user_who_kills_the_deferred_task(
    make: Any, worker: Any, control_plane: Cluster, cluster_namespace: str
) -> None:
    trigger = trigger_of(worker(make(HOLDS.format(seconds=600), deferrable=True)))
    wait_until("a pod runs", lambda: running(control_plane, cluster_namespace))
    asyncio.run(trigger.on_kill())
    assert jobs(control_plane, cluster_namespace) == []


@pytest.mark.usefixtures("sigterm_is_restored")
def test_a_retry_adopts_what_goes_on(make: Any, worker: Any, control_plane: Cluster, cluster_namespace: str) -> None:
    text = HOLDS.format(seconds=5)
    killer = sigterm_when(control_plane, cluster_namespace)
    first = worker(make(text, on_kill="keep", retries=1))
    killer.join()
    assert first.state == "up_for_retry"
    [job] = jobs(control_plane, cluster_namespace)
    second = worker(make(text, retries=1), try_number=2)
    assert second.state == "success", second.error
    assert second.result["uid"] == job["metadata"]["uid"]
    assert second.result["metrics"] == {"a": 1}
    assert len(jobs(control_plane, cluster_namespace)) == 1


def test_what_is_wrong_fails_without_a_retry(make: Any, worker: Any, conn: Callable[..., None]) -> None:
    conn(cluster_context="other")
    ran = worker(make("pass", retries=3))
    assert ran.state == "failed"
    assert type(ran.error).__name__ == "AirflowFailException"
    assert 'no context "other"' in str(ran.error)
