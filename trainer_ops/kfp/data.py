"""The data that a training is given in a pipeline: as an artifact, as a snapshot, or by URI.

Of an artifact only its URI and metadata are read, never its files. KFP's launcher downloads an input artifact before
the step starts, whatever the step does with it, unless it does not know the URI's scheme (pipelines
backend/src/v2/component/launcher_v2.go): ``pvc://`` and ``hf://`` cost nothing, ``s3://``, ``gs://`` and ``minio://``
all of their bytes. Therefore there is the parameter beside the artifact.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.task import Artifact, Task
from trainer_ops.model.snapshot import Snapshot

__all__ = ["DATA_INPUTS", "data_fields", "snapshot_from", "snapshot_of"]

# Field of the request -> the inputs that can bring it: an artifact, a snapshot's JSON; and a URI, read by ``inputs``.
_WAYS: Final = {
    "dataset": ("dataset", "dataset_snapshot", "dataset_uri"),
    "model": ("base_model", "base_model_snapshot", "base_model_uri"),
}
DATA_INPUTS: Final = frozenset(name for ways in _WAYS.values() for name in ways[:2])


def data_fields(task: Task) -> dict[str, Any]:
    """The request's fields ``dataset`` and ``model``, those that an artifact or a snapshot gives.

    Raises:
        InvalidRequest: one is given twice, or what is given names no data.
    """
    found: dict[str, Any] = {}
    for field, (artifact, snapshot, uri) in _WAYS.items():
        given = [name for name in (artifact, snapshot, uri) if name in task.given or task.inputs.get(name)]
        if len(given) > 1:
            raise InvalidRequest(given[0], f"{' and '.join(given)} exclude each other", "Give one of them")
        if artifact in given:
            found[field] = _of_artifact(artifact, task.given[artifact])
        elif snapshot in given:
            found[field] = snapshot_from(snapshot, task.inputs[snapshot])
    return found


def snapshot_from(name: str, value: Any) -> Snapshot:
    """The snapshot that an input parameter brings.

    Raises:
        InvalidRequest: it is none.
    """
    found = snapshot_of(value) if isinstance(value, Mapping) else None
    if found is None:
        remedy = "Give the output snapshot of initialize_dataset or initialize_model, whole"
        raise InvalidRequest(name, "is no snapshot", remedy)
    return found


def snapshot_of(metadata: Mapping[str, Any]) -> Snapshot | None:
    """The snapshot that an artifact's metadata tell of; None where they tell of none."""
    try:
        return Snapshot.from_json(metadata)
    except (KeyError, TypeError, ValueError):
        return None


def _of_artifact(name: str, artifact: Artifact) -> Any:
    """A snapshot where it is one of ours, else a URI for Trainer's in-job initializer."""
    snapshot = snapshot_of(artifact.metadata)
    if snapshot is not None:
        return snapshot
    uri = artifact.uri
    if not uri:
        raise InvalidRequest(name, "the artifact has no URI", "Give what initialize_dataset made, or a URI")
    if "://" not in uri:
        # KFP's local runner, for which an artifact is a path.
        return Path(uri).absolute().as_uri()
    told = str(artifact.metadata.get("model_uri") or "")
    if told:
        # A model of train_job or promote_model, whose artifact may have had to stay where KFP gave it.
        return told
    if uri.startswith("minio://"):
        remedy = f"Make a snapshot of s3://{uri.removeprefix('minio://')} with its credentials (initialize_dataset)"
        raise InvalidRequest(name, f"{uri} is in KFP's own storage, whose credentials a training has not", remedy)
    return uri
