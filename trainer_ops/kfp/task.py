"""One KFP task as its container sees it: what KFP's executor input says, and the outputs that it wants back.

KFP's own executor reads and writes the same; importing it costs a pod 95 MB and more than a second (kfp 2.17.3), so a
component's process does without.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.pipelinerun import run_of

__all__ = ["Artifact", "Task"]

# Where KFP mounts object storage in a step (kfp/dsl/types/artifact_types.py).
_MOUNTS = {"gs://": "/gcs/", "minio://": "/minio/", "s3://": "/s3/"}


@dataclass
class Artifact:
    """An output artifact: its URI was given by KFP's driver, its metadata are ours to fill.

    Attributes:
        name: KFP's own name of it.
        uri: where it is; may be pointed elsewhere.
        metadata: what KFP shows beside it.
        type: KFP's type, such as ``{"schemaTitle": "system.Model"}``.
        custom_path: where it lies in this container, when that does not follow from the URI.
        given: the URI that it came with: KFP uploads what lies at the path of that one.
    """

    name: str
    uri: str
    metadata: dict[str, Any] = field(default_factory=dict)
    type: Mapping[str, Any] = field(default_factory=dict)
    custom_path: str = ""
    given: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Artifact:
        """Read one of the executor input."""
        uri = str(data.get("uri") or "")
        return cls(
            str(data.get("name") or ""),
            uri,
            dict(data.get("metadata") or {}),
            dict(data.get("type") or {}),
            str(data.get("customPath") or data.get("custom_path") or ""),
            uri,
        )

    def to_json(self) -> dict[str, Any]:
        """As the executor output has it."""
        made: dict[str, Any] = {"name": self.name, "uri": self.uri, "metadata": self.metadata}
        if self.type:
            made["type"] = dict(self.type)
        if self.custom_path:
            made["customPath"] = self.custom_path
        return made

    @property
    def path(self) -> str:
        """Where its file or folder belongs in this container; KFP uploads it from there."""
        if self.custom_path:
            return self.custom_path
        uri = self.given or self.uri
        for scheme, mount in _MOUNTS.items():
            if uri.startswith(scheme):
                return mount + uri[len(scheme) :]
        return uri

    def write_text(self, text: str) -> None:
        """Make it a file with this text."""
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        Path(self.path).write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        component: the component's function name.
        inputs: input parameters by name, as JSON has them. Those that were left out and have no default are absent.
        artifacts: output artifacts by name.
        output_file: where the executor output belongs.
        channels: values of the pipeline's own parameters that went into inputs.
        given: input artifacts by name; absent where none was given.
    """

    component: str
    inputs: Mapping[str, Any]
    artifacts: Mapping[str, Artifact]
    output_file: Path | None = None
    channels: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Artifact] = field(default_factory=dict)

    @classmethod
    def parse(cls, component: str, executor_input: str) -> Task:
        """Read KFP's executor input.

        Raises:
            InvalidRequest: it is none.
        """
        try:
            given = json.loads(executor_input)
            return cls._read(component, given)
        except (ValueError, TypeError, AttributeError, KeyError, IndexError) as exc:
            raise InvalidRequest("executor_input", f"is no ExecutorInput: {exc}", "Run this as a KFP task") from exc

    @classmethod
    def _read(cls, component: str, given: Mapping[str, Any]) -> Task:
        inputs = given.get("inputs") or {}
        values = inputs.get("parameterValues") or {}
        outputs = given.get("outputs") or {}
        ours = {name: value for name, value in values.items() if not name.startswith("pipelinechannel--")}
        channels = {name: value for name, value in values.items() if name not in ours}
        file = outputs.get("outputFile")
        # One artifact is all that any output or input here has; of an input none is none.
        made = {name: entry["artifacts"][0] for name, entry in (outputs.get("artifacts") or {}).items()}
        used = {name: one for name, entry in (inputs.get("artifacts") or {}).items() for one in entry["artifacts"][:1]}
        return cls(
            component,
            inputs=ours,
            artifacts={name: Artifact.from_json(one) for name, one in made.items()},
            output_file=Path(file) if file else None,
            channels=channels,
            given={name: Artifact.from_json(one) for name, one in used.items()},
        )

    @property
    def run(self) -> str:
        """The run of the pipeline that this task belongs to; "" where the outputs do not tell."""
        return next(filter(None, (run_of(artifact.given) for artifact in self.artifacts.values())), "")

    def identity(self, artifact: str) -> str:
        """The URI that the driver provisions for an output once per task of a run: who this task is.

        It is the same over retries, over a retry from the UI and for a pod that Argo makes again under the same name
        (seen on KFP 2.17.0).

        Raises:
            InvalidRequest: there is none, so that two tasks would share one training.
        """
        found = self.artifacts.get(artifact)
        if found is None or not found.given:
            raise InvalidRequest(
                artifact, "the output artifact has no URI", "Run this as a KFP task; elsewhere use trainer_ops.run"
            )
        return found.given

    def write(self, parameters: Mapping[str, Any]) -> None:
        """Write all outputs, at once: what a process killed half-way has left is replaced.

        Output parameters go into the executor output, as from KFP's own executor: its launcher reads it before
        parameter files (pipelines backend/src/v2/component/launcher_v2.go).

        Args:
            parameters: the output parameters by name: text, numbers, or JSON data.
        """
        if self.output_file is not None:
            made = {name: {"artifacts": [artifact.to_json()]} for name, artifact in self.artifacts.items()}
            _replace(self.output_file, json.dumps({"parameterValues": dict(parameters), "artifacts": made}))


def _replace(file: Path, text: str) -> None:
    """Write aside, then rename: a reader sees the old file or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(aside, 0o644)
        os.replace(aside, file)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
