"""The labels and annotations of a pod: what JobSet (v0.12) and the Job controller write, and a fieldRef can read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from trainer_ops.local.plan_template import Template
from trainer_ops.local.plan_values import Place
from trainer_ops.model import keys

__all__ = ["labels_of"]

_JOBSET = "jobset.sigs.k8s.io"


def labels_of(
    job: str, templates: Sequence[Template], template: Template, index: int, place: Place
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """(labels, annotations) of one pod; those that hold the uid of an object are not among them.

    Args:
        job: the TrainJob's name.
        templates: all that are run, in the runtime's order.
        template: the pod's.
        index: its completion index.
        place: namespace and restart attempt.
    """
    name = f"{job}-{template.name}-0"
    group = [t for t in templates if t.group == template.group]
    common = {
        keys.LABEL_JOBSET_NAME: job,
        keys.LABEL_REPLICATED_JOB: template.name,
        keys.LABEL_RESTART_ATTEMPT: str(place.attempt),
        f"{_JOBSET}/replicatedjob-replicas": "1",
        f"{_JOBSET}/job-index": "0",
        f"{_JOBSET}/job-key": hashlib.sha1(f"{place.namespace}/{name}".encode(), usedforsecurity=False).hexdigest(),
        f"{_JOBSET}/global-replicas": str(len(templates)),
        f"{_JOBSET}/job-global-index": str(templates.index(template)),
        f"{_JOBSET}/group-name": template.group,
        f"{_JOBSET}/group-replicas": str(len(group)),
        f"{_JOBSET}/job-group-index": str(group.index(template)),
        keys.COMPLETION_INDEX: str(index),
    }
    labels = {**template.labels, **common, keys.LABEL_JOB_NAME: name, "job-name": name}
    return labels, {**template.annotations, **common}
