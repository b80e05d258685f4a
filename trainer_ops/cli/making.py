"""A snapshot made with somebody looking on: what ``init dataset`` and ``init model`` have in common."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer_ops.backends.base import Backend
from trainer_ops.cli.detach import Detach, interrupts
from trainer_ops.cli.durations import seconds
from trainer_ops.cli.exits import Exit, exit_for
from trainer_ops.cli.fetching import Fetching, fetching_for
from trainer_ops.cli.fetchview import block, made, short
from trainer_ops.cli.flags import SourceFlags
from trainer_ops.cli.screen import Screen, put_json
from trainer_ops.cli.snapshotview import KEY_SHOWN
from trainer_ops.cli.stepenv import step_env
from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.model.times import duration

if TYPE_CHECKING:
    from trainer_ops.model.snapshot import Snapshot, SnapshotKind

__all__ = ["Making", "as_typed", "in_flags"]

# A parameter of a snapshot under the name that a person typed it by.
_FLAG_OF = {
    "uri": "URI",
    "secret_ref": "--secret",
    "wait_timeout": "--timeout",
    "storage_class": "--storage-class",
    "access_mode": "--access-mode",
    **{name: f"--{name}" for name in ("revision", "include", "ignore", "to", "storage", "image", "env")},
}


@dataclass(frozen=True, slots=True)
class Making:
    """One snapshot on one screen.

    Attributes:
        backend: where it is made.
        screen: where it is shown.
        clock: what sleeps.
        quiet: say only how it ended.
        typed: the command line that can be typed again.
        target: ``--target`` as it was typed, for the commands that are printed.
    """

    backend: Backend
    screen: Screen
    clock: Clock
    quiet: bool
    typed: Sequence[str]
    target: str | None = None

    def run(self, kind: SnapshotKind, source: SourceFlags) -> Exit:
        """Make it; the exit code.

        Raises:
            InvalidRequest: names the flag; nothing was made.
        """
        view = fetching_for(self.screen, self.clock, source.uri, quiet=self.quiet)
        try:
            snapshot = self._take(kind, source, view)
        except (Detach, BrokenPipeError):
            return self._interrupted(source, view)
        except InvalidRequest as error:
            raise in_flags(error) from error
        except TrainerOpsError as error:
            return self._failed(error, source, view)
        self._made(snapshot, source, view)
        return Exit.TRAINED

    def _take(self, kind: SnapshotKind, source: SourceFlags, view: Fetching) -> Snapshot:
        from trainer_ops.lifecycle.snapshots import take_snapshot

        env = step_env(source.env, self.backend)
        with interrupts(), view:
            return take_snapshot(
                self.backend,
                source.uri,
                kind=kind,
                revision=source.revision,
                include=tuple(source.include or ()),
                ignore=tuple(source.ignore or ()),
                to=source.to,
                secret_ref=source.secret,
                env=env,
                storage=source.storage,
                storage_class=source.storage_class,
                access_mode=source.access_mode,
                image=source.image,
                wait_timeout=seconds(source.timeout, "--timeout"),
                refresh=source.refresh,
                clock=self.clock,
                listener=view,
            )

    def _made(self, snapshot: Snapshot, source: SourceFlags, view: Fetching) -> None:
        took = self.clock.now() - view.progress.began
        lines = made(snapshot, took, self._use(snapshot, source), self.screen.width - 1, self.screen.signs)
        self.screen.say(*(lines[:1] if self.quiet else lines))
        if self.screen.json:
            put_json(snapshot.to_json())

    def _use(self, snapshot: Snapshot, source: SourceFlags) -> str:
        """A key is found again in the target's own store only; a location by whoever reaches it."""
        near = not source.to and snapshot.location.startswith("file:")
        which = snapshot.key[:KEY_SHOWN] if near else shlex.quote(snapshot.location)
        return f"trainer-ops run --{snapshot.kind} {which}{self._at()} {self.screen.signs.ellipsis}"

    def _interrupted(self, source: SourceFlags, view: Fetching) -> Exit:
        kept = "what was fetched is kept" if view.progress.files is not None else "nothing was fetched"
        self.screen.say(
            [("interrupted: ", "bold yellow"), (f"no snapshot of {short(source.uri)} yet; {kept}.", "")],
            [("  again   ", "bold"), (" ".join(self.typed), "")],
        )
        return Exit.INTERRUPTED

    def _failed(self, error: TrainerOpsError, source: SourceFlags, view: Fetching) -> Exit:
        after = duration(self.clock.now() - view.progress.began)
        head = [
            (f"{self.screen.signs.bad} ", "bold red"),
            ("no snapshot of ", "red"),
            (short(source.uri), "bold"),
            (f" after {after}", ""),
        ]
        again = [("again", " ".join(self.typed))]
        what, remedy = _in_flags(error.message), _in_flags(error.remedy)
        self.screen.say(*block(head, what, remedy, self.screen.width - 1, again))
        limit = seconds(source.timeout, "--timeout")
        waited = limit is not None and self.clock.now() - view.progress.began >= limit
        return Exit.GAVE_UP if waited and getattr(error, "transient", False) else exit_for(error)

    def _at(self) -> str:
        return f" --target {shlex.quote(self.target)}" if self.target else ""


def in_flags(error: InvalidRequest) -> InvalidRequest:
    """The same error, its field under the name of the flag."""
    head, dot, rest = error.field.partition(".")
    if head not in _FLAG_OF:
        return error
    return InvalidRequest(_FLAG_OF[head] + dot + rest, _in_flags(error.reason), _in_flags(error.remedy))


@contextmanager
def as_typed() -> Iterator[None]:
    """Errors of what is done meanwhile name flags, not parameters."""
    from trainer_ops.initializers.provider import SnapshotError

    try:
        yield
    except InvalidRequest as error:
        raise in_flags(error) from error
    except SnapshotError as error:
        told, remedy = _in_flags(error.message), _in_flags(error.remedy)
        raise SnapshotError(told, remedy=remedy, transient=error.transient, credentials=error.credentials) from error


def _in_flags(text: str) -> str:
    """What only parameters are called, in a sentence that a person reads who typed flags."""
    for name in ("secret_ref", "wait_timeout", "storage_class", "access_mode"):
        text = text.replace(name, _FLAG_OF[name])
    return text
