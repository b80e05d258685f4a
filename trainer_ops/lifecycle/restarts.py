"""Restarts as a person should hear of them: once each, between the lines of the two runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainer_ops.backends.base import LogSource
from trainer_ops.model.observed import ObservedPod, Terminated

__all__ = ["Restarts"]


class Restarts:
    """Notices that a container or a pod started again.

    Which restarts there were before the first look is not known to be new, so those are not told.
    """

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], tuple[str, int]] = {}
        self._untold: dict[tuple[str, int], str] = {}

    def see(self, pods: Sequence[ObservedPod]) -> None:
        """Look at all pods of one observation."""
        first = not self._runs
        for pod in pods:
            if pod.main is None:
                continue
            place, now = (pod.step, pod.index), (pod.uid, pod.main.restarts)
            before = self._runs.get(place)
            self._runs[place] = now
            if first or before == now or (before is None and not now[1]):
                continue
            self._untold[now] = self._text(pod, before)

    def _text(self, pod: ObservedPod, before: tuple[str, int] | None) -> str:
        main = pod.main
        assert main is not None
        if before is not None and before[0] != pod.uid:
            return f"{pod.node} starts again in a new pod, {pod.name}"
        return f"{pod.node} restarted ({main.restarts}){_why(main.last)}"

    def reached(self, source: LogSource) -> str:
        """What to tell before the lines of this source; "" when there is nothing, or it was told."""
        return self._untold.pop((source.pod_uid, source.restart), "")

    def rest(self) -> Iterator[str]:
        """What no line came for."""
        while self._untold:
            yield self._untold.pop(next(iter(self._untold)))


def _why(last: Terminated | None) -> str:
    if last is None:
        return ""
    reason = f", {last.reason}" if last.reason not in ("", "Error", "Completed") else ""
    return f": exit code {last.exit_code}{reason}"
