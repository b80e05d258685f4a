"""Nothing that can be given raises, and whatever is told is whole."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.validate.findings import Finding
from trainer_ops.validate.rules import RULES
from trainer_ops.validate.runtime import check_runtime
from trainer_ops.validate.trainjob import check

NAMES = st.sampled_from(
    re.findall(
        r"\w+",
        """
        apiVersion kind metadata name generateName labels annotations spec runtimeRef trainer numNodes env
        value valueFrom resourcesPerNode limits requests cpu memory command args initializer dataset model
        storageUri runtimePatches manager trainingRuntimeSpec template replicatedJobs containers
        initContainers volumes volumeMounts mountPath tolerations mlPolicy torch mpi flux podGroupPolicy
        dependsOn successPolicy targetReplicatedJobs targets
        """,
    )
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["node", "trainer", "PyTorchJob", "TrainJob", "hf://", "s3://[", "$(A)", "1e999999999", 10**400])
    | st.sampled_from([b"x", date(2026, 1, 1), object(), (1, 2), frozenset({1})])
)
KEYS = NAMES | st.text(max_size=5) | st.integers(max_value=9) | st.none()
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=30
)
FAIR = settings(
    max_examples=200,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

RICH: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}, "namespace": "x"},
    "spec": {
        "runtimeRef": {"name": "torchtune-llama3.2-1b", "kind": "TrainingRuntime", "apiGroup": "trainer.kubeflow.org"},
        "managedBy": "kueue.x-k8s.io/multikueue",
        "activeDeadlineSeconds": 3,
        "initializer": {"dataset": {"storageUri": "hf://a/b", "env": [{"name": "A", "value": "b"}]}},
        "trainer": {
            "numNodes": 2,
            "image": "a",
            "command": ["tune", "run"],
            "args": ["model.quantize_base=True"],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "a"}}}, {"name": "B", "value": "$(C)"}],
            "resourcesPerNode": {"limits": {"cpu": 2}, "requests": {"nvidia.com/gpu": "1"}},
        },
        "runtimePatches": [
            {
                "manager": "a.io/b",
                "trainingRuntimeSpec": {
                    "template": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {
                            "replicatedJobs": [
                                {
                                    "name": "node",
                                    "template": {
                                        "spec": {
                                            "template": {
                                                "spec": {
                                                    "volumes": [{"name": "v", "emptyDir": {}}],
                                                    "tolerations": [{"key": "a"}],
                                                    "containers": [
                                                        {
                                                            "name": "node",
                                                            "env": [{"name": "A", "value": "b"}],
                                                            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                                                        }
                                                    ],
                                                }
                                            }
                                        }
                                    },
                                }
                            ]
                        },
                    }
                },
            }
        ],
    },
}


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place that holds something: what it is in, and under which key."""
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [(value, key) for key, _ in pairs] + [place for _, held in pairs for place in places(held)]


def whole(findings: tuple[Finding, ...]) -> None:
    for found in findings:
        assert found.rule in RULES
        assert found.path
        assert found.reason
        assert str(found)
    severities = [found.severity for found in findings]
    assert severities == sorted(severities)


@FAIR
@given(manifest=ANYTHING)
def test_a_manifest_may_be_anything(manifest: Any, make_runtime: Callable[..., TrainingRuntime]) -> None:
    whole(check(manifest, None))
    for name in ("torch", "mpi-node", "torchtune", "flux"):
        whole(check(manifest, make_runtime(name)))


@FAIR
@given(raw=ANYTHING)
def test_a_runtime_may_be_anything(raw: Any, make_job: Callable[..., Any]) -> None:
    whole(check_runtime(raw))
    whole(check(make_job(RICH), TrainingRuntime("odd", policy="torch", raw=raw)))


@FAIR
@given(data=st.data(), value=ANYTHING)
def test_one_place_of_a_manifest_may_be_anything(
    data: st.DataObject, value: Any, make_job: Callable[..., Any], make_runtime: Callable[..., TrainingRuntime]
) -> None:
    manifest = make_job(copy.deepcopy(RICH))
    holder, key = data.draw(st.sampled_from(places(manifest)))
    holder[key] = value
    for policy in ("torch", "mpi", "flux", "xgboost"):
        whole(check(manifest, dataclasses.replace(make_runtime("torchtune"), policy=policy)))


@FAIR
@given(data=st.data(), value=ANYTHING)
def test_one_place_of_a_runtime_may_be_anything(
    data: st.DataObject, value: Any, make_raw_runtime: Callable[..., Any], runtime_names: tuple[str, ...]
) -> None:
    raw = make_raw_runtime(data.draw(st.sampled_from(runtime_names)), {"spec.podGroupPolicy": {"volcano": {}}})
    holder, key = data.draw(st.sampled_from(places(raw)))
    holder[key] = value
    whole(check_runtime(raw))


def test_the_answer_is_always_the_same(make_job: Callable[..., Any]) -> None:
    manifest = make_job({"spec.trainer": {"numNodes": 0, "zz": 1, "image": "X/Y"}, "metadata.name": "A"})
    assert check(manifest, None) == check(copy.deepcopy(manifest), None)
    assert len(check(manifest, None)) == 4


def test_the_manifest_is_left_as_it_is(
    make_job: Callable[..., Any], make_runtime: Callable[..., TrainingRuntime]
) -> None:
    manifest = make_job(RICH)
    before = copy.deepcopy(manifest)
    check(manifest, make_runtime("torchtune"))
    assert manifest == before
