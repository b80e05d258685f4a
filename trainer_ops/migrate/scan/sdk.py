"""The v1 SDK (``kubeflow.training``, and before it ``kubeflow.pytorchjob`` and the like), call by call."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trainer_ops.migrate.kinds import GROUP
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan.about import KIND_OF_PLURAL, RUNTIMES, call_text, placed
from trainer_ops.migrate.scan.embedded import converted
from trainer_ops.migrate.scan.source import Source, argument

__all__ = ["is_client", "scan"]

_PACKAGES: Final = ("kubeflow.training", *(f"kubeflow.{plural[:-1]}" for plural in KIND_OF_PLURAL))
_JOB: Final = re.compile(r"(?:KubeflowOrg)?V(?:1|2beta1)(PyTorchJob|TFJob|MPIJob|XGBoostJob|PaddleJob|JAXJob|MXJob)")
_KINDS: Final = {kind.lower(): kind for kind in KIND_OF_PLURAL.values()}
# Arguments of create_job that say the same by another name here.
_FIELDS: Final[Mapping[str, str]] = {
    "name": "name",
    "num_workers": "num_nodes",
    "num_procs_per_worker": "num_proc_per_node",
    "base_image": "image",
    "resources_per_worker": "resources_per_node",
    "packages_to_install": "packages",
    "pip_index_url": "pip_index_url",
    "env_vars": "env",
    "labels": "labels",
    "annotations": "annotations",
}

Made = tuple[str, str]  # what is to be said, and what to write instead


def scan(source: Source, options: Options, taken: set[int]) -> Iterator[Placed]:
    """Calls of the SDK's clients, and jobs made of its classes."""
    for call, name in source.calls():
        if not is_sdk(name):
            continue
        job = _JOB.fullmatch(name.rpartition(".")[2])
        if job is not None:
            yield _model(source, call, job[1], options, taken)
            continue
        method = name.rpartition(".")[2]
        if is_client(name.rpartition(".")[0]) and method[:1].islower():
            yield _call(source, call, method)


def is_sdk(name: str) -> bool:
    """Whether a full name is of the v1 SDK."""
    return name.startswith(tuple(f"{package}." for package in _PACKAGES))


def is_client(name: str) -> bool:
    """Whether a full name is one of its clients' classes."""
    return is_sdk(name) and name.endswith("Client")


def _model(source: Source, call: ast.Call, kind: str, options: Options, taken: set[int]) -> Placed:
    value = source.value(call)
    where = source.line(call)
    message = f"a {kind} made of the SDK's classes"
    if not isinstance(value, dict) or "spec" not in value:
        return placed("SDK-MODEL", where, message, what=source.segment(call))
    taken.update(id(inner) for inner in ast.walk(call))
    version = "v2beta1" if "V2beta1" in source.meaning(call.func) else "v1"
    job = converted({**value, "apiVersion": f"{GROUP}/{version}", "kind": kind}, options)
    remedy = "Give this TrainJob as manifest=" if job.text else None
    what = source.segment(call)
    return placed("SDK-MODEL", where, message, what=what, replacement=job.text, job=job, remedy=remedy)


def _call(source: Source, call: ast.Call, method: str) -> Placed:
    make = _make(method)
    message, replacement = make(source, call)
    code = "SDK-TRAIN" if method == "train" else "SDK-CALL"
    remedy = None if replacement or code == "SDK-TRAIN" else ""
    return placed(code, source.line(call), message, what=source.segment(call), replacement=replacement, remedy=remedy)


def _make(method: str) -> Callable[[Source, ast.Call], Made]:
    """What to say of a method; older SDKs had a method for each kind: ``create_pytorchjob``."""
    plain = re.sub(rf"_(?:{'|'.join(_KINDS)})(s?)(?=_|$)", r"_job\1", method)
    if plain.startswith("is_job_") or plain in ("get_job_status", "get_job_conditions"):
        return _state
    return _METHODS.get(plain, _other)


def _name(source: Source, call: ast.Call) -> str:
    node = argument(call, "name", 0)
    return ast.unparse(node) if node is not None else "NAME"


def _create(source: Source, call: ast.Call) -> Made:
    function = argument(call, "train_func")
    if function is None:
        job = argument(call, "job") or argument(call, _job_argument(call)) or (call.args[0] if call.args else None)
        held = ast.unparse(job) if job is not None else "job"
        note = f"# {held}: the TrainJob that it is migrated to, as a mapping\n"
        return "creates a v1 job", f"{note}submitted = trainer_ops.submit(manifest=trainjob)\n"
    told = "ships a function to the workers of a v1 job"
    missing = [name for name in ("num_chief_replicas", "num_ps_replicas") if argument(call, name) is not None]
    if missing:
        told += f"; {' and '.join(missing)} have no counterpart"
    return told, _function(source, call, function)


def _job_argument(call: ast.Call) -> str:
    return next((word.arg for word in call.keywords if word.arg and word.arg in _KINDS), "job")


def _function(source: Source, call: ast.Call, function: ast.expr) -> str:
    kind = source.value(argument(call, "job_kind"))
    given = {"runtime": repr_of(RUNTIMES.get(str(kind or "PyTorchJob"), "NAME"))}
    given.update(
        (ours, ast.unparse(node)) for theirs, ours in _FIELDS.items() if (node := argument(call, theirs)) is not None
    )
    if "resources_per_node" in given:
        given["resources_per_node"] = _resources(source, argument(call, "resources_per_worker"))
    parameters = argument(call, "parameters")
    keyword = _first_parameter(source, function)
    inputs = {} if parameters is None else {keyword: ast.unparse(parameters)}
    # v1 gave the function its parameters as one mapping; here they are keywords.
    data = "{" + ", ".join(f"{repr_of(name)}: {value}" for name, value in inputs.items()) + "}"
    shipped = ast.unparse(function)
    task = _step(source)
    if task == "airflow":
        fields = {"task_id": given.pop("name", '"train"'), "python_callable": shipped}
        fields.update({"op_kwargs": data} if inputs else {})
        return f"train = {call_text('TrainJobOperator', {**fields, **given, 'deferrable': 'True'})}\n"
    if task == "kfp":
        rest = {**({"kwargs": data} if inputs else {}), **given}
        inner = "".join(f"    {name}={value},\n" for name, value in rest.items())
        return f"train = train_from_function(\n    {shipped},\n{inner})\n"
    fields = {"python_callable": shipped, **({"python_kwargs": data} if inputs else {}), **given}
    return f"outcome = {call_text('trainer_ops.run', fields)}\n"


def _resources(source: Source, node: ast.expr | None) -> str:
    """v1's SDK knew ``gpu`` as a short name."""
    held = source.value(node)
    if node is None or not isinstance(held, dict) or "gpu" not in held:
        return ast.unparse(node) if node is not None else ""
    names = {"gpu": "nvidia.com/gpu"}
    return (
        "{"
        + ", ".join(f"{repr_of(names.get(name, str(name)))}: {_literal(value)}" for name, value in held.items())
        + "}"
    )


def _literal(value: Any) -> str:
    return repr_of(value) if isinstance(value, str) else str(value)


def _step(source: Source) -> str:
    """In what the code runs: ``airflow``, ``kfp`` or nothing of the kind."""
    roots = {name.split(".")[0] for name in source.names.values()}
    return "airflow" if "airflow" in roots else "kfp" if "kfp" in roots else ""


def _first_parameter(source: Source, function: ast.expr) -> str:
    found = source.function(ast.unparse(function))
    return found.args.args[0].arg if found is not None and found.args.args else "parameters"


def _wait(source: Source, call: ast.Call) -> Made:
    limits = argument(call, "wait_timeout") or argument(call, "timeout") or argument(call, "timeout_seconds")
    given = f", limits=trainer_ops.Limits(wait_timeout={ast.unparse(limits)})" if limits is not None else ""
    return (
        "waits for conditions of a v1 job",
        f"outcome = trainer_ops.wait({_name(source, call)}{given})  # outcome.succeeded, .diagnosis, .metrics\n",
    )


def _state(source: Source, call: ast.Call) -> Made:
    return "reads conditions of a v1 job", f"trainer_ops.wait({_name(source, call)}).succeeded\n"


def _logs(source: Source, call: ast.Call) -> Made:
    follow = source.value(argument(call, "follow"))
    more = ", follow=True" if follow is True else ""
    node = source.value(argument(call, "replica_index"))
    index = node if isinstance(node, int) and not isinstance(node, bool) else 0
    return (
        "reads logs of v1's pods",
        f"for where, line in trainer_ops.logs({_name(source, call)}, node={index}{more}):\n    print(line)\n",
    )


def _pods(source: Source, call: ast.Call) -> Made:
    return (
        "looks for v1's pods by their role",
        f"# kubectl get pods -l jobset.sigs.k8s.io/jobset-name=NAME\n# trainer-ops status {_shell(source, call)}\n",
    )


def _get(source: Source, call: ast.Call) -> Made:
    return "reads a v1 job", f"# trainer-ops status {_shell(source, call)} -o json\n"


def _list(source: Source, call: ast.Call) -> Made:
    return "lists v1 jobs", "# trainer-ops list -o json\n"


def _update(source: Source, call: ast.Call) -> Made:
    return "changes a v1 job; what a TrainJob trains cannot be changed, so a change is another run", ""


def _delete(source: Source, call: ast.Call) -> Made:
    return "deletes a v1 job", f"trainer_ops.cancel({_name(source, call)})\n"


def _train(source: Source, call: ast.Call) -> Made:
    workers = argument(call, "num_workers")
    fields: dict[str, str] = {"name": _name(source, call)} if argument(call, "name") is not None else {}
    if workers is not None:
        fields["num_nodes"] = ast.unparse(workers)
    model = _uri(source.value(argument(call, "model_provider_parameters")), ("modelUri",))
    dataset = _uri(source.value(argument(call, "dataset_provider_parameters")), ("repoId", "repo_id"), "datasets/")
    made = {"script": '"fine_tune.py"', "runtime": '"torch-distributed"', **fields, "model": model, "dataset": dataset}
    return (
        "fine-tunes with a trainer that only v1 has",
        f"outcome = {call_text('trainer_ops.run', {name: value for name, value in made.items() if value})}\n",
    )


def _uri(held: Any, names: tuple[str, ...], prefix: str = "") -> str:
    value = next((held[name] for name in names if isinstance(held, dict) and isinstance(held.get(name), str)), "")
    path = str(value).removeprefix("hf://")
    return repr_of(f"hf://{prefix}{path}") if path else ""


def _other(source: Source, call: ast.Call) -> Made:
    return "is a call of the v1 SDK", ""


def _shell(source: Source, call: ast.Call) -> str:
    held = source.value(argument(call, "name", 0))
    return held if isinstance(held, str) and held else "NAME"


def repr_of(text: str) -> str:
    """A Python string in double quotes where that is plain."""
    return f'"{text}"' if '"' not in text and "\\" not in text else repr(text)


_METHODS: Final[Mapping[str, Callable[[Source, ast.Call], Made]]] = {
    "create": _create,
    "create_job": _create,
    "create_job_from_func": _create,
    "train": _train,
    "get": _get,
    "get_job": _get,
    "list_jobs": _list,
    "update_job": _update,
    "patch": _update,
    "patch_job": _update,
    "delete": _delete,
    "delete_job": _delete,
    "wait_for_job": _wait,
    "wait_for_condition": _wait,
    "wait_for_job_conditions": _wait,
    "get_job_logs": _logs,
    "get_logs": _logs,
    "get_job_pods": _pods,
    "get_job_pod_names": _pods,
    "get_pod_names": _pods,
}
