"""A (Cluster)TrainingRuntime, parsed once: what building, validating and running locally need to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer_ops.model import keys

__all__ = ["ReplicatedJob", "RuntimeContainer", "TrainingRuntime"]

Raw = Mapping[str, Any]

_POLICIES = ("torch", "mpi", "jax", "xgboost", "flux")


@dataclass(frozen=True, slots=True)
class RuntimeContainer:
    """One container of a pod template."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Mapping[str, Any], ...] = ()
    mounts: tuple[str, ...] = ()
    resources: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_raw(cls, raw: Raw) -> RuntimeContainer:
        """Parse a Container; ``mounts`` are the names of its volumeMounts."""
        return cls(
            raw.get("name") or "",
            raw.get("image") or "",
            tuple(raw.get("command") or ()),
            tuple(raw.get("args") or ()),
            tuple(raw.get("env") or ()),
            tuple(m.get("name") or "" for m in raw.get("volumeMounts") or ()),
            raw.get("resources") or {},
        )


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """One replicatedJob of the runtime's JobSet template.

    Attributes:
        ancestor: the step that a TrainJob's field controls: ``trainer``, ``dataset-initializer``,
            ``model-initializer``, or "" for a job that no field reaches.
        depends_on: (name, status) pairs, status ``Ready`` or ``Complete``.
        parallelism: pods of the job before the TrainJob's ``numNodes`` is applied.
        backoff_limit: Kubernetes' default of 6 where the template is silent.
        restart_policy: JobSet's default ``OnFailure`` where the template is silent.
        grace_seconds: terminationGracePeriodSeconds, Kubernetes' default of 30 where the template is silent.
    """

    name: str
    ancestor: str = ""
    replicas: int = 1
    depends_on: tuple[tuple[str, str], ...] = ()
    parallelism: int = 1
    backoff_limit: int = 6
    restart_policy: str = "OnFailure"
    grace_seconds: int = 30
    containers: tuple[RuntimeContainer, ...] = ()
    init_containers: tuple[RuntimeContainer, ...] = ()
    volumes: tuple[str, ...] = ()
    scheduler: str = ""

    @classmethod
    def from_raw(cls, raw: Raw) -> ReplicatedJob:
        """Parse one entry of ``template.spec.replicatedJobs``."""
        template = raw.get("template") or {}
        job = template.get("spec") or {}
        pod = (job.get("template") or {}).get("spec") or {}
        labels = (template.get("metadata") or {}).get("labels") or {}
        backoff, grace = job.get("backoffLimit"), pod.get("terminationGracePeriodSeconds")
        return cls(
            name=raw.get("name") or "",
            ancestor=labels.get(keys.LABEL_ANCESTOR) or "",
            replicas=1 if raw.get("replicas") is None else int(raw["replicas"]),
            depends_on=tuple((d["name"], d.get("status") or "Ready") for d in raw.get("dependsOn") or ()),
            parallelism=int(job.get("parallelism") or 1),
            backoff_limit=6 if backoff is None else int(backoff),
            restart_policy=pod.get("restartPolicy") or "OnFailure",
            grace_seconds=30 if grace is None else int(grace),
            containers=tuple(RuntimeContainer.from_raw(c) for c in pod.get("containers") or ()),
            init_containers=tuple(RuntimeContainer.from_raw(c) for c in pod.get("initContainers") or ()),
            volumes=tuple(v.get("name") or "" for v in pod.get("volumes") or ()),
            scheduler=pod.get("schedulerName") or "",
        )

    def container(self, name: str) -> RuntimeContainer | None:
        """The container of that name."""
        return next((c for c in self.containers if c.name == name), None)


@dataclass(frozen=True, slots=True)
class TrainingRuntime:
    """A runtime and what follows from it.

    Attributes:
        policy: the one mlPolicy source set: ``torch``, ``mpi``, ``jax``, ``xgboost``, ``flux``, else ``plain``.
        num_nodes: mlPolicy.numNodes, default 1.
        mpi: the raw ``mlPolicy.mpi``, {} elsewhere.
        framework: the label ``trainer.kubeflow.org/framework``.
        success_targets: JobSet successPolicy's targetReplicatedJobs; () means all.
        max_restarts: JobSet failurePolicy's maxRestarts, default 0.
        raw: the object as it came.
    """

    name: str
    kind: str = keys.CLUSTER_RUNTIME
    policy: str = "plain"
    num_nodes: int = 1
    mpi: Mapping[str, Any] = field(default_factory=dict)
    framework: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    jobs: tuple[ReplicatedJob, ...] = ()
    success_targets: tuple[str, ...] = ()
    success_operator: str = "All"
    max_restarts: int = 0
    ttl_after_finished: int | None = None
    pod_group: tuple[str, ...] = ()
    raw: Raw = field(default_factory=dict)

    @classmethod
    def from_raw(cls, raw: Raw) -> TrainingRuntime:
        """Parse a ClusterTrainingRuntime or a TrainingRuntime."""
        meta, spec = raw.get("metadata") or {}, raw.get("spec") or {}
        ml = spec.get("mlPolicy") or {}
        jobset = (spec.get("template") or {}).get("spec") or {}
        success = jobset.get("successPolicy") or {}
        labels = meta.get("labels") or {}
        return cls(
            name=meta.get("name") or "",
            kind=raw.get("kind") or keys.CLUSTER_RUNTIME,
            policy=next((p for p in _POLICIES if ml.get(p) is not None), "plain"),
            num_nodes=1 if ml.get("numNodes") is None else int(ml["numNodes"]),
            mpi=ml.get("mpi") or {},
            framework=labels.get(keys.LABEL_FRAMEWORK) or "",
            labels=labels,
            jobs=tuple(ReplicatedJob.from_raw(j) for j in jobset.get("replicatedJobs") or ()),
            success_targets=tuple(success.get("targetReplicatedJobs") or ()),
            success_operator=success.get("operator") or "All",
            max_restarts=int((jobset.get("failurePolicy") or {}).get("maxRestarts") or 0),
            ttl_after_finished=jobset.get("ttlSecondsAfterFinished"),
            pod_group=tuple(sorted(spec.get("podGroupPolicy") or {})),
            raw=raw,
        )

    def job(self, name: str) -> ReplicatedJob | None:
        """The replicatedJob of that name."""
        return next((j for j in self.jobs if j.name == name), None)

    @property
    def trainer_job(self) -> ReplicatedJob | None:
        """The replicatedJob that ``spec.trainer`` controls: the one with the ancestor label ``trainer``."""
        return next((j for j in self.jobs if j.ancestor == "trainer"), None)

    @property
    def run_launcher_as_node(self) -> bool:
        """MPI: whether rank 0 runs in the launcher's pod."""
        return bool(self.mpi.get("runLauncherAsNode"))
