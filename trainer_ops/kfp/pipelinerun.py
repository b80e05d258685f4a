"""Which run of a pipeline a task belongs to, and the label that tells it of a training. Pure.

A step is not told its run's id: reading it from the pod takes a right, and as an input it would change the cache key
with every run. It stands in the URI of every output, which the driver makes as ``<root>/<pipeline>/<run
id>/<task>/<uuid>/<name>`` (pipelines backend/src/v2/driver/driver.go); KFP's local runner has ``<root>/<pipeline>-<time
of its start>/…`` instead.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.names import slug

__all__ = ["label_value", "labelled", "run_of"]

_RUN_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# kfp/local/executor_input_utils.py: the pipeline's name, then the time to the microsecond.
_LOCAL_RUN: Final = re.compile(r".+-\d{4}(-\d\d){5}-\d{6}")
_RUN_FROM_THE_END: Final = 4
_LABEL_LIMIT: Final = 63


def run_of(output_uri: str) -> str:
    """The run's id; "" where the URI does not tell, so that nothing is taken for a run that is none."""
    parts = output_uri.split("/")
    if len(parts) >= _RUN_FROM_THE_END and _RUN_ID.fullmatch(parts[-_RUN_FROM_THE_END]):
        return parts[-_RUN_FROM_THE_END]
    return next((part for part in parts if _LOCAL_RUN.fullmatch(part)), "")


def label_value(run: str) -> str:
    """A run's id as a label has it: what KFP shows, shortened at its front where a label cannot hold it."""
    if _RUN_ID.fullmatch(run):
        return run
    # The end is what tells runs apart: the local runner's time.
    return slug(run[-(_LABEL_LIMIT - 2) :], _LABEL_LIMIT)


def labelled(fields: Mapping[str, Any], run: str) -> dict[str, Any]:
    """A request's fields with the run in the training's labels; unchanged where the run is not known.

    Raises:
        InvalidRequest: the label is given, with another value.
    """
    made = dict(fields)
    if not run:
        return made
    manifest = made.get("manifest")
    if manifest is None:
        made["labels"] = _with_run(made.get("labels"), run, "labels")
    elif isinstance(manifest, Mapping):
        made["manifest"] = manifest = copy.deepcopy(dict(manifest))
        meta = manifest.get("metadata") or {}
        # What has no such shape is refused by the request itself, by path.
        if isinstance(meta, Mapping):
            labels = _with_run(meta.get("labels"), run, "manifest.metadata.labels")
            manifest["metadata"] = {**meta, "labels": labels}
    return made


def _with_run(given: Any, run: str, field: str) -> Any:
    if given and not isinstance(given, Mapping):
        return given
    labels, value = dict(given or {}), label_value(run)
    if labels.setdefault(keys.LABEL_PIPELINE_RUN, value) != value:
        raise InvalidRequest(f"{field}.{keys.LABEL_PIPELINE_RUN}", "is set, and this name is ours", "Leave it out")
    return labels
