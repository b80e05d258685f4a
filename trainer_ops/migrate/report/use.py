"""How a migrated job is run with this project: an Airflow operator, a KFP component, a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Use", "identifier", "use_of"]


@dataclass(frozen=True, slots=True)
class Use:
    """The three ways, as text that can be copied.

    Attributes:
        airflow: Python of a DAG.
        kfp: Python of a pipeline.
        terminal: commands, one after the other.
        files: the file that each object is expected to stand in alone, by ``trainjob`` and ``runtime``.
        note: what keeps it from being run like this again and again, "" when nothing does.
    """

    airflow: str
    kfp: str
    terminal: tuple[str, ...]
    files: Mapping[str, str]
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """The documented form."""
        return {
            "airflow": self.airflow,
            "kfp": self.kfp,
            "terminal": list(self.terminal),
            "files": dict(self.files),
            "note": self.note,
        }


def use_of(
    trainjob: Mapping[str, Any], runtime: Mapping[str, Any] | None, trainjob_file: str = "", runtime_file: str = ""
) -> Use:
    """The calls that run a TrainJob, and before it apply the runtime that was made for it.

    Args:
        trainjob: the TrainJob.
        runtime: the runtime that comes with it, None with a stock one.
        trainjob_file: where it stands alone; "" takes a name made of its own.
        runtime_file: the same of the runtime.
    """
    metadata = trainjob["metadata"]
    name = str(metadata.get("name") or str(metadata.get("generateName", "")).rstrip("-") or "train")
    namespace = str(metadata.get("namespace") or "")
    files = {"trainjob": trainjob_file or f"{name}.yaml"}
    if runtime is not None:
        files["runtime"] = runtime_file or f"{runtime['metadata']['name']}.yaml"
    note = ""
    if metadata.get("name") and _names(runtime, name):
        note = (
            f"The runtime holds addresses of {name}, and every run of a DAG or a pipeline has a name of its own: "
            "migrate the job with generateName instead of name for those"
        )
    return Use(_airflow(name, namespace, files), _kfp(name, namespace, files), _terminal(namespace, files), files, note)


def _names(value: Any, name: str) -> bool:
    """Whether the address of a pod of that TrainJob stands in nested data. In a TrainJob they follow its name."""
    if isinstance(value, str):
        return (
            re.search(rf"(?<![\w.-]){re.escape(name)}-[a-z0-9-]+-0-\d+\.{re.escape(name)}(?![\w-])", value) is not None
        )
    if isinstance(value, Mapping):
        return any(_names(item, name) for item in value.values())
    return any(_names(item, name) for item in value) if isinstance(value, list) else False


def identifier(text: str) -> str:
    """A Python name made of a Kubernetes one."""
    made = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()
    return made if made and not made[0].isdigit() else f"train_{made}".rstrip("_")


def quoted(text: str) -> str:
    """A Python string in double quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _call(name: str, arguments: Mapping[str, str]) -> str:
    inner = "".join(f"    {key}={value},\n" for key, value in arguments.items())
    return f"{name}(\n{inner})\n"


def _airflow(name: str, namespace: str, files: Mapping[str, str]) -> str:
    task = identifier(name)
    where = {"namespace": quoted(namespace)} if namespace else {}
    names = ["TrainJobOperator", *(["TrainingRuntimeOperator"] if "runtime" in files else [])]
    text = f"from trainer_ops.airflow import {', '.join(names)}\n\n"
    if "runtime" in files:
        given = {"task_id": quoted(f"{task}_runtime"), "runtime": quoted(files["runtime"])}
        text += "runtime = " + _call("TrainingRuntimeOperator", {**given, **where})
    train = {"task_id": quoted(task), "manifest": quoted(files["trainjob"]), **where, "deferrable": "True"}
    text += "train = " + _call("TrainJobOperator", train)
    return text + ("runtime >> train\n" if "runtime" in files else "")


def _kfp(name: str, namespace: str, files: Mapping[str, str]) -> str:
    target = f', target="kubernetes://in-cluster/{namespace}"' if namespace else ""
    names = (["apply_runtime"] if "runtime" in files else []) + ["train_job"]
    head = "from pathlib import Path\n\nimport yaml\nfrom kfp import dsl\n"
    text = head + f"from trainer_ops.kfp import {', '.join(names)}\n\n\n"
    text += f"@dsl.pipeline\ndef {identifier(name)}():\n"
    after = ""
    if "runtime" in files:
        text += f"    ready = apply_runtime(runtime={_loaded(files['runtime'])}{target})\n"
        text += "    ready.set_caching_options(False)\n"
        after = ".after(ready)"
    text += f"    train = train_job(manifest={_loaded(files['trainjob'])}{target}){after}\n"
    return text + "    train.set_caching_options(False)\n"


def _loaded(file: str) -> str:
    return f"yaml.safe_load(Path({quoted(file)}).read_text())"


def _terminal(namespace: str, files: Mapping[str, str]) -> tuple[str, ...]:
    at = f" -n {shlex.quote(namespace)}" if namespace else ""
    target = f" --target {shlex.quote(f'kubernetes:///{namespace}')}" if namespace else ""
    lines = [f"kubectl apply{at} -f {shlex.quote(files['runtime'])}"] if "runtime" in files else []
    return (*lines, f"trainer-ops run -f {shlex.quote(files['trainjob'])}{target}")
