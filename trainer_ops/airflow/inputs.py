"""From an operator's rendered fields to a TrainRequest.

Jinja renders text, so whole numbers may arrive as text here, and only here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from trainer_ops.model.request import TrainRequest

__all__ = ["FIELDS", "RENAMED", "find_script", "folders_of", "make_request"]

# The operator's parameters that are fields of a TrainRequest, in the order of its documentation.
FIELDS = (
    "manifest", "name", "runtime", "runtime_kind", "image", "command", "args", "script", "runner", "packages",
    "pip_index_url", "num_nodes", "num_proc_per_node", "resources_per_node", "env", "labels", "annotations",
    "queue_name", "priority_class", "dataset", "model", "checkpoint_dir", "runtime_patches",
    "termination_grace_period_seconds", "suspend", "active_deadline_seconds", "managed_by", "queue_timeout",
    "startup_timeout", "wait_timeout", "unreachable_timeout", "missing_grace", "max_restarts",
)  # fmt: skip

# BaseOperator has a ``queue`` of its own: the one that a worker takes the task from.
RENAMED = {"queue_name": "queue"}
_TITLE = 63

_COUNTS = frozenset(
    {"num_nodes", "num_proc_per_node", "termination_grace_period_seconds", "active_deadline_seconds", "max_restarts"}
)


def make_request(
    values: Mapping[str, Any],
    *,
    title: str = "",
    function: Callable[..., Any] | None = None,
    function_kwargs: Mapping[str, Any] | None = None,
    folders: Iterable[Path] = (),
    note: Mapping[str, str] | None = None,
) -> TrainRequest:
    """The request that rendered values describe; None stands for "left out".

    Args:
        values: operator parameter (one of ``FIELDS``) to rendered value.
        title: what a person recognises in the TrainJob's name, where ``name`` is not given.
        function: a function to ship instead of a script.
        function_kwargs: its arguments, plain data.
        folders: where a relative ``script`` is looked for, in this order.
        note: annotations of ours, also on a TrainJob given as a manifest.

    Raises:
        InvalidRequest: names the operator's parameter.
    """
    from trainer_ops.lifecycle.code import function_code
    from trainer_ops.lifecycle.fetch import fetch_script
    from trainer_ops.model.request import TrainRequest

    given = {RENAMED.get(name, name): _plain(name, value) for name, value in values.items() if value is not None}
    if "script" in given:
        given["script"] = find_script(str(given["script"]), folders)
    if function is not None:
        _alone(given, "python_callable", ("script", "command", "manifest"))
        given["code"] = function_code(function, dict(function_kwargs or {}))
    if "manifest" in given:
        given["manifest"] = _with_metadata(given["manifest"], note or {}, title)
    else:
        given["annotations"] = {**(given.get("annotations") or {}), **(note or {})}
        # A DAG and a task together may have 500 characters; only so much of them is ever read in a name.
        given.setdefault("name", title[:_TITLE] or None)
    try:
        return fetch_script(TrainRequest(**given))
    except InvalidRequest as exc:
        raise _in_operator_terms(exc) from exc


def _plain(name: str, value: Any) -> Any:
    if name == "manifest":
        return _manifest(value)
    if name in _COUNTS and isinstance(value, str):
        return _whole(name, value)
    return value.total_seconds() if isinstance(value, timedelta) else value


def _whole(name: str, text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise InvalidRequest(
            name, f"{text!r} is not a whole number", "Correct it, or the template that it came from"
        ) from None


def _manifest(value: Any) -> dict[str, Any]:
    """A mapping, or YAML text of one (JSON is YAML)."""
    if isinstance(value, Mapping):
        return dict(value)
    import yaml

    try:
        parsed = yaml.safe_load(str(value))
    except yaml.YAMLError as exc:
        raise InvalidRequest("manifest", f"is not YAML: {' '.join(str(exc).split())}", "Correct its text") from exc
    if not isinstance(parsed, dict):
        raise InvalidRequest(
            "manifest",
            f"{str(value)[:80]!r} is a {type(parsed).__name__}, not a TrainJob",
            "Give a mapping, YAML text, or a path that ends in .yaml, .yml or .json and is no template itself",
        )
    return parsed


def folders_of(task: Any) -> list[Path]:
    """Where a task's relative paths are looked for: beside its DAG file, then where the process is."""
    fileloc = getattr(task.dag, "fileloc", None) if task.has_dag() else None
    return [Path(fileloc).parent, Path.cwd()] if fileloc else [Path.cwd()]


def find_script(script: str, folders: Iterable[Path]) -> str:
    """A path that exists; a URI and an absolute path stay as they are.

    Raises:
        InvalidRequest: field ``script``: it is in none of the folders.
    """
    path = Path(script).expanduser()
    if "://" in script:
        return script
    if path.is_absolute():
        return str(path)
    places = list(dict.fromkeys(folder.absolute() for folder in folders))
    for folder in places:
        if (folder / path).is_file():
            return str(folder / path)
    looked = " nor in ".join(map(str, places))
    raise InvalidRequest(
        "script", f'"{script}" is neither in {looked}', "Put it beside the DAG file, or give an absolute path"
    )


def _with_metadata(manifest: Mapping[str, Any], note: Mapping[str, str], title: str) -> dict[str, Any]:
    """A TrainJob with our annotations, and its name only as the readable part of the name.

    A DAG's file says one name for all its runs, and for a task that was cleared too; each is a training of its own.
    """
    metadata = dict(_mapping("manifest.metadata", manifest.get("metadata")))
    annotations = _mapping("manifest.metadata.annotations", metadata.get("annotations"))
    metadata["annotations"] = {**annotations, **note}
    metadata["generateName"] = metadata.pop("name", None) or metadata.get("generateName") or title
    return {**manifest, "metadata": metadata}


def _mapping(path: str, value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidRequest(path, f"{value!r} is no mapping"[:200], "Write it as name: value lines, or leave it out")
    return value or {}


def _alone(given: Mapping[str, Any], name: str, others: Iterable[str]) -> None:
    for other in others:
        if given.get(other):
            raise InvalidRequest(name, f"{name} and {other} exclude each other", "Give one of them")


def _in_operator_terms(exc: InvalidRequest) -> InvalidRequest:
    names = {theirs: ours for ours, theirs in RENAMED.items()} | {"code": "python_callable"}
    head, dot, rest = exc.field.partition(".")
    if head not in names:
        return exc
    return InvalidRequest(f"{names[head]}{dot}{rest}", exc.reason, exc.remedy)
