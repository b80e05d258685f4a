"""What to say about a field that is known, but not there: renamed, moved, or out of reach of a patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Hint", "hint_for"]


class Hint(NamedTuple):
    """The rule, reason and remedy of a misplaced field."""

    rule: str
    reason: str
    remedy: str


_PATCHES = "Move it to runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.spec"
_RUNTIME = "It needs a TrainingRuntime of your own, named by spec.runtimeRef"
_NO_TTL = "Leave it out; kubectl delete trainjob removes one that is over"


def _in_trainer(*names: str) -> dict[str, Hint]:
    return {
        name: Hint("moved-field", "is a field of spec.trainer", f"Move it to spec.trainer.{name}") for name in names
    }


def _in_runtime(what: str, *names: str) -> dict[str, Hint]:
    return {name: Hint("not-patchable", f"is a field of {what} that no patch can set", _RUNTIME) for name in names}


def _v1(*names: str) -> dict[str, Hint]:
    reason, remedy = "is a field of v1 training jobs", "Write the whole job as a TrainJob with a runtimeRef"
    return {name: Hint("moved-field", reason, remedy) for name in names}


def _patch(*names: str) -> dict[str, Hint]:
    return {name: Hint("moved-field", "is a field of pods, not of spec.trainer", _PATCHES) for name in names}


_SPEC = {
    **_in_trainer("image", "command", "args", "env", "numNodes", "numProcPerNode", "resourcesPerNode"),
    **_v1("pytorchReplicaSpecs", "tfReplicaSpecs", "mpiReplicaSpecs", "xgbReplicaSpecs", "paddleReplicaSpecs"),
    **_v1("jaxReplicaSpecs", "runPolicy", "cleanPodPolicy", "elasticPolicy", "nprocPerNode", "slotsPerWorker"),
    "podSpecOverrides": Hint(
        "replaced-field",
        "was replaced by runtimePatches in Trainer 2.2",
        "Write each entry as runtimePatches with manager and trainingRuntimeSpec.template.spec.replicatedJobs",
    ),
    "podTemplateOverrides": Hint(
        "replaced-field",
        "was replaced by runtimePatches in Trainer 2.2",
        "Write each entry as runtimePatches with manager and trainingRuntimeSpec.template.spec.replicatedJobs",
    ),
    "datasetConfig": Hint("moved-field", "was renamed", "Write spec.initializer.dataset"),
    "modelConfig": Hint("moved-field", "was renamed", "Write spec.initializer.model"),
    "trainingRuntimeRef": Hint("moved-field", "was renamed", "Write spec.runtimeRef"),
    "ttlSecondsAfterFinished": Hint("moved-field", "is no field of a TrainJob (trainer #4052)", _NO_TTL),
    "labels": Hint("moved-field", "is a field of metadata", "Move it to metadata.labels"),
    "annotations": Hint("moved-field", "is a field of metadata", "Move it to metadata.annotations"),
}

_TRAINER = {
    **_patch("volumes", "volumeMounts", "nodeSelector", "tolerations", "affinity", "securityContext"),
    **_patch("serviceAccountName", "imagePullSecrets", "terminationGracePeriodSeconds", "initContainers"),
    "resources": Hint("moved-field", "is called resourcesPerNode here", "Write spec.trainer.resourcesPerNode"),
    "replicas": Hint("moved-field", "is called numNodes here", "Write spec.trainer.numNodes"),
    "envFrom": Hint("not-patchable", "cannot be set by a TrainJob", "List the variables in spec.trainer.env"),
}

_POD = _in_runtime(
    "pods",
    "activeDeadlineSeconds",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "hostname",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "shareProcessNamespace",
    "subdomain",
    "topologySpreadConstraints",
)

_NODE_ONLY = "For the container node write it in spec.trainer; for another one it needs a TrainingRuntime of your own"
_CONTAINER = {
    **_in_runtime("containers", "envFrom", "lifecycle", "livenessProbe", "ports", "readinessProbe", "startupProbe"),
    **_in_runtime("containers", "imagePullPolicy", "restartPolicy", "terminationMessagePath", "volumeDevices"),
    **_in_runtime("containers", "terminationMessagePolicy", "workingDir", "stdin", "tty"),
    **{
        name: Hint("not-patchable", "is a field of containers that no patch can set", _NODE_ONLY)
        for name in ("image", "command", "args", "resources")
    },
}

_JOB = _in_runtime(
    "Jobs",
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "completionMode",
    "completions",
    "manualSelector",
    "maxFailedIndexes",
    "parallelism",
    "podFailurePolicy",
    "podReplacementPolicy",
    "successPolicy",
    "suspend",
    "ttlSecondsAfterFinished",
)

_JOBSET = _in_runtime(
    "JobSets",
    "coordinator",
    "failurePolicy",
    "network",
    "startupPolicy",
    "successPolicy",
    "suspend",
    "ttlSecondsAfterFinished",
    "volumeClaimPolicies",
)

_REPLICATED_JOB = _in_runtime("replicated jobs", "dependsOn", "groupName", "replicas")

_BY_KIND: Mapping[str, Mapping[str, Hint]] = {
    "TrainJobSpec": _SPEC,
    "Trainer": _TRAINER,
    "PodSpecPatch": _POD,
    "ContainerPatch": _CONTAINER,
    "JobSpecPatch": _JOB,
    "JobSetSpecPatch": _JOBSET,
    "ReplicatedJobPatch": _REPLICATED_JOB,
    "TrainingRuntimeSpecPatch": _in_runtime("runtimes", "mlPolicy", "podGroupPolicy"),
}


def hint_for(kind: str, name: str) -> Hint | None:
    """What to say about field ``name`` of the kind (``TrainJobSpec``), None when it is just unknown."""
    return _BY_KIND.get(kind, {}).get(name)
