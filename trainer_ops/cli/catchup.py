"""Coming back to a training that has been talking for hours."""

from __future__ import annotations

from trainer_ops.backends.base import Backend, log_sources
from trainer_ops.cli.views import View
from trainer_ops.errors import BackendError
from trainer_ops.lifecycle.cursor import TAIL_LINES, LogCursor
from trainer_ops.status.classify import classify
from trainer_ops.status.wait import Wait

__all__ = ["catch_up"]

# Enough to see where it is.
_SHOWN = 10


def catch_up(backend: Backend, wait: Wait, view: View, *, now: float) -> tuple[Wait, LogCursor, bool]:
    """Show the newest lines of each node, and go on behind them.

    Returns:
        The wait, which knows those lines, should the training fail before it says more; where reading logs goes on;
        and whether there is anything to follow: a training that has ended has said it all.
    """
    cursor = LogCursor()
    tails: dict[str, tuple[str, ...]] = {}
    try:
        obs = backend.observe(wait.ref.name, now=now)
        if classify(obs, uid=wait.ref.uid).phase.finished:
            return wait, cursor, False
        sources = log_sources(obs.pods)
        newest = {source.pod_uid: source for source in sources}
        for source in sources:
            if source != newest[source.pod_uid]:
                cursor.close(source)
                continue
            chunk = backend.logs(source, tail=TAIL_LINES)
            cursor.take(source, chunk)
            if chunk.lines:
                tails[source.node] = chunk.lines
                view.on_lines(source, chunk.lines[-_SHOWN:])
    except BackendError:
        pass  # the wait meets the same error, and is patient with it
    return wait.hear(tails), cursor, True
