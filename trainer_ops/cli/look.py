"""The commands that look and change nothing: ``status``, ``list``, ``logs``, ``validate``, ``runtimes``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainer_ops.cli.flags import NameFlags, TargetFlags

if TYPE_CHECKING:
    from trainer_ops.cli.screen import Screen

__all__ = ["list_", "logs", "runtimes", "status", "validate"]

Output = Annotated[
    str, typer.Option("--output", "-o", metavar="text|wide|json", help="wide: all columns; json: for programs.")
]
TextOrJson = Annotated[str, typer.Option("--output", "-o", metavar="text|json", help="json: for programs.")]
_OUTPUTS = ("text", "wide", "json")


def status(
    where: TargetFlags,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A TrainJob; without it a table of all.", show_default=False)
    ] = None,
    output: Output = "text",
) -> int:
    """Where trainings stand.

    With a name that training, node by node; without, a table of all.
    """
    from trainer_ops.cli.glance import to_json
    from trainer_ops.cli.render import one_training
    from trainer_ops.cli.screen import Screen, put_json
    from trainer_ops.cli.survey import look_at
    from trainer_ops.cli.target import clock, opened
    from trainer_ops.lifecycle.find import find

    if name is None:
        return list_(where, False, output)
    screen = Screen(output, allowed=_OUTPUTS)
    with opened(where.target) as backend:
        seen, target = look_at(backend, find(backend, name), now=clock().now()), backend.target
    if screen.json:
        put_json(to_json(seen, target=target, nodes=True))
    else:
        screen.say(*one_training(seen, target, screen.width - 1, screen.signs))
    return 0


def list_(
    where: TargetFlags,
    every: Annotated[bool, typer.Option("--all", "-a", help="Earlier attempts as well.")] = False,
    output: Output = "text",
) -> int:
    """A table of the trainings.

    Newest first; of each run the newest attempt.
    """
    from trainer_ops.cli.glance import to_json
    from trainer_ops.cli.render import trainings_table
    from trainer_ops.cli.screen import Screen, put_json
    from trainer_ops.cli.survey import survey
    from trainer_ops.cli.target import clock, opened

    screen = Screen(output, allowed=_OUTPUTS)
    now = clock().now()
    with opened(where.target) as backend:
        rows, target = survey(backend, now=now, every=every), backend.target
    if screen.json:
        put_json({"trainings": [to_json(seen, target=target, nodes=False) for seen in rows]})
    elif not rows:
        screen.text(f"no trainings on {target}   a first one: trainer-ops demo")
    else:
        screen.say(*trainings_table(rows, now=now, width=screen.width - 1, full=output == "wide"))
    return 0


def logs(
    name: NameFlags,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the training ends.")] = False,
    node: Annotated[
        str | None, typer.Option("--node", metavar="N", help="One node: 1, node-1, launcher, dataset-initializer.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", min=0, help="Begin with each node's last N lines.")
    ] = None,
) -> int:
    """What the nodes have printed.

    Each line has its node before it. Of a run of several attempts the newest is meant.
    """
    from trainer_ops.cli.screen import Screen
    from trainer_ops.cli.target import clock, opened
    from trainer_ops.cli.views import log_line
    from trainer_ops.lifecycle.find import find
    from trainer_ops.lifecycle.logs import logs as read

    screen = Screen()
    with opened(name.target) as backend:
        ref = find(backend, name.name)
        for source, line in read(backend, ref, node=node, follow=follow, tail=tail, clock=clock()):
            screen.say(log_line(source.node, line))
    return 0


def validate(
    where: TargetFlags,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="YAML; - is stdin.")],
    output: TextOrJson = "text",
) -> int:
    """Check YAML, creating nothing.

    TrainJobs and runtimes: every error and every warning of every document. Against the runtimes of --target where
    it is given, else against those that Trainer ships. Exit code 2 for errors.
    """
    from contextlib import nullcontext

    from trainer_ops.cli.checking import check_files, finding_lines, to_json
    from trainer_ops.cli.screen import Screen, put_json
    from trainer_ops.cli.target import opened

    screen = Screen(output)
    with opened(where.target) if where.target else nullcontext() as backend:
        checked = check_files(files, backend)
    if screen.json:
        put_json({"documents": [to_json(one) for one in checked]})
    else:
        for one in checked:
            screen.say(*finding_lines(one, screen.signs))
    return 2 if any(one.refused for one in checked) else 0


def runtimes(
    where: TargetFlags,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="What this one runs and needs.", show_default=False)
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="text|json|yaml", help="yaml: the one of that name as it is.")
    ] = "text",
) -> int:
    """The runtimes to choose from.

    What --runtime and spec.runtimeRef may name; with a name what that one runs, what it needs, what the code finds.
    """
    from trainer_ops.cli.runtimes import pick, runtime_rows, runtimes_table
    from trainer_ops.cli.screen import Screen, put_json
    from trainer_ops.cli.target import opened

    screen = Screen(output, allowed=("text", "json", *(("yaml",) if name is not None else ())))
    with opened(where.target) as backend:
        raws, target = backend.runtimes(), backend.target
    if name is not None:
        _show_runtime(screen, pick(raws, name, target), target, output)
    elif screen.json:
        put_json({"runtimes": runtime_rows(raws)})
    elif not raws:
        screen.text(f"no runtimes on {target}   Trainer's own: its manifests/overlays/runtimes")
    else:
        screen.say(*runtimes_table(raws, screen.width - 1))
    return 0


def _show_runtime(screen: Screen, raw: dict[str, Any], target: str, output: str) -> None:
    from trainer_ops.cli.runtimeview import describe, runtime_lines
    from trainer_ops.cli.screen import put_json
    from trainer_ops.model.runtime import TrainingRuntime

    runtime = TrainingRuntime.from_raw(raw)
    if output == "yaml":
        import yaml

        screen.stream.write(yaml.safe_dump(raw, sort_keys=False))
    elif screen.json:
        put_json({**describe(runtime), "runtime": raw})
    else:
        screen.say(*runtime_lines(runtime, local=target.startswith("local:"), width=screen.width - 1))
