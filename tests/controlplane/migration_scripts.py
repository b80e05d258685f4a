"""Trainings that tell who they are and whom they reach, each written for what its v1 operator gives.

They run on this machine's Python; a line, behind ``> ``, says the rank, how many there are, and what came back from
the others.
"""

from __future__ import annotations

import copy
from typing import Any

__all__ = ["GATE", "JOBS", "NEEDS_TORCH", "OUTLIVED"]

Raw = dict[str, Any]
IMAGE = "none.example/image"  # the test kubelet runs this machine's programs
GATE = "<gate>"  # a folder of the test, which replaces this

TORCH = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
rank, world = dist.get_rank(), dist.get_world_size()
print(f"> rank {rank} of {world} at {os.environ['MASTER_ADDR']}: {value.item():g}", flush=True)
"""

# torchrun's processes meet at an address of its own.
TORCHRUN = TORCH.replace(" at {os.environ['MASTER_ADDR']}", " on node {os.environ['GROUP_RANK']}")

# As v1's examples do it: rank 0 starts the tracker where MASTER_ADDR and MASTER_PORT say.
XGBOOST = """
import os, socket, numpy, xgboost
from xgboost import collective
from xgboost.tracker import RabitTracker
env = os.environ
rank, world, port = int(env["RANK"]), int(env["WORLD_SIZE"]), int(env["MASTER_PORT"])
for attempt in range(100):
    try:
        address = socket.gethostbyname(env["MASTER_ADDR"])
        break
    except OSError:
        import time; time.sleep(0.1)
if rank == 0:
    tracker = RabitTracker(host_ip=address, n_workers=world, port=port)
    tracker.start()
with collective.CommunicatorContext(dmlc_tracker_uri=address, dmlc_tracker_port=port, dmlc_task_id=f"{rank}",
                                    dmlc_retry=100):
    total = collective.allreduce(numpy.array([rank + 1]), collective.Op.SUM)[0]
    x = numpy.arange(40.0).reshape(20, 2) + rank
    trained = xgboost.train({"nthread": 1}, xgboost.DMatrix(x, label=x[:, 0]), num_boost_round=2)
    print(f"> rank {rank} of {world}: {total}, {trained.num_boosted_rounds()} rounds,"
          f" {env['MASTER_ADDR']} leads {env['WORKER_ADDRS']}", flush=True)
if rank == 0:
    tracker.wait_for()
"""

# Everyone listens where the others are told to look for it, says its name to all, and waits until all have called.
TALK = """
import json, os, socket, sys, threading, time

def talk(me, own_port, peers):
    server = socket.create_server(("0.0.0.0", own_port))
    called = []
    def serve():
        while len(called) < len(peers):
            line, _ = server.accept()
            called.append(line.recv(100).decode())
            line.sendall(me.encode())
            line.close()
    listening = threading.Thread(target=serve)
    listening.start()
    heard = []
    for peer in peers:
        host, _, port = peer.rpartition(":")
        for attempt in range(300):
            try:
                line = socket.create_connection((host, int(port)), timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        line.sendall(me.encode())
        heard.append(f"{peer} is {line.recv(100).decode()}")
    listening.join()
    print(f"> {me}: {', '.join(heard)}; called by {', '.join(sorted(called))}", flush=True)
"""

TENSORFLOW = (
    TALK
    + """
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
own = config["cluster"][task["type"]][task["index"]]
peers = [peer for kind in sorted(config["cluster"]) for peer in config["cluster"][kind]]
print(f"> {task['type']} {task['index']} of {len(peers)}, {config['environment']}", flush=True)
talk(f"{task['type']} {task['index']}", int(own.rpartition(":")[2]), peers)
if task["type"] == "ps":
    time.sleep(600)
while task["type"] == "chief" and not os.path.exists("/gate/open"):
    time.sleep(0.05)
"""
)

JAX = (
    TALK
    + """
env = os.environ
rank, world = int(env["PROCESS_ID"]), int(env["NUM_PROCESSES"])
port = int(env["COORDINATOR_PORT"])
print(f"> process {rank} of {world} at {env['COORDINATOR_ADDRESS']}:{port}", flush=True)
if rank == 0:
    server = socket.create_server(("0.0.0.0", port))
    lines = [server.accept()[0] for _ in range(world - 1)]
    print("> came: " + ", ".join(sorted(line.recv(100).decode() for line in lines)), flush=True)
    for line in lines:
        line.sendall(b"welcome")
else:
    for attempt in range(300):
        try:
            line = socket.create_connection((env["COORDINATOR_ADDRESS"], port), timeout=5)
            break
        except OSError:
            time.sleep(0.1)
    line.sendall(f"process {rank}".encode())
    print(f"> coordinator: {line.recv(100).decode()}", flush=True)
"""
)

MPI = """
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
hosts = world.gather(os.uname().nodename)
total = world.allreduce(world.rank + 1)
if world.rank == 0:
    for rank, host in enumerate(hosts):
        print(f"> rank {rank} of {world.size} on {host}: {total}", flush=True)
"""


def _pod(container: str, command: list[str], **more: Any) -> Raw:
    return {"spec": {"containers": [{"name": container, "image": IMAGE, "command": command, **more}]}}


def _job(kind: str, field: str, roles: dict[str, tuple[int, Raw]], *, version: str = "v1", **spec: Any) -> Raw:
    made = {
        role: {"replicas": replicas, "restartPolicy": "Never", "template": pod}
        for role, (replicas, pod) in roles.items()
    }
    return {"apiVersion": f"kubeflow.org/{version}", "kind": kind, "metadata": {}, "spec": {**spec, field: made}}


def _pair(kind: str, field: str, pod: Raw, **spec: Any) -> Raw:
    return _job(kind, field, {"Master": (1, pod), "Worker": (2, pod)}, **spec)


def _mpi(slots: int) -> Raw:
    run = ["mpirun", "--allow-run-as-root", "-np", str(2 * slots), "python3", "-c", MPI]
    sshd: Raw = {"spec": {"containers": [{"name": "worker", "image": IMAGE}]}}
    return _job(
        "MPIJob",
        "mpiReplicaSpecs",
        {"Launcher": (1, _pod("launcher", run)), "Worker": (2, sshd)},
        version="v2beta1",
        slotsPerWorker=slots,
        runPolicy={"cleanPodPolicy": "Running"},
    )


_SYSTEM_PYTHON = "/usr/bin/python3"
# Debian's torchrun 1.13 needs both on Python 3.11.
_TORCHRUN_ENV = [{"name": name, "value": "1"} for name in ("PET_REDIRECTS", "PET_TEE")]
_TF = _pod("tensorflow", ["python3", "-c", TENSORFLOW])


def _gated(pod: Raw) -> Raw:
    """The end of a chief ends everybody's pods, so this one waits until the test has opened its gate."""
    held = copy.deepcopy(pod)
    held["spec"]["volumes"] = [{"name": "gate", "hostPath": {"path": GATE}}]
    held["spec"]["containers"][0]["volumeMounts"] = [{"name": "gate", "mountPath": "/gate"}]
    return held


JOBS: dict[str, Raw] = {
    "torch": _pair("PyTorchJob", "pytorchReplicaSpecs", _pod("pytorch", [_SYSTEM_PYTHON, "-c", TORCH])),
    "torchrun": _pair(
        "PyTorchJob",
        "pytorchReplicaSpecs",
        _pod("pytorch", ["/usr/bin/torchrun", "--no_python", _SYSTEM_PYTHON, "-c", TORCHRUN], env=_TORCHRUN_ENV),
        nprocPerNode="2",
    ),
    "xgboost": _pair("XGBoostJob", "xgbReplicaSpecs", _pod("xgboost", ["python3", "-c", XGBOOST])),
    "tensorflow": _job("TFJob", "tfReplicaSpecs", {"Worker": (3, _TF)}, successPolicy="AllWorkers"),
    "parameters": _job(
        "TFJob",
        "tfReplicaSpecs",
        {"Chief": (1, _gated(_TF)), "Worker": (2, _TF), "PS": (1, _TF)},
        runPolicy={"cleanPodPolicy": "Running"},
    ),
    "jax": _job("JAXJob", "jaxReplicaSpecs", {"Worker": (3, _pod("jax", ["python3", "-c", JAX]))}),
    "mpi": _mpi(1),
    "mpi-slots": _mpi(2),
}
NEEDS_TORCH = ("torch", "torchrun")
# Of these the chief ends when all workers have been seen to end.
OUTLIVED = ("parameters",)
