"""What stands beside v1 jobs is told with what to write instead, and never changed."""

from __future__ import annotations

import pytest

from trainer_ops.migrate.documents import read
from trainer_ops.migrate.files import migrate, read_source
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.recognise import patch_files, resource_files

Told = tuple[str, str, int, str]

FOUND: dict[str, tuple[str, str, list[Told]]] = {
    "rights": (
        "rbac.yaml",
        (
            "kind: ClusterRole\nrules:\n- {apiGroups: [''], resources: [pods]}\n"
            "- apiGroups: [kubeflow.org]\n  resources: [pytorchjobs, pytorchjobs/status]\n  verbs: [get]\n"
        ),
        [("ALONGSIDE", "warning", 4, "rights on pytorchjobs, pytorchjobs/status say nothing about TrainJobs")],
    ),
    "rights on all of the group": (
        "rbac.yaml",
        "kind: Role\nrules:\n- {apiGroups: [kubeflow.org], resources: ['*']}\n",
        [("ALONGSIDE", "warning", 3, "rights on * say nothing about TrainJobs")],
    ),
    "rights on all of another group": (
        "rbac.yaml",
        "kind: Role\nrules:\n- {apiGroups: [apps], resources: ['*']}\n# kubeflow.org\n",
        [],
    ),
    "rights on v2 already": (
        "rbac.yaml",
        "kind: Role\nrules:\n- {apiGroups: [trainer.kubeflow.org], resources: [trainjobs]}\n",
        [],
    ),
    "a quota": (
        "q.yaml",
        "kind: ResourceQuota\nspec:\n  hard:\n    cpu: 1\n    count/mpijobs.kubeflow.org: '3'\n",
        [("ALONGSIDE", "warning", 5, "count/mpijobs.kubeflow.org does not count TrainJobs")],
    ),
    "a monitor": (
        "m.yaml",
        (
            "apiVersion: monitoring.coreos.com/v1\nkind: PodMonitor\nspec:\n  selector:\n    matchLabels:\n"
            "      training.kubeflow.org/job-name: digits\n"
        ),
        [
            (
                "ALONGSIDE",
                "warning",
                6,
                "selects by training.kubeflow.org/job-name, which pods of TrainJobs do not have",
            )
        ],
    ),
    "a network policy": (
        "n.yaml",
        (
            "kind: NetworkPolicy\nspec:\n  podSelector:\n    matchExpressions:\n"
            "    - {key: training.kubeflow.org/replica-type, operator: Exists}\n"
        ),
        [
            (
                "ALONGSIDE",
                "warning",
                5,
                "selects by training.kubeflow.org/replica-type, which pods of TrainJobs do not have",
            )
        ],
    ),
    "Kueue's configuration": (
        "k.yaml",
        (
            "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nintegrations:\n  frameworks:\n"
            "  - batch/job\n  - kubeflow.org/pytorchjob\n"
        ),
        [("ALONGSIDE", "warning", 6, "names kubeflow.org/pytorchjob: Kueue does not queue TrainJobs by it")],
    ),
    "Kueue's configuration in a ConfigMap": (
        "k.yaml",
        (
            "kind: ConfigMap\ndata:\n  controller_manager_config.yaml: |\n    integrations:\n      frameworks:\n"
            "      - kubeflow.org/tfjob\n"
        ),
        [("ALONGSIDE", "warning", 3, "names kubeflow.org/tfjob: Kueue does not queue TrainJobs by it")],
    ),
    "a policy": (
        "p.yaml",
        "kind: ClusterPolicy\nspec:\n  rules:\n  - match: {any: [{resources: {kinds: [PyTorchJob]}}]}\n",
        [("ALONGSIDE", "warning", 4, "names PyTorchJob, and not TrainJob")],
    ),
    "the definition of a kind": (
        "crd.yaml",
        (
            "kind: CustomResourceDefinition\nmetadata: {name: tfjobs.kubeflow.org}\n"
            "spec: {group: kubeflow.org, names: {plural: tfjobs}}\n"
        ),
        [("ALONGSIDE", "info", 2, "the definition of a v1 kind; deleting it deletes all jobs of the kind")],
    ),
    "overrides of Trainer 2.0": (
        "j.yaml",
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec:\n  podSpecOverrides: []\n",
        [("OLD-OVERRIDES", "warning", 4, "spec.podSpecOverrides is dropped silently by Trainer 2.2 and later")],
    ),
    "overrides of Trainer 2.1": (
        "j.yaml",
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec:\n  podTemplateOverrides: []\n",
        [("OLD-OVERRIDES", "warning", 4, "spec.podTemplateOverrides is dropped silently by Trainer 2.2 and later")],
    ),
    "processes in a runtime": (
        "r.yaml",
        "kind: ClusterTrainingRuntime\nspec: {mlPolicy: {torch: {numProcPerNode: auto}}}\n",
        [("OLD-OVERRIDES", "warning", 2, "spec.mlPolicy.torch.numProcPerNode is a field of Trainer before 2.2")],
    ),
    "Flux": (
        "r.yaml",
        "kind: ClusterTrainingRuntime\nspec: {mlPolicy: {flux: {}}}\n",
        [("FLUX", "info", 2, "this runtime starts its processes by Flux")],
    ),
    "torchtune": (
        "j.yaml",
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: {runtimeRef: {name: torchtune-llama3}}\n",
        [
            (
                "TORCHTUNE",
                "info",
                3,
                "torchtune-llama3 fine-tunes by torchtune, by the runtime's own command; v1 has nothing like it",
            )
        ],
    ),
    "Helm": (
        "chart/templates/job.yaml",
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  x: {{ .Values.x }}\n",
        [("TEMPLATE", "refused", 4, "this is a Helm template, whose jobs are known when it is rendered")],
    ),
    "patches of kustomize": (
        "overlay/kustomization.yaml",
        (
            "resources: [../base]\npatches:\n- path: other.yaml\n- target: {kind: PyTorchJob}\n  path: more.yaml\n"
            "- patch: |-\n    - {op: replace, path: /spec/tfReplicaSpecs/Worker/replicas, value: 3}\n"
        ),
        [
            ("OVERLAY", "refused", 4, "this patch changes a PyTorchJob"),
            ("OVERLAY", "refused", 6, "this patch changes a v1 job"),
        ],
    ),
    "kustomize without patches of jobs": ("kustomization.yml", "resources: [a.yaml]\npatches: [{path: x.yaml}]\n", []),
    "another's file": ("x.yaml", "kind: Deployment\nspec: {template: {}}\n", []),
    "a TrainJob of today": (
        "j.yaml",
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: {runtimeRef: {name: torch-distributed}}\n",
        [],
    ),
}


@pytest.mark.parametrize(("name", "text", "told"), FOUND.values(), ids=FOUND.keys())
def test_told_and_left_alone(name: str, text: str, told: list[Told]) -> None:
    made = migrate([read_source(name, text.encode())], Options())[0]
    assert made.text == text
    found = made.result.findings
    assert [(one.finding.code, one.finding.severity, one.line, one.finding.message) for one in found] == told
    assert all(one.finding.remedy for one in found if one.finding.severity != "info")


def test_a_label_has_a_successor() -> None:
    text = "kind: Service\nspec: {selector: {training.kubeflow.org/replica-index: '0'}}\n"
    (told,) = read_source("s.yaml", text.encode()).findings
    assert told.finding.remedy == "Use batch.kubernetes.io/job-completion-index"


def test_a_patch_file_is_not_converted() -> None:
    text = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: {runPolicy: {suspend: true}}\n"
    source = read_source("patch.yaml", text.encode(), is_patch=True)
    assert [one.finding.code for one in source.findings] == ["OVERLAY"]
    assert migrate([source], Options())[0].text == text


def test_what_a_kustomization_uses() -> None:
    text = (
        "resources: [a.yaml, ../base]\npatches: [{path: p.yaml}, {patch: x}]\npatchesJson6902: [{path: j.yaml}]\n"
        "patchesStrategicMerge:\n- s.yaml\n- |\n  kind: PyTorchJob\n"
    )
    documents = read(text, all_of_it=True)
    assert list(patch_files(documents)) == ["p.yaml", "j.yaml", "s.yaml"]
    assert list(resource_files(documents)) == ["a.yaml", "../base"]
