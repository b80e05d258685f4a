"""Snapshots on a real control plane: a Job on a claim, run by the test kubelet, then trainings of Trainer read it."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import trainer_ops
from tests.controlplane.fixtures import Cluster
from tests.controlplane.plane import wait_until
from tests.controlplane.trainings import Heard, target_of, token_of
from trainer_ops.backends.base import Backend
from trainer_ops.errors import Forbidden, InvalidRequest
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.snapshots import (
    SnapshotWait,
    aawait_snapshot,
    begin_snapshot,
    cancel_snapshot,
    gc_snapshots,
    list_snapshots,
    see_snapshot,
    take_snapshot,
    verify_snapshot,
)
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model.snapshot import Snapshot

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

CLOCK = RealClock()
# On the source's claim, imported by the Job's Python before anything else: it waits while a file is there.
HOLD = """
import os, time
while os.path.exists("/claims/raw/held"):
    time.sleep(0.05)
"""


class Hasty(RealClock):
    """So many times as fast: for deadlines of minutes."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._began = super().now()

    def now(self) -> float:
        return self._began + (super().now() - self._began) * self._speed

    def sleep(self, seconds: float, watch: Any = None) -> None:
        super().sleep(seconds / self._speed, watch)


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.started: list[tuple[int, int, int]] = []
        self.notes: list[str] = []

    def on_start(self, files: int, size: int, done: int) -> None:
        self.started.append((files, size, done))

    def on_progress(self, size: int, files: int) -> None:
        """How far it is."""

    def on_note(self, text: str) -> None:
        self.notes.append(text)


class Room:
    """A namespace with a claim ``raw`` that has data on it."""

    def __init__(self, cluster: Cluster, namespace: str, target: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.target = target
        self.backend: Backend = open_backend(target)
        self.make_claim("raw")
        self.raw = self.folder("raw")
        (self.raw / "digits" / "deep").mkdir(parents=True)
        (self.raw / "digits" / "train.csv").write_text("1\n2\n3\n")
        (self.raw / "digits" / "deep" / "test.csv").write_text("4\n")
        (self.raw / "sitecustomize.py").write_text(HOLD)

    def make_claim(self, name: str) -> None:
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        obj = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        self.cluster.api.create(obj, namespace=self.namespace)

    def folder(self, claim: str) -> Path:
        return self.cluster.kubelet.claim(self.namespace, claim)

    def jobs(self) -> list[dict[str, Any]]:
        return self.cluster.api.list("Job", namespace=self.namespace, labelSelector="trainer-ops/snapshot")

    def pods(self) -> list[dict[str, Any]]:
        return self.cluster.api.list("Pod", namespace=self.namespace, labelSelector="trainer-ops/snapshot")

    def take(self, uri: str = "pvc://raw/digits", **asked: Any) -> Snapshot:
        given = {"to": "pvc://store/team", "storage": "1Gi", "clock": CLOCK, "backend": self.backend, **asked}
        return take_snapshot(given.pop("backend"), uri, **given)

    def hold(self) -> dict[str, str]:
        """From now on Jobs with this environment wait at their very beginning; delete ``held`` to let them go."""
        (self.raw / "held").touch()
        return {"PYTHONPATH": "/claims/raw"}

    def let_go(self) -> None:
        (self.raw / "held").unlink()

    def until_running(self) -> None:
        wait_until("a pod of a snapshot runs", lambda: [p["status"]["phase"] for p in self.pods()] == ["Running"])


@pytest.fixture
def room(control_plane: Cluster, cluster_namespace: str, cluster_target: str) -> Iterator[Room]:
    if control_plane.kubelet.mode == "plain":
        pytest.skip("it needs containers: what a Job mounts is at paths of its own")
    made = Room(control_plane, cluster_namespace, cluster_target)
    yield made
    (made.raw / "held").unlink(missing_ok=True)
    made.backend.close()


def read(where: str = "/workspace/dataset") -> dict[str, Any]:
    import os

    names = sorted(os.path.join(d, f)[len(where) + 1 :] for d, _, files in os.walk(where) for f in files)
    try:
        open(f"{where}/train.csv", "a").close()
        writable = 1
    except OSError:
        writable = 0
    with open(os.environ["TRAINER_OPS_DATASET_DIR"] + "/train.csv") as table:
        total = sum(map(float, table.read().split()))
    print("files:", names, flush=True)
    return {"metrics": {"total": total, "writable": writable}, "artifacts": {"files": names}}


def test_one_snapshot_and_two_trainings_that_read_it(room: Room) -> None:
    heard = Listener()
    made = room.take(listener=heard)
    assert (made.kind, made.uri, made.files, made.size, made.hit) == ("dataset", "pvc://raw/digits", 2, 8, False)
    assert made.location == f"pvc://store/team/{made.key}/data"
    assert (room.folder("store") / "team" / made.key / "data" / "deep" / "test.csv").read_text() == "4\n"
    assert heard.started == [(2, 8, 0)]
    assert heard.notes[0] == "made the claim store of 1Gi"
    assert heard.notes[1].startswith("made Job snapshot-digits-")

    for form in (made, json.dumps(made.to_json())):
        lines = Heard()
        outcome = trainer_ops.run(
            runtime="xgboost-distributed",
            python_callable=read,
            num_nodes=2,
            dataset=form,
            termination_grace_period_seconds=5,
            target=room.target,
            listener=lines,
            max_restarts=0,
            wait_timeout=120,
        )
        assert outcome.succeeded, f"{outcome.diagnosis}\n{lines.text()}"
        assert outcome.metrics == {"total": 6.0, "writable": 0.0}
        assert outcome.artifacts == {"files": ["deep/test.csv", "train.csv"]}
        assert {node for node, line in lines.lines if line.startswith("files:")} == {"node-0", "node-1"}
    assert len(room.jobs()) == 1

    again = room.take()
    assert (again.key, again.digest, again.hit) == (made.key, made.digest, True)
    (room.raw / "digits" / "train.csv").write_text("10\n")
    moved = room.take()
    assert moved.key != made.key
    assert not moved.hit
    assert [job["metadata"]["labels"]["trainer-ops/attempt"] for job in room.jobs()] == ["1", "2", "3"]


def test_a_dataset_and_a_model_of_one_claim(room: Room) -> None:
    """A claim twice in a pod may never be mounted: both are mounts of one volume, in two patches."""
    dataset = room.take(include=["train.csv"])
    model = room.take(kind="model", include=["deep/"])
    submitted = trainer_ops.submit(
        runtime="torch-distributed",
        command=["bash", "-c", "cat $TRAINER_OPS_DATASET_DIR/train.csv $TRAINER_OPS_MODEL_DIR/deep/test.csv; mount"],
        dataset=dataset,
        model=model,
        target=room.target,
    )
    heard = Heard()
    outcome = trainer_ops.wait(submitted.ref, target=room.target, listener=heard)
    assert outcome.succeeded, f"{outcome.diagnosis}\n{heard.text()}"
    assert [line for _, line in heard.lines][:4] == ["1", "2", "3", "4"]
    [pod] = room.cluster.pods(room.namespace, submitted.ref.name)
    claims = [v["persistentVolumeClaim"] for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
    assert claims == [{"claimName": "store", "readOnly": True}]
    mounts = {m["mountPath"]: m["subPath"] for m in pod["spec"]["containers"][0]["volumeMounts"] if "subPath" in m}
    assert mounts == {
        "/workspace/dataset": f"team/{dataset.key}/data",
        "/workspace/model": f"team/{model.key}/data",
    }


def test_a_snapshot_that_was_removed_meanwhile_is_told(room: Room) -> None:
    made = room.take()
    shutil.rmtree(room.folder("store") / "team" / made.key)
    outcome = trainer_ops.run(
        runtime="torch-distributed", command=["true"], dataset=made, target=room.target, startup_timeout=5
    )
    assert not outcome.succeeded
    assert "subPath" in str(outcome.diagnosis)


# (what is asked for, field, text)
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "nothing at the source": ({"uri": "pvc://raw/none"}, "uri", "pvc://raw/none: No such file or directory"),
    "nothing matched": ({"include": ["*.parquet"]}, "include", "*.parquet matches none of the 2 files"),
    "no such revision": ({"revision": "v1"}, "revision", 'pvc://raw/digits holds "'),
}


@pytest.mark.parametrize(("asked", "field", "text"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_told_in_the_jobs_words_and_not_tried_again(
    room: Room, asked: dict[str, Any], field: str, text: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        room.take(**asked)
    assert caught.value.field == field
    assert text in caught.value.reason
    assert caught.value.remedy
    assert len(room.pods()) == 1


def test_a_claim_that_is_not_there(room: Room) -> None:
    with pytest.raises(InvalidRequest) as caught:
        room.take(to="pvc://absent", storage=None)
    assert str(caught.value) == (
        f'invalid request: to: there is no claim "absent" in namespace {room.namespace}. Give storage (a size such as '
        '"20Gi") to have it made, or name one that is there: pvc://claim'
    )
    assert room.jobs() == []


# (what is asked for, what is said, the remedy)
STUCK: dict[str, tuple[dict[str, Any], str, str]] = {
    "no such Secret": ({"secret_ref": "absent"}, 'secret "absent" not found', "or correct secret_ref"),
    "no such image": (
        {"image": "absent.example/x:1"},
        'image "absent.example/x:1" cannot be pulled: not found',
        "Give an image that this",
    ),
    "too much": ({"resources": {"requests": {"cpu": "99"}}}, "0/2 nodes are available: 2 Insufficient cpu", "Ask for"),
    "no such class": (
        {"storage_class": "absent"},
        'claim store is not bound: storageclass.storage.k8s.io "absent" not found',
        "Look at the claim's class",
    ),
}


@pytest.mark.parametrize(("asked", "text", "remedy"), STUCK.values(), ids=STUCK.keys())
def test_what_cannot_start_is_explained_and_taken_away(
    room: Room, asked: dict[str, Any], text: str, remedy: str
) -> None:
    heard = Listener()
    with pytest.raises(SnapshotError) as caught:
        room.take(**asked, clock=Hasty(60.0), listener=heard, startup_timeout=300)
    assert f"cannot start: {text}" in caught.value.message
    assert caught.value.remedy is not None
    assert remedy in caught.value.remedy
    assert any(text in note for note in heard.notes)
    wait_until("the Job is gone", lambda: room.jobs() == [])


def test_its_own_deadline(room: Room) -> None:
    with pytest.raises(SnapshotError, match=r"was not done within 2 s \(active_deadline_seconds\)\. Give it more time"):
        room.take(env=room.hold(), active_deadline_seconds=2)


def test_the_callers_patience(room: Room) -> None:
    env = room.hold()
    with pytest.raises(SnapshotError, match=r"has not ended after 0:02 \(wait_timeout\)\. It goes on") as caught:
        room.take(env=env, wait_timeout=2)
    assert caught.value.transient
    room.let_go()
    assert room.take(env=env).files == 2
    assert len(room.jobs()) == 1


CALLER = """
import sys
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.snapshots import take_snapshot
from trainer_ops.lifecycle.target import open_backend

take_snapshot(open_backend(sys.argv[1]), "pvc://raw/digits", to="pvc://store/team", storage="1Gi",
              env={"PYTHONPATH": "/claims/raw"}, clock=RealClock())
"""


def test_a_caller_that_is_killed_is_followed_by_one_that_joins_its_job(room: Room) -> None:
    env = room.hold()
    caller = subprocess.Popen([sys.executable, "-c", textwrap.dedent(CALLER), room.target])
    try:
        room.until_running()
    finally:
        caller.kill()
        caller.wait()
    [before] = room.jobs()
    heard = Listener()
    letting = threading.Timer(1.0, room.let_go)
    letting.start()
    made = room.take(env=env, listener=heard)
    letting.join()
    assert not made.hit
    assert heard.notes[0] == f"joined Job {before['metadata']['name']} in namespace {room.namespace}"
    assert [job["metadata"]["uid"] for job in room.jobs()] == [before["metadata"]["uid"]]


def test_twenty_callers_at_once_are_one_job(room: Room) -> None:
    with ThreadPoolExecutor(20) as pool:
        made = list(pool.map(lambda _: room.take(), range(20)))
    assert len({snapshot.key for snapshot in made}) == 1
    assert len(room.jobs()) == 1


def test_the_same_asker_gets_its_own_result_again(room: Room) -> None:
    first = room.take(key="run-1")
    (room.raw / "digits" / "train.csv").write_text("10\n")
    assert room.take(key="run-1") == first
    assert room.take(key="run-2").key != first.key


def test_a_refresh_reads_what_is_there_again(room: Room) -> None:
    made = room.take()
    file = room.folder("store") / "team" / made.key / "data" / "train.csv"
    file.write_text("spoiled\n")
    assert room.take().hit
    mended = room.take(refresh=True)
    assert (mended.key, mended.digest, mended.hit) == (made.key, made.digest, False)
    assert file.read_text() == "1\n2\n3\n"


def test_one_that_is_interrupted_deletes_its_job(room: Room) -> None:
    class Interrupted(RealClock):
        def sleep(self, seconds: float, watch: Any = None) -> None:
            if [pod["status"]["phase"] for pod in room.pods()] == ["Running"]:
                raise KeyboardInterrupt
            super().sleep(0.1)

    with pytest.raises(KeyboardInterrupt):
        room.take(env=room.hold(), clock=Interrupted())
    wait_until("the Job is gone", lambda: room.jobs() == [] and room.pods() == [])


def test_one_who_only_joined_leaves_the_job_alone(room: Room) -> None:
    asked: dict[str, Any] = {"to": "pvc://store", "storage": "1Gi", "env": room.hold(), "clock": CLOCK}
    first = begin_snapshot(room.backend, "pvc://raw/digits", **asked)
    second = begin_snapshot(room.backend, "pvc://raw/digits", **asked)
    assert (second.uid, first.joined, second.joined) == (first.uid, False, True)
    assert not cancel_snapshot(room.backend, second)
    assert len(room.jobs()) == 1
    assert cancel_snapshot(room.backend, first)
    assert not cancel_snapshot(room.backend, first)
    with pytest.raises(SnapshotError, match="was deleted by somebody before it was done") as caught:
        see_snapshot(room.backend, second, CLOCK.now())
    assert caught.value.transient


def test_the_wait_goes_on_in_another_process_and_in_an_event_loop(room: Room) -> None:
    begun = begin_snapshot(room.backend, "pvc://raw/digits", to="pvc://store", storage="1Gi", clock=CLOCK)
    carried = SnapshotWait.from_json(json.loads(json.dumps(begun.to_json())))
    assert carried == begun
    elsewhere = open_backend(room.target)
    made = asyncio.run(aawait_snapshot(elsewhere, carried, clock=CLOCK))
    elsewhere.close()
    assert made.location == f"pvc://store/{made.key}/data"


def test_an_answer_that_went_with_its_pod_is_asked_for_again(room: Room) -> None:
    begun = begin_snapshot(room.backend, "pvc://raw/digits", to="pvc://store", storage="1Gi", clock=CLOCK)
    room.cluster.wait("Job", begun.name, room.namespace, lambda job: bool((job["status"] or {}).get("completionTime")))
    [pod] = room.pods()
    room.cluster.api.delete("Pod", pod["metadata"]["name"], namespace=room.namespace)
    wait_until("the pod is gone", lambda: room.pods() == [])
    made = asyncio.run(aawait_snapshot(room.backend, begun, clock=CLOCK))
    assert made.hit
    assert len(room.jobs()) == 2


def test_listed_verified_and_cleared(room: Room) -> None:
    at: dict[str, Any] = {"to": "pvc://store/team", "clock": CLOCK}
    made = [room.take(include=["train.csv"]), room.take(include=["deep/"])]
    found = list_snapshots(room.backend, **at)
    assert {one.key: (one.uri, one.count) for one in found} == {one.key: (one.uri, one.files) for one in made}
    assert verify_snapshot(room.backend, made[0].key, **at) == ()
    (room.folder("store") / "team" / made[0].key / "data" / "train.csv").write_text("1\n")
    assert verify_snapshot(room.backend, made[0].key, **at) == ("train.csv: has 2 bytes instead of 6",)
    asked = {**at, "keep": [made[1].key], "keep_last": 0}
    assert [one.key for one in gc_snapshots(room.backend, **asked, dry_run=True).snapshots] == [made[0].key]
    freed = gc_snapshots(room.backend, **asked)
    assert ([one.key for one in freed.snapshots], freed.busy) == ([made[0].key], ())
    assert [one.key for one in list_snapshots(room.backend, **at)] == [made[1].key]
    wait_until("their Jobs are gone", lambda: len(room.jobs()) == 2)


def test_a_namespace_of_the_strictest_pod_security_takes_it(room: Room) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    room.cluster.api.patch("Namespace", room.namespace, {"metadata": {"labels": labels}})
    assert room.take().files == 2


# What a caller needs on a cluster, and nothing else.
RIGHTS = (
    ("batch", "jobs", ("create", "get", "list", "delete")),
    ("", "pods", ("get", "list")),
    ("", "pods/log", ("get",)),
    ("", "persistentvolumeclaims", ("get", "create")),
)


def test_the_rights_that_it_takes(room: Room) -> None:
    token = token_of(room.cluster, room.namespace, "caller")
    backend = open_backend(target_of(room.cluster, room.namespace, token))
    try:
        with pytest.raises(Forbidden) as caught:
            room.take(backend=backend, storage=None, to="pvc://raw/store")
        assert f"not allowed: listing jobs in namespace {room.namespace}" in str(caught.value)
        assert "allows list on jobs.batch" in str(caught.value)
        grant(room, "caller")
        assert room.take(backend=backend).files == 2
    finally:
        backend.close()


def grant(room: Room, account: str) -> None:
    api = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [group], "resources": [kind], "verbs": list(verbs)} for group, kind, verbs in RIGHTS]
    role = {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": {"name": account}, "rules": rules}
    room.cluster.api.create(role, namespace=room.namespace)
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": account},
        "roleRef": {"apiGroup": api, "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": room.namespace}],
    }
    room.cluster.api.create(binding, namespace=room.namespace)
