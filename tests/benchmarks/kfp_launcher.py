"""A pod that waits for a training: what it holds, and how soon it asks; beside the Kubeflow SDK's own wait.

All wait for the same TrainJob at the same stand-in for an API server, each in a process of its own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil
import yaml

from tests.benchmarks.measure import Row
from tests.kfp.apiserver import NAMESPACE, ApiServer
from trainer_ops.model import keys

__all__ = ["launcher"]

ROOT = Path(__file__).parents[2]
SDK = "kubeflow==0.5.0"
TURNS = 5
SETTLED_SECONDS = 1.5

OURS = """
import pathlib, sys
from trainer_ops.backends.kubernetes import access
access._ACCOUNT = pathlib.Path(sys.argv[1])
from trainer_ops.kfp.executor import main
sys.exit(main(sys.argv[2:]))
"""
THEIRS = """
import sys
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import TrainerClient
client = TrainerClient(KubernetesBackendConfig(namespace=sys.argv[2], config_file=sys.argv[1]))
client.wait_for_job_status("digits", timeout=600)
"""
# What a lightweight component costs before a line of its own has run.
EXECUTOR = "import kfp.dsl.executor_main, time; time.sleep(600)"


def launcher() -> Iterator[Row]:
    """A waiting KFP step: time to its first question, and memory."""
    with tempfile.TemporaryDirectory(prefix="bench-kfp-") as scratch:
        folder = Path(scratch)
        server = ApiServer(folder / "account")
        try:
            yield from _rows(server, folder)
        finally:
            server.close()


def _rows(server: ApiServer, folder: Path) -> Iterator[Row]:
    server.jobs["digits"] = _job()
    env = {**os.environ, **server.env}
    ours = _several(server, _step(folder, "wait_train_job", name="digits"), env)
    training = _several(server, _step(folder, "train_job", runtime="plain", command=["true"]), env)
    theirs = _several(server, _sdk(server, folder), None)
    beside = "the Kubeflow SDK cannot be installed", ""
    if theirs:
        beside = f"Kubeflow SDK {theirs[0]:.2f} s", f"{ours[0] / theirs[0]:.2f} x"
    yield Row("wait_train_job asks first after", f"{ours[0]:.2f} s", *beside, "< 1 s", ours[0] < 1.0)
    yield Row("train_job asks first after", f"{training[0]:.2f} s", "", "", "< 1 s", training[0] < 1.0)
    if theirs:
        beside = f"Kubeflow SDK {theirs[1] / 1e6:.0f} MB", f"{ours[1] / theirs[1]:.2f} x"
    yield Row("wait_train_job waits, resident", f"{ours[1] / 1e6:.1f} MB", *beside, "< 60 MB", ours[1] < 60e6)
    kfp = ROOT / ".venv-kfp" / "bin" / "python"
    beside = "", ""
    if kfp.exists():
        _, alone = _sample([str(kfp), "-c", EXECUTOR], None, None)
        beside = f"KFP's executor alone {alone / 1e6:.0f} MB", f"{training[1] / alone:.2f} x"
    yield Row("train_job waits, resident", f"{training[1] / 1e6:.1f} MB", *beside, "< 60 MB", training[1] < 60e6)


def _step(folder: Path, component: str, **inputs: object) -> list[str]:
    artifacts = {
        name: {"artifacts": [{"name": name, "uri": f"minio://b/1/{name}", "customPath": str(folder / name)}]}
        for name in ("model", "metrics", "report")
    }
    outputs = {"artifacts": artifacts, "outputFile": str(folder / "output.json")}
    given = json.dumps({"inputs": {"parameterValues": inputs}, "outputs": outputs})
    flags = ["--executor_input", given, "--function_to_execute", component]
    return [sys.executable, "-c", OURS, str(folder / "account"), *flags]


def _sdk(server: ApiServer, folder: Path) -> list[str] | None:
    """The SDK in an environment of its own, made once; None when it cannot be installed."""
    uv, home = ROOT / ".tools" / "bin" / "uv", ROOT / ".cache" / "clients" / "kubeflow-sdk"
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        env = {**os.environ, "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or str(ROOT / ".cache" / "uv")}
        try:
            for command in (
                ["venv", "--quiet", "--clear", "--python", sys.executable, str(home)],
                ["pip", "install", "--quiet", "--compile-bytecode", "--python", str(python), SDK],
            ):
                subprocess.run([str(uv), *command], env=env, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        (home / "complete").touch()
    config = folder / "kubeconfig"
    cluster = {"server": f"https://127.0.0.1:{server.port}", "certificate-authority": str(folder / "account/ca.crt")}
    context = {"cluster": "c", "user": "u", "namespace": NAMESPACE}
    named = {"clusters": ("cluster", cluster), "users": ("user", {"token": "t"}), "contexts": ("context", context)}
    parts = {many: [{"name": many[0], one: value}] for many, (one, value) in named.items()}
    config.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "c", **parts}))
    return [str(python), "-W", "ignore", "-c", THEIRS, str(config), NAMESPACE]


def _job() -> dict[str, object]:
    """A TrainJob that runs."""
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "metadata": {
            "name": "digits",
            "namespace": NAMESPACE,
            "uid": "u1",
            "labels": {},
            "resourceVersion": "2",
            "creationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
        "spec": {"runtimeRef": {"name": "plain", "kind": keys.CLUSTER_RUNTIME}, "trainer": {"numNodes": 1}},
        "status": {
            "jobsStatus": [{"name": "node", "ready": 1, "active": 1, "succeeded": 0, "failed": 0, "suspended": 0}]
        },
    }


def _several(server: ApiServer, command: Sequence[str] | None, env: Mapping[str, str] | None) -> tuple[float, ...]:
    """Medians of (seconds until the first question about a training or its runtime, resident bytes in the wait)."""
    if command is None:
        return ()

    def asked() -> int:
        return sum(one.verb == "GET" and ("trainjobs" in one.path or "runtimes" in one.path) for one in server.requests)

    _sample(command, env, asked)  # the first one reads its files from the disk
    samples = [_sample(command, env, asked) for _ in range(TURNS)]
    return tuple(statistics.median(column) for column in zip(*samples, strict=True))


def _sample(
    command: Sequence[str], env: Mapping[str, str] | None, asked: Callable[[], int] | None
) -> tuple[float, float]:
    before, begun = asked() if asked else 0, time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while asked and asked() == before and time.perf_counter() - begun < 60:
            time.sleep(0.002)
        took = time.perf_counter() - begun
        time.sleep(SETTLED_SECONDS if asked else 4 * SETTLED_SECONDS)
        assert process.poll() is None, f"{command[:3]} does not wait"
        return took, float(psutil.Process(process.pid).memory_info().rss)
    finally:
        process.kill()
        process.wait()
