"""The runtimes that a TrainJob may name on this machine: those built in, and those in a user's YAML files.

The built-in ones have the names that Trainer ships (its torchtune and data-cache runtimes need its images), two names
of our own (``plain``, ``mpi-distributed``), and in each a job for either initializer, which is run only when the
TrainJob names it. Nothing in them restarts by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys

__all__ = ["Catalogue", "Key", "builtin", "catalogue", "load_runtimes"]

Key = tuple[str, str]
Raw = dict[str, Any]

_KINDS = (keys.CLUSTER_RUNTIME, keys.NAMESPACED_RUNTIME)
_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All runtimes of an engine.

    Attributes:
        runtimes: (kind, name) to the raw object.
        notes: one sentence for each built-in runtime that a user's file replaces.
    """

    runtimes: Mapping[Key, Raw]
    notes: tuple[str, ...] = ()

    def get(self, name: str, kind: str = keys.CLUSTER_RUNTIME) -> Raw | None:
        """The runtime of that kind and name."""
        return self.runtimes.get((kind, name))

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted, each once."""
        return tuple(sorted({name for _, name in self.runtimes}))


def catalogue(paths: Iterable[str | Path] = ()) -> Catalogue:
    """The built-in runtimes and those of ``paths``, which win.

    Raises:
        InvalidRequest: as ``load_runtimes``.
    """
    paths = list(paths)
    own, ours = load_runtimes(paths), builtin()
    where = ", ".join(str(path) for path in paths)
    notes = tuple(f"the built-in runtime {key[1]} is replaced by the one in {where}" for key in own if key in ours)
    return Catalogue({**ours, **own}, notes)


@cache
def builtin() -> Mapping[Key, Raw]:
    """The runtimes that come with the package, parsed once. They are shared: copy before a change."""
    found: dict[Key, Raw] = {}
    folder = resources.files("trainer_ops.local") / "runtimes"
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".yaml"):
            for document in _documents(entry.read_text(encoding="utf-8"), entry.name):
                found[_key(document)] = document.raw
    return found


def load_runtimes(paths: Iterable[str | Path]) -> dict[Key, Raw]:
    """The (Cluster)TrainingRuntimes in YAML or JSON files, with any number of documents each, Lists included.

    Args:
        paths: files, or folders whose ``*.yaml``, ``*.yml`` and ``*.json`` are read (not those of subfolders). In a
            folder, other Kubernetes objects are passed over.

    Raises:
        InvalidRequest: a file that cannot be read or parsed, an object that is no v2 runtime, a name given twice. The
            field names the file, the document and the line.
    """
    found: dict[Key, Raw] = {}
    origin: dict[Key, str] = {}
    for file, listed in _files(paths):
        for document in _documents(_read(file), str(file)):
            if not listed and _is_other(document.raw):
                continue
            key = _key(document)
            if key in found:
                raise _wrong(document.where, f"{key[0]} {key[1]} is in {origin[key]} too", "Remove one of them.")
            found[key], origin[key] = document.raw, document.where
    return found


# ------------------------------------------------------------------------------------------------------------ files


def _files(paths: Iterable[str | Path]) -> Iterator[tuple[Path, bool]]:
    """(file, whether it was named itself)."""
    for path in map(Path, paths):
        if path.is_dir():
            yield from ((file, False) for file in sorted(path.iterdir()) if file.suffix in _SUFFIXES)
        else:
            yield path, True


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror or str(exc) if isinstance(exc, OSError) else "it is not UTF-8 text"
        raise _wrong(str(file), reason, "Name a YAML file, or a folder with YAML files.") from exc


# -------------------------------------------------------------------------------------------------------- documents


@dataclass(frozen=True, slots=True)
class _Document:
    raw: Any
    where: str


def _documents(text: str, file: str) -> Iterator[_Document]:
    # Not at the top: yaml takes longer to import than all of this package.
    import yaml

    loader = yaml.SafeLoader(text)
    number = 1
    try:
        while loader.check_node():
            node: Any = loader.get_node()
            _refuse_twice(node, f"{file}, document {number}")
            where = f"{file}, document {number}, line {node.start_mark.line + 1}"
            yield from _members(loader.construct_document(node), where)
            number += 1
    except yaml.YAMLError as exc:
        raise _wrong(*_syntax(exc, f"{file}, document {number}"), "Correct the YAML.") from exc
    finally:
        loader.dispose()


def _members(raw: Any, where: str) -> Iterator[_Document]:
    """The document, or the items of a List (what ``kubectl get -o yaml`` prints); nothing for an empty document."""
    if isinstance(raw, dict) and str(raw.get("kind") or "").endswith("List"):
        for i, item in enumerate(raw.get("items") or ()):
            yield _Document(item, f"{where}, items[{i}]")
    elif raw is not None:
        yield _Document(raw, where)


def _refuse_twice(node: Any, where: str) -> None:
    """A key that is there twice: YAML's loaders keep the last and say nothing."""
    if node.id == "sequence":
        for item in node.value:
            _refuse_twice(item, where)
    if node.id != "mapping":
        return
    seen: set[str] = set()
    for key, value in node.value:
        if key.value in seen and key.id == "scalar":
            line = key.start_mark.line + 1
            raise _wrong(f"{where}, line {line}", f"{key.value} is given twice", "Remove one of them.")
        seen.add(str(key.value))
        _refuse_twice(value, where)


def _syntax(exc: Exception, where: str) -> tuple[str, str]:
    mark = getattr(exc, "problem_mark", None)
    reason = getattr(exc, "problem", None) or str(exc)
    return (where if mark is None else f"{where}, line {mark.line + 1}"), reason


def _is_other(raw: Any) -> bool:
    """Some other Kubernetes object: it may lie in the same folder."""
    if not isinstance(raw, dict) or not raw.get("kind"):
        return False
    return raw["kind"] not in _KINDS and not str(raw.get("apiVersion") or "").startswith("kubeflow.org/")


def _key(document: _Document) -> Key:
    """Kind and name of a runtime.

    Raises:
        InvalidRequest: it is none, or one of another generation.
    """
    raw, where = document.raw, document.where
    if not isinstance(raw, dict):
        raise _wrong(where, "it is no Kubernetes object", "Give apiVersion, kind, metadata and spec.")
    version, kind = str(raw.get("apiVersion") or ""), str(raw.get("kind") or "")
    if version.startswith("kubeflow.org/"):
        raise _wrong(where, f"{kind} ({version}) is a v1 job", "Write it as a TrainJob on a runtime of Trainer v2.")
    if kind not in _KINDS:
        remedy = "Only ClusterTrainingRuntime and TrainingRuntime belong here."
        if kind == keys.KIND:
            remedy = "A TrainJob is started with trainer-ops run -f FILE."
        raise _wrong(where, f"{kind or 'an object without kind'} is no runtime", remedy)
    if version != keys.API_VERSION:
        raise _wrong(where, f'apiVersion is "{version}"', f"Write apiVersion: {keys.API_VERSION}.")
    name = (raw.get("metadata") or {}).get("name")
    if not name:
        raise _wrong(where, "metadata.name is missing", "Give the runtime a name.")
    return kind, str(name)


def _wrong(where: str, reason: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(where, reason, remedy, what="invalid runtime file")
