"""KFP's local runner in a folder of the test's own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kfp.apiserver import ApiServer

HAS_KFP = importlib.util.find_spec("kfp") is not None
if not HAS_KFP:
    collect_ignore_glob = [
        "test_component.py",
        "test_function.py",
        "test_golden.py",
        "test_local.py",
        "test_migration_calls.py",
        "test_examples.py",
        "test_retraining.py",
    ]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A target of this test's own, which nothing outlives."""
    from trainer_ops.lifecycle.target import open_backend

    target = f"local://{tmp_path / 'engine'}"
    monkeypatch.setenv("TRAINER_OPS_TARGET", target)
    backend = open_backend(target)
    yield target
    for job in backend.list():
        backend.delete(job["metadata"]["name"])
    backend.close()


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Any]:
    """``kfp.local`` with SubprocessRunner, restored afterwards: kfp keeps it in a global."""
    from kfp import local
    from kfp.local import config

    local.init(local.SubprocessRunner(use_venv=False), pipeline_root=str(tmp_path / "root"), raise_on_error=True)
    yield local
    config.LocalExecutionConfig.instance = None


# The id of the pipeline run that all steps of a test belong to.
RUN = "3f1c2b7e-0d5a-4c4e-9a51-6a1d5d0f7c11"
_RUN = "\nimport sys; from trainer_ops.kfp.executor import main; sys.exit(main(sys.argv[1:]))"
_AS_POD = "access._ACCOUNT = pathlib.Path(%r)"


@dataclass(frozen=True)
class Step:
    """A component's process as KFP starts it, with the output URIs that its driver gives the task once."""

    component: str
    folder: Path
    inputs: dict[str, Any]

    @property
    def executor_input(self) -> str:
        uri = f"minio://mlpipeline/v2/artifacts/p/{RUN}/{self.component}/{self.folder.name}"
        artifacts = {
            name: {"artifacts": [{"name": name, "uri": f"{uri}/{name}", "customPath": str(self.folder / name)}]}
            for name in ("model", "metrics", "report", "trainjob", "dataset")
        }
        outputs = {"artifacts": artifacts, "outputFile": str(self.folder / "output.json")}
        return json.dumps({"inputs": {"parameterValues": self.inputs}, "outputs": outputs})

    @property
    def argv(self) -> list[str]:
        program = [sys.executable, "-m", "trainer_ops.kfp.executor"]
        return [*program, "--executor_input", self.executor_input, "--function_to_execute", self.component]

    def start(self, patch: str = "", **options: Any) -> subprocess.Popen[str]:
        """Start it, in a process that first runs ``patch`` when that is given."""
        argv = self.argv if not patch else [sys.executable, "-c", patch + _RUN, *self.argv[3:]]
        return subprocess.Popen(argv, text=True, **options)

    def start_in(self, cluster: ApiServer, *, first: str = "", **options: Any) -> subprocess.Popen[str]:
        """Start it as in a pod of a cluster, after running ``first``."""
        as_pod = (
            f"import pathlib; from trainer_ops.backends.kubernetes import access\n{_AS_POD % str(cluster.folder)}\n"
        )
        return self.start(f"{first}\n{as_pod}", env={**os.environ, **cluster.env}, **options)

    @property
    def written(self) -> dict[str, Any]:
        """The output parameters."""
        return self._output["parameterValues"]  # type: ignore[no-any-return]

    def artifact(self, name: str) -> dict[str, Any]:
        """An output artifact."""
        return self._output["artifacts"][name]["artifacts"][0]  # type: ignore[no-any-return]

    @property
    def _output(self) -> Any:
        return json.loads((self.folder / "output.json").read_text())


@pytest.fixture
def step(tmp_path: Path) -> Callable[..., Step]:
    """Makes steps; two of the same component have the same URIs."""

    def make(component: str, *, task: str = "5f0c", **inputs: Any) -> Step:
        folder = tmp_path / task
        folder.mkdir(exist_ok=True)
        return Step(component, folder, inputs)

    return make


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A stand-in for the API server of the cluster that steps run in."""
    for name in ("KUBECONFIG", "TRAINER_OPS_TARGET", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = ApiServer(tmp_path / "account")
    yield server
    server.close()
