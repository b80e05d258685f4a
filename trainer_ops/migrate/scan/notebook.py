"""Notebooks: each code cell is Python that knows the cells above it, or shell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from trainer_ops.migrate.options import Options
from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan.about import placed
from trainer_ops.migrate.scan.python import knows_v1, scan_source
from trainer_ops.migrate.scan.shell import scan_shell
from trainer_ops.migrate.scan.source import Source

__all__ = ["scan_notebook"]

_SHELL_CELL: Final = re.compile(r"\s*%%(?:bash|sh|script\b.*)\n")
_MAGIC: Final = re.compile(r"^(\s*)[!%].*$", re.MULTILINE)


def scan_notebook(text: str, options: Options | None = None) -> tuple[Placed, ...]:
    """What a notebook knows of v1. ``document`` is the number of the cell, from 1, and ``line`` the line in it."""
    if not knows_v1(text):
        return ()
    try:
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        sources = [_source(cell["source"]) for cell in cells]
    except (ValueError, LookupError, TypeError, RecursionError) as exc:
        reason = f"v1 is named in it, but it is no notebook: {exc}"
        return (placed("UNREADABLE", 1, reason, severity="warning", remedy="Look for v1 in it by hand"),)
    return tuple(_found(sources, options or Options()))


def _source(held: Any) -> str:
    return "".join(held) if isinstance(held, list) else str(held)


def _found(cells: list[str], options: Options) -> Iterator[Placed]:
    known: Source | None = None
    for number, cell in enumerate(cells, 1):
        found: list[Placed] = []
        if _SHELL_CELL.match(cell):
            found += scan_shell(cell, options)
        else:
            found += scan_shell("\n".join(line if _MAGIC.match(line) else "" for line in cell.split("\n")), options)
            try:
                known = Source.parse(_MAGIC.sub(r"\1pass", cell), known=known)
                found += scan_source(known, options)
            except (SyntaxError, ValueError, RecursionError):
                pass  # a cell that cannot run says nothing
        for one in sorted(found, key=lambda one: one.line):
            message = f"{one.finding.message} (cell {number})"
            yield replace(one, document=number, finding=replace(one.finding, message=message))
