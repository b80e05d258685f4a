"""What every target does alike with all of its TrainJobs at once, and with its runtimes."""

from __future__ import annotations

import asyncio
import copy
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.backends.base import Backend
from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model import keys

Make = Callable[..., dict[str, Any]]
WaitFor = Callable[[Callable[[], Any]], Any]


def names(raws: list[dict[str, Any]]) -> list[str]:
    return [raw["metadata"]["name"] for raw in raws]


def ended(backend: Backend, name: str) -> bool:
    (raw,) = [raw for raw in backend.overview() if raw["metadata"]["name"] == name] or [{}]
    conditions = (raw.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)


class TestWatchingAll:
    def test_wakes_for_one_that_comes_and_for_its_end(
        self, backend: Backend, manifest: Make, wait_for: WaitFor
    ) -> None:
        watch = backend.watch_all()
        assert names(backend.overview()) == []
        backend.create(manifest("quick-a"))
        wait_for(lambda: watch.wait(0.01))
        wait_for(lambda: ended(backend, "quick-a") or (watch.wait(0.01) and False))
        watch.close()
        watch.close()

    def test_wakes_for_one_that_goes(self, backend: Backend, manifest: Make, wait_for: WaitFor) -> None:
        backend.create(manifest("long-a", labels={"team": "a"}, suspend=True))
        watch = backend.watch_all({"team": "a"})
        wait_for(lambda: names(backend.overview({"team": "a"})) == ["long-a"])
        while watch.wait(0.05):
            pass
        backend.delete("long-a")
        wait_for(lambda: watch.wait(0.01))
        wait_for(lambda: names(backend.overview()) == [])
        watch.close()

    def test_without_a_change_it_ends(self, backend: Backend) -> None:
        watch = backend.watch_all()
        while watch.wait(0.01):
            pass
        watch.close()

    def test_in_an_event_loop(self, backend: Backend, manifest: Make) -> None:
        async def watching() -> bool:
            watch = backend.watch_all({"team": "a"})
            try:
                waiting = asyncio.ensure_future(watch.wait_async(60.0))
                await asyncio.sleep(0)
                await asyncio.to_thread(backend.create, manifest("long-a", labels={"team": "a"}, suspend=True))
                return await waiting
            finally:
                watch.close()

        assert asyncio.run(watching()) is True


class TestOverview:
    @pytest.mark.parametrize("watched", [False, True])
    def test_gives_those_with_all_labels_oldest_first(
        self, watched: bool, backend: Backend, manifest: Make, wait_for: WaitFor
    ) -> None:
        watch = backend.watch_all() if watched else None
        for name, labels in (("long-c", {"x": "1"}), ("long-a", {"x": "1", "y": "2"}), ("long-b", {"x": "2"})):
            backend.create(manifest(name, labels=labels, suspend=True))
        wait_for(lambda: names(backend.overview()) == ["long-c", "long-a", "long-b"])
        assert names(backend.overview({"x": "1"})) == ["long-c", "long-a"]
        assert names(backend.overview({"x": "1", "y": "2"})) == ["long-a"]
        assert names(backend.overview({"x": "3"})) == []
        if watch is not None:
            watch.close()

    def test_looking_at_one_while_all_are_watched(
        self, backend: Backend, manifest: Make, rig: Any, wait_for: WaitFor
    ) -> None:
        watch = backend.watch_all()
        backend.create(manifest("quick-a"))
        wait_for(lambda: ended(backend, "quick-a"))
        obs = backend.observe("quick-a", now=rig.now())
        assert obs.job is not None
        assert [pod.node for pod in obs.pods] == ["node-0"]
        watch.close()


@pytest.fixture
def runtime(backend: Backend) -> dict[str, Any]:
    """A runtime of a name that no other test has: a cluster's are everybody's."""
    stock = backend.runtime("torch-distributed", keys.CLUSTER_RUNTIME)
    assert stock is not None
    raw = copy.deepcopy(stock)
    raw["metadata"] = {"name": f"of-a-test-{uuid.uuid4().hex[:8]}", "labels": {keys.LABEL_FRAMEWORK: "torch"}}
    raw["kind"] = keys.NAMESPACED_RUNTIME
    raw["apiVersion"] = keys.API_VERSION
    raw["spec"]["mlPolicy"]["numNodes"] = 1
    return raw


class TestApplyingRuntimes:
    def test_creates_what_is_not_there(self, backend: Backend, runtime: dict[str, Any], manifest: Make) -> None:
        given, name = copy.deepcopy(runtime), runtime["metadata"]["name"]
        stored = backend.apply_runtime(runtime)
        assert runtime == given
        assert stored["metadata"]["name"] == name
        again = backend.runtime(name, keys.NAMESPACED_RUNTIME)
        assert again == stored
        assert name in names(backend.runtimes())
        backend.create(manifest("long-a", runtimeRef={"name": name, "kind": keys.NAMESPACED_RUNTIME}, suspend=True))

    def test_twice_is_once(self, backend: Backend, runtime: dict[str, Any]) -> None:
        first = backend.apply_runtime(runtime)
        assert backend.apply_runtime(runtime) == first

    def test_replaces_the_spec_and_adds_labels(self, backend: Backend, runtime: dict[str, Any]) -> None:
        runtime["metadata"]["annotations"] = {"note": "first"}
        runtime["spec"]["mlPolicy"]["torch"] = {}
        backend.apply_runtime(runtime)
        del runtime["spec"]["mlPolicy"]["torch"]
        runtime["spec"]["mlPolicy"]["numNodes"] = 3
        runtime["metadata"]["labels"]["team"] = "a"
        del runtime["metadata"]["annotations"]
        stored = backend.apply_runtime(runtime)
        assert stored["spec"]["mlPolicy"] == {"numNodes": 3}
        assert stored["metadata"]["labels"] == {keys.LABEL_FRAMEWORK: "torch", "team": "a"}
        assert stored["metadata"]["annotations"] == {"note": "first"}
        assert backend.runtime(runtime["metadata"]["name"], keys.NAMESPACED_RUNTIME) == stored

    def test_another_process_sees_it(self, backend: Backend, runtime: dict[str, Any]) -> None:
        stored = backend.apply_runtime(runtime)
        again = open_backend(backend.target)
        assert again.runtime(runtime["metadata"]["name"], keys.NAMESPACED_RUNTIME) == stored
        again.close()

    def test_one_of_another_namespace_is_refused(
        self, backend: Backend, runtime: dict[str, Any], request: pytest.FixtureRequest
    ) -> None:
        if "memory" in request.node.callspec.id:
            return  # it has no namespaces to mix up
        runtime["metadata"]["namespace"] = "elsewhere"
        with pytest.raises(InvalidRequest, match=r"metadata\.namespace"):
            backend.apply_runtime(runtime)
        assert backend.runtime(runtime["metadata"]["name"], keys.NAMESPACED_RUNTIME) is None
