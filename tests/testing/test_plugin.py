from __future__ import annotations

import pytest

_TEST = """
import os
import trainer_ops

def test_memory(memory_backend, virtual_clock):
    outcome = trainer_ops.run(runtime="torch-distributed", target=memory_backend, clock=virtual_clock)
    assert outcome.succeeded
    assert virtual_clock.slept == [1, 5]

def test_local(local_trainer):
    assert os.environ["TRAINER_OPS_TARGET"] == local_trainer.target
    outcome = trainer_ops.run(runtime="torch-distributed", command=["python3", "-c", "print('hello')"])
    assert outcome.succeeded
    assert outcome.target == local_trainer.target

def test_what_is_left_is_deleted(local_trainer):
    made = trainer_ops.submit(runtime="torch-distributed", command=["python3", "-c", "import time; time.sleep(600)"])
    assert local_trainer.get(made.ref.name)
"""


def test_the_fixtures_work_in_a_project_of_a_user(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["trainer_ops.testing.plugin"]')
    pytester.makepyfile(_TEST)
    pytester.runpytest_subprocess("-q", "-W", "error").assert_outcomes(passed=3)
