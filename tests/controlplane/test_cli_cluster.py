"""The command line with a cluster as its target: what is printed, and every exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.fixtures import Cluster
from tests.controlplane.plane import free_port, wait_until
from tests.controlplane.trainings import target_of, token_of
from trainer_ops.cli import main

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(180)]

RUN = ("run", "--runtime", "xgboost-distributed")
TRAINS = """
import os, trainer_ops
node = os.environ["DMLC_TASK_ID"]
print("line of", node, flush=True)
trainer_ops.report({"accuracy": 0.75}, model_uri="s3://models/7")
"""
HOLDS = "import time\nprint('holding', flush=True)\ntime.sleep(600)\n"
BREAKS = "print('so far', flush=True)\nopen('/data/train.csv')\n"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Cli = Callable[..., Ran]


@pytest.fixture
def cli(cluster_target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """A command line in this process; the cluster is the target of the environment."""
    monkeypatch.setenv("TRAINER_OPS_TARGET", cluster_target)

    def run(*argv: str) -> Ran:
        capsys.readouterr()
        code = main(argv)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


@pytest.fixture
def beside(cluster_target: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Command lines in processes of their own."""
    started: list[subprocess.Popen[str]] = []

    def start(*argv: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", "import sys; from trainer_ops.cli import main; sys.exit(main())", *argv],
                env={**os.environ, "TRAINER_OPS_TARGET": cluster_target},
                cwd=Path(__file__).parents[2],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "train.py"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def holding(cli: Cli, script: Callable[[str], str], cluster_namespace: str, control_plane: Cluster) -> str:
    """The name of a training that goes on."""
    ran = cli("submit", "--runtime", "xgboost-distributed", "-o", "json", "--", script(HOLDS))
    assert ran.code == 0, ran.err
    name = str(json.loads(ran.out)["name"])
    runs(control_plane, cluster_namespace, name)
    return name


def runs(cluster: Cluster, namespace: str, name: str) -> None:
    """Wait until its pods are ready."""

    def ready(job: Any) -> bool:
        return any(step["ready"] for step in (job.get("status") or {}).get("jobsStatus", ()))

    cluster.wait("TrainJob", name, namespace, ready)


def states(cli: Cli, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli("status", name, "-o", "json").out)
    return found


def test_run_and_everything_that_can_be_asked_afterwards(cli: Cli, script: Callable[[str], str]) -> None:
    path = script(TRAINS)
    ran = cli(*RUN, "--nodes", "2", "--key", "monday", "--", path)
    assert ran.code == 0, ran.out + ran.err
    lines = ran.out.splitlines()
    assert {"[node-0] line of 0", "[node-1] line of 1"} <= set(lines)
    assert "trained in" in ran.out
    assert "accuracy 0.75" in ran.out
    assert "model s3://models/7" in ran.out
    name = next(line.split()[1] for line in lines if "trained in" in line)

    again = cli(*RUN, "--nodes", "2", "--key", "monday", "-o", "json", "--", path)
    assert again.code == 0
    assert "has trained before: this is its result" in again.err
    assert json.loads(again.out)["metrics"] == {"accuracy": 0.75}

    assert cli("wait", name, "-o", "json").code == 0
    assert states(cli, name)["phase"] == "succeeded"
    assert f"{name}  trained" in cli("list").out
    assert sorted(cli("logs", name).out.splitlines()) == ["[node-0] line of 0", "[node-1] line of 1"]
    assert cli("logs", name, "--node", "1").out.splitlines() == ["[node-1] line of 1"]


def test_a_failure_is_1_and_explains_itself(cli: Cli, script: Callable[[str], str]) -> None:
    ran = cli(*RUN, "--nodes", "1", "--max-restarts", "0", "--", script(BREAKS))
    assert ran.code == 1
    text = ran.out + ran.err
    assert "exit code 1" in text
    assert "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.csv'" in text
    assert "Check the path /data/train.csv" in text


def test_a_limit_is_3_and_leaves_the_training_alone(cli: Cli, holding: str) -> None:
    ran = cli("wait", holding, "--wait-timeout", "1")
    assert ran.code == 3
    assert f"trainer-ops cancel {holding}" in ran.out + ran.err
    assert not states(cli, holding)["finished"]
    assert cli("cancel", holding).code == 0


def test_cancel_is_4_for_whoever_waits(
    cli: Cli, holding: str, beside: Callable[..., subprocess.Popen[str]], control_plane: Cluster, cluster_namespace: str
) -> None:
    waiting = beside("wait", holding)
    assert waiting.stdout is not None
    next(line for line in waiting.stdout if "holding" in line)
    ran = cli("cancel", holding, "--wait", "60s")
    assert ran.code == 0, ran.err
    assert waiting.wait(60) == 4
    assert control_plane.api.get("TrainJob", holding, namespace=cluster_namespace) is None
    wait_until("its pods are gone", lambda: not control_plane.pods(cluster_namespace, holding))


def test_suspend_and_resume(cli: Cli, holding: str, control_plane: Cluster, cluster_namespace: str) -> None:
    assert cli("suspend", holding).code == 0
    wait_until("its pods are gone", lambda: not control_plane.pods(cluster_namespace, holding))
    wait_until("it is suspended", lambda: states(cli, holding)["phase"] == "suspended")
    assert cli("resume", holding).code == 0
    runs(control_plane, cluster_namespace, holding)
    wait_until("it runs", lambda: states(cli, holding)["phase"] == "running")
    assert cli("cancel", holding).code == 0


def test_logs_are_followed_to_the_end(
    cli: Cli, beside: Callable[..., subprocess.Popen[str]], script: Callable[[str], str]
) -> None:
    slow = "import time\nfor i in range(5): print('line', i, flush=True); time.sleep(0.5)\n"
    ran = cli("submit", "--runtime", "xgboost-distributed", "--nodes", "2", "-o", "json", "--", script(slow))
    name = str(json.loads(ran.out)["name"])
    out, _ = (follower := beside("logs", "-f", name)).communicate(timeout=90)
    assert follower.returncode == 0, out
    assert sorted(out.splitlines()) == [f"[node-{node}] line {i}" for node in range(2) for i in range(5)]


def test_ctrl_c_detaches_with_3(
    cli: Cli, beside: Callable[..., subprocess.Popen[str]], script: Callable[[str], str]
) -> None:
    process = beside(*RUN, "--key", "detached", "--", script(HOLDS))
    assert process.stdout is not None
    line = next(line for line in process.stdout if "  running" in line)
    process.send_signal(signal.SIGINT)
    said = process.stdout.read()
    assert process.wait(30) == 3, said
    name = line.split()[0]
    assert f"detached: {name} goes on training." in said
    assert f"trainer-ops wait {name}" in said
    assert not states(cli, name)["finished"]
    assert cli("cancel", name).code == 0


MANIFEST = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: digits}}
spec:
  runtimeRef: {{name: {runtime}}}
  trainer: {{numNodes: {nodes}, command: [sleep, "1"]}}
"""


def test_manifests_are_judged_against_the_cluster(cli: Cli, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(MANIFEST.format(runtime="torch-distributed", nodes=2))
    bad.write_text(MANIFEST.format(runtime="torch-distributed", nodes=0))
    target = os.environ["TRAINER_OPS_TARGET"]
    assert cli("validate", str(good), "--target", target).code == 0
    refused = cli("validate", str(bad), "--target", target)
    assert refused.code == 2
    assert "spec.trainer.numNodes" in refused.out + refused.err
    ran = cli("run", "-f", str(good))
    assert ran.code == 0, ran.out + ran.err
    assert "digits  trained" in cli("list").out


def test_the_runtimes_of_the_cluster(cli: Cli) -> None:
    listed = cli("runtimes")
    assert listed.code == 0
    assert {"torch-distributed", "xgboost-distributed", "deepspeed-distributed"} <= {
        line.split()[0] for line in listed.out.splitlines()
    }
    assert "torch-distributed" in cli("runtimes", "torch-distributed").out
    assert "kind: ClusterTrainingRuntime" in cli("runtimes", "torch-distributed", "-o", "yaml").out


# -- what can be wrong ------------------------------------------------------------------------------------------------


def test_a_runtime_that_is_not_there(cli: Cli) -> None:
    ran = cli("run", "--runtime", "torch-distribted", "--", "true")
    assert ran.code == 2
    assert 'runtime not found: "torch-distribted" on kubernetes://' in ran.err
    assert "Did you mean torch-distributed?" in ran.err


def test_no_such_context(cli: Cli, cluster_target: str) -> None:
    ran = cli("list", "--target", cluster_target.replace("://admin-", "://other-"))
    assert ran.code == 2
    assert 'no context "other-' in ran.err
    assert "admin-test-" in ran.err  # what there is


def test_a_namespace_that_is_not_there(cli: Cli, control_plane: Cluster) -> None:
    ran = cli(*RUN, "--target", target_of(control_plane, "absent"), "--", "true")
    assert ran.code == 2
    assert 'namespaces "absent" not found' in ran.err


def test_rights_that_are_missing(cli: Cli, control_plane: Cluster, cluster_namespace: str) -> None:
    target = target_of(control_plane, cluster_namespace, token_of(control_plane, cluster_namespace, "nobody"))
    user = f"system:serviceaccount:{cluster_namespace}:nobody"
    ran = cli("list", "--target", target)
    assert ran.code == 2
    assert f"not allowed: listing trainjobs in namespace {cluster_namespace} as {user}" in ran.err
    assert f"that allows list on trainjobs.trainer.kubeflow.org, bound to {user}" in ran.err


def test_the_rights_that_are_printed_are_enough(
    cli: Cli, script: Callable[[str], str], control_plane: Cluster, cluster_namespace: str, allowed: str
) -> None:
    target = target_of(control_plane, cluster_namespace, allowed)
    ran = cli(*RUN, "--nodes", "2", "--target", target, "-o", "json", "--", script(TRAINS))
    assert ran.code == 0, ran.out + ran.err
    assert json.loads(ran.out)["metrics"] == {"accuracy": 0.75}
    assert "may not be" not in ran.err  # nothing that it has to go without
    name = json.loads(ran.out)["name"]
    assert cli("logs", name, "--target", target).code == 0
    assert cli("runtimes", "--target", target).code == 0
    ran = cli("submit", "--runtime", "xgboost-distributed", "--target", target, "-o", "json", "--", script(HOLDS))
    name = json.loads(ran.out)["name"]
    for command in ("suspend", "resume", "cancel"):
        ran = cli(command, name, "--target", target)
        assert ran.code == 0, ran.err


@pytest.fixture
def allowed(cli: Cli, control_plane: Cluster, cluster_namespace: str) -> Iterator[str]:
    """The token of a ServiceAccount with the rights that ``trainer-ops rbac`` prints."""
    printed = cli("rbac", "--namespace", cluster_namespace, "--service-account", f"{cluster_namespace}:pipelines")
    assert printed.code == 0, printed.err
    made = list(yaml.safe_load_all(printed.out))
    for obj in made:
        control_plane.api.create(obj, namespace=cluster_namespace)
    yield token_of(control_plane, cluster_namespace, "pipelines")
    for obj in made:
        control_plane.api.delete(obj["kind"], obj["metadata"]["name"], namespace=cluster_namespace)


def test_the_target_does_not_answer(cli: Cli, control_plane: Cluster) -> None:
    path = control_plane.plane.write_kubeconfig("t", "away", server=f"https://127.0.0.1:{free_port()}")
    target = f"kubernetes://away/default?kubeconfig={path}"
    assert cli("list", "--target", target).code == 5
    ran = cli(*RUN, "--target", target, "--unreachable-timeout", "1", "--", "true")
    assert ran.code == 5
    assert "no answer from kubernetes://away/default" in ran.out + ran.err


def test_a_cluster_without_trainer(cli: Cli, control_plane: Cluster, cluster_namespace: str) -> None:
    from tests.faults.proxy import FaultProxy

    plane = control_plane.plane
    proxy = FaultProxy(plane.port, plane.file("ca.crt"))
    try:
        for plural in ("trainjobs", "clustertrainingruntimes", "trainingruntimes"):
            # What this API server answers for a group that nobody has installed.
            proxy.when("*", plural).answer(404, "404 page not found\n")
        path = plane.write_kubeconfig("admin-token", "bare", server=f"http://127.0.0.1:{proxy.port}")
        target = f"kubernetes://bare/{cluster_namespace}?kubeconfig={path}"
        for argv in (("list",), (*RUN,)):
            ran = cli(*argv, "--target", target, *(("--", "true") if argv == RUN else ()))
            assert ran.code == 2
            assert "the cluster does not serve this API" in ran.err
            assert "Install Kubeflow Trainer 2.2 or newer on this cluster" in ran.err
    finally:
        proxy.close()
