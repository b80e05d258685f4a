"""Where a command writes: text for people to one stream, JSON to stdout; styled where there is a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from trainer_ops.cli.render import Signs
from trainer_ops.cli.text import Spans, plain
from trainer_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["Screen", "put_json", "styled"]

# Text that goes to a file or a pipe is as wide as a table may be on a terminal of the usual width.
_WIDTH = 100


class Screen:
    """The text side of one command.

    Attributes:
        json: whether stdout is for one JSON value, so that all text goes to stderr.
        stream: where text goes.
        terminal: whether a person looks at a terminal that can move its cursor.
        signs: the characters it can show.
    """

    def __init__(self, output: str = "text", *, allowed: Sequence[str] = ("text", "json")) -> None:
        if output not in allowed:
            raise InvalidRequest("--output", f'"{output}" is none of {", ".join(allowed)}', f"Give {allowed[0]}")
        self.json = output == "json"
        self.stream: TextIO = sys.stderr if self.json else sys.stdout
        self.terminal = self.stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
        self.signs = Signs.of(self.stream.encoding)
        self._console: Console | None = None

    @property
    def width(self) -> int:
        """Columns: the terminal's, or those of a page."""
        if self.terminal:
            return self.console.width
        return shutil.get_terminal_size((_WIDTH, 25)).columns if "COLUMNS" in os.environ else _WIDTH

    @property
    def console(self) -> Console:
        """Rich's console on the stream; imported when first asked for."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self.stream, highlight=False, markup=False, emoji=False)
        return self._console

    def say(self, *lines: Spans) -> None:
        """Write lines, never broken: a terminal wraps what is too long, and a copied command stays whole."""
        if self.terminal:
            for line in lines:
                self.console.print(styled(line), soft_wrap=True)
            return
        for line in lines:
            self.stream.write(_writable(plain(line).rstrip(), self.stream) + "\n")
        self.stream.flush()

    def text(self, text: str, style: str = "") -> None:
        """Write one text."""
        self.say([(text, style)])


def _writable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def styled(spans: Spans) -> Text:
    """The spans as rich's text."""
    from rich.text import Text

    return Text.assemble(*spans, no_wrap=True, overflow="ignore", end="")


def put_json(value: Mapping[str, Any] | Iterable[Any]) -> None:
    """One JSON value on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=True) + "\n")
    sys.stdout.flush()
