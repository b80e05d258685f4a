"""``Subject``: a manifest together with its runtime, as the rules see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.runtime import ReplicatedJob, TrainingRuntime
from trainer_ops.validate.peek import at, find, mapping, named, number, text

__all__ = ["JOBS", "POD", "Subject", "ancestor_of", "without_images"]

# Where a runtime has its jobs, and where a job has its pods.
JOBS = "spec.template.spec.replicatedJobs"
POD = "template.spec.template.spec"


def ancestor_of(job: Mapping[Any, Any]) -> str:
    """The step that a job of a runtime is labelled for, "" when it is labelled for none."""
    return text(mapping(at(job, "template.metadata.labels")).get(keys.LABEL_ANCESTOR))


def without_images(runtime: Any) -> bool:
    """Whether a runtime runs on this machine only: it has containers, and no image in any of them."""
    images = [
        mapping(container).get("image")
        for kind in ("containers", "initContainers")
        for _, container in find(runtime, f"{JOBS}[].{POD}.{kind}[]")
    ]
    return bool(images) and not any(images)


@dataclass(frozen=True, slots=True)
class Subject:
    """A TrainJob of any shape, and the runtime it names where that is known."""

    manifest: Mapping[Any, Any]
    runtime: TrainingRuntime | None

    @property
    def spec(self) -> Mapping[Any, Any]:
        """``spec``."""
        return mapping(self.manifest.get("spec"))

    @property
    def trainer(self) -> Mapping[Any, Any] | None:
        """``spec.trainer``, None when it is left out."""
        value = self.spec.get("trainer")
        return value if isinstance(value, Mapping) else None

    @property
    def nodes(self) -> int | None:
        """``spec.trainer.numNodes`` where it is a whole number."""
        return number(at(self.spec, "trainer.numNodes"))

    @property
    def policy(self) -> str:
        """The runtime's policy, "" when the runtime is not known."""
        return self.runtime.policy if self.runtime else ""

    @property
    def of_engine(self) -> bool:
        """Whether the runtime is one of the embedded engine: what a cluster would do with it is no matter."""
        return self.runtime is not None and without_images(self.runtime.raw)

    @property
    def has_policy(self) -> bool:
        """Whether the runtime has an mlPolicy at all, which ``resourcesPerNode`` depends on."""
        runtime = self.runtime
        return runtime is not None and (not runtime.raw or at(runtime.raw, "spec.mlPolicy") is not None)

    @property
    def node_container(self) -> Mapping[Any, Any]:
        """The raw container that ``spec.trainer`` controls, {} when there is none."""
        for _, _, job in named(at(self.runtime.raw, JOBS) if self.runtime else None):
            for _, name, container in named(at(job, f"{POD}.containers")):
                if ancestor_of(job) == "trainer" and name == keys.STEP_NODE:
                    return container
        return {}

    def pods_of(self, job: ReplicatedJob) -> int:
        """How many pods that job of the runtime will have, as Trainer's plugins count them."""
        runtime = self.runtime
        if runtime is None:
            return 1
        count = runtime.num_nodes if job.ancestor == "trainer" and self.has_policy else job.parallelism
        if self.nodes is None:
            return count
        if runtime.policy == "mpi":
            workers = max(self.nodes - 1, 1) if runtime.run_launcher_as_node else self.nodes
            return workers if job.name == keys.STEP_NODE else count
        return self.nodes if job is runtime.trainer_job else count
