"""``migrate``: v1 training jobs in files or on a cluster to TrainJobs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainer_ops.cli.flags import TargetFlags
from trainer_ops.cli.migrateflags import OptionFlags, options_of
from trainer_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend
    from trainer_ops.cli.screen import Screen
    from trainer_ops.lifecycle.migration import Done
    from trainer_ops.migrate.options import Options

__all__ = ["migrate"]

_FORMATS = ("md", "json", "html")


class _Exit(IntEnum):
    """What a script learns: of ``migrate`` the numbers mean this."""

    CLEAN = 0
    WARNINGS = 1
    REFUSED = 2


@dataclass(frozen=True, slots=True)
class _Report:
    form: str
    file: str = ""

    @classmethod
    def of(cls, given: str | None) -> _Report | None:
        if given is None:
            return None
        form, _, file = given.partition("=")
        if form not in _FORMATS:
            raise InvalidRequest("--report", f'"{form}" is none of {", ".join(_FORMATS)}', "Give html=report.html")
        return cls(form, file)


def migrate(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH...", help="Files and folders; - is standard input.", show_default=False),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="DIR", help="Write what changes below this folder.")
    ] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Change the files themselves.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show what would change as a diff.")] = False,
    report: Annotated[
        str | None,
        typer.Option("--report", metavar="md|json|html[=FILE]", help="All of it as a report, to a file or stdout."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 when there are warnings.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="The table and the last line only.")] = False,
    apply_check: Annotated[
        bool,
        typer.Option("--apply-check", help="Ask the cluster too whether it would take the results; changes nothing."),
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Convert the v1 jobs of the target's namespace; they are only read.")
    ] = False,
    explain: Annotated[
        str | None, typer.Option("--explain", metavar="CODE", help="What a code means; all: every code in a line.")
    ] = None,
    *,
    chosen: OptionFlags,
    where: TargetFlags,
) -> int:
    """Convert v1 training jobs to TrainJobs.

    PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob and JAXJob, in YAML, JSON, Lists, Markdown, ConfigMaps, Katib
    experiments, Argo workflows and AppWrappers. All else in the files stays as it is. What cannot train the same is
    refused, with the reason. Of one file the result goes to stdout, of several nothing is written without -o or
    --in-place.

    Exit codes: 0 converted, 1 with --strict: with warnings, 2 something was refused.
    """
    if explain is not None:
        return _explain(explain)
    given = _Given(tuple(paths or ()), output, in_place, diff, _Report.of(report), live)
    given.check()
    options = options_of(chosen, live=live)
    screen = given.screen()
    with _target(where, live or apply_check) as backend:
        done = _convert(given, options, backend, apply_check, screen)
    written = _write(given, done)
    _put(given, done, written, options)
    # Last, so that it stands below a long result where both go to one terminal.
    _tell(given, done, written, screen, quiet)
    return _exit(done, strict)


@dataclass(frozen=True, slots=True)
class _Given:
    """What was asked for."""

    paths: tuple[str, ...]
    output: str | None
    in_place: bool
    diff: bool
    report: _Report | None
    live: bool

    def check(self) -> None:
        """Refuse what does not go together, before anything is read."""
        if not self.paths and not self.live:
            raise InvalidRequest("PATH", "is missing", "Give files or folders, - for standard input, or --live")
        if self.paths and self.live:
            raise InvalidRequest("--live", "reads a cluster, and paths are given too", "Give one of them")
        ways = [f for f, on in (("-o", self.output), ("--in-place", self.in_place), ("--diff", self.diff)) if on]
        if len(ways) > 1:
            raise InvalidRequest(ways[1], f"does not go with {ways[0]}", "Give one of them")
        if self.in_place and (self.live or "-" in self.paths):
            raise InvalidRequest("--in-place", "there is no file to change", "Give -o DIR")
        if self.report is not None and self.report.file:
            from trainer_ops.cli.report import check_place

            check_place(self.report.file, "--report")

    @property
    def to_stdout(self) -> bool:
        """The result itself is what is printed: of one file, when nothing else is asked for."""
        if self.output or self.in_place or self.diff or (self.report is not None and not self.report.file):
            return False
        return self.live or (len(self.paths) == 1 and not Path(self.paths[0]).is_dir())

    def screen(self) -> Screen:
        """Where text for people goes: aside when stdout holds a result."""
        from trainer_ops.cli.screen import Screen

        piped = self.to_stdout or self.diff or (self.report is not None and not self.report.file)
        return Screen("json" if piped else "text")


def _explain(code: str) -> int:
    from trainer_ops.cli.migrateview import explain_lines
    from trainer_ops.cli.screen import Screen

    screen = Screen()
    screen.say(*explain_lines(code, min(screen.width, 100)))
    return 0


@contextmanager
def _target(where: TargetFlags, wanted: bool) -> Iterator[Backend | None]:
    if not wanted:
        yield None
        return
    from trainer_ops.cli.target import opened

    with opened(where.target) as backend:
        yield backend


def _convert(given: _Given, options: Options, backend: Backend | None, check: bool, screen: Screen) -> list[Done]:
    from trainer_ops.lifecycle.migration import Done, migrate_paths, migrate_sources

    if backend is None:
        return migrate_paths(given.paths, options, stdin=_stdin())
    from trainer_ops.lifecycle.migration_cluster import cluster_of, dry_run, live_sources

    cluster = cluster_of(backend, "--live" if given.live else "--apply-check")
    checker = dry_run(backend, cluster) if check else None
    if not given.live:
        return migrate_paths(given.paths, options, stdin=_stdin(), check=checker)
    sources, hidden = live_sources(cluster)
    if hidden:
        screen.text(f"not seen, for want of rights to list them: {', '.join(hidden)}", "yellow")
    return [Done(one) for one in migrate_sources(sources, options, check=checker)]


def _stdin() -> Iterator[bytes]:
    yield sys.stdin.buffer.read()


def _write(given: _Given, done: Sequence[Done]) -> dict[str, str]:
    from trainer_ops.lifecycle.migration import write_into, write_over

    if given.in_place:
        return {str(path): str(path) for path in write_over(done)}
    if given.output is not None:
        return {name: str(path) for name, path in write_into(Path(given.output), done).items()}
    return {}


def _tell(given: _Given, done: Sequence[Done], written: dict[str, str], screen: Screen, quiet: bool) -> None:
    from trainer_ops.cli.migrateview import file_lines, summary_lines

    width = min(screen.width, 120) - (1 if screen.terminal else 0)
    results = [one.result for one in done]
    for result in results if not quiet else ():
        place = written.get(result.name, "")
        screen.say(*file_lines(result, width, screen.signs, written=place if place != result.name else ""))
    screen.say(*summary_lines(results, width))
    changed = sum(one.migrated.changed for one in done)
    if written:
        screen.text(f"{len(written)} file{'s' if len(written) != 1 else ''} written")
    elif changed and not (given.to_stdout or given.diff):
        screen.text("nothing was written: -o DIR writes the results there, --in-place into the files")
    if any(one.result.jobs or one.result.findings for one in done):
        screen.text("more about a code: trainer-ops migrate --explain CODE", "dim")


def _put(given: _Given, done: Sequence[Done], written: dict[str, str], options: Options) -> None:
    """What goes to stdout, or into the report's file."""
    if given.report is not None:
        text = _report(given.report, done, written, options)
        if given.report.file:
            _save(Path(given.report.file), text)
        else:
            _stdout(text)
    if given.diff:
        _stdout("".join(_diffs(done)))
    elif given.to_stdout:
        _stdout("".join(_joined(done)))


def _save(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as exc:
        reason = f"{file} cannot be written ({exc.strerror or exc})"
        raise InvalidRequest("--report", reason, "Give a file that you may write, where there is room") from exc


def _joined(done: Sequence[Done]) -> Iterator[str]:
    """One file as it becomes; live objects one after the other."""
    for index, one in enumerate(done):
        if not one.migrated.source.is_code:
            yield ("---\n" if index else "") + one.migrated.text


def _diffs(done: Sequence[Done]) -> Iterator[str]:
    import difflib

    for one in done:
        if one.migrated.changed:
            # Not splitlines: patch knows one line end, and YAML's others stand inside its lines.
            texts = (one.migrated.source.text, one.migrated.text)
            before, after = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in texts)
            rows = difflib.unified_diff(before, after, *_headed(one.name))
            for row in rows:
                yield row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n"


def _headed(name: str) -> tuple[str, str]:
    """The names of a file in a diff, as ``patch -p1`` and ``git apply`` take them: with ``..`` they take none."""
    from json import dumps

    inside = (str(Path(name).resolve()) if ".." in Path(name).parts else name).lstrip("/")
    if re.search(r'[\x00-\x1f\\"]', inside):
        return dumps(f"a/{inside}", ensure_ascii=False), dumps(f"b/{inside}", ensure_ascii=False)
    # Of a name with a space only a tab says where it ends.
    end = "\t" if " " in inside else ""
    return f"a/{inside}{end}", f"b/{inside}{end}"


def _report(report: _Report, done: Sequence[Done], written: dict[str, str], options: Options) -> str:
    import json

    from trainer_ops.lifecycle.migration import told_where
    from trainer_ops.lifecycle.version import tool_version
    from trainer_ops.migrate.report.data import build

    data: dict[str, Any] = build(told_where(done, written), options=options, tool_version=tool_version())
    if report.form == "json":
        return json.dumps(data, indent=2) + "\n"
    if report.form == "md":
        from trainer_ops.migrate.report.markdown import render_markdown

        return render_markdown(data)
    from trainer_ops.pages.migration import render

    return render(data)


def _stdout(text: str) -> None:
    # Bytes: what was UTF-8 stays so, whatever the terminal is, and so do line ends.
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def _exit(done: Sequence[Done], strict: bool) -> int:
    from trainer_ops.cli.migrateview import severities

    counts = severities(one.result for one in done)
    if counts["refused"]:
        return _Exit.REFUSED
    return _Exit.WARNINGS if strict and counts["warning"] else _Exit.CLEAN
