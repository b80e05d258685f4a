"""``check_runtime``: a ClusterTrainingRuntime or TrainingRuntime that somebody wrote, before it is used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainer_ops.model import keys
from trainer_ops.validate.findings import Finding, error, in_order, warning
from trainer_ops.validate.identity import api_and_kind, label_syntax, leftovers
from trainer_ops.validate.peek import at, find, mapping, named, number, show, text
from trainer_ops.validate.pods import mounts, tolerations, volumes
from trainer_ops.validate.schema import check_structure
from trainer_ops.validate.sizes import RUNTIME, check_sizes
from trainer_ops.validate.standing import standing
from trainer_ops.validate.subject import JOBS, POD, ancestor_of, without_images

__all__ = ["check_runtime"]

_POLICIES = ("torch", "mpi", "jax", "xgboost", "flux")
_CONTAINER_OF = {"trainer": keys.STEP_NODE, keys.STEP_DATASET: keys.STEP_DATASET, keys.STEP_MODEL: keys.STEP_MODEL}
_UNCHECKED = "trainer.kubeflow.org/webhook-validation"
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
# Volumes that the MPI policy adds to the pods of launcher and node.
_MPI_VOLUMES = ("mpi-ssh-auth", "mpi-hostfile")


def check_runtime(raw: Any) -> tuple[Finding, ...]:
    """All that is wrong with a runtime, errors first. Never raises, whatever is given.

    Args:
        raw: the object as it stands in YAML.
    """
    if not isinstance(raw, Mapping):
        reason = f"{show(raw)} is not a mapping"
        found = error("manifest-type", "manifest", reason, "Give a runtime with apiVersion, kind, metadata and spec")
        return (replace(found, subject="TrainingRuntime"),)
    kind = keys.NAMESPACED_RUNTIME if raw.get("kind") == keys.NAMESPACED_RUNTIME else keys.CLUSTER_RUNTIME
    return tuple(replace(found, subject=kind) for found in in_order(_all(raw, kind)))


def _all(raw: Mapping[Any, Any], kind: str) -> Iterator[Finding]:
    yield from api_and_kind(raw, kind)
    yield from _name(raw)
    yield from leftovers(raw)
    yield from label_syntax(raw.get("metadata"), "metadata")
    yield from check_structure(raw, kind)
    yield from check_sizes(raw, RUNTIME)
    yield from _contents(raw)
    yield from _policies(raw)
    for i, name, job in named(at(raw, JOBS)):
        yield from _job(raw, f"{JOBS}[{i}]", name, job)
    yield from standing(raw)


def _name(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    name = at(raw, "metadata.name")
    if name in (None, ""):
        yield error("runtime-name", "metadata.name", "is missing", "Give it: spec.runtimeRef names it")
    elif isinstance(name, str) and not (_SUBDOMAIN.fullmatch(name) and len(name) <= 253):
        yield error("runtime-name", "metadata.name", f"{show(name)} is no name of a runtime", "Use a-z, 0-9, . and -")
    if not mapping(at(raw, "metadata.labels")).get(keys.LABEL_FRAMEWORK) and not without_images(raw):
        reason = "is missing: the Kubeflow SDK lists only runtimes that have it"
        yield warning("runtime-framework", f"metadata.labels[{keys.LABEL_FRAMEWORK}]", reason, "Add it, such as torch")


def _contents(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    for path in ("spec", "spec.template"):
        held = at(raw, path)
        if held is None or held == {}:
            yield error("runtime-empty", path, "is empty", "Describe the JobSet that trains")
            return
    if at(raw, JOBS) in (None, []):
        yield error("runtime-empty", JOBS, "is empty: there is nothing to run", "Add the job that trains")


def _policies(raw: Mapping[Any, Any]) -> Iterator[Finding]:
    policy = mapping(at(raw, "spec.mlPolicy"))
    given = [name for name in _POLICIES if policy.get(name) is not None]
    if len(given) > 1:
        reason = f"has {' and '.join(given)}, which exclude each other"
        yield error("runtime-policies", "spec.mlPolicy", reason, "Keep one of them")
    for name in _POLICIES:
        if name in policy and policy[name] is None:
            reason = "is null, which is the same as leaving it out"
            yield warning("runtime-policies", f"spec.mlPolicy.{name}", reason, f"Write {name}: {{}}")
    for name in ("mpi", "flux"):
        path = f"spec.mlPolicy.{name}.numProcPerNode"
        processes = number(at(raw, path))
        if processes is not None and processes < 1:
            yield error("runtime-num-proc", path, f"{processes} is not at least 1", "Give 1 or more")
    nodes = number(policy.get("numNodes"))
    if nodes is not None and nodes < 1:
        yield error("num-nodes", "spec.mlPolicy.numNodes", f"{nodes} is not at least 1", "Give 1 or more")
    for path, name in find(raw, "spec.mlPolicy.torch.envInjection.targets[].containerNames[]"):
        if name == keys.STEP_NODE:
            reason = "is node, which gets the PET_* environment anyway"
            yield error("runtime-env-injection", path, reason, "Remove it")


def _job(raw: Mapping[Any, Any], path: str, name: str, job: Mapping[Any, Any]) -> Iterator[Finding]:
    pod, pod_path = mapping(at(job, POD)), f"{path}.{POD}"
    yield from _dns_label(f"{path}.name", name, "job")
    yield from label_syntax(at(job, "template.metadata"), f"{path}.template.metadata")
    yield from _step(raw, path, job)
    yield from volumes(pod.get("volumes"), f"{pod_path}.volumes")
    yield from tolerations(pod.get("tolerations"), f"{pod_path}.tolerations")
    claims = find(raw, "spec.template.spec.volumeClaimPolicies[].templates[].metadata.name")
    known = {own for _, own, _ in named(pod.get("volumes"))} | {text(own) for _, own in claims} | {*_MPI_VOLUMES}
    for kind in ("initContainers", "containers"):
        for i, own, container in named(pod.get(kind)):
            yield from _dns_label(f"{pod_path}.{kind}[{i}].name", own, "container")
            yield from mounts(container.get("volumeMounts"), f"{pod_path}.{kind}[{i}].volumeMounts", known)
            if not without_images(raw):
                yield from _image(f"{pod_path}.{kind}[{i}].image", own, container, ancestor_of(job))


def _step(raw: Mapping[Any, Any], path: str, job: Mapping[Any, Any]) -> Iterator[Finding]:
    """A job that a TrainJob's field controls."""
    wanted = _CONTAINER_OF.get(ancestor_of(job))
    if wanted is None:
        return
    # Trainer's webhook can be told to look away; what it would have found is true all the same.
    say = warning if mapping(at(raw, "metadata.labels")).get(_UNCHECKED) == "disabled" else error
    replicas = job.get("replicas")
    if replicas is not None and number(replicas) != 1:
        reason = f"{show(replicas)} is not 1, the only number that Trainer makes of this job"
        yield say("runtime-replicas", f"{path}.replicas", reason, "Leave it out; nodes are counted by numNodes")
    containers = [(own, container) for _, own, container in named(at(job, f"{POD}.containers"))]
    if wanted not in [own for own, _ in containers]:
        reason = f"has no container {wanted}, which the label {keys.LABEL_ANCESTOR} asks for"
        yield say("runtime-container", f"{path}.{POD}.containers", reason, f"Name one of them {wanted}")
    for own, container in containers:
        mounted = [name for _, name, _ in named(container.get("volumeMounts"))]
        if own == wanted and wanted in keys.INITIALIZERS and "initializer" not in mounted:
            reason = f"{wanted} mounts no volume named initializer: a TrainJob with spec.initializer is refused"
            yield warning("initializer-mount", f"{path}.{POD}.containers", reason, "Mount one at /workspace")


def _dns_label(path: str, name: str, what: str) -> Iterator[Finding]:
    if not (_DNS_LABEL.fullmatch(name) and len(name) <= 63):
        reason = f"{show(name)} is no name of a {what}"
        yield error("runtime-job-name", path, reason, "Use a-z, 0-9 and -, at most 63 characters")


def _image(path: str, name: str, container: Mapping[Any, Any], step: str) -> Iterator[Finding]:
    if text(container.get("image")):
        return
    by_job = step == "trainer" and name == keys.STEP_NODE
    reason = "is missing" + (": every TrainJob has to give one" if by_job else ", and no TrainJob can give it")
    yield warning("image-missing", path, reason, "Give it")
