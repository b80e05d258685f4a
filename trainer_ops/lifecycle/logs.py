"""Reading the logs of a training, after it or while it runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from trainer_ops.backends.base import Backend, LogSource, log_sources
from trainer_ops.errors import InvalidRequest, NotFound
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.cursor import CHUNK_BYTES, LogCursor, due_runs
from trainer_ops.lifecycle.patience import persist
from trainer_ops.lifecycle.restarts import Restarts
from trainer_ops.model.identity import JobRef
from trainer_ops.model.observed import Observation, ObservedPod
from trainer_ops.status.classify import classify

__all__ = ["LogCursor", "logs"]

_POLL = 2.0


def logs(
    backend: Backend,
    ref: JobRef,
    *,
    node: str | None = None,
    follow: bool = False,
    tail: int | None = None,
    clock: Clock,
    cursor: LogCursor | None = None,
    patience: float = 1800.0,
) -> Iterator[tuple[LogSource, str]]:
    """Log lines, each with where it comes from: initializers first, then the launcher, then the nodes by index.

    Restarts show as lines of the form ``--- node-1 restarted (1): exit code 3 ---``.

    Args:
        backend: where it runs.
        ref: which training. Pods of a deleted one are read as long as they are there.
        node: one node only: ``node-1`` or ``1``, ``launcher``, ``dataset-initializer``.
        follow: go on until the training has ended, pods that appear later included.
        tail: begin with the last lines of each node, so many.
        clock: what sleeps.
        cursor: where reading goes on; moves along.
        patience: seconds for which a target that gives no answer is asked again.

    Raises:
        NotFound: there is no such training and nothing of it is left.
        InvalidRequest: field ``node``: it has no such node; lists its nodes.
        Forbidden: this user may not read logs.
        Unreachable: no answer within ``patience``.
    """
    reading = _Reading(backend, ref, node, clock, LogCursor() if cursor is None else cursor, patience)
    return reading.lines(follow=follow, tail=tail)


class _Reading:
    """One call of ``logs``."""

    def __init__(
        self, backend: Backend, ref: JobRef, node: str | None, clock: Clock, cursor: LogCursor, patience: float
    ) -> None:
        self._backend = backend
        self._ref = ref
        self._node = f"node-{node}" if node is not None and node.isdigit() else node
        self._clock = clock
        self._cursor = cursor
        self._patience = patience
        self._restarts = Restarts()
        self._nodes: dict[str, None] = {}
        self._seen = False

    def lines(self, *, follow: bool, tail: int | None) -> Iterator[tuple[LogSource, str]]:
        watch = self._backend.watch(self._ref.name)
        try:
            while True:
                pods, over = self._look()
                if tail is not None:
                    yield from self._tails(pods, tail)
                    tail = None if pods or not follow else tail
                anything = False
                for source, line in self._new(pods):
                    anything = True
                    yield source, line
                if not follow or (over and not anything):
                    break
                if not anything:
                    self._clock.sleep(_POLL, watch)
        finally:
            watch.close()
        if self._node is not None and self._node not in self._nodes:
            known = ", ".join(self._nodes) or "none so far"
            raise InvalidRequest("node", f'{self._ref.name} has no node "{self._node}"', f"Its nodes: {known}")

    def _look(self) -> tuple[tuple[ObservedPod, ...], bool]:
        """The pods to read, and whether the training is over."""
        obs = persist(self._observe, clock=self._clock, patience=self._patience)
        pods = obs.pods
        if obs.job is None or obs.job.uid != self._ref.uid:
            raws = persist(self._pods_left, clock=self._clock, patience=self._patience)
            pods = Observation.from_raw(obs.at, None, raws).pods
            if not (pods or self._seen):
                raise NotFound(f"there is no training {self._ref} (uid {self._ref.uid}) and no pod of it")
        self._seen = True
        self._nodes.update(dict.fromkeys(pod.node for pod in pods))
        chosen = tuple(pod for pod in pods if self._node is None or pod.node == self._node)
        self._restarts.see(chosen)
        over = classify(obs, uid=self._ref.uid, seen=True).phase.finished
        return chosen, over

    def _observe(self) -> Observation:
        return self._backend.observe(self._ref.name, now=self._clock.now())

    def _pods_left(self) -> list[dict[str, object]]:
        return self._backend.pods(self._ref.name, uid=self._ref.uid)

    def _new(self, pods: Sequence[ObservedPod]) -> Iterator[tuple[LogSource, str]]:
        for runs in due_runs(pods, self._cursor):
            for source in runs:
                yield from self._source(source)

    def _source(self, source: LogSource) -> Iterator[tuple[LogSource, str]]:
        note = self._restarts.reached(source)
        if note:
            yield source, f"--- {note} ---"
        elif source.restart and not self._cursor.after(source):
            yield source, f"--- {source.node} restarted ({source.restart}) ---"
        more = True
        while more:
            chunk = persist(
                lambda: self._backend.logs(source, after=self._cursor.after(source), limit_bytes=CHUNK_BYTES),
                clock=self._clock,
                patience=self._patience,
            )
            self._cursor.take(source, chunk)
            more = chunk.more
            for line in chunk.lines:
                yield source, line

    def _tails(self, pods: Sequence[ObservedPod], tail: int) -> Iterator[tuple[LogSource, str]]:
        """The last lines of each pod, over its runs; reading goes on behind them."""
        for pod in pods:
            kept: deque[tuple[LogSource, str]] = deque(maxlen=tail)
            for source in log_sources((pod,)):
                if source.key in self._cursor.done:
                    continue
                chunk = persist(
                    lambda source=source: self._backend.logs(source, tail=tail),  # type: ignore[misc]
                    clock=self._clock,
                    patience=self._patience,
                )
                self._cursor.take(source, chunk)
                kept.extend((source, line) for line in chunk.lines)
            yield from kept
