"""A snapshot on a cluster: the ``batch/v1`` Job that makes it, and the claim that it lies on.

**Names.** A Job is called ``snapshot-<what>-<hash>-<attempt>``. The hash is over everything that was asked for: source
as written ("main", not the commit), patterns, store, the Secret's name, image, pod. So two steps that ask for the same
at once are one Job. What a branch means moves, so a Job that has ended answers nobody but the step that started it
(``ANNOTATION_ASKED_BY``): a later call is the next attempt, asks the source anew and finds the files there (a hit, the
seconds of a pod) or fetches what is new. The store's own lock and key keep two Jobs for one content apart.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from trainer_ops.build.env import env_entry
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.names import slug

__all__ = [
    "ANNOTATION_ASKED_BY",
    "CONTAINER",
    "DEFAULT_CLAIM",
    "LABEL_SNAPSHOT",
    "SnapshotAsk",
    "claim",
    "snapshot_job",
]

# What the Jobs of one ask have in common: its digest.
LABEL_SNAPSHOT: Final = "trainer-ops/snapshot"
ANNOTATION_ASKED_BY: Final = "trainer-ops/asked-by"
ANNOTATION_SOURCE: Final = "trainer-ops/source"
CONTAINER: Final = "snapshot"
DEFAULT_CLAIM: Final = "trainer-ops-snapshots"

# Where the claims are in the Job's pod: the store's, and below the other folder that of a pvc:// source.
STORE_PATH: Final = "/store"
CLAIMS_PATH: Final = "/claims"

# Errors of the user's end the Job; what the program ends with when another try is worth it (75, EX_TEMPFAIL of
# sysexits.h), or a kill, does not.
_FINAL_EXITS: Final = (1, 2)
_BACKOFF_LIMIT: Final = 4
# A day in which a person may look at the log, and a step that was killed may come back for the result.
_TTL_SECONDS: Final = 86400
_GRACE_SECONDS: Final = 20
# Not root: a claim is made writable by fsGroup, and what lies on it stays readable for all.
_USER: Final = 1000
# The one place where the container may write besides the store. Not /tmp: that would hide what an image keeps there.
_SCRATCH: Final = "/scratch"
_OWN_ENV: Final = {"HOME": _SCRATCH, "TMPDIR": _SCRATCH, "PYTHONUNBUFFERED": "1"}
_RESOURCES: Final = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}


@dataclass(frozen=True, slots=True)
class SnapshotAsk:
    """What a Job shall do: everything that its name follows from. Plain data without secrets; it crosses processes.

    Attributes:
        verb: ``take``, ``list``, ``verify`` or ``gc``.
        args: more arguments of that verb.
        kind: ``dataset`` or ``model``.
        uri: the source, canonical; "" for the other verbs.
        revision: as asked.
        include: patterns.
        ignore: patterns.
        store: ``pvc://claim[/folder]``, or object storage.
        secret_ref: the Secret whose keys become environment variables.
        env: name to text, number or ``valueFrom``.
        image: the container's.
        active_deadline_seconds: the Job's own deadline.
        resources: of the container, Kubernetes' form; {} for ours.
        pod: fields of the pod's spec that go before ours (``nodeSelector``, ``serviceAccountName``, …).
        labels: more labels of the Job (Kueue's queue) and its pod.
        token: what keeps this ask apart from all others that are the same; "" shares.
    """

    verb: str = "take"
    args: Sequence[str] = ()
    kind: str = "dataset"
    uri: str = ""
    revision: str = ""
    include: Sequence[str] = ()
    ignore: Sequence[str] = ()
    store: str = ""
    secret_ref: str = ""
    env: Mapping[str, Any] = field(default_factory=dict)
    image: str = ""
    active_deadline_seconds: int | None = None
    resources: Mapping[str, Any] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    token: str = ""

    @property
    def digest(self) -> str:
        """32 hex digits."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def claim(self) -> str:
        """The claim of the store; "" where that is object storage."""
        return _claim_and_folder(self.store)[0]

    def name(self, attempt: int) -> str:
        """The Job's name; at most 50 characters, since its pods' names are longer."""
        what = self.uri.rstrip("/").rpartition("/")[2] if self.verb == "take" else self.verb
        return f"snapshot-{slug(what or 'files', 22)}-{self.digest[:10]}-{attempt}"

    def to_json(self) -> dict[str, Any]:
        """Plain data; what is left out is the default."""
        made = {item.name: getattr(self, item.name) for item in fields(self)}
        made = {name: list(value) if isinstance(value, tuple) else value for name, value in made.items()}
        return {name: copy.deepcopy(value) for name, value in made.items() if value not in (None, "", [], {})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SnapshotAsk:
        """The inverse of ``to_json``."""
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return cls(**given)


def _claim_and_folder(url: str) -> tuple[str, str]:
    """Of ``pvc://claim/folder``; ("", "") of anything else."""
    scheme, _, rest = url.partition("://")
    name, _, folder = rest.partition("/")
    return (name, folder.strip("/")) if scheme == "pvc" else ("", "")


def snapshot_job(ask: SnapshotAsk, attempt: int, *, version: str, asked_by: str = "") -> dict[str, Any]:
    """The Job of this attempt. Pure: equal arguments give equal bytes.

    Args:
        ask: what it shall do.
        attempt: 1 for the first.
        version: of this package, for an annotation.
        asked_by: who starts it; "" when nobody will come back for it.

    Raises:
        InvalidRequest: a variable of ``env`` that is no text, number or source of one; a label or a field of the pod
            that is ours.
    """
    own = {
        keys.LABEL_MANAGED_BY: keys.MANAGED_BY,
        LABEL_SNAPSHOT: ask.digest,
        keys.LABEL_ATTEMPT: str(attempt),
    }
    for name in ask.labels:
        if name in own:
            raise InvalidRequest(f"labels.{name}", "is a name of ours", "Leave it out")
    labels = {**ask.labels, **own}
    notes = {keys.ANNOTATION_VERSION: version, ANNOTATION_ASKED_BY: asked_by, ANNOTATION_SOURCE: _source_text(ask)}
    spec: dict[str, Any] = {
        "backoffLimit": _BACKOFF_LIMIT,
        "ttlSecondsAfterFinished": _TTL_SECONDS,
        "podFailurePolicy": _failure_policy(),
        "template": {
            # A sidecar of a service mesh would never end, and with it the Job.
            "metadata": {
                "labels": {**labels, "sidecar.istio.io/inject": "false"},
                "annotations": {"sidecar.istio.io/inject": "false"},
            },
            "spec": _pod(ask),
        },
    }
    if ask.active_deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = ask.active_deadline_seconds
    kept = {name: value for name, value in notes.items() if value}
    meta = {"name": ask.name(attempt), "labels": labels, "annotations": kept}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def _source_text(ask: SnapshotAsk) -> str:
    return f"{ask.uri}@{ask.revision}" if ask.revision else ask.uri


def _failure_policy() -> dict[str, Any]:
    """An error of the user's ends the Job at once; a node that goes away costs no try."""
    codes = {"containerName": CONTAINER, "operator": "In", "values": list(_FINAL_EXITS)}
    gone = [{"type": "DisruptionTarget", "status": "True"}]
    return {"rules": [{"action": "Ignore", "onPodConditions": gone}, {"action": "FailJob", "onExitCodes": codes}]}


def _pod(ask: SnapshotAsk) -> dict[str, Any]:
    volumes, mounts = _volumes(ask)
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": ask.image,
        "command": ["python3", "-m", "trainer_ops.initializers", ask.verb, *_arguments(ask)],
        # Nothing of a home folder or a cache may end on the claim, or need a writable image.
        "env": [
            *(env_entry(name, value, "env") for name, value in ask.env.items()),
            *({"name": name, "value": value} for name, value in _OWN_ENV.items() if name not in ask.env),
        ],
        "resources": copy.deepcopy(dict(ask.resources)) or copy.deepcopy(_RESOURCES),
        "volumeMounts": mounts,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        # A program that was killed before it could say why: its last lines.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if ask.secret_ref:
        container["envFrom"] = [{"secretRef": {"name": ask.secret_ref}}]
    own: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            # Not again for each of a million files that are right already.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": volumes,
        "containers": [container],
    }
    for name in ask.pod:
        if name in ("containers", "initContainers", "restartPolicy", "volumes"):
            raise InvalidRequest(f"pod.{name}", "is what the Job is made of", "Leave it out")
    return {**own, **copy.deepcopy(dict(ask.pod))}


def _arguments(ask: SnapshotAsk) -> list[str]:
    """All of them: whatever is in the environment, what was asked for is done."""
    claim_name, folder = _claim_and_folder(ask.store)
    where = f"{STORE_PATH}/{folder}".rstrip("/") if claim_name else ask.store
    made = ["--store", where, *(("--location", ask.store) if claim_name else ())]
    if ask.verb == "take":
        made += ["--kind", ask.kind, "--uri", ask.uri]
        source = _claim_and_folder(ask.uri)[0]
        made += ["--mount", f"{source}={CLAIMS_PATH}/{source}"] if source else []
        made += ["--revision", ask.revision] if ask.revision else []
        for option, patterns in (("--include", ask.include), ("--ignore", ask.ignore)):
            made += [word for pattern in patterns for word in (option, pattern)]
    return [*made, *ask.args]


def _volumes(ask: SnapshotAsk) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A scratch folder, the store's claim, and that of a pvc:// source; a claim is one volume (kubernetes #132921)."""
    volumes: list[dict[str, Any]] = [{"name": "scratch", "emptyDir": {}}]
    mounts: list[dict[str, Any]] = [{"name": "scratch", "mountPath": _SCRATCH}]
    source, store = _claim_and_folder(ask.uri)[0], ask.claim
    if store:
        volumes.append({"name": "store", "persistentVolumeClaim": {"claimName": store}})
        mounts.append({"name": "store", "mountPath": STORE_PATH})
    if source:
        if source != store:
            volumes.append({"name": "source", "persistentVolumeClaim": {"claimName": source, "readOnly": True}})
        name = "store" if source == store else "source"
        mounts.append({"name": name, "mountPath": f"{CLAIMS_PATH}/{source}", "readOnly": True})
    return volumes, mounts


def claim(name: str, *, storage: str, storage_class: str | None, access_mode: str) -> dict[str, Any]:
    """A claim for snapshots. It belongs to nobody, so that it outlives every Job.

    Args:
        name: its name.
        storage: its size, such as ``20Gi``.
        storage_class: None for the cluster's default.
        access_mode: ``ReadWriteMany``, or what the class can do.
    """
    spec: dict[str, Any] = {"accessModes": [access_mode], "resources": {"requests": {"storage": storage}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    meta = {"name": name, "labels": {keys.LABEL_MANAGED_BY: keys.MANAGED_BY}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}
