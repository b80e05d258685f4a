"""A target in memory: TrainJobs that move by a script, and calls that fail when a test says so."""

from __future__ import annotations

import copy
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any

from trainer_ops.backends.base import LogChunk, LogSource, RawObject, RawObjects
from trainer_ops.backends.waker import Waker
from trainer_ops.errors import AlreadyExists, InvalidRequest, NotFound, PreconditionFailed, RuntimeNotFound
from trainer_ops.lifecycle.target import register
from trainer_ops.model.observed import Observation
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.testing import objects
from trainer_ops.testing.clock import Timer, VirtualClock
from trainer_ops.testing.exec import Commands
from trainer_ops.testing.faults import Faults
from trainer_ops.testing.shelf import Shelf
from trainer_ops.testing.training import Log, Training

__all__ = ["DEFAULT_SCRIPT", "Change", "MemoryBackend", "Script"]

Change = Callable[[Training], object]
Script = Sequence[tuple[float, Change]]

DEFAULT_RESULT = {"metrics": {"accuracy": 0.95}, "model_uri": "memory:///model", "artifacts": {}}

# One second of pending, five of running, a result.
DEFAULT_SCRIPT: Script = (
    (0, lambda t: t.pending()),
    (1, lambda t: t.running()),
    (6, lambda t: t.complete(DEFAULT_RESULT)),
)


class MemoryBackend(Commands):
    """``backends.base.Backend`` in memory, for one process.

    A TrainJob moves by the script whose pattern fits its name: pairs of seconds since it was created (or resumed) and
    a change, a function of its ``Training``. Without one it is pending for 1 s, runs for 5 s and trains::

        memory.script("digits-*", [(0, Training.pending), (2, Training.running), (5, lambda t: t.fail(exit_code=3))])

    Calls can be made to fail: ``faults.fail_next("observe", Unreachable("reset"), times=3)``,
    ``faults.lose_reply("create")``. What commands answer: ``answer``.

    Attributes:
        clock: the VirtualClock on which scripts run.
        faults: what fails.
        calls: (method, name) of every call so far.
        grace: seconds for which pods of a deleted training go on.
    """

    def __init__(
        self,
        clock: VirtualClock | None = None,
        *,
        name: str = "memory",
        namespace: str = "default",
        runtimes: Sequence[Mapping[str, Any]] | None = None,
        grace: float = 2.0,
    ) -> None:
        super().__init__()
        self.clock = clock or VirtualClock()
        self.faults = Faults()
        self.calls: list[tuple[str, str]] = []
        self.grace = grace
        self._target = f"memory://{name}"
        self._namespace = namespace
        self._shelf = Shelf(runtimes)
        self._scripts: list[list[Any]] = []
        self._trainings: dict[str, Training] = {}
        self._leaving: dict[str, list[RawObject]] = {}
        self._past: dict[str, Training] = {}
        self._watches: dict[str, weakref.WeakSet[Waker]] = {}
        self._watches_of_all: weakref.WeakSet[Waker] = weakref.WeakSet()
        self._timers: dict[str, list[Timer]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        _open[name] = self

    # For tests

    def script(self, pattern: str, steps: Script, *, times: int | None = None) -> None:
        """Let TrainJobs whose name fits ``pattern`` (``fnmatch``) move by these steps; the newest script wins.

        Args:
            pattern: such as ``digits-*`` or ``*``.
            steps: (seconds since creation or resumption, change).
            times: use it for so many TrainJobs only, such as 1 for a first attempt that fails.
        """
        self._scripts.insert(0, [pattern, tuple(steps), times])

    def training(self, name: str) -> Training:
        """The training of that name, to be looked at; change it with ``change``.

        Raises:
            NotFound: there is none.
        """
        with self._lock:
            return self._need(name)

    def change(self, name: str, change: Change) -> None:
        """Change a training now, and wake who watches it."""
        with self._lock:
            change(self._need(name))
        self._notify(name)

    def replace(self, name: str) -> str:
        """What somebody else may do: delete it and create another of the same name; returns the new uid."""
        with self._lock:
            old = self._need(name)
            manifest = {"metadata": {"name": name}, "spec": copy.deepcopy(old.job["spec"])}
            self._remove(old)
            new = self._add(manifest)
        self._notify(name)
        return new.uid

    # The port

    @property
    def target(self) -> str:
        """``memory://name``: ``open_backend`` finds it again in this process."""
        return self._target

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self._namespace

    def create(self, manifest: Mapping[str, Any]) -> RawObject:
        """Store a TrainJob and start its script."""
        name = str((manifest.get("metadata") or {}).get("name") or "")
        with self._call("create", name):
            if not name:
                raise InvalidRequest("metadata.name", "is missing", "Give it")
            if name in self._trainings:
                raise AlreadyExists(f'trainjobs "{name}" already exists', status=409)
            stored = copy.deepcopy(self._add(manifest).job)
        self._notify(name)
        return stored

    def get(self, name: str) -> RawObject | None:
        """The TrainJob, or None."""
        with self._call("get", name):
            training = self._trainings.get(name)
            return copy.deepcopy(training.job) if training else None

    def list(self, labels: Mapping[str, str] | None = None) -> RawObjects:
        """All TrainJobs with these labels, oldest first."""
        with self._call("list", ""):
            return objects.with_labels((t.job for t in self._trainings.values()), labels)

    def overview(self, labels: Mapping[str, str] | None = None) -> RawObjects:
        """The same; nothing is ever late here."""
        with self._call("overview", ""):
            return objects.with_labels((t.job for t in self._trainings.values()), labels)

    def delete(self, name: str, *, uid: str | None = None) -> bool:
        """Delete it; its pods go on for ``grace`` seconds."""
        with self._call("delete", name):
            training = self._trainings.get(name)
            if training is None:
                return False
            _precondition(training, uid)
            self._remove(training)
        self._notify(name)
        return True

    def set_suspended(self, name: str, suspended: bool, *, uid: str | None = None) -> RawObject:
        """Suspend or resume; its script starts anew when resumed."""
        with self._call("set_suspended", name):
            training = self._need(name)
            _precondition(training, uid)
            if bool(training.job["spec"]["suspend"]) != suspended and not training.finished:
                self._suspend(training) if suspended else self._resume(training)
            stored = copy.deepcopy(training.job)
        self._notify(name)
        return stored

    def pods(self, name: str, *, uid: str) -> RawObjects:
        """Its pods, those of a deleted one that still end included."""
        with self._call("pods", name):
            return copy.deepcopy(self._pods(uid))

    def events(self, name: str, *, uid: str) -> RawObjects:
        """Its newest events."""
        with self._call("events", name):
            training = self._by_uid(uid)
            return copy.deepcopy(training.events) if training else []

    def observe(self, name: str, *, now: float) -> Observation:
        """Everything about it, read together."""
        with self._call("observe", name):
            training = self._trainings.get(name)
            if training is None:
                return Observation(now, None)
            return Observation.from_raw(
                now, training.job, self._pods(training.uid), training.events, training.jobset, training.workload
            )

    def logs(
        self, source: LogSource, *, after: str = "", tail: int | None = None, limit_bytes: int = 1 << 20
    ) -> LogChunk:
        """Lines of one source; positions count lines."""
        with self._call("logs", source.pod):
            log = self._log(source)
            if log is None:
                return LogChunk(position=after)
            start = len(log.lines) - min(tail, len(log.lines)) if tail is not None else int(after or 0)
            end, size = start, 0
            while end < len(log.lines) and size < limit_bytes:
                size += len(log.lines[end].encode()) + 1
                end += 1
            more = end < len(log.lines)
            return LogChunk(tuple(log.lines[start:end]), str(end), more, log.ended and not more)

    def watch(self, name: str) -> Waker:
        """Wake-ups for its changes."""
        with self._lock:
            watches = self._watches.setdefault(name, weakref.WeakSet())
            watch = Waker(watches.discard)
            watches.add(watch)
            return watch

    def watch_all(self, labels: Mapping[str, str] | None = None) -> Waker:
        """Wake-ups for changes of any TrainJob."""
        with self._lock:
            watch = Waker(self._watches_of_all.discard)
            self._watches_of_all.add(watch)
            return watch

    def runtime(self, name: str, kind: str) -> RawObject | None:
        """The runtime of that name and kind."""
        with self._call("runtime", name):
            return self._shelf.get(name, kind)

    def runtimes(self) -> RawObjects:
        """All runtimes."""
        with self._call("runtimes", ""):
            return self._shelf.all()

    def apply_runtime(self, manifest: Mapping[str, Any]) -> RawObject:
        """Store it, in place of the one of its kind and name."""
        with self._call("apply_runtime", str(manifest["metadata"]["name"])):
            return self._shelf.apply(manifest)

    def close(self) -> None:
        """Nothing to let go of: what is in memory can be opened again."""

    # Behind it

    @contextmanager
    def _call(self, method: str, name: str) -> Iterator[None]:
        with self._lock:
            self.calls.append((method, name))
            error = self.faults.before(method)
            if error is not None:
                raise error
            yield
            error = self.faults.after(method)
        if error is not None:
            self._notify(name)
            raise error

    def _add(self, manifest: Mapping[str, Any]) -> Training:
        number = next(self._numbers)
        job = objects.stored(
            manifest, uid=objects.uid(number), namespace=self._namespace, now=self.clock.now(), version=number
        )
        reference = job["spec"]["runtimeRef"]
        raw = self._shelf.get(reference.get("name") or "", reference["kind"])
        if raw is None:
            known = [r["metadata"]["name"] for r in self._shelf.all()]
            raise RuntimeNotFound(reference.get("name") or "", target=self._target, known=known)
        runtime = TrainingRuntime.from_raw(raw)
        training = Training(
            job,
            launcher=runtime.policy == "mpi",
            num_nodes=runtime.num_nodes,
            numbers=self._numbers,
            now=self.clock.now,
        )
        self._trainings[training.name] = self._past[training.uid] = training
        training.script = self._pick(training.name)
        if job["spec"]["suspend"]:
            training.suspended()
        else:
            self._play(training)
        return training

    def _pick(self, name: str) -> Script:
        for entry in self._scripts:
            pattern, steps, times = entry
            if fnmatchcase(name, pattern) and times != 0:
                entry[2] = None if times is None else times - 1
                chosen: Script = steps
                return chosen
        return DEFAULT_SCRIPT

    def _play(self, training: Training) -> None:
        timers = self._timers.setdefault(training.uid, [])
        for seconds, change in training.script:
            if seconds <= 0:
                change(training)
            else:
                timers.append(self.clock.after(seconds, lambda change=change: self._step(training, change)))  # type: ignore[misc]

    def _step(self, training: Training, change: Change) -> None:
        with self._lock:
            if self._trainings.get(training.name) is not training:
                return
            change(training)
        self._notify(training.name)

    def _still(self, training: Training) -> None:
        for timer in self._timers.pop(training.uid, ()):
            timer.cancel()

    def _suspend(self, training: Training) -> None:
        self._still(training)
        self._let_go(training)
        training.suspended()

    def _resume(self, training: Training) -> None:
        training.resumed()
        self._play(training)

    def _remove(self, training: Training) -> None:
        self._still(training)
        del self._trainings[training.name]
        self._let_go(training)

    def _let_go(self, training: Training) -> None:
        """Its pods end after the grace period; until then they are listed."""
        leaving = training.stop(self.grace)
        if leaving:
            self._leaving.setdefault(training.uid, []).extend(leaving)
            self.clock.after(self.grace, lambda: self._gone(training, leaving))

    def _gone(self, training: Training, pods: RawObjects) -> None:
        with self._lock:
            left = [pod for pod in self._leaving.get(training.uid, ()) if pod not in pods]
            self._leaving[training.uid] = left
            for pod in pods:
                for (uid, _), log in training.logs.items():
                    log.ended = log.ended or uid == pod["metadata"]["uid"]
        self._notify(training.name)

    def _pods(self, uid: str) -> RawObjects:
        training = self._by_uid(uid)
        standing = training.pods if training is not None and self._trainings.get(training.name) is training else []
        return [*standing, *self._leaving.get(uid, ())]

    def _by_uid(self, uid: str) -> Training | None:
        return self._past.get(uid)

    def _log(self, source: LogSource) -> Log | None:
        key = (source.pod_uid, source.restart)
        return next((training.logs[key] for training in self._past.values() if key in training.logs), None)

    def _need(self, name: str) -> Training:
        training = self._trainings.get(name)
        if training is None:
            raise NotFound(f'trainjobs "{name}" not found', status=404)
        return training

    def _notify(self, name: str) -> None:
        with self._lock:
            watches = (*self._watches.get(name, ()), *self._watches_of_all)
        for watch in watches:
            watch.notify()


def _precondition(training: Training, uid: str | None) -> None:
    if uid is not None and uid != training.uid:
        raise PreconditionFailed(f'the uid of "{training.name}" is {training.uid}, not {uid}', status=409)


_open: weakref.WeakValueDictionary[str, MemoryBackend] = weakref.WeakValueDictionary()


def _reopen(target: str) -> MemoryBackend:
    found = _open.get(target.removeprefix("memory://"))
    if found is None:
        raise InvalidRequest("target", f"there is no {target} in this process", "Make a MemoryBackend of that name")
    return found


register("memory", _reopen)
