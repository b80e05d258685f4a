"""Waiting for a training, without I/O: a generator that yields what to do and is sent what came of it.

``drive`` runs it in two colours. Here is the order of things in one turn: look, judge, tell, read logs, sleep; and
what happens at the end. What an observation means is ``status``'s; nothing here knows a condition.
"""

from __future__ import annotations

from collections.abc import Generator

from trainer_ops.errors import NotFound, PreconditionFailed
from trainer_ops.lifecycle.attempts import Attempt, generation_of
from trainer_ops.lifecycle.cursor import LogCursor
from trainer_ops.lifecycle.effects import Delete, Effect, Find, Observe, Part, Pause, Reply
from trainer_ops.lifecycle.listener import Listener
from trainer_ops.lifecycle.patience import pauses
from trainer_ops.lifecycle.reading import Reader
from trainer_ops.model import keys
from trainer_ops.model.observed import Observation, ObservedTrainJob
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.status.wait import GaveUp, Sleep, Step, Stop, Wait

__all__ = ["Flow", "waiting"]


Flow = Generator[Effect, Reply, Outcome]


def waiting(wait: Wait, listener: Listener, cursor: LogCursor, *, follow_logs: bool) -> Flow:
    """Wait until the training ends or a limit does.

    Raises:
        BackendError: the very first look was refused (no such permission, no such API); later looks that fail count
            as no answer, because a training that runs is not failed by a token that expired.
    """
    reader = Reader(listener, cursor, follow=follow_logs)
    watcher = _Watcher(wait, listener)
    while True:
        reply = yield Observe(wait.ref.name)
        step = watcher.judge(reply)
        obs = reply.value if reply.error is None else None
        listener.on_state(watcher.wait.state, obs)
        if obs is not None:
            yield from reader.turn(obs)
        if not isinstance(step, Sleep):
            break
        if not reader.behind:
            yield Pause(step.seconds)
    if not isinstance(step, GaveUp):
        yield from reader.finish(failed=watcher.wait.state.phase is not Phase.SUCCEEDED)
    if watcher.wait.state.phase in (Phase.DELETED, Phase.REPLACED):
        yield from watcher.ask_who_superseded()
    if isinstance(step, Stop):
        yield from watcher.stop()
    return watcher.wait.hear(reader.tails.to_dict()).outcome()


class _Watcher:
    """Keeps the Wait, and tells when the target goes away and comes back."""

    def __init__(self, wait: Wait, listener: Listener) -> None:
        self.wait = wait
        self._listener = listener
        self._job: ObservedTrainJob | None = None
        self._answered = wait.seen
        self._away = False

    def judge(self, reply: Reply) -> Step:
        """What the look means."""
        if reply.error is None:
            if self._away:
                self._listener.on_note(f"{self.wait.ref.target} answers again")
            self._away, self._answered = False, True
            obs: Observation = reply.value
            if obs.job is not None and obs.job.uid == self.wait.ref.uid:
                self._job = obs.job
            self.wait, step = self.wait.see(obs, reply.at)
            return step
        if not (reply.error.retryable or self._answered):
            raise reply.error
        if not self._away:
            self._listener.on_note(f"no answer from {self.wait.ref.target}: {reply.error.message}; trying again")
        self._away = True
        self.wait, step = self.wait.unreachable(str(reply.error), reply.at)
        return step

    def stop(self) -> Part:
        """Delete a training that used up its restarts; a target that is away is asked again, as patiently as ever."""
        ref, deadline = self.wait.ref, None
        for pause in pauses(2.0):
            reply = yield Delete(ref.name, ref.uid)
            error = reply.error
            if error is None or isinstance(error, NotFound | PreconditionFailed):
                return
            deadline = reply.at + self.wait.limits.unreachable_timeout if deadline is None else deadline
            if not error.retryable or reply.at >= deadline:
                self._listener.on_note(f"{ref.name} could not be deleted and may go on: {error}")
                self.wait = self.wait.not_stopped(str(error))
                return
            yield Pause(pause)

    def ask_who_superseded(self) -> Part:
        """Of a training that was deleted: whether a newer generation of the same subject was why."""
        if self._job is None or keys.LABEL_SUBJECT not in self._job.labels:
            return
        subject = self._job.labels[keys.LABEL_SUBJECT]
        reply = yield Find({keys.LABEL_SUBJECT: subject})
        found: tuple[Attempt, ...] = reply.value if reply.error is None else ()
        newer = [attempt for attempt in found if attempt.generation > generation_of(self._job)]
        if newer:
            self.wait = self.wait.superseded(newer[-1].name)
