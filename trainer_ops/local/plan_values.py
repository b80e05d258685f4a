"""What a plan is made of, and what it is made from: plain values between the pure half and the half that runs it.

The engine owns processes, files, ports and clocks; it describes itself in a ``Place`` and gets a ``JobPlan`` back, in
which every argv and every environment is complete. Pure: imports nothing that could look at the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["LOOPBACK", "ContainerPlan", "JobPlan", "Place", "PodPlan", "Role", "StepPlan"]

LOOPBACK = "127.0.0.1"

# main: what trains, or the runtime's own initializer program. initializer: the engine's initializer (argv from
# ``Place.initializer``). sshd: the stand-in for a node's sshd. init: an init container that is waited for. sidecar: any
# other container of the pod.
Role = Literal["main", "initializer", "sshd", "init", "sidecar"]


@dataclass(frozen=True, slots=True)
class Place:
    """What the machine and the engine are like, as plain values. All paths are absolute.

    Attributes:
        job_dir: the folder of this TrainJob; the plan names files below it (hostfile, results, sockets) and the
            engine makes the folders.
        env: what every process starts from: PATH with the interpreter's folder first, HOME, LANG, … A container's
            own variables win. As on Kubernetes, ``$(NAME)`` does not reach these.
        python: the interpreter that runs our own helpers.
        port: a free TCP port of this TrainJob; stands for Trainer's fixed 29500.
        dataset_dir: the folder that a dataset initializer fills; stands for ``/workspace/dataset``.
        model_dir: the same for ``/workspace/model``.
        checkpoint_dir: ``TRAINER_OPS_CHECKPOINT_DIR`` where the TrainJob does not bring one; None sets none.
        initializer: argv of the engine's initializer; the plan appends ``dataset`` or ``model``, URI and folder.
        suffix: the random tail of the pods' names.
        attempt: JobSet's restart attempt, counted from 0.
        namespace: what ``metadata.namespace`` is.
        host: what ``spec.nodeName`` is.
        cpu_count: what ``limits.cpu`` is for a container that has no limit.
        memory_bytes: the same for ``limits.memory``.
        progress_url: ``KUBEFLOW_TRAINER_SERVER_URL``; None when no progress is served.
        progress_token: path of a file with the token.
        progress_ca: path of a file with the CA certificate.
    """

    job_dir: str
    env: Mapping[str, str]
    python: str
    port: int
    dataset_dir: str
    model_dir: str
    checkpoint_dir: str | None = None
    initializer: tuple[str, ...] = ()
    suffix: str = "local"
    attempt: int = 0
    namespace: str = "default"
    host: str = "localhost"
    cpu_count: int = 1
    memory_bytes: int = 0
    progress_url: str | None = None
    progress_token: str = ""
    progress_ca: str = ""


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One process to start.

    Attributes:
        argv: complete; ``argv[0]`` is looked up in the PATH of ``env`` where it is no path.
        env: complete: nothing of the engine's own environment may be added.
        working_dir: where it starts; None leaves it to the engine.
        init: runs before the others of its pod, one after the other; with ``role`` ``sidecar`` it is not waited for
            (a native sidecar, ``restartPolicy: Always``) and is stopped when the others have ended.
        result_path: the file that stands for ``/dev/termination-log``; empty it before every start.
        ready_path: the container is Ready once this path exists (remove it before every start); None: as soon as it
            runs.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    working_dir: str | None = None
    init: bool = False
    role: Role = "main"
    result_path: str = ""
    ready_path: str | None = None


@dataclass(frozen=True, slots=True)
class PodPlan:
    """One pod: a process group (or more) that starts and ends together.

    Attributes:
        name: ``<hostname>-<suffix>``.
        hostname: ``<job>-<step>-0-<index>``.
        containers: init containers first, in their order; exactly one has a role other than ``sidecar`` and is not
            ``init``.
        labels: what JobSet and the Job controller put on a pod, the template's own included.
        annotations: the same.
    """

    step: str
    index: int
    name: str
    hostname: str
    containers: tuple[ContainerPlan, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def main(self) -> ContainerPlan:
        """The container that decides what the pod is about."""
        return next(c for c in self.containers if c.role != "sidecar" and not c.init)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One replicatedJob: a child Job of the JobSet.

    Attributes:
        ancestor: ``trainer``, ``dataset-initializer``, ``model-initializer`` or "".
        depends_on: (step, "Ready" or "Complete") pairs; only steps of this plan are named.
        restart_policy: ``OnFailure`` restarts a failed container in its pod, ``Never`` makes a new pod.
        backoff_limit: restarts of all pods of the step together, as the Job controller counts.
        restarts_per_pod: instead, restarts of each pod by itself, where the request has ``max_restarts``.
        grace_seconds: between SIGTERM and SIGKILL.
        storage_uri: an initializer step: what it fetches; None elsewhere.
        target_dir: an initializer step: the folder it fills.
    """

    name: str
    ancestor: str
    pods: tuple[PodPlan, ...]
    depends_on: tuple[tuple[str, Literal["Ready", "Complete"]], ...] = ()
    restart_policy: str = "Never"
    backoff_limit: int = 0
    restarts_per_pod: int | None = None
    grace_seconds: int = 30
    storage_uri: str | None = None
    target_dir: str | None = None


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A TrainJob as processes.

    Attributes:
        steps: in an order in which every step comes after those it depends on.
        success_steps: the steps whose success makes the TrainJob Complete: all of them, or with ``success_any`` the
            first. Steps that still run then are stopped.
        max_restarts: JobSet's failurePolicy: how often everything starts anew after a step has failed.
        files: (path, text) pairs to write before the first step starts: MPI's hostfile.
        folders: folders to make before that.
        notes: what this machine does otherwise than a cluster would, one sentence each, to be said once.
        deadline_seconds: ``spec.activeDeadlineSeconds``.
    """

    name: str
    steps: tuple[StepPlan, ...]
    success_steps: tuple[str, ...]
    success_any: bool = False
    max_restarts: int = 0
    files: tuple[tuple[str, str], ...] = ()
    folders: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    deadline_seconds: int | None = None

    @property
    def hostfile(self) -> str | None:
        """The text of MPI's hostfile; None without MPI."""
        return next((text for path, text in self.files if path.endswith("/hostfile")), None)

    @property
    def pods(self) -> tuple[PodPlan, ...]:
        """All pods, in the order of the steps."""
        return tuple(pod for step in self.steps for pod in step.pods)
