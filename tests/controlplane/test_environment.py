"""The environment is the same: the pods of the real controllers against the processes that the engine plans.

Every shipped runtime with 1, 2 and 4 nodes and several TrainJobs is started on a real control plane (nothing runs
there: pods are moved on by hand where a step waits for another), and planned twice: with the runtime as the cluster
has it, and with the engine's own of the same name.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.controlplane.environment import NODE, Ledger, OnCluster, compare
from tests.controlplane.odd_runtimes import ODD
from tests.controlplane.plane import ControlPlane, wait_until
from trainer_ops.build.manifest import build
from trainer_ops.local.catalogue import builtin
from trainer_ops.local.plan import plan
from trainer_ops.local.plan_differences import FOUND
from trainer_ops.local.surroundings import make_place
from trainer_ops.model import keys
from trainer_ops.model.identity import RunKey
from trainer_ops.model.request import Initializer, ScriptCode, TrainRequest
from trainer_ops.model.runtime import TrainingRuntime

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

Raw = dict[str, Any]
SPACE = "same"
SHIPPED = ("torch-distributed", "jax-distributed", "xgboost-distributed", "deepspeed-distributed", "mlx-distributed")
# The engine's own runtimes are put on the cluster too, to see their initializers.
OWN = (*SHIPPED, "plain", "mpi-distributed")
PATIENCE = 120.0
GIB = 1 << 30


def _field(path: str) -> Raw:
    return {"fieldRef": {"fieldPath": path}}


def _resource(resource: str, **more: str) -> Raw:
    return {"resourceFieldRef": {"resource": resource, **more}}


SEEN = "$(PET_NODE_RANK)-$(JAX_PROCESS_ID)-$(OMPI_MCA_orte_set_default_slots)-$(JOB_COMPLETION_INDEX)"
FIELDS = {
    "INDEX": f"metadata.annotations['{keys.COMPLETION_INDEX}']",
    "JOB": f"metadata.labels['{keys.LABEL_JOBSET_NAME}']",
    "KEY": "metadata.labels['jobset.sigs.k8s.io/job-key']",
    "GROUP": "metadata.annotations['jobset.sigs.k8s.io/group-name']",
    "NONE": "metadata.labels['nobody.wrote/this']",
    "POD": "metadata.name",
    "SPACE": "metadata.namespace",
    "MACHINE": "spec.nodeName",
    "ACCOUNT": "spec.serviceAccountName",
    "POD_IP": "status.podIP",
    "HOST_IP": "status.hostIP",
}
ENV: list[Raw] = [
    {"name": "FIRST", "value": "1"},
    *({"name": name, "valueFrom": _field(path)} for name, path in FIELDS.items()),
    {"name": "CPUS", "valueFrom": _resource("limits.cpu")},
    {"name": "MEMORY", "valueFrom": _resource("limits.memory", divisor="1Mi")},
    {"name": "ASKED", "valueFrom": _resource("requests.memory", containerName="node", divisor="1Mi")},
    {"name": "MASTER", "value": "$(JOB)-node-0-0.$(JOB)"},
    {"name": "TRACKER", "value": f"http://$(JOB)-node-0-0.$(JOB).{SPACE}.svc:8080/$(INDEX)"},
    {"name": "OTHER", "value": "not-$(JOB)-node-0-0.$(JOB)"},
    {"name": "REFERS", "value": f"{SEEN}-$(LATER)-$$(FIRST)-$(FIRST)"},
    {"name": "EMPTY"},
    {"name": "LATER", "value": "x"},
]
ARGS = ["--rank", f"{SEEN}$(DMLC_TASK_ID)", "$(NOBODY) $$(FIRST) $(LATER)", "--hosts=/etc/mpi/hostfile", "/workspace/x"]

# What spec.trainer has beside numNodes.
VARIANTS: dict[str, Raw] = {
    "plain": {"command": ["python", "train.py"], "args": ["--lr", "0.1"]},
    "args": {"args": ["python", "train.py"]},
    "procs": {"command": ["train"], "numProcPerNode": 3, "resourcesPerNode": {"requests": {"cpu": "1"}}},
    "cpu": {"command": ["train"], "resourcesPerNode": {"requests": {"cpu": "2500m"}, "limits": {"cpu": "4"}}},
    "gpu": {"command": ["train"], "resourcesPerNode": {"limits": {"nvidia.com/gpu": 2, "cpu": "8"}}},
    "gpuprocs": {"command": ["train"], "numProcPerNode": 1, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}},
    "env": {"command": ["train"], "args": ARGS, "env": ENV, "resourcesPerNode": {"limits": {"memory": "2Gi"}}},
}


@dataclass(frozen=True)
class Case:
    """One TrainJob: a variant, or a request that is built; for a shipped runtime or for one of the engine's own."""

    runtime: str
    nodes: int | None
    variant: str

    @property
    def id(self) -> str:
        return f"{self.runtime.removesuffix('-distributed')}-{self.nodes or 'default'}-{self.variant}"

    @property
    def own(self) -> bool:
        return self.variant in ("fetch", "odd")


CASES = [Case(r, n, v) for r in SHIPPED for n in (1, 2, 4) for v in (*VARIANTS, "request")]
CASES += [Case(r, None, "plain") for r in SHIPPED]
CASES += [Case(r, 2, "fetch") for r in OWN]
CASES += [Case(r, None, "odd") for r in ODD]


def sizes(case: Case) -> dict[str, int]:
    """Pods of each step, as facts and not as the plan has them."""
    if case.variant == "odd":
        return ODD[case.runtime].sizes
    nodes = case.nodes or 1
    found = {"node": nodes}
    if case.runtime in ("deepspeed-distributed", "mlx-distributed"):
        # One of the nodes is the launcher; but a job of one node still gets one beside it (trainer #3954).
        found = {"launcher": 1, "node": max(nodes - 1, 1)}
    elif case.runtime == "mpi-distributed":
        found = {"launcher": 1, "node": nodes}
    return {**found, **(dict.fromkeys(keys.INITIALIZERS, 1) if case.own else {})}


def on_cluster(raw: Raw) -> Raw:
    """One of the engine's own runtimes as a TrainingRuntime; the API wants images."""
    made = copy.deepcopy(raw)
    made["kind"] = keys.NAMESPACED_RUNTIME
    for job in made["spec"]["template"]["spec"]["replicatedJobs"]:
        for container in job["template"]["spec"]["template"]["spec"]["containers"]:
            container["image"] = "example.com/image"
    return made


def trainjob(case: Case, runtime: TrainingRuntime) -> Raw:
    """What is created."""
    if case.variant == "odd":
        ref = {"kind": keys.NAMESPACED_RUNTIME, "name": case.runtime}
        spec = {"runtimeRef": ref, **ODD[case.runtime].spec}
        return {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "metadata": {"name": case.id}, "spec": spec}
    if case.variant in VARIANTS:
        trainer = {**({} if case.nodes is None else {"numNodes": case.nodes}), **VARIANTS[case.variant]}
        spec = {"runtimeRef": {"name": case.runtime}, "trainer": trainer}
        return {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "metadata": {"name": case.id}, "spec": spec}
    request = TrainRequest(
        name=case.id,
        runtime=case.runtime,
        runtime_kind=keys.NAMESPACED_RUNTIME if case.own else keys.CLUSTER_RUNTIME,
        num_nodes=case.nodes,
        code=ScriptCode(filename="train.py", source="print('/workspace/dataset', '$(FIRST)')"),
        args=["--data", "file:///workspace/dataset/a.csv", "$(TRAINER_OPS_ATTEMPT)"],
        env={"LR": 0.1, "INDEX": _field(FIELDS["INDEX"]), "MODEL": "/workspace/model", "KEY": "$(TRAINER_OPS_RUN_KEY)"},
        resources_per_node={"cpu": 2},
        checkpoint_dir=None if case.own else "/mnt/checkpoints",
        dataset=Initializer(storage_uri="file:///data", env={"A": "$(STORAGE_URI)"}) if case.own else None,
        model=Initializer(storage_uri="hf://org/name") if case.own else None,
    )
    return build(request, RunKey.of("test", {"case": case.id}), 2, runtime=runtime, version="0.1.0").manifest


# ------------------------------------------------------------------------------------------------------- the cluster


@dataclass
class World:
    """What the cluster has made of all cases."""

    found: dict[str, OnCluster]
    shipped: dict[str, Raw]
    namespaced: dict[str, Raw]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    plane = ControlPlane(tmp_path_factory.mktemp("environment") / "plane")
    try:
        yield _reconciled(plane)
    finally:
        plane.close()


def _reconciled(plane: ControlPlane) -> World:
    api = plane.api
    plane.namespace(SPACE)
    for name in OWN:
        api.create(on_cluster(builtin()[keys.CLUSTER_RUNTIME, name]), namespace=SPACE)
    for name, odd in ODD.items():
        made_of = {"apiVersion": keys.API_VERSION, "kind": keys.NAMESPACED_RUNTIME, "metadata": {"name": name}}
        api.create({**made_of, "spec": odd.runtime}, namespace=SPACE)
    shipped = {name: api.get(keys.CLUSTER_RUNTIME, name) for name in SHIPPED}
    made: dict[str, Raw] = {}
    for case in CASES:
        raw = api.get(keys.NAMESPACED_RUNTIME, case.runtime, namespace=SPACE) if case.own else shipped[case.runtime]
        job = trainjob(case, TrainingRuntime.from_raw(raw))
        created = api.create(job, namespace=SPACE)
        job["metadata"]["uid"] = created["metadata"]["uid"]
        made[case.id] = job
    names = {made[case.id]["metadata"]["name"]: sum(sizes(case).values()) for case in CASES}
    wait_until("the pods of all TrainJobs", lambda: _moved_on(plane, names), seconds=PATIENCE)
    pods, jobs = api.list("Pod", namespace=SPACE), api.list("Job", namespace=SPACE)
    service = api.get("Service", "kubernetes")

    def one(job: Raw) -> OnCluster:
        name = job["metadata"]["name"]
        hostfile = api.get("ConfigMap", f"{name}-mpi-hostfile", namespace=SPACE)
        own_jobs = {j["metadata"]["labels"][keys.LABEL_REPLICATED_JOB]: j for j in jobs if _owner(j) == name}
        own_pods = [pod for pod in pods if _owner(pod) == name]
        return OnCluster(job, own_pods, own_jobs, hostfile and hostfile["data"]["hostfile"], service)

    namespaced = {r["metadata"]["name"]: r for r in api.list(keys.NAMESPACED_RUNTIME, namespace=SPACE)}
    return World({case_id: one(job) for case_id, job in made.items()}, shipped, namespaced)


def _owner(obj: Raw) -> str:
    return str(obj["metadata"]["labels"].get(keys.LABEL_JOBSET_NAME))


def _moved_on(plane: ControlPlane, names: dict[str, int]) -> bool:
    """Whether all pods are there; as long as not, initializers succeed and nodes become ready."""
    pods = plane.api.list("Pod", namespace=SPACE)
    for pod in pods:
        step = pod["metadata"]["labels"][keys.LABEL_REPLICATED_JOB]
        if pod["status"].get("phase") == "Pending":
            phase = "Succeeded" if step in keys.INITIALIZERS else "Running"
            status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}
            plane.api.patch("Pod", pod["metadata"]["name"], {"status": status}, namespace=SPACE, sub="status")
    counts = dict.fromkeys(names, 0)
    for pod in pods:
        counts[_owner(pod)] += 1
    return counts == names


# ------------------------------------------------------------------------------------------------------- comparisons


def compared(world: World, case: Case, source: str) -> Ledger:
    cluster = world.found[case.id]
    there = world.namespaced if case.own else world.shipped
    raw = builtin()[keys.CLUSTER_RUNTIME, case.runtime] if source == "engine" else there[case.runtime]
    place = make_place(
        cluster.job,
        "/jobs/1",
        python=sys.executable,
        attempt=0,
        namespace=SPACE,
        progress=None,
        checkpoints="/checkpoints",
    )
    # Tests that run in a pod have that pod's; the engine would hand them on as any variable of its machine.
    env = {name: value for name, value in place.env.items() if not name.startswith("KUBERNETES_")}
    place = replace(place, env=env, cpu_count=int(NODE["status"]["allocatable"]["cpu"]), memory_bytes=16 * GIB)
    place = replace(place, progress_url="http://x", progress_token="/token", progress_ca="/ca")
    return compare(cluster, plan(cluster.job, TrainingRuntime.from_raw(raw), place=place), place)


SIDES = [(case, side) for case in CASES for side in ("cluster", "engine") if side == "cluster" or case.variant != "odd"]


@pytest.mark.parametrize(("case", "side"), SIDES, ids=[f"{case.id}-{side}" for case, side in SIDES])
def test_the_environment_is_the_same(world: World, case: Case, side: str) -> None:
    assert compared(world, case, side).unexplained == []


# Processes of a node as the controller has them: torch, MPI's slots, xgboost's workers.
PROCESSES = {
    "plain": ("1", "1", 1),
    "procs": ("3", "3", 1),
    "cpu": ("3", "1", 1),
    "gpu": ("auto", "2", 2),
    "gpuprocs": ("1", "1", 2),
    "request": ("2", "1", 1),
}


@pytest.mark.parametrize("variant", PROCESSES)
def test_processes_of_a_node(world: World, variant: str) -> None:
    procs, slots, workers = PROCESSES[variant]

    def found(runtime: str, step: str, name: str) -> list[str]:
        pods = world.found[Case(runtime, 4, variant).id].of(step)
        return [e["value"] for pod in pods for e in pod["spec"]["containers"][0]["env"] if e["name"] == name]

    assert found("torch-distributed", "node", "PET_NPROC_PER_NODE") == [procs] * 4
    assert found("deepspeed-distributed", "launcher", "OMPI_MCA_orte_set_default_slots") == [slots]
    assert found("xgboost-distributed", "node", "DMLC_NUM_WORKER") == [str(4 * workers)] * 4


def test_every_row_of_the_table_is_used(world: World) -> None:
    used = set().union(*(compared(world, case, side).used for case, side in SIDES))
    assert [row for row in FOUND if row not in used] == []
