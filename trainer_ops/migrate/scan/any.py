"""A file of any form that a scanner knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from trainer_ops.migrate.options import Options
from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan.argo import scan_compiled
from trainer_ops.migrate.scan.notebook import scan_notebook
from trainer_ops.migrate.scan.python import scan_python
from trainer_ops.migrate.scan.shell import scan_shell

__all__ = ["scan", "wants"]

_Scanner = Callable[[str, "Options | None"], tuple[Placed, ...]]

_BY_ENDING: Final[Mapping[str, _Scanner]] = {
    "py": scan_python,
    "ipynb": scan_notebook,
    "sh": scan_shell,
    "bash": scan_shell,
    "zsh": scan_shell,
    "mk": scan_shell,
    "just": scan_shell,
}
_MANIFESTS: Final = ("yaml", "yml", "json")
_BY_NAME: Final = re.compile(
    r"(?:Makefile|GNUmakefile|justfile|Justfile|Jenkinsfile|Dockerfile|Containerfile)(?:\..*)?$"
)


def wants(name: str) -> bool:
    """Whether a file of this name is one that ``scan`` looks into."""
    base = name.rpartition("/")[2]
    return _ending(base) in (*_BY_ENDING, *_MANIFESTS) or _BY_NAME.fullmatch(base) is not None


def scan(name: str, text: str, options: Options | None = None) -> tuple[Placed, ...]:
    """What a file knows of v1 beside jobs that are documents of their own, in the order of its lines.

    Args:
        name: of the file; its ending says what it is.
        text: of it.
        options: for the jobs that stand inside it.
    """
    base = name.rpartition("/")[2]
    scanner = _BY_ENDING.get(_ending(base))
    if scanner is not None:
        return scanner(text, options)
    if _ending(base) in _MANIFESTS:
        # Files of CI systems are YAML with commands in it.
        return tuple(sorted([*scan_compiled(text, options), *scan_shell(text, options)], key=lambda one: one.line))
    return scan_shell(text, options) if _BY_NAME.fullmatch(base) else ()


def _ending(base: str) -> str:
    return base.rpartition(".")[2].lower() if "." in base else ""
