"""``report``: a training as one HTML page, and ``--report`` of the commands that wait for one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainer_ops.cli.flags import NameFlags

if TYPE_CHECKING:
    from trainer_ops.model.outcome import Outcome

__all__ = ["check_place", "report", "write_report"]


def report(
    name: NameFlags,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; - is stdout. [NAME.html]")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show it in a browser.")] = False,
) -> int:
    """A training as one HTML page.

    Phases, metrics, nodes, events, and why it failed: a file that needs nothing else, to keep or to send. Of one that
    still goes on the state so far; what only a wait sees (phases without a trace) is in the page of run --report.
    """
    from trainer_ops.cli.screen import Screen
    from trainer_ops.cli.target import clock, opened
    from trainer_ops.lifecycle.find import find
    from trainer_ops.lifecycle.so_far import so_far

    check_place(output if output != "-" else None, "--output")
    now = clock().now()
    with opened(name.target) as backend:
        outcome = so_far(backend, find(backend, name.name), now=now)
    if output == "-":
        _print(outcome, now)
        return 0
    place = write_report(outcome, output or f"{outcome.name}.html", now=now)
    Screen().text(str(place))
    if open_:
        import webbrowser

        webbrowser.open(place.absolute().as_uri())
    return 0


def check_place(place: str | None, flag: str) -> None:
    """Refuse a file that cannot be written before there is anything to write.

    Raises:
        InvalidRequest: it is a folder, or its folder is not there or may not be written.
    """
    from trainer_ops.errors import InvalidRequest

    if place is None:
        return
    path = Path(place)
    if path.is_dir():
        raise InvalidRequest(flag, f"{place} is a folder", f"Name a file, like {path / 'report.html'}")
    if not path.parent.is_dir():
        raise InvalidRequest(flag, f"there is no folder {path.parent}", f"Make it first: mkdir -p {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidRequest(flag, f"{place} may not be written", "Name another file")


def write_report(outcome: Outcome, place: str, *, now: float) -> Path:
    """Write the page; returns where it is.

    Raises:
        OSError: it cannot be written.
    """
    from trainer_ops.pages.report import render

    path = Path(place)
    path.write_text(render(outcome, now=now), encoding="utf-8")
    return path


def _print(outcome: Outcome, now: float) -> None:
    from trainer_ops.pages.report import render

    # Bytes: the page says that it is UTF-8, whatever the terminal is.
    sys.stdout.flush()
    sys.stdout.buffer.write(render(outcome, now=now).encode())
    sys.stdout.buffer.flush()
