"""YAML text of what was made: the same bytes for the same objects, and the same values for every reader of YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

__all__ = ["to_yaml"]

# Plain words that some reader takes for something else: YAML 1.1 of kubectl knows more numbers, booleans and nulls
# than PyYAML does (1e3, y, 0o17).
_NO_TEXT = re.compile(
    r"[-+.]?[0-9][0-9A-Za-z_.+:-]*|[-+]?\.(inf|nan)|y|n|yes|no|on|off|true|false|null|~|=|<<|", re.IGNORECASE
)


class _Dumper(yaml.SafeDumper):
    """Lists indented below their key, long texts not folded, texts of several lines as blocks, no aliases."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """As people write lists: deeper than their key."""
        del indentless
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        """The same list in two places is written twice."""
        del data
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None
    if "\n" in value and not re.search(r"[ \t]\n|[^\n\t -\x7e\xa0-\ud7ff\ue000-\ufffd]|^[ \n]", value):
        style = "|"
    elif _NO_TEXT.fullmatch(value):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def to_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """One YAML document for each object, between ``---`` lines; keys in the objects' own order."""
    return "---\n".join(
        yaml.dump(
            dict(one), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000, default_flow_style=False
        )
        for one in objects
    )
