"""The only two loops that wait for a training. They have no opinions: ``flow`` decides, these carry out."""

from __future__ import annotations

from functools import partial

from trainer_ops.backends.base import Backend
from trainer_ops.errors import BackendError
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.cursor import LogCursor
from trainer_ops.lifecycle.effects import Effect, Pause, Reply
from trainer_ops.lifecycle.flow import Flow, waiting
from trainer_ops.lifecycle.listener import Listener, Silent
from trainer_ops.lifecycle.threads import in_thread
from trainer_ops.model.outcome import Outcome
from trainer_ops.status.wait import Wait

__all__ = ["Turns", "adrive", "drive"]


def drive(
    backend: Backend,
    wait: Wait,
    *,
    clock: Clock,
    listener: Listener | None = None,
    cursor: LogCursor | None = None,
    follow_logs: bool = True,
) -> Outcome:
    """Wait for a training in this thread, until it ends or a limit of ``wait`` does.

    Interrupting it (KeyboardInterrupt, an error of the listener) leaves the training alone.

    Args:
        backend: where it runs.
        wait: which training and with what limits, fresh or carried over from another process.
        clock: what sleeps.
        listener: hears states, log lines and notes.
        cursor: where reading logs goes on; moves along, so the caller can carry it on.
        follow_logs: False reads only the last lines of nodes that fail, for the diagnosis.

    Raises:
        BackendError: the very first look was refused.
    """
    turns = Turns(backend, wait, clock=clock, listener=listener, cursor=cursor, follow_logs=follow_logs)
    watch = backend.watch(wait.ref.name)
    try:
        while not isinstance(turn := turns.go_on(), Outcome):
            clock.sleep(turn, watch)
        return turn
    finally:
        watch.close()


class Turns:
    """One wait, turn by turn, for a thread that has more than one of them. Arguments are those of ``drive``."""

    def __init__(
        self,
        backend: Backend,
        wait: Wait,
        *,
        clock: Clock,
        listener: Listener | None = None,
        cursor: LogCursor | None = None,
        follow_logs: bool = True,
    ) -> None:
        self._backend, self._clock = backend, clock
        self._flow = _flow(wait, listener, cursor, follow_logs)
        self._begun = False

    def go_on(self) -> float | Outcome:
        """Look, and do what follows from it: seconds after which to go on at the latest, or how it ended.

        Raises:
            BackendError: the very first look was refused.
        """
        reply = Reply(self._clock.now()) if self._begun else None
        self._begun = True
        while True:
            try:
                effect = _next(self._flow, reply)
            except StopIteration as end:
                return _outcome(end)
            if isinstance(effect, Pause):
                return effect.seconds
            reply = _ask(effect, self._backend, self._clock)


async def adrive(
    backend: Backend,
    wait: Wait,
    *,
    clock: Clock,
    listener: Listener | None = None,
    cursor: LogCursor | None = None,
    follow_logs: bool = True,
) -> Outcome:
    """``drive`` for an event loop: calls run in one shared pool of 32 threads, sleeping costs no thread.

    The listener is called in the event loop. Cancelling it leaves the training alone.
    """
    flow = _flow(wait, listener, cursor, follow_logs)
    watch = backend.watch(wait.ref.name)
    try:
        reply: Reply | None = None
        while True:
            try:
                effect = _next(flow, reply)
            except StopIteration as end:
                return _outcome(end)
            if isinstance(effect, Pause):
                await clock.asleep(effect.seconds, watch)
                reply = Reply(clock.now())
            else:
                reply = await in_thread(partial(_ask, effect, backend, clock))
    finally:
        watch.close()


def _flow(wait: Wait, listener: Listener | None, cursor: LogCursor | None, follow_logs: bool) -> Flow:
    return waiting(wait, listener or Silent(), LogCursor() if cursor is None else cursor, follow_logs=follow_logs)


def _next(flow: Flow, reply: Reply | None) -> Effect:
    return next(flow) if reply is None else flow.send(reply)


def _outcome(end: StopIteration) -> Outcome:
    outcome: Outcome = end.value
    return outcome


def _ask(effect: Effect, backend: Backend, clock: Clock) -> Reply:
    assert not isinstance(effect, Pause)
    try:
        value = effect.ask(backend, clock.now())
    except BackendError as error:
        return Reply(clock.now(), error=error)
    return Reply(clock.now(), value)
