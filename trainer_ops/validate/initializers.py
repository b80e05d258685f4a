"""Rules about ``spec.initializer``: where from, and whether the runtime has a job for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from trainer_ops.model import keys
from trainer_ops.model.runtime import ReplicatedJob
from trainer_ops.validate.findings import Finding, error, warning
from trainer_ops.validate.peek import at, named, show
from trainer_ops.validate.subject import Subject

__all__ = ["initializers"]

_STEPS = {"dataset": keys.STEP_DATASET, "model": keys.STEP_MODEL}
_SCHEMES = {"dataset": ("hf", "s3", "cache"), "model": ("hf", "s3")}
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.+", re.ASCII)
_REPOSITORY = re.compile(r"(?:[\w][\w.-]*/)?[\w][\w.-]{0,95}", re.ASCII)


def initializers(subject: Subject) -> Iterator[Finding]:
    """Both initializers, each against its URI and the runtime."""
    for what, step in _STEPS.items():
        given = at(subject.spec, f"initializer.{what}")
        if not isinstance(given, Mapping):
            continue
        job = subject.runtime.job(step) if subject.runtime else None
        yield from _source(what, given, job, subject)
        if subject.runtime is not None:
            yield from _reaches_job(what, step, job, subject.runtime.name)


def _reaches_job(what: str, step: str, job: ReplicatedJob | None, runtime: str) -> Iterator[Finding]:
    path = f"spec.initializer.{what}"
    container = job.container(step) if job else None
    if job is None or container is None:
        lacks = f"no job {step}" if job is None else f"no container {step} in its job {step}"
        remedy = "Name a runtime that has one, or fetch the data in a step of its own"
        yield error("initializer-job", path, f"the runtime {show(runtime)} has {lacks}", remedy)
        return
    if "initializer" not in container.mounts:
        reason = f"the container {step} of the runtime {show(runtime)} mounts no volume named initializer"
        yield error("initializer-mount", path, reason, "Mount one there: Trainer refuses the job since 2.3.0")
    if job.ancestor != step:
        reason = (
            f"would be dropped silently: the job {step} of the runtime lacks the label {keys.LABEL_ANCESTOR}: {step}"
        )
        yield error("initializer-label", path, reason, "Add the label to the runtime's job")


def _source(what: str, given: Mapping[Any, Any], job: ReplicatedJob | None, subject: Subject) -> Iterator[Finding]:
    path, uri = f"spec.initializer.{what}.storageUri", given.get("storageUri")
    own = next((item for _, name, item in named(given.get("env")) if name == "STORAGE_URI"), None)
    if own is not None:
        return  # It replaces storageUri, and may come from a Secret.
    if uri is None:
        container = job.container(_STEPS[what]) if job else None
        if container is not None and not any(n == "STORAGE_URI" for _, n, _ in named(container.env)):
            reason = "is missing, and the runtime's container has no STORAGE_URI: the pod would fail"
            yield error("storage-uri-missing", path, reason, "Give it")
    elif uri == "":
        yield error("storage-uri-missing", path, "is empty: the pod would fail", "Give it, or leave it out")
    elif isinstance(uri, str) and not _URI.fullmatch(uri):
        yield error(
            "storage-uri", path, f"{show(uri)} is no URI", "Write scheme://…, such as hf://org/name or s3://bucket/path"
        )
    elif isinstance(uri, str) and not subject.of_engine and _is_trainers(what, job):
        yield from _location(what, path, uri)


def _is_trainers(what: str, job: ReplicatedJob | None) -> bool:
    """Whether Trainer's own program will read the URI; an image of somebody else may know other schemes."""
    container = job.container(_STEPS[what]) if job else None
    if container is None or not container.image:
        return True
    name = container.image.rpartition("/")[2].partition("@")[0].partition(":")[0]
    return name == _STEPS[what] and not container.command


def _location(what: str, path: str, uri: str) -> Iterator[Finding]:
    scheme, _, rest = uri.partition("://")
    scheme = scheme.lower()
    if scheme == "file":
        reason = f"{show(uri)} can be read on this machine only: on a cluster the pod would fail"
        yield warning("storage-uri-scheme", path, reason, f"For a cluster use {_or(_SCHEMES[what])}")
    elif scheme not in _SCHEMES[what]:
        reason = f"{show(scheme)} is no scheme that Trainer's {what} initializer knows: it fails later in the pod"
        yield error("storage-uri-scheme", path, reason, f"Use {_or(_SCHEMES[what])}, or fetch it in a step of its own")
    elif scheme == "hf":
        yield from _hugging_face(what, path, rest)
    elif scheme == "s3" and not _bucket(uri):
        yield error("s3-bucket", path, f"{show(uri)} names no bucket", "Write s3://bucket/path")


def _bucket(uri: str) -> str:
    try:
        return urlsplit(uri).netloc
    except ValueError:  # "Invalid IPv6 URL", which the initializer would meet too.
        return ""


def _hugging_face(what: str, path: str, rest: str) -> Iterator[Finding]:
    """A dataset's repository is the first two parts, a model's is all that is there."""
    parts = rest.split("/")
    repository = "/".join(parts[:2]) if what == "dataset" else rest
    if "@" in repository:
        reason = f"{show(repository)} pins a revision, which Trainer's initializers cannot: the pod would fail"
        yield error("hf-repository", path, reason, "Leave the revision out, or fetch it in a step of its own")
    elif not _REPOSITORY.fullmatch(repository) or (what == "dataset" and len(parts) < 2):
        reason = f"{show(repository)} is no repository of Hugging Face: the pod would fail"
        yield error("hf-repository", path, reason, "Write hf://org/name")
    elif any(parts[2:]):
        ignored = "/".join(parts[2:])
        reason = f"the repository {show(repository)} is fetched as a whole: {show(ignored)} is ignored"
        yield warning("hf-path", path, reason, "Write hf://org/name; leave files out with env IGNORE_PATTERNS")


def _or(schemes: tuple[str, ...]) -> str:
    return " or ".join(f"{scheme}://" for scheme in schemes)
