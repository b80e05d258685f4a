"""The Workflow that this step belongs to, as owner of what it submits.

The second line behind the SIGTERM handler: a training whose Workflow is deleted goes with it. Not the pod: a pod that
Argo makes again would take its training along.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from trainer_ops.backends.base import Backend
from trainer_ops.errors import BackendError

__all__ = ["workflow_of"]

# Set in every step by KFP 2.17.
_POD_NAME, _POD_UID = "KFP_POD_NAME", "KFP_POD_UID"


def workflow_of(
    backend: Backend, note: Callable[[str], None], environ: Mapping[str, str] = os.environ
) -> dict[str, Any] | None:
    """An ownerReference to the Workflow; None where there is none, or where it lies elsewhere than the target.

    An owner in another namespace or cluster would let the garbage collector delete the training at once, so the pod is
    looked for where the training will be, and has to be this one by its uid.

    Args:
        backend: where the training will be.
        note: told why there will be no owner, when that can be changed.
        environ: this process' environment.
    """
    read = getattr(backend, "pod", None)
    name, uid = environ.get(_POD_NAME), environ.get(_POD_UID)
    if read is None or not name or not uid:
        return None
    try:
        pod = read(name)
    except BackendError as error:
        note(f"deleting the workflow will not delete the training: {error}")
        return None
    if pod is None or pod["metadata"].get("uid") != uid:
        return None
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == "Workflow":
            kept = {key: owner[key] for key in ("apiVersion", "kind", "name", "uid")}
            # Blocking the owner's deletion would take rights on the Workflow's finalizers.
            return {**kept, "controller": False, "blockOwnerDeletion": False}
    return None
