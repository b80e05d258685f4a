"""Raw objects become observations: what is missing means the API's default, what is unknown is no error."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.model import keys
from trainer_ops.model.observed import (
    Condition,
    Observation,
    ObservedContainer,
    ObservedEvent,
    ObservedJobSet,
    ObservedPod,
    ObservedTrainJob,
    ObservedWorkload,
    Terminated,
    number,
)

NOON = 1795953600.0
STAMP = "2026-11-29T12:00:00Z"

NUMBERS: dict[str, tuple[object, float | str]] = {
    "text": ("0.5", 0.5),
    "an int": (3, 3.0),
    "words": ("epoch 3", "epoch 3"),
    "NaN stays text": ("nan", "nan"),
    "infinity stays text": (float("inf"), "inf"),
    "too large for a float": (10**400, str(10**400)),
    "nothing": (None, "None"),
}


@pytest.mark.parametrize(("given", "expected"), NUMBERS.values(), ids=NUMBERS.keys())
def test_number(given: object, expected: float | str) -> None:
    assert number(given) == expected


@pytest.mark.parametrize(("status", "holds"), [("True", True), ("False", False), ("Unknown", False), (None, False)])
def test_only_the_word_true_holds(status: str | None, holds: bool) -> None:
    assert Condition.from_raw({"type": "Failed", "status": status}).holds is holds


SIGNALS = {"ordinary": (3, None), "SIGTERM": (143, 15), "SIGKILL": (137, 9), "no signal": (255, None)}


@pytest.mark.parametrize(("code", "signal"), SIGNALS.values(), ids=SIGNALS.keys())
def test_signal(code: int, signal: int | None) -> None:
    assert Terminated(code).signal == signal


STATES: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "no state yet": ({}, ("waiting", "")),
    "waiting": ({"waiting": {"reason": "ImagePullBackOff"}}, ("waiting", "ImagePullBackOff")),
    "running": ({"running": {"startedAt": STAMP}}, ("running", "")),
    "ended": ({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, ("terminated", "OOMKilled")),
}


@pytest.mark.parametrize(("state", "expected"), STATES.values(), ids=STATES.keys())
def test_container_state(state: dict[str, Any], expected: tuple[str, str]) -> None:
    container = ObservedContainer.from_raw({"name": "node", "state": state})
    assert (container.state, container.reason) == expected


# A pod of Kubernetes 1.36 while its container waits for its third run.
POD: dict[str, Any] = {
    "metadata": {
        "name": "t-node-0-1-abcde",
        "uid": "p-1",
        "labels": {
            keys.LABEL_REPLICATED_JOB: "node",
            keys.COMPLETION_INDEX: "1",
            keys.LABEL_RESTART_ATTEMPT: "2",
        },
        "creationTimestamp": STAMP,
        "deletionTimestamp": STAMP,
    },
    "spec": {"containers": [{"name": "sidecar"}, {"name": "node"}], "nodeName": "host-1"},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "initContainerStatuses": [{"name": "prepare", "state": {"terminated": {"exitCode": 0}}}],
        "containerStatuses": [
            {"name": "sidecar", "state": {"running": {}}},
            {
                "name": "node",
                "restartCount": 2,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}},
                "lastState": {"terminated": {"exitCode": 3, "reason": "Error", "message": "x", "finishedAt": STAMP}},
            },
        ],
    },
}


def test_a_whole_pod() -> None:
    pod = ObservedPod.from_raw(POD)
    assert (pod.step, pod.index, pod.attempt, pod.node) == ("node", 1, 2, "node-1")
    assert (pod.phase, pod.host, pod.deleting, pod.created_at) == ("Running", "host-1", True, NOON)
    assert [c.name for c in pod.containers] == ["prepare", "sidecar", "node"]
    assert pod.main is not None
    assert (pod.main.name, pod.main.restarts, pod.main.reason) == ("node", 2, "CrashLoopBackOff")
    assert pod.main.last == Terminated(3, "Error", "x", None, NOON)
    scheduled = pod.condition("PodScheduled")
    assert scheduled is not None
    assert scheduled.holds
    assert pod.condition("Ready") is None


GPUS: dict[str, tuple[list[dict[str, Any]], int]] = {
    "none": ([{"cpu": "2"}, {}], 0),
    "of all its containers": ([{"nvidia.com/gpu": "4"}, {"nvidia.com/gpu": 1}], 5),
    "of any maker": ([{"amd.com/gpu": "8"}], 8),
    "a slice is no whole one": ([{"nvidia.com/mig-1g.5gb": "7"}], 0),
    "no number": ([{"nvidia.com/gpu": "{{ gpus }}"}], 0),
}


@pytest.mark.parametrize(("limits", "count"), GPUS.values(), ids=GPUS.keys())
def test_gpus(limits: list[dict[str, Any]], count: int) -> None:
    containers = [{"name": f"c{i}", "resources": {"limits": one}} for i, one in enumerate(limits)]
    assert ObservedPod.from_raw({"metadata": {"name": "p"}, "spec": {"containers": containers}}).gpus == count


MAINS: dict[str, tuple[list[str], str, str]] = {
    "named node": (["side", "node"], "launcher", "node"),
    "named like its step": (["side", "dataset-initializer"], "dataset-initializer", "dataset-initializer"),
    "else the first": (["ps", "side"], "ps-job", "ps"),
    "none known": ([], "node", "node"),
}


@pytest.mark.parametrize(("names", "step", "expected"), MAINS.values(), ids=MAINS.keys())
def test_main_container_before_it_has_a_status(names: list[str], step: str, expected: str) -> None:
    raw = {
        "metadata": {"name": "p", "labels": {keys.LABEL_REPLICATED_JOB: step}},
        "spec": {"containers": [{"name": name} for name in names]},
    }
    pod = ObservedPod.from_raw(raw)
    assert (pod.main, pod.main_name, pod.phase) == (None, expected, "Pending")


def test_a_step_of_one_pod_goes_by_its_own_name() -> None:
    raw = {"metadata": {"name": "p", "labels": {keys.LABEL_REPLICATED_JOB: "launcher"}}}
    assert ObservedPod.from_raw(raw).node == "launcher"


EVENT_TIMES: dict[str, tuple[dict[str, Any], float | None]] = {
    "events.k8s.io leaves the old fields null": (
        {"eventTime": STAMP, "firstTimestamp": None, "lastTimestamp": None},
        NOON,
    ),
    "a series": ({"series": {"lastObservedTime": STAMP}, "eventTime": "2026-11-29T11:00:00Z"}, NOON),
    "the last time": ({"lastTimestamp": STAMP, "firstTimestamp": "2026-11-29T11:00:00Z"}, NOON),
    "its creation": ({"metadata": {"creationTimestamp": STAMP}}, NOON),
    "none": ({}, None),
}


@pytest.mark.parametrize(("raw", "at"), EVENT_TIMES.values(), ids=EVENT_TIMES.keys())
def test_event_time(raw: dict[str, Any], at: float | None) -> None:
    assert ObservedEvent.from_raw(raw).at == at


EVENT_FORMS: dict[str, dict[str, Any]] = {
    "core/v1": {"involvedObject": {"kind": "Pod", "name": "p"}, "message": "m", "type": "Warning", "count": 3},
    "events.k8s.io": {
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "m",
        "type": "Warning",
        "series": {"count": 3},
    },
    "short": {"object": "Pod/p", "message": "m", "type": "Warning", "count": 3},
}


@pytest.mark.parametrize("raw", EVENT_FORMS.values(), ids=EVENT_FORMS.keys())
def test_event_form(raw: dict[str, Any]) -> None:
    event = ObservedEvent.from_raw({**raw, "reason": "BackOff"})
    assert event == ObservedEvent("Pod", "p", "BackOff", "m", warning=True, count=3)


JOB: dict[str, Any] = {
    "metadata": {
        "name": "t",
        "namespace": "ml",
        "uid": "u",
        "labels": {keys.LABEL_ATTEMPT: "3", keys.LABEL_QUEUE: "team-a"},
        "creationTimestamp": STAMP,
    },
    "spec": {
        "runtimeRef": {"name": "torch-distributed"},
        "trainer": {"numNodes": 2},
        "initializer": {"dataset": {"storageUri": "hf://a/b"}},
        "suspend": True,
    },
    "status": {
        "conditions": [{"type": "Suspended", "status": "True", "reason": "Suspended"}],
        "jobsStatus": [
            {"name": "dataset-initializer", "succeeded": 1},
            {"name": "node", "active": 1, "ready": 1, "of_a_newer_version": 5},
        ],
        "trainerStatus": {
            "progressPercentage": 40,
            "estimatedRemainingSeconds": 0,
            "metrics": [{"name": "loss", "value": "0.5"}, {"name": "note", "value": "ok"}],
            "lastUpdatedTime": STAMP,
        },
    },
}


def test_a_whole_trainjob() -> None:
    job = ObservedTrainJob.from_raw(JOB)
    assert (job.namespace, job.name, job.uid, job.created_at) == ("ml", "t", "u", NOON)
    assert (job.runtime, job.num_nodes, job.suspend, job.attempt, job.queue) == (
        "torch-distributed",
        2,
        True,
        3,
        "team-a",
    )
    assert job.has_initializer == ("dataset-initializer",)
    assert job.holds("Suspended")
    assert not job.holds("Failed")
    assert [row.name for row in job.trainer_jobs] == ["node"]
    assert job.progress is not None
    assert (job.progress.at, job.progress.percentage, job.progress.eta_seconds) == (NOON, 40, 0.0)
    assert job.progress.metrics == {"loss": 0.5, "note": "ok"}


def test_a_new_trainjob_has_no_status() -> None:
    job = ObservedTrainJob.from_raw({"metadata": {"name": "t"}, "spec": {}})
    assert (job.namespace, job.attempt, job.queue, job.progress) == ("default", 1, "", None)
    assert (job.conditions, job.jobs, job.trainer_jobs, job.job("node")) == ((), (), (), None)


def test_steps_with_other_names_train_too() -> None:
    rows = [{"name": "dataset-initializer"}, {"name": "chief"}, {"name": "ps"}]
    job = ObservedTrainJob.from_raw({"metadata": {"name": "t"}, "status": {"jobsStatus": rows}})
    assert [row.name for row in job.trainer_jobs] == ["chief", "ps"]


def test_an_observation_sorts_what_it_gets() -> None:
    def raw_pod(index: int) -> dict[str, Any]:
        labels = {keys.LABEL_REPLICATED_JOB: "node", keys.COMPLETION_INDEX: str(index)}
        return {"metadata": {"name": f"p{index}", "labels": labels}}

    later = {"reason": "Later", "eventTime": "2026-11-29T13:00:00Z"}
    obs = Observation.from_raw(
        NOON,
        JOB,
        [raw_pod(2), raw_pod(0)],
        [later, {"reason": "Earlier", "eventTime": STAMP}],
        {"status": {"restarts": 1, "conditions": [{"type": "RestartingJobSet", "status": "True"}]}},
        {"metadata": {"name": "w"}, "status": {"admission": {"clusterQueue": "q"}}},
        frozenset({"events"}),
    )
    assert [pod.index for pod in obs.pods] == [0, 2]
    assert [event.reason for event in obs.events] == ["Earlier", "Later"]
    assert obs.jobset is not None
    assert obs.jobset.restarting
    assert obs.workload is not None
    assert (obs.workload.cluster_queue, obs.workload.active) == ("q", True)
    assert obs.unreadable == {"events"}


def test_nothing_was_there() -> None:
    obs = Observation.from_raw(NOON, None)
    assert (obs.job, obs.pods, obs.jobset, obs.workload) == (None, (), None, None)


def test_a_jobset_and_a_workload_say_what_limits_them() -> None:
    assert ObservedJobSet.from_raw({"spec": {"failurePolicy": {"maxRestarts": 4}}}).max_restarts == 4
    assert not ObservedWorkload.from_raw({"metadata": {"name": "w"}, "spec": {"active": False}}).active
