"""``exec``: a command or a shell in a node of a training that runs."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from trainer_ops.cli.flags import NameFlags

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend
    from trainer_ops.lifecycle.exec import Door
    from trainer_ops.model.identity import JobRef

__all__ = ["exec_"]

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_KILLED = 137


def exec_(
    name: NameFlags,
    argv: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND ARGS", help="Without it a shell.", show_default=False)
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="N", help="1, node-1 or launcher. [the launcher, else node 0]")
    ] = None,
    terminal: Annotated[
        bool | None, typer.Option("--tty/--no-tty", help="Give it a terminal. [when this is one]", show_default=False)
    ] = None,
) -> int:
    """Run a command in a node of a training.

    In the environment and folder of the node, so that mpirun in an MPI launcher starts its ranks on the nodes. The
    exit code is the command's; 127 and 126 when it is not there or cannot be run.
    """
    from trainer_ops.cli.rawterminal import is_terminal
    from trainer_ops.cli.target import clock, opened
    from trainer_ops.lifecycle.exec import door
    from trainer_ops.lifecycle.find import find

    if terminal is None:
        terminal = is_terminal(_STDIN) and is_terminal(_STDOUT)
    with opened(name.target) as backend:
        ref = find(backend, name.name)
        place = door(backend, ref, node, clock=clock())
        try:
            code = _run(backend, place, argv or [], terminal)
        except KeyboardInterrupt:
            print(f"interrupted; the command may go on in {place.node} of {ref.name}", file=sys.stderr)
            return 128 + 2
        if code == _KILLED:
            _say_if_over(backend, ref, place)
    return code


def _run(backend: Backend, place: Door, argv: list[str], terminal: bool) -> int:
    from trainer_ops.backends.base import Streams
    from trainer_ops.cli.rawterminal import lent
    from trainer_ops.lifecycle.exec import SHELL

    sys.stdout.flush()
    with lent(_STDIN) if terminal else nullcontext() as given:
        streams = Streams(_STDIN, _STDOUT, _STDERR, given)
        return backend.exec(place.pod, place.container, argv or SHELL, streams)


def _say_if_over(backend: Backend, ref: JobRef, place: Door) -> None:
    """A command is killed with its node: say so to one who sees only a shell that has gone."""
    from trainer_ops.cli.target import clock
    from trainer_ops.errors import InvalidRequest
    from trainer_ops.lifecycle.exec import door

    try:
        now = door(backend, ref, place.node, clock=clock(), patience=0.0)
    except InvalidRequest as error:
        print(f"the command was killed with {place.node}: {error.reason}", file=sys.stderr)
        return
    if now.pod != place.pod:
        print(f"the command was killed with {place.node}, which was made anew", file=sys.stderr)
