"""What a training says about itself when it ends: the JSON that rank 0 leaves in its termination message."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.observed import ObservedPod, number

__all__ = ["Result", "parse_result", "result_of"]


@dataclass(frozen=True, slots=True)
class Result:
    """What rank 0 reported.

    Attributes:
        metrics: name to number; to the text where it is no finite number.
        model_uri: where the model is; None when not reported.
        artifacts: name to URI or other JSON data.
    """

    metrics: Mapping[str, float | str] = field(default_factory=dict)
    model_uri: str | None = None
    artifacts: Mapping[str, Any] = field(default_factory=dict)


def parse_result(text: str) -> Result | None:
    """The result in a termination message; None when it holds none.

    A message is anything: empty, a log tail, cut by the kubelet at 4096 bytes, JSON of somebody else. Parts of the
    wrong shape are left out, and what then holds nothing is no result.
    """
    try:
        data = json.loads(text, parse_float=number, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    metrics, uri, artifacts = data.get("metrics"), data.get("model_uri"), data.get("artifacts")
    found = Result(
        {k: number(v) for k, v in metrics.items() if _plain(v)} if isinstance(metrics, dict) else {},
        uri if isinstance(uri, str) and uri else None,
        artifacts if isinstance(artifacts, dict) else {},
    )
    return found if found != Result() else None


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def result_of(pods: Sequence[ObservedPod]) -> Result | None:
    """The result of the newest rank 0 among these pods.

    Rank 0 is in the launcher's pod where MPI has one, else in ``node-0``; steps with names of their own come last.
    Of a container that was restarted in place the latest run that has ended counts.
    """
    order = {keys.STEP_LAUNCHER: 0, keys.STEP_NODE: 1}
    first = [p for p in pods if p.index == 0 and p.step not in keys.INITIALIZERS]
    newest: dict[str, ObservedPod] = {}
    for pod in sorted(first, key=lambda p: (p.attempt, p.created_at or 0.0)):
        newest[pod.step] = pod
    for step in sorted(newest, key=lambda s: (order.get(s, 2), s)):
        main = newest[step].main
        ended = (main.terminated or main.last) if main else None
        found = parse_result(ended.message) if ended else None
        if found is not None:
            return found
    return None
