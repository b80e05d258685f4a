"""Requests without the generated client, and deletes for who has no time: against a stand-in for an API server."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kfp.apiserver import NAMESPACE, ApiServer
from trainer_ops.backends.kubernetes import access, lean
from trainer_ops.backends.kubernetes.access import Access
from trainer_ops.backends.kubernetes.address import IN_CLUSTER, Address
from trainer_ops.backends.kubernetes.backend import KubernetesBackend
from trainer_ops.backends.kubernetes.lean import ApiError, LeanApis
from trainer_ops.backends.kubernetes.urgent import Urgent
from trainer_ops.errors import InvalidRequest, Unreachable

TRAINJOBS = ("trainer.kubeflow.org", "v1alpha1", NAMESPACE, "trainjobs")


def job(name: str, *, ended: bool = False, labels: dict[str, str] | None = None) -> dict[str, Any]:
    status = {"conditions": [{"type": "Complete", "status": "True"}]} if ended else {}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}}, "spec": {}, "status": status}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    server = ApiServer(tmp_path / "account")
    for name, value in server.env.items():
        monkeypatch.setenv(name, value)
    for name in ("KUBECONFIG", *lean._PROXIES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(access, "_ACCOUNT", server.folder)
    yield server
    server.close()


@pytest.fixture
def apis(server: ApiServer) -> Iterator[LeanApis]:
    found = Access.to(Address(IN_CLUSTER))
    assert found.lean is not None
    apis = LeanApis(found.lean(), lambda: pytest.fail("the client is not needed"))
    yield apis
    apis.close()


@pytest.fixture
def urgent(server: ApiServer) -> Iterator[Urgent]:
    found = Urgent(Access.to(Address(IN_CLUSTER)), NAMESPACE)
    yield found
    found.close()


def until(done: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


class TestRequests:
    def test_names_of_the_client_become_paths_and_queries(self, apis: LeanApis, server: ApiServer) -> None:
        first_page = apis.custom.list_namespaced_custom_object(
            *TRAINJOBS, label_selector="a=b", _continue="x", limit=5, watch=None, _preload_content=False
        )
        assert b'"items"' in first_page.data
        assert apis.core.list_namespaced_pod(NAMESPACE, allow_watch_bookmarks=True, resource_version="7").data
        first, second = server.requests
        assert (first.verb, first.path) == (
            "GET",
            f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{NAMESPACE}/trainjobs",
        )
        assert first.query == {"labelSelector": ["a=b"], "continue": ["x"], "limit": ["5"]}
        assert second.path == f"/api/v1/namespaces/{NAMESPACE}/pods"
        assert second.query == {"allowWatchBookmarks": ["true"], "resourceVersion": ["7"]}
        assert first.token == "token-1"
        assert first.connection == second.connection

    @pytest.mark.parametrize(
        ("call", "verb", "path"),
        [
            (lambda a: a.core.read_namespaced_pod("p", "n"), "GET", "/api/v1/namespaces/n/pods/p"),
            (
                lambda a: a.core.read_namespaced_pod_log("p", "n", tail_lines=3),
                "GET",
                "/api/v1/namespaces/n/pods/p/log",
            ),
            (
                lambda a: a.core.create_namespaced_persistent_volume_claim("n", {"a": 1}),
                "POST",
                "/api/v1/namespaces/n/persistentvolumeclaims",
            ),
            (
                lambda a: a.custom.get_cluster_custom_object("g", "v1", "things", "x"),
                "GET",
                "/apis/g/v1/things/x",
            ),
            (
                lambda a: a.custom.create_namespaced_custom_object("g", "v1", "n", "things", body={"a": 1}),
                "POST",
                "/apis/g/v1/namespaces/n/things",
            ),
            (
                lambda a: a.custom.patch_namespaced_custom_object("g", "v1", "n", "things", "x", {"a": 1}),
                "PATCH",
                "/apis/g/v1/namespaces/n/things/x",
            ),
            (
                lambda a: a.custom.replace_cluster_custom_object("g", "v1", "things", "x", body={"a": 1}),
                "PUT",
                "/apis/g/v1/things/x",
            ),
            (
                lambda a: a.custom.delete_namespaced_custom_object("g", "v1", "n", "things", "x", body={"a": 1}),
                "DELETE",
                "/apis/g/v1/namespaces/n/things/x",
            ),
            (lambda a: a.groups.get_api_versions(), "GET", "/apis/"),
        ],
    )
    def test_calls(self, apis: LeanApis, server: ApiServer, call: Any, verb: str, path: str) -> None:
        with contextlib.suppress(ApiError):
            call(apis)
        (request,) = server.requests
        assert (request.verb, request.path) == (verb, path)
        assert request.body == ({"a": 1} if verb in ("POST", "PATCH", "PUT", "DELETE") else None)

    def test_what_is_not_known_is_the_client_s(self, apis: LeanApis) -> None:
        class Real:
            class core:
                list_node = staticmethod(lambda: "nodes")

            batch = "batch"
            close = staticmethod(lambda: None)

        apis._otherwise = Real
        assert apis.core.list_node() == "nodes"
        assert apis.batch == "batch"

    def test_a_token_that_was_renewed_is_used(
        self, apis: LeanApis, server: ApiServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        apis.groups.get_api_versions().close()
        (server.folder / "token").write_text("token-2")
        apis.groups.get_api_versions().close()
        now = time.monotonic()
        monkeypatch.setattr("trainer_ops.backends.kubernetes.lean.time.monotonic", lambda: now + 61)
        apis.groups.get_api_versions().close()
        assert [one.token for one in server.requests] == ["token-1", "token-1", "token-2"]


class TestErrors:
    def test_an_answer(self, server: ApiServer) -> None:
        server.refuse = lambda request: (404, "not found") if "absent" in request.path else None
        backend = KubernetesBackend(Address(IN_CLUSTER))
        assert backend.get("absent") is None
        server.refuse = lambda request: (503, "busy")
        with pytest.raises(Unreachable, match="503 busy"):
            backend._cluster.call("x", lambda apis: apis.core.read_namespaced_pod("p", "n"), tries=1)
        backend.close()

    def test_none(self, server: ApiServer) -> None:
        backend = KubernetesBackend(Address(IN_CLUSTER))
        server.close()
        with pytest.raises(Unreachable):
            backend._cluster.call("x", lambda apis: apis.core.read_namespaced_pod("p", "n"), tries=1)
        backend.close()

    def test_another_server_s_certificate(self, server: ApiServer, tmp_path: Path) -> None:
        other = ApiServer(tmp_path / "other")
        (server.folder / "ca.crt").write_bytes((other.folder / "ca.crt").read_bytes())
        other.close()
        backend = KubernetesBackend(Address(IN_CLUSTER))
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            backend._cluster.call("x", lambda apis: apis.core.read_namespaced_pod("p", "n"), tries=1)
        assert server.requests == []
        backend.close()

    def test_no_service_account(self, server: ApiServer) -> None:
        (server.folder / "token").write_text("")
        with pytest.raises(InvalidRequest, match="the pod has no service account") as caught:
            KubernetesBackend(Address(IN_CLUSTER))
        assert caught.value.field == "target"

    def test_no_pod(self, server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
        with pytest.raises(InvalidRequest, match="this is no pod"):
            KubernetesBackend(Address(IN_CLUSTER))


def test_where_a_proxy_is_set_the_client_has_to(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lean.in_cluster(server.folder) is not None
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert lean.in_cluster(server.folder) is None


def test_an_address_of_version_six(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    made = lean.in_cluster(server.folder)
    assert made is not None
    assert made().host == "https://[fd00::1]:443"


def test_a_whole_wait_imports_no_client(server: ApiServer) -> None:
    code = (
        "import sys, pathlib; sys.modules['kubernetes'] = None\n"
        "from trainer_ops.backends.kubernetes import access\n"
        f"access._ACCOUNT = pathlib.Path({str(server.folder)!r})\n"
        "import trainer_ops\n"
        "outcome = trainer_ops.wait('x', target='in-cluster')\n"
        "print(outcome.phase.value)"
    )
    server.jobs["x"] = {**job("x", ended=True), "metadata": {**job("x")["metadata"], "resourceVersion": "2"}}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("succeeded\n", 0), done.stderr


class TestUrgent:
    def test_it_is_ready_before_it_is_needed(self, urgent: Urgent, server: ApiServer) -> None:
        server.jobs["x"] = job("x")
        urgent.warm()
        until(lambda: server.seen("GET", "/version"))
        strike = urgent.prepare("x", uid="uid-x")
        until(lambda: len(server.sockets) == 1)
        time.sleep(0.05)
        assert strike()
        assert server.deleted == ["x"]
        assert len({one.connection for one in server.requests}) == 1

    def test_a_connection_that_was_cut_is_replaced(self, urgent: Urgent, server: ApiServer) -> None:
        server.jobs["x"] = job("x")
        urgent.warm()
        until(lambda: server.seen("GET", "/version"))
        time.sleep(0.05)
        server.cut()
        assert urgent.prepare("x", uid="uid-x")()
        assert server.deleted == ["x"]

    def test_without_a_connection_one_is_made(self, urgent: Urgent, server: ApiServer) -> None:
        server.jobs["x"] = job("x")
        assert urgent.prepare("x", uid="uid-x")()
        assert server.deleted == ["x"]

    def test_only_the_one_meant(self, urgent: Urgent, server: ApiServer) -> None:
        server.jobs["x"] = job("x")
        assert urgent.prepare("x", uid="another")()
        assert urgent.prepare("absent", uid="another")()
        assert list(server.jobs) == ["x"]

    def test_a_server_that_is_away(self, urgent: Urgent, server: ApiServer) -> None:
        server.close()
        assert not urgent.prepare("x", uid="uid-x")()
        assert not urgent.sweep({"a": "b"}, seconds=0)

    def test_what_a_run_has_going(self, urgent: Urgent, server: ApiServer) -> None:
        mine = {"trainer-ops/run-key": "k"}
        server.jobs.update(
            going=job("going", labels=mine), over=job("over", ended=True, labels=mine), other=job("other")
        )
        assert urgent.sweep(mine, seconds=0)
        assert list(server.jobs) == ["over", "other"]
        assert not urgent.sweep(mine, seconds=0)

    def test_of_a_kubeconfig_with_the_client_s_own_connection(
        self, server: ApiServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ca = str(server.folder / "ca.crt")
        config = {
            "current-context": "c",
            "clusters": [
                {"name": "c", "cluster": {"server": f"https://127.0.0.1:{server.port}", "certificate-authority": ca}}
            ],
            "users": [{"name": "u", "user": {"token": "of-the-kubeconfig"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
        }
        server.jobs["x"] = job("x")
        urgent = KubernetesBackend(Address(), config=config).urgent()
        assert urgent.prepare("x", uid="uid-x")()
        assert server.seen("DELETE")[0].token == "of-the-kubeconfig"
