"""Make a runtime be as somebody wrote it: from a mapping, from YAML text, or from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainer_ops.backends.base import Backend, RawObject
from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.clock import Clock, RealClock
from trainer_ops.lifecycle.patience import persist
from trainer_ops.model import keys
from trainer_ops.validate.runtime import check_runtime
from trainer_ops.validate.trainjob import refuse

__all__ = ["Applied", "apply_runtime", "read_runtime"]

_KINDS = (keys.CLUSTER_RUNTIME, keys.NAMESPACED_RUNTIME)
_FILES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a runtime.

    Attributes:
        how: ``created``, ``changed``, or ``unchanged``: it was like that already, nothing was written.
        raw: the runtime as stored.
        warnings: what is worth a word about it, one sentence each.
    """

    how: Literal["created", "changed", "unchanged"]
    raw: RawObject
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The runtime's name."""
        return str(self.raw["metadata"]["name"])

    @property
    def kind(self) -> str:
        """``ClusterTrainingRuntime`` or ``TrainingRuntime``."""
        return str(self.raw["kind"])


def apply_runtime(
    backend: Backend, runtime: Mapping[str, Any] | str | Path, *, clock: Clock | None = None, patience: float = 60.0
) -> Applied:
    """Make the runtime be as it is written; again and again is once.

    Args:
        backend: where.
        runtime: see ``read_runtime``.
        clock: what sleeps.
        patience: seconds for which a target that gives no answer is asked again.

    Raises:
        InvalidRequest: it is no runtime, or a wrong one: all that is wrong with it, by path. Nothing was changed.
        BackendError: the target refused.
    """
    manifest = read_runtime(runtime)
    findings = check_runtime(manifest)
    refuse(findings)
    kind, name = str(manifest["kind"]), str(manifest["metadata"]["name"])
    clock = clock or RealClock()
    before = persist(lambda: backend.runtime(name, kind), clock=clock, patience=patience)
    stored = persist(lambda: backend.apply_runtime(manifest), clock=clock, patience=patience)
    how: Literal["created", "changed", "unchanged"] = "created"
    if before is not None:
        how = "unchanged" if stored == before else "changed"
    return Applied(how, stored, tuple(str(finding) for finding in findings))


def read_runtime(runtime: Mapping[str, Any] | str | Path) -> dict[str, Any]:
    """One runtime: a mapping, YAML or JSON text, or a file of it (a Path, or text that ends in .yaml, .yml or .json).

    ``kind`` may be left out and means ClusterTrainingRuntime; ``apiVersion`` likewise means the one that there is.

    Raises:
        InvalidRequest: field ``runtime``: it cannot be read, or is not exactly one runtime.
    """
    if not isinstance(runtime, Mapping | str | Path):
        raise _wrong(f"{runtime!r} is no runtime", "Give a mapping, YAML text, or a file")
    raw = dict(runtime) if isinstance(runtime, Mapping) else _parse(runtime)
    filled = {"apiVersion": keys.API_VERSION, "kind": keys.CLUSTER_RUNTIME, **raw}
    if filled["kind"] not in _KINDS:
        raise _wrong(f"{filled['kind']!r} is no runtime", f"Give a {' or a '.join(_KINDS)}")
    return filled


def _parse(given: str | Path) -> dict[str, Any]:
    import yaml

    text, where = _text(given)
    try:
        found = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as exc:
        raise _wrong(f"{where} is not YAML: {' '.join(str(exc).split())}", "Correct it") from exc
    if len(found) != 1:
        raise _wrong(f"{where} holds {len(found)} documents", "Give one runtime at a time")
    if not isinstance(found[0], dict):
        raise _wrong(f"{where} is a {type(found[0]).__name__}, not a runtime", "Give a mapping, YAML text, or a file")
    return found[0]


def _text(given: str | Path) -> tuple[str, str]:
    """Its text, and what to call it."""
    if isinstance(given, str) and ("\n" in given or not given.endswith(_FILES)):
        return given, "the text"
    try:
        return Path(given).expanduser().read_text(encoding="utf-8"), str(given)
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not UTF-8 text"
        raise _wrong(f"{given} cannot be read: {reason}", "Name a YAML file that is there") from exc


def _wrong(reason: str, remedy: str) -> InvalidRequest:
    return InvalidRequest("runtime", reason, remedy)
