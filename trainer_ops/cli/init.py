"""The commands that make snapshots: ``init dataset``, ``init model``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainer_ops.cli.flags import SourceFlags, TargetFlags, spread

if TYPE_CHECKING:
    from trainer_ops.model.snapshot import SnapshotKind

__all__ = ["app"]

_HELP = """Fetch a dataset or a model once, for many trainings.

A snapshot is known by its source, its revision and the patterns: made again it is there already.
"""

app = typer.Typer(
    name="init",
    help=_HELP,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

Output = Annotated[
    str, typer.Option("--output", "-o", metavar="text|json", help="json: the snapshot on stdout, the rest on stderr.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say only how it ended.")]


def dataset(
    ctx: typer.Context, source: SourceFlags, where: TargetFlags, output: Output = "text", quiet: Quiet = False
) -> int:
    """Fetch a dataset once, for many trainings.

    \b
    trainer-ops init dataset hf://datasets/org/digits --revision main
    trainer-ops init dataset s3://bucket/digits --include '*.parquet' --to pvc://data --storage 20Gi

    On this machine it is a folder; on a cluster a Job writes it to a claim. A broken download goes on where it
    stopped. Credentials: HF_TOKEN and AWS_* of the environment here; on a cluster a Secret with keys of these names
    (--secret), and --env AWS_ENDPOINT_URL=http://minio:9000 where it is not Amazon.
    """
    return _init(ctx, "dataset", source, where, output, quiet)


def model(
    ctx: typer.Context, source: SourceFlags, where: TargetFlags, output: Output = "text", quiet: Quiet = False
) -> int:
    """Fetch a model once, for many trainings.

    \b
    trainer-ops init model hf://org/bert --revision v1 --ignore '*.bin'

    The same as init dataset, but for what --model and TRAINER_OPS_MODEL_DIR of a training mean.
    """
    return _init(ctx, "model", source, where, output, quiet)


app.command("dataset")(spread(dataset))
app.command("model")(spread(model))


def _init(
    ctx: typer.Context, kind: SnapshotKind, source: SourceFlags, where: TargetFlags, output: str, quiet: bool
) -> int:
    from trainer_ops.cli.making import Making
    from trainer_ops.cli.screen import Screen
    from trainer_ops.cli.session import typed_line
    from trainer_ops.cli.target import clock, opened

    screen = Screen(output)
    argv: Any = ctx.obj or ()
    with opened(where.target) as backend:
        making = Making(backend, screen, clock(), quiet, typed_line(argv), where.target)
        return making.run(kind, source)
