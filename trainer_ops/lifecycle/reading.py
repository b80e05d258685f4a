"""Reading logs within a wait: bounded memory, fair over the nodes, and never a reason to fail."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence

from trainer_ops.backends.base import LogChunk, LogSource
from trainer_ops.errors import Forbidden
from trainer_ops.lifecycle.cursor import CHUNK_BYTES, TAIL_LINES, LogCursor, Tails, due_runs
from trainer_ops.lifecycle.effects import Effect, Part, Pause, ReadLogs, Reply
from trainer_ops.lifecycle.listener import Listener
from trainer_ops.lifecycle.restarts import Restarts
from trainer_ops.model.observed import Observation, ObservedPod

__all__ = ["TURN_BYTES", "Reader"]

# What one turn reads before it looks at the training again: with more to read it looks, but does not sleep.
TURN_BYTES = 4 << 20

# A training without followed logs has its failed nodes' tails read, of this many at most.
_TAILED_NODES = 20


class Reader:
    """Reads what is new and keeps each node's last lines.

    Attributes:
        tails: the last lines of each node.
        behind: there was more to read when the last turn ended.
    """

    def __init__(self, listener: Listener, cursor: LogCursor, *, follow: bool) -> None:
        self.tails = Tails()
        self.behind = False
        self._listener = listener
        self._cursor = cursor
        self._follow = follow
        self._restarts = Restarts()
        self._pods: dict[str, ObservedPod] = {}
        self._off = False
        self._away = False

    def turn(self, obs: Observation) -> Part:
        """Read new lines of all sources, at most ``TURN_BYTES``; without ``follow`` only tails of failed runs."""
        self._restarts.see(obs.pods)
        # A pod that is gone is forgotten one turn later than it was seen: its last lines may still be readable.
        pods, self._pods = self._pods, {pod.uid: pod for pod in obs.pods}
        pods.update(self._pods)
        if self._follow:
            yield from self._read(tuple(pods.values()), TURN_BYTES)
        else:
            yield from self._read_failed(tuple(pods.values()))
        for text in self._restarts.rest():
            self._listener.on_note(text)

    def finish(self, *, failed: bool) -> Part:
        """Read all that is left, however much: the training is over, so it ends."""
        pods = tuple(self._pods.values())
        if not self._follow:
            if failed:
                yield from self._read_tails([runs[-1] for runs in due_runs(pods, self._cursor)])
            return
        self.behind = True
        while self.behind:
            yield from self._read(pods, TURN_BYTES)
        if self._away:
            yield Pause(2.0)
            yield from self._read(pods, TURN_BYTES)

    def _read(self, pods: Sequence[ObservedPod], budget: int) -> Part:
        self.behind = self._away = False
        if self._off:
            return
        # Round and round over the pods, one chunk each, so that a chatty node does not keep the others waiting.
        waiting: deque[deque[LogSource]] = deque(due_runs(pods, self._cursor))
        while waiting and budget > 0:
            runs = waiting.popleft()
            chunk = yield from self._chunk(runs[0])
            if chunk is None:
                if self._halted():
                    return
                continue
            budget -= _size(chunk)
            if not chunk.more:
                runs.popleft()
            if runs:
                waiting.append(runs)
        self.behind = bool(waiting)

    def _read_failed(self, pods: Sequence[ObservedPod]) -> Part:
        """A run that failed is read at once: a stock runtime deletes failed pods with their logs."""
        failed = {pod.uid: pod for pod in pods if _failed_runs(pod)}
        sources = [s for runs in due_runs(tuple(failed.values()), self._cursor) for s in runs]
        yield from self._read_tails([s for s in sources if s.restart < _failed_runs(failed[s.pod_uid])])

    def _read_tails(self, sources: Sequence[LogSource]) -> Part:
        for source in sources[:_TAILED_NODES]:
            if self._off:
                return
            chunk = yield from self._chunk(source, tail=TAIL_LINES)
            if chunk is not None:
                self._cursor.close(source)

    def _chunk(self, source: LogSource, tail: int | None = None) -> Generator[Effect, Reply, LogChunk | None]:
        reply = yield ReadLogs(source, self._cursor.after(source), tail, CHUNK_BYTES)
        if reply.error is not None:
            self._excuse(reply.error)
            return None
        chunk: LogChunk = reply.value
        note = self._restarts.reached(source)
        if note:
            self._listener.on_note(note)
        if chunk.lines:
            self.tails.add(source.node, chunk.lines)
            if self._follow:
                self._listener.on_lines(source, chunk.lines)
        self._cursor.take(source, chunk)
        return chunk

    def _halted(self) -> bool:
        """No source can be read now."""
        return self._off or self._away

    def _excuse(self, error: Exception) -> None:
        """Logs never fail a run: forbidden ones are given up with a note, others are tried again in the next turn."""
        if isinstance(error, Forbidden):
            self._off = True
            self._listener.on_note(f"going on without logs: {error}")
        elif getattr(error, "retryable", False):
            self._away = True


def _size(chunk: LogChunk) -> int:
    # Every read costs something, or a source that says "more" and gives nothing would be asked for ever.
    return sum(len(line) + 1 for line in chunk.lines) or 1024


def _failed_runs(pod: ObservedPod) -> int:
    """How many of its runs, from the first on, are over with the last of them a failure."""
    main = pod.main
    if main is None:
        return 0
    if main.terminated is not None:
        return main.restarts + 1 if main.terminated.exit_code else main.restarts
    if main.state == "waiting" and main.last is not None:
        return main.restarts + 1
    return main.restarts
