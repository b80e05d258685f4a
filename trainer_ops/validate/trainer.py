"""Rules about ``spec`` itself and ``spec.trainer``: counts, image, and whether the runtime will look at them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainer_ops.model import keys
from trainer_ops.validate.findings import Finding, error, warning
from trainer_ops.validate.peek import at, close_to, mapping, number, show, text
from trainer_ops.validate.subject import Subject

__all__ = ["counts", "image", "reaches_nodes", "spec_fields"]

_MANAGERS = ("trainer.kubeflow.org/trainjob-controller", keys.MULTIKUEUE)
_KINDS = (keys.CLUSTER_RUNTIME, keys.NAMESPACED_RUNTIME)
_INJECTS = {"torch": "PET_*", "jax": "JAX_*", "xgboost": "DMLC_*"}
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[\w][\w.-]{{0,127}})?(?:@[A-Za-z][\w+.-]*:[0-9a-fA-F]{{32,}})?", re.ASCII
)


def spec_fields(subject: Subject) -> Iterator[Finding]:
    """runtimeRef, managedBy, activeDeadlineSeconds."""
    kind, group = at(subject.spec, "runtimeRef.kind"), at(subject.spec, "runtimeRef.apiGroup")
    if isinstance(kind, str) and kind not in _KINDS:
        close = close_to(kind, _KINDS)
        remedy = f"Did you mean {close}?" if close else f"Give {' or '.join(_KINDS)}"
        yield error("runtime-ref-kind", "spec.runtimeRef.kind", f"{show(kind)} is no kind of runtime", remedy)
    if isinstance(group, str) and group != keys.GROUP:
        reason = f"{show(group)} is no API group of runtimes"
        yield error("runtime-ref-kind", "spec.runtimeRef.apiGroup", reason, f"Leave it out, or give {keys.GROUP}")
    manager = subject.spec.get("managedBy")
    if isinstance(manager, str) and manager not in _MANAGERS:
        reason = f"{show(manager)} is no manager of TrainJobs"
        yield error("managed-by", "spec.managedBy", reason, f"Leave it out, or give {keys.MULTIKUEUE}")
    labels = mapping(at(subject.manifest, "metadata.labels"))
    if manager == keys.MULTIKUEUE and not labels.get(keys.LABEL_QUEUE):
        reason = "hands the job to MultiKueue, which takes only jobs of a queue: nothing would ever start it"
        remedy = f"Give metadata.labels the queue: {keys.LABEL_QUEUE}"
        yield warning("managed-by-no-queue", "spec.managedBy", reason, remedy)
    deadline = number(subject.spec.get("activeDeadlineSeconds"))
    if deadline is not None and deadline < 1:
        reason = f"{deadline} is not at least 1"
        yield error("active-deadline", "spec.activeDeadlineSeconds", reason, "Give 1 or more, or leave it out for none")


def counts(subject: Subject) -> Iterator[Finding]:
    """The numbers of nodes and of processes on each."""
    if subject.nodes is not None and subject.nodes < 1:
        reason = f"{subject.nodes} is not at least 1"
        yield error("num-nodes", "spec.trainer.numNodes", reason, "Give --nodes 1 or more")
    path, processes = "spec.trainer.numProcPerNode", number(mapping(subject.trainer).get("numProcPerNode"))
    if processes is None:
        return
    if processes < 1:
        remedy = "Give 1 or more, or leave it out: the runtime then counts GPUs or CPUs"
        yield error("num-proc-per-node", path, f"{processes} is not at least 1", remedy)
    elif subject.policy in ("jax", "xgboost", "plain"):
        reason = f"is ignored by runtimes with the policy {subject.policy}"
        yield warning("num-proc-ignored", path, reason, "Leave it out")


def image(subject: Subject) -> Iterator[Finding]:
    """The form of the image's name, and that there is one."""
    given = mapping(subject.trainer).get("image")
    if isinstance(given, str) and given and not _IMAGE.fullmatch(given):
        reason = f"{show(given)} is no name of an image: pods would wait in InvalidImageName for ever"
        remedy = "Write registry/path:tag, the path in lower case, without https://"
        yield error("image-format", "spec.trainer.image", reason, remedy)
    lacking = subject.node_container and not text(subject.node_container.get("image"))
    if not given and lacking and not subject.of_engine:
        reason = "is left out, and the runtime has no image either: a cluster would refuse the pods"
        yield warning("image-missing", "spec.trainer.image", reason, "Give --image")


def reaches_nodes(subject: Subject) -> Iterator[Finding]:
    """Whether ``spec.trainer`` reaches a container, and whether a policy needs it to be there."""
    runtime = subject.runtime
    if runtime is None:
        return
    job = runtime.trainer_job
    if subject.trainer and (job is None or job.container(keys.STEP_NODE) is None):
        lacks = f"no job with the label {keys.LABEL_ANCESTOR}: trainer" if job is None else "no container named node"
        reason = f"would be dropped silently: the runtime {show(runtime.name)} has {lacks}"
        yield error("trainer-ignored", "spec.trainer", reason, "Name another runtime, or mend this one")
    injected = _INJECTS.get(runtime.policy)
    if subject.trainer is None and injected:
        reason = f"is missing, so that nodes get no {injected} environment and train each on its own"
        yield warning("trainer-missing", "spec.trainer", reason, "Give at least trainer: {numNodes: 1}")
