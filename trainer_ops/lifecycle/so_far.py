"""A training as it stands, in the shape of an Outcome: looked at once, not waited for."""

from __future__ import annotations

from dataclasses import replace

from trainer_ops.backends.base import Backend, log_sources
from trainer_ops.errors import BackendError, Forbidden
from trainer_ops.lifecycle.cursor import TAIL_LINES
from trainer_ops.lifecycle.find import begin
from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Outcome
from trainer_ops.status.classify import classify
from trainer_ops.status.roster import ROWS_LIMIT

__all__ = ["so_far"]


def so_far(backend: Backend, ref: JobRef, *, now: float) -> Outcome:
    """How it ended, or how far it is: then ``diagnosis`` is None and ``phase`` not a finished one.

    What was before is read off the objects' own times, so phases that left no trace there are missing.

    Args:
        backend: where it runs.
        ref: which.
        now: seconds since the epoch.

    Raises:
        BackendError: the target did not answer or refused; logs that cannot be read are no reason.
    """
    wait = begin(backend, ref, now=now)
    obs = backend.observe(ref.name, now=now)
    if not classify(obs, uid=ref.uid).phase.finished:
        # Limits are those of somebody who waits; to look is not to wait.
        wait = replace(wait, limits=Limits())
    wait, _ = replace(wait, seen=True).see(obs, now)
    outcome = wait.hear(_tails(backend, obs)).outcome()
    return outcome if outcome.phase.finished else replace(outcome, diagnosis=None)


def _tails(backend: Backend, obs: Observation) -> dict[str, tuple[str, ...]]:
    """The last lines of each node's newest run."""
    newest = {source.node: source for source in log_sources(obs.pods)}
    tails: dict[str, tuple[str, ...]] = {}
    for node, source in list(newest.items())[:ROWS_LIMIT]:
        try:
            tails[node] = backend.logs(source, tail=TAIL_LINES).lines
        except Forbidden:
            return tails
        except BackendError:
            continue
    return tails
