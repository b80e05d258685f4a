"""From the draft to the objects: runtimePatches on a stock runtime, or a TrainingRuntime of the job's own."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from trainer_ops.migrate import fields
from trainer_ops.migrate.draft import NODE, Draft, Part
from trainer_ops.migrate.ledger import Fate
from trainer_ops.migrate.paths import Path, text_of
from trainer_ops.migrate.places import MISSING, Key, Place, find
from trainer_ops.migrate.stock import Need, in_trainer, needs
from trainer_ops.model import keys
from trainer_ops.model.names import slug

__all__ = ["PATCH_MANAGER", "Emitted", "emit", "settle", "share"]

Raw = dict[str, Any]

PATCH_MANAGER: Final = "trainer-ops.kubeflow.org/migrate"

_POD_ORDER: Final = ("restartPolicy", "schedulerName", "priorityClassName", "serviceAccountName", "hostNetwork")
_POD_LAST: Final = ("initContainers", "containers", "volumes")
_CONTAINER_ORDER: Final = ("name", "image", "imagePullPolicy", "workingDir", "command", "args", "ports", "env")
_JOB_ORDER: Final = ("parallelism", "completions", "completionMode", "backoffLimit", "podFailurePolicy")
_TRAINER_ORDER: Final = ("image", "command", "args", "env", "resourcesPerNode")


@dataclass(frozen=True, slots=True)
class Emitted:
    """What came of one job.

    Attributes:
        trainjob: the TrainJob.
        runtime: the TrainingRuntime that it names, None when it names a stock one.
        needs: what kept a stock runtime from carrying it.
    """

    trainjob: Raw
    runtime: Raw | None = None
    needs: tuple[Need, ...] = ()


def emit(draft: Draft) -> Emitted:
    """The objects. A stock runtime that was asked for by name and cannot carry the job is a refusal in the draft."""
    found = needs(draft)
    asked = draft.options.runtime
    if asked not in ("auto", "generate"):
        for need in found:
            draft.refuse("RUNTIME-FIELD", need.path, f"{need.what} cannot be had with the runtime {asked}")
        return _with_stock(draft, asked)
    if draft.stock and not found and asked == "auto":
        return _with_stock(draft, draft.stock)
    runtime = _runtime(draft)
    return Emitted(_trainjob(draft, runtime["metadata"]["name"], generated=True), runtime, found)


def _with_stock(draft: Draft, runtime: str) -> Emitted:
    draft.findings += [found for found in draft.when_stock if found not in draft.findings]
    return Emitted(_trainjob(draft, runtime, generated=False))


def share(emitted: Sequence[Emitted]) -> list[Emitted]:
    """Equal generated runtimes of one namespace become one, called by what it holds instead of by one of its jobs.

    So are those that are not equal and would have one name: of jobs that are called the same, in folders of their own.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    called: dict[tuple[str, str], set[str]] = {}
    for i, one in enumerate(emitted):
        if one.runtime is not None:
            namespace, digest = str(one.runtime["metadata"].get("namespace") or ""), _digest(one.runtime)
            groups.setdefault((namespace, digest), []).append(i)
            called.setdefault((namespace, _called(one)), set()).add(digest)
    result = list(emitted)
    for (namespace, digest), members in groups.items():
        if len(members) > 1 or any(len(called[(namespace, _called(emitted[i]))]) > 1 for i in members):
            for i in members:
                result[i] = _renamed(result[i], digest[:8])
    return result


def settle(draft: Draft, made: Emitted) -> None:
    """Give every linked leaf its final path; those of which nothing is found are left to be told as lost."""
    for link in draft.links:
        for leaf in draft.ledger.left(link.path):
            place = (*link.place, *leaf[len(link.path) :])
            where, held = _located(draft, made, place)
            if held is not MISSING and (held == draft.ledger.value(leaf)):
                draft.ledger.mapped(leaf, where, reason=link.reason)
                continue
            changed = _rewritten(draft, made, place)
            if changed is not None:
                draft.ledger.mapped(leaf, changed[0], reason=changed[1])
                continue
            where, held = _located(draft, made, link.place)
            if held is not MISSING and not link.exact:
                draft.ledger.mapped(leaf, where, reason=link.reason)
            elif link.otherwise is not None:
                _otherwise(draft, leaf, *link.otherwise)


def _otherwise(draft: Draft, leaf: Path, fate: Fate, reason: str) -> None:
    if fate is Fate.MAPPED:
        draft.ledger.mapped(leaf, "trainjob:spec.runtimeRef.name", reason=reason)
    else:
        draft.ledger.dropped(leaf, reason)


def _rewritten(draft: Draft, made: Emitted, place: Place) -> tuple[str, str] | None:
    for size in range(len(place), 1, -1):
        reason = draft.rewritten.get(place[:size])
        if reason is not None:
            where, held = _located(draft, made, place[:size])
            if held is not MISSING:
                return where, reason
    return None


def _located(draft: Draft, made: Emitted, place: Place) -> tuple[str, Any]:
    """The final path of a place, as text with its object, and what is there."""
    for name, value, prefix, rest in _candidates(draft, made, place):
        path, held = find(value, (*prefix, *rest))
        if held is not MISSING:
            return f"{name}:{text_of(path)}", held
    return "", MISSING


def _candidates(draft: Draft, made: Emitted, place: Place) -> Iterable[tuple[str, Raw, Place, Place]]:
    job, runtime = made.trainjob, made.runtime
    head, rest = place[0], place[1:]
    jobset: Place = ("spec", "template")
    if head in ("trainjob", "trainer"):
        yield "trainjob", job, ("spec", "trainer") if head == "trainer" else (), rest
        return
    if head == "runtime" and runtime is not None:
        yield "runtime", runtime, ("spec",), rest
    name, value = ("trainjob", job) if runtime is None else ("runtime", runtime)
    if runtime is None:
        jobset = ("spec", "runtimePatches", 0, "trainingRuntimeSpec", "template")
    if head == "jobset":
        yield name, value, jobset, rest
    if head not in ("pod", "job"):
        return
    part = draft.part(str(rest[0]))
    rest = rest[1:]
    if head == "pod" and part is not None and part.trains and rest[:3] == ("spec", "containers", Key(NODE)):
        field = fields.TRAINER.get(str(rest[3])) if len(rest) > 3 else None
        if field:
            yield "trainjob", job, ("spec", "trainer", field), rest[4:]
    spec: Place = (*jobset, "spec", "replicatedJobs", Key(part.name if part else ""), "template", "spec")
    yield name, value, spec if head == "job" else (*spec, "template"), rest


def _trainjob(draft: Draft, runtime: str, *, generated: bool) -> Raw:
    metadata: Raw = {"name": draft.name} if draft.name else {"generateName": draft.generate_name}
    if draft.job.namespace:
        metadata["namespace"] = draft.job.namespace
    metadata.update(
        {kind: dict(draft.metadata[kind]) for kind in ("labels", "annotations") if draft.metadata.get(kind)}
    )
    kind = keys.NAMESPACED_RUNTIME if generated else keys.CLUSTER_RUNTIME
    spec: Raw = {"runtimeRef": {"apiGroup": keys.GROUP, "kind": kind, "name": runtime}}
    spec["trainer"] = _trainer(draft)
    patch = None if generated else _patch(draft)
    if patch:
        spec["runtimePatches"] = [{"manager": PATCH_MANAGER, "trainingRuntimeSpec": {"template": patch}}]
    spec.update({name: draft.trainjob[name] for name in _SPEC if name in draft.trainjob})
    return {"apiVersion": keys.API_VERSION, "kind": keys.KIND, "metadata": metadata, "spec": spec}


_SPEC: Final = ("suspend", "activeDeadlineSeconds", "managedBy")


def _trainer(draft: Draft) -> Raw:
    made: Raw = {"numNodes": draft.num_nodes}
    if draft.num_proc is not None:
        made["numProcPerNode"] = draft.num_proc
    part = draft.trainer
    if part is not None:
        own = in_trainer(part)
        named = {fields.TRAINER[field]: part.container[field] for field in own}
        made.update({name: copy.deepcopy(named[name]) for name in _TRAINER_ORDER if name in named})
    return made


def _patch(draft: Draft) -> Raw:
    """The JobSet template of a patch, {} when nothing is to be patched."""
    made: Raw = {}
    annotations = draft.jobset["metadata"].get("annotations")
    if annotations:
        made["metadata"] = {"annotations": dict(annotations)}
    jobs = [
        {"name": part.name, "template": {"spec": {"template": pod}}}
        for part in draft.parts
        if (pod := _pod_patch(draft, part))
    ]
    if jobs:
        made["spec"] = {"replicatedJobs": jobs}
    return made


def _pod_patch(draft: Draft, part: Part) -> Raw:
    made: Raw = {}
    metadata = {kind: dict(held) for kind, held in part.pod["metadata"].items() if held}
    if metadata:
        made["metadata"] = metadata
    spec = {name: copy.deepcopy(part.spec[name]) for name in fields.POD_PATCH if name in part.spec}
    node = {name: copy.deepcopy(held) for name, held in part.container.items() if name in fields.CONTAINER_PATCH}
    if len(node) > 1:
        spec["containers"] = [node]
    if spec:
        made["spec"] = _ordered(spec, (), _POD_LAST)
    return made


def _runtime(draft: Draft) -> Raw:
    base = draft.name or slug(draft.generate_name, 40)
    metadata: Raw = {"name": f"{base}-{draft.framework}"}
    if draft.job.namespace:
        metadata["namespace"] = draft.job.namespace
    metadata["labels"] = {keys.LABEL_FRAMEWORK: draft.framework}
    template: Raw = {}
    if draft.jobset["metadata"]:
        template["metadata"] = copy.deepcopy(draft.jobset["metadata"])
    jobs = [_replicated_job(part) for part in draft.parts]
    template["spec"] = {**copy.deepcopy(draft.jobset["spec"]), "replicatedJobs": jobs}
    spec: Raw = {"mlPolicy": {"numNodes": 1, **copy.deepcopy(draft.policy)}, **copy.deepcopy(draft.runtime)}
    spec["template"] = template
    return {"apiVersion": keys.API_VERSION, "kind": keys.NAMESPACED_RUNTIME, "metadata": metadata, "spec": spec}


def _replicated_job(part: Part) -> Raw:
    made: Raw = {"name": part.name}
    if part.depends_on:
        made["dependsOn"] = [dict(item) for item in part.depends_on]
    template: Raw = {}
    if part.trains:
        template["metadata"] = {"labels": {keys.LABEL_ANCESTOR: "trainer"}}
    job = copy.deepcopy(part.job)
    if part.pods is not None:
        job.update(parallelism=part.pods, completions=part.pods, completionMode="Indexed")
    job = _ordered(job, _JOB_ORDER, ())
    job["template"] = _pod_template(part)
    template["spec"] = job
    made["template"] = template
    return made


def _pod_template(part: Part) -> Raw:
    made: Raw = {}
    metadata = {kind: dict(held) for kind, held in part.pod["metadata"].items() if held}
    if metadata:
        made["metadata"] = metadata
    spec = copy.deepcopy(part.spec)
    elsewhere = in_trainer(part) if part.trains else ()
    for container in spec.get("containers") or ():
        if container.get("name") == NODE:
            # The image stays too: a runtime that can be looked at, and used, by itself.
            for field in elsewhere:
                if field != "image":
                    container.pop(field, None)
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_ordered(container, _CONTAINER_ORDER, ()) for container in spec[kind]]
    made["spec"] = _ordered(spec, _POD_ORDER, _POD_LAST)
    return made


def _ordered(held: Mapping[str, Any], first: Sequence[str], last: Sequence[str]) -> Raw:
    names = [*first, *(name for name in held if name not in first and name not in last), *last]
    return {name: held[name] for name in names if name in held}


def _called(one: Emitted) -> str:
    return str((one.runtime or {})["metadata"]["name"])


def _digest(runtime: Mapping[str, Any]) -> str:
    held = {"labels": runtime["metadata"].get("labels"), "spec": runtime["spec"]}
    return hashlib.sha256(json.dumps(held, sort_keys=True, default=str).encode()).hexdigest()


def _renamed(one: Emitted, digest: str) -> Emitted:
    runtime, trainjob = copy.deepcopy(one.runtime), copy.deepcopy(one.trainjob)
    assert runtime is not None
    name = f"{runtime['metadata']['labels'][keys.LABEL_FRAMEWORK]}-{digest}"
    runtime["metadata"]["name"] = trainjob["spec"]["runtimeRef"]["name"] = name
    return replace(one, trainjob=trainjob, runtime=runtime)
