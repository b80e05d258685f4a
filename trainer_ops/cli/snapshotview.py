"""The snapshots of a store as a table, as JSON, and what became of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainer_ops.cli.fetchview import files_text
from trainer_ops.cli.render import Signs
from trainer_ops.cli.text import Spans, roughly, size_text, table
from trainer_ops.model.lines import clean
from trainer_ops.model.times import rfc3339

if TYPE_CHECKING:
    from trainer_ops.initializers.manifest import Manifest
    from trainer_ops.initializers.store import Freed

__all__ = ["KEY_SHOWN", "freed_lines", "freed_to_json", "snapshots_table", "to_json", "verified_lines"]

# So many digits of a key are enough to name it.
KEY_SHOWN = 12


def to_json(manifest: Manifest, location: str = "") -> dict[str, Any]:
    """The documented JSON: fields are added, none is renamed or removed."""
    return {
        "key": manifest.key,
        "uri": manifest.uri,
        "revision": manifest.revision,
        "asked": manifest.asked,
        "include": list(manifest.include),
        "ignore": list(manifest.ignore),
        "files": manifest.count,
        "bytes": manifest.size,
        "digest": manifest.digest,
        "created_at": rfc3339(manifest.created),
        "used_at": rfc3339(manifest.used) if manifest.used else None,
        **({"location": location} if location else {}),
    }


def snapshots_table(
    rows: Sequence[Manifest], *, now: float, width: int, locations: Sequence[str] | None = None
) -> list[Spans]:
    """The table of ``snapshots list``; with ``locations`` nothing is cut, and they and what was asked for are added."""
    full = locations is not None
    header = ["KEY", "FILES", "SIZE", "AGE", "USED", "REVISION", *(["ASKED", "LOCATION"] if full else []), "SOURCE"]
    cells = [
        [
            one.key if full else one.key[:KEY_SHOWN],
            str(one.count),
            size_text(one.size),
            roughly(now - one.created),
            roughly(now - one.used) if one.used else "",
            clean(one.revision if full else _short(one.revision)),
            *([clean(one.asked), clean(at)] if full else []),
            clean(_source(one)),
        ]
        for one, at in zip(rows, locations or [""] * len(rows), strict=True)
    ]
    lines = table(header, cells, width=None if full else width, right=frozenset({1, 2, 3, 4}))
    return [
        [(cell + ("" if i == len(line) - 1 else "  "), "dim" if number == 0 else "") for i, cell in enumerate(line)]
        for number, line in enumerate(lines)
    ]


def _short(revision: str) -> str:
    """A commit or a digest by its beginning, as git shows them; a name whole."""
    kind, colon, digest = revision.rpartition(":")
    return digest[:KEY_SHOWN] if len(digest) >= 32 else f"{kind}{colon}{digest}"[:24]


def _source(one: Manifest) -> str:
    """The patterns too: they tell two snapshots of one source apart."""
    return " ".join([one.uri, *(f"+{pattern}" for pattern in one.include), *(f"-{pattern}" for pattern in one.ignore)])


def verified_lines(one: Manifest, problems: Sequence[str], signs: Signs) -> list[Spans]:
    """One snapshot that was read again: sound, or what is wrong with it."""
    sign = (signs.bad, "bold red") if problems else (signs.good, "bold green")
    says = ("1 fault" if len(problems) == 1 else f"{len(problems)} faults") if problems else "sound"
    head = [
        (f"{sign[0]} ", sign[1]),
        (one.key[:KEY_SHOWN], "bold"),
        (f"  {says}  ", sign[1].removeprefix("bold ")),
        (f"{files_text(one.count, one.size)}  {clean(one.uri)}" if one.uri else "of what it was cannot be read", ""),
    ]
    return [head, *([("  ", ""), (clean(problem), "")] for problem in problems)]


def freed_lines(freed: Freed, *, dry_run: bool) -> list[Spans]:
    """What ``snapshots gc`` removed, or would: a line each, and how much it was."""
    verb = "would go" if dry_run else "removed"
    lines: list[Spans] = [
        [(one.key[:KEY_SHOWN], "bold"), (f"  {verb}  {files_text(one.count, one.size)}  {clean(_source(one))}", "")]
        for one in freed.snapshots
    ]
    lines += [[(key[:KEY_SHOWN], "bold"), (f"  {verb}  a broken download", "")] for key in freed.partials]
    lines += [[(key[:KEY_SHOWN], "bold"), ("  stays  another process works on it", "yellow")] for key in freed.busy]
    count = len(freed.snapshots) + len(freed.partials)
    total = f"{'would free' if dry_run else 'freed'} {size_text(freed.size)}" if count else "nothing to remove"
    return [*lines, [(total, "bold")]]


def freed_to_json(freed: Freed, *, dry_run: bool) -> dict[str, Any]:
    """The documented JSON of ``snapshots gc``."""
    return {
        "dry_run": dry_run,
        "bytes": freed.size,
        "snapshots": [to_json(one) for one in freed.snapshots],
        "partials": list(freed.partials),
        "busy": list(freed.busy),
    }
