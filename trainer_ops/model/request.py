"""TrainRequest: the one parameter set of all front ends.

The operator, the component, the CLI's flags and the Python API all end here, so a field has one name, one meaning
and one error text everywhere. What only the API server or the runtime can refuse is in ``validate``.
"""

from __future__ import annotations

import difflib
import json
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    InstanceOf,
    PlainSerializer,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.limits import Limits
from trainer_ops.model.snapshot import Snapshot

__all__ = ["Data", "FunctionCode", "Initializer", "ScriptCode", "TrainRequest"]


def _plain_number(value: Any) -> Any:
    """Whole floats are ints: KFP's structs carry every number as a float."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, BeforeValidator(_plain_number), Field(ge=1, strict=True)]
Seconds = Annotated[float, Field(gt=0)]


class _Strict(BaseModel):
    """Frozen, and refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Initializer(_Strict):
    """Trainer's own in-job initializer: what a dataset or a model step fetches before the nodes start.

    Attributes:
        storage_uri: where from; Trainer knows ``hf://`` and ``s3://``, the engine ``hf://`` and ``file://``.
        env: its environment (``IGNORE_PATTERNS``, ``ENDPOINT``, …).
        secret_ref: name of a Secret whose keys become environment variables.
    """

    storage_uri: str = Field(min_length=1, max_length=2048)
    env: dict[str, Any] = Field(default_factory=dict)
    secret_ref: str | None = None


def _data_of(value: Any, field: str) -> Any:
    """A URI, an Initializer's fields, a snapshot, its JSON or the text of that: the one of both that is meant."""
    given = value
    if isinstance(value, str):
        if not value.lstrip().startswith("{"):
            return {"storage_uri": value}
        try:
            value = json.loads(value)
        except ValueError as exc:
            raise _no_snapshot(field, given, f"is no JSON: {exc}") from exc
    if not isinstance(value, Mapping) or "location" not in value:
        return value
    try:
        return Snapshot.from_json(value)
    except KeyError as exc:
        raise _no_snapshot(field, given, f"has no {exc.args[0]}") from exc
    except (TypeError, ValueError) as exc:
        raise _no_snapshot(field, given, f"holds what is no number: {exc}") from exc


def _no_snapshot(field: str, given: Any, why: str) -> InvalidRequest:
    reason = f"{reprlib.repr(given)} is not the JSON of a snapshot: it {why}"
    return InvalidRequest(field, reason, "Give what the initializer step returned, whole")


Data = Annotated[
    Annotated[Initializer, Tag("initializer")]
    | Annotated[InstanceOf[Snapshot], Tag("snapshot"), PlainSerializer(Snapshot.to_json)],
    Discriminator(lambda value: "snapshot" if isinstance(value, Snapshot) else "initializer"),
]


class ScriptCode(_Strict):
    """A script's text, to be shipped with the TrainJob."""

    kind: Literal["script"] = "script"
    filename: str
    source: str


class FunctionCode(_Strict):
    """A function's source, to be shipped and called with plain data.

    Attributes:
        name: the function's name in ``source``.
        source: the dedented source of the function, without decorators, with the imports it needs inside.
        kwargs: JSON data passed as keyword arguments.
    """

    kind: Literal["function"] = "function"
    name: str
    source: str
    kwargs: dict[str, Any] = Field(default_factory=dict)


class TrainRequest(_Strict):
    """What to train. Either ``manifest`` (a whole TrainJob), or the fields from ``runtime`` on.

    Raises:
        InvalidRequest: names the field, the reason and the remedy.

    Attributes:
        manifest: a whole TrainJob; every field of it is kept. Nothing else that describes the job may be given.
        name: what a person recognises in the TrainJob's name.
        runtime: name of the (Cluster)TrainingRuntime.
        runtime_kind: ``ClusterTrainingRuntime`` or ``TrainingRuntime``.
        image: container image of the nodes; the engine ignores it and says so.
        command: argv of a node; the runtime's when left out.
        args: more argv after ``command``; or arguments of ``script``.
        script: path of a script to ship (read when submitting); a URI where a front end can fetch it.
        code: the code to ship, already read; ``script`` and ``python_callable`` become this.
        runner: what starts shipped code on a node: ``auto`` goes by the runtime's policy.
        packages: requirements that are installed before shipped code starts.
        pip_index_url: where from.
        num_nodes: nodes; the runtime's when left out.
        num_proc_per_node: processes a node; ``auto`` of Trainer when left out.
        resources_per_node: ``{"cpu": 2, "memory": "4Gi"}`` (both requests and limits), or Kubernetes' own form.
        env: name to text or number, or to a Kubernetes ``valueFrom``.
        labels: on the TrainJob.
        annotations: on the TrainJob.
        queue: Kueue's LocalQueue.
        priority_class: Kueue's WorkloadPriorityClass.
        dataset: a Snapshot that an initializer step has made (or its JSON, or the text of that), which the nodes
            read where it lies; or a URI or an Initializer, which Trainer fetches for this TrainJob alone. A snapshot
            in object storage is fetched by Trainer too, without credentials; where it takes some, give
            ``Initializer(storage_uri=snapshot.location, secret_ref=…)``.
        model: the same for a model to start from.
        checkpoint_dir: folder or URI that outlives an attempt; a subfolder per run key is what the code sees.
        runtime_patches: Trainer's ``spec.runtimePatches`` as they are.
        termination_grace_period_seconds: time to save after SIGTERM.
        suspend: create it suspended.
        active_deadline_seconds: Trainer's own deadline, counted from creation or resumption.
        managed_by: Trainer's ``spec.managedBy``.
    """

    manifest: dict[str, Any] | None = None

    name: str | None = Field(default=None, min_length=1, max_length=63)
    runtime: str | None = Field(default=None, min_length=1, max_length=253)
    runtime_kind: Literal["ClusterTrainingRuntime", "TrainingRuntime"] = "ClusterTrainingRuntime"
    image: str | None = Field(default=None, max_length=500)
    command: list[str] | None = Field(default=None, max_length=128)
    args: list[str] | None = Field(default=None, max_length=128)
    script: str | None = None
    code: ScriptCode | FunctionCode | None = Field(default=None, discriminator="kind")
    runner: Literal["auto", "python", "torchrun", "mpirun"] = "auto"
    packages: list[str] = Field(default_factory=list)
    pip_index_url: str | None = None
    num_nodes: Count | None = None
    num_proc_per_node: Count | None = None
    resources_per_node: dict[str, Any] | None = None
    env: dict[str, Any] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    queue: str | None = None
    priority_class: str | None = None
    dataset: Data | None = None
    model: Data | None = None
    checkpoint_dir: str | None = None
    runtime_patches: list[dict[str, Any]] = Field(default_factory=list, max_length=16)
    termination_grace_period_seconds: Count | None = None
    suspend: bool = False
    active_deadline_seconds: Count | None = None
    managed_by: str | None = None

    queue_timeout: Seconds | None = None
    startup_timeout: Seconds | None = None
    wait_timeout: Seconds | None = None
    unreachable_timeout: Seconds = 1800.0
    missing_grace: Annotated[float, Field(ge=0)] = 30.0
    max_restarts: Annotated[int, BeforeValidator(_plain_number), Field(ge=0, strict=True)] | None = None

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as exc:
            raise _invalid(exc, type(self)) from exc

    @field_validator("manifest", mode="after")
    @classmethod
    def _manifest_shape(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        """The parts that are read before ``validate`` judges the whole are what they should be."""
        for path in ("metadata", "metadata.labels", "metadata.annotations", "spec", "spec.runtimeRef", "spec.trainer"):
            part: Any = value
            for name in path.split("."):
                part = (part or {}).get(name)
            if part is not None and not isinstance(part, dict):
                raise InvalidRequest(
                    path, f"{reprlib.repr(part)} is not a mapping", "Write its fields", what="invalid TrainJob"
                )
        return value

    @field_validator("dataset", "model", mode="before")
    @classmethod
    def _data(cls, value: Any, info: ValidationInfo) -> Any:
        return _data_of(value, info.field_name or "")

    @field_validator("env", mode="after")
    @classmethod
    def _env_values(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, item in value.items():
            if not isinstance(item, str | int | float | bool | Mapping):
                raise ValueError(f"{name} is a {type(item).__name__}; give text, a number or a valueFrom mapping")
        return value

    @model_validator(mode="after")
    def _one_description(self) -> TrainRequest:
        if self.manifest is not None:
            for name in sorted(self.model_fields_set - _WITH_MANIFEST):
                # Defaults that a front end passes along explicitly are not a second description.
                if getattr(self, name) != type(self).model_fields[name].get_default(call_default_factory=True):
                    raise InvalidRequest(
                        name,
                        "manifest already describes the whole TrainJob",
                        f"Write it into the manifest, or leave {name} out",
                    )
            return self
        if not self.runtime:
            raise InvalidRequest(
                "runtime", "is missing", 'Name a runtime such as "torch-distributed"; all: trainer-ops runtimes'
            )
        given = [name for name in ("script", "code", "command") if getattr(self, name)]
        if len(given) > 1:
            raise InvalidRequest(
                given[0], f"{' and '.join(given)} exclude each other", "Give one of script, code, command"
            )
        if self.packages and not (self.script or self.code):
            raise InvalidRequest(
                "packages", "are installed only before shipped code", "Give script or code, or put them into the image"
            )
        return self

    @property
    def limits(self) -> Limits:
        """The limits alone, as the light value that crosses processes."""
        return Limits(
            self.queue_timeout,
            self.startup_timeout,
            self.wait_timeout,
            self.unreachable_timeout,
            self.missing_grace,
            self.max_restarts,
        )

    @property
    def snapshots(self) -> dict[str, Snapshot]:
        """The snapshots it reads: ``dataset`` and ``model``, where these are some."""
        given = {"dataset": self.dataset, "model": self.model}
        return {step: data for step, data in given.items() if isinstance(data, Snapshot)}

    @property
    def runtime_ref(self) -> tuple[str, str]:
        """(kind, name) of the runtime, from the manifest where there is one."""
        ref = ((self.manifest or {}).get("spec") or {}).get("runtimeRef") or {}
        return ref.get("kind") or self.runtime_kind, ref.get("name") or self.runtime or ""

    @property
    def title(self) -> str:
        """The readable part of a TrainJob's name: the given name, the manifest's, the script's, or the runtime's."""
        if self.manifest is not None:
            meta = self.manifest.get("metadata") or {}
            return str(meta.get("name") or meta.get("generateName") or "train")
        script = self.script or (self.code.filename if isinstance(self.code, ScriptCode) else "")
        stem = script.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".py")
        return (
            self.name
            or stem
            or (self.code.name if isinstance(self.code, FunctionCode) else "")
            or self.runtime
            or "train"
        )


# What may stand beside a manifest: the limits of the wait, and where checkpoints go.
_WITH_MANIFEST = frozenset(
    {
        "manifest",
        "checkpoint_dir",
        "queue_timeout",
        "startup_timeout",
        "wait_timeout",
        "unreachable_timeout",
        "missing_grace",
        "max_restarts",
    }
)

_REASONS: dict[str, Callable[[Any, Mapping[str, Any]], tuple[str, str]]] = {
    "greater_than_equal": lambda v, c: (f"{v!r} is not at least {c['ge']}", f"Give {c['ge']} or more"),
    "greater_than": lambda v, c: (f"{v!r} is not more than {c['gt']:g}", f"Give more than {c['gt']:g}"),
    "int_type": lambda v, c: (f"{v!r} is not a whole number", "Give a whole number, not text"),
    "string_too_long": lambda v, c: (f"has {len(str(v))} characters", f"At most {c['max_length']} are allowed"),
    "string_too_short": lambda v, c: ("is empty", "Give a value, or leave it out"),
    "too_long": lambda v, c: (f"has {c['actual_length']} items", f"At most {c['max_length']} are allowed"),
    "missing": lambda v, c: ("is missing", "Give it"),
    "bool_parsing": lambda v, c: (f"{v!r} is neither true nor false", "Give true or false"),
    "dict_type": lambda v, c: (f"{reprlib.repr(v)} is not a mapping", "Give a mapping of names to values"),
    "list_type": lambda v, c: (f"{reprlib.repr(v)} is not a list", "Give a list"),
    "string_type": lambda v, c: (f"{reprlib.repr(v)} is not text", "Give text"),
    "literal_error": lambda v, c: (f"{v!r} is none of {c['expected']}", f"Give {c['expected']}"),
}


# What pydantic puts into a path to say which of a field's forms it tried.
_TAGS = frozenset({"script", "function", "initializer", "snapshot"})


def _invalid(exc: ValidationError, model: type[BaseModel]) -> InvalidRequest:
    """The first error in the user's terms; unknown names come with the closest known one."""
    error = exc.errors(include_url=False)[0]
    path = ".".join(str(part) for part in error["loc"] if part not in _TAGS) or model.__name__
    if error["type"] == "extra_forbidden":
        name = str(error["loc"][-1])
        close = _closest(name, model.model_fields)
        known = f"Did you mean {close}?" if close else f"Known: {', '.join(sorted(model.model_fields))}"
        return InvalidRequest(path, "is no field of a training request", known)
    make = _REASONS.get(error["type"])
    if make is not None:
        reason, remedy = make(error.get("input"), error.get("ctx") or {})
        return InvalidRequest(path, reason, remedy)
    if error["type"] == "value_error":
        return InvalidRequest(path, str(error["ctx"]["error"]), "")
    wanted = error["msg"].removeprefix("Input should be ")
    return InvalidRequest(path, f"{error.get('input')!r} is not {wanted}", f"Give {wanted}")


def _closest(name: str, fields: Iterable[str]) -> str | None:
    """The field that was meant, by its whole name or without what counts it (``nodes`` is ``num_nodes``)."""
    words = {field.removeprefix("num_").removeprefix("max_"): field for field in fields} | {f: f for f in fields}
    close = difflib.get_close_matches(name, words, n=1, cutoff=0.7)
    return words[close[0]] if close else None
