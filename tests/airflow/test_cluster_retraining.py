"""dags/scheduled_retraining.py on a real control plane: data, snapshots and models on claims, steps in pods."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.controlplane.fixtures import Cluster, unused_name
from tests.controlplane.trainings import IMAGE

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).parents[2] / "dags" / "scripts" / "retrain_digits.py"
STEPS = ("snapshot", "decide", "train", "evaluate", "promote")


def runtime_with_models(name: str) -> dict[str, Any]:
    """What a platform team gives: XGBoost on nodes that have the volume of models."""
    volume = {"name": "models", "persistentVolumeClaim": {"claimName": "models"}}
    node = {"name": "node", "image": IMAGE, "volumeMounts": [{"name": "models", "mountPath": "/models"}]}
    pod = {"restartPolicy": "Never", "volumes": [volume], "containers": [node]}
    template = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {
            "mlPolicy": {"numNodes": 1, "xgboost": {}},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": template}]}},
        },
    }


@pytest.fixture
def runtime(control_plane: Cluster) -> Iterator[str]:
    """Its name; it is there for one test."""
    if control_plane.kubelet.mode == "plain":
        pytest.skip("it needs containers: what a Job mounts is at paths of its own")
    name = unused_name("xgboost-models")
    control_plane.api.create(runtime_with_models(name))
    yield name
    control_plane.api.delete("ClusterTrainingRuntime", name)


@pytest.fixture
def claims(control_plane: Cluster, cluster_namespace: str) -> Callable[[str], Path]:
    """The folder behind a claim: ``raw`` has the data, ``models`` the models."""
    for name in ("raw", "models"):
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        obj = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        control_plane.api.create(obj, namespace=cluster_namespace)
    return lambda name: control_plane.kubelet.claim(cluster_namespace, name)


def test_three_rounds(
    dags: Any,
    xcoms: Callable[..., list[Any]],
    states: Callable[[Any], dict[str, str]],
    runtime: str,
    claims: Callable[[str], Path],
    cluster_target: str,
    cluster_namespace: str,
    control_plane: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = urlsplit(cluster_target)
    extra = {"kube_config_path": parse_qs(url.query)["kubeconfig"][0], "cluster_context": url.netloc}
    connection = {"conn_type": "kubernetes", "extra": {**extra, "namespace": cluster_namespace}}
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING", json.dumps(connection))
    conf = {
        "data": "pvc://raw/digits",
        "store": "pvc://models/snapshots",
        "runtime": runtime,
        "models": "/models/trained",
        "registry": (tmp_path / "champions").as_uri(),
        "copy": False,  # this worker does not mount the volume
        "rounds": 8,
    }

    def deliver(rows: int) -> None:
        subprocess.run([sys.executable, str(SCRIPT), "data", str(claims("raw") / "digits"), str(rows)], check=True)

    def run() -> tuple[Any, dict[str, str]]:
        ran = dags["scheduled_retraining"].test(run_conf=conf)
        return ran, states(ran)

    def champion() -> Any:
        return json.loads((tmp_path / "champions" / "champion.json").read_text())

    deliver(900)
    ran, ends = run()
    assert ends == dict.fromkeys(STEPS, "success"), capsys.readouterr().out
    first = champion()
    assert first["version"] == 1
    assert first["metrics"]["accuracy"] > 0.8
    # Where the pods see it, in the volume that outlives them.
    assert first["model_uri"].startswith("file:///models/trained/")
    assert (claims("models") / first["model_uri"].removeprefix("file:///models/")).stat().st_size > 1000
    (snapshot,) = xcoms(ran, "snapshot")
    assert snapshot["location"].startswith("pvc://models/snapshots/")

    before = control_plane.api.list("TrainJob", namespace=cluster_namespace)
    assert len(before) == 2
    _, ends = run()
    assert ends == {"snapshot": "success", **dict.fromkeys(STEPS[1:], "skipped")}
    assert control_plane.api.list("TrainJob", namespace=cluster_namespace) == before

    deliver(150)
    ran, ends = run()
    assert ends == {**dict.fromkeys(STEPS, "success"), "promote": "skipped"}, capsys.readouterr().out
    (text,) = xcoms(ran, "promote", "text")
    assert text.startswith("not promoted, version 1 stays: accuracy 0.")
    (scores,) = xcoms(ran, "evaluate", "metrics")
    # The champion was measured on the same rows, from the volume.
    assert scores["accuracy"] < scores["champion_accuracy"]
    assert champion() == first
