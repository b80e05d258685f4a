"""TrainJobs that are wrong in one place, with what is to be said about it; and one that is right and full.

``test_job_rules`` asks the rules, ``test_against_trainer`` the real API server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

GONE = "<gone>"
T = "spec.trainer"
I = "spec.initializer"  # noqa: E741
P = "spec.runtimePatches[0]"
JOB = f"{P}.trainingRuntimeSpec.template.spec.replicatedJobs[0]"
POD = f"{JOB}.template.spec.template.spec"
MANAGED = {f"{P}.manager": "acme.io/me", f"{JOB}.name": "node"}
RJOBS = "spec.template.spec.replicatedJobs"
RPOD = f"{RJOBS}[0].template.spec.template.spec"
TUNE = {f"{T}.command": ["tune", "run"], "spec.runtimeRef.name": "torchtune-llama3.2-1b", f"{T}.numNodes": 1}
QWEN = {**TUNE, "spec.runtimeRef.name": "torchtune-qwen2.5-1.5b"}
SIDE = {f"{RPOD}.containers[1]": {"name": "side", "image": "repo/image:1"}}
VOLCANO = {
    "spec.podGroupPolicy": {"volcano": {}},
    f"{RPOD}.schedulerName": "volcano",
    "spec.template.metadata.annotations": {"scheduling.volcano.sh/queue-name": ""},
}
FIELD = {"fieldRef": {"fieldPath": "metadata.name"}}
SECRET = {"secretKeyRef": {"name": "s", "key": "k"}}
FILE = {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}
QLORA = {f"{T}.args": ["model.quantize_base=True"]}


class Case(NamedTuple):
    """What is wrong, and what is to be said: rule, where ("!" first: an error)."""

    rule: str
    where: str
    changes: Mapping[str, Any]
    runtime: str | None = None
    runtime_changes: Mapping[str, Any] = {}


CASES = [
    # The object.
    Case("api-version", "!apiVersion", {"apiVersion": "trainer.kubeflow.org/v2"}),
    Case("api-version", "!apiVersion", {"apiVersion": GONE}),
    Case("kind", "!kind", {"kind": "Trainjob"}),
    Case("v1-kind", "!kind", {"kind": "PyTorchJob", "apiVersion": "kubeflow.org/v1"}),
    Case("v1-kind", "!kind", {"kind": "MPIJob", "apiVersion": "kubeflow.org/v2beta1"}),
    Case("name-missing", "metadata.name", {"metadata.name": GONE}),
    Case("name-format", "!metadata.name", {"metadata.name": "Digits"}),
    Case("name-format", "!metadata.name", {"metadata.name": "1digits"}),
    Case("name-format", "!metadata.name", {"metadata.name": "digits-"}),
    Case("name-format", "!metadata.generateName", {"metadata": {"generateName": "9-"}}),
    Case("name-too-long", "!metadata.name", {"metadata.name": "a" * 64}),
    Case("name-too-long", "metadata.name", {"metadata.name": "a" * 49}),
    Case("name-too-long", "!metadata.name", {"metadata.name": "a" * 49}, "torch"),
    Case("name-too-long", "!metadata.generateName", {"metadata": {"generateName": "a" * 44}}, "torch"),
    Case("generate-name", "metadata.generateName", {"metadata": {"generateName": "digits-"}}),
    Case("namespace-format", "!metadata.namespace", {"metadata.namespace": "Team_A"}),
    Case("label-syntax", "!metadata.labels[team]", {"metadata.labels": {"team": "a b"}}),
    Case("label-syntax", "!metadata.labels[a b]", {"metadata.labels": {"a b": "c"}}),
    Case("label-syntax", "!metadata.labels[x]", {"metadata.labels": {"x": "a" * 64}}),
    Case("annotation-key", "!metadata.annotations[a/b/c]", {"metadata.annotations": {"a/b/c": "any text"}}),
    Case("resource-version", "!metadata.resourceVersion", {"metadata.resourceVersion": "12"}),
    Case("status-given", "status", {"status": {"jobsStatus": []}}),
    # The structure.
    Case("unknown-field", "!spec.trainer.nodes", {f"{T}.nodes": 2}),
    Case("unknown-field", "!extra", {"extra": {}}),
    Case("replaced-field", "!spec.podSpecOverrides", {"spec.podSpecOverrides": []}),
    Case("replaced-field", "!spec.podTemplateOverrides", {"spec.podTemplateOverrides": []}),
    Case("not-patchable", f"!{POD}.schedulerName", {**MANAGED, f"{POD}.schedulerName": "volcano"}),
    Case(
        "not-patchable",
        f"!{POD}.containers[0].image",
        {**MANAGED, f"{POD}.containers": [{"name": "node", "image": "x"}]},
    ),
    Case("moved-field", "!spec.numNodes", {"spec.numNodes": 2}),
    Case("moved-field", "!spec.pytorchReplicaSpecs", {"spec.pytorchReplicaSpecs": {}}),
    Case("moved-field", "!spec.trainer.nodeSelector", {f"{T}.nodeSelector": {}}),
    Case("wrong-type", "!spec.trainer.numNodes", {f"{T}.numNodes": "2"}),
    Case("wrong-type", "!spec.trainer.numNodes", {f"{T}.numNodes": 2.5}),
    Case("wrong-type", "!spec.trainer.numNodes", {f"{T}.numNodes": True}),
    Case("wrong-type", "!spec.trainer.command", {f"{T}.command": "python train.py"}),
    Case("wrong-type", "!spec.trainer.env[0].value", {f"{T}.env": [{"name": "A", "value": 1}]}),
    Case("wrong-type", "!spec", {"spec": []}),
    Case("wrong-type", "!metadata.labels[a]", {"metadata.labels": {"a": True}}),
    Case("missing-field", "!spec", {"spec": GONE}),
    Case("missing-field", "!spec.runtimeRef", {"spec.runtimeRef": GONE}),
    Case("missing-field", "!spec.runtimeRef.name", {"spec.runtimeRef": {"name": None}}),
    Case("missing-field", "!spec.trainer.env[0].name", {f"{T}.env": [{"value": "1"}]}),
    Case("null-item", "!spec.trainer.args[1]", {f"{T}.args": ["a", None]}),
    Case("quantity", f"!{T}.resourcesPerNode.limits[cpu]", {f"{T}.resourcesPerNode.limits": {"cpu": "2 cores"}}),
    Case("quantity", f"!{T}.resourcesPerNode.limits[cpu]", {f"{T}.resourcesPerNode.limits": {"cpu": 0.5}}),
    Case("quantity", f"!{T}.resourcesPerNode.limits[memory]", {f"{T}.resourcesPerNode.limits": {"memory": "2Gb"}}),
    Case("number-range", f"!{T}.numNodes", {f"{T}.numNodes": 2**31}),
    Case("number-range", f"!{T}.numNodes", {f"{T}.numNodes": 2**70}),
    Case(
        "number-range",
        f"!{POD}.terminationGracePeriodSeconds",
        {**MANAGED, f"{POD}.terminationGracePeriodSeconds": -1},
    ),
    Case(
        "unknown-value",
        f"!{POD}.tolerations[0].effect",
        {**MANAGED, f"{POD}.tolerations": [{"key": "a", "effect": "noSchedule"}]},
    ),
    Case("too-many", f"!{T}.args", {f"{T}.args": ["a"] * 129}),
    Case("too-long", f"!{T}.image", {f"{T}.image": "a" * 501}),
    Case("empty-text", "!spec.runtimeRef.name", {"spec.runtimeRef.name": ""}),
    Case("duplicate", f"!{T}.env", {f"{T}.env": [{"name": "A"}, {"name": "A", "value": "1"}]}),
    Case("duplicate", "!spec.runtimePatches", {"spec.runtimePatches": [{"manager": "a.io/b"}, {"manager": "a.io/b"}]}),
    # spec
    Case("runtime-ref-kind", "!spec.runtimeRef.kind", {"spec.runtimeRef.kind": "Runtime"}),
    Case("runtime-ref-kind", "!spec.runtimeRef.apiGroup", {"spec.runtimeRef.apiGroup": "kubeflow.org"}),
    Case("managed-by", "!spec.managedBy", {"spec.managedBy": "me"}),
    Case("managed-by-no-queue", "spec.managedBy", {"spec.managedBy": "kueue.x-k8s.io/multikueue"}),
    Case("active-deadline", "!spec.activeDeadlineSeconds", {"spec.activeDeadlineSeconds": 0}),
    # spec.trainer
    Case("num-nodes", f"!{T}.numNodes", {f"{T}.numNodes": 0}),
    Case("num-proc-per-node", f"!{T}.numProcPerNode", {f"{T}.numProcPerNode": 0}),
    Case("num-proc-per-node", f"!{T}.numProcPerNode", {f"{T}.numProcPerNode": 0}, "flux"),
    Case("num-proc-ignored", f"{T}.numProcPerNode", {f"{T}.numProcPerNode": 2}, "jax"),
    Case("image-format", f"!{T}.image", {f"{T}.image": "https://repo/image:1"}),
    Case("image-format", f"!{T}.image", {f"{T}.image": "Repo/Image"}),
    Case(
        "image-missing",
        f"{T}.image",
        {},
        "torchtune",
        {f"{RJOBS}[2].template.spec.template.spec.containers[0].image": GONE},
    ),
    Case("trainer-ignored", "!spec.trainer", {}, "loose"),
    Case("trainer-ignored", "!spec.trainer", {}, "torch", {f"{RPOD}.containers[0].name": "main"}),
    Case("trainer-missing", "spec.trainer", {"spec.trainer": GONE}, "torch"),
    Case("env-name", f"!{T}.env[0].name", {f"{T}.env": [{"name": "A=B", "value": "1"}]}),
    Case("env-source", f"!{T}.env[0].valueFrom", {f"{T}.env": [{"name": "A", "valueFrom": {}}]}),
    Case(
        "env-source",
        f"!{T}.env[0]",
        {f"{T}.env": [{"name": "A", "value": "1", "valueFrom": FIELD}]},
    ),
    Case("env-source", f"!{T}.env[0].valueFrom", {f"{T}.env": [{"name": "A", "valueFrom": FILE}]}),
    Case("env-source", f"!{T}.env[0].valueFrom", {f"{T}.env": [{"name": "A", "valueFrom": {**FIELD, **SECRET}}]}),
    Case(
        "env-source",
        f"!{POD}.containers[0].env[0]",
        {
            **MANAGED,
            f"{POD}.containers": [{"name": "side", "env": [{"name": "A", "value": "1", "valueFrom": FIELD}]}],
        },
        "torch",
        SIDE,
    ),
    Case("env-reserved", f"!{T}.env[0].name", {f"{T}.env": [{"name": "PET_NNODES", "value": "2"}]}, "torch"),
    Case("env-reserved", f"!{T}.env[0].name", {f"{T}.env": [{"name": "DMLC_TASK_ID", "value": "0"}]}, "xgboost"),
    Case("env-reserved", f"!{T}.env[0].name", {f"{T}.env": [{"name": "OMPI_MCA_plm_rsh_args"}]}, "mpi-node"),
    Case("env-reserved", f"{T}.env[0].name", {f"{T}.env": [{"name": "PET_NNODES", "value": "2"}]}),
    Case("env-overrides", f"{T}.env[0].name", {f"{T}.env": [{"name": "JAX_PROCESS_ID", "value": "0"}]}, "jax"),
    Case("env-reference", f"{T}.env[0].value", {f"{T}.env": [{"name": "A", "value": "$(PET_NNODES)"}]}, "torch"),
    Case(
        "env-reference",
        f"{T}.env[0].value",
        {f"{T}.env": [{"name": "A", "value": "x-$(B)"}, {"name": "B", "value": "1"}]},
    ),
    Case("secret-in-clear", f"{T}.env[0].value", {f"{T}.env": [{"name": "HF_TOKEN", "value": "hf_x"}]}),
    Case(
        "requests-over-limits",
        f"!{T}.resourcesPerNode.requests[memory]",
        {f"{T}.resourcesPerNode": {"requests": {"memory": "2Gi"}, "limits": {"memory": "2000Mi"}}},
    ),
    Case(
        "requests-over-limits",
        f"!{T}.resourcesPerNode.requests[cpu]",
        {f"{T}.resourcesPerNode": {"requests": {"cpu": "1500m"}}},
        "torch",
        {f"{RPOD}.containers[0].resources": {"limits": {"cpu": 1}}},
    ),
    Case("resource-negative", f"!{T}.resourcesPerNode.limits[cpu]", {f"{T}.resourcesPerNode.limits": {"cpu": "-1"}}),
    Case("resource-name", f"!{T}.resourcesPerNode.limits[gpu]", {f"{T}.resourcesPerNode.limits": {"gpu": 1}}),
    Case(
        "resource-extended",
        f"!{T}.resourcesPerNode.requests[nvidia.com/gpu]",
        {f"{T}.resourcesPerNode.requests": {"nvidia.com/gpu": 1}},
    ),
    Case(
        "resource-extended",
        f"!{T}.resourcesPerNode.limits[nvidia.com/gpu]",
        {f"{T}.resourcesPerNode.limits": {"nvidia.com/gpu": "500m"}},
    ),
    Case("memory-unit", f"{T}.resourcesPerNode.limits[memory]", {f"{T}.resourcesPerNode.limits": {"memory": 4}}),
    Case("memory-unit", f"{T}.resourcesPerNode.limits[memory]", {f"{T}.resourcesPerNode.limits": {"memory": "512m"}}),
    Case("resources-ignored", f"!{T}.resourcesPerNode", {f"{T}.resourcesPerNode.limits": {"cpu": 1}}, "bare"),
    # spec.initializer
    Case("storage-uri", f"!{I}.model.storageUri", {f"{I}.model.storageUri": "org/model"}),
    Case("storage-uri-scheme", f"!{I}.model.storageUri", {f"{I}.model.storageUri": "gs://bucket/model"}),
    Case("storage-uri-scheme", f"!{I}.model.storageUri", {f"{I}.model.storageUri": "cache://schema/table"}),
    Case("storage-uri-scheme", f"{I}.dataset.storageUri", {f"{I}.dataset.storageUri": "file:///data"}),
    Case("storage-uri-missing", f"!{I}.dataset.storageUri", {f"{I}.dataset": {}}, "torchtune"),
    Case("storage-uri-missing", f"!{I}.dataset.storageUri", {f"{I}.dataset.storageUri": ""}),
    Case("hf-repository", f"!{I}.dataset.storageUri", {f"{I}.dataset.storageUri": "hf://org"}),
    Case("hf-repository", f"!{I}.dataset.storageUri", {f"{I}.dataset.storageUri": "hf://org/data@main"}),
    Case("hf-repository", f"!{I}.model.storageUri", {f"{I}.model.storageUri": "hf://org/model/part"}),
    Case("hf-path", f"{I}.dataset.storageUri", {f"{I}.dataset.storageUri": "hf://org/data/part"}),
    Case("s3-bucket", f"!{I}.dataset.storageUri", {f"{I}.dataset.storageUri": "s3:///path"}),
    Case("initializer-job", f"!{I}.dataset", {f"{I}.dataset.storageUri": "hf://org/data"}, "torch"),
    Case(
        "initializer-job",
        f"!{I}.dataset",
        {f"{I}.dataset.storageUri": "hf://org/data"},
        "torchtune",
        {f"{RPOD}.containers[0].name": "main"},
    ),
    Case(
        "initializer-mount",
        f"!{I}.dataset",
        {f"{I}.dataset.storageUri": "hf://org/data"},
        "torchtune",
        {f"{RPOD}.containers[0].volumeMounts": []},
    ),
    Case(
        "initializer-label",
        f"!{I}.dataset",
        {f"{I}.dataset.storageUri": "hf://org/data"},
        "torchtune",
        {f"{RJOBS}[0].template.metadata": {}},
    ),
    # spec.runtimePatches
    Case("patch-manager", f"!{P}.manager", {f"{P}.manager": "me"}),
    Case("patch-manager", f"!{P}.manager", {f"{P}.manager": "Acme.io/me"}),
    Case("patch-job", f"!{JOB}.name", {**MANAGED, f"{JOB}.name": "nodes"}, "torch"),
    Case("patch-container", f"!{POD}.containers[0].name", {**MANAGED, f"{POD}.containers": [{"name": "c"}]}, "torch"),
    Case(
        "patch-container",
        f"!{POD}.initContainers[0].name",
        {**MANAGED, f"{POD}.initContainers": [{"name": "c"}]},
        "torch",
    ),
    Case(
        "patch-env",
        f"!{POD}.containers[0].env",
        {**MANAGED, f"{POD}.containers": [{"name": "node", "env": [{"name": "A"}]}]},
    ),
    Case(
        "label-syntax",
        f"!{JOB}.template.metadata.labels[a]",
        {**MANAGED, f"{JOB}.template.metadata.labels": {"a": "b c"}},
    ),
    Case(
        "mount-without-volume",
        f"!{POD}.containers[0].volumeMounts[0].name",
        {**MANAGED, f"{POD}.containers": [{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]},
        "torch",
    ),
    Case(
        "mount-path",
        f"!{POD}.containers[0].volumeMounts",
        {
            **MANAGED,
            f"{POD}.containers": [
                {"name": "node", "volumeMounts": [{"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x"}]}
            ],
        },
    ),
    Case("volume-source", f"{POD}.volumes[0]", {**MANAGED, f"{POD}.volumes": [{"name": "data"}]}),
    Case(
        "volume-source",
        f"!{POD}.volumes[0]",
        {**MANAGED, f"{POD}.volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
    ),
    Case(
        "volume-source",
        f"!{POD}.volumes[0]",
        {**MANAGED, f"{POD}.volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}]},
        "torch",
        {f"{RPOD}.volumes": [{"name": "a", "emptyDir": {}}]},
    ),
    Case("toleration", f"!{POD}.tolerations[0].key", {**MANAGED, f"{POD}.tolerations": [{"operator": "Equal"}]}),
    Case(
        "toleration",
        f"!{POD}.tolerations[0].tolerationSeconds",
        {**MANAGED, f"{POD}.tolerations": [{"key": "a", "tolerationSeconds": 3}]},
    ),
    # Policies.
    Case("torchtune-model", "!spec.runtimeRef.name", {**TUNE, "spec.runtimeRef.name": "my-tune"}, "torchtune"),
    Case("torchtune-nodes", f"!{T}.numNodes", {**TUNE, f"{T}.numNodes": 2}, "torchtune"),
    Case(
        "torchtune-nodes",
        f"!{T}.numNodes",
        {
            **TUNE,
            "spec.runtimeRef.name": "torchtune-llama3.3-70b",
            f"{T}.numNodes": 2,
            f"{T}.args": ["model.lora_attn_modules=[q_proj]"],
        },
        "torchtune",
    ),
    Case("torchtune-qlora", f"!{T}.numProcPerNode", {**TUNE, **QLORA}, "torchtune"),
    Case("torchtune-qlora", "!spec.runtimeRef.name", {**QWEN, **QLORA}, "torchtune"),
    Case("torchtune-args", f"!{T}.args[0]", {**TUNE, f"{T}.args": ["output_dir=/x"]}, "torchtune"),
    Case("mpi-jobs", f"!{T}.numNodes", {}, "mpi-node", {f"{RJOBS}[0].name": "worker", f"{RJOBS}[1].dependsOn": GONE}),
    Case("mpi-one-node", f"{T}.numNodes", {f"{T}.numNodes": 1}, "mpi-node"),
    Case("mpi-resources", f"{T}.resourcesPerNode", {f"{T}.resourcesPerNode.limits": {"cpu": 1}}, "mpi"),
    Case("flux-nodes", f"!{T}.numNodes", {f"{T}.numNodes": GONE}, "flux"),
    Case("flux-nodes", f"!{T}.numNodes", {"spec.trainer": GONE}, "flux"),
    # What the runtime is to blame for is told where it is named.
    Case("runtime-ttl", "spec.runtimeRef.name", {}, "torch", {"spec.template.spec.ttlSecondsAfterFinished": 60}),
    Case(
        "runtime-deprecated",
        "spec.runtimeRef.name",
        {},
        "torch",
        {"metadata.labels": {"trainer.kubeflow.org/support": "deprecated"}},
    ),
    Case("runtime-gang", "!spec.runtimeRef.name", {}, "mpi", {"spec.podGroupPolicy": {"coscheduling": {}}}),
    Case("mpi-success", "spec.runtimeRef.name", {}, "mpi", {"spec.template.spec.successPolicy": GONE}),
    Case(
        "runtime-ancestors",
        "spec.runtimeRef.name",
        {},
        "torch",
        {
            f"{RJOBS}[1]": {
                "name": "b",
                "template": {
                    "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                    "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "repo/image:1"}]}}},
                },
            }
        },
    ),
    Case(
        "runtime-env-injection",
        "!spec.runtimeRef.name",
        {},
        "torch",
        {"spec.mlPolicy.torch.envInjection.targets": [{"jobName": "node", "containerNames": ["side"]}]},
    ),
    Case("runtime-queue", "!spec.runtimeRef.name", {}, "torch", VOLCANO),
    Case(
        "flux-installer",
        "!spec.runtimeRef.name",
        {},
        "flux",
        {f"{RPOD}.initContainers": [{"name": "flux-installer", "image": "repo/image:1"}]},
    ),
]

RICH = {
    "metadata": {
        "name": "digits",
        "namespace": "team-a",
        "labels": {"kueue.x-k8s.io/queue-name": "team-a", "team": ""},
        "annotations": {"trainer-ops/identity": "anything: at all, of any length"},
    },
    "spec.suspend": True,
    "spec.managedBy": "kueue.x-k8s.io/multikueue",
    "spec.activeDeadlineSeconds": 86400,
    "spec.runtimeRef": {
        "name": "torchtune-llama3.2-1b",
        "kind": "ClusterTrainingRuntime",
        "apiGroup": "trainer.kubeflow.org",
    },
    I: {
        "dataset": {"storageUri": "hf://org/data.set", "env": [{"name": "IGNORE_PATTERNS", "value": "*.bin"}]},
        "model": {"storageUri": "s3://bucket/a/b", "secretRef": {"name": "s3"}},
    },
    T: {
        "image": "registry.example.com:5000/team/image@sha256:" + "0" * 64,
        "command": ["torchrun", "train.py"],
        "args": ["--nodes=$(PET_NNODES)"],
        "numNodes": 4.0,
        "numProcPerNode": 8,
        "resourcesPerNode": {
            "limits": {"nvidia.com/gpu": 8, "cpu": "8", "memory": "1.5Gi"},
            "requests": {"cpu": "500m", "memory": "1536Mi"},
        },
        "env": [
            {"name": "A", "value": "$$(PET_NNODES) $(HOSTNAME)"},
            {"name": "B", "value": "$(A)"},
            {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
            {"name": "EMPTY"},
        ],
    },
    **MANAGED,
    f"{JOB}.template.metadata.labels": {"a": "b"},
    POD: {
        "nodeSelector": {"gpu": "a100"},
        "tolerations": [
            {"operator": "Exists"},
            {"key": "gpu", "value": "yes", "effect": "NoExecute", "tolerationSeconds": 60},
        ],
        "terminationGracePeriodSeconds": 120,
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}],
        "containers": [{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data", "subPath": "x"}]}],
        "serviceAccountName": None,
    },
}

QUANTITIES = ["0", "500m", "2", "4Gi", ".5", "1.", "+1", "1e3", "1E-2", "100n", 2, 2.0, 0]
NO_QUANTITIES = ["", "2 Gi", "2GB", "1,5", "m", "1e", "½", "２", True, 1.5, float("nan"), float("inf")]
