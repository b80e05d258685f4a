"""Waiting in the triggerer: what crosses to it and back, what it does when it is stopped, killed, or breaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from trainer_ops import errors
from trainer_ops.testing import MemoryBackend, VirtualClock


def make(**kwargs: Any) -> Any:
    from airflow.sdk import DAG

    from trainer_ops.airflow import TrainJobOperator

    with DAG("digits", schedule=None):
        given = {"task_id": "train", "runtime": "torch-distributed", "command": ["true"], "deferrable": True, **kwargs}
        return TrainJobOperator(**given)


def trigger_of(ran: Any) -> Any:
    """The trigger as the triggerer makes it: from JSON, by its path."""
    from airflow.sdk.module_loading import import_string
    from airflow.sdk.serde import deserialize

    kwargs = json.loads(json.dumps(deserialize(ran.message.trigger_kwargs)))
    return import_string(ran.message.classpath)(**kwargs)


def fire(trigger: Any) -> dict[str, Any]:
    """Run it as the triggerer does; the one event's payload, as it comes back from the database."""

    async def events() -> list[Any]:
        return [event async for event in trigger.run()]

    (event,) = asyncio.run(events())
    payload: dict[str, Any] = json.loads(json.dumps(event.payload))
    return payload


def complete(worker: Any, event: Mapping[str, Any], **kwargs: Any) -> Any:
    return worker(make(**kwargs), resume=("execute_complete", {"event": event}))


def test_defers_and_ends_with_the_same_result(worker: Any, memory: MemoryBackend) -> None:
    ran = worker(make(num_nodes=2))
    assert ran.state == "deferred"
    assert ran.xcoms["trainjob"]["name"] == memory.list()[0]["metadata"]["name"]
    event = fire(trigger_of(ran))
    assert event["status"] == "ended"
    # In between the object may be deleted (TTL): the event is trusted.
    memory.delete(memory.list()[0]["metadata"]["name"])
    done = complete(worker, event)
    assert done.state == "success"
    assert done.result["phase"] == "succeeded"
    assert done.xcoms["accuracy"] == 0.95


def test_a_failure_in_the_triggerer_is_the_typed_error(worker: Any, memory: MemoryBackend) -> None:
    memory.script("*", [(0, lambda t: t.running()), (2, lambda t: t.fail(exit_code=3))])
    done = complete(worker, fire(trigger_of(worker(make()))))
    assert done.state == "failed"
    assert isinstance(done.error, errors.TrainJobFailed)
    assert done.xcoms["diagnosis"]["category"] == "exit_code"


def test_log_lines_are_written_by_the_trigger(
    worker: Any, memory: MemoryBackend, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    memory.script("*", [(0, lambda t: t.running()), (1, lambda t: t.say("loss 0.1")), (2, lambda t: t.complete())])
    ran = worker(make(num_nodes=2))
    capsys.readouterr()
    with caplog.at_level("INFO"):
        fire(trigger_of(ran))
    text = capsys.readouterr().out + caplog.text
    assert "[node-1] loss 0.1" in text


def test_what_the_trigger_carries_is_plain_and_short(worker: Any, memory: MemoryBackend) -> None:
    path, kwargs = trigger_of(worker(make())).serialize()
    assert path == "trainer_ops.airflow.triggers.TrainJobTrigger"
    assert set(kwargs) == {"wait"}  # defaults stay out: an older triggerer can read it
    ran = worker(make(on_kill="keep", follow_logs=False, execution_timeout=timedelta(hours=1)), run_id="other")
    _, kwargs = trigger_of(ran).serialize()
    assert set(kwargs) == {"wait", "kill_policy", "follow_logs", "deadline"}
    again = trigger_of(ran)
    assert again.serialize()[1] == kwargs


def test_a_triggerer_that_stops_leaves_the_training_alone(
    worker: Any, memory: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    memory.script("*", [(0, lambda t: t.running())])
    trigger = trigger_of(worker(make()))

    async def stop() -> None:
        task = asyncio.create_task(anext(trigger.run()))
        virtual_clock.after(50, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        await trigger.cleanup()

    asyncio.run(stop())
    assert len(memory.list()) == 1
    assert not any(method in ("delete", "set_suspended") for method, _ in memory.calls)


@pytest.mark.parametrize(("policy", "left"), [("delete", []), ("suspend", [True]), ("keep", [False])])
def test_a_user_who_kills_the_deferred_task(policy: str, left: list[bool], worker: Any, memory: MemoryBackend) -> None:
    trigger = trigger_of(worker(make(on_kill=policy)))
    asyncio.run(trigger.on_kill())
    assert [job["spec"]["suspend"] for job in memory.list()] == left


def test_execution_timeout_counts_from_the_start_of_the_try(
    worker: Any, memory: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    memory.script("*", [(0, lambda t: t.running())])
    start = virtual_clock.now() - 40
    ran = worker(make(execution_timeout=timedelta(seconds=60)), start=start)
    assert ran.message.trigger_timeout == timedelta(seconds=20 + 60)  # Airflow's own comes later
    event = fire(trigger_of(ran))
    assert event["status"] == "timeout"
    assert virtual_clock.now() == start + 60
    assert len(memory.list()) == 1  # the worker applies the policy
    done = complete(worker, event, execution_timeout=timedelta(seconds=60))
    assert done.state == "failed"
    assert type(done.error).__name__ == "AirflowTaskTimeout"
    assert memory.list() == []


def test_execution_timeout_with_keep_leaves_it(worker: Any, memory: MemoryBackend) -> None:
    memory.script("*", [(0, lambda t: t.running())])
    kwargs: dict[str, Any] = {"execution_timeout": timedelta(seconds=60), "on_kill": "keep"}
    done = complete(worker, fire(trigger_of(worker(make(**kwargs)))), **kwargs)
    assert "goes on" in str(done.error)
    assert len(memory.list()) == 1


def test_a_triggerer_that_is_away_until_airflow_gives_up(worker: Any, memory: MemoryBackend) -> None:
    memory.script("*", [(0, lambda t: t.running())])
    kwargs: dict[str, Any] = {"execution_timeout": timedelta(seconds=60)}
    assert worker(make(**kwargs)).state == "deferred"
    done = worker(make(**kwargs), resume=("__fail__", {"error": "Trigger timeout"}))
    assert done.state == "failed"
    assert type(done.error).__name__ == "AirflowTaskTimeout"
    assert memory.list() == []


def test_a_trigger_that_broke_is_deferred_again_a_few_times(worker: Any, memory: MemoryBackend) -> None:
    ran = worker(make())
    for redefers in (1, 2, 3):
        memory.faults.fail_next("observe", errors.Forbidden("token without rights"))
        event = fire(trigger_of(ran))
        assert event["status"] == "error"
        assert "token without rights" in event["error"]
        ran = complete(worker, event)
        assert ran.state == "deferred"
        assert trigger_of(ran).redefers == redefers
    memory.faults.fail_next("observe", errors.Forbidden("token without rights"))
    done = complete(worker, fire(trigger_of(ran)))  # now the worker waits itself
    assert done.state == "success"
    assert len([c for c in memory.calls if c[0] == "create"]) == 1


def test_a_trigger_that_cannot_even_start_leaves_it_to_the_worker(worker: Any, memory: MemoryBackend) -> None:
    assert worker(make()).state == "deferred"
    details = {"error": "Trigger failure", "traceback": ["ModuleNotFoundError: No module named 'trainer_ops'"]}
    done = worker(make(), resume=("__fail__", details))
    assert done.state == "success"
    assert len(memory.list()) == 1


def test_the_worker_that_took_over_keeps_to_execution_timeout(
    worker: Any, memory: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    memory.script("*", [(0, lambda t: t.running())])
    kwargs: dict[str, Any] = {"execution_timeout": timedelta(seconds=60)}
    start = virtual_clock.now()
    worker(make(**kwargs), start=start)
    done = worker(make(**kwargs), start=start, resume=("__fail__", {"error": "Trigger failure"}))
    assert type(done.error).__name__ == "AirflowTaskTimeout"
    assert virtual_clock.now() == start + 60
    assert memory.list() == []


def test_a_target_that_is_away_for_a_while_is_waited_for(worker: Any, memory: MemoryBackend) -> None:
    ran = worker(make())
    memory.faults.fail_next("observe", errors.Unreachable("connection reset"), times=5)
    assert fire(trigger_of(ran))["outcome"]["phase"] == "succeeded"


def test_a_training_deleted_by_somebody_is_no_success(
    worker: Any, memory: MemoryBackend, virtual_clock: VirtualClock
) -> None:
    ran = worker(make())
    virtual_clock.after(3, lambda: memory.delete(ran.xcoms["trainjob"]["name"]))
    done = complete(worker, fire(trigger_of(ran)))
    assert done.state == "failed"
    assert isinstance(done.error, errors.TrainJobDeleted)


def test_many_triggers_share_one_event_loop(worker: Any, memory: MemoryBackend) -> None:
    triggers = [trigger_of(worker(make(), run_id=f"run-{number}")) for number in range(30)]

    async def all_of_them() -> list[Any]:
        return list(await asyncio.gather(*(anext(trigger.run()) for trigger in triggers)))

    events = asyncio.run(all_of_them())
    assert {event.payload["status"] for event in events} == {"ended"}
