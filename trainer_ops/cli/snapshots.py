"""The commands for snapshots that are there: ``snapshots list``, ``verify``, ``gc``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainer_ops.cli.flags import StoreFlags, spread

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend

__all__ = ["app"]

app = typer.Typer(
    name="snapshots",
    help="Datasets and models that were fetched: list, check, clear away.",
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

TextOrJson = Annotated[str, typer.Option("--output", "-o", metavar="text|json", help="json: for programs.")]


def list_(
    where: StoreFlags,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="text|wide|json", help="wide: uncut, and where they lie; json: for programs."
        ),
    ] = "text",
) -> int:
    """The snapshots that are there, newest first.

    On a cluster a Job looks, because only a pod can.
    """
    from trainer_ops.cli.making import as_typed
    from trainer_ops.cli.screen import Screen, put_json
    from trainer_ops.cli.snapshotview import snapshots_table, to_json
    from trainer_ops.cli.stored import location_of
    from trainer_ops.cli.target import clock, opened
    from trainer_ops.lifecycle.snapshot_store import list_snapshots

    screen = Screen(output, allowed=("text", "wide", "json"))
    with opened(where.target) as backend, as_typed():
        rows = list(reversed(list_snapshots(backend, **_at(backend, where))))
        locations = [location_of(backend, where.to, one.key) for one in rows]
        store = where.to or backend.target
    if screen.json:
        put_json({"snapshots": [to_json(one, at) for one, at in zip(rows, locations, strict=True)]})
    elif not rows:
        screen.text(f"no snapshots on {store}   a first one: trainer-ops init dataset URI")
    else:
        full = locations if output == "wide" else None
        screen.say(*snapshots_table(rows, now=clock().now(), width=screen.width - 1, locations=full))
    return 0


def verify(
    where: StoreFlags,
    key: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY...]", help="Starts of keys; all when left out.", show_default=False),
    ] = None,
    output: TextOrJson = "text",
) -> int:
    """Read every byte again, and compare.

    Exit code 1 when one is damaged; init with --refresh makes it anew.
    """
    from trainer_ops.cli.data import pick_key
    from trainer_ops.cli.making import as_typed
    from trainer_ops.cli.screen import Screen, put_json
    from trainer_ops.cli.snapshotview import to_json, verified_lines
    from trainer_ops.cli.target import opened
    from trainer_ops.initializers.manifest import Manifest
    from trainer_ops.lifecycle.snapshot_store import broken_snapshots, list_snapshots, verify_snapshot

    screen = Screen(output)
    checked: list[dict[str, object]] = []
    with opened(where.target) as backend, as_typed():
        at = _at(backend, where)
        there = {one.key: one for one in reversed(list_snapshots(backend, **at))}
        there |= {name: Manifest(name, "", "") for name in broken_snapshots(backend, to=where.to)}
        for name in dict.fromkeys(pick_key(start, list(there), "KEY") for start in key) if key else there:
            problems = verify_snapshot(backend, name, **at)
            checked.append({**to_json(there[name]), "problems": list(problems)})
            if not screen.json:
                screen.say(*verified_lines(there[name], problems, screen.signs))
    if screen.json:
        put_json({"snapshots": checked})
    elif not checked:
        screen.text("no snapshots to verify")
    return 1 if any(one["problems"] for one in checked) else 0


def gc(
    where: StoreFlags,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="TIME", help="Remove what nobody asked for since, like 30d.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=0, help="Keep the N newest of each source, remove others.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; remove nothing.")] = False,
    output: TextOrJson = "text",
) -> int:
    """Clear away what nobody needs.

    Broken downloads of which nobody has touched a byte for a day always go; snapshots only by --older-than and
    --keep, with both those that both let go. What a training of this target reads now stays.
    """
    from trainer_ops.cli.durations import seconds
    from trainer_ops.cli.making import as_typed
    from trainer_ops.cli.screen import Screen, put_json
    from trainer_ops.cli.snapshotview import freed_lines, freed_to_json
    from trainer_ops.cli.target import clock, opened
    from trainer_ops.lifecycle.snapshot_store import gc_snapshots
    from trainer_ops.lifecycle.snapshot_use import keys_in_use

    screen = Screen(output)
    age = seconds(older_than, "--older-than")
    with opened(where.target) as backend, as_typed():
        used = keys_in_use(backend, now=clock().now())
        freed = gc_snapshots(backend, keep=used, keep_last=keep, older_than=age, dry_run=dry_run, **_at(backend, where))
    if screen.json:
        put_json(freed_to_json(freed, dry_run=dry_run))
        return 0
    screen.say(*freed_lines(freed, dry_run=dry_run))
    if age is None and keep is None:
        screen.text("  snapshots go by --older-than 30d or --keep 3")
    return 0


app.command("list")(spread(list_))
app.command("verify")(spread(verify))
app.command("gc")(spread(gc))


def _at(backend: Backend, where: StoreFlags) -> dict[str, Any]:
    """Which store, and how it is reached."""
    from trainer_ops.cli.stepenv import step_env
    from trainer_ops.cli.target import clock

    env = step_env(where.env, backend)
    return {"to": where.to, "secret_ref": where.secret, "env": env, "image": where.image, "clock": clock()}
