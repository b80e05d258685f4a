"""What is not as on a cluster in one TrainJob; ``plan_differences`` says it in general."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trainer_ops.local.plan_template import Raw, Template
from trainer_ops.model import keys
from trainer_ops.model.runtime import TrainingRuntime

__all__ = ["INITIALIZER_VOLUME", "notes"]

# The volume that Trainer's runtimes share between initializers and nodes; here two folders of the TrainJob.
INITIALIZER_VOLUME = "initializer"

_POD = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "schedulingGates",
    "schedulerName",
    "priorityClassName",
    "topologySpreadConstraints",
    "serviceAccountName",
    "imagePullSecrets",
    "securityContext",
    "runtimeClassName",
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "dnsConfig",
    "dnsPolicy",
)
_CONTAINER = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext", "imagePullPolicy")


def notes(trainjob: Raw, runtime: TrainingRuntime, templates: Sequence[Template], patched: Sequence[str]) -> list[str]:
    """One sentence for each thing in this TrainJob that has no meaning on this machine.

    Args:
        trainjob: the TrainJob.
        runtime: its runtime.
        templates: the jobs that are run.
        patched: fields of runtimePatches without a meaning.
    """
    said = [*_images(trainjob, templates), *_resources(trainjob, templates), *_volumes(templates)]
    ignored = dict.fromkeys(patched)
    for template in templates:
        ignored.update(dict.fromkeys(name for name in _POD if template.spec.get(name)))
        for container in (*template.init_containers, *template.containers):
            ignored.update(dict.fromkeys(name for name in _CONTAINER if container.get(name)))
    if runtime.pod_group:
        ignored["podGroupPolicy"] = None
    if ignored:
        said.append(f"without meaning on this machine: {', '.join(ignored)}")
    queue = ((trainjob.get("metadata") or {}).get("labels") or {}).get(keys.LABEL_QUEUE)
    if queue:
        said.append(f'Kueue\'s queue "{queue}" is not asked: this machine has a queue of its own')
    return said


def _images(trainjob: Raw, templates: Sequence[Template]) -> Iterable[str]:
    own = ((trainjob.get("spec") or {}).get("trainer") or {}).get("image")
    found = [own, *(c.get("image") for t in templates for c in (*t.init_containers, *t.containers))]
    names = list(dict.fromkeys(str(name) for name in found if name))
    if names:
        yield f"images are not used, this machine's programs are: {', '.join(names)}"


def _resources(trainjob: Raw, templates: Sequence[Template]) -> Iterable[str]:
    own = ((trainjob.get("spec") or {}).get("trainer") or {}).get("resourcesPerNode")
    found = [own] if own else [c["resources"] for t in templates for c in t.containers if c.get("resources")]
    texts = dict.fromkeys(text for text in map(_amounts, found) if text)
    if texts:
        yield f"resources are not reserved: {'; '.join(texts)}"


def _amounts(resources: Mapping[str, Any]) -> str:
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return ", ".join(f"{name} {value}" for name, value in sorted(amounts.items()))


def _volumes(templates: Sequence[Template]) -> Iterable[str]:
    found: dict[str, None] = {}
    for template in templates:
        host_paths = {v.get("name") for v in template.spec.get("volumes") or () if v.get("hostPath")}
        for container in (*template.init_containers, *template.containers):
            for mount in container.get("volumeMounts") or ():
                if mount.get("name") not in host_paths and mount.get("name") != INITIALIZER_VOLUME:
                    found[f"{mount.get('name')} at {mount.get('mountPath')}"] = None
    if found:
        yield f"volumes are not mounted, processes see this machine's files: {', '.join(found)}"
