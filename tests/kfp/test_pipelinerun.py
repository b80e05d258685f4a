"""Which run a task belongs to, by the URI of its output; and that run on its training."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.pipelinerun import label_value, labelled, run_of
from trainer_ops.kfp.task import Task
from trainer_ops.model import keys
from trainer_ops.model.request import TrainRequest

pytestmark = pytest.mark.kfp

RUN = "3f1c2b7e-0d5a-4c4e-9a51-6a1d5d0f7c11"
SALT = "0b9f6a52-8a14-4d39-8c8e-55f0f2a4d6aa"
LOCAL = "digits-2026-11-30-17-49-34-216694"


@pytest.mark.parametrize(
    ("uri", "run"),
    [
        pytest.param(f"minio://mlpipeline/v2/artifacts/digits/{RUN}/train-job/{SALT}/model", RUN, id="KFP"),
        pytest.param(f"s3://b/team/digits/{RUN}/train-job/{SALT}/model", RUN, id="a root of the pipeline's own"),
        pytest.param(f"/tmp/root/{LOCAL}/train-job/model", LOCAL, id="the local runner"),
        pytest.param(f"/tmp/root/{LOCAL}/for-loop-1-iteration-0/train-job/model", LOCAL, id="its loops"),
        pytest.param(f"minio://mlpipeline/v2/artifacts/digits/{RUN}/train-job/model", "", id="without the task's salt"),
        pytest.param("minio://mlpipeline/model", "", id="too short"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_run_of(uri: str, run: str) -> None:
    assert run_of(uri) == run


@pytest.mark.parametrize(
    ("run", "value"),
    [
        pytest.param(RUN, RUN, id="an id as it is"),
        pytest.param(LOCAL, LOCAL, id="a name and a time"),
        pytest.param(f"Digits of {LOCAL}", f"digits-of-{LOCAL}", id="what a label cannot have"),
        pytest.param("x" * 90 + LOCAL, "x" * (61 - len(LOCAL)) + LOCAL, id="its end tells runs apart"),
    ],
)
def test_label(run: str, value: str) -> None:
    assert label_value(run) == value
    assert len(value) <= 63


def test_a_task_knows_its_run() -> None:
    artifact = {"name": "1", "uri": f"s3://b/digits/{RUN}/train-job/{SALT}/model"}
    given: dict[str, Any] = {"outputs": {"artifacts": {"model": {"artifacts": [artifact]}}}}
    task = Task.parse("train_job", json.dumps(given))
    task.artifacts["model"].uri = "hf://elsewhere"
    assert task.run == RUN
    assert Task.parse("train_job", "{}").run == ""


def test_the_training_has_it() -> None:
    request = TrainRequest(**labelled({"runtime": "plain", "labels": {"team": "a"}}, RUN))
    assert request.labels == {"team": "a", keys.LABEL_PIPELINE_RUN: RUN}
    manifest = {"metadata": {"name": "x"}, "spec": {}}
    made = labelled({"manifest": manifest}, RUN)["manifest"]
    assert made["metadata"] == {"name": "x", "labels": {keys.LABEL_PIPELINE_RUN: RUN}}
    assert manifest == {"metadata": {"name": "x"}, "spec": {}}
    assert labelled({"runtime": "plain"}, "") == {"runtime": "plain"}


def test_another_run_s_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="this name is ours"):
        labelled({"labels": {keys.LABEL_PIPELINE_RUN: "other"}}, RUN)


@pytest.mark.parametrize("fields", [{"labels": ["a"]}, {"manifest": {"metadata": {"labels": ["a"]}}}, {"manifest": 7}])
def test_what_has_no_such_shape_is_for_the_request_to_refuse(fields: dict[str, Any]) -> None:
    assert labelled(fields, RUN) == fields
