"""Exit codes: what a script learns of a command without reading its output.

=====  ==========================================================================================
0      trained (or, for a command that does not wait: done)
1      the training failed; of ``init`` no snapshot could be made; of ``snapshots verify`` one is damaged
2      invalid input, or the target refuses it: nothing was created
3      gave up waiting, by a limit or by Ctrl-C or SIGTERM: the training was left alone
4      the training was cancelled, deleted or replaced
5      the target could not be reached
70     a fault of this program
130    Ctrl-C in a command that leaves nothing behind that goes on
=====  ==========================================================================================
"""

from __future__ import annotations

import os
import sys
from enum import IntEnum

from trainer_ops.errors import Detached, TrainerOpsError, TrainingEnded, Unreachable
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.model.outcome import Ending, Outcome

__all__ = ["DEBUG", "Exit", "exit_for", "explain", "of_outcome"]

# Set to anything but "" or "0": errors come with their traceback.
DEBUG = "TRAINER_OPS_DEBUG"


class Exit(IntEnum):
    """The exit codes; a contract with scripts: no number changes its meaning."""

    TRAINED = 0
    FAILED = 1
    INVALID = 2
    GAVE_UP = 3
    CANCELLED = 4
    UNREACHABLE = 5
    FAULT = 70
    INTERRUPTED = 130


_OF_ENDING = {
    Ending.TRAINED: Exit.TRAINED,
    Ending.FAILED: Exit.FAILED,
    Ending.GAVE_UP: Exit.GAVE_UP,
    Ending.CANCELLED: Exit.CANCELLED,
    Ending.UNREACHABLE: Exit.UNREACHABLE,
}


def of_outcome(outcome: Outcome) -> Exit:
    """The exit code of a wait that ended."""
    return _OF_ENDING[outcome.ending]


def exit_for(error: BaseException) -> Exit:
    """The exit code of an error; ``FAULT`` for what nobody raised on purpose."""
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    if isinstance(error, TrainingEnded):
        return of_outcome(error.outcome)
    if isinstance(error, Detached):
        return Exit.GAVE_UP
    if isinstance(error, Unreachable):
        return Exit.UNREACHABLE
    if isinstance(error, SnapshotError):
        return Exit.FAILED
    # An answer that says no (forbidden, rejected, taken name) is about the input, however it was found.
    return Exit.INVALID if isinstance(error, TrainerOpsError) else Exit.FAULT


def explain(error: BaseException) -> str:
    """What to print: one paragraph for what a user can cause, and for a fault how to learn more."""
    text = str(error)
    if isinstance(error, TrainerOpsError):
        return text
    name = type(error).__name__
    return (
        f"a fault in trainer-ops: {name}: {text or 'no message'}. "
        f"A running training is not touched by it. For the traceback: {DEBUG}=1 {_command()}"
    )


def _command() -> str:
    return os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else "trainer-ops"
