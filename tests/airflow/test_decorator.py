"""``@task.trainjob``: how a call of a decorated function becomes a training, and what comes back."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.testing import MemoryBackend


@pytest.fixture
def make() -> Callable[..., Any]:
    """Calls a decorated function in a DAG; the task that this makes."""

    def call(func: Callable[..., Any], *args: Any, settings: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        from airflow.sdk import DAG, task

        with DAG("digits", schedule=None, params={"rounds": 20}):
            made = task.trainjob(**{"runtime": "torch-distributed", **(settings or {})})(func)
            return made(*args, **kwargs).operator

    return call


def shipped(job: dict[str, Any]) -> dict[str, Any]:
    """What travels in a TrainJob."""
    words = job["spec"]["trainer"]["command"]
    at = next(index for index, word in enumerate(words) if word.split(":")[0].isdigit())
    head, _, first = words[at].partition(":")
    text = "".join([first, *words[at + 1 : at + int(head)]])
    data: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    return data


def arguments(memory: MemoryBackend) -> list[dict[str, Any]]:
    return [shipped(job)["kwargs"] for job in memory.list()]


def fit(depth: int, rate: float = 0.1, *, names: list[str] | None = None, ds: str | None = None) -> dict[str, float]:
    return {"accuracy": 1 - 1 / depth}


CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]] = {
    "by place": ((3, 0.2), {}, {"depth": 3, "rate": 0.2}),
    "by name": ((), {"depth": 3, "names": ["a"]}, {"depth": 3, "names": ["a"]}),
    "both": ((3,), {"rate": 0.3}, {"depth": 3, "rate": 0.3}),
    "templates": (("{{ params.rounds }}",), {"names": ["{{ run_id }}"]}, {"depth": "20", "names": ["manual__1"]}),
    "a tuple is a list": ((3,), {"names": ("a", "b")}, {"depth": 3, "names": ["a", "b"]}),
    "its own ds": ((3,), {"ds": "2020-01-01"}, {"depth": 3, "ds": "2020-01-01"}),
}


@pytest.mark.parametrize("case", CALLS)
def test_arguments(case: str, make: Any, worker: Any, memory: MemoryBackend) -> None:
    args, kwargs, travelled = CALLS[case]
    ran = worker(make(fit, *args, **kwargs))
    assert ran.state == "success", ran.error
    assert arguments(memory) == [{"ds": ran.context["ds"], **travelled}]


def test_what_it_is(make: Any, worker: Any, memory: MemoryBackend) -> None:
    task = make(fit, 3, settings={"num_nodes": 2, "env": {"ROUNDS": "{{ params.rounds }}"}})
    assert task.task_id == "fit"
    assert task.operator_name == "@task.trainjob"
    assert worker(task).state == "success"
    (job,) = memory.list()
    assert job["spec"]["trainer"]["numNodes"] == 2
    assert {"name": "ROUNDS", "value": "20"} in job["spec"]["trainer"]["env"]
    assert job["metadata"]["name"].startswith("digits-fit-")
    assert "@task" not in shipped(job)["source"]


def anything():  # type: ignore[no-untyped-def]
    """Of a function that says it returns a dict, Airflow demands one."""


# what the training reports: what the task returns
RETURNED: dict[str, tuple[dict[str, Any] | None, Any]] = {
    "metrics": ({"metrics": {"accuracy": 0.9}}, {"accuracy": 0.9}),
    "a model too": ({"metrics": {"a": 1}, "model_uri": "s3://m"}, {"a": 1.0, "model_uri": "s3://m"}),
    "nested data": ({"metrics": {"a": 1}, "artifacts": {"classes": ["x"]}}, {"a": 1.0, "classes": ["x"]}),
    "no dict": ({"artifacts": {"return_value": [1, None]}}, [1, None]),
    "nothing": (None, {}),
}


@pytest.mark.parametrize("case", RETURNED)
def test_what_comes_back(case: str, make: Any, worker: Any, memory: MemoryBackend) -> None:
    result, returned = RETURNED[case]
    memory.script("*", [(0, lambda t: t.running()), (1, lambda t: t.complete(result) if result else t.complete())])
    ran = worker(make(anything))
    assert ran.state == "success", ran.error
    assert ran.result == returned
    assert ran.xcoms["outcome"]["phase"] == "succeeded"
    assert ran.xcoms["metrics"] == ran.xcoms["outcome"]["metrics"]


@pytest.mark.parametrize("case", ["metrics", "no dict"])
def test_deferred_it_returns_the_same(case: str, make: Any, worker: Any, memory: MemoryBackend) -> None:
    result, returned = RETURNED[case]
    memory.script("*", [(0, lambda t: t.running()), (1, lambda t: t.complete(result))])
    task = make(anything, settings={"deferrable": True})
    assert worker(task).state == "deferred"
    event = {"status": "ended", "outcome": worker(make(anything), run_id="other").xcoms["outcome"]}
    done = worker(task, resume=("execute_complete", {"event": event}))
    assert (done.state, done.result) == ("success", returned), done.error


def test_mapped(worker: Any, memory: MemoryBackend) -> None:
    from airflow.sdk import DAG, task

    with DAG("digits", schedule=None, params={"rounds": 20}):
        mapped = (
            task.trainjob(runtime="torch-distributed")(fit)
            .partial(rate="{{ params.rounds }}")
            .expand(depth=[2, 4])
            .operator
        )
    for index in (0, 1):
        ran = worker(mapped, map_index=index)
        assert ran.state == "success", ran.error
    assert [one["depth"] for one in arguments(memory)] == [2, 4]
    assert {one["rate"] for one in arguments(memory)} == {"20"}


def lists_all(*names: str) -> None:
    """Takes what cannot travel."""


def wants_the_task(ti: Any = None) -> None:
    """Asks for a thing of Airflow's."""


def from_outside() -> str:
    return json.dumps({})


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "*args": (lists_all, ("a",), "lists_all() takes *args, and arguments travel by name"),
    "no plain data": (fit, (object(),), "kwargs.depth: is a object. Give plain data"),
    "the context's own things": (wants_the_task, (), "kwargs.ti: is a RuntimeTaskInstance"),
    "names of the DAG file": (from_outside, (), 'from_outside uses "json" from outside'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, make: Any, worker: Any, memory: MemoryBackend) -> None:
    func, args, text = REFUSED[case]
    ran = worker(make(func, *args, settings={"retries": 3}))
    assert ran.state == "failed"
    assert text in str(ran.error)
    assert memory.list() == []


def test_a_call_that_does_not_fit_is_an_error_of_the_dag_file(make: Any) -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'depth'"):
        make(fit)


def test_the_dag_serializes(make: Any) -> None:
    from airflow.sdk import DAG, task
    from airflow.serialization.serialized_objects import DagSerialization

    with DAG("digits", schedule=None) as dag:
        decorated = task.trainjob(runtime="torch-distributed")(fit)
        first = decorated(3)
        decorated.override(task_id="second")(first["accuracy"])
        decorated.override(task_id="many").expand(depth=[1, 2])
    back = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
    assert back.get_task("second").upstream_task_ids == {"fit"}
    assert back.get_task("many").operator_name == "@task.trainjob"


def test_the_provider_names_it() -> None:
    from importlib import import_module

    from trainer_ops.airflow.provider_info import get_provider_info

    (entry,) = get_provider_info()["task-decorators"]
    module, _, name = entry["class-name"].rpartition(".")
    assert entry["name"] == "trainjob"
    assert callable(getattr(import_module(module), name))
