"""Five hundred trainings waited for by one process: what is right, and what it costs."""

from __future__ import annotations

import asyncio
import collections
import resource
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster
from tests.faults.proxy import FaultProxy
from trainer_ops.backends.kubernetes.backend import KubernetesBackend
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.drive import adrive
from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.status.wait import Wait

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(540)]

MANY = 500
RESULT = '{"metrics": {"accuracy": 0.5}}'


def test_five_hundred_at_once(
    backend: KubernetesBackend,
    proxy: FaultProxy,
    control_plane: Cluster,
    cluster_namespace: str,
    manifest: Callable[..., dict[str, Any]],
) -> None:
    control_plane.kubelet.instant(cluster_namespace, "good-*", seconds=20, message=RESULT, lines="trained\n")
    control_plane.kubelet.instant(cluster_namespace, "bad-*", seconds=20, code=3, lines="oh\n")
    clock, peak = RealClock(), 0
    trainer = {"numNodes": 1, "command": ["true"]}

    async def one(number: int) -> Outcome:
        name = f"{'bad' if number % 10 == 0 else 'good'}-{number}"
        made = await asyncio.to_thread(backend.create, manifest(name, trainer=trainer, suspend=False))
        ref = JobRef(backend.target, backend.namespace, name, made["metadata"]["uid"])
        return await adrive(backend, Wait.begin(ref, Limits(max_restarts=0), now=clock.now()), clock=clock)

    async def all_of_them() -> list[Outcome]:
        nonlocal peak
        waiting = [asyncio.create_task(one(number)) for number in range(MANY)]
        while not all(task.done() for task in waiting):
            peak = max(peak, threading.active_count())
            await asyncio.sleep(0.5)
        return [await task for task in waiting]

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes = asyncio.run(all_of_them())
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    phases = collections.Counter(outcome.phase.value for outcome in outcomes)
    requests = collections.Counter(f"{r.method} {r.plural}" for r in proxy.seen(watch=False))
    print(f"\n{MANY} waiters: +{grown} kB, {peak} threads, {dict(requests)}")
    assert phases == {"succeeded": MANY * 9 // 10, "failed": MANY // 10}
    trained = [outcome for outcome in outcomes if outcome.phase is Phase.SUCCEEDED]
    assert [dict(outcome.metrics) for outcome in trained] == [{"accuracy": 0.5}] * len(trained)
    assert proxy.most_open == {"trainjobs": 1, "pods": 1, "events": 1, "jobsets": 1}
    assert grown < 300_000
