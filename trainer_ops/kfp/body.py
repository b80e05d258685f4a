"""What every component's process does around its own work, and how it says that it failed.

A person sees nothing of a failed step but the end of its log, so the last lines of stderr are the Diagnosis and no
traceback follows them. A body is a function from ``Task`` to output parameters; it fills the output artifacts and
raises ``TrainerOpsError`` for what a person can mend.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

from trainer_ops.backends.base import Backend
from trainer_ops.build.rbac import manifests, subject_of
from trainer_ops.errors import Forbidden, TrainerOpsError
from trainer_ops.kfp.task import Task
from trainer_ops.lifecycle.target import open_backend

__all__ = ["Body", "opened", "perform", "say"]

Body = Callable[[Task], Mapping[str, Any]]


def perform(body: Body, task: Task) -> int:
    """Run a component's body and write what it gives.

    Args:
        body: gives the output parameters by name, all that the component declares.
        task: what KFP wants done.

    Returns:
        The process' exit code: 0, or 1 with the reason as the last lines of stderr.
    """
    try:
        parameters = body(task)
    except TrainerOpsError as error:
        if isinstance(error, Forbidden) and error.user:
            _tell(_missing_role(error))
        _tell(str(error))
        return 1
    task.write(parameters)
    return 0


@contextmanager
def opened(inputs: Mapping[str, Any]) -> Iterator[Backend]:
    """The backend that the input ``target`` names ("" and absent: $TRAINER_OPS_TARGET, in a pod its own cluster)."""
    backend = open_backend(inputs.get("target") or _own_cluster())
    try:
        yield backend
    finally:
        backend.close()


def say(text: str) -> None:
    """A line for the step's log.

    When the process that reads it is gone (a terminated run: KFP's launcher dies first), the work goes on in silence:
    whether the training ends with it is the signal's to say, not a broken pipe's.
    """
    _write(text, sys.stdout)


def _tell(text: str) -> None:
    _write(text, sys.stderr)


def _write(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream, flush=True)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _own_cluster() -> str | None:
    """In a pod of KFP and with no target named, the cluster that this pod runs in."""
    if os.environ.get("TRAINER_OPS_TARGET") or "KFP_POD_NAME" not in os.environ:
        return None
    return "in-cluster" if "KUBERNETES_SERVICE_HOST" in os.environ else None


def _missing_role(error: Forbidden) -> str:
    """What gives the step the rights it lacks, to be copied out of its log."""
    subject = subject_of(error.user)
    # What belongs to no namespace is asked for by an account that does.
    namespace = error.namespace or subject.namespace or "default"
    parts = [part for part in ("exec", "runtimes") if f"--{part}" in error.remedy]
    text = manifests(namespace, [subject], parts=parts)
    return f"The Role that is missing:\n\n{text}"
