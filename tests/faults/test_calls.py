"""Single calls on bad days: what is asked again, what is not, and what is said."""

from __future__ import annotations

import json
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster
from tests.controlplane.plane import ADMIN_TOKEN
from tests.faults.proxy import FaultProxy
from trainer_ops.backends.kubernetes.address import Address
from trainer_ops.backends.kubernetes.backend import KubernetesBackend
from trainer_ops.backends.kubernetes.failures import NotServed
from trainer_ops.backends.kubernetes.hub import end_idle
from trainer_ops.errors import AlreadyExists, Forbidden, PreconditionFailed, Rejected, Unreachable

pytestmark = pytest.mark.cluster
Make = Callable[..., dict[str, Any]]


@pytest.fixture
def pauses(backend: KubernetesBackend) -> list[float]:
    """The pauses between tries, which are not slept."""
    made: list[float] = []
    backend._cluster._sleep = made.append
    return made


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda rule: rule.answer(429, headers={"Retry-After": "7"}), id="429"),
        pytest.param(lambda rule: rule.answer(500, {"message": 'failed calling webhook "v"'}), id="webhook is away"),
        pytest.param(lambda rule: rule.answer(503, b"<html>try later</html>"), id="503 of a proxy"),
        pytest.param(lambda rule: rule.answer(504), id="504"),
        pytest.param(lambda rule: rule.answer(200, b"{truncated"), id="no JSON"),
        pytest.param(lambda rule: rule.reset(), id="reset"),
        pytest.param(lambda rule: rule.reset_midway(20), id="reset in mid-answer"),
    ],
)
def test_a_passing_failure_is_asked_again(
    backend: KubernetesBackend, manifest: Make, proxy: FaultProxy, pauses: list[float], fault: Callable[[Any], None]
) -> None:
    backend.create(manifest())
    fault(proxy.when("GET", "trainjobs", times=3))
    found = backend.get("x")
    assert found is not None
    assert len(proxy.seen("GET", "trainjobs")) == 4
    assert len(pauses) == 3
    assert all(0.1 <= pause <= 8 for pause in pauses)


def test_retry_after_is_obeyed(backend: KubernetesBackend, proxy: FaultProxy, pauses: list[float]) -> None:
    proxy.when("GET", "trainjobs", times=1).answer(429, headers={"Retry-After": "7"})
    proxy.when("GET", "trainjobs", times=1).answer(503, headers={"Retry-After": "9999"})
    backend.get("x")
    assert 7 <= pauses[0] <= 8
    assert 30 <= pauses[1] <= 31


def test_in_the_end_it_is_unreachable(backend: KubernetesBackend, proxy: FaultProxy, pauses: list[float]) -> None:
    proxy.when("GET", "trainjobs").answer(503, {"message": "etcd is down"})
    with pytest.raises(Unreachable, match="503 etcd is down") as caught:
        backend.get("x")
    assert caught.value.status == 503
    assert len(proxy.seen("GET", "trainjobs")) == 5


@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_is_not_asked_again(
    backend: KubernetesBackend, manifest: Make, proxy: FaultProxy, pauses: list[float], status: int
) -> None:
    proxy.when("POST", "trainjobs").answer(status)
    with pytest.raises(Rejected):
        backend.create(manifest())
    assert (len(proxy.seen("POST")), pauses) == (1, [])


@pytest.mark.usefixtures("pauses")
def test_a_lost_reply_of_a_create_is_found_out(backend: KubernetesBackend, manifest: Make, proxy: FaultProxy) -> None:
    proxy.when("POST", "trainjobs", times=1).lose_reply()
    with pytest.raises(AlreadyExists):
        backend.create(manifest())
    assert [job["metadata"]["name"] for job in backend.list()] == ["x"]


@pytest.mark.usefixtures("pauses")
def test_a_lost_reply_of_a_delete_is_a_delete(backend: KubernetesBackend, manifest: Make, proxy: FaultProxy) -> None:
    uid = backend.create(manifest())["metadata"]["uid"]
    proxy.when("DELETE", "trainjobs", times=1).lose_reply()
    assert backend.delete("x", uid=uid) is True
    assert backend.delete("x", uid=uid) is False
    options = json.loads(proxy.seen("DELETE")[0].body)
    assert (options["propagationPolicy"], options["preconditions"]) == ("Background", {"uid": uid})


def test_strict_on_every_write(backend: KubernetesBackend, manifest: Make, proxy: FaultProxy) -> None:
    with pytest.raises(Rejected, match=r'unknown field "spec.numNodes"'):
        backend.create(manifest(numNodes=2))
    backend.create(manifest())
    backend.set_suspended("x", True)
    assert [r.query["fieldValidation"] for r in (*proxy.seen("POST"), *proxy.seen("PATCH"))] == ["Strict"] * 3


def test_another_uid_is_one_call_and_one_look(backend: KubernetesBackend, manifest: Make, proxy: FaultProxy) -> None:
    backend.create(manifest())
    with pytest.raises(PreconditionFailed):
        backend.set_suspended("x", False, uid="00000000-0000-4000-8000-000000000000")
    assert (len(proxy.seen("PATCH")), len(proxy.seen("GET"))) == (1, 1)


def test_a_list_is_read_in_pages_and_by_label(
    backend: KubernetesBackend, manifest: Make, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        backend.create(manifest(f"x{number}", labels={"team": "a" if number < 5 else "b"}))
    monkeypatch.setattr("trainer_ops.backends.kubernetes.direct.TRAINJOBS", _paged(2))
    assert [job["metadata"]["name"] for job in backend.list({"team": "a"})] == [f"x{n}" for n in range(5)]
    pages = proxy.seen("GET", "trainjobs")
    assert [page.query["limit"] for page in pages] == ["2"] * 3
    assert {page.query["labelSelector"] for page in pages} == {"team=a"}


def _paged(size: int) -> Any:
    from dataclasses import replace

    from trainer_ops.backends.kubernetes.kinds import TRAINJOBS

    return replace(TRAINJOBS, page=size)


def test_a_continue_token_that_became_too_old_starts_the_list_anew(
    backend: KubernetesBackend, manifest: Make, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        backend.create(manifest(f"x{number}"))
    monkeypatch.setattr("trainer_ops.backends.kubernetes.direct.TRAINJOBS", _paged(2))
    stale = {"code": 410, "reason": "Expired", "message": "The provided continue parameter is too old"}
    rule = proxy.when("GET", "trainjobs", times=1)
    rule.act = None
    passed = proxy.when("GET", "trainjobs", times=1)
    passed.act = _through
    proxy.when("GET", "trainjobs", times=1).answer(410, stale)
    assert len(backend.list()) == 3
    assert ["continue" in page.query for page in proxy.seen("GET", "trainjobs")] == [False, True, False, True]
    proxy.when("GET", "trainjobs").answer(410, stale)
    with pytest.raises(Unreachable, match="changes faster than it can be read"):
        backend.list()


def _through(handler: Any, request: Any) -> None:
    with handler.upstream(request) as response:
        handler.relay(request, response)


# -- credentials ------------------------------------------------------------------------------------------------------


@pytest.fixture
def kubeconfig(config: Make, tmp_path: Path) -> Callable[..., Path]:
    def write(**user: Any) -> Path:
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config(**user)))
        return path

    return write


@pytest.mark.parametrize("how", ["token", "token file", "exec plugin"])
def test_credentials_that_expire_are_read_anew(
    proxy: FaultProxy, kubeconfig: Callable[..., Path], tmp_path: Path, how: str
) -> None:
    secret = tmp_path / "secret"
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json\n"
        f"status = {{'token': open({str(secret)!r}).read()}}\n"
        "version = 'client.authentication.k8s.io/v1'\n"
        "print(json.dumps({'kind': 'ExecCredential', 'apiVersion': version, 'status': status}))"
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IEXEC)

    def rotate(token: str) -> Path:
        secret.write_text(token)
        proxy.tokens = {token: ADMIN_TOKEN}
        if how == "token":
            return kubeconfig(token=token)
        if how == "token file":
            return kubeconfig(tokenFile=str(secret))
        exec_ = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
        return kubeconfig(exec=exec_)

    backend = KubernetesBackend(Address(kubeconfig=str(rotate("one"))))
    assert backend.get("x") is None
    rotate("two")
    assert backend.get("x") is None
    assert [request.token for request in proxy.seen("GET")] == ["one", "one", "two"]
    backend.close()


def test_credentials_that_stay_wrong_are_the_users_affair(
    backend: KubernetesBackend, proxy: FaultProxy, pauses: list[float]
) -> None:
    proxy.tokens = {}
    with pytest.raises(Forbidden, match="does not accept the credentials") as caught:
        backend.get("x")
    assert caught.value.status == 401
    assert "Log in again" in caught.value.remedy
    assert len(proxy.seen("GET")) == 5


def test_what_is_not_allowed_says_who_may_not_do_what(control_plane: Cluster, cluster_namespace: str) -> None:
    account = f"system:serviceaccount:{cluster_namespace}:default"
    token = control_plane.api.call(
        "POST", f"/api/v1/namespaces/{cluster_namespace}/serviceaccounts/default/token", {"spec": {}}
    )["status"]["token"]
    path = control_plane.plane.write_kubeconfig(token, f"{cluster_namespace}-poor", namespace=cluster_namespace)
    backend = KubernetesBackend(Address(kubeconfig=str(path)))
    with pytest.raises(Forbidden) as caught:
        backend.create({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "x"}})
    assert str(caught.value) == (
        f"not allowed: creating trainjobs in namespace {cluster_namespace} as {account}. Missing is a Role in "
        f"namespace {cluster_namespace} that allows create on trainjobs.trainer.kubeflow.org, bound to {account}: "
        f"trainer-ops rbac --namespace {cluster_namespace} --service-account {cluster_namespace}:default | "
        "kubectl apply -f -"
    )
    backend.close()


@pytest.fixture
def edit_user(control_plane: Cluster, cluster_namespace: str) -> Iterator[KubernetesBackend]:
    """A user with what Trainer's own ``edit`` role gives, which is neither JobSets nor Workloads."""
    api = control_plane.api
    everything = ["get", "list", "watch", "create", "delete", "patch"]
    rules = [
        {"apiGroups": ["trainer.kubeflow.org"], "resources": ["trainjobs"], "verbs": everything},
        {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": ["get", "list", "watch"]},
    ]
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "edit"}, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "edit"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": cluster_namespace}],
    }
    for obj in (role, binding):
        api.create(obj, namespace=cluster_namespace)
    path = f"/api/v1/namespaces/{cluster_namespace}/serviceaccounts/default/token"
    token = api.call("POST", path, {"spec": {}})["status"]["token"]
    config = control_plane.plane.write_kubeconfig(token, f"{cluster_namespace}-edit", namespace=cluster_namespace)
    backend = KubernetesBackend(Address(kubeconfig=str(config)))
    yield backend
    backend.close()
    assert end_idle()


def test_few_rights_are_enough(edit_user: KubernetesBackend, manifest: Make, caplog: pytest.LogCaptureFixture) -> None:
    edit_user.create(manifest())
    asked = edit_user.observe("x", now=1.0)
    watch = edit_user.watch("x")
    watched = edit_user.observe("x", now=1.0)
    watch.close()
    for seen in (asked, watched):
        assert seen.job is not None
        # Kueue is not installed: that this user may not read it either is no news.
        assert seen.unreadable == {"jobsets"}
    told = [record.getMessage() for record in caplog.records if record.name.startswith("trainer_ops")]
    assert [text.partition(" in namespace")[0] for text in told] == ["not allowed: listing jobsets"]
    assert told[0].endswith("; going on without jobsets")


def test_a_cluster_without_trainer_says_so(backend: KubernetesBackend, proxy: FaultProxy) -> None:
    proxy.when("GET", "trainjobs").answer(404, b"404 page not found\n", {"Content-Type": "text/plain"})
    with pytest.raises(NotServed, match="Install Kubeflow Trainer"):
        backend.get("x")


def test_clusters_in_one_process_do_not_meet(
    backend: KubernetesBackend, config: Make, manifest: Make, proxy: FaultProxy
) -> None:
    other = KubernetesBackend(Address(), config=config(token="somebody"))
    proxy.tokens = {ADMIN_TOKEN: ADMIN_TOKEN, "somebody": ADMIN_TOKEN}
    threads = [threading.Thread(target=target.get, args=("x",)) for target in (backend, other) * 10]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r.token for r in proxy.seen("GET")) == [ADMIN_TOKEN] * 10 + ["somebody"] * 10
    other.close()
