"""Run policy, restart policies, gang scheduling, and the object's own metadata."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.checked import checked, codes, fates, pytorch
from trainer_ops.migrate.emit import share
from trainer_ops.migrate.simulate.named import EXTRAS

RUN = {"command": ["torchrun", "x.py"], "resources": {"limits": {"nvidia.com/gpu": 1}}}
UNLIMITED = 2147483647


def job_of(done: Any) -> dict[str, Any]:
    """The Job's spec of the generated runtime."""
    assert done.runtime is not None
    (job,) = done.runtime["spec"]["template"]["spec"]["replicatedJobs"]
    found: dict[str, Any] = job["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("restart", "limit", "pod", "backoff", "found"),
    [
        pytest.param(None, None, "OnFailure", None, ["BACKOFF"], id="as v1 fills in"),
        pytest.param("OnFailure", 6, "OnFailure", None, ["BACKOFF"], id="the limit that stock runtimes have"),
        pytest.param("OnFailure", 3, "OnFailure", 3, ["BACKOFF"], id="another limit"),
        pytest.param("OnFailure", 0, "OnFailure", 0, [], id="no restart"),
        pytest.param("Never", None, "Never", 0, ["NEVER-BACKOFF0"], id="Never"),
        pytest.param("Never", 4, "Never", 0, ["NEVER-BACKOFF0"], id="Never makes a limit idle"),
        pytest.param("Always", None, "OnFailure", None, ["ALWAYS", "BACKOFF"], id="Always"),
        pytest.param("ExitCode", None, "Never", UNLIMITED, ["EXITCODE"], id="ExitCode"),
        pytest.param("ExitCode", 2, "Never", 2, ["EXITCODE"], id="ExitCode with a limit"),
    ],
)
def test_restarts(restart: str | None, limit: int | None, pod: str, backoff: int | None, found: list[str]) -> None:
    role = {} if restart is None else {"restartPolicy": restart}
    policy: dict[str, Any] = {} if limit is None else {"runPolicy": {"backoffLimit": limit}}
    raw = pytorch(RUN, workers=2, role=role, **policy)
    done = checked(raw)
    assert [code for code in codes(done) if code != "SUCCESS-RULE"] == found
    assert (done.runtime is None) is (backoff is None)
    spec = job_of(checked(raw, runtime="generate"))
    assert spec["template"]["spec"]["restartPolicy"] == pod
    assert spec["backoffLimit"] == (backoff if backoff is not None else limit or UNLIMITED)
    assert ("podFailurePolicy" in spec) is (restart == "ExitCode")


def test_exit_codes_that_fail_a_job() -> None:
    (rule,) = job_of(checked(pytorch(RUN, role={"restartPolicy": "ExitCode"})))["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"] == {"containerName": "node", "operator": "In", "values": list(range(1, 128))}


@pytest.mark.parametrize(
    ("policy", "fate", "severity"),
    [
        pytest.param({"cleanPodPolicy": "Running"}, "dropped", {}, id="Running"),
        pytest.param({"cleanPodPolicy": "None"}, "dropped", {}, id="None"),
        pytest.param({"cleanPodPolicy": "All"}, "dropped", {"CLEANUP": "warning"}, id="All"),
        pytest.param({"cleanPodPolicy": "Some"}, "refused", {"NOT-A-JOB": "refused"}, id="no policy"),
        pytest.param({"ttlSecondsAfterFinished": 60}, "dropped", {"TTL-RERUN": "warning"}, id="a TTL"),
        pytest.param(
            {"activeDeadlineSeconds": 60}, "trainjob:spec.activeDeadlineSeconds", {"DEADLINE": "info"}, id="limit"
        ),
        pytest.param({"activeDeadlineSeconds": 0}, "refused", {"DEADLINE": "refused"}, id="no time"),
        pytest.param({"suspend": True}, "trainjob:spec.suspend", {}, id="suspended"),
        pytest.param({"suspend": False}, "dropped", {}, id="not suspended"),
        pytest.param({"managedBy": "kubeflow.org/training-operator"}, "dropped", {}, id="v1's operator"),
        pytest.param({"managedBy": "kueue.x-k8s.io/multikueue"}, "trainjob:spec.managedBy", {}, id="MultiKueue"),
        pytest.param({"managedBy": "example.com/me"}, "refused", {"MANAGED-BY": "refused"}, id="another manager"),
    ],
)
def test_run_policy(policy: dict[str, Any], fate: str, severity: dict[str, str]) -> None:
    raw = pytorch(RUN, master=False, runPolicy=policy)
    if "managedBy" in policy and "multikueue" in policy["managedBy"]:
        raw["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    done = checked(raw)
    (name,) = policy
    assert fates(done)[f"spec.runPolicy.{name}"] == fate
    usual = ("BACKOFF", "NEVER-BACKOFF0", EXTRAS)
    told = {found.code: found.severity for found in done.findings if found.code not in usual}
    assert told == severity


def test_the_place_of_older_operators() -> None:
    done = checked(pytorch(RUN, master=False, cleanPodPolicy="Running", backoffLimit=2, activeDeadlineSeconds=9))
    assert done.trainjob is not None
    assert done.trainjob["spec"]["activeDeadlineSeconds"] == 9
    assert job_of(done)["backoffLimit"] == 2
    done = checked(pytorch(RUN, master=False, backoffLimit=2, runPolicy={"backoffLimit": 3}))
    assert job_of(done)["backoffLimit"] == 3
    assert fates(done)["spec.backoffLimit"] == "dropped"
    assert "RUN-POLICY-TWICE" in codes(done, "warning")


def test_a_ttl_when_asked_for() -> None:
    done = checked(pytorch(RUN, runPolicy={"ttlSecondsAfterFinished": 60}), keep_ttl=True)
    assert done.runtime is not None
    assert done.runtime["spec"]["template"]["spec"]["ttlSecondsAfterFinished"] == 60
    assert "TTL-RERUN" in codes(done, "warning")


@pytest.mark.parametrize(
    ("gang", "scheduler", "name", "group"),
    [
        pytest.param("volcano", None, "volcano", {"volcano": {}}, id="volcano asked for"),
        pytest.param("coscheduling", None, "scheduler-plugins-scheduler", {"coscheduling": {}}, id="coscheduling"),
        pytest.param("coscheduling", "mine", "mine", {"coscheduling": {}}, id="by another name"),
        pytest.param("none", "volcano", "volcano", {"volcano": {}}, id="volcano seen in the pods"),
        pytest.param("none", "other", "other", None, id="a scheduler without groups"),
    ],
)
def test_gangs(gang: Any, scheduler: str | None, name: str, group: dict[str, Any] | None) -> None:
    pod = {} if scheduler is None else {"schedulerName": scheduler}
    done = checked(pytorch(RUN, pod=pod), gang=gang)
    assert job_of(done)["template"]["spec"]["schedulerName"] == name
    assert done.runtime is not None
    assert done.runtime["spec"].get("podGroupPolicy") == group


@pytest.mark.parametrize(
    ("gang", "policy", "fate", "refused"),
    [
        pytest.param("volcano", {"minAvailable": 3}, "dropped", [], id="all of them"),
        pytest.param("volcano", {"minAvailable": 2}, "refused", ["GANG-MIN"], id="a part of them"),
        pytest.param("volcano", {"queue": "q"}, "annotations", [], id="a queue of Volcano's"),
        pytest.param("coscheduling", {"queue": "q"}, "dropped", [], id="a queue that nobody reads"),
        pytest.param("volcano", {"priorityClass": "p"}, "priorityClassName", [], id="priority"),
        pytest.param("coscheduling", {"priorityClass": "p"}, "dropped", [], id="a priority that nobody reads"),
        pytest.param("volcano", {"scheduleTimeoutSeconds": 5}, "dropped", [], id="a timeout that Volcano has not"),
        pytest.param("coscheduling", {"scheduleTimeoutSeconds": 5}, "scheduleTimeoutSeconds", [], id="a timeout"),
        pytest.param("coscheduling", {"minResources": {"cpu": "1"}}, "dropped", [], id="resources are counted"),
        pytest.param("none", {"minAvailable": 2}, "dropped", [], id="no gang"),
        pytest.param("none", {"priorityClass": "p"}, "priorityClassName", [], id="priority without a gang"),
    ],
)
def test_scheduling_policy(gang: Any, policy: dict[str, Any], fate: str, refused: list[str]) -> None:
    done = checked(pytorch(RUN, workers=2, runPolicy={"schedulingPolicy": policy}), gang=gang)
    (found,) = [to for path, to in fates(done).items() if path.startswith("spec.runPolicy.schedulingPolicy.")]
    assert fate in found
    assert codes(done, "refused") == refused
    without = gang == "volcano" and "scheduleTimeoutSeconds" in policy
    assert ("GANG-FLAG" in codes(done)) is (gang == "none" or without)
    assert ("GANG-PRIORITY" in codes(done)) is ("priorityClass" in policy and gang != "coscheduling")


def test_two_queues_that_are_not_the_same() -> None:
    raw = pytorch(RUN, runPolicy={"schedulingPolicy": {"queue": "wins"}})
    raw["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": "loses"}
    done = checked(raw, gang="volcano")
    assert done.runtime is not None
    held = done.runtime["spec"]["template"]["metadata"]["annotations"]
    assert held == {"scheduling.volcano.sh/queue-name": "wins"}
    (told,) = (one for one in done.findings if one.code == "GANG-FLAG")
    assert told.v1_path == 'metadata.annotations["scheduling.volcano.sh/queue-name"]'


@pytest.mark.parametrize(("own", "told"), [("p", False), ("other", True)])
def test_a_group_has_the_priority_of_its_pods(own: str, told: bool) -> None:
    raw = pytorch(RUN, pod={"priorityClassName": own}, runPolicy={"schedulingPolicy": {"priorityClass": "p"}})
    done = checked(raw, gang="volcano")
    assert job_of(done)["template"]["spec"]["priorityClassName"] == own
    assert ("GANG-PRIORITY" in codes(done)) is told


def test_a_part_of_the_gang_when_asked() -> None:
    raw = pytorch(RUN, workers=2, runPolicy={"schedulingPolicy": {"minAvailable": 2}})
    assert checked(raw, gang="volcano", drop=frozenset({"GANG-MIN"})).ok


@pytest.mark.parametrize(
    ("name", "made"),
    [
        pytest.param("mnist", "mnist", id="as it is"),
        pytest.param("a" * 48, "a" * 48, id="as long as pods allow"),
        pytest.param("a" * 49, None, id="too long"),
        pytest.param("9lives", None, id="a digit first"),
        pytest.param("My.Job", "my-job", id="letters that v2 has not"),
    ],
)
def test_names(name: str, made: str | None) -> None:
    done = checked(pytorch(RUN, master=False, name=name))
    assert done.trainjob is not None
    found = done.trainjob["metadata"]["name"]
    assert len(found) <= 48
    assert made is None or found == made
    assert ("NAME-LEN" in codes(done)) is (found != name)


def test_a_new_name_is_in_the_addresses() -> None:
    done = checked(pytorch({"command": ["python", "x.py", "My.Job-master-0"]}, name="My.Job"))
    assert done.trainjob is not None
    assert done.trainjob["spec"]["trainer"]["command"][2] == "my-job-node-0-0.my-job"


def test_metadata() -> None:
    raw = pytorch(RUN)
    raw["metadata"] = {
        "name": "mnist",
        "namespace": "team",
        "uid": "x",
        "resourceVersion": "1",
        "labels": {"kueue.x-k8s.io/queue-name": "q", "a": "b", "training.kubeflow.org/job-name": "mnist"},
        "annotations": {
            "scheduling.volcano.sh/queue-name": "v",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
        "ownerReferences": [{"kind": "X", "name": "x", "uid": "1", "apiVersion": "v1"}],
        "finalizers": ["f"],
    }
    raw["status"] = {"conditions": [{"type": "Created"}]}
    done = checked(raw)
    assert done.trainjob is not None
    assert done.trainjob["metadata"] == {
        "name": "mnist", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "q", "a": "b"},
    }  # fmt: skip
    assert done.trainjob["spec"]["suspend"] is True
    patch = done.trainjob["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]
    assert patch["metadata"] == {"annotations": {"scheduling.volcano.sh/queue-name": "v"}}
    assert fates(done)["metadata.uid"] == "dropped"
    assert fates(done)["status.conditions[0].type"] == "dropped"
    assert "OWNER-LOST" in codes(done, "warning")


def test_equal_runtimes_are_shared_within_a_namespace() -> None:
    pod = {"priorityClassName": "high"}
    jobs = [pytorch(RUN, name=name, pod=pod) for name in ("a", "b", "c")]
    jobs.append(pytorch(RUN, name="d", pod={"priorityClassName": "low"}))
    jobs[2]["metadata"]["namespace"] = "other"
    made = [done.emitted for done in map(checked, jobs)]
    names = [one.trainjob["spec"]["runtimeRef"]["name"] for one in share([one for one in made if one])]
    assert names[0] == names[1]
    assert names[0].startswith("torch-")
    assert names[2:] == ["c-torch", "d-torch"]
    for one in share([one for one in made if one]):
        assert one.runtime is not None
        assert one.runtime["metadata"]["name"] == one.trainjob["spec"]["runtimeRef"]["name"]
