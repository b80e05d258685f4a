"""The guard: a tiny process above each supervisor, so that not even ``kill -9`` leaves a training behind.

It forks twice: the first process (a session of its own, started by whoever submits) ends at once, so that nothing of
the submitter is an ancestor; the second is the guard; its child is the supervisor. On Linux guard and supervisor are
child subreapers: a process of the training that daemonizes becomes their child instead of init's.

* The supervisor ends without having finished: the guard kills what is left of the TrainJob and makes it Failed.
* The guard dies: the supervisor sees the end of the pipe between them and does the same (supervisor.py).
* Both die at once: whoever next looks at the TrainJob does it (reaper.py).

Only light standard library modules at import time: this is what a submit waits for.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

__all__ = ["become_subreaper", "main"]

_PR_SET_CHILD_SUBREAPER = 36


def main(root: str, uid: str) -> None:
    """Become guard and supervisor of this TrainJob. Returns in none of the processes."""
    if os.fork():
        os._exit(0)
    _clean_signals()
    become_subreaper()
    reader, writer = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        os.close(writer)
        os.setsid()
        os._exit(_supervise(root, uid, reader))
    os.close(reader)
    _forward_signals(supervisor)
    code = _wait_for(supervisor)
    # The pipe stays open until here: its end is how the supervisor learns of our death.
    if code != 0:
        from trainer_ops.local import reaper

        reaper.after_supervisor(root, uid, supervisor)
    os._exit(0)


def _supervise(root: str, uid: str, guard_pipe: int) -> int:
    try:
        from trainer_ops.local import supervisor

        supervisor.main(root, uid, guard_pipe)
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


def _clean_signals() -> None:
    """What the submitter blocks or ignores (nohup, a busy thread) must not be deaf in the training too."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN and number not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)


def _forward_signals(supervisor: int) -> None:
    """SIGTERM (a machine that shuts down) is the supervisor's to handle; a terminal's signals are nobody's."""

    def forward(_number: int, _frame: FrameType | None) -> None:
        try:
            os.kill(supervisor, signal.SIGTERM)
        except ProcessLookupError:
            pass

    # Handlers, not SIG_IGN: an ignored signal would stay ignored in the training.
    signal.signal(signal.SIGTERM, forward)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)


def _wait_for(supervisor: int) -> int:
    """The supervisor's exit code (negative for a signal); orphans that became ours are reaped on the way."""
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return 1
        if pid == supervisor:
            return os.waitstatus_to_exitcode(status)


def become_subreaper() -> None:
    """Linux: orphans below this process become its children instead of init's. Elsewhere nothing."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
