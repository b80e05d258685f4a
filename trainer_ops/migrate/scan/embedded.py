"""v1 jobs that stand inside other text: YAML in strings, with Jinja, f-string and shell holes; dicts of Python."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import yaml

from trainer_ops.migrate.convert import Converted, convert
from trainer_ops.migrate.kinds import kind_of, once_was
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.scan.source import Unknown
from trainer_ops.migrate.yamltext import to_yaml

__all__ = ["Inner", "converted", "in_text", "is_job", "names_job", "reopened"]

_NAMED: Final = re.compile(r"""kind["']?\s*:\s*["']?(?:PyTorch|TF|MPI|XGBoost|Paddle|JAX|MX)Job\b""")
# {{ jinja }}, <an expression of Python>, ${SHELL}: text that something else fills in.
_HOLE: Final = re.compile(r"\{\{.*?\}\}|<[^<>\n]+>|\$\{[^}\n]+\}", re.DOTALL)
_STATEMENT: Final = re.compile(r"\{%.*?%\}", re.DOTALL)
# Where v1 wants a whole number.
_NUMBERS: Final = (
    "replicas|slotsPerWorker|backoffLimit|activeDeadlineSeconds|ttlSecondsAfterFinished|minAvailable|minReplicas"
    "|maxReplicas"
)
_NUMBER: Final = re.compile(rf"""(\b(?:{_NUMBERS})["']?\s*:\s*)["']?(tmpl\d+x)["']?(?=\s*(?:[,}}\n#]|$))""")
_TOKEN: Final = re.compile(r"\$TMPL(\d+)X|tmpl(\d+)x")


@dataclass(frozen=True, slots=True)
class Inner:
    """A v1 job inside other text, and what came of it.

    Attributes:
        done: the conversion, with ``tmpl1x`` and ``$TMPL1X`` where the text has holes.
        holes: what stands in them.
        line: where the job begins in the text, from 1.
    """

    done: Converted
    holes: tuple[str, ...] = ()
    line: int = 1

    @property
    def kind(self) -> str:
        """``PyTorchJob``."""
        return str(self.done.raw.get("kind"))

    @property
    def refusal(self) -> str:
        """What to add to a sentence about a job that is refused; "" of another."""
        if self.done.ok:
            return ""
        found = self.done.findings[0]
        return f", which is refused ({found.code}: {reopened(found.message, self.holes)})"

    @property
    def namespace(self) -> str:
        """Of the TrainJob, "" when it has none."""
        held = (self.done.trainjob or {}).get("metadata", {}).get("namespace") or ""
        return reopened(str(held), self.holes)

    @property
    def trainjob(self) -> str:
        """YAML with its holes open again; "" when the job is refused."""
        return _yaml(self.done.trainjob, self.holes)

    @property
    def runtime(self) -> str:
        """YAML of the runtime that it needs, "" when it needs a stock one."""
        return _yaml(self.done.runtime, self.holes)

    @property
    def text(self) -> str:
        """All of the result as YAML, the runtime first."""
        return f"{self.runtime}---\n{self.trainjob}" if self.runtime else self.trainjob

    @property
    def opened(self) -> Converted:
        """The conversion with the holes open again everywhere, for reports."""
        done = self.done
        if not self.holes:
            return done
        return replace(
            done,
            raw=self._open(done.raw),
            trainjob=self._open(done.trainjob),
            runtime=self._open(done.runtime),
            findings=tuple(
                replace(found, message=reopened(found.message, self.holes), remedy=reopened(found.remedy, self.holes))
                for found in done.findings
            ),
            ledger=tuple(replace(entry, value=self._open(entry.value)) for entry in done.ledger),
        )

    def _open(self, value: Any) -> Any:
        if isinstance(value, str):
            return reopened(value, self.holes)
        if isinstance(value, Mapping):
            return {self._open(key): self._open(item) for key, item in value.items()}
        return [self._open(item) for item in value] if isinstance(value, list) else value


def names_job(text: str) -> bool:
    """Whether a text may hold a v1 job as YAML or JSON."""
    return _NAMED.search(text) is not None


def is_job(value: Any) -> bool:
    """Whether a mapping is a v1 job."""
    if not isinstance(value, Mapping):
        return False
    api_version, kind = value.get("apiVersion"), value.get("kind")
    return kind_of(api_version, kind) is not None or once_was(api_version, kind)


def in_text(text: str, options: Options) -> Iterator[Inner]:
    """Every v1 job in a text, converted. Text that is no YAML even with its holes closed gives nothing."""
    if not names_job(text):
        return
    holes: list[str] = []
    closed = _STATEMENT.sub("", _closed(textwrap.dedent(text), holes))
    try:
        nodes = list(yaml.compose_all(closed, Loader=yaml.SafeLoader))
        values = list(yaml.safe_load_all(closed))
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    for node, value in zip(nodes, values, strict=False):
        line = _line(node)
        for job in _jobs(value):
            yield Inner(convert(job, _open(options)), tuple(holes), line)


def _line(node: Any) -> int:
    """Empty documents are None, whatever PyYAML's types say."""
    return 1 if node is None else int(node.start_mark.line) + 1


def converted(value: Mapping[str, Any], options: Options) -> Inner:
    """A job that is a mapping in Python, with its holes: ``Unknown`` values."""
    holes: list[str] = []
    done = convert(_filled(value, "", holes), _open(options))
    return Inner(done, tuple(holes))


def _yaml(value: Mapping[str, Any] | None, holes: tuple[str, ...]) -> str:
    if value is None:
        return ""
    text = to_yaml(value)
    return "".join(_reopened(line, holes) for line in text.splitlines(keepends=True)) if holes else text


def _open(options: Options) -> Options:
    return replace(options, allow_placeholders=True)


def _jobs(value: Any) -> Iterator[Mapping[str, Any]]:
    """The jobs in a document: itself, items of a List, and what Katib, Argo and others carry, also as text."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    seen: set[int] = set()
    while waiting:
        held, depth = waiting.pop()
        if is_job(held) and (not depth or isinstance(held.get("spec"), Mapping)):
            # Katib and Argo name what they make.
            yield held if not depth or held.get("metadata") else {**held, "metadata": {"generateName": "train-"}}
        elif isinstance(held, Mapping | list) and id(held) not in seen:
            seen.add(id(held))  # anchors may name one thing a million times
            waiting += [(item, depth + 1) for item in (held.values() if isinstance(held, Mapping) else held)][::-1]
        elif isinstance(held, str) and "\n" in held and names_job(held):
            with suppress(yaml.YAMLError, ValueError, RecursionError):
                waiting += [(one, depth + 1) for one in yaml.safe_load_all(held) if not isinstance(one, str)][::-1]


def _closed(text: str, holes: list[str]) -> str:
    def close(found: re.Match[str]) -> str:
        return f"tmpl{_number(found[0], holes)}x"

    return _NUMBER.sub(lambda found: f"{found[1]}{found[2].replace('tmpl', '$TMPL')[:-1]}X", _HOLE.sub(close, text))


def _number(hole: str, holes: list[str]) -> int:
    """Holes with the same in them are the same, so that roles that are equal stay it."""
    if hole not in holes:
        holes.append(hole)
    return holes.index(hole) + 1


def _filled(value: Any, key: str, holes: list[str]) -> Any:
    if isinstance(value, Unknown):
        hole = _number(str(value), holes)
        return f"$TMPL{hole}X" if re.fullmatch(_NUMBERS, key) else f"tmpl{hole}x"
    if isinstance(value, Mapping):
        return {str(name): _filled(item, str(name), holes) for name, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, key, holes) for item in value]
    return _closed(value, holes) if isinstance(value, str) and _HOLE.search(value) else value


def _reopened(line: str, holes: tuple[str, ...]) -> str:
    """A line with its holes open; a text with one in it is quoted, so that what fills it stays a text."""
    if not _TOKEN.search(line):
        return line
    body = line.rstrip("\n")
    head, separator, scalar = body.rpartition(": ") if ": " in body else body.rpartition("- ")
    if not scalar.startswith(("$TMPL", '"', "'")):
        mark = "'" if '"' in reopened(scalar, holes) else '"'
        body = f"{head}{separator}{mark}{scalar}{mark}"
    return reopened(body, holes) + "\n"


def reopened(text: str, holes: tuple[str, ...]) -> str:
    """A text with its holes open again."""

    def open_(found: re.Match[str]) -> str:
        number = int(found[1] or found[2])
        return holes[number - 1] if 0 < number <= len(holes) else found[0]

    return _TOKEN.sub(open_, text)
