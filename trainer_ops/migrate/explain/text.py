"""``--explain CODE``: a code's explanation as text."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.migrate.codes import CODES
from trainer_ops.migrate.explain.code import IN_CODE
from trainer_ops.migrate.explain.entry import Explained
from trainer_ops.migrate.explain.files import IN_FILES
from trainer_ops.migrate.explain.kinds import OF_KINDS
from trainer_ops.migrate.explain.nodes import OF_NODES
from trainer_ops.migrate.explain.pods import OF_PODS
from trainer_ops.migrate.explain.policy import OF_POLICY

__all__ = ["EXPLAINED", "explain", "overview"]

_TABLES: Final = (OF_NODES, OF_POLICY, OF_PODS, OF_KINDS, IN_FILES, IN_CODE)
EXPLAINED: Final[Mapping[str, Explained]] = {code: entry for table in _TABLES for code, entry in table.items()}

_SEVERITIES: Final = {
    "refused": "refused: nothing is written until it is settled",
    "warning": "warning: converted, and behaves differently",
    "info": "note: converted, good to know",
}


def explain(code: str, *, width: int = 100) -> str:
    """All there is to say about a code, ended by a line end.

    Args:
        code: as it stands in a report; its case does not matter.
        width: of the lines, except for those of examples.

    Raises:
        InvalidRequest: there is no such code; names those like it.
    """
    known = code.strip().upper()
    if known not in CODES:
        close = difflib.get_close_matches(known, CODES, n=3, cutoff=0.5)
        remedy = f"Did you mean {' or '.join(close)}?" if close else "All codes: trainer-ops migrate --explain all"
        raise InvalidRequest("explain", f'there is no code "{code}"', remedy)
    return "\n".join(_lines(known, width)) + "\n"


def overview() -> str:
    """Every code with its title, one a line."""
    width = max(map(len, CODES))
    return "".join(f"{code:<{width}}  {known.severity:<7}  {known.title}\n" for code, known in CODES.items())


def _lines(code: str, width: int) -> Iterator[str]:
    known = CODES[code]
    yield f"{code}: {known.title}"
    yield _SEVERITIES[known.severity]
    entry = EXPLAINED.get(code)
    if entry is None:
        yield ""
        yield from textwrap.wrap(known.explanation, width)
        return
    parts = (("v1", entry.v1), ("v2", entry.v2), ("matters", entry.matters), ("do", entry.do))
    for name, text in parts:
        yield ""
        yield from textwrap.wrap(text, width, initial_indent=f"{name:<9}", subsequent_indent=" " * 9)
    if entry.example:
        yield ""
        yield from textwrap.indent(textwrap.dedent(entry.example).strip("\n"), " " * 9).split("\n")
    if entry.issues:
        yield ""
        yield f"{'upstream':<9}{', '.join(entry.issues)}"
