"""The port: what a target (a cluster, this machine, memory) must be able to do.

Objects are plain dicts in the shape of the Kubernetes API. Every method may raise ``errors.Forbidden`` and
``errors.Unreachable``; others are named. A method never waits for a training: it asks once and answers (``exec``
waits for its own command).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trainer_ops.model.observed import Observation, ObservedPod

__all__ = [
    "Backend",
    "LogChunk",
    "LogSource",
    "RawObject",
    "RawObjects",
    "Streams",
    "Terminal",
    "Watch",
    "log_sources",
]

RawObject = dict[str, Any]
RawObjects = list[RawObject]


@dataclass(frozen=True, slots=True)
class LogSource:
    """One run of one container.

    Attributes:
        node: the name a person sees (``node-1``, ``launcher``, ``dataset-initializer``).
        pod: the pod's name.
        pod_uid: the pod's uid: a pod made again under the same name is another source.
        container: the container's name.
        restart: which run of the container, counted from 0 (its ``restartCount`` at that time).
    """

    node: str
    pod: str
    pod_uid: str
    container: str
    restart: int = 0

    @property
    def key(self) -> str:
        """Plain text that tells this source from all others; what a log position is stored under."""
        return f"{self.pod}/{self.pod_uid}/{self.container}/{self.restart}"


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Some lines of one source.

    Attributes:
        lines: without line ends; invalid UTF-8 replaced; a line longer than 64 KiB comes in parts.
        position: opaque text from which the next call goes on, without loss or repeat; plain, for any process.
        more: the limit was reached and more can be read at once.
        ended: this run of the container is over and everything of it was read.
    """

    lines: tuple[str, ...] = ()
    position: str = ""
    more: bool = False
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal that a command is to have.

    Attributes:
        size: its (columns, rows) now.
        changed: a descriptor from which one byte can be read for each change of the size; None: it never changes.
    """

    size: Callable[[], tuple[int, int]] = lambda: (80, 24)
    changed: int | None = None


@dataclass(frozen=True, slots=True)
class Streams:
    """What a command reads and writes: open file descriptors of the caller, which stay open.

    Attributes:
        stdin: None: it finds the end at once.
        terminal: None: none, and stdout and stderr are apart. With one, both come through ``stdout``.
    """

    stdin: int | None = None
    stdout: int = 1
    stderr: int = 2
    terminal: Terminal | None = None


class Watch(Protocol):
    """Wakes a waiter when something that it watches changed. A cheap object; spurious wakes are allowed."""

    def wait(self, timeout: float) -> bool:
        """Block for a change, at most ``timeout`` seconds; whether there was one."""

    async def wait_async(self, timeout: float) -> bool:
        """The same without blocking the event loop."""

    def close(self) -> None:
        """Let go of it; idempotent."""


class Backend(Protocol):
    """A target. Safe to share between threads."""

    @property
    def target(self) -> str:
        """The URL that opens the same target again: ``local:///dir``, ``kubernetes://context/namespace``."""

    @property
    def namespace(self) -> str:
        """The namespace that all names are in."""

    def create(self, manifest: Mapping[str, Any]) -> RawObject:
        """Store a TrainJob and start it; returns it as stored (with uid).

        Raises:
            AlreadyExists: the name is taken. Nothing was changed.
            RuntimeNotFound: no such runtime. Nothing was created.
            InvalidRequest: the target cannot run it. Nothing was created.
            Rejected: the target's admission refused it. Nothing was created.
        """

    def get(self, name: str) -> RawObject | None:
        """The TrainJob, or None when there is none of that name."""

    def list(self, labels: Mapping[str, str] | None = None) -> RawObjects:
        """All TrainJobs that carry all these labels with these values, oldest first."""

    def overview(self, labels: Mapping[str, str] | None = None) -> RawObjects:
        """``list`` as it was last heard of, without what a wait has no use for (the code in ``spec.trainer``).

        While ``watch_all`` is held it asks the target for nothing. It is shared: not to be changed. What was created a
        moment ago may not be in it yet: nothing that creates may decide by it.
        """

    def delete(self, name: str, *, uid: str | None = None) -> bool:
        """Delete it and stop what it runs (SIGTERM, grace, SIGKILL); False when there is none of that name.

        Returns at once: processes may go on for their grace period; ``pods(name, uid=…)`` lists them until they end.

        Raises:
            PreconditionFailed: ``uid`` is given and is not that of the TrainJob of this name.
        """

    def set_suspended(self, name: str, suspended: bool, *, uid: str | None = None) -> RawObject:
        """Suspend (its processes are stopped as by delete) or resume (they start anew).

        Raises:
            NotFound: no TrainJob of that name.
            PreconditionFailed: as ``delete``.
        """

    def pods(self, name: str, *, uid: str) -> RawObjects:
        """Pods of that TrainJob, those of a deleted one that still end included."""

    def events(self, name: str, *, uid: str) -> RawObjects:
        """The newest events (at most 200) about the TrainJob and what it owns."""

    def observe(self, name: str, *, now: float) -> Observation:
        """Everything that ``status`` judges by, read together."""

    def logs(
        self, source: LogSource, *, after: str = "", tail: int | None = None, limit_bytes: int = 1 << 20
    ) -> LogChunk:
        """Lines of one source after a position ("" is the start), or its last ``tail`` lines.

        A container that has not started, or whose log is gone, gives an empty chunk: not an error.
        """

    def watch(self, name: str) -> Watch:
        """Wake-ups for changes of that TrainJob, its pods and its logs."""

    def watch_all(self, labels: Mapping[str, str] | None = None) -> Watch:
        """Wake-ups for changes of the TrainJobs with all these labels, their coming and going, and of what they own.

        However many hold one, they cost a cluster what one ``watch`` costs it.
        """

    def exec(self, pod: str, container: str, argv: Sequence[str], streams: Streams) -> int:
        """Run a command in a running container, in its environment and folder, and wait for the command's end.

        The command belongs to the container and is killed with it. Never tried again: what it did is not known here.

        Returns:
            Its exit code, 128 + n after signal n; 127 and 126 for one that is not there or cannot be run, after a line
            that says so on ``stderr``: as in a shell.

        Raises:
            NotFound: no such pod or container, or it does not run.
            Unreachable: no connection, or it broke off; the command may go on then.
            KeyboardInterrupt: the caller was interrupted and the target cannot pass it on; the command may go on.
        """

    def runtime(self, name: str, kind: str) -> RawObject | None:
        """The ClusterTrainingRuntime or TrainingRuntime of that name; None when there is none."""

    def runtimes(self) -> RawObjects:
        """All runtimes that a TrainJob here may name."""

    def apply_runtime(self, manifest: Mapping[str, Any]) -> RawObject:
        """Make the runtime be as the manifest says: created, or its ``spec`` replaced; returns it as stored.

        Labels and annotations are added to those that it has. Equal ones are stored once: nothing is written then.

        Raises:
            InvalidRequest: it belongs elsewhere (another namespace, a file of somebody else). Nothing was changed.
            Rejected: the target's admission refused it. Nothing was changed.
        """

    def close(self) -> None:
        """Let go of connections; idempotent."""


def log_sources(pods: tuple[ObservedPod, ...]) -> tuple[LogSource, ...]:
    """The sources that these pods have had so far, in the order in which a person reads them.

    Initializers first, then the launcher, then the nodes by index; of each the earlier restarts before the later.
    The sidecars and init containers of a pod are left out: what people ask for is what their code printed.
    """
    order = {"dataset-initializer": 0, "model-initializer": 1, "launcher": 2}
    found: list[LogSource] = []
    for pod in sorted(pods, key=lambda p: (order.get(p.step, 3), p.step, p.index, p.attempt, p.created_at or 0.0)):
        main = pod.main
        if main is None:
            continue
        found.extend(LogSource(pod.node, pod.name, pod.uid, main.name, run) for run in range(main.restarts + 1))
    return tuple(found)
