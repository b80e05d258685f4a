"""What the component's body calls: submit or adopt, wait, write the outputs.

A person sees nothing of a failed step but the end of its log, so the last lines of stderr are the Diagnosis and no
traceback follows them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from trainer_ops.backends.base import LogSource
from trainer_ops.errors import TrainerOpsError, Unreachable
from trainer_ops.kfp.artifacts import Artifact, Outputs, write
from trainer_ops.kfp.cancel import cancelled_by_sigterm
from trainer_ops.kfp.inputs import request_from, run_key, spoiled_numbers
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.drive import drive
from trainer_ops.lifecycle.fetch import fetch_script
from trainer_ops.lifecycle.listener import Silent
from trainer_ops.lifecycle.submit import submit
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Outcome
from trainer_ops.model.phase import State
from trainer_ops.model.times import duration
from trainer_ops.status.verdict import error_for
from trainer_ops.status.wait import Wait

__all__ = ["train"]


def train(inputs: Mapping[str, Any], *, model: Artifact, metrics: Artifact) -> Outputs:
    """Run one training to its end.

    Args:
        inputs: the component's parameters by name.
        model: the output artifact; its URI is the identity of this step.
        metrics: the output artifact.

    Raises:
        SystemExit: the training did not succeed, or the inputs are wrong; the reason is on stderr.
    """
    try:
        outcome = _run(dict(inputs), model.uri)
    except TrainerOpsError as exc:
        _fail(str(exc))
    error = error_for(outcome)
    if error is not None:
        _fail(str(error))
    return write(outcome, model=model, metrics=metrics)


def _run(inputs: dict[str, Any], output_uri: str) -> Outcome:
    target = inputs.pop("target", "")
    request = request_from(inputs, spoiled=spoiled_numbers(sys.argv))
    key = run_key(output_uri, title=request.title)
    request = fetch_script(request)
    backend = open_backend(target or None)
    clock = RealClock()
    try:
        with cancelled_by_sigterm(backend) as handle:
            submitted = submit(backend, request, key, clock=clock, away=_say_away)
            handle.started(submitted.ref)
            listener = _Printer(submitted.ref.name, clock.now())
            listener.on_note(f"{submitted.how} on {submitted.ref.target}, attempt {submitted.attempt}")
            wait = Wait.begin(submitted.ref, request.limits, now=clock.now(), attempt=submitted.attempt)
            return drive(backend, wait, clock=clock, listener=listener)
    finally:
        backend.close()


def _say_away(error: Unreachable) -> None:
    print(f"no answer from the target: {error.message}; trying again", flush=True)


def _fail(text: str) -> NoReturn:
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)
    raise SystemExit(1)


class _Printer(Silent):
    """Plain lines in the step's log: every change of state once, every line of every node."""

    def __init__(self, name: str, began_at: float) -> None:
        self._name = name
        self._began_at = began_at
        self._last: tuple[str, str] | None = None

    def on_state(self, state: State, obs: Observation | None) -> None:
        if (state.phase.value, state.detail) == self._last:
            return
        self._last = (state.phase.value, state.detail)
        elapsed = duration((obs.at if obs else self._began_at) - self._began_at)
        print(f"{self._name}  {state.phase.value:<10} {elapsed:>7}  {state.detail}".rstrip(), flush=True)

    def on_lines(self, source: LogSource, lines: Sequence[str]) -> None:
        print("\n".join(f"[{source.node}] {line}" for line in lines), flush=True)

    def on_note(self, text: str) -> None:
        print(f"{self._name}  {text}", flush=True)
