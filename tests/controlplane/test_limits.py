"""Each limit ends a wait with a category and a remedy of its own, and says whether the training was left alive.

``queue_timeout`` and ``startup_timeout`` have as many faces as there are reasons: those are in ``row_cases``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from tests.controlplane import hand_cases, row_cases
from tests.controlplane.fixtures import Cluster, unused_name
from tests.controlplane.plane import ADMIN_TOKEN
from tests.controlplane.row_cases import STOCK, TRAINED, stuck
from tests.controlplane.scene_runtimes import AGAIN, make_runtimes
from tests.controlplane.scenes import Case, Ends, Scene, check, play, sh
from tests.faults.proxy import FaultProxy
from trainer_ops.model.limits import Limits
from trainer_ops.model.outcome import Category
from trainer_ops.model.phase import Phase
from trainer_ops.status.verdict import error_for

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

BROKEN = sh("echo reading data; echo 'KeyError: label' >&2; exit 3")


def runs_too_long(scene: Scene) -> None:
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.outlast(Phase.RUNNING)


def is_cut_off(scene: Scene) -> FaultProxy:
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    proxy = PROXIES[scene.name]
    proxy.when().reset()
    proxy.cut_all()
    scene.story.until("no answer", lambda story: any(note.startswith("no answer from") for note in story.notes))
    return proxy


def comes_back(scene: Scene) -> None:
    proxy = is_cut_off(scene)
    proxy.clear()
    scene.story.until("an answer", lambda story: any(note.endswith("answers again") for note in story.notes))
    scene.hand.ended(scene.pods()[0], 0)


def ends_while_away(scene: Scene) -> None:
    """Nobody sees how it ends, until the server is there again."""
    proxy = is_cut_off(scene)
    scene.hand.ended(scene.pods()[0], 0)
    ended = scene.cluster.wait
    ended("TrainJob", scene.job, scene.namespace, lambda job: "Complete" in str(job["status"].get("conditions")))
    proxy.clear()


def stays_away(scene: Scene) -> None:
    is_cut_off(scene)
    scene.clock.move(1799)
    looks = scene.story.looks
    scene.story.until("a look before the limit", lambda story: story.looks > looks)
    scene.clock.move(10)


PROXIES: dict[str, FaultProxy] = {}


def behind_a_proxy(scene: Scene) -> str:
    plane = scene.cluster.plane
    proxy = PROXIES.get(scene.name)
    if proxy is None:
        proxy = PROXIES[scene.name] = FaultProxy(plane.port, plane.file("ca.crt"))
    url = f"http://127.0.0.1:{proxy.port}"
    return f"kubernetes:///{scene.namespace}?kubeconfig={plane.write_kubeconfig(ADMIN_TOKEN, scene.name, server=url)}"


CASES = {
    "endless": Case(
        "wait_timeout: runs longer than anybody waits",
        (18,),
        stuck(
            Category.DEADLINE,
            "wait_timeout=1:00:00",
            "it was running",
            phase=Phase.RUNNING,
            remedy="Raise wait_timeout",
        ),
        runs_too_long,
        {"wait_timeout": 3600},
        held=True,
    ),
    "slow": Case(
        "startup_timeout: nothing but slow",
        (17,),
        stuck(Category.UNKNOWN, "startup_timeout=15:00", remedy="raise startup_timeout"),
        lambda scene: scene.outlast(Phase.PENDING),
        {"startup_timeout": 900},
        held=True,
    ),
    "away": Case(
        "unreachable_timeout: the API server does not come back",
        (18,),
        Ends(
            Phase.RUNNING,
            Category.UNREACHABLE,
            ("no answer", "left alone"),
            ("last seen: running",),
            "trainer-ops wait away-",
        ),
        stays_away,
        held=True,
        target=behind_a_proxy,
    ),
    "back": Case("the API server comes back", (18, 4), TRAINED, comes_back, held=True, target=behind_a_proxy),
    "missed": Case(
        "it ends while the API server is away", (4,), TRAINED, ends_while_away, held=True, target=behind_a_proxy
    ),
    "typo": Case(
        "max_restarts: cancelled after two restarts of a node",
        (11,),
        Ends(
            Phase.FAILED,
            Category.RESTARTS_EXHAUSTED,
            ("exit code 3 on node-0", "max_restarts=2 was reached", "cancelled"),
            ("KeyError: label", "node-0: exit code 3, after 2 restarts"),
            alive=False,
        ),
        asks={"runtime": STOCK, "command": BROKEN, "max_restarts": 2},
    ),
    "first": Case(
        "max_restarts=0: cancelled at the first failure",
        (),
        Ends(
            Phase.FAILED,
            Category.EXIT_CODE,
            ("exit code 3 on node-0", "max_restarts=0: the training was cancelled"),
            ("KeyError: label", "node-0: exit code 3"),
            alive=False,
        ),
        asks={"runtime": STOCK, "command": BROKEN, "max_restarts": 0},
    ),
    "no-binary": Case(
        "max_restarts: a command that does not exist, again and again",
        (11,),
        Ends(
            Phase.FAILED,
            Category.RESTARTS_EXHAUSTED,
            ("cannot be started", "/no/such/binary", "max_restarts=1 was reached"),
            remedy="Check command and args",
            alive=False,
        ),
        asks={"runtime": STOCK, "command": ["/no/such/binary"], "max_restarts": 1},
        seen=((Phase.RESTARTING, "cannot be started"),),
    ),
    "jobset": Case(
        "max_restarts counts JobSet's restarts too",
        (11,),
        Ends(
            Phase.FAILED,
            Category.RESTARTS_EXHAUSTED,
            ("exit code 3 on node-0", "max_restarts=1 was reached"),
            ("KeyError: label",),
            alive=False,
        ),
        asks={"runtime": AGAIN, "command": BROKEN, "max_restarts": 1},
    ),
}
# Which cases show which limit.
SHOWN = {
    "queue_timeout": (row_cases.CASES["queued"], row_cases.CASES["suspended"], hand_cases.CASES["forgotten"]),
    "startup_timeout": (CASES["slow"], row_cases.CASES["image"], row_cases.CASES["quota"]),
    "wait_timeout": (CASES["endless"],),
    "unreachable_timeout": (CASES["away"], CASES["back"]),
    "missing_grace": (row_cases.CASES["never-made"], row_cases.CASES["made-late"]),
    "max_restarts": (CASES["typo"], CASES["first"], CASES["jobset"]),
}


@pytest.fixture(scope="module")
def played(control_plane: Cluster) -> Iterator[dict[str, Scene]]:
    namespace = control_plane.plane.namespace(unused_name("limits"))
    make_runtimes(control_plane, namespace)
    try:
        yield play(control_plane, namespace, CASES)
    finally:
        for proxy in PROXIES.values():
            proxy.close()
        PROXIES.clear()
        control_plane.api.delete("Namespace", namespace)


@pytest.mark.parametrize("case", CASES)
def test_case(played: dict[str, Scene], case: str) -> None:
    check(played[case])


def test_every_limit_is_shown() -> None:
    assert set(SHOWN) == {field.name for field in dataclasses.fields(Limits)}


@pytest.mark.parametrize(
    ("case", "error"),
    [
        ("endless", "TrainJobWaitTimeout"),
        ("slow", "TrainJobNotStarted"),
        ("away", "TargetUnreachable"),
        ("typo", "TrainJobRestartsExhausted"),
        ("first", "TrainJobFailed"),
    ],
)
def test_each_limit_has_its_error(played: dict[str, Scene], case: str, error: str) -> None:
    outcome = played[case].story.outcome
    assert outcome is not None
    assert type(error_for(outcome)).__name__ == error
