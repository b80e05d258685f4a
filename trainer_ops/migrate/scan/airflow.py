"""DAGs: tasks that create v1 jobs, tasks whose pods do, and tasks that wait for them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainer_ops.migrate.options import Options
from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan.about import LAUNCHER_IMAGE, NAMES, call_text, operator, placed
from trainer_ops.migrate.scan.embedded import Inner, converted, in_text, is_job, names_job
from trainer_ops.migrate.scan.shell import applied_files, heredocs, job_name
from trainer_ops.migrate.scan.source import Source, Unknown, argument

__all__ = ["scan"]

_PODS: Final = ("KubernetesPodOperator", "KubernetesJobOperator", "BashOperator", "SSHOperator", "DockerOperator")
_NAME: Final = re.compile(r"(?:PyTorch|TF|MPI|XGBoost|Paddle|JAX|MX)Job")
_FILE: Final = re.compile(r"\.(?:ya?ml|json)$")
# Arguments of a task that TrainJobOperator takes as they are.
_KEPT: Final = ("namespace", "conn_id", "retries", "retry_delay", "execution_timeout", "trigger_rule", "pool")

_IMPORT: Final = "from trainer_ops.airflow import TrainJobOperator\n\n"
_SENSOR: Final = "from trainer_ops.airflow import TrainJobSensor\n\n"


def scan(source: Source, options: Options, taken: set[int]) -> Iterator[Placed]:
    """The tasks of a module that imports Airflow; of another none."""
    if not any(name.split(".")[0] == "airflow" for name in source.names.values()):
        return
    own = list(_own_sensors(source))
    names = {node.name for node in own}
    for call, name in source.calls():
        kind = name.rpartition(".")[2]
        found = None
        if kind.endswith("Sensor") or kind in names:
            found = _waiting(source, call, known=kind in names or _NAME.search(kind) is not None)
        elif kind in _PODS or kind in ("bash_task", "kubernetes_task"):
            found = _pod(source, call, options)
        elif kind.endswith("Operator"):
            found = _creating(source, call, kind, options)
        if found is not None:
            taken.update(id(inner) for node in _all_nodes(source, call) for inner in ast.walk(node))
            yield found
    for node in own:
        yield placed(
            "AIRFLOW-WAIT",
            source.line(node),
            f"{node.name} is a sensor for v1 jobs",
            what=f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}",
            replacement="from trainer_ops.airflow import TrainJobSensor\n",
        )


def _all_nodes(source: Source, call: ast.Call) -> Iterator[ast.expr]:
    yield call
    for word in call.keywords:
        known = source.resolved(word.value)
        if known is not None:
            yield known


def _creating(source: Source, call: ast.Call, kind: str, options: Options) -> Placed | None:
    """An operator that is given a v1 job, or a file to create."""
    for word in call.keywords:
        value = source.value(word.value)
        for job in _jobs(value, options):
            return _create(source, call, job)
        if isinstance(value, str) and names_job(value):
            return _told(source, call, "AIRFLOW-CREATE", "creates a v1 job that is not whole YAML", "")
        if word.arg in ("yaml_conf_file", "application_file") and isinstance(value, str) and _FILE.search(value):
            deletes = "Delete" in kind
            if not deletes and source.value(argument(call, "custom_resource_definition")) is not True:
                continue
            return _from_file(source, call, value, deletes=deletes)
    return None


def _jobs(value: Any, options: Options) -> Iterator[Inner]:
    if is_job(value):
        yield converted(value, options)
    elif isinstance(value, str):
        yield from in_text(value, options)
        for text in heredocs(value):
            yield from in_text(text, options)


def _create(source: Source, call: ast.Call, job: Inner) -> Placed:
    if job.refusal:
        return _told(source, call, "AIRFLOW-CREATE", f"creates a {job.kind}", "", job)
    replacement = operator(_task_id(call), job.trainjob, job.runtime, _more(source, call, job))
    return _told(source, call, "AIRFLOW-CREATE", f"creates a {job.kind} and does not wait for it", replacement, job)


def _from_file(source: Source, call: ast.Call, file: str, *, deletes: bool) -> Placed:
    if deletes:
        return _told(source, call, "AIRFLOW-CREATE", f"deletes what {file} holds", _delete(call, "NAME"))
    given = {"task_id": _task_id(call), "manifest": f'"{file}"', **_kept(source, call), "deferrable": "True"}
    replacement = f"{_IMPORT}train = {call_text('TrainJobOperator', given)}\n"
    return _told(source, call, "AIRFLOW-CREATE", f"creates what {file} holds; migrate that file too", replacement)


def _delete(call: ast.Call, name: str) -> str:
    made = call_text("DeleteTrainJobsOperator", {"task_id": _task_id(call), "name": f'"{name}"'})
    return f"from trainer_ops.airflow import DeleteTrainJobsOperator\n\n{made}\n"


def _pod(source: Source, call: ast.Call, options: Options) -> Placed | None:
    """A task that runs a command or an image of v1."""
    texts = [text for word in call.keywords for text in _texts(source.value(word.value))]
    texts += [text for node in call.args for text in _texts(source.value(node))]
    image = next((text for text in texts if LAUNCHER_IMAGE.search(text)), "")
    command = "\n".join(text for text in texts if NAMES.search(text))
    if not image and not re.search(r"\bkubectl\b", " ".join(texts) if command else ""):
        return None
    for text in texts:
        for job in _jobs(text, options):
            more = _more(source, call, job)
            made = "" if job.refusal else operator(_task_id(call), job.trainjob, job.runtime, more)
            return _told(source, call, "AIRFLOW-POD", _pod_message(image), made, job)
    if re.search(r"\bkubectl\s+(?:-\S+\s+)*wait\b", command) and not applied_files(command):
        given = {"task_id": _task_id(call), "name": f'"{job_name(command)}"', "deferrable": "True"}
        return _told(
            source,
            call,
            "AIRFLOW-WAIT",
            "waits for a v1 job by kubectl",
            f"{_SENSOR}{call_text('TrainJobSensor', given)}\n",
        )
    files = applied_files(command)
    if re.search(r"\bkubectl\b.*\bdelete\b", command) and not re.search(r"\b(?:apply|create)\b", command):
        return _told(source, call, "AIRFLOW-POD", "deletes a v1 job by kubectl", _delete(call, job_name(command)))
    given = {"task_id": _task_id(call), "manifest": f'"{files[0]}"' if files else "trainjob"}
    made = call_text("TrainJobOperator", {**given, **_kept(source, call), "deferrable": "True"})
    return _told(source, call, "AIRFLOW-POD", _pod_message(image), f"{_IMPORT}train = {made}\n")


def _pod_message(image: str) -> str:
    return f"runs the launcher {image}" if image else "runs kubectl with v1 jobs"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Unknown):
        yield value.text
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _waiting(source: Source, call: ast.Call, *, known: bool) -> Placed | None:
    """A sensor that is one for v1, is told of v1, or whose function looks for it."""
    texts = [text for word in call.keywords for text in _texts(source.value(word.value))]
    function = argument(call, "python_callable")
    body = source.function(ast.unparse(function)) if function is not None else None
    if not known and not any(NAMES.search(text) for text in texts) and (body is None or not _of_v1(source, body)):
        return None
    return _told(source, call, "AIRFLOW-WAIT", "waits for a v1 job", _sensor(source, call))


def _sensor(source: Source, call: ast.Call) -> str:
    name = argument(call, "name") or argument(call, "job_name") or argument(call, "application_name")
    held = ast.unparse(name) if name is not None else '"NAME"'
    given = {"task_id": _task_id(call), "name": held}
    given.update((kept, value) for kept, value in _kept(source, call, "timeout", "poke_interval").items())
    return f"{_SENSOR}{call_text('TrainJobSensor', {**given, 'deferrable': 'True'})}\n"


def _of_v1(source: Source, node: ast.AST) -> bool:
    """Whether code uses v1, by a text in it or by a name from its SDK."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and NAMES.search(inner.value):
            return True
        if isinstance(inner, ast.Call) and source.meaning(inner.func).startswith("kubeflow.training"):
            return True
    return False


def _own_sensors(source: Source) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Classes and functions that are sensors for v1 jobs."""
    for node in source.nodes:
        if isinstance(node, ast.ClassDef):
            wanted = any("Sensor" in ast.unparse(base) for base in node.bases)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            wanted = any(".sensor" in ast.unparse(decorator) for decorator in node.decorator_list)
        else:
            continue
        if wanted and _of_v1(source, node):
            yield node


def _told(
    source: Source, call: ast.Call, code: str, message: str, replacement: str, job: Inner | None = None
) -> Placed:
    what = _what(source, call)
    remedy = "Use DeleteTrainJobsOperator in its place" if "DeleteTrainJobsOperator" in replacement else None
    return placed(code, source.line(call), message, what=what, replacement=replacement, job=job, remedy=remedy)


def _what(source: Source, call: ast.Call) -> str:
    return f"{ast.unparse(call.func)}(task_id={_task_id(call)}, …)"


def _task_id(call: ast.Call) -> str:
    node = argument(call, "task_id")
    if node is None:
        return '"train"'
    return f'"{node.value}"' if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)


def _more(source: Source, call: ast.Call, job: Inner) -> dict[str, str]:
    """The arguments that stay, and the manifest's namespace, which a connection may not have."""
    plain = {"namespace": f'"{job.namespace}"'} if job.namespace else {}
    return {**plain, **_kept(source, call)}


def _kept(source: Source, call: ast.Call, *more: str) -> dict[str, str]:
    kept = {word.arg: ast.unparse(word.value) for word in call.keywords if word.arg in (*_KEPT, *more) and word.arg}
    connection = argument(call, "kubernetes_conn_id")
    return {**({"conn_id": ast.unparse(connection)} if connection is not None else {}), **kept}
