"""What people read: the sentences, their order, and the refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.validate.findings import Finding, error, warning
from trainer_ops.validate.runtime import check_runtime
from trainer_ops.validate.trainjob import check, refuse

LONG = "team-a-retrain-recommender-embeddings-nightly"


def test_nodes(make_job: Callable[..., Any]) -> None:
    (found,) = check(make_job({"spec.trainer.numNodes": 0}), None)
    assert str(found) == "invalid TrainJob: spec.trainer.numNodes: 0 is not at least 1. Give --nodes 1 or more."


def test_name(make_job: Callable[..., Any], make_runtime: Callable[..., Any]) -> None:
    (found,) = check(make_job({"metadata.name": LONG}), make_runtime("mpi"))
    assert str(found) == (
        f'invalid TrainJob: metadata.name: "{LONG}" has 45 characters; pods of it would be refused by JobSet '
        "(limit here: 44). Shorten it, or leave the name out."
    )


def test_old_overrides(make_job: Callable[..., Any]) -> None:
    (found,) = check(make_job({"spec.podSpecOverrides": [{"targetJobs": []}]}), None)
    assert "was replaced by runtimePatches in Trainer 2.2" in str(found)


def test_v1_is_one_finding_with_the_way_out() -> None:
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {"Master": {}}}}
    (found,) = check(job, None)
    assert str(found) == (
        "invalid TrainJob: kind: PyTorchJob is a job of the v1 operators, which Trainer v2 does not run. "
        "Write it as a TrainJob: the runtime takes the place of the replica specs."
    )


def test_a_warning_says_that_it_is_one(make_job: Callable[..., Any]) -> None:
    (found,) = check(make_job({"metadata": {"generateName": "digits-"}}), None)
    assert str(found).startswith("warning: metadata.generateName: makes another name at every create")


def test_a_runtimes_fault_is_told_where_it_is_named(
    make_job: Callable[..., Any], make_runtime: Callable[..., Any]
) -> None:
    runtime = make_runtime("torch", {"spec.template.spec.ttlSecondsAfterFinished": 60})
    (found,) = check(make_job({}), runtime)
    assert found.path == "spec.runtimeRef.name"
    assert found.reason.startswith(
        'of the runtime "torch-distributed", spec.template.spec.ttlSecondsAfterFinished deletes the JobSet'
    )
    assert "trainer #3737" in found.reason


@pytest.mark.parametrize("manifest", [None, [], "kind: TrainJob", 3])
def test_no_mapping_at_all(manifest: Any) -> None:
    (found,) = check(manifest, None)
    assert (found.rule, found.path, found.subject) == ("manifest-type", "manifest", "TrainJob")
    (found,) = check_runtime(manifest)
    assert (found.rule, found.path, found.subject) == ("manifest-type", "manifest", "TrainingRuntime")


def test_errors_come_first_and_nothing_twice(make_job: Callable[..., Any]) -> None:
    found = check(make_job({"metadata": {"generateName": "digits-"}, "spec.trainer.numNodes": 0, "spec.x": 1}), None)
    assert [f.rule for f in found] == ["unknown-field", "num-nodes", "generate-name"]
    assert len(set(found)) == len(found)


def test_refuse_lets_warnings_pass() -> None:
    refuse([])
    refuse([warning("generate-name", "metadata.generateName", "is odd")])


def test_refuse_one() -> None:
    with pytest.raises(InvalidRequest) as caught:
        refuse([error("num-nodes", "spec.trainer.numNodes", "0 is not at least 1", "Give --nodes 1 or more")])
    assert str(caught.value) == "invalid TrainJob: spec.trainer.numNodes: 0 is not at least 1. Give --nodes 1 or more"
    assert caught.value.field == "spec.trainer.numNodes"
    assert caught.value.reason == "0 is not at least 1"
    assert caught.value.remedy == "Give --nodes 1 or more"


def test_refuse_names_the_others() -> None:
    others = [error("unknown-field", f"spec.x{i}", "is no field of spec", "Did you mean y?") for i in range(8)]
    with pytest.raises(InvalidRequest) as caught:
        refuse([warning("generate-name", "a", "b"), *others])
    assert str(caught.value) == (
        "invalid TrainJob: spec.x0: is no field of spec. Did you mean y? Also wrong: "
        + "; ".join(f"spec.x{i}: is no field of spec" for i in range(1, 6))
        + "; and 2 more"
    )


def test_refuse_names_the_kind_of_object() -> None:
    with pytest.raises(InvalidRequest, match=r"^invalid TrainingRuntime: a: b$"):
        refuse([Finding("kind", "error", "a", "b", subject="TrainingRuntime")])


def test_an_unregistered_rule_cannot_be_told() -> None:
    with pytest.raises(KeyError):
        error("no-such-rule", "a", "b")
