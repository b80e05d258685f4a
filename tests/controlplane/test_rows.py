"""Every row of the decision table, on the real control plane, through ``submit`` and the two loops.

Each case must come through the rows that it names (``Case.rows``); the table says which cases reach which row, and a
test holds it against them. What the cases do stands in ``row_cases``, ``paused_cases`` and ``hand_cases``.

| row | what is seen                  | reached by                                              |
|-----|-------------------------------|---------------------------------------------------------|
| 0   | a terminal state of before    | test_row_0_what_has_failed_stays_failed                 |
| 1   | not there yet                 | made-late, never-made                                   |
| 2   | not there any more            | deleted, foreground, never-made, cleared                |
| 3   | another of the same name      | again, others                                           |
| 4   | Complete                      | trains, short, flaky, jobset-again, fetch, replaced-pod |
| 5   | Failed                        | crash-loop, one-of-two, no-command, oom, evicted,       |
|     |                               | used-up, deadline, no-data, podless, node-lost          |
| 6   | being deleted                 | foreground                                              |
| 7   | MultiKueue's                  | elsewhere                                               |
| 8   | in a queue                    | queued                                                  |
| 9   | suspended                     | suspended, paused, forgotten, resuming                  |
| 10  | being resumed                 | resuming                                                |
| 11  | restarting                    | jobset-again, used-up, crash-loop, flaky                |
| 12  | the controller cannot make it | name, no-jobset                                         |
| 13  | no status                     | no-trainer                                              |
| 14  | dataset initializer           | fetch, slow-fetch                                       |
| 15  | model initializer             | fetch, slow-fetch                                       |
| 16  | something failed              | one-of-two, replaced-pod, node-lost                     |
| 17  | pods do not run yet           | trains, image, no-registry, too-big, no-configmap,      |
|     |                               | no-secret, no-claim, gated                              |
| 18  | runs                          | trains, oom, suspended                                  |
| 19  | has run                       | completing                                              |
| 20  | else                          | quota, no-account, insecure                             |
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pytest

from tests.controlplane import hand_cases, paused_cases
from tests.controlplane.fixtures import Cluster, terminal, unused_name
from tests.controlplane.row_cases import CASES, INSECURE
from tests.controlplane.scene_runtimes import make_runtimes
from tests.controlplane.scenes import Case, Scene, check, play, sh
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.drive import drive
from trainer_ops.lifecycle.listener import Silent
from trainer_ops.lifecycle.submit import submit
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model.identity import RunKey
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Category
from trainer_ops.model.phase import Phase, State
from trainer_ops.model.request import TrainRequest
from trainer_ops.status.classify import classify
from trainer_ops.status.wait import Done, Step, Wait

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]

ALL: Mapping[str, Case] = {
    **CASES,
    **INSECURE,
    **hand_cases.CASES,
    **paused_cases.WITHOUT_JOBSET,
    **paused_cases.WITHOUT_TRAINER,
    **paused_cases.NODE_LOST,
}


@pytest.fixture(scope="module")
def namespace(control_plane: Cluster) -> Iterator[str]:
    name = control_plane.plane.namespace(unused_name("rows"))
    make_runtimes(control_plane, name)
    quota = {"hard": {"requests.nvidia.com/gpu": "0"}}
    meta = {"name": "no-gpus", "namespace": name}
    control_plane.api.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": quota})
    yield name
    control_plane.api.delete("Namespace", name)


@pytest.fixture(scope="module")
def played(control_plane: Cluster, namespace: str) -> dict[str, Scene]:
    """All cases, played together."""
    return play(control_plane, namespace, CASES)


@pytest.mark.parametrize("case", CASES)
def test_case(played: dict[str, Scene], case: str) -> None:
    check(played[case])


def test_every_row_is_reached() -> None:
    table = _table()
    assert list(table) == list(range(21))
    assert table.pop(0) == ["test_row_0_what_has_failed_stays_failed"]
    assert "test_row_0_what_has_failed_stays_failed" in globals()
    wrong = [(row, name) for row, names in table.items() for name in names if row not in ALL[name].rows]
    assert not wrong, "these cases do not have to come through these rows"


def _table() -> dict[int, list[str]]:
    rows: dict[int, list[str]] = {}
    for line in (__doc__ or "").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 3 or not (cells[0].isdigit() or not cells[0]):
            continue
        row = int(cells[0]) if cells[0] else max(rows)
        rows.setdefault(row, []).extend(name for name in cells[2].replace(" ", "").split(",") if name)
    return rows


class Replica(Silent):
    """A second wait for the same training, shown what the first is shown."""

    def __init__(self, wait: Wait) -> None:
        self.wait = wait
        self.step: Step | None = None

    def on_state(self, state: State, obs: Observation | None) -> None:
        if obs is not None:
            self.wait, self.step = self.wait.see(obs, obs.at)


def test_pod_security_refuses_the_pods(control_plane: Cluster, cluster_namespace: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    control_plane.api.patch("Namespace", cluster_namespace, {"metadata": {"labels": labels}})
    make_runtimes(control_plane, cluster_namespace)
    check(play(control_plane, cluster_namespace, INSECURE)["insecure"])


def test_row_0_what_has_failed_stays_failed(control_plane: Cluster, namespace: str) -> None:
    """Trainer up to 2.3 drops ``Failed`` and runs a failed training again when its JobSet is gone (trainer #3737)."""
    backend = open_backend(f"kubernetes:///{namespace}?kubeconfig={control_plane.kubeconfig}")
    request = TrainRequest(runtime="never", runtime_kind="TrainingRuntime", command=sh("sleep 1; exit 3"))
    ref = submit(backend, request, RunKey.of("test", {"namespace": namespace}, slug="latched"), clock=RealClock()).ref
    replica = Replica(Wait.begin(ref, request.limits, now=time.time()))
    first = drive(backend, replica.wait, clock=RealClock(), listener=replica)
    assert (first.phase, replica.step) == (Phase.FAILED, Done())
    control_plane.api.delete("JobSet", ref.name, namespace=namespace)
    control_plane.wait("TrainJob", ref.name, namespace, lambda job: terminal(job) == "")
    obs = backend.observe(ref.name, now=time.time())
    assert not classify(obs, uid=ref.uid).phase.finished, "it runs again"
    carried = Wait.from_json(replica.wait.to_json())
    latched, step = carried.see(obs, obs.at)
    assert (latched, step) == (carried, Done())
    again = drive(backend, carried, clock=RealClock())
    assert again.phase is Phase.FAILED
    assert again.diagnosis is not None
    assert again.diagnosis.category is Category.EXIT_CODE
    backend.delete(ref.name)
    backend.close()
