"""An Outcome as KFP artifacts."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from trainer_ops.kfp.task import Artifact
from trainer_ops.model.outcome import Outcome

__all__ = ["KFP_SCHEMES", "fill", "place"]

# Schemes that KFP's launcher moves itself: a URI of one of them in another bucket fails the task after the training
# (pipelines backend/src/v2/objectstore/config.go). Others (hf://, pvc://) are registered as they are.
KFP_SCHEMES = frozenset({"s3", "gs", "minio"})


def fill(artifacts: Mapping[str, Artifact], outcome: Outcome, framework: str) -> None:
    """Fill ``model`` and ``metrics`` from a success; ``framework`` may be ""."""
    model, metrics = artifacts["model"], artifacts["metrics"]
    metrics.metadata.update(outcome.metrics)
    model.metadata.update(_provenance(outcome, framework))
    if outcome.model_uri:
        place(outcome.model_uri, model)


def _provenance(outcome: Outcome, framework: str) -> Mapping[str, Any]:
    facts: dict[str, Any] = {
        "trainjob": f"{outcome.namespace}/{outcome.name}",
        "trainjob_uid": outcome.uid,
        "target": outcome.target,
        "attempt": outcome.attempt,
        "started_at": outcome.started_at or "",
        "finished_at": outcome.finished_at or "",
        "model_uri": outcome.model_uri or "",
        "framework": framework,
    }
    return {**facts, **{f"metric_{name}": value for name, value in outcome.metrics.items()}}


def place(uri: str, model: Artifact) -> None:
    """Copy a model that lies on this machine; point at one that lies in the artifact's own bucket or outside KFP's."""
    parts = urlsplit(uri)
    local = Path(unquote(parts.path)) if parts.scheme == "file" else Path(uri) if not parts.scheme else None
    if local is not None:
        # On the engine the nodes share this file system. On a cluster a file:// URI is a node's own: left as metadata.
        if local.is_dir():
            shutil.copytree(local, model.path, dirs_exist_ok=True)
        elif local.is_file():
            Path(model.path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(local, model.path)
        return
    own = urlsplit(model.uri)
    if parts.scheme not in KFP_SCHEMES or (parts.scheme, parts.netloc) == (own.scheme, own.netloc):
        model.uri = uri
