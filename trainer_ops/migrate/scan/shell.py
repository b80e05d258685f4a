"""Shell: ``kubectl`` with v1 jobs, in scripts, Makefiles, CI files, Dockerfiles and the cells of notebooks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from trainer_ops.migrate.options import Options
from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan import labels
from trainer_ops.migrate.scan.about import KIND_OF_PLURAL, NAMES, placed
from trainer_ops.migrate.scan.embedded import in_text, names_job
from trainer_ops.migrate.scan.source import one_line

__all__ = ["applied_files", "heredocs", "job_name", "scan_shell"]

_RESOURCES: Final = "|".join(sorted({*KIND_OF_PLURAL, *(plural[:-1] for plural in KIND_OF_PLURAL)}, key=len))
_RESOURCE: Final = re.compile(
    rf"(?<![\w.-])({_RESOURCES})(?:\.v1|\.v2beta1)?(\.kubeflow\.org)?(?:/(\S+))?(?![\w-])", re.I
)
_KUBECTL: Final = re.compile(r"(?<![\w./-])(?:kubectl|oc|k)\s")
_VERB: Final = re.compile(
    r"(?<![\w./-])(?:kubectl|oc|k)\s+((?:(?:-n|--namespace|--context)[ =]\S+\s+|-\S+\s+)*)([a-z]+)"
)
_FILE: Final = re.compile(r"(?:-f|--filename)[ =]?([^\s'\";&|]+\.(?:ya?ml|json))")
# Of GitHub's workflows and of Jinja: one word, with or without the spaces in it.
_EXPRESSION: Final = re.compile(r"\{\{.*?\}\}")
_HEREDOC: Final = re.compile(r"<<-?\s*(['\"]?)(\w+)\1[^\n]*\n(.*?)\n[ \t]*\2[ \t]*(?=\n|$)", re.DOTALL)
_NAMESPACE: Final = re.compile(r"(?<!\S)(?:-n|--namespace)[ =](\S+)")
_LABEL: Final = re.compile(r"(?:-l|--selector)[ =]?(['\"]?)(\S*training\.kubeflow\.org/[^'\"\s]*)\1")


def scan_shell(text: str, options: Options | None = None, *, first_line: int = 1) -> tuple[Placed, ...]:
    """What a script does with v1 jobs, in the order of its lines.

    Args:
        text: of it; other text is passed over, so a file may hold shell among other things.
        options: for the jobs in its here-documents.
        first_line: the line of the file on which the text begins.
    """
    if NAMES.search(text) is None:
        return ()
    found: list[Placed] = []
    commands = _commands(text, first_line) if _KUBECTL.search(text) or _LABEL.search(text) else ()
    for line, command in commands:
        if _KUBECTL.search(command):
            told = _told(line, command)
            found += [told] if told is not None else []
        selector = _LABEL.search(command)
        if selector is not None:
            found.append(labels.told(line, selector[2]))
    return tuple(sorted([*found, *_heredocs(text, first_line, options or Options())], key=lambda one: one.line))


def applied_files(command: str) -> list[str]:
    """The files that ``kubectl apply`` or ``create`` is given."""
    return _FILE.findall(command)


def heredocs(text: str) -> Iterator[str]:
    """The here-documents of a script."""
    yield from (found[3] for found in _HEREDOC.finditer(text))


def job_name(command: str) -> str:
    """The name of the v1 job in a command, ``NAME`` when there is none that is seen."""
    command = _EXPRESSION.sub(lambda found: "".join(found[0].split()), command)
    for found in _RESOURCE.finditer(command):
        if found[3]:
            return found[3].strip("'\"")
        rest = [word for word in command[found.end() :].split() if not word.startswith("-")]
        after = command[found.end() :].split()
        if rest and after and after[0] == rest[0] and re.fullmatch(r"['\"]?[\w.${}-]+['\"]?", rest[0]):
            return rest[0].strip("'\"")
    return "NAME"


def _commands(text: str, first_line: int) -> Iterator[tuple[int, str]]:
    """Each line with the line that it begins on; a backslash at the end goes on."""
    start, held = first_line, ""
    for number, line in enumerate(text.split("\n"), first_line):
        if not held:
            start = number
        held += line.removesuffix("\\").rstrip() + " " if line.endswith("\\") else line
        if line.endswith("\\"):
            continue
        if not held.lstrip().startswith("#"):
            yield start, held
        held = ""
    if held:
        yield start, held


def _told(line: int, command: str) -> Placed | None:
    named = _RESOURCE.search(command)
    if named is None:
        return None
    verb = _VERB.search(command)
    word = verb[2] if verb else ""
    files = applied_files(command)
    message = _MESSAGES.get(word, "names v1 jobs")
    replacement = _instead(word, job_name(command), files, _NAMESPACE.search(command))
    return placed("KUBECTL", line, message, what=one_line(command.strip()), replacement=replacement)


def _instead(verb: str, name: str, files: list[str], namespace: re.Match[str] | None) -> str:
    target = f" --target {shlex.quote(f'kubernetes:///{namespace[1]}')}" if namespace else ""
    if verb in ("apply", "create", "replace") and files:
        return f"trainer-ops run -f {shlex.quote(files[0])}{target}\n"
    given = shlex.quote(name) if "$" not in name else f'"{name}"'
    text = {
        "wait": f"trainer-ops wait {given}",
        "delete": f"trainer-ops cancel {given}",
        "logs": f"trainer-ops logs {given} -f",
        "get": "trainer-ops list" if name == "NAME" else f"trainer-ops status {given}",
        "describe": f"trainer-ops status {given}",
        "exec": f"trainer-ops exec {given}",
    }.get(verb, "kubectl … trainjobs.trainer.kubeflow.org")
    return f"{text}{target if text.startswith('trainer-ops') else ''}\n"


_MESSAGES: Final[Mapping[str, str]] = {
    "apply": "makes a v1 job",
    "create": "makes a v1 job",
    "delete": "deletes a v1 job",
    "describe": "looks at a v1 job",
    "get": "looks at v1 jobs",
    "logs": "reads the logs of a v1 job",
    "patch": "changes a v1 job; what a TrainJob trains cannot be changed",
    "scale": "scales a v1 job; a TrainJob has a fixed number of nodes",
    "wait": "waits for a condition of v1",
}


def _heredocs(text: str, first_line: int, options: Options) -> Iterator[Placed]:
    if not names_job(text):
        return  # most files: and a document that never ends is looked for to the end of the file
    for here in _HEREDOC.finditer(text):
        start = first_line + text[: here.start(3)].count("\n")
        for job in in_text(here[3], options):
            line = start + job.line - 1
            yield placed("JOB-IN-CODE", line, f"a {job.kind} stands here", replacement=job.text, job=job)
