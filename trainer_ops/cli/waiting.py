"""``wait -l``: many trainings at once, told in lines as they change, in a table at the end."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainer_ops.backends.base import Backend
from trainer_ops.cli.detach import Detach, interrupts
from trainer_ops.cli.exits import Exit, of_outcome
from trainer_ops.cli.flags import LimitFlags, ViewFlags
from trainer_ops.cli.glance import Glance
from trainer_ops.cli.inputs import limits_over
from trainer_ops.cli.render import trainings_table
from trainer_ops.cli.screen import Screen, put_json
from trainer_ops.cli.views import Plain, View
from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.lifecycle.find import limits_of
from trainer_ops.lifecycle.group import Rule, Verdict, Waited
from trainer_ops.lifecycle.select import wait_for
from trainer_ops.lifecycle.selection import Selection, wanted_labels
from trainer_ops.model.identity import JobRef
from trainer_ops.model.phase import State

__all__ = ["Many", "selected"]

# What a script most needs to know comes first: that something failed, is gone, is out of sight, was left alone.
_WORST = (Exit.FAILED, Exit.CANCELLED, Exit.UNREACHABLE, Exit.GAVE_UP, Exit.TRAINED)


def selected(texts: Sequence[str]) -> dict[str, str]:
    """The labels of all ``-l``, each ``K=V`` or ``K=V,K=V``.

    Raises:
        InvalidRequest: field ``-l``.
    """
    try:
        return wanted_labels(",".join(texts) or ",")
    except InvalidRequest as exc:
        raise InvalidRequest("-l", exc.reason, "Write -l team=a,sweep=42") from exc


@dataclass(frozen=True, slots=True)
class Many:
    """One wait for many on one screen.

    Attributes:
        backend: where they run.
        screen: where they are shown.
        flags: how much of it.
        limits: typed limits, in place of those that each was submitted with.
        clock: what sleeps.
        target: ``--target`` as it was typed, for the commands that are printed.
    """

    backend: Backend
    screen: Screen
    flags: ViewFlags
    limits: LimitFlags
    clock: Clock
    target: str | None = None

    def wait(self, labels: dict[str, str], *, first: bool) -> Exit:
        """Wait for all, or for the ``first`` that has trained; the worst exit code, or with ``first`` the best.

        Raises:
            InvalidRequest: there is none.
        """
        views: dict[str, View] = {}

        def view(ref: JobRef) -> View:
            made = View(self.screen, ref.name) if self.flags.quiet else Plain(self.screen, ref.name, logs=False)
            return views.setdefault(ref.uid, made)

        rule = Rule(
            of="any" if first else "all",
            fail_fast=False,
            nothing="refuse",
            limits=lambda job: limits_over(self.limits, limits_of(job)),
        )
        with interrupts():
            try:
                verdict = wait_for(self.backend, Selection.of(labels=labels), rule, clock=self.clock, listener_for=view)
            except Detach:
                return self._detached(labels, len(views), first=first)
        self._end(verdict, views)
        return Exit.TRAINED if first and verdict.met else worst(verdict.trainings)

    def _end(self, verdict: Verdict, views: dict[str, View]) -> None:
        if self.screen.json:
            put_json({"trainings": [waited.outcome.to_json() for waited in verdict.trainings]})
        now = self.clock.now()
        rows = [_row(waited, views[waited.ref.uid].seen, now) for waited in verdict.trainings]
        self.screen.say(*trainings_table(rows, now=now, width=self.screen.width - 1, full=False))
        bad = [waited for waited in verdict.trainings if waited.answer.value == "never"]
        if bad and not verdict.met:
            command = f"trainer-ops wait {bad[0].ref.name}{self._at()}"
            self.screen.say(
                [(f"{len(bad)} of {len(verdict.trainings)} did not train", "bold red"), (f"   why: {command}", "")]
            )

    def _detached(self, labels: dict[str, str], count: int, *, first: bool) -> Exit:
        words = ",".join(f"{key}={value}" for key, value in labels.items())
        again = f"trainer-ops wait -l {shlex.quote(words)}{' --any' if first else ''}{self._at()}"
        if self.screen.json:
            put_json({"trainings": []})
        goes = "1 training goes on." if count == 1 else f"{count} trainings go on."
        self.screen.say([("detached: ", "bold yellow"), (goes, "")], [("  again   ", "bold"), (again, "")])
        return Exit.GAVE_UP

    def _at(self) -> str:
        return f" --target {shlex.quote(self.target)}" if self.target else ""


def worst(trainings: Sequence[Waited]) -> Exit:
    """The exit code that says most of how these ended."""
    codes = {of_outcome(waited.outcome) for waited in trainings}
    return next(code for code in _WORST if code in codes)


def _row(waited: Waited, seen: Glance | None, now: float) -> Glance:
    """What was seen of it last, with how it ended."""
    outcome = waited.outcome
    base = seen if seen is not None else Glance(waited.ref.name, State(outcome.phase), now)
    detail = outcome.diagnosis.summary if outcome.diagnosis is not None else base.state.detail
    state = State(outcome.phase, base.state.reason, detail)
    # The nodes' own words would stand before the diagnosis.
    return replace(base, name=waited.ref.name, state=state, metrics=dict(outcome.metrics) or base.metrics, nodes=())
