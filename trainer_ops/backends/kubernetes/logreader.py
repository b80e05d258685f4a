"""Reads logs through the API server: the requests behind ``podlogs``'s rules.

One log request a turn and container; beside it the pod is asked for only where no hub mirrors it, or where an answer
does not prove which run of the container it is of. An answer that is longer than what was asked for at once stays open
for the next call: a log of 200 MB is read in one request, a piece at a time, and no line of it twice.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trainer_ops.backends.base import LogChunk, LogSource
from trainer_ops.backends.kubernetes.client import TIMEOUT, Cluster
from trainer_ops.backends.kubernetes.podlogs import Gap, Position, Reading, Run, lines_of, run_of, window
from trainer_ops.backends.kubernetes.stream import chunks
from trainer_ops.errors import NotFound, Rejected, Unreachable
from trainer_ops.model.times import parse_time

__all__ = ["LogReader"]

# Seconds behind the position that are asked for: at first, and then when an answer turns out to begin too late.
_MARGINS = (2.0, 12.0, 120.0)
# What a margin may be when the node's clock is known: a line is at most about so old when it is first read.
_SPARE = 3.0
_OPEN_ANSWERS = 16
_OPEN_SECONDS = 60.0
# The kubelet, not the API server, is away: its other nodes can still be read.
_NODE_AWAY = re.compile(r"/containerLogs/|proxy error from|No agent available|kubelet|nodes? \"[^\"]+\" not found")


@dataclass(slots=True)
class _Answer:
    """An open answer. ``over``: the run had ended before it was asked for, so the answer's end is the log's."""

    response: Any
    reading: Reading
    over: bool
    parked_at: float = 0.0


class LogReader:
    """Reads the logs of one namespace. Safe for threads."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        *,
        mirrored: Callable[[str], dict[str, Any] | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make it.

        Args:
            cluster: where.
            namespace: in which.
            mirrored: a pod by name, as a live hub has it; None when it must be asked for.
            clock: seconds since the epoch.
        """
        self._cluster = cluster
        self._namespace = namespace
        self._mirrored = mirrored
        self._clock = clock
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[str, str], _Answer] = OrderedDict()
        self._margins: OrderedDict[str, float] = OrderedDict()

    def read(self, source: LogSource, after: str, tail: int | None, limit_bytes: int) -> LogChunk:
        """See ``base.Backend.logs``."""
        answer = None if tail else self._unpark(source, after)
        if answer is not None:
            return self._piece(source, answer, limit_bytes)
        run = self._run(source)
        if run is None or not run.restarts - 1 <= source.restart <= run.restarts:
            return LogChunk(position=after, ended=True)
        if run.unborn:
            return LogChunk(position=after)
        try:
            return self._ask(source, run, after, tail, limit_bytes)
        except NotFound:
            return LogChunk(position=after, ended=True)
        except Rejected:
            # 400: the container waits to start again, or that run's log is not kept any more.
            return LogChunk(position=after, ended=run.over or source.restart < run.restarts)
        except Unreachable as exc:
            if _NODE_AWAY.search(exc.message):
                return LogChunk(position=after)
            raise

    def close(self) -> None:
        """Close what is open."""
        with self._lock:
            answers = list(self._open.values())
            self._open.clear()
        for answer in answers:
            answer.response.close()

    # -- one request ------------------------------------------------------------------------------------------------

    def _ask(self, source: LogSource, run: Run, after: str, tail: int | None, limit_bytes: int) -> LogChunk:
        position = Position() if tail else Position.parse(after)
        known = self._margin(source)
        margins = [known, *(margin for margin in _MARGINS if margin > known)] if position.stamp else []
        # At last from the start, and taken as it is: what lies between was rotated away.
        for margin in [*margins, None]:
            seconds = None if margin is None else window(position, self._clock(), margin)
            answer = self._request(source, run, position, tail, seconds)
            try:
                chunk = self._piece(source, answer, limit_bytes, check=run)
            except Gap:
                answer.response.close()
                continue
            except BaseException:
                answer.response.close()
                raise
            if margin is not None and answer.reading.whole:
                self._learn_margin(source, chunk, margin)
            return chunk
        raise AssertionError("an answer that is taken as it is has no gap")

    def _request(
        self, source: LogSource, run: Run, position: Position, tail: int | None, seconds: int | None
    ) -> _Answer:
        options: dict[str, Any] = {
            "container": source.container,
            "timestamps": True,
            "_preload_content": False,
            "_request_timeout": TIMEOUT,
        }
        if source.restart < run.restarts:
            options["previous"] = True
        if tail:
            options["tail_lines"] = tail
        elif seconds is not None:
            options["since_seconds"] = seconds
        what = f"reading the log of {source.pod}"
        response = self._cluster.send(
            what, lambda apis: apis.core.read_namespaced_pod_log(source.pod, self._namespace, **options), tries=2
        )
        lines = lines_of(chunks(response, what))
        reading = Reading(lines, position, strict=seconds is not None, tail=bool(tail))
        return _Answer(response, reading, run.over or source.restart < run.restarts)

    def _piece(self, source: LogSource, answer: _Answer, limit_bytes: int, *, check: Run | None = None) -> LogChunk:
        """Some lines of an answer; unless it proves itself, the container must still be in the run of ``check``."""
        reading = answer.reading
        before = str(reading.position)
        lines = reading.take(limit_bytes)
        if check is not None and lines and not reading.proven and not self._is_still(source, check):
            # A restart lies between: these may be the next run's lines, which are read under its own number.
            answer.response.close()
            return LogChunk(position=before)
        if reading.collected:
            answer.response.close()
            return LogChunk(lines, str(reading.position), ended=True)
        if not reading.whole:
            self._park(source, answer)
            return LogChunk(lines, str(reading.position), more=True)
        answer.response.release_conn()
        return LogChunk(lines, str(reading.position), ended=answer.over)

    def _is_still(self, source: LogSource, run: Run) -> bool:
        now = self._run(source, fresh=True)
        return now is not None and now.restarts == run.restarts

    def _run(self, source: LogSource, *, fresh: bool = False) -> Run | None:
        """Where the container stands; None when that very pod is gone."""
        pod = None if fresh else self._mirrored(source.pod)
        if pod is None or pod["metadata"].get("uid") != source.pod_uid:
            try:
                pod = self._cluster.call(
                    f"reading pod {source.pod}",
                    lambda apis: apis.core.read_namespaced_pod(
                        source.pod, self._namespace, _preload_content=False, _request_timeout=TIMEOUT
                    ),
                )
            except NotFound:
                return None
        return run_of(pod, source.container) if pod["metadata"].get("uid") == source.pod_uid else None

    # -- answers that stay open -------------------------------------------------------------------------------------

    def _park(self, source: LogSource, answer: _Answer) -> None:
        answer.parked_at = self._clock()
        with self._lock:
            old = self._open.pop((source.key, str(answer.reading.position)), None)
            self._open[source.key, str(answer.reading.position)] = answer
            surplus = [self._open.popitem(last=False)[1] for _ in range(len(self._open) - _OPEN_ANSWERS)]
        for one in (*surplus, *([old] if old else [])):
            one.response.close()

    def _unpark(self, source: LogSource, after: str) -> _Answer | None:
        now = self._clock()
        with self._lock:
            found = self._open.pop((source.key, after), None)
            aged = [key for key, answer in self._open.items() if now - answer.parked_at > _OPEN_SECONDS]
            stale = [self._open.pop(key) for key in aged]
        for answer in stale:
            answer.response.close()
        if found is not None and now - found.parked_at > _OPEN_SECONDS:
            found.response.close()
            return None
        return found

    # -- what is known of a node's clock ----------------------------------------------------------------------------

    def _margin(self, source: LogSource) -> float:
        with self._lock:
            return self._margins.get(source.pod_uid, _MARGINS[0])

    def _learn_margin(self, source: LogSource, chunk: LogChunk, used: float) -> None:
        """Keep what was enough; less, when the newest line's age says that the node's clock is behind this one."""
        newest = parse_time(Position.parse(chunk.position).stamp) if chunk.lines else None
        margin = used if newest is None else min(used, _SPARE - (self._clock() - newest))
        with self._lock:
            self._margins[source.pod_uid] = margin
            self._margins.move_to_end(source.pod_uid)
            while len(self._margins) > 4096:
                self._margins.popitem(last=False)
