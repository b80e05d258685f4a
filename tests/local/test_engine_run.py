from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.backends.base import Backend, log_sources
from trainer_ops.errors import AlreadyExists, InvalidRequest, Rejected, RuntimeNotFound
from trainer_ops.local.engine import LocalBackend
from trainer_ops.local.target import open_local
from trainer_ops.model.phase import Phase

REPORT = """
import json, os, sys
print("rank", os.environ["JOB_COMPLETION_INDEX"], flush=True)
open(os.environ["TRAINER_OPS_RESULT_PATH"], "w").write(json.dumps({"metrics": {"loss": 0.5}}))
print("to stderr", file=sys.stderr)
"""


def test_it_is_a_backend(engine: Any) -> None:
    backend: Backend = engine.backend
    assert backend.namespace == "default"


def test_two_nodes_train(engine: Any, gone: Any) -> None:
    uid = engine.create("two", REPORT, nodes=2)
    seen = engine.finished("two")
    assert engine.state("two").phase is Phase.SUCCEEDED
    assert seen.job.condition("Complete").reason == "AllJobsCompleted"
    assert [(j.name, j.active, j.ready, j.succeeded, j.failed) for j in seen.job.jobs] == [("node", 0, 0, 1, 0)]
    assert [(p.node, p.phase) for p in seen.pods] == [("node-0", "Succeeded"), ("node-1", "Succeeded")]
    for pod in seen.pods:
        ended = pod.main.terminated
        assert (ended.exit_code, ended.reason) == (0, "Completed")
        assert json.loads(ended.message) == {"metrics": {"loss": 0.5}}
        assert ended.started_at <= ended.finished_at
        assert pod.condition("PodScheduled").holds
        assert not pod.condition("Ready").holds
        assert pod.condition("Ready").reason == "PodCompleted"
        assert not pod.deleting
    assert sorted(engine.lines("two", index=1)) == ["rank 1", "to stderr"]
    gone(uid)


def test_names_and_labels_are_those_of_a_cluster(engine: Any) -> None:
    uid = engine.create("names", "pass", nodes=2)
    engine.finished("names")
    first, second = engine.backend.pods("names", uid=uid)
    for index, pod in enumerate((first, second)):
        name, labels = pod["metadata"]["name"], pod["metadata"]["labels"]
        assert name.startswith(f"names-node-0-{index}-")
        assert len(name.rpartition("-")[2]) == 5
        assert labels["jobset.sigs.k8s.io/jobset-name"] == "names"
        assert labels["jobset.sigs.k8s.io/replicatedjob-name"] == "node"
        assert labels["jobset.sigs.k8s.io/restart-attempt"] == "0"
        assert labels["batch.kubernetes.io/job-completion-index"] == str(index)
        assert labels["batch.kubernetes.io/job-name"] == "names-node-0"


def test_the_stored_object_has_the_defaults(engine: Any) -> None:
    uid = engine.create("defaults", "pass", metadata={"labels": {"team": "a"}})
    job = engine.backend.get("defaults")
    meta, spec = job["metadata"], job["spec"]
    assert (meta["uid"], meta["namespace"], meta["labels"]) == (uid, "default", {"team": "a"})
    assert meta["creationTimestamp"].endswith("Z")
    assert int(meta["resourceVersion"]) > 0
    assert spec["runtimeRef"] == {
        "name": "t-plain",
        "kind": "ClusterTrainingRuntime",
        "apiGroup": "trainer.kubeflow.org",
    }
    assert (spec["suspend"], spec["managedBy"]) == (False, "trainer.kubeflow.org/trainjob-controller")
    engine.finished("defaults")
    later = engine.backend.get("defaults")
    assert int(later["metadata"]["resourceVersion"]) > int(meta["resourceVersion"])


def test_events_tell_the_story(engine: Any) -> None:
    uid = engine.create("story", "import sys; sys.exit(3)")
    seen = engine.finished("story")
    told = [(e.kind, e.reason, e.warning) for e in seen.events]
    assert ("Job", "SuccessfulCreate", False) in told
    assert ("Pod", "Started", False) in told
    assert ("Job", "BackoffLimitExceeded", True) in told
    assert ("JobSet", "FailedJobs", True) in told
    assert all(e.at for e in seen.events)
    assert len(engine.backend.events("story", uid=uid)) == len(told)


def test_list_selects_by_labels_oldest_first(engine: Any) -> None:
    for name, team in (("a1", "a"), ("b1", "b"), ("a2", "a")):
        engine.create(name, "pass", metadata={"labels": {"team": team, "x": "y"}})
    names = [j["metadata"]["name"] for j in engine.backend.list({"team": "a", "x": "y"})]
    assert names == ["a1", "a2"]
    assert len(engine.backend.list()) == 3
    assert engine.backend.list({"team": "c"}) == []


def test_the_training_runs_where_it_was_submitted_with_its_environment(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "code"
    here.mkdir()
    (here / "train.py").write_text(
        "import os\nfor n in ('MINE', 'OWN', 'AIRFLOW__CORE__FERNET_KEY', 'RANK', 'TRAINER_OPS_RUN_KEY'):\n"
        "    print(n, os.environ.get(n), flush=True)\n"
    )
    monkeypatch.chdir(here)
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "secret")
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("TRAINER_OPS_RUN_KEY", "another")
    engine.create("cwd", ["python", "train.py"], trainer={"env": [{"name": "OWN", "value": "2"}]})
    engine.finished("cwd")
    assert engine.lines("cwd") == [
        "MINE 1",
        "OWN 2",
        "AIRFLOW__CORE__FERNET_KEY None",
        "RANK None",
        "TRAINER_OPS_RUN_KEY None",
    ]


def test_python_is_the_interpreter_of_the_submitter(engine: Any) -> None:
    engine.create("which", ["python3", "-c", "import sys; print(sys.prefix)"])
    engine.finished("which")
    assert engine.lines("which") == [sys.prefix]


def test_a_step_waits_for_those_it_depends_on(
    make_engine: Any, make_runtime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = {"name": "first", "containers": [{"name": "first", "command": ["sh", "-c", "sleep 0.3; echo made > made"]}]}
    engine = make_engine(make_runtime("t-after", before=[first]))
    uid = engine.create("after", ["sh", "-c", "cat made"], runtime="t-after")
    engine.finished("after")
    assert engine.lines("after") == ["made"]
    step = "jobset.sigs.k8s.io/replicatedjob-name"
    pods = {p["metadata"]["labels"][step]: p for p in engine.backend.pods("after", uid=uid)}
    ended = pods["first"]["status"]["containerStatuses"][0]["state"]["terminated"]
    began = pods["node"]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["finishedAt"] <= began["startedAt"]


def test_a_step_that_fails_before_the_training_fails_the_training(make_engine: Any, make_runtime: Any) -> None:
    first = {"name": "first", "containers": [{"name": "first", "command": ["false"]}]}
    engine = make_engine(make_runtime("t-after", before=[first]))
    engine.create("never", "pass", runtime="t-after")
    seen = engine.finished("never")
    assert seen.job.condition("Failed").message.endswith("(first failed job: never-first-0)")
    assert [p.step for p in seen.pods] == ["first"]
    assert {j.name: (j.failed, j.active) for j in seen.job.jobs} == {"first": (1, 0), "node": (0, 0)}


def test_steps_that_still_run_after_success_are_stopped(make_engine: Any, make_runtime: Any, gone: Any) -> None:
    helper = {"name": "helper", "containers": [{"name": "helper", "command": ["sleep", "600"]}], "until": "Ready"}
    success = {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["node"]}}
    engine = make_engine(make_runtime("t-helped", before=[helper], jobset=success))
    uid = engine.create("helped", "print('trained')", runtime="t-helped")
    engine.finished("helped")
    gone(uid)
    engine.settled(uid)
    seen = engine.look("helped")
    assert engine.state("helped").phase is Phase.SUCCEEDED
    helper_pod = next(p for p in seen.pods if p.step == "helper")
    assert (helper_pod.deleting, helper_pod.main.terminated.exit_code) == (True, 143)


def test_init_containers_and_sidecars(make_engine: Any, make_runtime: Any, gone: Any) -> None:
    pod = {
        "initContainers": [
            {"name": "sidecar", "image": "x", "command": ["sleep", "600"], "restartPolicy": "Always"},
            {"name": "before", "image": "x", "command": ["sh", "-c", "echo prepared"]},
        ],
        "containers": [{"name": "node", "image": "x"}],
    }
    engine = make_engine(make_runtime("t-pod", pod=pod))
    uid = engine.create("pod", "print('trained')", runtime="t-pod")
    seen = engine.finished("pod")
    assert engine.state("pod").phase is Phase.SUCCEEDED
    states = {c.name: (c.init, c.terminated.exit_code) for c in seen.pods[0].containers}
    assert states == {"sidecar": (True, 143), "before": (True, 0), "node": (False, 0)}
    assert [s.container for s in log_sources(seen.pods)] == ["node"]
    gone(uid)


def test_an_init_container_that_fails(make_engine: Any, make_runtime: Any) -> None:
    pod = {
        "initContainers": [{"name": "before", "image": "x", "command": ["false"]}],
        "containers": [{"name": "node", "image": "x"}],
    }
    engine = make_engine(make_runtime("t-pod", pod=pod))
    engine.create("pod", "print('trained')", runtime="t-pod")
    seen = engine.finished("pod")
    assert engine.state("pod").phase is Phase.FAILED
    assert [(c.name, c.state) for c in seen.pods[0].containers] == [("before", "terminated"), ("node", "waiting")]


def test_a_name_is_taken_once(engine: Any) -> None:
    uid = engine.create("once", "pass")
    with pytest.raises(AlreadyExists) as caught:
        engine.create("once", "pass")
    assert caught.value.status == 409
    assert engine.backend.get("once")["metadata"]["uid"] == uid
    assert len(list((engine.backend.root / "jobs").iterdir())) == 1


def test_an_unknown_runtime(engine: Any) -> None:
    with pytest.raises(RuntimeNotFound, match="Did you mean t-plain") as caught:
        engine.create("typo", "pass", runtime="t-plane")
    assert "t-plain" in caught.value.known
    assert engine.backend.list() == []


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        pytest.param({"spec": {"runtimeRef": {"name": "t-plain"}}}, "metadata.name", id="no name"),
        pytest.param(
            {
                "metadata": {"name": "x"},
                "spec": {"runtimeRef": {"name": "t-plain"}, "managedBy": "kueue.x-k8s.io/multikueue"},
            },
            "spec.managedBy",
            id="multikueue",
        ),
        pytest.param(
            {"metadata": {"name": "x"}, "spec": {"runtimeRef": {"name": "t-plain"}}},
            "spec.trainer.command",
            id="no command",
        ),
    ],
)
def test_refused_before_anything_is_stored(engine: Any, manifest: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        engine.backend.create(manifest)
    assert caught.value.field == field
    assert engine.backend.list() == []
    assert not (engine.backend.root / "jobs").exists()


@pytest.mark.parametrize("name", ["../../etc", "Upper", "a" * 64, "1st", "ends-", "a.b"], ids=str)
def test_names_are_admitted_as_on_a_cluster(engine: Any, name: str) -> None:
    with pytest.raises(Rejected, match=r"metadata\.name"):
        engine.create(name, "pass")
    assert engine.backend.list() == []


def test_another_namespace_is_not_used_and_that_is_said(engine: Any) -> None:
    uid = engine.create("spaced", "pass", metadata={"namespace": "team-a"})
    assert engine.backend.get("spaced")["metadata"]["namespace"] == "default"
    assert any('"team-a" is not used' in e["message"] for e in engine.backend.events("spaced", uid=uid))


def test_the_manifest_given_is_not_changed(engine: Any) -> None:
    manifest = {
        "metadata": {"name": "mine"},
        "spec": {"runtimeRef": {"name": "t-plain"}, "trainer": {"command": ["true"]}},
    }
    before = json.dumps(manifest)
    engine.backend.create(manifest)
    assert json.dumps(manifest) == before


def test_target_round_trip(tmp_path: Path) -> None:
    root = tmp_path / "with space"
    backend = LocalBackend(root, max_jobs=3)
    again = open_local(backend.target)
    assert (again.target, again.root) == (backend.target, root)
    assert open_local(f"local://{tmp_path}").target == f"local://{tmp_path}"


@pytest.mark.parametrize(
    "url", ["local://host/dir", "local:relative", "kubernetes://x/y", "local:///d?max_jobs=0", "local:///d?jobs=1"]
)
def test_no_local_target(url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        open_local(url)
    assert caught.value.field == "target"


@pytest.mark.parametrize("below", ["", "/engine"])
def test_a_file_is_no_target(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InvalidRequest, match="is a file, not a folder") as caught:
        open_local(f"local://{file}{below}")
    assert caught.value.field == "target"


def test_close_is_idempotent_and_stops_nothing(engine: Any) -> None:
    engine.create("on", "import time; time.sleep(1); print('still')")
    engine.backend.close()
    engine.backend.close()
    other = LocalBackend(engine.store.root)
    try:
        assert other.get("on") is not None
        engine.finished("on")
        assert engine.lines("on") == ["still"]
    finally:
        other.close()
