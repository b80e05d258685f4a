"""``python -m trainer_ops.kfp.executor``: the program of every component's container.

Its arguments are those of KFP's own executor, in whose place it stands, so that a component runs wherever one of KFP's
lightweight components does, on a cluster and under ``kfp.local``'s SubprocessRunner, without kfp being imported.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.body import Body, perform
from trainer_ops.kfp.task import Task

__all__ = ["BODIES", "main"]

# Component -> module:function. Imported by the one that runs.
BODIES: Final = {
    "apply_runtime": "trainer_ops.kfp.runtime:apply_runtime",
    "cleanup_train_jobs": "trainer_ops.kfp.cleanup:cleanup_train_jobs",
    "decide_retraining": "trainer_ops.kfp.retraining:decide_retraining",
    "initialize_dataset": "trainer_ops.kfp.initialize:initialize_dataset",
    "initialize_model": "trainer_ops.kfp.initialize:initialize_model",
    "promote_model": "trainer_ops.kfp.retraining:promote_model",
    "submit_train_job": "trainer_ops.kfp.launch:submit_train_job",
    "train_from_function": "trainer_ops.kfp.launch:train_from_function",
    "train_job": "trainer_ops.kfp.launch:train_job",
    "wait_train_job": "trainer_ops.kfp.waiting:wait_train_job",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one task; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer_ops.kfp.executor", allow_abbrev=False)
    parser.add_argument("--executor_input", required=True, help="KFP's ExecutorInput as JSON")
    parser.add_argument("--function_to_execute", required=True, choices=sorted(BODIES), help="which component")
    given, _ = parser.parse_known_args(argv)
    try:
        task = Task.parse(given.function_to_execute, given.executor_input)
    except InvalidRequest as error:
        print(error, file=sys.stderr)
        return 1
    return perform(_body(given.function_to_execute), task)


def _body(component: str) -> Body:
    module, _, name = BODIES[component].partition(":")
    body: Body = getattr(import_module(module), name)
    return body


if __name__ == "__main__":
    raise SystemExit(main())
