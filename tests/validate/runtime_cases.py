"""Runtimes that are wrong in one place, with what is to be said about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

GONE = "<gone>"
ML = "spec.mlPolicy"
JS = "spec.template.spec"
JOBS = f"{JS}.replicatedJobs"
POD = f"{JOBS}[0].template.spec.template.spec"
ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
SECOND = {"name": "second", "template": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}}
VOLCANO = {"spec.podGroupPolicy": {"volcano": {}}, f"{POD}.schedulerName": "volcano"}


class Case(NamedTuple):
    """What is wrong, and what is to be said: rule, where ("!" first: an error)."""

    rule: str
    where: str
    runtime: str
    changes: Mapping[str, Any]


CASES = [
    Case("api-version", "!apiVersion", "torch", {"apiVersion": "v1"}),
    Case("kind", "!kind", "torch", {"kind": "Runtime"}),
    Case("resource-version", "!metadata.resourceVersion", "torch", {"metadata.resourceVersion": "1"}),
    Case("runtime-name", "!metadata.name", "torch", {"metadata.name": "Torch"}),
    Case("runtime-name", "!metadata.name", "torch", {"metadata.name": GONE}),
    Case("runtime-framework", "metadata.labels[trainer.kubeflow.org/framework]", "torch", {"metadata.labels": {}}),
    Case(
        "unknown-field",
        f"!{POD}.containers[0].imagePullpolicies",
        "torch",
        {f"{POD}.containers[0].imagePullpolicies": ""},
    ),
    Case(
        "unknown-field",
        f"!{JOBS}[0].template.metadata.creationTimestamp",
        "torch",
        {f"{JOBS}[0].template.metadata.creationTimestamp": None},
    ),
    Case("wrong-type", f"!{ML}.numNodes", "torch", {f"{ML}.numNodes": "1"}),
    Case("unknown-value", f"!{ML}.mpi.mpiImplementation", "mpi", {f"{ML}.mpi.mpiImplementation": "Intel"}),
    Case("unknown-value", f"!{JS}.successPolicy.operator", "mpi", {f"{JS}.successPolicy.operator": "all"}),
    Case("number-range", f"!{JS}.ttlSecondsAfterFinished", "torch", {f"{JS}.ttlSecondsAfterFinished": -1}),
    Case("too-long", f"!{ML}.mpi.sshAuthMountPath", "mpi", {f"{ML}.mpi.sshAuthMountPath": "/" * 4097}),
    Case("duplicate", f"!{JOBS}", "torch", {f"{JOBS}[1]": {**SECOND, "name": "node"}}),
    Case("runtime-empty", "!spec", "torch", {"spec": {}}),
    Case("runtime-empty", "!spec.template", "torch", {"spec.template": GONE}),
    Case("runtime-empty", f"!{JOBS}", "torch", {JOBS: []}),
    Case("runtime-policies", f"!{ML}", "torch", {f"{ML}.jax": {}}),
    Case("runtime-policies", f"{ML}.torch", "torch", {f"{ML}.torch": None}),
    Case("runtime-num-proc", f"!{ML}.mpi.numProcPerNode", "mpi", {f"{ML}.mpi.numProcPerNode": 0}),
    Case("runtime-num-proc", f"!{ML}.flux.numProcPerNode", "flux", {f"{ML}.flux.numProcPerNode": 0}),
    Case("num-nodes", f"!{ML}.numNodes", "torch", {f"{ML}.numNodes": 0}),
    Case("runtime-replicas", f"!{JOBS}[0].replicas", "torch", {f"{JOBS}[0].replicas": 2}),
    Case("runtime-container", f"!{POD}.containers", "torch", {f"{POD}.containers[0].name": "main"}),
    Case(
        "runtime-container",
        f"{POD}.containers",
        "torch",
        {
            "metadata.labels": {
                "trainer.kubeflow.org/framework": "torch",
                "trainer.kubeflow.org/webhook-validation": "disabled",
            },
            f"{POD}.containers[0].name": "main",
        },
    ),
    Case("runtime-ancestors", JOBS, "loose", {}),
    Case("runtime-ancestors", JOBS, "mpi", {f"{JOBS}[0].template.metadata.labels": {ANCESTOR: "trainer"}}),
    Case(
        "runtime-env-injection",
        f"!{ML}.torch.envInjection.targets[0].containerNames",
        "torch",
        {f"{ML}.torch.envInjection.targets": [{"jobName": "node", "containerNames": ["side"]}]},
    ),
    Case(
        "runtime-env-injection",
        f"!{ML}.torch.envInjection.targets[0].containerNames[0]",
        "torch",
        {f"{ML}.torch.envInjection.targets": [{"jobName": "node", "containerNames": ["node"]}]},
    ),
    Case(
        "runtime-depends-on",
        f"!{JOBS}[0].dependsOn",
        "torch",
        {f"{JOBS}[0].dependsOn": [{"name": "x", "status": "Ready"}]},
    ),
    Case("runtime-depends-on", f"!{JOBS}[1].dependsOn", "mpi", {f"{JS}.startupPolicy.startupPolicyOrder": "InOrder"}),
    Case(
        "runtime-targets",
        f"!{JS}.successPolicy.targetReplicatedJobs",
        "torch",
        {f"{JS}.successPolicy": {"operator": "All", "targetReplicatedJobs": ["x"]}},
    ),
    Case("runtime-targets", f"!{JS}.coordinator.replicatedJob", "torch", {f"{JS}.coordinator.replicatedJob": "x"}),
    Case(
        "runtime-targets",
        f"!{JS}.failurePolicy.rules[0].targetReplicatedJobs",
        "torch",
        {f"{JS}.failurePolicy.rules": [{"name": "r", "action": "FailJobSet", "targetReplicatedJobs": ["x"]}]},
    ),
    Case("runtime-job-name", f"!{JOBS}[1].name", "torch", {f"{JOBS}[1]": {**SECOND, "name": "Second"}}),
    Case(
        "runtime-job-name",
        f"!{POD}.containers[1].name",
        "torch",
        {f"{POD}.containers[1]": {"name": "A_b", "image": "i"}},
    ),
    Case(
        "runtime-gang",
        f"!{JOBS}[1].dependsOn",
        "mpi",
        {**VOLCANO, f"{JOBS}[1].template.spec.template.spec.schedulerName": "volcano"},
    ),
    Case("runtime-scheduler", "spec.podGroupPolicy", "torch", {"spec.podGroupPolicy": {"coscheduling": {}}}),
    Case(
        "runtime-queue",
        "!spec.template.metadata.annotations[scheduling.volcano.sh/queue-name]",
        "torch",
        {**VOLCANO, "spec.template.metadata.annotations": {"scheduling.volcano.sh/queue-name": ""}},
    ),
    Case("runtime-ttl", f"{JS}.ttlSecondsAfterFinished", "torch", {f"{JS}.ttlSecondsAfterFinished": 0}),
    Case(
        "runtime-deprecated",
        "metadata.labels[trainer.kubeflow.org/support]",
        "torch",
        {"metadata.labels": {"trainer.kubeflow.org/framework": "a", "trainer.kubeflow.org/support": "deprecated"}},
    ),
    Case("restart-policy", f"!{POD}.restartPolicy", "torch", {f"{POD}.restartPolicy": "Always"}),
    Case("mpi-jobs", JOBS, "mpi", {f"{JOBS}[0].name": "worker", f"{JOBS}[1].dependsOn": GONE}),
    Case("mpi-success", f"{JS}.successPolicy", "mpi", {f"{JS}.successPolicy": GONE}),
    Case("mpi-launchers", f"{ML}.numNodes", "mpi", {f"{ML}.numNodes": 4}),
    Case(
        "flux-installer",
        f"!{POD}.initContainers",
        "flux",
        {f"{POD}.initContainers": [{"name": "flux-installer", "image": "i"}]},
    ),
    Case("initializer-mount", f"{POD}.containers", "torchtune", {f"{POD}.containers[0].volumeMounts": []}),
    Case(
        "image-missing",
        f"{POD}.containers[0].image",
        "torchtune",
        {f"{POD}.containers[0].image": GONE},
    ),
    Case(
        "mount-without-volume",
        f"!{POD}.containers[0].volumeMounts[0].name",
        "torch",
        {f"{POD}.containers[0].volumeMounts": [{"name": "x", "mountPath": "/x"}]},
    ),
    Case("volume-source", f"{POD}.volumes[0]", "torch", {f"{POD}.volumes": [{"name": "x"}]}),
    Case(
        "volume-source",
        f"!{POD}.volumes[0]",
        "torch",
        {f"{POD}.volumes": [{"name": "x", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
    ),
    Case(
        "toleration",
        f"!{POD}.tolerations[0].value",
        "torch",
        {f"{POD}.tolerations": [{"operator": "Exists", "key": "a", "value": "b"}]},
    ),
    Case(
        "label-syntax",
        f"!{JOBS}[0].template.metadata.labels[a]",
        "torch",
        {f"{JOBS}[0].template.metadata.labels": {ANCESTOR: "trainer", "a": "-"}},
    ),
]
