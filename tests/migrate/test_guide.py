"""The four examples by which teams migrate by hand, and what comes of them.

Guides show a v1 job and the TrainJob that it is to become: a PyTorchJob of two replicas, an MPIJob of one launcher and
two workers, an MPIJob in which people start mpirun themselves, and a job whose data are fetched before it. Each test
says first what the guides' TrainJob would do (played, and compared with v1's pods), then what is made here instead.
"""

from __future__ import annotations

from typing import Any

import yaml

from tests.migrate.checked import checked, codes, env_of, fates, trainer_of
from tests.migrate.kinds import containers, parts
from trainer_ops.migrate.ledger import Ledger
from trainer_ops.migrate.normalise import V1Job, normalise
from trainer_ops.migrate.simulate.compare import Difference, compare
from trainer_ops.migrate.simulate.fleet import Fleet
from trainer_ops.migrate.simulate.runtimes import STOCK
from trainer_ops.migrate.simulate.v1 import simulate_v1
from trainer_ops.migrate.simulate.v2 import simulate_v2
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.validate.trainjob import check


def read(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def before(raw: dict[str, Any]) -> Fleet:
    """v1's pods."""
    job = normalise(raw, Ledger(raw))
    assert isinstance(job, V1Job)
    return simulate_v1(job)


def by_hand(raw: dict[str, Any], text: str) -> dict[tuple[str, str], Difference]:
    """What differs when the guides' TrainJob is used, by topic and what it is of."""
    return {(one.topic, one.what): one for one in compare(before(raw), simulate_v2(read(text)))}


# 1. Two replicas of a script that meets by RANK, WORLD_SIZE and MASTER_ADDR.

MNIST = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: mnist}
spec:
  pytorchReplicaSpecs:
    Master: &role
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - {name: pytorch, image: registry.example/mnist:1, command: [python3, /opt/mnist.py, --epochs=1]}
    Worker: *role
"""
MNIST_BY_HAND = """
metadata: {name: mnist}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {numNodes: 2, image: registry.example/mnist:1, command: [python3, /opt/mnist.py, --epochs=1]}
"""


def test_pytorch_by_hand_is_two_trainings_of_one_process() -> None:
    """Trainer gives PET_* only, which torchrun reads and python does not: no error, and two models of half the data."""
    found = by_hand(read(MNIST), MNIST_BY_HAND)
    lost = {what for topic, what in found if topic == "environment" and found[topic, what].v2 == ""}
    assert {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= lost


def test_pytorch_keeps_its_rendezvous() -> None:
    done = checked(read(MNIST))
    assert done.runtime is None
    assert trainer_of(done)["command"] == ["python3", "/opt/mnist.py", "--epochs=1"]
    env = env_of(done)
    assert (env["WORLD_SIZE"], env["MASTER_ADDR"], env["MASTER_PORT"]) == ("2", "mnist-node-0-0.mnist", "29500")
    assert done.trainjob is not None
    ranks = [pod.code.env["RANK"] for pod in simulate_v2(done.trainjob).pods]
    assert ranks == [pod.code.env["RANK"] for pod in before(read(MNIST)).pods] == ["0", "1"]


# 2. One launcher, two workers, one rank on each worker.

MPI = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: mpi}
spec:
  slotsPerWorker: 1
  runPolicy: {cleanPodPolicy: Running}
  sshAuthMountPath: /home/mpiuser/.ssh
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - &main
              name: mpi
              image: registry.example/mpi-training:1
              securityContext: {runAsUser: 1000}
              command: [mpirun, python3, train.py]
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - <<: *main
              command: [/usr/sbin/sshd, -De, -f, /home/mpiuser/.sshd_config]
              resources: {limits: {nvidia.com/gpu: 1}}
"""
MPI_BY_HAND = """
metadata: {{name: mpi}}
spec:
  runtimeRef: {{name: deepspeed-distributed}}
  trainer:
    numNodes: {nodes}
    image: registry.example/mpi-training:1
    command: [mpirun, python3, train.py]
    resourcesPerNode: {{limits: {{nvidia.com/gpu: 1}}}}
"""


def test_mpi_by_hand_looks_for_the_script_in_another_image() -> None:
    """spec.trainer.image is the launcher's. Ranks run on the nodes, whose image is the stock runtime's."""
    found = by_hand(read(MPI), MPI_BY_HAND.format(nodes=2))
    assert "deepspeed-runtime" in found["image", "image"].v2
    assert found["image", "image"].seats == ("host 0",)


def test_mpi_by_hand_counts_the_launcher() -> None:
    """The stock runtimes run ranks in the launcher too: 2 is launcher and one node, 3 is one rank more than in v1."""
    v1 = before(read(MPI))
    assert [line.rpartition(" ")[2] for line in v1.hostfile] == ["slots=1", "slots=1"]
    two = simulate_v2(read(MPI_BY_HAND.format(nodes=2)))
    assert sorted(pod.role for pod in two.pods) == ["launcher", "node"]
    assert any(line.startswith("mpi-launcher-0-0.mpi ") for line in two.hostfile)
    three = simulate_v2(read(MPI_BY_HAND.format(nodes=3)))
    assert len(three.hostfile) == 3


def test_mpi_keeps_ranks_where_they_were() -> None:
    done = checked(read(MPI))
    trainer = trainer_of(done)
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (2, 1)
    assert trainer["command"] == ["mpirun", "--hostfile", "/etc/mpi/hostfile", "python3", "train.py"]
    (node,) = containers(done, "node")
    assert node["image"] == "registry.example/mpi-training:1"
    assert node["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert done.trainjob is not None
    fleet = simulate_v2(done.trainjob, done.runtime)
    assert fleet.hostfile == ("mpi-node-0-0.mpi slots=1", "mpi-node-0-1.mpi slots=1")
    assert [pod.role for pod in fleet.pods].count("launcher") == 1


def test_what_guides_drop_in_silence_is_accounted_for() -> None:
    found = fates(checked(read(MPI)))
    assert found["spec.runPolicy.cleanPodPolicy"] == "dropped"
    assert found["spec.mpiReplicaSpecs.Launcher.restartPolicy"].endswith("template.spec.restartPolicy")


def test_mpi_as_root_would_never_start() -> None:
    """Trainer mounts the key 0640, and ssh as root refuses it: mpirun in back-off for ever, and nobody says why."""
    raw = read(MPI.replace("sshAuthMountPath: /home/mpiuser/.ssh", "").replace("runAsUser: 1000", "runAsUser: 0"))
    done = checked(raw)
    assert "install -m 600 /mnt/ssh/id_rsa /root/.ssh/id_rsa" in trainer_of(done)["command"][2]
    assert "MPI-KEYMODE" in codes(done, "warning")


# 3. People start mpirun in the launcher.

INTERACTIVE = MPI.replace("command: [mpirun, python3, train.py]", "command: [sleep, infinity]")


def test_interactive_mpi_has_another_pod_and_another_container() -> None:
    """v1: kubectl exec mpi-launcher-xxxxx. The label that upstream examples select by is on Jobs, not on pods."""
    done = checked(read(INTERACTIVE))
    assert trainer_of(done)["command"] == ["sleep", "infinity"]
    (found,) = [one for one in done.findings if one.code == "MPI-INTERACTIVE"]
    assert "trainer-ops exec mpi -- mpirun --hostfile /etc/mpi/hostfile" in found.message
    assert "kubectl exec -it -c node" in found.message
    assert "jobset.sigs.k8s.io/jobset-name=mpi,jobset.sigs.k8s.io/replicatedjob-name=launcher" in found.message
    assert "trainjob-ancestor-step" not in found.message
    assert "activeDeadlineSeconds" in found.remedy
    assert done.trainjob is not None
    assert len(simulate_v2(done.trainjob, done.runtime).hostfile) == 2


# 4. Data that are fetched before the training.

FETCHED = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: tune}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          initContainers:
            - name: fetch
              image: registry.example/fetch:1
              command: [fetch, "hf://datasets/org/data", /workspace]
              volumeMounts: [{name: data, mountPath: /workspace}]
          containers:
            - name: pytorch
              image: registry.example/tune:1
              command: [torchrun, tune.py]
              volumeMounts: [{name: data, mountPath: /workspace}]
          volumes: [{name: data, emptyDir: {}}]
"""
FETCHED_BY_HAND = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tune}
spec:
  runtimeRef: {name: torch-distributed}
  initializer: {dataset: {storageUri: "hf://org/data"}}
  trainer: {numNodes: 2, image: registry.example/tune:1, command: [torchrun, tune.py]}
"""


def test_an_initializer_by_hand_is_refused_by_a_runtime_that_has_none() -> None:
    """spec.initializer fills a job of the runtime, and torch-distributed has no such job."""
    errors = check(read(FETCHED_BY_HAND), TrainingRuntime.from_raw(STOCK["torch-distributed"]))
    assert any(one.is_error and "dataset-initializer" in str(one) for one in errors)


def test_what_fetches_the_data_stays_in_the_pods() -> None:
    done = checked(read(FETCHED))
    assert done.trainjob is not None
    assert "initializer" not in done.trainjob["spec"]
    pod = parts(done)["node"]["template"]["spec"]["template"]["spec"]
    (fetch,) = pod["initContainers"]
    assert (fetch["name"], fetch["command"]) == ("fetch", ["fetch", "hf://datasets/org/data", "/workspace"])
    assert pod["volumes"] == [{"name": "data", "emptyDir": {}}]
    assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == ["/workspace"]
