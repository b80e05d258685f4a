"""KFP steps as processes in the tests' cluster: started as KFP starts them, with a pod's service account."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.fixtures import Cluster
from tests.controlplane.trainings import token_of

__all__ = ["ACCOUNT", "POD", "RUN_ID", "Steps", "allowed", "apply", "steps"]

ACCOUNT = "pipeline-runner"
POD = "digits-x7-1"
# The id of the pipeline run that all steps of a test belong to.
RUN_ID = "3f1c2b7e-0d5a-4c4e-9a51-6a1d5d0f7c11"
RUN = """
import pathlib, sys
from trainer_ops.backends.kubernetes import access
access._ACCOUNT = pathlib.Path(sys.argv[1])
from trainer_ops.kfp.executor import main
sys.exit(main(sys.argv[2:]))
"""


@dataclass
class Steps:
    """Starts steps in a namespace of a cluster."""

    cluster: Cluster
    namespace: str
    folder: Path
    pod_uid: str = ""

    def start(
        self, component: str, *, task: str = "5f0c", given: dict[str, Any] | None = None, **inputs: Any
    ) -> subprocess.Popen[str]:
        """Start it; ``given`` are input artifacts by name."""
        uri = f"minio://mlpipeline/v2/artifacts/p/{RUN_ID}/{component}/{task}"
        artifacts = {
            name: {"artifacts": [{"name": name, "uri": f"{uri}/{name}", "customPath": str(self.folder / task / name)}]}
            for name in ("model", "metrics", "report", "trainjob", "dataset")
        }
        outputs = {"artifacts": artifacts, "outputFile": str(self.folder / task / "output.json")}
        listed = {name: {"artifacts": [one]} for name, one in (given or {}).items()}
        asked = json.dumps({"inputs": {"parameterValues": inputs, "artifacts": listed}, "outputs": outputs})
        argv = [sys.executable, "-c", RUN, str(self.folder / "account"), "--executor_input", asked]
        env = {
            **{name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "TRAINER_OPS_TARGET")},
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.cluster.plane.port),
            "KFP_POD_NAME": POD,
            "KFP_POD_UID": self.pod_uid,
        }
        argv += ["--function_to_execute", component]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(argv, env=env, **pipes)

    def written(self, task: str = "5f0c") -> Any:
        return json.loads((self.folder / task / "output.json").read_text())

    def trainjobs(self) -> list[dict[str, Any]]:
        return self.cluster.api.list("TrainJob", namespace=self.namespace)


def apply(cluster: Cluster, text: str) -> list[tuple[str, str]]:
    made = []
    for raw in yaml.safe_load_all(text):
        cluster.api.create(raw, namespace=raw["metadata"].get("namespace") or "")
        made.append((raw["kind"], raw["metadata"]["name"]))
    return made


@pytest.fixture
def steps(control_plane: Cluster, cluster_namespace: str, tmp_path: Path) -> Steps:
    """A service account without any rights."""
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(token_of(control_plane, cluster_namespace, ACCOUNT))
    (account / "namespace").write_text(cluster_namespace)
    (account / "ca.crt").write_bytes(Path(control_plane.plane.file("ca.crt")).read_bytes())
    return Steps(control_plane, cluster_namespace, tmp_path)


@pytest.fixture
def allowed(control_plane: Cluster, cluster_namespace: str, steps: Steps, capsys: Any) -> Iterator[Steps]:
    """The same with what ``trainer-ops rbac`` prints."""
    from trainer_ops.cli.app import run

    assert run(["rbac", "--namespace", cluster_namespace, "--service-account", ACCOUNT]) == 0
    made = apply(control_plane, capsys.readouterr().out)
    yield steps
    for kind, name in made:
        if kind.startswith("Cluster"):
            control_plane.api.delete(kind, name, namespace="")
