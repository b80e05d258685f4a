"""How Trainer lays the patches of a TrainJob over its runtime: a strategic merge of the JobSet template.

Source: trainer v2.3.0 ``pkg/runtime/core/trainingruntime.go``; which lists merge, and by which key, is in the types of
JobSet and Kubernetes. All other lists are replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["merge", "upsert"]

_KEYED: Final[Mapping[str, str]] = {
    "replicatedJobs": "name",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
}


def merge(base: Any, patch: Any, field: str = "") -> Any:
    """The patch laid over the base; both stay as they are."""
    if isinstance(base, Mapping) and isinstance(patch, Mapping):
        return _maps(base, patch)
    key = _KEYED.get(field)
    if key and _is_list(base) and _is_list(patch):
        return _lists(base, patch, key, field)
    return copy.deepcopy(patch)


def upsert(items: list[dict[str, Any]], item: Mapping[str, Any], key: str = "name") -> None:
    """Put an item in the place of the one with its key, else at the end."""
    for i, held in enumerate(items):
        if held.get(key) == item.get(key):
            items[i] = dict(item)
            return
    items.append(dict(item))


def _maps(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    made = {name: copy.deepcopy(value) for name, value in base.items()}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merge(made.get(name), value, name)
    return made


def _lists(base: Sequence[Any], patch: Sequence[Any], key: str, field: str) -> list[Any]:
    made = [copy.deepcopy(item) for item in base]
    for item in patch:
        found = next((i for i, held in enumerate(made) if held.get(key) == item.get(key)), None)
        if found is None:
            made.append(copy.deepcopy(item))
        elif field == "volumes":
            # Another source takes the place of the source (retainKeys).
            made[found] = copy.deepcopy(item)
        else:
            made[found] = merge(made[found], item)
    return made


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
