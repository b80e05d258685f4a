"""Features for hypothesis of the kinds beside PyTorchJob, registered when this is imported."""

from __future__ import annotations

import random
from typing import Any

from tests.migrate.strategies import feature, mains, pods, roles

Job = dict[str, Any]

_MPI: tuple[tuple[str, ...], ...] = (
    ("mpirun", "t"),
    ("mpirun", "-np", "2", "-H", "job-worker-0:1,job-launcher", "t"),
    ("mpirun", "-np", "$(N)", "--oversubscribe", "t"),
    ("mpiexec", "-n", "9", "t", "-np", "1"),
    ("mpirun", "-np", "1", "a", ":", "-np", "1", "b"),
    ("mpirun", "-mca", "plm_rsh_agent", "/etc/mpi/kubexec.sh", "--hostfile", "/etc/mpi/hostfile", "t"),
    ("bash", "-c", "set -e; source env\nmpirun -x A=b 'a b' && echo $K_MPI_JOB_ROLE # mpirun"),
    ("horovodrun", "-np", "2", "-H", "localhost:2", "t"),
    ("horovodrun", "--host-discovery-script", "/etc/mpi/discover_hosts.sh", "t"),
    ("deepspeed", "--hostfile", "/etc/mpi/hostfile", "t"),
    ("sh", "-c", "while true; do sleep 5; done"),
    ("tail", "-f", "/dev/null"),
    ("mpiexec.hydra", "t"),
    ("/run.sh",),
)
_SSHD: tuple[tuple[str, ...], ...] = (
    ("/usr/sbin/sshd", "-De"),
    ("sh", "-c", "mkdir -p /run/sshd && exec /usr/sbin/sshd -D -f /x"),
    ("/usr/sbin/sshd", "-o", "AuthorizedKeysFile=/k", "-D"),
    ("service", "ssh", "start"),
    ("sleep", "infinity"),
)


def _role(job: Job, name: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = next((held for key, held in roles(job).items() if key.lower() == name), None)
    return found


def _split(rng: random.Random, container: dict[str, Any], words: tuple[str, ...]) -> None:
    """The words as command and args, in every way that a container may have them."""
    at = rng.randint(0, len(words))
    container.pop("command", None)
    container.pop("args", None)
    if words[:at]:
        container["command"] = list(words[:at])
    if words[at:]:
        container["args"] = list(words[at:])


@feature("MPIJob")
def _launcher_starts(rng: random.Random, job: Job) -> None:
    role = _role(job, "launcher")
    if role is not None:
        _split(rng, role["template"]["spec"]["containers"][0], rng.choice(_MPI))


@feature("MPIJob")
def _workers_run(rng: random.Random, job: Job) -> None:
    role = _role(job, "worker")
    if role is not None:
        _split(rng, role["template"]["spec"]["containers"][0], rng.choice(_SSHD))


@feature("MPIJob")
def _mpi_fields(rng: random.Random, job: Job) -> None:
    values: dict[str, Any] = {
        "slotsPerWorker": rng.choice([1, 2, 0, "$S", None]),
        "mainContainer": rng.choice(["main", "logs", "", "none"]),
    }
    if job["apiVersion"].endswith("v2beta1"):
        values = {
            "slotsPerWorker": rng.choice([1, 4, None]),
            "runLauncherAsWorker": rng.choice([True, False, None]),
            "sshAuthMountPath": rng.choice(["/root/.ssh", "/home/mpiuser/.ssh", ""]),
            "launcherCreationPolicy": rng.choice(["AtStartup", "WaitForWorkersReady", "x"]),
            "mpiImplementation": rng.choice(["OpenMPI", "OpenMPI", "Intel", "MPICH"]),
        }
    job["spec"].update({name: values[name] for name in rng.sample(sorted(values), rng.randint(1, len(values)))})


@feature("MPIJob")
def _mpi_user(rng: random.Random, job: Job) -> None:
    for holder in (*mains(job), *pods(job)):
        if rng.random() < 0.5:
            holder["securityContext"] = {"runAsUser": rng.choice([0, 1000])}


@feature("MPIJob")
def _mpi_env(rng: random.Random, job: Job) -> None:
    values = {
        "OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh",
        "OMPI_MCA_plm_rsh_args": "-p 2222",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_orte_set_default_slots": "1",
        "OMPI_MCA_btl": "tcp",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "K_MPI_JOB_ROLE": "x",
        "I_MPI_HYDRA_BOOTSTRAP": "ssh",
        "PEER": "job-worker-0.job.team.svc",
    }
    for main in mains(job):
        names = rng.sample(sorted(values), rng.randint(0, 4))
        main["env"] = [{"name": name, "value": values[name]} for name in names]


@feature("TFJob")
def _tf_fields(rng: random.Random, job: Job) -> None:
    values: dict[str, Any] = {
        "successPolicy": rng.choice(["", "AllWorkers", None]),
        "enableDynamicWorker": rng.choice([False, False, True, None]),
    }
    job["spec"].update({name: values[name] for name in rng.sample(sorted(values), rng.randint(1, 2))})


@feature("TFJob", "XGBoostJob", "PaddleJob", "JAXJob")
def _variables_of_operators(rng: random.Random, job: Job) -> None:
    names = ["TF_CONFIG", "TASK_INDEX", "MASTER_ADDR", "RANK", "WORKER_ADDRS", "PADDLE_MASTER", "POD_IP_DUMMY"]
    names += ["PROCESS_ID", "COORDINATOR_ADDRESS", "DMLC_TRACKER_PORT", "DMLC_NUM_WORKER", "PYTHONUNBUFFERED"]
    for main in mains(job):
        chosen = rng.sample(names, rng.randint(0, 3))
        main["env"] = [{"name": name, "value": rng.choice(["29500", "2", "$(RANK)", "x"])} for name in chosen]


@feature("TFJob", "XGBoostJob", "PaddleJob", "JAXJob")
def _ports_of_operators(rng: random.Random, job: Job) -> None:
    names = ["tfjob-port", "xgboostjob-port", "master", "jaxjob-port", "metrics"]
    for main in mains(job):
        main["ports"] = [
            {"name": name, "containerPort": rng.choice([2222, 9991, 37777, 8080])} for name in rng.sample(names, 2)
        ]


@feature("XGBoostJob", "PaddleJob", "TFJob")
def _quotes(rng: random.Random, job: Job) -> None:
    for main in mains(job):
        main["args"] = [rng.choice(['--p="a:b"', "--p=a:b", "--p='a:b'"]), "--x=1"]


@feature("XGBoostJob", "PaddleJob", "TFJob", "MPIJob")
def _restart_policies_apart(rng: random.Random, job: Job) -> None:
    for role in roles(job).values():
        role["restartPolicy"] = rng.choice(["OnFailure", "Never", "ExitCode"])


@feature("PaddleJob")
def _paddle_elastic(rng: random.Random, job: Job) -> None:
    values: dict[str, Any] = {"minReplicas": rng.choice([1, 2]), "maxReplicas": rng.choice([2, 4]), "maxRestarts": 3}
    job["spec"]["elasticPolicy"] = {name: values[name] for name in rng.sample(sorted(values), rng.randint(0, 3))}
