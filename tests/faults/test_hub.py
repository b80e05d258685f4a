"""The watch hub on bad days: what waiters see, what they are told, and what it costs the server."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ADMIN_TOKEN
from tests.faults.proxy import FaultProxy
from trainer_ops.backends.kubernetes.access import Access
from trainer_ops.backends.kubernetes.address import Address
from trainer_ops.backends.kubernetes.backend import KubernetesBackend
from trainer_ops.backends.kubernetes.hub import Hub
from trainer_ops.backends.kubernetes.reflector import Times
from trainer_ops.errors import Unreachable

pytestmark = pytest.mark.cluster
Make = Callable[..., dict[str, Any]]

# Short waits; the silence is long, so that only the test of it meets it.
QUICK = Times(silence=30, poll=0.3, unreadable=0.5, most=0.5)


def until(holds: Callable[[], object], *, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        # A hub that is behind says so: then it is not yet true.
        with contextlib.suppress(Unreachable):
            if holds():
                return
        time.sleep(0.02)
    raise AssertionError("did not come true")


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def open_hub(config: Make, notes: list[str]) -> Iterator[Callable[..., Hub]]:
    """Makes a hub behind the proxy; its threads are gone after the test."""
    hubs: list[Hub] = []

    def make(times: Times = QUICK, *, access: Access | None = None) -> Hub:
        hubs.append(Hub(access or Access.to(Address(), config()), note=notes.append, times=times))
        hubs[-1].wait_synced()
        return hubs[-1]

    yield make
    assert all([hub.close() for hub in hubs])  # noqa: C419 - each is closed, whatever the one before says


def watching(proxy: FaultProxy, plural: str = "trainjobs") -> Callable[[], bool]:
    """Whether a watch has been asked for since now."""
    before = len(proxy.seen("GET", plural, watch=True))
    return lambda: len(proxy.seen("GET", plural, watch=True)) > before


def lists(proxy: FaultProxy, plural: str = "trainjobs") -> int:
    return len(proxy.seen("GET", plural, watch=False))


GONE = {"code": 410, "reason": "Expired", "message": "too old resource version"}


@pytest.mark.parametrize(
    ("fault", "listed"),
    [
        pytest.param(lambda rule: rule.answer(410, GONE), 2, id="410"),
        pytest.param(lambda rule: rule.say({"type": "ERROR", "object": GONE}), 2, id="410 inside the stream"),
        pytest.param(lambda rule: rule.say({"type": "ERROR", "object": {"code": 500}}), 1, id="500 inside the stream"),
        pytest.param(lambda rule: rule.answer(200, b'{"type":"ADDED","obj'), 1, id="half a line"),
        pytest.param(lambda rule: rule.answer(503), 1, id="503"),
        pytest.param(lambda rule: rule.answer(429, headers={"Retry-After": "1"}), 1, id="429"),
        pytest.param(lambda rule: rule.reset(), 1, id="reset"),
        pytest.param(lambda rule: rule.cut(0), 1, id="ends at once"),
    ],
)
def test_a_watch_that_breaks_is_taken_up_again(
    backend: KubernetesBackend,
    open_hub: Callable[..., Hub],
    proxy: FaultProxy,
    manifest: Make,
    fault: Callable[[Any], None],
    listed: int,
) -> None:
    fault(proxy.when("GET", "trainjobs", watch=True, times=1))
    hub = open_hub()
    waker = hub.subscribe("x")
    until(lambda: len(proxy.seen("GET", "trainjobs", watch=True)) == 2)
    backend.create(manifest())
    until(lambda: hub.job("x"))
    assert waker.wait(10)
    assert lists(proxy) == listed
    waker.close()


def test_what_happens_while_every_connection_is_broken_is_seen_after(
    backend: KubernetesBackend, open_hub: Callable[..., Hub], proxy: FaultProxy, manifest: Make
) -> None:
    backend.create(manifest())
    hub = open_hub()
    again = watching(proxy)
    proxy.when("GET", "trainjobs", watch=True, times=1).reset()
    proxy.cut_all()
    backend.create(manifest("y"))
    backend.delete("x")
    until(again)
    until(lambda: hub.job("y") and not hub.job("x"))
    assert lists(proxy) == 1


def test_a_server_that_is_away_is_told_and_so_is_its_return(
    backend: KubernetesBackend, open_hub: Callable[..., Hub], proxy: FaultProxy, manifest: Make
) -> None:
    backend.create(manifest())
    hub = open_hub()
    waker = hub.subscribe("x")
    proxy.when("GET").answer(503, {"message": "down for maintenance"})
    proxy.cut_all()

    def away() -> str:
        try:
            return "" if waker.wait(30) and hub.job("x") else "nothing"
        except Unreachable as error:
            return error.message

    until(lambda: "down for maintenance" in away())
    asked = len(proxy.seen("GET", "trainjobs", watch=True))
    proxy.clear()
    assert waker.wait(30)
    until(lambda: hub.job("x"))
    assert lists(proxy) == 1
    assert asked < 20
    waker.close()


def test_a_dead_connection_is_known_by_its_silence(
    backend: KubernetesBackend, open_hub: Callable[..., Hub], proxy: FaultProxy, manifest: Make
) -> None:
    proxy.when("GET", "trainjobs", watch=True, times=1).hush()
    hub = open_hub(Times(silence=1.0, most=0.2))
    backend.create(manifest())
    until(lambda: hub.job("x"))
    assert len(proxy.seen("GET", "trainjobs", watch=True)) >= 2
    assert lists(proxy) == 1


def test_a_proxy_that_ends_every_watch_at_once_makes_no_storm(
    backend: KubernetesBackend, open_hub: Callable[..., Hub], proxy: FaultProxy, manifest: Make
) -> None:
    proxy.when("GET", "pods", watch=True).cut(0)
    proxy.when("GET", "trainjobs", watch=True).cut(1)
    hub = open_hub(Times(poll=2.0))
    for number in range(5):
        backend.create(manifest(f"x{number}"))
    until(lambda: all(hub.job(f"x{number}") for number in range(5)))
    begun, asked = time.monotonic(), len(proxy.seen("GET", "pods", watch=True))
    time.sleep(2.0)
    rate = (len(proxy.seen("GET", "pods", watch=True)) - asked) / (time.monotonic() - begun)
    assert rate < 5
    assert lists(proxy, "pods") == 1


def test_where_watch_is_forbidden_it_polls_and_says_so_once(
    backend: KubernetesBackend, open_hub: Callable[..., Hub], proxy: FaultProxy, manifest: Make, notes: list[str]
) -> None:
    text = 'trainjobs is forbidden: User "me" cannot watch resource "trainjobs" in API group "g" in the namespace "n"'
    proxy.when("GET", "trainjobs", watch=True).answer(403, {"message": text})
    hub = open_hub()
    backend.create(manifest())
    until(lambda: hub.job("x"))
    until(lambda: lists(proxy) > 4)
    assert notes == ["not allowed: watching trainjobs in namespace n as me; asking every 0.3 s instead"]


@pytest.mark.parametrize("plural", ["pods", "events", "jobsets"])
def test_a_kind_that_may_not_be_read_is_done_without(
    backend: KubernetesBackend,
    open_hub: Callable[..., Hub],
    proxy: FaultProxy,
    manifest: Make,
    notes: list[str],
    plural: str,
) -> None:
    text = f'forbidden: User "me" cannot list resource "{plural}" in API group "" in the namespace "n"'
    proxy.when("GET", plural).answer(403, {"message": text})
    hub = open_hub(Times(unreadable=30))
    backend.create(manifest())
    until(lambda: hub.job("x"))
    assert hub.unreadable() == {plural}
    assert notes == [f"not allowed: listing {plural} in namespace n as me; going on without {plural}"]


def test_a_right_that_is_granted_later_is_noticed(open_hub: Callable[..., Hub], proxy: FaultProxy) -> None:
    proxy.when("GET", "pods", times=1).answer(403, {"message": 'User "me" cannot list resource "pods"'})
    hub = open_hub()
    until(lambda: hub.unreadable() == frozenset())


def test_where_trainjobs_may_not_be_listed_each_is_asked_for(
    backend: KubernetesBackend, proxy: FaultProxy, manifest: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    backend.create(manifest())
    text = 'forbidden: User "me" cannot list resource "trainjobs" in API group "g" in the namespace "n"'
    listing = proxy.when("GET", "trainjobs")

    def act(handler: Any, request: Any) -> None:
        if request.path.endswith("/trainjobs"):
            handler.reply(403, json.dumps({"message": text}).encode(), {})
            return
        with handler.upstream(request) as response:
            handler.relay(request, response)

    listing.act = act
    watch = backend.watch("x")
    seen = backend.observe("x", now=1.0)
    assert seen.job is not None
    watch.close()


class TestKueue:
    def test_where_it_is_not_installed_nothing_is_missing(self, open_hub: Callable[..., Hub]) -> None:
        hub = open_hub()
        assert hub.unreadable() == frozenset()
        assert hub.workload("x") is None

    def test_an_older_one_serves_an_older_version(self, open_hub: Callable[..., Hub], proxy: FaultProxy) -> None:
        owners = [{"kind": "TrainJob", "name": "x", "uid": "u"}]
        workload = {"metadata": {"name": "trainjob-x", "ownerReferences": owners}, "status": {"conditions": []}}
        listing = {"metadata": {"resourceVersion": "1"}, "items": [workload]}
        rule = proxy.when("GET", "workloads", watch=False)

        def act(handler: Any, request: Any) -> None:
            served = "/v1beta1/" in request.path
            body = json.dumps(listing).encode() if served else b"404 page not found"
            handler.reply(200 if served else 404, body, {})

        rule.act = act
        proxy.when("GET", "workloads", watch=True).say()
        hub = open_hub()
        found = hub.workload("x")
        assert found is not None
        assert found["metadata"]["name"] == "trainjob-x"


def test_a_token_that_expires_in_mid_wait(
    open_hub: Callable[..., Hub], proxy: FaultProxy, config: Make, manifest: Make, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config("one")))
    proxy.tokens = {"one": ADMIN_TOKEN}
    backend = KubernetesBackend(Address(kubeconfig=str(path)))
    backend.create(manifest())
    hub = open_hub(access=Access.to(Address(kubeconfig=str(path))))
    path.write_text(json.dumps(config("two")))
    proxy.tokens = {"two": ADMIN_TOKEN}
    proxy.cut_all()
    backend.create(manifest("y"))
    while not hub.job("y"):  # and never an error
        time.sleep(0.02)
    assert lists(proxy) == 1
    backend.close()


def test_the_mirror_is_listed_anew_now_and_then(open_hub: Callable[..., Hub], proxy: FaultProxy) -> None:
    open_hub(Times(watch=1, resync=1))
    until(lambda: lists(proxy) >= 3)


def test_it_ends_at_once_though_its_watches_are_silent(open_hub: Callable[..., Hub]) -> None:
    hub = open_hub()
    begun = time.monotonic()
    assert hub.close(timeout=20)
    assert time.monotonic() - begun < 20
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("watch-")] == []


class TestOldNews:
    """The mirror is behind: its watch is silent. A waiter that comes now must not be told of the past."""

    def test_what_was_just_created_is_there(
        self, backend: KubernetesBackend, proxy: FaultProxy, manifest: Make
    ) -> None:
        proxy.when("GET", "trainjobs", watch=True).hush()
        watch = backend.watch("x")
        assert backend.observe("x", now=1.0).job is None
        uid = backend.create(manifest())["metadata"]["uid"]
        seen = backend.observe("x", now=2.0).job
        assert seen is not None
        assert seen.uid == uid
        watch.close()

    def test_an_earlier_one_of_the_name_is_not_this_one(
        self, backend: KubernetesBackend, proxy: FaultProxy, manifest: Make
    ) -> None:
        old = backend.create(manifest())["metadata"]["uid"]
        proxy.when("GET", "trainjobs", watch=True).hush()
        first = backend.watch("x")
        seen = backend.observe("x", now=1.0).job
        assert seen is not None
        assert seen.uid == old
        first.close()
        backend.delete("x")
        new = backend.create(manifest())["metadata"]["uid"]
        second = backend.watch("x")
        seen = backend.observe("x", now=2.0).job
        assert seen is not None
        assert seen.uid == new
        second.close()


def test_one_hub_for_all_waiters_of_a_namespace(
    backend: KubernetesBackend, config: Make, proxy: FaultProxy, manifest: Make
) -> None:
    other = KubernetesBackend(Address(), config=config())
    threads = threading.active_count()
    watches = [target.watch(f"x{number}") for number in range(50) for target in (backend, other)]
    backend.observe("x0", now=1.0)
    until(lambda: proxy.most_open["events"])
    backend.create(manifest("x7"))
    until(lambda: backend.observe("x7", now=1.0).job)
    assert set(proxy.most_open.values()) == {1}
    assert set(proxy.most_open) <= {"trainjobs", "pods", "events", "jobsets", "workloads"}
    assert len([t for t in threading.enumerate() if t.name.startswith("watch-")]) == 5
    assert threading.active_count() - threads < 5 + 12  # the hub's, and the proxy's own
    for watch in watches:
        watch.close()
    other.close()
