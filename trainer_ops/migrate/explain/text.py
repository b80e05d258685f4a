"""``--explain CODE``: a code's explanation as lines."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.explain.code import IN_CODE
from trainer_ops.migrate.explain.entry import Explained
from trainer_ops.migrate.explain.files import IN_FILES
from trainer_ops.migrate.explain.kinds import OF_KINDS
from trainer_ops.migrate.explain.nodes import OF_NODES
from trainer_ops.migrate.explain.pods import OF_PODS
from trainer_ops.migrate.explain.policy import OF_POLICY

__all__ = ["EXPLAINED", "explain"]

_TABLES: Final = (OF_NODES, OF_POLICY, OF_PODS, OF_KINDS, IN_FILES, IN_CODE)
EXPLAINED: Final[Mapping[str, Explained]] = {code: entry for table in _TABLES for code, entry in table.items()}


def explain(code: str, width: int) -> list[str]:
    """All there is to say about a code beside its title, in paragraphs with empty lines between them.

    Args:
        code: of ``codes.CODES``.
        width: of the lines; examples are at most 98 wide.

    Raises:
        KeyError: there is no such code.
    """
    entry = EXPLAINED[code]
    paragraphs = [
        textwrap.wrap(f"In v1: {entry.v1}", width),
        textwrap.wrap(f"In v2: {entry.v2}", width),
        textwrap.wrap(f"Why it matters: {entry.matters}", width),
        textwrap.wrap(f"What to do: {entry.do}", width),
    ]
    if entry.example:
        paragraphs.append([f"    {line}" for line in textwrap.dedent(entry.example).strip("\n").split("\n")])
    if entry.issues:
        paragraphs.append(textwrap.wrap(f"Upstream: {', '.join(entry.issues)}", width))
    return [line for lines in paragraphs for line in (*lines, "")][:-1]
