"""Snapshots in a training: where its nodes find the files, and what the TrainJob must say for that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.runtime import ReplicatedJob, TrainingRuntime
from trainer_ops.model.snapshot import Snapshot

__all__ = ["Place", "environment", "fetched", "mounts_of", "place_of", "refuse_out_of_reach", "training_container"]

Snapshots = Mapping[str, Snapshot]

# step: the variable with the folder, the one with the URI, the folder on a cluster, the initializer's job.
_STEPS: Final = {
    "dataset": (keys.ENV_DATASET_DIR, keys.ENV_DATASET_URI, keys.DATASET_PATH, keys.STEP_DATASET),
    "model": (keys.ENV_MODEL_DIR, keys.ENV_MODEL_URI, keys.MODEL_PATH, keys.STEP_MODEL),
}
_OBJECTS: Final = ("s3", "gs", "az")
# What Trainer's own initializers can read of these (trainer v2.3.0, both kinds).
_FETCHABLE: Final = ("s3",)
_CLAIM: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a snapshot's files lie.

    Attributes:
        scheme: ``file``, ``pvc``, or one of object storage.
        path: of ``file`` the absolute folder; of ``pvc`` the folder on the claim, relative, "" for all of it.
        claim: of ``pvc`` the PersistentVolumeClaim's name.
    """

    scheme: str
    path: str = ""
    claim: str = ""


def place_of(location: str, field: str) -> Place:
    """Where a location is.

    Args:
        location: ``file:///store/<key>/data``, ``pvc://claim/store/<key>/data``, ``s3://…``, ``gs://…`` or ``az://…``.
        field: for the error.

    Raises:
        InvalidRequest: it is none of these.
    """
    parts = urlsplit(location)
    path = unquote(parts.path)
    if ".." in path.split("/"):
        raise InvalidRequest(field, f'"{location}" leads out of its store', "Give what the initializer step returned")
    if parts.scheme == "file" and not parts.netloc and path.startswith("/"):
        return Place("file", path)
    if parts.scheme == "pvc" and _CLAIM.fullmatch(parts.netloc):
        return Place("pvc", path.strip("/"), parts.netloc)
    if parts.scheme in _OBJECTS and parts.netloc:
        return Place(parts.scheme)
    raise InvalidRequest(
        field,
        f'"{location}" is no place of a snapshot',
        f"Give file:///folder, pvc://claim/folder or {' '.join(f'{scheme}://bucket/folder' for scheme in _OBJECTS)}",
    )


def refuse_out_of_reach(snapshots: Snapshots, target: str) -> None:
    """Refuse a snapshot that lies where the nodes of this target cannot read it.

    Args:
        snapshots: by step.
        target: its URL; one that is neither this machine nor a cluster reaches everything.

    Raises:
        InvalidRequest: field ``dataset`` or ``model``.
    """
    scheme = target.partition("://")[0]
    for step, snapshot in snapshots.items():
        place = place_of(snapshot.location, step)
        if place.scheme == "pvc" and scheme == "local":
            why = f"lies on a claim of a cluster, and the training runs on this machine ({target})"
        elif place.scheme == "file" and scheme == "kubernetes":
            why = f"lies on the machine that it was made on, and the training runs on {target}"
        else:
            continue
        remedy = "Let the initializer step and the training run on the same target, or keep snapshots in object storage"
        raise InvalidRequest(step, f'the snapshot "{snapshot.location}" {why}', remedy)


def fetched(snapshots: Snapshots, runtime: TrainingRuntime | None, target: str) -> dict[str, str]:
    """Those in object storage that Trainer's in-job initializer fetches: step to URI.

    Where the runtime has no job for it, the scheme is not Trainer's, or the training runs on this machine, the code
    finds the URI in its environment and reads it itself.
    """
    if runtime is None or target.startswith("local:"):
        return {}
    return {
        step: snapshot.location
        for step, snapshot in snapshots.items()
        if place_of(snapshot.location, step).scheme in _FETCHABLE and _fetches(runtime.job(_STEPS[step][3]))
    }


def _fetches(job: ReplicatedJob | None) -> bool:
    """Whether Trainer would run this job as an initializer: it goes by label, container and volume."""
    container = job.container(job.ancestor) if job is not None and job.ancestor in keys.INITIALIZERS else None
    return container is not None and "initializer" in container.mounts


def environment(snapshots: Snapshots) -> dict[str, str]:
    """What tells the training code where they are, on every target."""
    env: dict[str, str] = {}
    for step, snapshot in snapshots.items():
        folder, uri, mounted, _ = _STEPS[step]
        place = place_of(snapshot.location, step)
        if place.scheme == "file":
            # The kubelet and the engine expand $(NAME) in a value; in a path it is meant as it stands.
            env[folder] = place.path.replace("$(", "$$(")
        elif place.scheme == "pvc":
            env[folder] = mounted
        else:
            env[uri] = snapshot.location
    return env


def mounts_of(
    snapshots: Snapshots, runtime: TrainingRuntime | None, job: str, patches: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What the pods of a job that trains need: pod specs to patch in, one after the other; [] for nothing.

    A claim that is in a pod as two volumes may never be mounted (kubernetes #82526, #132921), so a volume that is
    there already is used, and the second snapshot of a claim shares the first one's. And a patch keys its mounts by
    the volume's name, so that second mount is in a pod spec of its own.

    Args:
        snapshots: by step.
        runtime: where the job is; None when it may not be read.
        job: the replicatedJob's name.
        patches: the user's own, which may bring volumes too.
    """
    specs: list[dict[str, Any]] = []
    there = _claims(runtime, job, patches)
    for step, snapshot in snapshots.items():
        place = place_of(snapshot.location, step)
        if place.scheme != "pvc":
            continue
        mount: dict[str, Any] = {"name": there.get(place.claim) or f"trainer-ops-{step}"}
        mount.update(mountPath=_STEPS[step][2], readOnly=True)
        if place.path:
            mount["subPath"] = place.path
        used = [m["name"] for spec in specs for m in spec["containers"][0]["volumeMounts"]]
        turn = used.count(mount["name"])
        if turn == len(specs):
            specs.append({"containers": [{"name": training_container(runtime, job), "volumeMounts": []}]})
        specs[turn]["containers"][0]["volumeMounts"].append(mount)
        if place.claim not in there:
            there[place.claim] = mount["name"]
            claim = {"claimName": place.claim, "readOnly": True}
            specs[turn].setdefault("volumes", []).append({"name": mount["name"], "persistentVolumeClaim": claim})
    return specs


def training_container(runtime: TrainingRuntime | None, job: str) -> str:
    """The container that trains: Trainer's ``node``, else the one named like its job, else the first."""
    found = runtime.job(job) if runtime else None
    names = [container.name for container in found.containers] if found else []
    return next((name for name in (keys.STEP_NODE, job) if name in names), names[0] if names else keys.STEP_NODE)


def _claims(runtime: TrainingRuntime | None, job: str, patches: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The claims that the job's pods have as volumes already: claim to the volume's name."""
    specs = [(runtime.raw.get("spec") or {}) if runtime else {}]
    specs += [patch.get("trainingRuntimeSpec") or {} for patch in patches]
    found: dict[str, str] = {}
    for spec in specs:
        for row in (((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs")) or ():
            pod = ((row.get("template") or {}).get("spec") or {}).get("template") or {}
            for volume in (pod.get("spec") or {}).get("volumes") or () if row.get("name") == job else ():
                claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
                if claim:
                    found.setdefault(claim, volume["name"])
    return found
