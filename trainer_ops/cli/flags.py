"""The flags, declared once as frozen values, and the decorator that spreads them over a command's parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

__all__ = [
    "LimitFlags",
    "Name",
    "NameFlags",
    "SourceFlags",
    "StoreFlags",
    "TargetFlags",
    "TrainFlags",
    "ViewFlags",
    "spread",
]

_TARGET_HELP = "Where trainings run: local:///DIR. Else $TRAINER_OPS_TARGET, else this machine."

Name = Annotated[str, typer.Argument(help="The TrainJob's name; the newest attempt of its run is meant.")]
Texts = list[str] | None


@dataclass(frozen=True, slots=True)
class TargetFlags:
    """Where."""

    target: Annotated[str | None, typer.Option("--target", metavar="URL", help=_TARGET_HELP)] = None


@dataclass(frozen=True, slots=True)
class NameFlags:
    """Which training, and where."""

    name: Name
    target: Annotated[str | None, typer.Option("--target", metavar="URL", help=_TARGET_HELP)] = None


@dataclass(frozen=True, slots=True)
class ViewFlags:
    """How a wait is shown."""

    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="text|json", help="json: the outcome on stdout, the rest on stderr."),
    ] = "text"
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only how it ended.")] = False
    no_logs: Annotated[bool, typer.Option("--no-logs", help="Show states, no lines of the training.")] = False
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE", help="Write how it went as one HTML page when it ends.")
    ] = None


@dataclass(frozen=True, slots=True)
class LimitFlags:
    """How long to wait for what. Texts, because a limit is written like 90, 30s, 10m or 2h."""

    max_restarts: Annotated[
        int | None,
        typer.Option("--max-restarts", metavar="N", help="Restarts of a node before the training is stopped."),
    ] = None
    queue_timeout: Annotated[
        str | None, typer.Option("--queue-timeout", metavar="TIME", help="Give up when queued or suspended this long.")
    ] = None
    startup_timeout: Annotated[
        str | None, typer.Option("--startup-timeout", metavar="TIME", help="Give up when admitted but not training.")
    ] = None
    wait_timeout: Annotated[
        str | None, typer.Option("--wait-timeout", metavar="TIME", help="Give up after this time, whatever the state.")
    ] = None
    unreachable_timeout: Annotated[
        str | None,
        typer.Option("--unreachable-timeout", metavar="TIME", help="Give up when the target is silent. [30m]"),
    ] = None
    missing_grace: Annotated[
        str | None, typer.Option("--missing-grace", metavar="TIME", help="A new TrainJob may be invisible. [30s]")
    ] = None


@dataclass(frozen=True, slots=True)
class TrainFlags:
    """What to train: a TrainJob's YAML, or flags and a script or command."""

    argv: Annotated[
        Texts,
        typer.Argument(
            metavar="-- SCRIPT.py ARGS",
            help="A Python file of yours, which is sent along, or the command of a node.",
            show_default=False,
        ),
    ] = None
    file: Annotated[str | None, typer.Option("--file", "-f", metavar="FILE", help="A TrainJob's YAML; - is stdin.")] = (
        None
    )
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="KEY", help="What this run is: the same key never trains twice. [manifest's name]"
        ),
    ] = None
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What to recognise in the TrainJob's name.")
    ] = None
    runtime: Annotated[
        str | None, typer.Option("--runtime", "-r", metavar="NAME", help="Training runtime; all: trainer-ops runtimes.")
    ] = None
    runtime_kind: Annotated[
        str | None, typer.Option("--runtime-kind", metavar="KIND", help="ClusterTrainingRuntime or TrainingRuntime.")
    ] = None
    nodes: Annotated[int | None, typer.Option("--nodes", "-n", metavar="N", help="Nodes. [the runtime's]")] = None
    procs_per_node: Annotated[
        int | None, typer.Option("--procs-per-node", metavar="N", help="Processes on each node. [auto]")
    ] = None
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="Container image; this machine ignores it.")
    ] = None
    env: Annotated[
        Texts,
        typer.Option("--env", "-e", metavar="K=V", help="Environment variable, repeatable; K alone: as it is here."),
    ] = None
    package: Annotated[
        Texts, typer.Option("--package", metavar="REQ", help="pip requirement for the script, repeatable.")
    ] = None
    pip_index_url: Annotated[
        str | None, typer.Option("--pip-index-url", metavar="URL", help="Where packages come from.")
    ] = None
    runner: Annotated[
        str | None, typer.Option("--runner", metavar="PROG", help="python, torchrun or mpirun. [auto]")
    ] = None
    cpu: Annotated[str | None, typer.Option("--cpu", metavar="QTY", help="CPUs of a node, like 2 or 500m.")] = None
    memory: Annotated[str | None, typer.Option("--memory", metavar="QTY", help="Memory of a node, like 4Gi.")] = None
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="N", help="GPUs of a node (nvidia.com/gpu).")] = None
    resource: Annotated[
        Texts, typer.Option("--resource", metavar="K=QTY", help="Any other resource of a node, repeatable.")
    ] = None
    queue: Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Kueue's LocalQueue.")] = None
    priority_class: Annotated[
        str | None, typer.Option("--priority-class", metavar="NAME", help="Kueue's WorkloadPriorityClass.")
    ] = None
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", metavar="DATA", help="URI to fetch, or a snapshot: its key, location or JSON file."),
    ] = None
    model: Annotated[
        str | None, typer.Option("--model", metavar="DATA", help="The same for a model to start from.")
    ] = None
    checkpoint_dir: Annotated[
        str | None, typer.Option("--checkpoint-dir", metavar="DIR", help="Outlives an attempt; one subfolder a run.")
    ] = None
    label: Annotated[Texts, typer.Option("--label", metavar="K=V", help="Label of the TrainJob, repeatable.")] = None
    annotation: Annotated[
        Texts, typer.Option("--annotation", metavar="K=V", help="Annotation of the TrainJob, repeatable.")
    ] = None
    suspend: Annotated[bool, typer.Option("--suspend", help="Create it suspended.")] = False
    active_deadline_seconds: Annotated[
        str | None,
        typer.Option("--active-deadline-seconds", metavar="TIME", help="Trainer's own deadline: stops the training."),
    ] = None
    grace_period: Annotated[
        str | None, typer.Option("--grace-period", metavar="TIME", help="Time to save after SIGTERM. [the runtime's]")
    ] = None


_TO_HELP = "Where snapshots are kept: file:///DIR, s3://BUCKET/PREFIX, pvc://CLAIM[/FOLDER]. [the target's own]"


@dataclass(frozen=True, slots=True)
class StoreFlags:
    """Which snapshots, and where."""

    to: Annotated[str, typer.Option("--to", metavar="URL", help=_TO_HELP)] = ""
    target: Annotated[str | None, typer.Option("--target", metavar="URL", help=_TARGET_HELP)] = None
    secret: Annotated[
        str | None, typer.Option("--secret", metavar="NAME", help="Secret for object storage, on a cluster.")
    ] = None
    env: Annotated[
        Texts,
        typer.Option("--env", "-e", metavar="K=V", help="Variable for what looks, repeatable; no secrets."),
    ] = None
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="Container image that looks, on a cluster.")
    ] = None


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """What to make a snapshot of, and where it is kept."""

    uri: Annotated[
        str,
        typer.Argument(metavar="URI", help="hf:// s3:// gs:// az:// http(s):// file:// or pvc://", show_default=False),
    ]
    revision: Annotated[
        str, typer.Option("--revision", metavar="R", help="Branch, tag, commit or version. [the newest]")
    ] = ""
    include: Annotated[
        Texts, typer.Option("--include", metavar="GLOB", help="Take only such paths, repeatable. [all]")
    ] = None
    ignore: Annotated[
        Texts, typer.Option("--ignore", metavar="GLOB", help="Leave such paths out, repeatable; goes before --include.")
    ] = None
    to: Annotated[str, typer.Option("--to", metavar="URL", help=_TO_HELP)] = ""
    storage: Annotated[
        str | None, typer.Option("--storage", metavar="SIZE", help="Make the claim of --to, of this size, like 20Gi.")
    ] = None
    storage_class: Annotated[
        str | None, typer.Option("--storage-class", metavar="NAME", help="Of which class. [the cluster's default]")
    ] = None
    access_mode: Annotated[
        str,
        typer.Option("--access-mode", metavar="MODE", help="Of which access mode, where the class has no other."),
    ] = "ReadWriteMany"
    secret: Annotated[
        str | None,
        typer.Option("--secret", metavar="NAME", help="Secret with the source's credentials, on a cluster."),
    ] = None
    image: Annotated[
        str | None, typer.Option("--image", metavar="IMAGE", help="Container image that fetches, on a cluster.")
    ] = None
    env: Annotated[
        Texts,
        typer.Option("--env", "-e", metavar="K=V", help="Variable for what fetches, repeatable; no secrets."),
    ] = None
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="Give up after this time; what is there is kept.")
    ] = None
    refresh: Annotated[bool, typer.Option("--refresh", help="Check one that is there; if damaged make it anew.")] = (
        False
    )


def spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command of which each parameter that is one of these values became that value's fields."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(hint):
            groups[parameter.name] = hint
            parameters.extend(_parameters(hint))
        else:
            parameters.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return function(**given)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {}
    return command


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=parameter.default,
            annotation=hints[name],
        )
        for name, parameter in inspect.signature(group).parameters.items()
    ]
