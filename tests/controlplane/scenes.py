"""Many trainings at once on the control plane, each with something that happens to it and an end that is expected.

A ``Case`` is one training: what is asked for, what befalls it (``act``, in a thread beside the wait), and how the wait
must end. ``play`` runs all of them together, by ``submit`` and ``adrive`` as the front ends do, in one namespace: so
they share one hub, and the slowest of them is what all cost.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.controlplane.fixtures import Cluster
from tests.controlplane.manual import Hand
from tests.controlplane.plane import wait_until
from tests.controlplane.scene_runtimes import AGAIN, FETCHING, NEVER
from tests.controlplane.story import Movable, Story, noted_rows
from trainer_ops.backends.kubernetes.hub import end_idle
from trainer_ops.lifecycle.drive import adrive, drive
from trainer_ops.lifecycle.submit import submit
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model.identity import JobRef, RunKey
from trainer_ops.model.outcome import Category
from trainer_ops.model.phase import Phase
from trainer_ops.model.request import TrainRequest
from trainer_ops.status.wait import Wait

__all__ = ["Case", "Ends", "Scene", "check", "play", "sh"]

_THREADS = 64


def sh(script: str) -> list[str]:
    """A command: cheaper to start than a Python."""
    return ["sh", "-c", script]


@dataclass(frozen=True)
class Ends:
    """How a wait must end.

    Attributes:
        category: None for a success.
        says: what must stand in the summary.
        proof: what must stand in the evidence.
        remedy: what must stand in the remedy.
        alive: whether the TrainJob is still there afterwards.
        other: another of that name is there afterwards, untouched.
    """

    phase: Phase
    category: Category | None = None
    says: tuple[str, ...] = ()
    proof: tuple[str, ...] = ()
    remedy: str = ""
    alive: bool = True
    other: bool = False


def _nothing(scene: Scene) -> None:
    """Nothing befalls it."""


@dataclass(frozen=True)
class Case:
    """One training.

    Attributes:
        how: how its rows are reached, for the table that a person reads.
        rows: rows of the decision table that the wait must come through.
        ends: how the wait must end.
        act: what befalls it.
        asks: fields of the request beside ``name``; runtime and command have defaults.
        held: the kubelet leaves its pods to ``Scene.hand``.
        seen: (phase, text) that must have been shown while waiting.
        own_thread: waits by ``drive`` in a thread of its own, not by ``adrive``.
        target: what to wait at, instead of the scene's own target.
        begin: makes the TrainJob, or only names it; None: ``submit`` does.
    """

    how: str
    rows: tuple[int, ...]
    ends: Ends
    act: Callable[[Scene], None] = _nothing
    asks: Mapping[str, Any] = field(default_factory=dict)
    held: bool = False
    seen: tuple[tuple[Phase, str], ...] = ()
    own_thread: bool = False
    target: Callable[[Scene], str] | None = None
    begin: Callable[[Scene], JobRef] | None = None


class Scene:
    """One case while it is played.

    Attributes:
        name: the case's.
        story: what the wait is told.
        clock: what it sleeps by.
    """

    def __init__(self, name: str, case: Case, cluster: Cluster, namespace: str) -> None:
        self.name, self.case, self.cluster, self.namespace = name, case, cluster, namespace
        self.api = cluster.api
        self.story, self.clock = Story(), Movable()
        self._hand = Hand(cluster, namespace, f"{name}-*") if case.held else None
        self.backend = open_backend(self.target)
        self.ref: JobRef | None = None

    @property
    def target(self) -> str:
        """The URL of its target."""
        own = f"kubernetes:///{self.namespace}?kubeconfig={self.cluster.kubeconfig}"
        return own if self.case.target is None else self.case.target(self)

    @property
    def request(self) -> TrainRequest:
        """What it asks for."""
        asks = dict(self.case.asks)
        if "manifest" in asks:
            return TrainRequest(**asks)
        runtime = {"runtime": NEVER, "runtime_kind": "TrainingRuntime"} if "runtime" not in asks else {}
        if asks.get("runtime") in (AGAIN, FETCHING):
            runtime = {"runtime_kind": "TrainingRuntime"}
        return TrainRequest(**{"name": self.name, "command": sh("sleep 300"), **runtime, **asks})

    # -- for acts ---------------------------------------------------------------------------------------------------

    @property
    def hand(self) -> Hand:
        """Drives its pods."""
        assert self._hand is not None, "not held"
        return self._hand

    @property
    def job(self) -> str:
        """The TrainJob's name; waits until it is known."""
        self.story.until("the TrainJob", lambda _: self.ref is not None)
        assert self.ref is not None
        return self.ref.name

    def pods(self, count: int = 1, step: str = "") -> list[dict[str, Any]]:
        """Wait for so many pods of it, of one step."""
        name = f"{self.job}-{step}" if step else self.job
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = [
                pod
                for pod in self.cluster.pods(self.namespace, self.job)
                if pod["metadata"]["name"].startswith(f"{name}-")
                and pod["spec"].get("nodeName")
                and not pod["metadata"].get("deletionTimestamp")
                and (pod.get("status") or {}).get("phase") not in ("Failed", "Succeeded")
            ]
            return len(found) >= count

        self.wait_for(f"{count} pods of {name}", there)
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        """Ask the cluster again and again until something holds, or the wait is over."""

        def done() -> bool:
            assert not self.story.over, f"over before {what}: {self.story}"
            return holds()

        wait_until(what, done, seconds=90)

    def now(self, phase: Phase, text: str = "") -> None:
        """Wait until the wait has told of this state."""
        self.story.now(phase, text)

    def outlast(self, phase: Phase, text: str = "", *, seconds: float = 1e6) -> None:
        """Wait until the wait has told of this state, then let time pass."""
        self.now(phase, text)
        self.clock.move(seconds)

    def suspend(self, suspended: bool) -> None:
        """As a person does it with kubectl."""
        self.api.patch("TrainJob", self.job, {"spec": {"suspend": suspended}}, namespace=self.namespace)

    def delete(self, kind: str = "TrainJob", **options: Any) -> None:
        """As a person does it with kubectl."""
        self.api.delete(kind, self.job, namespace=self.namespace, body=options or None)

    # -- playing ----------------------------------------------------------------------------------------------------

    def key(self, generation: int = 0) -> RunKey:
        """Who asks for it."""
        parts = {"case": self.name, "namespace": self.namespace}
        return RunKey.of("test", parts, generation=generation, slug=self.name)

    def submit(self) -> Wait:
        """Make the TrainJob, and the wait for it."""
        request = self.request
        if self.case.begin is not None:
            self.ref = self.case.begin(self)
            return Wait.begin(self.ref, request.limits, now=self.clock.now())
        self.story.submitted = submit(self.backend, request, self.key(), clock=self.clock)
        self.ref = self.story.submitted.ref
        return Wait.begin(self.ref, request.limits, now=self.clock.now(), attempt=self.story.submitted.attempt)

    def close(self) -> None:
        """Leave nothing of it."""
        self.backend.close()
        if self.ref is not None:
            standing = self.api.get("TrainJob", self.ref.name, namespace=self.namespace)
            self.story.standing = standing["metadata"]["uid"] if standing else ""
            self.api.delete("TrainJob", self.ref.name, namespace=self.namespace)


def play(cluster: Cluster, namespace: str, cases: Mapping[str, Case]) -> dict[str, Scene]:
    """Play all cases at once; returns when each has ended or has failed, which its story says."""
    scenes = {name: Scene(name, case, cluster, namespace) for name, case in cases.items()}
    with noted_rows(), ThreadPoolExecutor(_THREADS) as threads:
        asyncio.run(_play(list(scenes.values()), threads))
    cluster.kubelet.release(namespace)
    assert end_idle()
    return scenes


async def _play(scenes: list[Scene], threads: ThreadPoolExecutor) -> None:
    await asyncio.gather(*(_one(scene, threads) for scene in scenes))


async def _one(scene: Scene, threads: ThreadPoolExecutor) -> None:
    loop = asyncio.get_running_loop()
    acting = loop.run_in_executor(threads, scene.case.act, scene)
    waiting = asyncio.ensure_future(_wait(scene, threads))
    done, _ = await asyncio.wait([acting, waiting], return_when=asyncio.FIRST_EXCEPTION)
    if acting in done and acting.exception() is not None:
        # What went wrong in the act is what to tell; the wait would go on for ever.
        error = acting.exception()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        scene.story.end(None, error)
    await asyncio.gather(acting, waiting, return_exceptions=True)
    await loop.run_in_executor(threads, scene.close)


async def _wait(scene: Scene, threads: ThreadPoolExecutor) -> None:
    loop = asyncio.get_running_loop()
    try:
        wait = await loop.run_in_executor(threads, scene.submit)
        if scene.case.own_thread:
            outcome = await loop.run_in_executor(
                threads, lambda: drive(scene.backend, wait, clock=scene.clock, listener=scene.story)
            )
        else:
            outcome = await adrive(scene.backend, wait, clock=scene.clock, listener=scene.story)
        scene.story.end(outcome, None)
    except Exception as error:
        scene.story.end(None, error)


def check(scene: Scene) -> None:
    """Hold what was told against what was expected."""
    story, ends = scene.story, scene.case.ends
    if story.error is not None:
        raise AssertionError(f"{''.join(traceback.format_exception(story.error))}\n{story}")
    outcome = story.outcome
    assert outcome is not None
    diagnosis = outcome.diagnosis
    assert (outcome.phase, diagnosis and diagnosis.category) == (ends.phase, ends.category), str(story)
    for phase, text in scene.case.seen:
        assert story.was(phase, text), f"never {phase} {text!r}: {story}"
    missing = set(scene.case.rows) - story.rows
    assert not missing, f"rows never reached: {missing}: {story}"
    if diagnosis is not None:
        for text in ends.says:
            assert text in diagnosis.summary, str(diagnosis)
        for text in ends.proof:
            assert any(text in line for line in diagnosis.evidence), f"{text!r} is not in {diagnosis}"
        assert ends.remedy in diagnosis.remedy, str(diagnosis)
    assert scene.ref is not None
    assert bool(story.standing) == (ends.alive or ends.other), str(story)
    if scene.ref.uid and story.standing:
        assert (story.standing != scene.ref.uid) == ends.other, str(story)
