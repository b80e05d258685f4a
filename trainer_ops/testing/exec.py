"""Commands in memory: what a test lets them answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from trainer_ops.backends.base import Streams
from trainer_ops.errors import NotFound
from trainer_ops.model.observed import ObservedPod
from trainer_ops.testing.training import Training

__all__ = ["Answer", "Command", "Commands"]


@dataclass(frozen=True, slots=True)
class Command:
    """A command that was run, and what its answer may read and write."""

    pod: str
    container: str
    argv: tuple[str, ...]
    streams: Streams

    def read(self) -> bytes:
        """All of stdin."""
        pieces = []
        while self.streams.stdin is not None and (piece := os.read(self.streams.stdin, 1 << 16)):
            pieces.append(piece)
        return b"".join(pieces)

    def say(self, text: str, *, error: bool = False) -> None:
        """Print on stdout or stderr; in a terminal both are one."""
        one = error and self.streams.terminal is None
        os.write(self.streams.stderr if one else self.streams.stdout, text.encode())


Answer = Callable[[Command], int]


def _done(command: Command) -> int:
    return 0


class Commands:
    """The part of ``MemoryBackend`` that runs commands.

    Attributes:
        commands: those that were run so far.
    """

    _trainings: dict[str, Training]
    _call: Callable[[str, str], AbstractContextManager[Any]]

    def __init__(self) -> None:
        self.commands: list[Command] = []
        self._answer: Answer = _done

    def answer(self, answer: Answer) -> None:
        """What commands do from now on: a function of the ``Command`` that gives the exit code. At first: nothing, 0.

        ::

            memory.answer(lambda command: command.say("hi") or 3)
        """
        self._answer = answer

    def exec(self, pod: str, container: str, argv: Sequence[str], streams: Streams) -> int:
        """Answer a command, when that container runs."""
        command = Command(pod, container, tuple(argv), streams)
        with self._call("exec", pod):
            pods = [ObservedPod.from_raw(raw) for training in self._trainings.values() for raw in training.pods]
            containers = [c for one in pods if one.name == pod for c in one.containers]
            if not any(c.name == container and c.state == "running" for c in containers):
                raise NotFound(f'container "{container}" of pod "{pod}" does not run', status=404)
            self.commands.append(command)
        return self._answer(command)
