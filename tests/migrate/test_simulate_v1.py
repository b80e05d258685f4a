"""Pods of v1 jobs as their operators make them; the tables were read off pods of the real operators."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from trainer_ops.migrate.ledger import Ledger
from trainer_ops.migrate.normalise import V1Job, normalise
from trainer_ops.migrate.simulate.fleet import Fleet
from trainer_ops.migrate.simulate.v1 import simulate_v1

CONTAINERS = {"PyTorchJob": "pytorch", "TFJob": "tensorflow", "XGBoostJob": "xgboost", "PaddleJob": "paddle"}
FIELDS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}


def fleet(kind: str, roles: Mapping[str, Any], *, version: str = "v1", name: str = "j", **spec: Any) -> Fleet:
    """Roles are numbers of replicas, or mappings: ``container``, ``pod``, ``metadata`` and the rest of the entry."""
    specs = {}
    for role, given in roles.items():
        more = dict(given) if isinstance(given, Mapping) else {"replicas": given}
        container = {"name": CONTAINERS.get(kind, "jax" if kind == "JAXJob" else "mpi"), "image": "x:1"}
        pod = {"containers": [{**container, **more.pop("container", {})}], **more.pop("pod", {})}
        metadata = more.pop("metadata", None)
        specs[role] = {**more, "template": {**({"metadata": metadata} if metadata else {}), "spec": pod}}
    raw = {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {FIELDS[kind]: specs, **spec},
    }
    job = normalise(raw, Ledger(raw))
    assert isinstance(job, V1Job), job
    return simulate_v1(job)


def env(made: Fleet, seat: str) -> dict[str, str]:
    pod = made.seat(seat)
    assert pod is not None, [one.seat for one in made.pods]
    return dict(pod.code.env)


TORCH = {"PYTHONUNBUFFERED": "1", "MASTER_PORT": "23456", "PET_MASTER_PORT": "23456"}
TORCH |= {"MASTER_ADDR": "j-master-0", "PET_MASTER_ADDR": "j-master-0"}


@pytest.mark.parametrize(
    ("kind", "roles", "spec", "seat", "expected"),
    [
        pytest.param(
            "PyTorchJob",
            {"Master": 1, "Worker": 2},
            {},
            "rank 2",
            {
                **TORCH,
                "WORLD_SIZE": "3",
                "RANK": "2",
                "PET_NODE_RANK": "2",
                "PET_NPROC_PER_NODE": "auto",
                "PET_NNODES": "3",
            },
            id="torch",
        ),
        pytest.param(
            "PyTorchJob",
            {"Master": 1, "Worker": 1},
            {"nprocPerNode": "4"},
            "rank 0",
            {
                **TORCH,
                "WORLD_SIZE": "8",
                "RANK": "0",
                "PET_NODE_RANK": "0",
                "PET_NPROC_PER_NODE": "4",
                "PET_NNODES": "2",
            },
            id="torch counts processes",
        ),
        pytest.param(
            "PyTorchJob",
            {"worker": 2},
            {},
            "rank 1",
            {"PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": "auto", "PET_NNODES": "2"},
            id="torch without a Master",
        ),
        pytest.param(
            "PyTorchJob",
            {"Worker": 2},
            {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 4, "nProcPerNode": 2}},
            "rank 0",
            {
                "PYTHONUNBUFFERED": "1",
                "PET_RDZV_ENDPOINT": "j-worker-0:23456",
                "PET_RDZV_BACKEND": "c10d",
                "PET_NNODES": "1:3",
                "PET_MAX_RESTARTS": "4",
                "PET_NPROC_PER_NODE": "2",
            },
            id="elastic torch",
        ),
        pytest.param(
            "PyTorchJob",
            {"Worker": 2},
            {
                "elasticPolicy": {
                    "rdzvHost": "etcd",
                    "rdzvPort": 2379,
                    "rdzvBackend": "etcd-v2",
                    "rdzvConf": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}],
                    "standalone": True,
                }
            },
            "rank 0",
            {
                "PYTHONUNBUFFERED": "1",
                "PET_NPROC_PER_NODE": "auto",
                "PET_RDZV_ENDPOINT": "etcd:2379",
                "PET_RDZV_BACKEND": "etcd-v2",
                "PET_NNODES": "2:2",
                "PET_RDZV_CONF": "a=1,b=2",
                "PET_STANDALONE": "",
            },
            id="elastic torch elsewhere",
        ),
        pytest.param(
            "XGBoostJob",
            {"Master": {"container": {"ports": [{"name": "xgboostjob-port", "containerPort": 9991}]}}, "Worker": 2},
            {},
            "rank 1",
            {
                "MASTER_PORT": "9991",
                "MASTER_ADDR": "j-master-0",
                "WORLD_SIZE": "3",
                "RANK": "1",
                "PYTHONUNBUFFERED": "1",
                "WORKER_PORT": "9999",
                "WORKER_ADDRS": "j-worker-0,j-worker-1",
            },
            id="xgboost",
        ),
        pytest.param(
            "PaddleJob",
            {"Worker": 2},
            {},
            "rank 0",
            {
                "PYTHONUNBUFFERED": "1",
                "PADDLE_JOB_ID": "j",
                "PADDLE_NNODES": "2",
                "POD_IP_DUMMY": "<status.podIP>",
                "PADDLE_MASTER": "<status.podIP>:36543",
            },
            id="paddle's first",
        ),
        pytest.param(
            "PaddleJob",
            {"Worker": 2},
            {},
            "rank 1",
            {
                "PYTHONUNBUFFERED": "1",
                "PADDLE_JOB_ID": "j",
                "PADDLE_NNODES": "2",
                "PADDLE_MASTER": "j-worker-0:36543",
            },
            id="paddle's second",
        ),
        pytest.param(
            "PaddleJob",
            {"Master": 1, "Worker": 1},
            {},
            "rank 0",
            {
                "PYTHONUNBUFFERED": "1",
                "PADDLE_JOB_ID": "j",
                "PADDLE_NNODES": "2",
                "PADDLE_MASTER": "j-master-0:36543",
                "PADDLE_TRAINER_NUM": "1",
            },
            id="paddle with servers",
        ),
        pytest.param(
            "JAXJob",
            {"Worker": 3},
            {},
            "rank 2",
            {
                "PYTHONUNBUFFERED": "1",
                "COORDINATOR_PORT": "6666",
                "COORDINATOR_ADDRESS": "j-worker-0",
                "NUM_PROCESSES": "3",
                "PROCESS_ID": "2",
            },
            id="jax",
        ),
        pytest.param("TFJob", {"Worker": 1}, {}, "rank 0", {}, id="one tensorflow"),
    ],
)
def test_environment(kind: str, roles: Any, spec: Any, seat: str, expected: dict[str, str]) -> None:
    found = env(fleet(kind, roles, **spec), seat)
    assert list(found.items()) == list(expected.items())


def test_tf_config() -> None:
    made = fleet("TFJob", {"PS": 1, "Worker": 2, "Chief": 1, "Evaluator": 1})
    found = env(made, "evaluator 0")["TF_CONFIG"]
    assert found.startswith('{"cluster":{"chief":["j-chief-0.default.svc:2222"],"evaluator":')
    held = json.loads(found)
    assert held["cluster"]["worker"] == ["j-worker-0.default.svc:2222", "j-worker-1.default.svc:2222"]
    assert held["task"] == {"type": "evaluator", "index": 0}
    dynamic = fleet("TFJob", {"PS": 1, "Worker": 2}, enableDynamicWorker=True)
    assert json.loads(env(dynamic, "worker 1")["TF_CONFIG"]) == {
        "cluster": {"worker": {"1": "j-worker-1.default.svc:2222"}, "ps": ["j-ps-0.default.svc:2222"]},
        "task": {"type": "worker", "index": 1},
    }


def test_pods_of_training_operator() -> None:
    made = fleet(
        "PyTorchJob",
        {
            "Master": {"metadata": {"labels": {"team": "a"}}},
            "Worker": {
                "replicas": 1,
                "restartPolicy": "ExitCode",
                "pod": {"restartPolicy": "Always", "initContainers": [{"name": "mine", "image": "i:1"}]},
            },
        },
    )
    master, worker = made.pods
    label = "training.kubeflow.org/"
    assert master.labels == {
        "team": "a",
        f"{label}operator-name": "pytorchjob-controller",
        f"{label}job-name": "j",
        f"{label}replica-type": "master",
        f"{label}replica-index": "0",
        f"{label}job-role": "master",
    }
    assert f"{label}job-role" not in worker.labels
    assert [one.name for one in master.init] == []
    assert [one.name for one in worker.init] == ["mine", "init-pytorch"]
    assert "nslookup j-master-0" in worker.init[1].argv[2]
    assert (master.spec["restartPolicy"], worker.spec["restartPolicy"]) == ("OnFailure", "Never")
    assert master.code.raw["ports"] == [{"name": "pytorchjob-port", "containerPort": 23456}]
    assert made.services == ("j-master-0", "j-worker-0")
    assert made.behaviour.restart == {"rank 0": "in-place", "rank 1": "exit-code"}
    assert made.behaviour.retries == {"rank 0": None, "rank 1": None}


@pytest.mark.parametrize(
    ("kind", "roles", "spec", "success"),
    [
        pytest.param("PyTorchJob", {"Master": 1, "Worker": 2}, {}, ("rank 0",), id="the Master"),
        pytest.param("PyTorchJob", {"Worker": 2}, {}, ("rank 0", "rank 1"), id="all workers"),
        pytest.param("PyTorchJob", {"Worker": 2}, {"elasticPolicy": {}}, ("any", "rank 0", "rank 1"), id="any"),
        pytest.param("TFJob", {"Worker": 2, "PS": 1}, {}, ("worker 0",), id="worker 0"),
        pytest.param(
            "TFJob", {"Worker": 2, "PS": 1}, {"successPolicy": "AllWorkers"}, ("worker 0", "worker 1"), id="AllWorkers"
        ),
        pytest.param("TFJob", {"Worker": 2, "Chief": 1}, {"successPolicy": "AllWorkers"}, ("chief 0",), id="the Chief"),
        pytest.param("MPIJob", {"Launcher": 1, "Worker": 2}, {}, ("launcher",), id="the launcher"),
    ],
)
def test_success(kind: str, roles: Any, spec: Any, success: tuple[str, ...]) -> None:
    assert fleet(kind, roles, **spec).behaviour.success == success


@pytest.mark.parametrize(
    ("policy", "attribute", "expected"),
    [
        pytest.param({}, "outlive", "left", id="None is the default"),
        pytest.param({"cleanPodPolicy": "Running"}, "outlive", "ended", id="Running"),
        pytest.param({"cleanPodPolicy": "All"}, "cleanup", "deleted", id="All"),
        pytest.param({"backoffLimit": 3}, "retries", {"rank 0": 3, "rank 1": 3}, id="a limit"),
        pytest.param({"activeDeadlineSeconds": 9}, "deadline", 9, id="a deadline"),
        pytest.param({"ttlSecondsAfterFinished": 7}, "ttl", 7, id="a TTL"),
        pytest.param({"suspend": True}, "suspended", True, id="suspended"),
    ],
)
def test_run_policy(policy: dict[str, Any], attribute: str, expected: Any) -> None:
    for spec in ({"runPolicy": policy}, policy if "suspend" not in policy else {"runPolicy": policy}):
        assert getattr(fleet("PyTorchJob", {"Master": 1, "Worker": 1}, **spec).behaviour, attribute) == expected


def test_mpi_operator() -> None:
    made = fleet(
        "MPIJob",
        {
            "Launcher": {"container": {"command": ["mpirun"]}, "pod": {"hostNetwork": True}},
            "Worker": {"replicas": 2, "pod": {"dnsConfig": {"searches": ["a"]}}},
        },
        version="v2beta1",
        slotsPerWorker=2,
    )
    launcher, first, _ = made.pods
    assert made.hostfile == ("j-worker-0.j.default.svc slots=2", "j-worker-1.j.default.svc slots=2")
    assert made.nodes == 2
    assert made.processes == "2"
    assert list(launcher.code.env) == [
        "K_MPI_JOB_ROLE",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_orte_set_default_slots",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
    ]
    assert first.code.argv == ("/usr/sbin/sshd", "-De")
    assert first.code.env == {"K_MPI_JOB_ROLE": "worker"}
    assert (launcher.spec["dnsPolicy"], launcher.spec["hostname"]) == ("ClusterFirstWithHostNet", "j-launcher")
    assert first.spec["dnsConfig"] == {"searches": ["a", "j.default.svc.cluster.local"]}
    assert sorted(launcher.code.mounts) == ["/etc/mpi", "/root/.ssh"]
    assert sorted(first.code.mounts) == ["/root/.ssh"]
    secret = next(one["secret"] for one in first.spec["volumes"] if one["name"] == "ssh-auth")
    assert secret["defaultMode"] == 0o600
    assert made.services == ("j",)
    assert made.behaviour.restart == {"launcher": "in-place", "host 0": "never", "host 1": "never"}
    assert made.behaviour.retries == {"launcher": 6, "host 0": 0, "host 1": 0}


def test_a_launcher_that_is_a_worker() -> None:
    made = fleet("MPIJob", {"Launcher": 1, "Worker": 1}, version="v2beta1", runLauncherAsWorker=True)
    assert made.hostfile == ("j-launcher.j.default.svc slots=1", "j-worker-0.j.default.svc slots=1")
    assert "NVIDIA_VISIBLE_DEVICES" not in made.pods[0].code.env
    assert [one.labels["training.kubeflow.org/replica-index"] for one in made.pods] == ["0", "1"]


@pytest.mark.parametrize(
    ("implementation", "line", "variable"),
    [
        pytest.param("Intel", "j-worker-0.j.default.svc:1", "I_MPI_PERHOST", id="Intel"),
        pytest.param("MPICH", "j-worker-0.j.default.svc:1", "HYDRA_LAUNCH_EXTRA_ARGS", id="MPICH"),
    ],
)
def test_other_implementations(implementation: str, line: str, variable: str) -> None:
    roles = {"Launcher": 1, "Worker": 1}
    made = fleet("MPIJob", roles, version="v2beta1", mpiImplementation=implementation)
    assert made.hostfile == (line,)
    assert variable in made.pods[0].code.env


def test_mpi_by_kubectl() -> None:
    made = fleet("MPIJob", {"Launcher": {"container": {"command": ["mpirun"]}}, "Worker": 2})
    launcher, first, _ = made.pods
    assert made.hostfile == ("j-worker-0 slots=1", "j-worker-1 slots=1")
    assert launcher.code.env["OMPI_MCA_plm_rsh_agent"] == "/etc/mpi/kubexec.sh"
    assert launcher.spec["serviceAccountName"] == "j-launcher"
    assert [one.name for one in launcher.init] == ["kubectl-delivery"]
    assert first.code.argv == ("sleep", "365d")
    assert made.services == ()
    gpu = {"container": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}
    made = fleet("MPIJob", {"Launcher": gpu, "Worker": 1})
    assert made.hostfile == ("j-launcher slots=1", "j-worker-0 slots=1")
    assert "NVIDIA_VISIBLE_DEVICES" not in made.pods[0].code.env


def test_what_the_launcher_by_kubectl_has() -> None:
    made = fleet("MPIJob", {"Launcher": 1, "Worker": 11}, slotsPerWorker=2, mainContainer="mpi")
    held = made.config_maps["j-config"]
    assert held["hostfile"].splitlines() == [f"j-worker-{index} slots=2" for index in range(11)]
    assert held["kubexec.sh"].endswith('/opt/kube/kubectl exec ${POD_NAME} --container mpi -- /bin/sh -c "$*"')
    # In the order of names, and without a line end.
    assert held["discover_hosts.sh"].startswith("#!/bin/sh\necho j-worker-0:2\necho j-worker-1:2\necho j-worker-10:2\n")
    assert made.rights == {"j-launcher": tuple(f"j-worker-{index}" for index in range(11))}
    assert [one.labels["training.kubeflow.org/replica-index"] for one in made.pods[1:]] == [str(i) for i in range(11)]
    gpu = {"container": {"resources": {"limits": {"nvidia.com/gpu": 1}}}, "pod": {"serviceAccountName": "own"}}
    made = fleet("MPIJob", {"Launcher": gpu, "Worker": 1})
    assert made.config_maps["j-config"]["discover_hosts.sh"] == "#!/bin/sh\necho j-launcher:1\n\necho j-worker-0:1"
    assert made.rights == {"own": ("j-worker-0",)}
    # With an empty list of names: all pods of the namespace.
    assert fleet("MPIJob", {"Launcher": 1}).rights == {"j-launcher": ()}


def test_exit_codes_of_an_mpi_job_by_kubectl() -> None:
    """It says Restarting and does nothing; other kinds get a new pod from 128 on."""
    roles = {"Launcher": {"restartPolicy": "ExitCode"}, "Worker": {"replicas": 1, "restartPolicy": "ExitCode"}}
    behaviour = fleet("MPIJob", roles, runPolicy={"backoffLimit": 3}).behaviour
    assert behaviour.restart == {"launcher": "never", "host 0": "never"}
    assert behaviour.retries == {"launcher": 0, "host 0": 0}


def test_a_name_that_is_generated() -> None:
    raw = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "JAXJob",
        "metadata": {"generateName": "g-"},
        "spec": {"jaxReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [{"name": "jax"}]}}}}},
    }
    job = normalise(raw, Ledger(raw))
    assert isinstance(job, V1Job)
    assert simulate_v1(job).pods[0].name == "g-xxxxx-worker-0"
