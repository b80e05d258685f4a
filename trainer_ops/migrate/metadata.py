"""Name, labels and annotations of the TrainJob."""

from __future__ import annotations

import hashlib
import re

from trainer_ops.migrate.draft import Draft
from trainer_ops.migrate.gang import QUEUE
from trainer_ops.migrate.paths import Path
from trainer_ops.migrate.pods import V1_LABELS
from trainer_ops.model import keys
from trainer_ops.model.names import name_limit, slug

__all__ = ["name", "object_metadata"]

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
# What the API server puts behind a generateName.
_SUFFIX = 5
_TOOLS = ("meta.helm.sh/", "argocd.argoproj.io/")
_POD_GROUPS = ("scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group")


def object_metadata(draft: Draft) -> None:
    """All of ``metadata`` but the name."""
    held = draft.job.metadata
    if draft.job.namespace:
        draft.link(("metadata", "namespace"), ("trainjob", "metadata", "namespace"))
    for kind in ("labels", "annotations"):
        for key, value in (held.get(kind) or {}).items():
            _entry(draft, kind, key, value)
        if not held.get(kind):
            draft.drop(("metadata", kind), "empty")
    if held.get("ownerReferences"):
        draft.say("OWNER-LOST", ("metadata", "ownerReferences"), "what owned the v1 job does not own the TrainJob")
    draft.drop(("metadata", "ownerReferences"), "of the v1 object")
    draft.drop(("metadata", "finalizers"), "of the v1 object")


def _entry(draft: Draft, kind: str, key: str, value: str | None) -> None:
    path: Path = ("metadata", kind, key)
    if not draft.ledger.left(path):
        return
    if value is None:
        draft.drop(path, "null says nothing")
    elif key.startswith(V1_LABELS):
        draft.drop(path, "written by v1's operator")
    elif draft.options.live and (key.startswith(_TOOLS) or (key == keys.LABEL_MANAGED_BY and value == "Helm")):
        draft.drop(path, "written by the tool that made the v1 job, which does not know the TrainJob")
    elif key in _POD_GROUPS:
        draft.drop(path, "set by the controller of the pod group")
    elif key == QUEUE:
        draft.jobset["metadata"].setdefault("annotations", {})[QUEUE] = value
        draft.link(path, ("jobset", "metadata", "annotations", QUEUE))
    else:
        draft.metadata.setdefault(kind, {})[key] = value
        draft.link(path, ("trainjob", "metadata", kind, key))
        if key == keys.LABEL_QUEUE:
            # Kueue's webhook would do it; a TrainJob that says so is right without it too.
            draft.trainjob["suspend"] = True


def name(draft: Draft) -> None:
    """Decide the name; call it when the parts and their numbers are known to be, before addresses are made of it."""
    job = draft.job
    if job.generate_name:
        draft.say("GENERATE-NAME", ("metadata", "generateName"), "the name is not known yet: create it, apply cannot")
        limit = name_limit((part.name for part in draft.parts), (draft.pods or 10) - 1) - _SUFFIX
        if len(job.generate_name) > limit:
            draft.refuse(
                "NAME-LEN", ("metadata", "generateName"), f"is longer than {limit} characters", remedy="Shorten it"
            )
        draft.link(("metadata", "generateName"), ("trainjob", "metadata", "generateName"))
        return
    if not job.name:
        draft.refuse("NOT-A-JOB", ("metadata",), "metadata.name is missing")
        return
    limit = name_limit((part.name for part in draft.parts), (draft.pods or 10) - 1)
    draft.name = job.name
    filled_in = job.name.startswith(("$", "{{")) and draft.options.allow_placeholders
    if not filled_in and (not _NAME.fullmatch(job.name) or len(job.name) > limit):
        why = f"is longer than {limit} characters" if _NAME.fullmatch(job.name) else "is no name of a TrainJob"
        digest = hashlib.sha256(job.name.encode()).hexdigest()[:6]
        short = slug(job.name, limit)
        draft.name = short if len(job.name) <= limit else f"{slug(job.name, limit - 7)}-{digest}"
        draft.say("NAME-LEN", ("metadata", "name"), f"{job.name!r} {why}: called {draft.name}")
    changed = draft.name != job.name
    reason = f"called {draft.name} now" if changed else ""
    draft.link(("metadata", "name"), ("trainjob", "metadata", "name"), reason, exact=not changed)
