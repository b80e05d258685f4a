"""Rules that hold for places alike: longest lists, longest texts, keys that occur once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainer_ops.validate.findings import Finding, error
from trainer_ops.validate.peek import find, items, mapping, repeated, show, text

__all__ = ["RUNTIME", "TRAINJOB", "Sizes", "check_sizes"]

_PATCH = "spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs"
_PATCHED_POD = f"{_PATCH}[].template.spec.template.spec"
_JOBS = "spec.template.spec.replicatedJobs"
_POD = f"{_JOBS}[].template.spec.template.spec"
_INJECTION = "spec.mlPolicy.torch.envInjection.targets"


class Sizes:
    """One kind's limits, by pattern of path.

    Attributes:
        items: the longest list.
        length: the shortest and longest text.
        unique: the field that tells a list's items apart; "" for a list of texts.
    """

    def __init__(
        self, items: Mapping[str, int], length: Mapping[str, tuple[int, int]], unique: Mapping[str, str]
    ) -> None:
        self.items = items
        self.length = length
        self.unique = unique


TRAINJOB = Sizes(
    items={
        "spec.trainer.env": 128,
        "spec.trainer.command": 128,
        "spec.trainer.args": 128,
        "spec.initializer.dataset.env": 128,
        "spec.initializer.model.env": 128,
        "spec.runtimePatches": 16,
        _PATCH: 100,
        f"{_PATCHED_POD}.containers": 64,
        f"{_PATCHED_POD}.initContainers": 64,
        f"{_PATCHED_POD}.containers[].env": 128,
        f"{_PATCHED_POD}.initContainers[].env": 128,
        f"{_PATCHED_POD}.containers[].volumeMounts": 128,
        f"{_PATCHED_POD}.initContainers[].volumeMounts": 128,
        f"{_PATCHED_POD}.imagePullSecrets": 64,
        f"{_PATCHED_POD}.schedulingGates": 16,
        f"{_PATCHED_POD}.tolerations": 128,
        f"{_PATCHED_POD}.volumes": 128,
    },
    length={
        "spec.runtimeRef.name": (1, 253),
        "spec.runtimeRef.kind": (0, 253),
        "spec.runtimeRef.apiGroup": (0, 253),
        "spec.trainer.image": (0, 500),
        "spec.trainer.command[]": (0, 1 << 20),
        "spec.trainer.args[]": (0, 1 << 20),
        "spec.initializer.dataset.storageUri": (0, 2048),
        "spec.initializer.model.storageUri": (0, 2048),
        "spec.runtimePatches[].manager": (1, 253),
        f"{_PATCH}[].name": (1, 253),
        f"{_PATCHED_POD}.containers[].name": (1, 253),
        f"{_PATCHED_POD}.initContainers[].name": (1, 253),
        f"{_PATCHED_POD}.serviceAccountName": (0, 253),
    },
    # A patch keys its volumeMounts by the volume's name, so one patch mounts a volume once; pods key by mountPath.
    unique={
        "spec.trainer.env": "name",
        "spec.trainer.resourcesPerNode.claims": "name",
        "spec.initializer.dataset.env": "name",
        "spec.initializer.model.env": "name",
        "spec.runtimePatches": "manager",
        _PATCH: "name",
        f"{_PATCHED_POD}.containers": "name",
        f"{_PATCHED_POD}.initContainers": "name",
        f"{_PATCHED_POD}.containers[].env": "name",
        f"{_PATCHED_POD}.initContainers[].env": "name",
        f"{_PATCHED_POD}.containers[].volumeMounts": "name",
        f"{_PATCHED_POD}.initContainers[].volumeMounts": "name",
        f"{_PATCHED_POD}.imagePullSecrets": "name",
        f"{_PATCHED_POD}.schedulingGates": "name",
        f"{_PATCHED_POD}.volumes": "name",
    },
)

RUNTIME = Sizes(
    items={
        _INJECTION: 16,
        f"{_INJECTION}[].containerNames": 8,
        f"{_JOBS}[].dependsOn": 5,
        "spec.template.spec.volumeClaimPolicies": 50,
        "spec.template.spec.volumeClaimPolicies[].templates": 50,
    },
    length={
        "spec.mlPolicy.mpi.sshAuthMountPath": (0, 4096),
        f"{_INJECTION}[].jobName": (1, 253),
        f"{_INJECTION}[].containerNames[]": (0, 63),
    },
    unique={
        _INJECTION: "jobName",
        f"{_INJECTION}[].containerNames": "",
        _JOBS: "name",
        f"{_JOBS}[].dependsOn": "name",
        f"{_POD}.containers": "name",
        f"{_POD}.initContainers": "name",
        f"{_POD}.containers[].env": "name",
        f"{_POD}.initContainers[].env": "name",
        f"{_POD}.containers[].volumeMounts": "mountPath",
        f"{_POD}.initContainers[].volumeMounts": "mountPath",
        f"{_POD}.imagePullSecrets": "name",
        f"{_POD}.volumes": "name",
    },
)


def check_sizes(manifest: Mapping[Any, Any], sizes: Sizes) -> Iterator[Finding]:
    """Lists that are too long, texts that are too long or empty, keys that occur twice."""
    for pattern, most in sizes.items.items():
        for path, held in find(manifest, pattern):
            count = len(items(held))
            if count > most:
                yield error("too-many", path, f"has {count} items, more than {most}", f"At most {most} are allowed")
    for pattern, (least, most) in sizes.length.items():
        for path, held in find(manifest, pattern):
            yield from _length(path, held, least, most)
    for pattern, key in sizes.unique.items():
        for path, held in find(manifest, pattern):
            found = [text(mapping(item).get(key) if key else item) for item in items(held)]
            for twice in repeated(name for name in found if name):
                reason = f"has {show(twice)} more than once" + (f" as {key}" if key else "")
                yield error("duplicate", path, reason, "Keep one of them")


def _length(path: str, held: Any, least: int, most: int) -> Iterator[Finding]:
    if not isinstance(held, str):
        return
    if len(held) > most:
        yield error("too-long", path, f"has {len(held)} characters, more than {most}", "Shorten it")
    elif len(held) < least:
        yield error("empty-text", path, "is empty", "Give it")
