"""The last check of a conversion: a fault of any rule shows as a difference that no finding tells."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer_ops.migrate import convert as module
from trainer_ops.migrate.convert import Converted, convert
from trainer_ops.migrate.ledger import Ledger
from trainer_ops.migrate.normalise import V1Job, normalise
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.simulate.compare import Difference, compare
from trainer_ops.migrate.simulate.fleet import Behaviour, Fleet, SimContainer, SimPod
from trainer_ops.migrate.simulate.named import EXTRAS
from trainer_ops.migrate.simulate.play import MAX_PODS, play

CORPUS = Path(__file__).with_name("corpus")
Fault = Callable[[dict[str, Any], dict[str, Any]], None]


def job(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CORPUS / f"{name}.yaml").read_text())
    return found


def unnamed(name: str, fault: Fault, **options: Any) -> list[str]:
    """Topics and what of the differences that nothing tells, after a fault in what a conversion emits."""
    done = convert(job(name), Options(**options))
    assert done.trainjob is not None
    trainjob, runtime = copy.deepcopy(done.trainjob), copy.deepcopy(done.runtime)
    fault(trainjob["spec"], runtime["spec"] if runtime is not None else {})
    read = normalise(done.raw, Ledger(done.raw))
    assert isinstance(read, V1Job)
    found, _ = play(read, trainjob, runtime, Options(**options), done.findings)
    return [f"{one.topic} {one.what}" for one in found if not one.code]


def pod_of(runtime: dict[str, Any], index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = runtime["template"]["spec"]["replicatedJobs"][index]["template"]["spec"]["template"]["spec"]
    return found


def _env(name: str, value: str) -> Fault:
    def fault(spec: dict[str, Any], runtime: dict[str, Any]) -> None:
        held = spec["trainer"]["env"]
        held[:] = [{"name": name, "value": value} if item["name"] == name else item for item in held]

    return fault


def _no_env(name: str) -> Fault:
    def fault(spec: dict[str, Any], runtime: dict[str, Any]) -> None:
        spec["trainer"]["env"] = [item for item in spec["trainer"]["env"] if item["name"] != name]

    return fault


def _set(field: str, value: Any) -> Fault:
    return lambda spec, runtime: spec["trainer"].__setitem__(field, value)


def _arg(old: str, new: str) -> Fault:
    def fault(spec: dict[str, Any], runtime: dict[str, Any]) -> None:
        for field in ("command", "args"):
            if field in spec["trainer"]:
                spec["trainer"][field] = [text.replace(old, new) for text in spec["trainer"][field]]

    return fault


def _pod(field: str, value: Any, index: int = 0) -> Fault:
    return lambda spec, runtime: pod_of(runtime, index).__setitem__(field, value)


def _no_pod(field: str, index: int = 0) -> Fault:
    return lambda spec, runtime: pod_of(runtime, index).__delitem__(field)


def _policy(field: str, value: Any) -> Fault:
    return lambda spec, runtime: runtime["mlPolicy"]["mpi"].__setitem__(field, value)


@pytest.mark.parametrize(
    ("name", "fault", "expected"),
    [
        pytest.param("pytorch-simple", _no_env("RANK"), {"environment RANK"}, id="no rank"),
        pytest.param("pytorch-simple", _env("WORLD_SIZE", "3"), {"environment WORLD_SIZE"}, id="another world"),
        pytest.param(
            "pytorch-simple",
            _env("MASTER_ADDR", "pytorch-simple-node-0-1.pytorch-simple"),
            {"environment MASTER_ADDR"},
            id="another first node",
        ),
        pytest.param("pytorch-simple", _env("MASTER_ADDR", "elsewhere"), {"environment MASTER_ADDR"}, id="nowhere"),
        pytest.param("pytorch-simple", _set("numNodes", 3), {"nodes number", "pods seat"}, id="one node more"),
        pytest.param("pytorch-simple", _set("args", ["--again"]), {"command argv"}, id="an argument more"),
        pytest.param("pytorch-simple", _set("image", "other:1"), {"image image"}, id="another image"),
        pytest.param(
            "pytorch-torchrun",
            _set("numProcPerNode", 1),
            {"processes of a node"},
            id="one process where there were two",
        ),
        pytest.param("pytorch-volcano", _no_pod("schedulerName"), {"pod schedulerName"}, id="another scheduler"),
        pytest.param("pytorch-volcano", lambda s, r: r.pop("podGroupPolicy"), {"gang gang"}, id="no gang"),
        pytest.param(
            "pytorch-volcano",
            _set("resourcesPerNode", {"limits": {"nvidia.com/gpu": 2}}),
            {
                "totals nvidia.com/gpu",
                "resources limits.nvidia.com/gpu",
                "resources requests.nvidia.com/gpu",
            },
            id="half of the GPUs",
        ),
        pytest.param("pytorch-kueue", lambda s, r: s.pop("suspend"), {"suspended suspended"}, id="not suspended"),
        pytest.param(
            "pytorch-exitcode", lambda s, r: s.pop("activeDeadlineSeconds"), set(), id="no deadline, of which is told"
        ),
        pytest.param("pytorch-host-network", _no_pod("hostIPC"), {"pod hostIPC"}, id="a field of the pod"),
        pytest.param(
            "pytorch-host-network", _no_pod("initContainers"), {"init container number"}, id="no init container"
        ),
        pytest.param(
            "pytorch-host-network", _no_pod("serviceAccountName"), {"pod serviceAccountName"}, id="no account"
        ),
        pytest.param(
            "pytorch-host-network",
            lambda s, r: pod_of(r)["containers"].pop(),
            {"sidecar number"},
            id="no sidecar",
        ),
        pytest.param(
            "pytorch-host-network",
            lambda s, r: pod_of(r)["containers"][0].pop("envFrom"),
            {"environment envFrom"},
            id="no source of variables",
        ),
        pytest.param(
            "pytorch-host-network",
            lambda s, r: pod_of(r)["containers"][0].pop("securityContext"),
            {"security securityContext"},
            id="fewer rights",
        ),
        pytest.param("pytorch-sidecars", _no_pod("volumes"), {"volumes logs"}, id="no volumes"),
        pytest.param(
            "pytorch-sidecars",
            lambda s, r: pod_of(r)["containers"][1].pop("volumeMounts"),
            {"mounts shipper: /logs"},
            id="a sidecar's mounts",
        ),
        pytest.param(
            "pytorch-sidecars",
            lambda s, r: pod_of(r)["containers"][0].pop("lifecycle"),
            {"container lifecycle"},
            id="a hook",
        ),
        pytest.param(
            "tf-chief",
            lambda s, r: r["template"]["spec"].pop("successPolicy"),
            set(),
            id="another end, of which is told",
        ),
        pytest.param(
            "jax-gpu", _env("PROCESS_ID", "0"), {"environment PROCESS_ID", "command argv"}, id="all the first"
        ),
        pytest.param("xgboost", _no_env("WORKER_ADDRS"), {"environment WORKER_ADDRS"}, id="no addresses"),
        pytest.param(
            "mpi-root", _policy("runLauncherAsNode", True), {"hostfile hosts", "pods seat"}, id="another host"
        ),
        pytest.param("mpi-root", _set("numProcPerNode", 4), {"hostfile hosts", "processes of a node"}, id="more slots"),
        pytest.param("mpi-root", _set("command", ["python"]), {"command argv"}, id="another command"),
        pytest.param("mpi-user", _arg("4", "8"), {"command argv"}, id="another number of ranks"),
        pytest.param("mpi-user", _pod("securityContext", {"runAsUser": 0}), {"security securityContext"}, id="as root"),
        pytest.param("paddle", _arg("paddle.distributed.launch", "other"), {"command argv"}, id="another module"),
        pytest.param("paddle", _env("PADDLE_MASTER", "x:1"), {"environment PADDLE_MASTER"}, id="another master"),
        pytest.param("pytorch-world-size", _arg(" train.py", " other.py"), {"command argv"}, id="another script"),
        pytest.param("pytorch-simple", _env("MASTER_PORT", "1"), {"port MASTER_PORT"}, id="another port"),
        pytest.param(
            "mpi-user", _pod("containers", [{"name": "node", "image": "other:1"}]), {"image image"}, id="nodes"
        ),
    ],
)
def test_faults(name: str, fault: Fault, expected: set[str]) -> None:
    assert unnamed(name, lambda spec, runtime: None) == []
    assert expected <= set(unnamed(name, fault))


def test_a_fault_refuses_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "play", faulty(_set("numNodes", 5)))
    done = convert(job("pytorch-simple"))
    assert not done.ok
    found = [one for one in done.findings if one.code == "DIFFERENCE"]
    assert any("nodes number: 2 was, 5 is" in one.message for one in found)
    assert any(not one.code for one in done.differences)
    done = convert(job("pytorch-simple"), Options(drop=frozenset({"DIFFERENCE"})))
    assert done.ok
    assert {one.severity for one in done.findings if one.code == "DIFFERENCE"} == {"warning"}


def faulty(fault: Fault) -> Callable[..., Any]:
    """What has a fault that nothing before the comparison sees."""

    def played(job: V1Job, trainjob: dict[str, Any], runtime: dict[str, Any] | None, *more: Any) -> Any:
        trainjob, runtime = copy.deepcopy(trainjob), copy.deepcopy(runtime)
        fault(trainjob["spec"], runtime["spec"] if runtime is not None else {})
        return play(job, trainjob, runtime, *more)

    return played


@pytest.mark.parametrize(
    ("name", "options", "fault", "expected"),
    [
        pytest.param(
            "pytorch-cpu-master",
            {"template_from": "worker"},
            _set("resourcesPerNode", {"limits": {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": 1}}),
            {"resources limits.cpu", "resources requests.cpu"},
            id="other resources than the template's",
        ),
        pytest.param(
            "pytorch-cpu-master", {"template_from": "worker"}, _set("image", "x:1"), {"image image"}, id="another image"
        ),
        pytest.param(
            "pytorch-role-command", {"role_branch": True}, _arg("--log", "--logs"), {"command argv"}, id="in the script"
        ),
        pytest.param(
            "pytorch-role-command",
            {"role_branch": True},
            _set("env", [{"name": "QUIET", "value": "1"}]),
            {f"environment {name}" for name in ("QUIET", "MASTER_ADDR", "RANK", "WORLD_SIZE", "PYTHONUNBUFFERED")}
            | {"environment MASTER_PORT"},
            id="of one role only",
        ),
        pytest.param("xgboost-quotes", {}, _arg("=10", "=100"), {"command argv"}, id="more than quotes"),
        pytest.param("lightgbm", {}, _set("image", "x:1"), {"image image"}, id="more than the restart policy"),
    ],
)
def test_roles_that_differ_excuse_nothing_else(
    name: str, options: dict[str, Any], fault: Fault, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = convert(job(name), Options(**options))
    assert done.ok
    assert {one.code for one in done.findings} >= {"ROLE-DIFF"}
    monkeypatch.setattr(module, "play", faulty(fault))
    done = convert(job(name), Options(**options))
    assert {f"{one.topic} {one.what}" for one in done.differences if not one.code} == expected


def extras(done: Converted) -> list[str]:
    return [one.message for one in done.findings if one.code == EXTRAS]


def test_what_is_always_so_is_told_once() -> None:
    (message,) = extras(convert(job("pytorch-simple")))
    assert message == (
        "pods are pytorch-simple-node-0-0-… where v1 had pytorch-simple-master-0…, the Service is pytorch-simple; "
        "labels training.kubeflow.org/… are gone"
    )


def test_what_cannot_be_played_is_told() -> None:
    large = job("jax")
    large["spec"]["jaxReplicaSpecs"]["Worker"]["replicas"] = MAX_PODS + 1
    for raw, options, why in (
        (large, Options(), f"more than {MAX_PODS} pods"),
        (job("pytorch-placeholder"), Options(allow_placeholders=True), "a placeholder"),
        (job("pytorch-live"), Options(runtime="ours"), "ours is no stock runtime"),
    ):
        done = convert(raw, options)
        assert done.ok
        assert [why in one.message for one in done.findings if one.code == "NOT-PLAYED"] == [True]


def one(seat: str, host: str, generation: str, **env: str) -> SimPod:
    raw = {"metadata": {"name": host.partition(".")[0]}, "spec": {}}
    container = SimContainer("c", env=env, raw={"name": "c", "env": [{"name": n, "value": v} for n, v in env.items()]})
    return SimPod(generation, 0, seat, host.partition(".")[0], host, "c", raw, (), (container,))


def fleets(v1: dict[str, str], v2: dict[str, str]) -> tuple[Fleet, Fleet]:
    """Two nodes each, with these variables."""
    old = tuple(one(f"rank {i}", f"j-worker-{i}", "v1", **v1) for i in (0, 1))
    new = tuple(one(f"rank {i}", f"j-node-0-{i}.j", "v2", **v2) for i in (0, 1))
    same = Behaviour({"rank 0": "in-place", "rank 1": "in-place"}, {"rank 0": 6, "rank 1": 6}, outlive="ended")
    return Fleet("j", "ns", "v1", old, 2, behaviour=same), Fleet("j", "ns", "v2", new, 2, behaviour=same)


@pytest.mark.parametrize(
    ("before", "after", "topic"),
    [
        pytest.param("j-worker-0", "j-node-0-0.j", "", id="the same pod"),
        pytest.param("j-worker-0.ns.svc:2222", "j-node-0-0.j:2222", "", id="with a port"),
        pytest.param("j-worker-0.j.ns.svc.cluster.local", "j-node-0-0.j.ns.svc", "", id="with a domain"),
        pytest.param("j-worker-0,j-worker-1", "j-node-0-0.j,j-node-0-1.j", "", id="a list"),
        pytest.param("tcp://j-worker-0:1", "tcp://j-node-0-0.j:2", "port", id="another port"),
        pytest.param("j-worker-0", "j-node-0-1.j", "environment", id="another pod"),
        pytest.param("j-worker-0.other.svc", "j-node-0-0.j.other.svc", "environment", id="another namespace"),
        pytest.param("j-worker-10", "j-node-0-10.j", "environment", id="no such pod"),
        pytest.param("my-j-worker-0", "my-j-worker-0", "", id="a part of another name"),
        pytest.param("a", "", "environment", id="empty"),
    ],
)
def test_addresses(before: str, after: str, topic: str) -> None:
    found = compare(*fleets({"A": before}, {"A": after}))
    assert [one.topic for one in found] == ([topic] if topic else [])


def test_differences_are_told_once_for_all_pods() -> None:
    assert compare(*fleets({"A": "1"}, {"PET_NNODES": "2"})) == (
        Difference("environment", "A", ("rank 0", "rank 1"), "1", ""),
    )
    (found,) = compare(*fleets({"A": "1"}, {}))
    assert str(found) == "environment A (rank 0, rank 1): 1 was, nothing is"
