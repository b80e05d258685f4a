"""Rules about what the object says it is: apiVersion, kind, metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.names import name_limit
from trainer_ops.validate.findings import Finding, error, warning
from trainer_ops.validate.peek import at, close_to, mapping, show, text
from trainer_ops.validate.subject import Subject

__all__ = ["api_and_kind", "job_name", "label_syntax", "leftovers", "name_syntax"]

_V1_KINDS = ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob")
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_NAME_START = re.compile(r"[a-z][-a-z0-9]*", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LONGEST = 63
# What the API server appends to generateName.
_SUFFIX = 5
_FORM = "Use a-z, 0-9 and -, a letter first, no - at the end"


def api_and_kind(manifest: Mapping[Any, Any], kind: str) -> Iterator[Finding]:
    """The fields apiVersion and kind; a v1 job is told how to become a TrainJob."""
    given = manifest.get("kind")
    if given in _V1_KINDS:
        reason = f"{given} is a job of the v1 operators, which Trainer v2 does not run"
        yield error(
            "v1-kind", "kind", reason, "Write it as a TrainJob: the runtime takes the place of the replica specs"
        )
        return
    if manifest.get("apiVersion") != keys.API_VERSION:
        reason = (
            "is missing" if manifest.get("apiVersion") is None else f"{show(manifest['apiVersion'])} is another API"
        )
        yield error("api-version", "apiVersion", reason, f"Write apiVersion: {keys.API_VERSION}")
    if given != kind:
        reason = "is missing" if given is None else f"{show(given)} is not {kind}"
        close = close_to(text(given), (kind,))
        yield error("kind", "kind", reason, f"Did you mean {kind}?" if close else f"Write kind: {kind}")


def job_name(subject: Subject) -> Iterator[Finding]:
    """The name's form, and its length against the pods that the runtime will make of it."""
    name, prefix = at(subject.manifest, "metadata.name"), at(subject.manifest, "metadata.generateName")
    if name not in (None, ""):
        if isinstance(name, str):
            yield from name_syntax(name)
            yield from _name_length(subject, name)
    elif prefix not in (None, ""):
        yield from _generate_name(subject, text(prefix))
    else:
        reason = "is missing: kubectl would refuse the manifest, trainer-ops names the job after the run"
        yield warning("name-missing", "metadata.name", reason, "Give it a name to apply it by hand")


def name_syntax(name: str) -> Iterator[Finding]:
    """What no TrainJob can be called."""
    if not _NAME.fullmatch(name):
        yield error("name-format", "metadata.name", f"{show(name)} is no name of a TrainJob", _FORM)


def _generate_name(subject: Subject, prefix: str) -> Iterator[Finding]:
    path = "metadata.generateName"
    if not _NAME_START.fullmatch(prefix):
        yield error("name-format", path, f"{show(prefix)} does not begin a name of a TrainJob", _FORM)
    yield from _name_length(subject, prefix, path, _SUFFIX)
    reason = "makes another name at every create, so that a retry would be a second training"
    yield warning("generate-name", path, reason, "Give metadata.name; trainer-ops makes a stable name of its own")


def _name_length(subject: Subject, name: str, path: str = "metadata.name", suffix: int = 0) -> Iterator[Finding]:
    # Without the runtime the usual job "node" is assumed, so that it is no more than a warning.
    limit, known = _limit(subject) - suffix, subject.runtime is not None
    size = f"{show(name, 80)} has {len(name)} characters"
    if len(name) > _LONGEST - suffix:
        yield error("name-too-long", path, f"{size}, more than {_LONGEST - suffix}", "Shorten it")
    elif len(name) > limit and known:
        reason = f"{size}; pods of it would be refused by JobSet (limit here: {limit})"
        yield error("name-too-long", path, reason, "Shorten it, or leave the name out")
    elif len(name) > limit:
        reason = f"{size}; with most runtimes pods of it would be refused by JobSet (limit there: {limit})"
        yield warning("name-too-long", path, reason, "Shorten it, or leave the name out")


def _limit(subject: Subject) -> int:
    """The longest name whose pods fit; each job counts with its own highest index.

    The engine's runtimes all have initializers where those of the same names on a cluster have none: a name that is
    right there must not be refused here.
    """
    if subject.runtime is None:
        return name_limit((keys.STEP_NODE,), max(subject.nodes or 1, 1) - 1)
    limits = [
        name_limit((job.name,), max(subject.pods_of(job), 1) - 1) - (len(str(max(job.replicas, 1) - 1)) - 1)
        for job in subject.runtime.jobs
        if not (subject.of_engine and job.ancestor in keys.INITIALIZERS)
    ]
    return min(limits, default=_LONGEST)


def leftovers(manifest: Mapping[Any, Any]) -> Iterator[Finding]:
    """What a manifest that was read from a cluster carries along."""
    if at(manifest, "metadata.resourceVersion") not in (None, ""):
        reason = "must not be set on an object that is to be created"
        yield error("resource-version", "metadata.resourceVersion", reason, "Remove it")
    if mapping(manifest.get("status")):
        yield warning("status-given", "status", "is dropped when the object is created", "Remove it")
    namespace = at(manifest, "metadata.namespace")
    if (
        isinstance(namespace, str)
        and namespace
        and not (_DNS_LABEL.fullmatch(namespace) and len(namespace) <= _LONGEST)
    ):
        reason = f"{show(namespace)} is no name of a namespace"
        yield error("namespace-format", "metadata.namespace", reason, "Use a-z, 0-9 and -, at most 63 characters")


def label_syntax(metadata: Any, path: str) -> Iterator[Finding]:
    """Keys and values of labels, keys of annotations."""
    for key, value in mapping(mapping(metadata).get("labels")).items():
        if not _is_key(key):
            yield error("label-syntax", f"{path}.labels[{key}]", f"{show(key)} is no label key", _KEY_FORM)
        if isinstance(value, str) and value and not (_LABEL.fullmatch(value) and len(value) <= _LONGEST):
            reason = f"{show(value)} is no label value"
            remedy = "Use at most 63 of A-Z, a-z, 0-9, -, _ and ., or make it an annotation"
            yield error("label-syntax", f"{path}.labels[{key}]", reason, remedy)
    for key in mapping(mapping(metadata).get("annotations")):
        if not _is_key(key):
            yield error("annotation-key", f"{path}.annotations[{key}]", f"{show(key)} is no annotation key", _KEY_FORM)


_KEY_FORM = "Write name or domain/name, the name of at most 63 of A-Z, a-z, 0-9, ., _ and -"


def _is_key(key: Any) -> bool:
    if not isinstance(key, str):
        return True  # The structural check has said so.
    domain, slash, name = key.rpartition("/")
    if slash and not (_SUBDOMAIN.fullmatch(domain.lower()) and len(domain) <= 253):
        return False
    return bool(_LABEL.fullmatch(name)) and len(name) <= _LONGEST
