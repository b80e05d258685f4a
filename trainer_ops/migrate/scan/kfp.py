"""Pipelines: the removed launcher components, and steps that create v1 jobs themselves."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainer_ops.migrate.kinds import GROUP
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan.about import LAUNCHER_IMAGE, LAUNCHER_URL, fill_in, placed
from trainer_ops.migrate.scan.embedded import Inner, converted, is_job
from trainer_ops.migrate.scan.source import Source, Unknown, argument, dotted

__all__ = ["launched", "launcher_kind", "scan", "steps"]

_LOADERS: Final = ("load_component_from_url", "load_component_from_file", "load_component_from_text", "load_component")
# Inputs of the launchers by their name without case, spaces and underscores: the field of v1's spec.
_FLAT: Final = {
    "cleanpodpolicy": "cleanPodPolicy",
    "activedeadlineseconds": "activeDeadlineSeconds",
    "backofflimit": "backoffLimit",
    "ttlsecondsafterfinished": "ttlSecondsAfterFinished",
}
_ROLES: Final = {
    "PyTorchJob": ("pytorchReplicaSpecs", {"masterspec": "Master", "workerspec": "Worker"}),
    "TFJob": (
        "tfReplicaSpecs",
        {"chiefspec": "Chief", "psspec": "PS", "workerspec": "Worker", "evaluatorspec": "Evaluator"},
    ),
}
_DELETES: Final = ("deleteafterdone", "deletefinishedtfjob")
_TIMEOUTS: Final = ("jobtimeoutminutes", "tfjobtimeoutminutes")


def scan(source: Source, options: Options, taken: set[int]) -> Iterator[Placed]:
    """Steps of launchers, and resource steps."""
    for call, name in source.calls():
        last = name.rpartition(".")[2]
        if dotted(call.func) in source.assigned and last in _LOADERS:
            kind = _loaded_kind(source, source.assigned[dotted(call.func)])
            if kind:
                taken.update(id(inner) for node in _nodes(source, call) for inner in ast.walk(node))
                inputs = {word.arg: source.value(word.value) for word in call.keywords if word.arg}
                yield _step(source, call, kind, inputs, options)
        elif last in _LOADERS and (kind := _loaded_kind(source, call)):
            yield placed(
                "KFP-LAUNCHER",
                source.line(call),
                f"loads the {kind} launcher, which was removed",
                what=source.segment(call),
                replacement="from trainer_ops.kfp import train_job\n",
            )
        elif last == "ResourceOp":
            yield from _resource(source, call, options, taken)
        elif last == "ContainerOp":
            yield from _container(source, call, options)


def _nodes(source: Source, call: ast.Call) -> Iterator[ast.expr]:
    for word in call.keywords:
        known = source.resolved(word.value)
        if known is not None:
            yield known


def launcher_kind(text: str) -> str:
    """The kind that a launcher's image or URL stands for, "" when it is of none."""
    url = LAUNCHER_URL.search(text)
    if url is not None:
        return "PyTorchJob" if url[1] else "TFJob"
    if LAUNCHER_IMAGE.search(text):
        return "PyTorchJob" if "pytorch" in text.lower() else "TFJob"
    return ""


def _loaded_kind(source: Source, node: ast.expr) -> str:
    """The kind of launcher that a call loads."""
    if not isinstance(node, ast.Call):
        return ""
    for given in (*node.args, *(word.value for word in node.keywords)):
        value = source.value(given)
        kind = launcher_kind(value if isinstance(value, str) else str(value))
        if kind:
            return kind
        # Katib's launcher, and others, are of no training job.
        named = re.search(r"(?<![\w-])(?:(pytorch|tf|tfjob|pytorchjob)[-_])?launcher", str(value), re.I)
        if named is not None:
            return "PyTorchJob" if "pytorch" in str(value).lower() else "TFJob"
    return ""


def _step(source: Source, call: ast.Call, kind: str, inputs: Mapping[str, Any], options: Options) -> Placed:
    job = launched(kind, inputs, options)
    message, what = f"a step that launches a {kind}", source.segment(call)
    return placed("KFP-LAUNCHER", source.line(call), message, what=what, replacement=steps(job, inputs), job=job)


def launched(kind: str, inputs: Mapping[str, Any], options: Options) -> Inner:
    """The job that a launcher makes of its inputs, converted.

    Args:
        kind: ``PyTorchJob`` or ``TFJob``.
        inputs: by name, in any of the spellings that KFP has for one.
        options: of the conversion.
    """
    given = {_plain(name): _parsed(value) for name, value in inputs.items()}
    field, roles = _ROLES[kind]
    spec: dict[str, Any] = {theirs: given[ours] for ours, theirs in _FLAT.items() if given.get(ours) not in (None, -1)}
    timeout = next((given[name] for name in _TIMEOUTS if isinstance(given.get(name), int)), None)
    if timeout is not None and "activeDeadlineSeconds" not in spec:
        # The launcher gave the job up after that time; nothing but the job itself does now.
        spec["activeDeadlineSeconds"] = timeout * 60
    spec[field] = {role: given[name] for name, role in roles.items() if given.get(name)}
    metadata = {"name": given.get("name") or "train"}
    # One that is known only when the pipeline runs is the target's to say.
    if given.get("namespace") and not isinstance(given["namespace"], Unknown):
        metadata["namespace"] = given["namespace"]
    version = given.get("version") if isinstance(given.get("version"), str) else "v1"
    return converted(
        {"apiVersion": f"{GROUP}/{version or 'v1'}", "kind": kind, "metadata": metadata, "spec": spec}, options
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _parsed(value: Any) -> Any:
    """Inputs travel as text: JSON of a mapping, a number in quotes."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    try:
        return json.loads(text) if text[:1] == "{" or re.fullmatch(r"-?\d+", text) else value
    except ValueError:
        return value


def steps(job: Inner, inputs: Mapping[str, Any]) -> str:
    """The steps of this project that do the same, with the TrainJob as YAML; "" when it is refused."""
    text = job.text
    if not text:
        return ""
    raw = "r" if "\\" in text else ""
    load = f'yaml.safe_load_all({raw}"""\n{text}""")'
    names = "apply_runtime, train_job" if job.runtime else "train_job"
    target = _target(job, inputs)
    given = {_plain(name): value for name, value in inputs.items()}
    kept = any(str(given.get(name, "True")).lower() == "false" for name in _DELETES)
    names += "" if kept else ", cleanup_train_jobs"
    lines = [f"import yaml\nfrom trainer_ops.kfp import {', '.join(sorted(names.split(', ')))}\n"]
    lines += [fill_in(text).rstrip("\n")] if fill_in(text) else []
    lines += [f"runtime, trainjob = {load}" if job.runtime else f"(trainjob,) = {load}"]
    after = ""
    if job.runtime:
        lines.append(f"ready = apply_runtime(runtime=runtime{target})")
        after = ".after(ready)"
    lines.append(f"train = train_job(manifest=trainjob{target}){after}")
    lines.append("train.set_caching_options(False)")
    if not kept:
        lines.append(
            f'cleanup_train_jobs(only="finished"{target}).after(train)  # as the launcher did: delete_after_done'
        )
    return "\n".join(lines) + "\n"


def _target(job: Inner, inputs: Mapping[str, Any]) -> str:
    """Where another namespace than the pipeline's own is named: a cluster is told it by its target."""
    held = inputs.get("namespace")
    if isinstance(held, Unknown):
        return f', target=f"kubernetes://in-cluster/{{{held.text}}}"'
    return f', target="kubernetes://in-cluster/{job.namespace}"' if job.namespace else ""


def _resource(source: Source, call: ast.Call, options: Options, taken: set[int]) -> Iterator[Placed]:
    body = source.value(argument(call, "k8s_resource"))
    if not is_job(body):
        return
    taken.update(id(inner) for node in _nodes(source, call) for inner in ast.walk(node))
    job = converted(body, options)
    message, what = f"a step that creates a {job.kind}", source.segment(call)
    given = steps(job, {"delete_after_done": "False"})
    yield placed("KFP-RESOURCE", source.line(call), message, what=what, replacement=given, job=job)


def _container(source: Source, call: ast.Call, options: Options) -> Iterator[Placed]:
    image = source.value(argument(call, "image", 1))
    kind = launcher_kind(image) if isinstance(image, str) else ""
    if not kind:
        return
    held = source.value(argument(call, "arguments"))
    yield _step(source, call, kind, flags(held if isinstance(held, list) else []), options)


def flags(words: list[Any]) -> dict[str, Any]:
    """``["--name", "a"]`` as ``{"name": "a"}``."""
    found: dict[str, Any] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if not isinstance(word, str) or not word.startswith("--"):
            continue
        name, separator, value = word[2:].partition("=")
        found[name] = value if separator else following
    return found
