"""A pod template as the API server hands it to v1's operators."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from trainer_ops.migrate import fields

__all__ = ["pruned"]


def pruned(template: Mapping[str, Any]) -> dict[str, Any]:
    """A copy without the fields that a pod does not have; the old name of serviceAccountName is that one.

    The CRDs drop what they do not know, and the API server writes both names of the account into a pod.
    """
    made: dict[str, Any] = copy.deepcopy(dict(template))
    held = made.get("spec") or {}
    spec = {name: value for name, value in held.items() if name in fields.POD}
    account = spec.pop("serviceAccount", None)
    if account and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = account
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            spec[kind] = [{n: v for n, v in one.items() if n in fields.CONTAINER} for one in spec[kind]]
    made["spec"] = spec
    return made
