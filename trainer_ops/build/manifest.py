"""A request and who asks for it become one TrainJob."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from trainer_ops.build.addresses import follow_name
from trainer_ops.build.mounts import environment, refuse_out_of_reach
from trainer_ops.build.trainer import spec_of
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.identity import RunKey
from trainer_ops.model.limits import Limits
from trainer_ops.model.names import job_name, manifest_job_name
from trainer_ops.model.request import TrainRequest
from trainer_ops.model.runtime import TrainingRuntime

__all__ = ["BuiltJob", "build"]

# What a person recognises it by and how long to wait for it do not change what is trained.
_NOT_HASHED: Final = frozenset({"name", *(field.name for field in fields(Limits))})

# (initializer, the variable that tells its folder, the folder on a cluster)
_FOLDERS: Final = (
    ("dataset", keys.ENV_DATASET_DIR, keys.DATASET_PATH),
    ("model", keys.ENV_MODEL_DIR, keys.MODEL_PATH),
)


@dataclass(frozen=True, slots=True)
class BuiltJob:
    """What to create.

    Attributes:
        manifest: the TrainJob.
        spec_hash: the same for every attempt of equal requests, whatever version of this package builds them.
        name: the TrainJob's name.
    """

    manifest: dict[str, Any]
    spec_hash: str
    name: str


def build(
    request: TrainRequest,
    key: RunKey,
    attempt: int,
    *,
    runtime: TrainingRuntime | None,
    version: str,
    source_link: str = "",
    target: str = "",
    owner: Mapping[str, Any] | None = None,
) -> BuiltJob:
    """The TrainJob of this attempt. Pure: equal arguments give equal bytes.

    Args:
        request: what to train, with its code already read (``lifecycle.code.resolve_code``).
        key: who asks for it.
        attempt: 1 for the first.
        runtime: the runtime it names; None where it may not be read.
        version: of this package, for an annotation.
        source_link: where a person finds the pipeline run, for an annotation.
        target: the URL of where it shall run: a snapshot must be within its reach.
        owner: an ownerReference: the TrainJob goes when that object does.

    Raises:
        InvalidRequest: names the field that cannot be expressed, that would overwrite ours, or that is out of reach.
    """
    if request.script is not None:
        raise InvalidRequest("script", "is a path that was not read", "Call lifecycle.code.resolve_code first")
    refuse_out_of_reach(request.snapshots, target)
    if request.manifest is None:
        manifest: dict[str, Any] = {
            "apiVersion": keys.API_VERSION,
            "kind": keys.KIND,
            "metadata": {},
            "spec": spec_of(request, runtime, target),
        }
        name = job_name(key, attempt, request.title)
        labels, notes = _given_labels(request), dict(request.annotations)
        where = ""
    else:
        manifest = {"apiVersion": keys.API_VERSION, "kind": keys.KIND, **copy.deepcopy(request.manifest)}
        meta = manifest.get("metadata") or {}
        given = meta.get("name")
        name = manifest_job_name(given, attempt) if given else job_name(key, attempt, request.title)
        if "spec" in manifest:
            manifest["spec"] = follow_name(manifest["spec"], str(given or meta.get("generateName") or ""), name)
        labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
        where = "manifest.metadata."
    own_labels, own_notes = _own_metadata(request, key, attempt, version, source_link)
    manifest["metadata"] = {
        **(manifest.get("metadata") or {}),
        "name": name,
        "labels": _merged(labels, own_labels, f"{where}labels"),
        "annotations": _merged(notes, own_notes, f"{where}annotations"),
    }
    if owner is not None:
        given = manifest["metadata"].get("ownerReferences") or []
        manifest["metadata"]["ownerReferences"] = [*given, dict(owner)]
    _add_environment(manifest, request, key, attempt)
    return BuiltJob(manifest, own_notes[keys.ANNOTATION_SPEC_HASH], name)


def _own_metadata(
    request: TrainRequest, key: RunKey, attempt: int, version: str, source_link: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Our labels and annotations: what is long, or only for people, is no label."""
    labels = {
        keys.LABEL_MANAGED_BY: keys.MANAGED_BY,
        keys.LABEL_RUN_KEY: key.digest,
        keys.LABEL_SUBJECT: key.subject,
        keys.LABEL_ATTEMPT: str(attempt),
        keys.LABEL_GENERATION: str(key.generation),
    }
    notes = {
        keys.ANNOTATION_IDENTITY: key.readable,
        keys.ANNOTATION_SPEC_HASH: _spec_hash(request),
        keys.ANNOTATION_VERSION: version,
        keys.ANNOTATION_LIMITS: json.dumps(request.limits.to_json(), separators=(",", ":")),
    }
    if source_link:
        notes[keys.ANNOTATION_SOURCE_LINK] = source_link
    return labels, notes


def _given_labels(request: TrainRequest) -> dict[str, str]:
    """The user's labels and those that Kueue reads."""
    labels = dict(request.labels)
    for field, label in (("queue", keys.LABEL_QUEUE), ("priority_class", keys.LABEL_PRIORITY_CLASS)):
        value = getattr(request, field)
        if value is None:
            continue
        if labels.get(label, value) != value:
            raise InvalidRequest(
                f"labels.{label}", f'"{labels[label]}" contradicts {field} "{value}"', "Give one of them"
            )
        labels[label] = value
    return labels


def _merged(given: Mapping[str, Any], own: Mapping[str, str], field: str) -> dict[str, Any]:
    """Given entries, then ours; one of ours that was given with another value is refused, not overwritten."""
    for name, value in given.items():
        if name in own and value != own[name]:
            raise InvalidRequest(f"{field}.{name}", f"{value!r} is set, and this name is ours", "Leave it out")
    return {**given, **own}


def _spec_hash(request: TrainRequest) -> str:
    """Of the request, not of the manifest: a newer launcher or a changed runtime does not make another run of it."""
    given = request.model_dump(mode="json", exclude=set(_NOT_HASHED), exclude_defaults=True)
    # The same files are the same data, wherever they lie and whoever fetched them.
    given.update({step: {"key": data.key, "digest": data.digest} for step, data in request.snapshots.items()})
    text = json.dumps(given, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _add_environment(manifest: Mapping[str, Any], request: TrainRequest, key: RunKey, attempt: int) -> None:
    """What the training code finds on every target; a name that the user has set stays the user's."""
    spec = manifest.get("spec") or {}
    trainer = spec.get("trainer")
    if not isinstance(trainer, dict):
        return
    own = {keys.ENV_RUN_KEY: key.digest, keys.ENV_ATTEMPT: str(attempt), **environment(request.snapshots)}
    asked = spec.get("initializer")
    if isinstance(asked, Mapping):
        # Trainer's paths; the engine puts its own in their place.
        own.update({name: path for step, name, path in _FOLDERS if asked.get(step)})
    if request.checkpoint_dir:
        own[keys.ENV_CHECKPOINT_DIR] = f"{request.checkpoint_dir.rstrip('/')}/{key.digest}"
    given = list(trainer.get("env") or ())
    taken = {entry.get("name") for entry in given if isinstance(entry, Mapping)}
    trainer["env"] = given + [{"name": name, "value": value} for name, value in own.items() if name not in taken]
