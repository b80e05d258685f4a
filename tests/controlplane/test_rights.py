"""Users with few rights: what is missing is said once, and the wait goes on with what may be read.

Each user is a ServiceAccount of the namespace with a Role of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.controlplane.api import path_of
from tests.controlplane.fixtures import Cluster, unused_name
from tests.controlplane.row_cases import STOCK
from tests.controlplane.scene_runtimes import make_runtimes
from tests.controlplane.scenes import Case, Ends, Scene, check, play, sh
from trainer_ops.errors import Forbidden
from trainer_ops.lifecycle.cancel import cancel
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.submit import submit
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model import keys
from trainer_ops.model.identity import JobRef, RunKey
from trainer_ops.model.outcome import Category
from trainer_ops.model.phase import Phase
from trainer_ops.model.request import TrainRequest

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

READ = ("get", "list", "watch")
ALL: Mapping[str, tuple[str, ...]] = {
    "trainer.kubeflow.org/trainjobs": (*READ, "create", "patch", "delete"),
    "trainer.kubeflow.org/trainingruntimes": READ,
    "/pods": READ,
    "/pods/log": ("get",),
    "/events": READ,
    "jobset.x-k8s.io/jobsets": READ,
}
JOBS = "trainer.kubeflow.org/trainjobs"


def without(*rights: str) -> dict[str, tuple[str, ...]]:
    """All rights but those: ``/events`` (none of it) or ``watch`` (that verb on nothing)."""
    kept = {resource: verbs for resource, verbs in ALL.items() if resource not in rights}
    return {resource: tuple(verb for verb in verbs if verb not in rights) for resource, verbs in kept.items()}


# User -> what it may do.
USERS: dict[str, dict[str, tuple[str, ...]]] = {
    "all": without(),
    "no-events": without("/events"),
    "no-jobsets": without("jobset.x-k8s.io/jobsets"),
    "no-logs": without("/pods/log"),
    "no-pods": without("/pods", "/pods/log"),
    "no-watch": without("watch"),
    "no-delete": without("delete"),
    "no-create": without("create"),
    "no-patch": without("patch"),
    "no-list": {JOBS: ("get",)},
    "nothing": {},
}
# User -> the warnings that one process gives for it, however many wait.
WARNINGS = {
    "all": (),
    "no-events": ("listing events",),
    "no-jobsets": ("listing jobsets",),
    "no-logs": (),
    "no-pods": ("listing pods",),
    "no-watch": ("watching trainjobs", "watching pods", "watching events", "watching jobsets"),
    "no-delete": (),
    "no-list": ("listing trainjobs", "listing pods", "listing events", "listing jobsets"),
}
BROKEN = sh("echo 'ValueError: no labels' >&2; exit 3")
FAILED = Ends(Phase.FAILED, Category.EXIT_CODE, ("exit code 3 on node-0",), ("ValueError: no labels",))


def as_user(scene: Scene) -> str:
    return f"kubernetes:///{scene.namespace}?kubeconfig={scene.cluster.plane.root}/kubeconfig-{scene.namespace}-{scene.name}"


def made_by_admin(scene: Scene) -> JobRef:
    spec = {"runtimeRef": {"name": "never", "kind": "TrainingRuntime"}, "trainer": {"command": BROKEN}}
    meta = {"name": "no-list", "namespace": scene.namespace}
    made = scene.api.create({"apiVersion": keys.API_VERSION, "kind": keys.KIND, "metadata": meta, "spec": spec})
    return JobRef(scene.backend.target, scene.namespace, "no-list", made["metadata"]["uid"])


def user(how: str, ends: Ends, *, begin: Callable[[Scene], JobRef] | None = None) -> Case:
    return Case(how, (5,), ends, asks={"command": BROKEN}, target=as_user, begin=begin)


CASES = {
    "all": user("what the shipped Role gives", FAILED),
    "no-events": user("may not read events", FAILED),
    "no-jobsets": user("may not read JobSets", FAILED),
    "no-logs": user(
        "may not read logs: the exit code is known, its cause is not",
        Ends(Phase.FAILED, Category.EXIT_CODE, ("exit code 3 on node-0",), ("node-0: exit code 3",), "log of node-0"),
    ),
    "no-pods": user(
        "may not read pods", Ends(Phase.FAILED, Category.UNKNOWN, ("FailedJobs",), remedy="may not read pods")
    ),
    "no-watch": user("may not watch: asks again and again", FAILED),
    "no-list": user(
        "may read one TrainJob and nothing else",
        Ends(Phase.FAILED, Category.UNKNOWN, ("FailedJobs",), remedy="may not read pods"),
        begin=made_by_admin,
    ),
    "no-delete": Case(
        "may not delete what uses up its restarts",
        (),
        Ends(
            Phase.FAILED,
            Category.RESTARTS_EXHAUSTED,
            ("could not be cancelled and may go on", "deleting trainjobs"),
            ("ValueError: no labels",),
        ),
        asks={"runtime": STOCK, "command": BROKEN, "max_restarts": 1},
        target=as_user,
    ),
}


class Heard(logging.Handler):
    """Keeps the hub's warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture(scope="module")
def namespace(control_plane: Cluster) -> Iterator[str]:
    """A namespace with its users; each has a kubeconfig."""
    name, api = control_plane.plane.namespace(unused_name("rights")), control_plane.api
    make_runtimes(control_plane, name)
    rbac = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [keys.GROUP], "resources": ["clustertrainingruntimes"], "verbs": ["get", "list"]}
    api.create({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]})
    group = {"kind": "Group", "apiGroup": rbac, "name": f"system:serviceaccounts:{name}"}
    _bind(control_plane, "ClusterRole", name, "", group)
    for user, rights in USERS.items():
        meta = {"name": user, "namespace": name}
        api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        rules = [
            {"apiGroups": [resource.partition("/")[0]], "resources": [resource.partition("/")[2]], "verbs": list(verbs)}
            for resource, verbs in rights.items()
        ]
        api.create({"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": rules})
        _bind(control_plane, "Role", user, name, {"kind": "ServiceAccount", **meta})
        token = api.call("POST", path_of("ServiceAccount", name, user, "token"), {"spec": {"expirationSeconds": 3600}})
        control_plane.plane.write_kubeconfig(token["status"]["token"], f"{name}-{user}", namespace=name)
    yield name
    for kind in ("ClusterRoleBinding", "ClusterRole"):
        api.delete(kind, name, namespace="")
    api.delete("Namespace", name)


def _bind(cluster: Cluster, kind: str, name: str, namespace: str, subject: dict[str, str]) -> None:
    rbac = "rbac.authorization.k8s.io"
    cluster.api.create(
        {
            "apiVersion": f"{rbac}/v1",
            "kind": f"{kind}Binding",
            "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
            "roleRef": {"apiGroup": rbac, "kind": kind, "name": name},
            "subjects": [subject],
        }
    )


@pytest.fixture(scope="module")
def played(control_plane: Cluster, namespace: str) -> tuple[dict[str, Scene], list[str]]:
    """All scenes, and the warnings that were given meanwhile."""
    heard, log = Heard(), logging.getLogger("trainer_ops.backends.kubernetes.hub")
    log.addHandler(heard)
    try:
        return play(control_plane, namespace, CASES), heard.texts
    finally:
        log.removeHandler(heard)


@pytest.mark.parametrize("case", CASES)
def test_case(played: tuple[dict[str, Scene], list[str]], case: str) -> None:
    check(played[0][case])


@pytest.mark.parametrize("user", WARNINGS)
def test_each_missing_right_is_said_once(played: tuple[dict[str, Scene], list[str]], namespace: str, user: str) -> None:
    mine = [text for text in played[1] if f"system:serviceaccount:{namespace}:{user};" in text]
    expected = WARNINGS[user]
    assert sorted(text.partition(" in namespace")[0] for text in mine) == sorted(f"not allowed: {e}" for e in expected)


def test_logs_that_may_not_be_read_are_noted_once(played: tuple[dict[str, Scene], list[str]]) -> None:
    (note,) = [note for note in played[0]["no-logs"].story.notes if "going on without logs" in note]
    assert "pods/log" in note


@pytest.mark.parametrize(
    ("user", "verb", "doing"), [("no-create", "create", "creating"), ("nothing", "list", "listing")]
)
def test_who_may_not_submit_is_told_what_is_missing(
    control_plane: Cluster, namespace: str, user: str, verb: str, doing: str
) -> None:
    backend = open_backend(
        f"kubernetes:///{namespace}?kubeconfig={control_plane.plane.root}/kubeconfig-{namespace}-{user}"
    )
    request = TrainRequest(runtime=STOCK, command=["true"])
    with pytest.raises(Forbidden) as caught:
        submit(backend, request, RunKey.of("test", {"user": user}), clock=RealClock())
    who = f"system:serviceaccount:{namespace}:{user}"
    assert caught.value.message == f"not allowed: {doing} trainjobs in namespace {namespace} as {who}"
    assert caught.value.remedy == (
        f"Missing is a Role in namespace {namespace} that allows {verb} on trainjobs.{keys.GROUP}, bound to {who}: "
        f"trainer-ops rbac --namespace {namespace} --service-account {namespace}:{user} | kubectl apply -f -"
    )
    backend.close()


def test_who_may_not_suspend_is_told(control_plane: Cluster, namespace: str) -> None:
    backend = open_backend(
        f"kubernetes:///{namespace}?kubeconfig={control_plane.plane.root}/kubeconfig-{namespace}-no-patch"
    )
    request = TrainRequest(runtime=STOCK, command=["true"], suspend=True)
    ref = submit(backend, request, RunKey.of("test", {"user": "no-patch"}), clock=RealClock()).ref
    with pytest.raises(Forbidden, match="not allowed: changing trainjobs"):
        cancel(backend, ref, policy="suspend", clock=RealClock())
    backend.delete(ref.name)
    backend.close()
