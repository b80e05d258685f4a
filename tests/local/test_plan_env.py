"""What every node's environment is, runtime by runtime: the names and values that Trainer 2.3 injects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.local.catalogue import builtin
from trainer_ops.local.plan import JobPlan, Place, plan
from trainer_ops.model.runtime import TrainingRuntime

Raw = dict[str, Any]
PLACE = Place(
    job_dir="/j",
    env={"PATH": "/bin"},
    python="/py",
    port=4242,
    dataset_dir="/j/data",
    model_dir="/j/model",
    suffix="abcde",
)
GPU = {"limits": {"nvidia.com/gpu": 2}}


def runtime(name: str) -> TrainingRuntime:
    return TrainingRuntime.from_raw(builtin()["ClusterTrainingRuntime", name])


def custom(policy: Raw | None, *, env: list[Raw] | None = None, container: Raw | None = None) -> TrainingRuntime:
    """A runtime with one job ``node``."""
    node = {"name": "node", "command": ["run"], "env": env or [], **(container or {})}
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": {"containers": [node]}}},
        },
    }
    spec: Raw = {"template": {"spec": {"replicatedJobs": [job]}}}
    if policy is not None:
        spec["mlPolicy"] = policy
    return TrainingRuntime.from_raw({"kind": "ClusterTrainingRuntime", "metadata": {"name": "own"}, "spec": spec})


def trainjob(**trainer: Any) -> Raw:
    trainer.setdefault("command", ["python", "train.py"])
    return {"metadata": {"name": "t"}, "spec": {"trainer": trainer}}


def env_of(planned: JobPlan, step: str = "node", index: int = 0) -> Mapping[str, str]:
    return next(p for p in planned.pods if p.step == step and p.index == index).main.env


def pick(env: Mapping[str, str], *prefixes: str) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(prefixes)}


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_torch(nodes: int) -> None:
    planned = plan(trainjob(numNodes=nodes), runtime("torch-distributed"), place=PLACE)
    assert len(planned.pods) == nodes
    for rank in range(nodes):
        assert pick(env_of(planned, index=rank), "PET_", "JOB_", "HOSTNAME") == {
            "HOSTNAME": f"t-node-0-{rank}",
            "JOB_COMPLETION_INDEX": str(rank),
            "PET_NNODES": str(nodes),
            "PET_NPROC_PER_NODE": "1",
            "PET_NODE_RANK": str(rank),
            "PET_MASTER_ADDR": "127.0.0.1",
            "PET_MASTER_PORT": "4242",
        }


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_jax(nodes: int) -> None:
    planned = plan(trainjob(numNodes=nodes), runtime("jax-distributed"), place=PLACE)
    assert len(planned.pods) == nodes
    for rank in range(nodes):
        assert pick(env_of(planned, index=rank), "JAX_") == {
            "JAX_NUM_PROCESSES": str(nodes),
            "JAX_PROCESS_ID": str(rank),
            "JAX_COORDINATOR_ADDRESS": "127.0.0.1:4242",
        }


@pytest.mark.parametrize(("resources", "workers"), [(None, 1), (GPU, 2)])
@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_xgboost(nodes: int, resources: Raw | None, workers: int) -> None:
    planned = plan(trainjob(numNodes=nodes, resourcesPerNode=resources), runtime("xgboost-distributed"), place=PLACE)
    assert len(planned.pods) == nodes
    for rank in range(nodes):
        assert pick(env_of(planned, index=rank), "DMLC_") == {
            "DMLC_TRACKER_URI": "127.0.0.1",
            "DMLC_TRACKER_PORT": "4242",
            "DMLC_TASK_ID": str(rank),
            "DMLC_NUM_WORKER": str(nodes * workers),
        }


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_plain_knows_its_index_and_nothing_else(nodes: int) -> None:
    planned = plan(trainjob(numNodes=nodes, env=[{"name": "A", "value": "1"}]), runtime("plain"), place=PLACE)
    assert [dict(pod.main.env) for pod in planned.pods] == [
        {
            "PATH": "/bin",
            "HOSTNAME": f"t-node-0-{rank}",
            "A": "1",
            "JOB_COMPLETION_INDEX": str(rank),
            "TRAINER_OPS_RESULT_PATH": f"/j/results/t-node-0-{rank}-abcde.node",
        }
        for rank in range(nodes)
    ]


# numNodes, runLauncherAsNode -> pods of the job ``node``, hostfile lines, slots
@pytest.mark.parametrize(
    ("name", "nodes", "pods", "hosts"),
    [
        ("deepspeed-distributed", 1, 1, ["node-0-0", "launcher-0-0"]),
        ("deepspeed-distributed", 2, 1, ["node-0-0", "launcher-0-0"]),
        ("deepspeed-distributed", 4, 3, ["node-0-0", "node-0-1", "node-0-2", "launcher-0-0"]),
        ("mlx-distributed", 2, 1, ["node-0-0", "launcher-0-0"]),
        ("mpi-distributed", 1, 1, ["node-0-0"]),
        ("mpi-distributed", 2, 2, ["node-0-0", "node-0-1"]),
        ("mpi-distributed", 4, 4, ["node-0-0", "node-0-1", "node-0-2", "node-0-3"]),
    ],
)
@pytest.mark.parametrize("procs", [None, 2])
def test_mpi(name: str, nodes: int, pods: int, hosts: list[str], procs: int | None) -> None:
    trainer = {
        "numNodes": nodes,
        "numProcPerNode": procs,
        "command": ["mpirun", "x"],
        "env": [{"name": "A", "value": "1"}],
    }
    planned = plan(trainjob(**trainer), runtime(name), place=PLACE)
    slots = procs or 1
    assert sorted(p.step for p in planned.pods) == ["launcher", *["node"] * pods]
    assert planned.hostfile is not None
    assert [line for line in planned.hostfile.splitlines() if line.startswith("# t-")] == [
        f"# t-{host}.t slots={slots}" for host in hosts
    ]
    assert planned.hostfile.splitlines()[-1] == f"localhost slots={slots * len(hosts)}"
    launcher = env_of(planned, "launcher")
    assert pick(launcher, "OMPI_MCA_orte_default", "OMPI_MCA_orte_keep", "OMPI_MCA_orte_set", "OMPI_MCA_plm", "A") == {
        "OMPI_MCA_orte_default_hostfile": "/j/mpi/hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": str(slots),
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "A": "1",
    }
    assert launcher["PRTE_MCA_prte_default_hostfile"] == "/j/mpi/hostfile"
    table = json.loads(launcher["TRAINER_OPS_MPI"])
    as_node = name != "mpi-distributed"
    assert table["slots"] == slots
    assert [host for host, _ in table["nodes"]] == [
        *(["t-launcher-0-0"] if as_node else []),
        *[f"t-node-0-{i}" for i in range(pods)],
    ]
    # The TrainJob's env reaches the nodes only where the launcher is one of them.
    assert env_of(planned, "node").get("A") == ("1" if as_node else None)
    assert not pick(env_of(planned, "node"), "OMPI_", "PRTE_")


def test_the_launcher_gets_its_environment_without_spec_trainer_too() -> None:
    raw = json.loads(json.dumps(runtime("deepspeed-distributed").raw))
    raw["spec"]["template"]["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]["containers"][0][
        "command"
    ] = ["mpirun", "x"]
    planned = plan({"metadata": {"name": "t"}, "spec": {}}, TrainingRuntime.from_raw(raw), place=PLACE)
    assert env_of(planned, "launcher")["OMPI_MCA_orte_set_default_slots"] == "1"
    assert len(planned.pods) == 2


@pytest.mark.parametrize("policy", ["torch", "jax", "xgboost"])
def test_without_spec_trainer_nothing_is_injected(policy: str) -> None:
    planned = plan({"metadata": {"name": "t"}, "spec": {}}, custom({"numNodes": 3, policy: {}}), place=PLACE)
    assert len(planned.pods) == 3
    assert not pick(env_of(planned), "PET_", "JAX_", "DMLC_")


@pytest.mark.parametrize(
    ("trainer", "runtime_resources", "expected"),
    [
        pytest.param({}, None, "1", id="nothing said"),
        pytest.param({"numProcPerNode": 3}, None, "3", id="a number"),
        pytest.param({"numProcPerNode": 3, "resourcesPerNode": GPU}, None, "3", id="a number beats GPUs"),
        pytest.param({"resourcesPerNode": GPU}, None, "auto", id="GPUs"),
        pytest.param({"resourcesPerNode": {"requests": {"cpu": "2500m"}}}, None, "3", id="CPUs, rounded up"),
        pytest.param({"resourcesPerNode": {"limits": {"cpu": 4}}}, None, "4", id="CPUs of the limits"),
        pytest.param(
            {"resourcesPerNode": {"requests": {"cpu": 1}, "limits": {"cpu": 4}}}, None, "1", id="requests first"
        ),
        pytest.param({}, {"requests": {"cpu": 2}}, "2", id="CPUs of the runtime"),
        pytest.param({}, GPU, "auto", id="GPUs of the runtime"),
        pytest.param(
            {"resourcesPerNode": {"limits": {"memory": "1Gi"}}}, {"requests": {"cpu": 2}}, "1", id="TrainJob's only"
        ),
    ],
)
def test_torch_processes(trainer: Raw, runtime_resources: Raw | None, expected: str) -> None:
    own = custom({"torch": {}}, container={"resources": runtime_resources} if runtime_resources else None)
    assert env_of(plan(trainjob(**trainer), own, place=PLACE))["PET_NPROC_PER_NODE"] == expected


@pytest.mark.parametrize(
    ("trainer", "given", "slots"),
    [
        ({}, 1, 1),
        ({}, 4, 4),
        ({"numProcPerNode": 2}, 4, 2),
        ({"resourcesPerNode": GPU}, 1, 2),
        ({"resourcesPerNode": GPU}, 3, 3),
    ],
)
def test_mpi_slots(trainer: Raw, given: int, slots: int) -> None:
    raw = json.loads(json.dumps(runtime("mpi-distributed").raw))
    raw["spec"]["mlPolicy"]["mpi"]["numProcPerNode"] = given
    planned = plan(trainjob(numNodes=2, **trainer), TrainingRuntime.from_raw(raw), place=PLACE)
    assert planned.hostfile is not None
    assert planned.hostfile.endswith(f"localhost slots={2 * slots}\n")


# ------------------------------------------------------------------------------------------------ order and resolution


@pytest.mark.parametrize(
    ("policy", "name", "expected"),
    [
        pytest.param("torch", "PET_NODE_RANK", "$(PET_NODE_RANK)", id="torch: PET_* come after the TrainJob's env"),
        pytest.param("jax", "JAX_PROCESS_ID", "0", id="jax: JAX_* come before it"),
        pytest.param("xgboost", "DMLC_TASK_ID", "$(DMLC_TASK_ID)", id="xgboost: nobody may rely on them"),
    ],
)
def test_what_a_trainjobs_env_can_refer_to(policy: str, name: str, expected: str) -> None:
    job = trainjob(env=[{"name": "SEEN", "value": f"$({name})"}], command=["run", f"$({name})"])
    planned = plan(job, custom({policy: {}}), place=PLACE)
    assert env_of(planned)["SEEN"] == expected
    assert planned.pods[0].main.argv == ("run", "0")


def test_order_and_replacement() -> None:
    own = custom(None, env=[{"name": "A", "value": "runtime"}, {"name": "B", "value": "$(A)"}])
    job = trainjob(
        env=[{"name": "C", "value": "$(B)$(LATER)$(PATH)"}, {"name": "A", "value": "job"}, {"name": "LATER"}]
    )
    env = env_of(plan(job, own, place=PLACE))
    # A was replaced in its place, before B; what comes later or lies below the container is not seen.
    assert pick(env, "A", "B", "C", "LATER") == {"A": "job", "B": "job", "C": "job$(LATER)$(PATH)", "LATER": ""}


def test_the_completion_index_can_be_referred_to_by_command_only() -> None:
    job = trainjob(env=[{"name": "I", "value": "$(JOB_COMPLETION_INDEX)"}], command=["run", "$(JOB_COMPLETION_INDEX)"])
    planned = plan(job, custom(None), place=PLACE)
    assert env_of(planned)["I"] == "$(JOB_COMPLETION_INDEX)"
    assert planned.pods[0].main.argv == ("run", "0")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "t-node-0-0-abcde"),
        ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "default"),
        ({"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/jobset-name']"}}, "t"),
        ({"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-name']"}}, "t-node-0"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}, "0"),
        ({"fieldRef": {"fieldPath": "metadata.labels['absent']"}}, ""),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "127.0.0.1"),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "localhost"),
        ({"resourceFieldRef": {"resource": "requests.cpu"}}, "1"),
        ({"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}, "500"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "8"),
        ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "2048"),
    ],
)
def test_references_are_resolved(source: Raw, expected: str) -> None:
    place = Place("/j", {}, "/py", 1, "/d", "/m", suffix="abcde", cpu_count=8, memory_bytes=1 << 40)
    resources = {"requests": {"cpu": "500m"}, "limits": {"memory": "2Gi"}}
    job = trainjob(env=[{"name": "X", "valueFrom": source}], resourcesPerNode=resources)
    assert env_of(plan(job, custom({"torch": {}}), place=place))["X"] == expected


@pytest.mark.parametrize(("policy", "expected"), [(None, "4"), ({}, "2"), ({"torch": {}}, "2")])
def test_resources_reach_no_pod_without_a_policy(policy: Raw | None, expected: str) -> None:
    place = Place("/j", {}, "/py", 1, "/d", "/m", cpu_count=4)
    env = [{"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]
    planned = plan(trainjob(env=env, resourcesPerNode={"limits": {"cpu": 2}}), custom(policy), place=place)
    assert env_of(planned)["CPUS"] == expected


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ({"secretKeyRef": {"name": "s", "key": "k"}}, "spec.trainer.env[1].valueFrom.secretKeyRef"),
        ({"configMapKeyRef": {"name": "c", "key": "k"}}, "spec.trainer.env[1].valueFrom.configMapKeyRef"),
        ({"fieldRef": {"fieldPath": "metadata.uid"}}, "spec.trainer.env[1].valueFrom.fieldRef"),
        (
            {"resourceFieldRef": {"resource": "limits.ephemeral-storage"}},
            "spec.trainer.env[1].valueFrom.resourceFieldRef",
        ),
        ({"fileKeyRef": {}}, "spec.trainer.env[1].valueFrom"),
    ],
)
def test_what_this_machine_does_not_have_is_refused_by_path(source: Raw, path: str) -> None:
    job = trainjob(env=[{"name": "A", "value": "1"}, {"name": "X", "valueFrom": source}])
    with pytest.raises(InvalidRequest) as caught:
        plan(job, custom(None), place=PLACE)
    assert caught.value.field == path
    assert caught.value.remedy


def test_an_optional_secret_is_left_out() -> None:
    job = trainjob(env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}}])
    own = custom(None, container={"envFrom": [{"secretRef": {"name": "s", "optional": True}}]})
    assert "X" not in env_of(plan(job, own, place=PLACE))


def test_env_from_a_secret_of_the_runtime_is_refused() -> None:
    own = custom(None, container={"envFrom": [{"prefix": "A_"}, {"secretRef": {"name": "s"}}]})
    with pytest.raises(InvalidRequest, match=r'runtime "own", job node, container node: envFrom\[1\]\.secretRef'):
        plan(trainjob(), own, place=PLACE)


# -------------------------------------------------------------------------------------------------------- of our own


def test_a_users_own_value_wins_but_for_the_result_path() -> None:
    place = Place("/j", {"PATH": "/bin", "LANG": "C"}, "/py", 1, "/d", "/m", checkpoint_dir="/c/key")
    mine = {
        "LANG": "de",
        "HOSTNAME": "h",
        "TRAINER_OPS_CHECKPOINT_DIR": "/mine",
        "TRAINER_OPS_RESULT_PATH": "/elsewhere",
    }
    job = trainjob(env=[{"name": k, "value": v} for k, v in mine.items()])
    env = env_of(plan(job, custom(None), place=place))
    result = "/j/results/t-node-0-0-local.node"
    assert {name: env[name] for name in mine} == {**mine, "TRAINER_OPS_RESULT_PATH": result}
    assert env_of(plan(trainjob(), custom(None), place=place))["TRAINER_OPS_CHECKPOINT_DIR"] == "/c/key"


def test_progress_reaches_every_container_of_the_training_pods_and_no_other() -> None:
    place = Place("/j", {}, "/py", 1, "/d", "/m", progress_url="http://x", progress_token="/t", progress_ca="/ca")
    planned = plan(trainjob(numNodes=2), runtime("mpi-distributed"), place=place)
    assert pick(env_of(planned, "launcher"), "KUBEFLOW_") == {
        "KUBEFLOW_TRAINER_SERVER_URL": "http://x",
        "KUBEFLOW_TRAINER_SERVER_CA_CERT": "/ca",
        "KUBEFLOW_TRAINER_SERVER_TOKEN": "/t",
    }
    assert not pick(env_of(planned, "node"), "KUBEFLOW_")


def test_torchs_env_injection_reaches_a_sidecar_without_spec_trainer_too() -> None:
    raw = json.loads(
        json.dumps(
            custom({"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["check"]}]}}}).raw
        )
    )
    pod = raw["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["initContainers"] = [{"name": "check", "command": ["check", "$(PET_MASTER_ADDR)"]}]
    planned = plan({"metadata": {"name": "t"}, "spec": {}}, TrainingRuntime.from_raw(raw), place=PLACE)
    check, node = planned.pods[0].containers
    assert (check.argv, check.env["PET_NNODES"], check.init, check.role) == (("check", "127.0.0.1"), "1", True, "init")
    assert not pick(node.env, "PET_")
