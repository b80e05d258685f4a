"""What stands around a job and knows its kind: conditions, labels and names that change when it becomes a TrainJob.

Sources: katib ``pkg/apis/controller/experiments/v1beta1`` (defaults by kind), argo-workflows' ``resource`` templates
(label selectors over gjson paths), appwrapper v1beta2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trainer_ops.migrate.convert import Converted
from trainer_ops.migrate.documents import Document, Edit
from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.nodes import end_of
from trainer_ops.migrate.paths import Path, get
from trainer_ops.migrate.sites import Inner, Page, Site
from trainer_ops.migrate.yamltext import scalar
from trainer_ops.model import keys

__all__ = ["Around", "around_manifest", "around_site", "deciding"]

_NODE = "node"
_SUCCESS: Final = 'status.conditions.#(type=="Complete")#|#(status=="True")#'
_FAILURE: Final = 'status.conditions.#(type=="Failed")#|#(status=="True")#'
_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True, slots=True)
class Around:
    """What is changed around a job.

    Attributes:
        edits: in the text of the page.
        findings: what is to be known about it.
    """

    edits: tuple[Edit, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Making:
    document: Document
    text: str
    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def made(self) -> Around:
        return Around(tuple(self.edits), tuple(self.findings))

    def set(self, path: Path, value: Any, *, beside: Path) -> None:
        """Give a field a scalar or a mapping of texts, in place of what it has, else before its sibling ``beside``."""
        built = self.document.built
        assert built is not None
        flow = self.document.is_json or bool(getattr(built.nodes[path[:-1]], "flow_style", False))
        said = json.dumps(value) if flow or isinstance(value, Mapping) else scalar(value)
        node = built.nodes.get(path)
        if node is not None:
            start, end = int(node.start_mark.index), int(node.end_mark.index)
            text = said
            if getattr(node, "flow_style", None) is False:
                # A block begins on a line of its own; what replaces it stands behind the colon.
                end = end_of(node, self.text[self.document.origin : self.document.end])
                start, text = int(built.keys[path].end_mark.index), f": {text}"
            self.edits.append(Edit(self.document.origin + start, self.document.origin + end, text))
            return
        key = built.keys[beside]
        at = self.document.origin + int(key.start_mark.index)
        name = json.dumps(path[-1]) if flow else str(path[-1])
        gap = ", " if flow else "\n" + " " * int(key.start_mark.column)
        self.edits.append(Edit(at, at, f"{name}: {said}{gap}"))

    def value(self, path: Path) -> Any:
        return get(self.document.value, path)


def around_site(page: Page, site: Site, converted: Converted) -> Around:
    """What changes around a job that stands in YAML or JSON directly."""
    if not converted.ok or site.how in ("document", "item"):
        return Around()
    making = _Making(site.document, page.text)
    if site.how != "manifest":
        making.findings.append(finding("WRAPPER", (), f"it stands in {site.within}{_first(converted)}"))
    if site.how == "trial":
        _katib(making, converted)
    elif site.how == "component":
        _app_wrapper(making, site)
    elif site.how == "field":
        told = f"what reads {site.within} has to know TrainJobs"
        making.findings.append(finding("WRAPPER", (), told, severity="warning", remedy="See whether it does"))
    return making.made()


def _first(converted: Converted) -> str:
    if converted.runtime is None:
        return ""
    return f"; apply the runtime {converted.runtime['metadata']['name']} before it"


def _katib(making: _Making, converted: Converted) -> None:
    base: Path = ("spec", "trialTemplate")
    beside = (*base, "trialSpec")
    for name, value in _trial(converted).items():
        before = making.value((*base, name))
        if before != value:
            making.set((*base, name), value, beside=beside)
            was = f"was {json.dumps(before)}, is" if before is not None else "is set to"
            making.findings.append(
                finding("WRAPPER-COND", (*base, name), f"{name} {was} {json.dumps(value)}", severity="info")
            )


def _trial(converted: Converted) -> dict[str, Any]:
    """What Katib has to look for: the settings of ``spec.trialTemplate``."""
    return {
        "primaryContainerName": _NODE,
        "primaryPodLabels": {keys.LABEL_REPLICATED_JOB: _step(converted), _INDEX: "0"},
        "successCondition": _SUCCESS,
        "failureCondition": _FAILURE,
    }


def _step(converted: Converted) -> str:
    """The replicated job whose pod 0 prints what the training says."""
    jobs = get(converted.runtime, ("spec", "template", "spec", "replicatedJobs")) or ()
    names = [str(job.get("name")) for job in jobs]
    return next((name for name in ("launcher", "chief") if name in names), _NODE)


def _app_wrapper(making: _Making, site: Site) -> None:
    component = site.path[:-1]
    pod_sets = making.value((*component, "podSets"))
    text = "AppWrapper counts the pods of kinds that it knows; a TrainJob's pods are made by JobSet, out of its sight"
    if pod_sets:
        text += "; podSets name paths that are not there any more"
    remedy = f"Submit the TrainJob itself to Kueue, with the label {keys.LABEL_QUEUE}"
    making.findings.append(finding("WRAPPER-COND", (*component, "template"), text, remedy=remedy))


def around_manifest(outer: Page, inner: Inner, converted: Converted) -> Around:
    """What changes around the text of a template of Argo or Katib when the job in it has been converted."""
    if inner.document is None or not inner.page.one_object or not converted.ok:
        return Around()
    making = _Making(inner.document, outer.text)
    making.findings.append(finding("WRAPPER", (), f"it stands in {inner.within}{_first(converted)}"))
    if inner.within.startswith("Katib"):
        settings = ", ".join(f"{name} {json.dumps(value)}" for name, value in _trial(converted).items())
        told = f"experiments that name this template want other settings now: {settings}"
        remedy = "Write them into spec.trialTemplate of each, beside configMap"
        making.findings.append(finding("WRAPPER-COND", (), told, remedy=remedy))
        return making.made()
    index, count = deciding(converted)
    resource = inner.path[:-1]
    # Argo takes a step for failed when one of the failure conditions holds, whichever it is.
    failed = ", ".join(f"status.jobsStatus.{i}.failed > 0" for i in range(count))
    for name, after in (
        ("successCondition", f"status.jobsStatus.{index}.succeeded > 0"),
        ("failureCondition", failed),
    ):
        before = making.value((*resource, name))
        if before is None:
            continue
        making.set((*resource, name), after, beside=inner.path)
        making.findings.append(
            finding(
                "WRAPPER-COND",
                (*resource, name),
                f"{name} was {json.dumps(before)}, is {json.dumps(after)}",
                remedy="A TrainJob that ends by its deadline sets neither: give the template activeDeadlineSeconds too",
            )
        )
    return making.made()


def deciding(converted: Converted) -> tuple[int, int]:
    """Which entry of ``status.jobsStatus`` decides, and how many there are.

    They are not in the order of the runtime: JobSet sorts them by name, z first (replicatedJobStatusesEqual, v0.12).
    """
    jobs = list(get(converted.runtime, ("spec", "template", "spec", "replicatedJobs")) or ())
    targets = get(converted.runtime, ("spec", "template", "spec", "successPolicy", "targetReplicatedJobs")) or ()
    names = sorted((str(job.get("name")) for job in jobs), reverse=True)
    index = next((names.index(name) for name in (*targets, *_trains(jobs)) if name in names), 0)
    return index, max(1, len(names))


def _trains(jobs: list[Mapping[str, Any]]) -> Iterator[Any]:
    for job in jobs:
        if keys.LABEL_ANCESTOR in (get(job, ("template", "metadata", "labels")) or {}):
            yield job.get("name")
