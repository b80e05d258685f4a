"""What tests of real trainings on the control plane share: targets, runtimes of their own, somebody who listens."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster
from tests.controlplane.plane import ADMIN_TOKEN
from trainer_ops.backends.base import LogSource
from trainer_ops.backends.kubernetes.hub import end_idle
from trainer_ops.lifecycle.listener import Silent
from trainer_ops.model.observed import Observation
from trainer_ops.model.phase import State

__all__ = ["SSH_AGENT", "Heard", "cluster_target", "fetching_runtime", "mpi_runtime", "target_of", "token_of"]

Raw = dict[str, Any]
IMAGE = "none.example/image"  # the test kubelet runs this machine's programs


@pytest.fixture
def cluster_target(control_plane: Cluster, cluster_namespace: str) -> Iterator[str]:
    """A target with all rights, in a namespace of the test's own; no thread of its hub outlives the test."""
    yield target_of(control_plane, cluster_namespace)
    assert end_idle()


def target_of(cluster: Cluster, namespace: str, token: str = ADMIN_TOKEN) -> str:
    """A target as the user of that token."""
    user = "admin" if token == ADMIN_TOKEN else "user"
    path = cluster.plane.write_kubeconfig(token, f"{user}-{namespace}")
    return f"kubernetes://{user}-{namespace}/{namespace}?kubeconfig={path}"


def token_of(cluster: Cluster, namespace: str, account: str) -> str:
    """Make a ServiceAccount without any rights; its token."""
    from tests.controlplane.api import path_of

    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
    cluster.api.create(made, namespace=namespace)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = cluster.api.call("POST", path_of("ServiceAccount", namespace, account, "token"), request)
    return str(answer["status"]["token"])


class Heard(Silent):
    """Keeps what a wait says. Safe to read from another thread."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.progress: list[int] = []
        self.running = threading.Event()

    def on_state(self, state: State, obs: Observation | None) -> None:
        if state.phase.value == "running":
            self.running.set()
        seen = obs.job.progress if obs is not None and obs.job is not None else None
        if seen is not None and seen.percentage is not None:
            self.progress.append(seen.percentage)

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        self.lines += [(source.node, line) for line in lines]

    def on_note(self, text: str) -> None:
        self.notes.append(text)

    def text(self) -> str:
        """All lines, for the message of an assertion."""
        return "\n".join(f"[{node}] {line}" for node, line in self.lines)


# -- MPI over ssh -----------------------------------------------------------------------------------------------------

SSH_AGENT: Raw = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "ssh-agent"},
    "data": {
        # Trainer mounts the key with mode 0640, and ssh wants a key of its own user for that user alone. In the pods of
        # MPI trainings the test kubelet covers /usr/bin/ssh with a stand-in: this one is the machine's own.
        "ssh": "#!/bin/sh\n"
        "install -m 600 /mnt/ssh/id_rsa /tmp/key$$ && exec /mnt/host/ssh -i /tmp/key$$ -o StrictHostKeyChecking=no"
        ' -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$@"\n'
    },
}
_SSHD = (
    "mkdir -p /run/sshd && exec /usr/sbin/sshd -De -o AuthorizedKeysFile=/mnt/ssh/authorized_keys -o StrictModes=no"
    ' -o "SetEnv=PATH=$PATH"'
)


def mpi_runtime(name: str, *, launcher_is_node: bool) -> Raw:
    """Open MPI over real ssh, as root: an sshd on every node, its key where Trainer mounts it."""
    # Open MPI 5 hands the agent's path on to the daemons of all nodes, and each looks for it.
    agent: Raw = {"name": "agent", "configMap": {"name": "ssh-agent", "defaultMode": 0o755}}
    volumes = {"volumes": [agent, {"name": "host", "hostPath": {"path": "/usr/bin"}}]}
    mounts = [{"name": name, "mountPath": f"/mnt/{name}"} for name in ("agent", "host")]
    container = {"name": "node", "image": IMAGE, "volumeMounts": mounts}
    sshd = {"command": ["sh", "-c", _SSHD], "readinessProbe": {"tcpSocket": {"port": 22}}}
    launcher = {"env": [{"name": "PRTE_MCA_plm_ssh_agent", "value": "/mnt/agent/ssh"}]}
    mpi = {"mpiImplementation": "OpenMPI", "numProcPerNode": 1, "sshAuthMountPath": "/mnt/ssh"}
    return _runtime(
        name,
        {"mpi": {**mpi, "runLauncherAsNode": launcher_is_node}},
        _job("node", {**volumes, "containers": [{**container, **sshd}]}),
        _job(
            "launcher",
            {**volumes, "containers": [{**container, **launcher}]},
            ancestor="trainer",
            after=[{"name": "node", "status": "Ready"}],
        ),
        network={"publishNotReadyAddresses": True},
        successPolicy={"operator": "All", "targetReplicatedJobs": ["launcher"]},
    )


# -- initializers -----------------------------------------------------------------------------------------------------


def fetching_runtime(name: str) -> Raw:
    """Fetches a dataset and a model before its nodes start, onto a claim that all mount at /workspace."""
    volume = {"name": "initializer", "persistentVolumeClaim": {"claimName": "fetched"}}
    mount = [{"name": "initializer", "mountPath": "/workspace"}]
    steps = ("dataset-initializer", "model-initializer")

    def pod(container: str) -> Raw:
        return {"volumes": [volume], "containers": [{"name": container, "image": IMAGE, "volumeMounts": mount}]}

    return _runtime(
        name,
        {"xgboost": {}},
        *(_job(step, pod(step), ancestor=step) for step in steps),
        _job("node", pod("node"), ancestor="trainer", after=[{"name": s, "status": "Complete"} for s in steps]),
    )


def _runtime(name: str, policy: Raw, *jobs: Raw, **jobset: Any) -> Raw:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {
            "mlPolicy": {"numNodes": 1, **policy},
            "template": {"spec": {"replicatedJobs": list(jobs), **jobset}},
        },
    }


def _job(name: str, pod: Raw, *, ancestor: str = "", after: Sequence[Raw] = ()) -> Raw:
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor} if ancestor else {}
    template = {
        "metadata": {"labels": labels},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", **pod}}},
    }
    return {"name": name, "template": template, **({"dependsOn": list(after)} if after else {})}
