"""The command line, ``trainer-ops``: it translates words into use cases, and outcomes into pictures and exit codes.

Here belong flags, YAML files, terminals and exit codes. What a training means, how it is submitted or waited for
does not: that is ``lifecycle`` and below, the same for all front ends. ``typer`` is the only import that a module
here may make at its top beside this package's light ones: ``trainer-ops --help`` must not wait for pydantic, rich,
yaml or kubernetes, so each command imports what it needs when it runs. May import: ``lifecycle`` and below.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (see ``exits``); ``argv`` is ``sys.argv[1:]`` when left out."""
    from trainer_ops.cli.app import run

    return run(argv)
