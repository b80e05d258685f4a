"""Submit and wait with somebody looking on: what ``run``, ``submit``, ``wait`` and ``demo`` have in common."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from trainer_ops.backends.base import Backend, Watch
from trainer_ops.cli.catchup import catch_up
from trainer_ops.cli.detach import Detach, Interrupts, interrupts
from trainer_ops.cli.exits import Exit, of_outcome
from trainer_ops.cli.flags import ViewFlags
from trainer_ops.cli.glance import Glance
from trainer_ops.cli.render import ended, failure
from trainer_ops.cli.report import check_place, write_report
from trainer_ops.cli.screen import Screen, put_json
from trainer_ops.cli.views import View, note_line, view_for
from trainer_ops.errors import Unreachable
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.cursor import LogCursor
from trainer_ops.lifecycle.submit import Submitted
from trainer_ops.model.identity import RunKey
from trainer_ops.model.outcome import Ending, Outcome
from trainer_ops.model.phase import Phase
from trainer_ops.model.request import TrainRequest
from trainer_ops.model.times import rfc3339
from trainer_ops.status.wait import Wait

__all__ = ["SECRET", "Session", "submit_only"]

_NODE = re.compile(r"\b(node-\d+|launcher|(?:dataset|model)-initializer)\b")
# Names of variables of which the value must not be shown.
SECRET = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|PRIVATE|(API|ACCOUNT)_?KEY|CONNECTION_STRING", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Session:
    """One wait on one screen.

    Attributes:
        backend: where it runs.
        screen: where it is shown.
        flags: how much of it.
        clock: what sleeps.
        typed: the command line that can be typed again to train; () when this one cannot.
        target: ``--target`` as it was typed, for the commands that are printed.
    """

    backend: Backend
    screen: Screen
    flags: ViewFlags
    clock: Clock
    typed: Sequence[str] = ()
    target: str | None = None

    def run(self, request: TrainRequest, key: RunKey) -> Exit:
        """Submit and wait; the exit code of ``run``."""
        check_place(self.flags.report, "--report")
        with interrupts() as signals:
            try:
                submitted = _submit(self, signals, request, key)
            except Detach:
                return _interrupted(self, key)
            self._tell(submitted)
            wait = Wait.begin(submitted.ref, request.limits, now=self.clock.now(), attempt=submitted.attempt)
            return self._follow(wait, signals, caught_up=submitted.how != "created")

    def wait(self, wait: Wait) -> Exit:
        """Wait for a training that was submitted before; the exit code of ``wait``."""
        check_place(self.flags.report, "--report")
        with interrupts() as signals:
            return self._follow(wait, signals, caught_up=True)

    def _tell(self, submitted: Submitted) -> None:
        for line in notes(submitted):
            if not self.flags.quiet:
                self.screen.say(note_line(line))

    def _follow(self, wait: Wait, signals: Interrupts, *, caught_up: bool) -> Exit:
        from trainer_ops.lifecycle.drive import drive

        logs = not self.flags.no_logs and not self.flags.quiet
        view = view_for(self.screen, wait.ref.name, quiet=self.flags.quiet, logs=logs)
        try:
            signals.check()
            with view:
                cursor = LogCursor()
                if caught_up and logs:
                    wait, cursor, logs = catch_up(self.backend, wait, view, now=self.clock.now())
                outcome = drive(self.backend, wait, clock=self.clock, listener=view, cursor=cursor, follow_logs=logs)
        except (Detach, BrokenPipeError) as stop:
            return self._detached(wait, view, silent=isinstance(stop, BrokenPipeError))
        self._end(outcome, view.seen)
        if self.flags.report is not None:
            self._report(outcome, self.flags.report)
        return of_outcome(outcome)

    def _detached(self, wait: Wait, view: View, *, silent: bool) -> Exit:
        ref = wait.ref
        if self.screen.json:
            seen = view.seen
            phase = seen.phase if seen is not None else Phase.NOT_OBSERVED
            started = rfc3339(seen.started_at) if seen is not None and seen.started_at is not None else None
            left = Outcome(ref.name, ref.namespace, ref.uid, ref.target, phase, wait.attempt, started_at=started)
            put_json(left.to_json())
        if not silent:
            at = self._at()
            self.screen.say(
                [("detached: ", "bold yellow"), (f"{ref.name} goes on training.", "")],
                [("  again   ", "bold"), (f"trainer-ops wait {ref.name}{at}", "")],
                [("  stop    ", "bold"), (f"trainer-ops cancel {ref.name}{at}", "")],
            )
        return Exit.GAVE_UP

    def _end(self, outcome: Outcome, seen: Glance | None) -> None:
        took = outcome.took
        if outcome.succeeded:
            self.screen.say(*ended(outcome, seen, took, self.screen.width - 1, self.screen.signs))
        else:
            after = took if took is not None else seen.elapsed if seen is not None and seen.at else None
            self.screen.say(*failure(outcome, after, self.screen.width - 1, self.screen.signs, self._next(outcome)))
        if self.screen.json:
            put_json(outcome.to_json())

    def _report(self, outcome: Outcome, place: str) -> None:
        """The training's end decides the exit code, also when its page cannot be written."""
        try:
            text = f"report   {write_report(outcome, place, now=self.clock.now())}"
        except OSError as error:
            text = f"no report: {place}: {error.strerror or error}"
        self.screen.say([(f"  {text}", "")])

    def _next(self, outcome: Outcome) -> list[tuple[str, str]]:
        """The commands to go on with."""
        name, at = outcome.name, self._at()
        again = [("again", " ".join(self.typed))] if self.typed else []
        if outcome.ending in (Ending.GAVE_UP, Ending.UNREACHABLE):
            return [("again", f"trainer-ops wait {name}{at}"), ("stop", f"trainer-ops cancel {name}{at}")]
        if outcome.ending is Ending.CANCELLED:
            return again
        node = _NODE.search(outcome.diagnosis.summary if outcome.diagnosis else "")
        which = f" --node {node[1].removeprefix('node-')}" if node else ""
        return [*again, ("logs", f"trainer-ops logs {name}{which}{at}")]

    def _at(self) -> str:
        return f" --target {shlex.quote(self.target)}" if self.target else ""


class _Interruptible:
    """The clock of a submission: Ctrl-C acts at once while it sleeps between tries."""

    def __init__(self, clock: Clock, signals: Interrupts) -> None:
        self._clock = clock
        self._signals = signals

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock.now()

    def sleep(self, seconds: float, watch: Watch | None = None) -> None:
        """Sleep."""
        with self._signals.released():
            self._clock.sleep(seconds, watch)

    async def asleep(self, seconds: float, watch: Watch | None = None) -> None:
        """A submission has no event loop."""
        raise NotImplementedError


def _submit(session: Session, signals: Interrupts, request: TrainRequest, key: RunKey) -> Submitted:
    from trainer_ops.lifecycle.submit import submit

    def away(error: Unreachable) -> None:
        if not session.flags.quiet:
            target = session.backend.target
            session.screen.say(note_line(f"no answer from {target}: {error.message}; trying again until it answers"))

    with signals.held():
        return submit(session.backend, request, key, clock=_Interruptible(session.clock, signals), away=away)


def _interrupted(session: Session, key: RunKey) -> Exit:
    """Nobody knows whether there is a training now; the same key adopts it."""
    words = list(session.typed)
    if "--key" not in words:
        words[2:2] = ["--key", shlex.quote(key.parts[0][1])]
    session.screen.say(
        [("interrupted while submitting: ", "bold yellow"), ("there may be a training.", "")],
        [("  again   ", "bold"), (" ".join(words), "")],
        [("  see     ", "bold"), ("trainer-ops list", "")],
    )
    return Exit.GAVE_UP


def notes(submitted: Submitted) -> list[str]:
    """What a person should know of a submission, one line each."""
    name = submitted.ref.name
    lines = [f"warning: {text.removeprefix('warning: ')}" for text in submitted.warnings]
    lines += [f"{old} was stopped: this run takes its place" for old in submitted.superseded]
    if submitted.how == "adopted":
        lines.append(f"{name} is this run and is training already (attempt {submitted.attempt})")
    elif submitted.how == "finished":
        lines.append(f"{name} is this run and has trained before: this is its result. To train anew give another --key")
    elif submitted.attempt > 1:
        lines.append(f"attempt {submitted.attempt}: the one before did not end well")
    return lines


def submit_only(session: Session, request: TrainRequest, key: RunKey) -> Exit:
    """Submit and say what it became; the exit code of ``submit``."""
    with interrupts() as signals:
        try:
            submitted = _submit(session, signals, request, key)
        except Detach:
            return _interrupted(session, key)
    if session.screen.json:
        put_json(
            {
                **submitted.ref.to_json(),
                "attempt": submitted.attempt,
                "how": submitted.how,
                "superseded": list(submitted.superseded),
                "warnings": list(submitted.warnings),
            }
        )
        return Exit.TRAINED
    at = f" --target {shlex.quote(session.target)}" if session.target else ""
    for line in notes(submitted):
        session.screen.say(note_line(line))
    verb = {"created": "submitted", "adopted": "is training", "finished": "has trained"}[submitted.how]
    session.screen.say(
        [(submitted.ref.name, "bold"), (f" {verb}   wait: trainer-ops wait {submitted.ref.name}{at}", "")]
    )
    return Exit.TRAINED


def typed_line(argv: Sequence[str]) -> list[str]:
    """The command line as it can be typed again, quoted; what looks like a secret is left to the environment."""
    words = ["trainer-ops"]
    after_env = False
    for word in argv:
        flag = next((f for f in ("--env=", "-e") if word.startswith(f) and word != "-e"), "")
        env, rest = after_env or bool(flag), word[len(flag) :]
        name, equals, _ = rest.partition("=")
        if env and equals and SECRET.search(name):
            rest = name
        words.append(shlex.quote(flag + rest))
        after_env = word in ("--env", "-e")
    return words
