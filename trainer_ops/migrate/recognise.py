"""What stands beside v1 jobs and knows them: it is told, with what to write instead, and not changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trainer_ops.migrate.documents import Document
from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.kinds import GROUP, KINDS
from trainer_ops.migrate.paths import Path, get, leaves, text_of
from trainer_ops.migrate.report.results import Placed

__all__ = ["is_helm", "is_kustomization", "patch_files", "recognise", "resource_files", "template"]

_PLURALS: Final = frozenset(kind.plural for kind in KINDS.values())
_NAMES: Final = frozenset(kind.name for kind in KINDS.values())
_V2_RESOURCES = "trainjobs, trainjobs/status, trainingruntimes, clustertrainingruntimes"
_V1_LABEL = "training.kubeflow.org/"
_KUSTOMIZATION = re.compile(r"(?:.*[/\\])?kustomization(?:\.ya?ml)?", re.IGNORECASE)
_HELM = re.compile(
    r"\{\{-?\s*(?:\.(?:Values|Release|Chart|Files|Capabilities)\b|include\b|template\b|define\b|toYaml\b)"
)
_JOB = re.compile(r"(?:PyTorch|TF|MPI|XGBoost|Paddle|JAX|MX)Job\b")
_SPECS = re.compile(r"/spec/\w+ReplicaSpecs")
_LABELS: Final[Mapping[str, str]] = {
    "job-name": "jobset.sigs.k8s.io/jobset-name",
    "replica-type": "jobset.sigs.k8s.io/replicatedjob-name",
    "job-role": "jobset.sigs.k8s.io/replicatedjob-name",
    "replica-index": "batch.kubernetes.io/job-completion-index",
}


def is_kustomization(name: str) -> bool:
    """By the file's name."""
    return _KUSTOMIZATION.fullmatch(name) is not None


def is_helm(text: str) -> bool:
    """Whether a text is a Helm template of v1 jobs."""
    return _HELM.search(text) is not None and _JOB.search(text) is not None


def template(text: str) -> Placed:
    """What is told of a Helm template."""
    found = _HELM.search(text)
    line = text.count("\n", 0, found.start()) + 1 if found else 1
    return Placed(finding("TEMPLATE", (), "this is a Helm template, whose jobs are known when it is rendered"), line)


def patch_files(documents: tuple[Document, ...]) -> Iterator[str]:
    """The files that a kustomization uses as patches, as it writes them."""
    for document in documents:
        for name in ("patches", "patchesJson6902"):
            for item in _list(get(document.value, (name,))):
                if isinstance(item, Mapping) and isinstance(item.get("path"), str):
                    yield item["path"]
        for item in _list(get(document.value, ("patchesStrategicMerge",))):
            if isinstance(item, str) and "\n" not in item:
                yield item


def resource_files(documents: tuple[Document, ...]) -> Iterator[str]:
    """The files and folders that a kustomization builds from, as it writes them."""
    for document in documents:
        for name in ("resources", "bases"):
            yield from (item for item in _list(get(document.value, (name,))) if isinstance(item, str))


def recognise(
    documents: tuple[Document, ...],
    *,
    name: str = "",
    first_line: int = 1,
    known: Callable[[Document, Path], bool] = lambda document, path: False,
) -> list[Placed]:
    """All that is to be told of documents that are no v1 jobs.

    Args:
        documents: all of a page.
        name: of the file.
        first_line: of the page in the file.
        known: whether a path of a document is in a job that is converted, or changed with it.
    """
    found: list[Placed] = []
    for document in documents:
        value = document.value
        if not isinstance(value, Mapping):
            continue
        kustomize = is_kustomization(name) or document.kind == "Kustomization"
        rule = _kustomize if kustomize else _RULES.get(document.kind, _anything)
        for told, path in rule(value):
            if known(document, path):
                continue
            line = document.line_of(path) + first_line - 1
            found.append(Placed(told, line, document.index))
    return found


Told = Iterator[tuple[Finding, Path]]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _beside(path: Path, message: str, remedy: str) -> tuple[Finding, Path]:
    return finding("ALONGSIDE", path, message, remedy=remedy), path


# -- kustomize --------------------------------------------------------------------------------------------------------


def _kustomize(value: Mapping[str, Any]) -> Told:
    for name in ("patches", "patchesJson6902", "patchesStrategicMerge"):
        for index, item in enumerate(_list(value.get(name))):
            target = get(item, ("target", "kind")) if isinstance(item, Mapping) else None
            text = str(item.get("patch") or "") if isinstance(item, Mapping) else str(item)
            if target in _NAMES or _JOB.search(text) or _SPECS.search(text):
                path = (name, index)
                said = f"this patch changes a {target}" if target in _NAMES else "this patch changes a v1 job"
                yield finding("OVERLAY", path, said), path


# -- rights, quotas, selectors ----------------------------------------------------------------------------------------


def _role(value: Mapping[str, Any]) -> Told:
    for index, rule in enumerate(_list(value.get("rules"))):
        groups, resources = get(rule, ("apiGroups",)), get(rule, ("resources",))
        held = [one for one in _list(resources) if one == "*" or str(one).partition("/")[0] in _PLURALS]
        if held and GROUP in _list(groups):
            yield _beside(
                ("rules", index),
                f"rights on {', '.join(map(str, held))} say nothing about TrainJobs",
                f"Add a rule with apiGroups [trainer.kubeflow.org] and resources [{_V2_RESOURCES}]",
            )


def _quota(value: Mapping[str, Any]) -> Told:
    for key in get(value, ("spec", "hard")) or {}:
        plural = str(key).removeprefix("count/").partition(".")[0]
        if plural in _PLURALS:
            yield _beside(
                ("spec", "hard", str(key)),
                f"{key} does not count TrainJobs",
                "Add count/trainjobs.trainer.kubeflow.org",
            )


def _definition(value: Mapping[str, Any]) -> Told:
    if get(value, ("spec", "names", "plural")) in _PLURALS and get(value, ("spec", "group")) == GROUP:
        told = "the definition of a v1 kind; deleting it deletes all jobs of the kind"
        path: Path = ("metadata", "name")
        yield finding("ALONGSIDE", path, told, severity="info", remedy="Remove it with the v1 operator, last"), path


def _anything(value: Mapping[str, Any]) -> Told:
    """Labels, kinds and plurals anywhere in it; each is told once."""
    said: set[tuple[str, Path]] = set()
    kind = str(value.get("kind") or "")
    if kind in _NAMES or (kind.endswith("List") and kind != "List"):
        return
    for path, leaf in leaves(value):
        for told, remedy in (*_label(path, leaf), *_name(leaf)):
            if (told, path[:3]) not in said and path[:1] not in (("metadata",), ("status",)):
                said.add((told, path[:3]))
                yield _beside(path, told, remedy)


def _label(path: Path, leaf: Any) -> Iterator[tuple[str, str]]:
    keys = [part for part in path if isinstance(part, str)] + ([leaf] if isinstance(leaf, str) else [])
    for text in keys:
        at = text.find(_V1_LABEL)
        if at >= 0 and "\n" not in text:
            label = re.split(r"[^\w.-]", text[at + len(_V1_LABEL) :])[0]
            new = _LABELS.get(label)
            remedy = f"Use {new}" if new else "Pods of TrainJobs carry the labels of JobSet"
            yield f"selects by {_V1_LABEL}{label}, which pods of TrainJobs do not have", remedy


def _name(leaf: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(leaf, str):
        return
    for kind in KINDS.values():
        framework = f"{GROUP}/{kind.name.lower()}"
        if framework in leaf:
            yield f"names {framework}: Kueue does not queue TrainJobs by it", "Add trainer.kubeflow.org/trainjob"
        elif leaf in (kind.name, kind.plural, f"{kind.api_version}/{kind.name}", f"{kind.plural}.{GROUP}"):
            yield f"names {leaf}, and not TrainJob", "Name TrainJob (trainjobs.trainer.kubeflow.org) there too"


# -- what is v2 already -----------------------------------------------------------------------------------------------


def _trainjob(value: Mapping[str, Any]) -> Told:
    for field in ("podSpecOverrides", "podTemplateOverrides"):
        if get(value, ("spec", field)) is not None:
            yield _old(("spec", field), f"spec.{field} is dropped silently by Trainer 2.2 and later")
    name = str(get(value, ("spec", "runtimeRef", "name")) or "")
    if name.startswith("torchtune-"):
        path: Path = ("spec", "runtimeRef", "name")
        told = f"{name} fine-tunes by torchtune, by the runtime's own command; v1 has nothing like it"
        yield finding("TORCHTUNE", path, told), path


def _runtime(value: Mapping[str, Any]) -> Told:
    if get(value, ("spec", "mlPolicy", "flux")) is not None:
        path: Path = ("spec", "mlPolicy", "flux")
        remedy = "Set spec.trainer.numNodes in every TrainJob that names it"
        what = "this runtime starts its processes by Flux"
        yield finding("FLUX", path, what, severity="info", remedy=remedy), ("spec",)
    path = ("spec", "mlPolicy", "torch", "numProcPerNode")
    if get(value, path) is not None:
        yield _old(path, f"{text_of(path)} is a field of Trainer before 2.2", "Set spec.trainer.numProcPerNode")


def _old(path: Path, message: str, remedy: str | None = None) -> tuple[Finding, Path]:
    return finding("OLD-OVERRIDES", path, message, remedy=remedy), path


_RULES: Final[Mapping[str, Callable[[Mapping[str, Any]], Told]]] = {
    "Role": _role,
    "ClusterRole": _role,
    "ResourceQuota": _quota,
    "CustomResourceDefinition": _definition,
    "TrainJob": _trainjob,
    "TrainingRuntime": _runtime,
    "ClusterTrainingRuntime": _runtime,
}
