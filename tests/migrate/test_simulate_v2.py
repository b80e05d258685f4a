"""Pods of TrainJobs as Trainer 2.3 and JobSet make them; the rows about MPI were seen on a real node."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from trainer_ops.migrate.simulate.amounts import amount, whole
from trainer_ops.migrate.simulate.fleet import Fleet
from trainer_ops.migrate.simulate.kubelet import expand, pod
from trainer_ops.migrate.simulate.runtimes import STOCK
from trainer_ops.migrate.simulate.v2 import simulate_v2
from trainer_ops.migrate.simulate.v2_merge import merge

ANCESTOR = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}


def play(runtime: str | Mapping[str, Any], trainer: Mapping[str, Any] | None = None, **spec: Any) -> Fleet:
    name = runtime if isinstance(runtime, str) else "own"
    held: dict[str, Any] = {"runtimeRef": {"name": name}, **spec}
    if trainer is not None:
        held["trainer"] = trainer
    job = {"metadata": {"name": "t"}, "spec": held}
    before = copy.deepcopy((job, runtime))
    made = simulate_v2(job, None if isinstance(runtime, str) else runtime)
    assert (job, runtime) == before, "the input was changed"
    return made


def patched(spec: Mapping[str, Any], job: str = "node") -> list[dict[str, Any]]:
    template = {"spec": {"replicatedJobs": [{"name": job, "template": {"spec": {"template": spec}}}]}}
    return [{"manager": "a.b/c", "trainingRuntimeSpec": {"template": template}}]


def own(jobs: list[dict[str, Any]], policy: Mapping[str, Any] | None = None, **jobset: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"template": {"spec": {"replicatedJobs": jobs, **jobset}}}
    return {"spec": {**spec, **({} if policy is None else {"mlPolicy": policy})}}


def replicated(
    name: str, *, trains: bool = False, job: Any = None, pod: Any = None, **container: Any
) -> dict[str, Any]:
    containers = [{"name": "node", "image": "own:1", **container}]
    spec = {**(job or {}), "template": {"spec": {"containers": containers, **(pod or {})}}}
    return {"name": name, "template": {**({"metadata": {"labels": ANCESTOR}} if trains else {}), "spec": spec}}


PET = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": "1"}
PET |= {"PET_MASTER_ADDR": "t-node-0-0.t", "PET_MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        pytest.param("torch-distributed", {"A": "1", **PET}, id="torch: the TrainJob's come first"),
        pytest.param(
            "jax-distributed",
            {
                "JAX_NUM_PROCESSES": "2",
                "JAX_PROCESS_ID": "1",
                "JAX_COORDINATOR_ADDRESS": "t-node-0-0.t:29500",
                "A": "1",
            },
            id="jax: the TrainJob's come last",
        ),
        pytest.param(
            "xgboost-distributed",
            {
                "DMLC_TRACKER_URI": "t-node-0-0.t",
                "DMLC_TRACKER_PORT": "29500",
                "DMLC_TASK_ID": "1",
                "DMLC_NUM_WORKER": "2",
                "A": "1",
            },
            id="xgboost",
        ),
    ],
)
def test_environment(runtime: str, expected: dict[str, str]) -> None:
    made = play(runtime, {"numNodes": 2, "env": [{"name": "A", "value": "1"}]})
    assert [one.seat for one in made.pods] == ["rank 0", "rank 1"]
    assert list(made.pods[1].code.env.items()) == list(expected.items())


def test_references_see_what_stands_before_them() -> None:
    env = [{"name": "A", "value": "$(PET_NNODES)"}, {"name": "B", "value": "$(A)!"}]
    made = play("torch-distributed", {"numNodes": 2, "env": env, "args": ["$(PET_NNODES)", "$$(A)", "$(NO)"]})
    assert made.pods[0].code.env["B"] == "$(PET_NNODES)!"
    assert made.pods[0].code.args == ("2", "$(A)", "$(NO)")
    made = play("jax-distributed", {"numNodes": 3, "env": [{"name": "A", "value": "$(JAX_NUM_PROCESSES)"}]})
    assert made.pods[0].code.env["A"] == "3"


def test_without_a_trainer_nothing_is_set() -> None:
    made = play("torch-distributed")
    assert made.nodes == 1
    assert made.pods[0].code.env == {}


@pytest.mark.parametrize(
    ("trainer", "expected"),
    [
        pytest.param({}, "1", id="no resources"),
        pytest.param({"resourcesPerNode": {"requests": {"cpu": "2500m"}}}, "3", id="CPUs requested"),
        pytest.param({"resourcesPerNode": {"limits": {"cpu": 4}}}, "4", id="CPUs at most"),
        pytest.param({"resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}}, "auto", id="GPUs"),
        pytest.param({"resourcesPerNode": {"limits": {"nvidia.com/mig-1g.5gb": 2}}}, "1", id="slices are no GPUs"),
        pytest.param({"numProcPerNode": 8}, "8", id="a number"),
    ],
)
def test_processes(trainer: dict[str, Any], expected: str) -> None:
    made = play("torch-distributed", trainer)
    assert made.processes == expected
    assert made.pods[0].code.env["PET_NPROC_PER_NODE"] == expected


@pytest.mark.parametrize(
    ("joins", "trainer", "of_runtime", "hosts", "pods"),
    [
        pytest.param(True, {"numNodes": 1}, {}, ["node-0-0", "launcher-0-0"], 2, id="joins, 1"),
        pytest.param(True, {"numNodes": 2}, {}, ["node-0-0", "launcher-0-0"], 2, id="joins, 2"),
        pytest.param(True, {"numNodes": 3}, {}, ["node-0-0", "node-0-1", "launcher-0-0"], 3, id="joins, 3"),
        pytest.param(False, {"numNodes": 1}, {}, ["node-0-0"], 2, id="beside, 1"),
        pytest.param(False, {"numNodes": 2}, {}, ["node-0-0", "node-0-1"], 3, id="beside, 2"),
        pytest.param(
            True, {}, {"numNodes": 2}, ["node-0-0", "launcher-0-0", "launcher-0-1"], 3, id="two launchers by mistake"
        ),
    ],
)
def test_mpi(joins: bool, trainer: Any, of_runtime: Any, hosts: list[str], pods: int) -> None:
    runtime = copy.deepcopy(dict(STOCK["deepspeed-distributed"]))
    runtime["spec"]["mlPolicy"] = {**runtime["spec"]["mlPolicy"], **of_runtime}
    runtime["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] = joins
    made = play(runtime, trainer)
    assert made.hostfile == tuple(f"t-{host}.t slots=1" for host in hosts)
    assert made.nodes == len(hosts)
    assert len(made.pods) == pods
    assert made.behaviour.success[0] == "launcher"
    assert made.behaviour.start == {"launcher": ("host",)}


@pytest.mark.parametrize(
    ("trainer", "own_slots", "slots"),
    [
        pytest.param({"numProcPerNode": 4}, 2, "4", id="the TrainJob's"),
        pytest.param({}, 2, "2", id="the runtime's"),
        pytest.param({"resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}, 1, "8", id="as many as GPUs"),
        pytest.param({"resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}, 2, "2", id="a number beats GPUs"),
    ],
)
def test_slots(trainer: dict[str, Any], own_slots: int, slots: str) -> None:
    runtime = copy.deepcopy(dict(STOCK["deepspeed-distributed"]))
    runtime["spec"]["mlPolicy"]["mpi"]["numProcPerNode"] = own_slots
    made = play(runtime, trainer)
    assert made.processes == slots
    assert made.pods[-1].code.env["OMPI_MCA_orte_set_default_slots"] == slots


def test_the_fields_of_an_mpi_trainer() -> None:
    trainer = {
        "numNodes": 2,
        "image": "mine:1",
        "command": ["mpirun"],
        "env": [{"name": "A", "value": "1"}],
        "resourcesPerNode": {"limits": {"cpu": 1}},
    }
    made = play("deepspeed-distributed", trainer)
    node, launcher = made.pods
    assert (node.code.image, launcher.code.image) == ("ghcr.io/kubeflow/trainer/deepspeed-runtime", "mine:1")
    assert node.code.command == ("/usr/sbin/sshd",)
    assert (node.code.env, list(launcher.code.env)[-1]) == ({"A": "1"}, "A")
    assert node.code.resources["limits"] == launcher.code.resources["limits"] == {"cpu": "1"}
    secret = next(one["secret"] for one in launcher.spec["volumes"] if one["name"] == "mpi-ssh-auth")
    assert secret["items"][0]["mode"] == 0o640
    assert sorted(launcher.code.mounts) == ["/etc/mpi", "/home/mpiuser/.ssh"]
    runtime = copy.deepcopy(dict(STOCK["deepspeed-distributed"]))
    runtime["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] = False
    node = play(runtime, trainer).pods[0]
    assert (dict(node.code.env), node.code.resources["limits"]) == ({}, {})


def test_patches() -> None:
    pod_patch = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "nodeSelector": {"pool": "x"},
            "tolerations": [{"key": "k"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "node", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        },
    }
    made = play("torch-distributed", {"numNodes": 1, "command": ["run"]}, runtimePatches=patched(pod_patch))
    (one,) = made.pods
    assert one.labels["a"] == "b"
    assert one.spec["nodeSelector"] == {"pool": "x"}
    assert one.code.mounts == {"/v": {"name": "v", "mountPath": "/v"}}
    assert one.code.command == ("run",)
    assert one.code.image.startswith("pytorch/")


@pytest.mark.parametrize(
    ("base", "patch", "field", "expected"),
    [
        pytest.param({"a": {"b": 1}}, {"a": {"c": 2}}, "", {"a": {"b": 1, "c": 2}}, id="mappings"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, "", {"b": 2}, id="null removes"),
        pytest.param(
            [{"name": "a", "x": 1}], [{"name": "a", "y": 2}], "env", [{"name": "a", "x": 1, "y": 2}], id="by name"
        ),
        pytest.param([{"name": "a"}], [{"name": "b"}], "containers", [{"name": "a"}, {"name": "b"}], id="another"),
        pytest.param(
            [{"mountPath": "/a", "name": "x"}],
            [{"mountPath": "/a", "name": "y"}],
            "volumeMounts",
            [{"mountPath": "/a", "name": "y"}],
            id="by path",
        ),
        pytest.param([{"key": "a"}], [{"key": "b"}], "tolerations", [{"key": "b"}], id="the whole list"),
        pytest.param(
            [{"name": "v", "emptyDir": {}}],
            [{"name": "v", "secret": {"secretName": "s"}}],
            "volumes",
            [{"name": "v", "secret": {"secretName": "s"}}],
            id="another source",
        ),
    ],
)
def test_merging(base: Any, patch: Any, field: str, expected: Any) -> None:
    assert merge(base, patch, field) == expected


def test_a_pod_of_a_job_of_a_jobset() -> None:
    (one,) = play("torch-distributed", {"numNodes": 1}).pods
    assert (one.name, one.host) == ("t-node-0-0", "t-node-0-0.t")
    assert one.labels["jobset.sigs.k8s.io/jobset-name"] == "t"
    assert one.labels["batch.kubernetes.io/job-name"] == "t-node-0"
    assert one.annotations["batch.kubernetes.io/job-completion-index"] == "0"
    assert (one.spec["restartPolicy"], one.spec["subdomain"]) == ("OnFailure", "t")
    made = play(own([replicated("node", trains=True)], {"numNodes": 2}, network={"subdomain": "sub"}), {})
    assert [one.host for one in made.pods] == ["t-node-0-0.sub", "t-node-0-1.sub"]
    assert made.services == ("sub",)


@pytest.mark.parametrize(
    ("job", "pod", "restart", "retries"),
    [
        pytest.param({}, {}, "in-place", 6, id="as JobSet fills in"),
        pytest.param({"backoffLimit": 2147483647}, {}, "in-place", None, id="for ever"),
        pytest.param({"backoffLimit": 0}, {"restartPolicy": "Never"}, "never", 0, id="never"),
        pytest.param({}, {"restartPolicy": "Never"}, "new-pod", 6, id="a new pod"),
        pytest.param(
            {
                "podFailurePolicy": {
                    "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]
                }
            },
            {"restartPolicy": "Never"},
            "exit-code",
            6,
            id="by exit code",
        ),
    ],
)
def test_restarts(job: Any, pod: Any, restart: str, retries: int | None) -> None:
    made = play(own([replicated("node", trains=True, job=job, pod=pod)], {"numNodes": 1}), {})
    assert made.behaviour.restart == {"rank 0": restart}
    assert made.behaviour.retries == {"rank 0": retries}


ONE = {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}}
SOME = {"successPolicy": {"rules": [{"succeededCount": 1}]}}


@pytest.mark.parametrize(
    ("job", "policy", "success"),
    [
        pytest.param({}, None, ("rank 0", "rank 1", "ps 0"), id="all jobs"),
        pytest.param({}, ["node"], ("rank 0", "rank 1"), id="one job"),
        pytest.param(ONE, ["node"], ("rank 0",), id="its first index"),
        pytest.param(SOME, ["node"], ("any", "rank 0", "rank 1"), id="any of it"),
    ],
)
def test_success(job: Any, policy: list[str] | None, success: tuple[str, ...]) -> None:
    jobset = {} if policy is None else {"successPolicy": {"operator": "All", "targetReplicatedJobs": policy}}
    made = play(own([replicated("node", trains=True, job=job), replicated("ps")], {}, **jobset), {"numNodes": 2})
    assert made.behaviour.success == success


def test_seats_are_what_tf_config_says() -> None:
    env = [
        {
            "name": "I",
            "valueFrom": {
                "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
            },
        },
        {"name": "TF_CONFIG", "value": '{"task":{"type":"worker","index":$(I)}}'},
    ]
    made = play(own([replicated("node", trains=True, env=env), replicated("ps")], {}), {"numNodes": 2})
    assert [one.seat for one in made.pods] == ["worker 0", "worker 1", "ps 0"]


def test_variables_for_other_containers() -> None:
    side = [{"name": "node", "image": "a:1"}, {"name": "watch", "image": "w:1", "args": ["$(PET_NODE_RANK)"]}]
    policy = {"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["watch"]}]}}}
    made = play(own([replicated("node", trains=True, pod={"containers": side})], policy), {"numNodes": 2})
    assert [one.containers[1].args for one in made.pods] == [("0",), ("1",)]


@pytest.mark.parametrize(
    ("policy", "kind", "key"),
    [
        pytest.param("coscheduling", "labels", "scheduling.x-k8s.io/pod-group", id="coscheduling"),
        pytest.param("volcano", "annotations", "scheduling.k8s.io/group-name", id="volcano"),
    ],
)
def test_gangs(policy: str, kind: str, key: str) -> None:
    runtime = own([replicated("node", trains=True)], {})
    runtime["spec"]["podGroupPolicy"] = {policy: {}}
    made = play(runtime, {"numNodes": 1})
    assert made.behaviour.gang == policy
    assert getattr(made.pods[0], kind)[key] == "t"


def test_an_unknown_runtime() -> None:
    with pytest.raises(LookupError):
        play("somebody's", {})


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param({"fieldRef": {"fieldPath": "metadata.name"}}, "p", id="name"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.namespace"}}, "team", id="namespace"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}, "c", id="label"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.labels['none']"}}, "", id="no such label"),
        pytest.param({"fieldRef": {"fieldPath": "spec.serviceAccountName"}}, "default", id="account"),
        pytest.param({"fieldRef": {"fieldPath": "status.podIP"}}, "<status.podIP>", id="address"),
        pytest.param({"secretKeyRef": {"name": "s", "key": "k"}}, "<secret s/k>", id="secret"),
        pytest.param({"configMapKeyRef": {"name": "m", "key": "k"}}, "<configmap m/k>", id="config map"),
        pytest.param({"resourceFieldRef": {"resource": "limits.cpu"}}, "<limits.cpu 2>", id="amount"),
        pytest.param(
            {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "<limits.memory>", id="none"
        ),
        pytest.param({"fieldRef": "odd"}, "<>", id="nothing that is known"),
    ],
)
def test_sources(source: dict[str, Any], expected: str) -> None:
    container = {"name": "c", "env": [{"name": "A", "valueFrom": source}], "resources": {"limits": {"cpu": 2}}}
    raw = {"metadata": {"name": "p", "labels": {"a/b": "c"}}, "spec": {"containers": [container]}}
    made = pod(raw, role="r", index=0, seat="s", host="h", main="c", namespace="team")
    assert made.code.env == {"A": expected}


def test_of_two_variables_the_last() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}, {"name": "A", "value": "$(A)2"}]
    raw = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "env": env, "args": ["$(A)"]}]}}
    made = pod(raw, role="r", index=0, seat="s", host="h", main="c", namespace="team")
    assert list(made.code.env.items()) == [("B", "1"), ("A", "12")]
    assert made.code.argv == ("12",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("$(A)", "x"), ("$$(A)", "$(A)"), ("$(B)", "$(B)"), ("$A ${A}", "$A ${A}"), ("a$", "a$"), ("$(A", "$(A")],
)
def test_expansion(text: str, expected: str) -> None:
    assert expand(text, {"A": "x"}) == expected


@pytest.mark.parametrize(
    ("value", "number"),
    [("500m", 1), ("2", 2), (3, 3), ("1.5", 2), ("1Ki", 1024), ("1e3", 1000), ("much", 0), ("1e999999", 0), ("", 0)],
)
def test_amounts(value: object, number: int) -> None:
    assert whole(value) == number
    assert amount("1Gi") == amount("1024Mi")
