"""Rules about ``spec.runtimePatches``: whom they name, and what they add."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.runtime import ReplicatedJob, TrainingRuntime
from trainer_ops.validate.findings import Finding, error
from trainer_ops.validate.identity import label_syntax
from trainer_ops.validate.peek import at, close_to, find, items, mapping, named, show, text
from trainer_ops.validate.pods import mounts, sources_of, tolerations, volumes
from trainer_ops.validate.subject import JOBS, POD, Subject

__all__ = ["patches"]

_JOBS = "trainingRuntimeSpec.template.spec.replicatedJobs"
_OWNED = (keys.STEP_NODE, *keys.INITIALIZERS)
_SET_BY = {keys.STEP_NODE: "spec.trainer.env", keys.STEP_DATASET: "spec.initializer.dataset.env"}
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", re.ASCII)
# Added by the MPI policy to the pods of launcher and node.
_MPI_VOLUMES = ("mpi-ssh-auth", "mpi-hostfile")


def patches(subject: Subject) -> Iterator[Finding]:
    """All patches, each job of them against the runtime's."""
    for path, raw in find(subject.spec, "runtimePatches[]"):
        patch = mapping(raw)
        yield from _manager(f"spec.{path}.manager", patch.get("manager"))
        for where, held in _metadata(patch):
            yield from label_syntax(held, f"spec.{path}.{where}")
        for below, job in find(patch, f"{_JOBS}[]"):
            yield from _job(f"spec.{path}.{below}", mapping(job), subject)


def _metadata(patch: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    yield from find(patch, "trainingRuntimeSpec.template.metadata")
    yield from find(patch, f"{_JOBS}[].template.metadata")
    yield from find(patch, f"{_JOBS}[].template.spec.template.metadata")


def _manager(path: str, manager: Any) -> Iterator[Finding]:
    if not isinstance(manager, str) or not manager:
        return
    domain, _, rest = manager.partition("/")
    if not (_DOMAIN.fullmatch(domain) and len(domain) <= 253 and _PATH.fullmatch(rest)):
        reason = f"{show(manager)} is no path with a domain"
        yield error("patch-manager", path, reason, f"Write it like {keys.PATCH_MANAGER}")


def _job(path: str, patch: Mapping[Any, Any], subject: Subject) -> Iterator[Finding]:
    pod, name = mapping(at(patch, POD)), text(patch.get("name"))
    runtime = subject.runtime
    job = runtime.job(name) if runtime else None
    if runtime is not None and name and job is None:
        yield _no_such(
            "patch-job", f"{path}.name", name, f"job in the runtime {show(runtime.name)}", _names(runtime.jobs)
        )
    for kind in ("initContainers", "containers"):
        for i, own, container in named(pod.get(kind)):
            yield from _container(f"{path}.{POD}.{kind}[{i}]", own, container, job)
    yield from volumes(pod.get("volumes"), f"{path}.{POD}.volumes", _sources(runtime, name))
    yield from tolerations(pod.get("tolerations"), f"{path}.{POD}.tolerations")
    known = _volumes(subject, job) if job else None
    for kind in ("initContainers", "containers"):
        for below, held in find(pod, f"{kind}[].volumeMounts"):
            yield from mounts(held, f"{path}.{POD}.{below}", known)


def _container(path: str, name: str, patch: Mapping[Any, Any], job: ReplicatedJob | None) -> Iterator[Finding]:
    known = _names((*job.init_containers, *job.containers)) if job else None
    if job is not None and known is not None and name not in known:
        yield _no_such("patch-container", f"{path}.name", name, f"container in the runtime's job {job.name}", known)
    if name in _OWNED and items(patch.get("env")):
        place = _SET_BY.get(name, "spec.initializer.model.env")
        reason = f"env of the container {name} cannot be patched"
        yield error("patch-env", f"{path}.env", reason, f"Move it to {place}")


def _no_such(rule: str, path: str, name: str, what: str, known: list[str]) -> Finding:
    close = close_to(name, known)
    remedy = f"Did you mean {close}?" if close else f"Known: {', '.join(known) or 'none'}"
    return error(rule, path, f"{show(name)} is no {what}", remedy)


def _names(things: Any) -> list[str]:
    return [one.name for one in things]


def _raw_jobs(runtime: TrainingRuntime | None, name: str) -> Iterator[Mapping[Any, Any]]:
    for _, own, job in named(at(runtime.raw, JOBS) if runtime else None):
        if own == name:
            yield job


def _sources(runtime: TrainingRuntime | None, name: str) -> dict[str, list[str]]:
    """The sources of the volumes that the runtime's job has, by their names."""
    return {
        own: sources_of(volume)
        for job in _raw_jobs(runtime, name)
        for _, own, volume in named(at(job, f"{POD}.volumes"))
    }


def _volumes(subject: Subject, job: ReplicatedJob) -> set[str]:
    """Every volume that the pods of a job will have, from whatever side."""
    runtime = subject.runtime
    claims = find(runtime.raw if runtime else {}, "spec.template.spec.volumeClaimPolicies[].templates[].metadata.name")
    patched = (
        name
        for _, patch in find(subject.spec, f"runtimePatches[].{_JOBS}[]")
        if text(mapping(patch).get("name")) == job.name
        for _, name, _ in named(at(patch, f"{POD}.volumes"))
    )
    injected = _MPI_VOLUMES if subject.policy == "mpi" else ()
    return {*job.volumes, *patched, *(text(name) for _, name in claims), *injected}
