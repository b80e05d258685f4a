"""The commands that train: ``run``, ``submit``, ``wait``, ``demo``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainer_ops.cli.flags import LimitFlags, TargetFlags, TrainFlags, ViewFlags

if TYPE_CHECKING:
    from trainer_ops.model.identity import RunKey
    from trainer_ops.model.request import TrainRequest
    from trainer_ops.model.snapshot import Snapshot, SnapshotKind

__all__ = ["demo", "run", "submit", "wait"]


def run(ctx: typer.Context, train: TrainFlags, limits: LimitFlags, where: TargetFlags, view: ViewFlags) -> int:
    """Train and wait for the end.

    \b
    trainer-ops run --runtime torch-distributed --nodes 2 -- train.py --epochs 3
    trainer-ops run -f trainjob.yaml

    Ctrl-C detaches: the training goes on, and the command to come back to it is printed.
    """
    from trainer_ops.cli.screen import Screen
    from trainer_ops.cli.session import Session, typed_line
    from trainer_ops.cli.target import clock, opened

    screen = Screen(view.output)
    request, key = _request(train, limits, where.target)
    with opened(where.target) as backend:
        session = Session(backend, screen, view, clock(), typed_line(ctx.obj or ()), where.target)
        return session.run(request, key)


def submit(
    ctx: typer.Context,
    train: TrainFlags,
    limits: LimitFlags,
    where: TargetFlags,
    output: Annotated[str, typer.Option("--output", "-o", metavar="text|json", help="json: which TrainJob.")] = "text",
) -> int:
    """Train without waiting for the end.

    Prints the TrainJob's name, for wait, logs and cancel.
    """
    from trainer_ops.cli.screen import Screen
    from trainer_ops.cli.session import Session, submit_only, typed_line
    from trainer_ops.cli.target import clock, opened

    screen = Screen(output)
    request, key = _request(train, limits, where.target)
    with opened(where.target) as backend:
        session = Session(backend, screen, ViewFlags(output), clock(), typed_line(ctx.obj or ()), where.target)
        return submit_only(session, request, key)


def wait(
    where: TargetFlags,
    limits: LimitFlags,
    view: ViewFlags,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The newest attempt of its run is meant.", show_default=False),
    ] = None,
    selector: Annotated[
        list[str] | None, typer.Option("--selector", "-l", metavar="K=V", help="All TrainJobs with these labels.")
    ] = None,
    first: Annotated[bool, typer.Option("--any", help="With -l: the first that has trained is enough.")] = False,
) -> int:
    """Wait for a training submitted before, or for many.

    The same view and exit codes as run. Limits count from now; those left out are the ones that it was submitted with.
    With -l a table at the end; the exit code is the worst: 1 when any failed, else 4, 5, 3, 0.
    """
    from trainer_ops.cli.inputs import limits_over
    from trainer_ops.cli.screen import Screen
    from trainer_ops.cli.session import Session
    from trainer_ops.cli.target import clock, opened
    from trainer_ops.lifecycle.find import begin, find

    _one_of(name, selector, first)
    screen = Screen(view.output)
    with opened(where.target) as backend:
        if name is None:
            from trainer_ops.cli.waiting import Many, selected

            many = Many(backend, screen, view, limits, clock(), where.target)
            return many.wait(selected(selector or ()), first=first)
        session = Session(backend, screen, view, clock(), target=where.target)
        now = session.clock.now()
        stored = begin(backend, find(backend, name), now=now)
        return session.wait(begin(backend, stored.ref, now=now, limits=limits_over(limits, stored.limits)))


def _one_of(name: str | None, selector: list[str] | None, first: bool) -> None:
    from trainer_ops.errors import InvalidRequest

    if name is None and not selector:
        raise InvalidRequest("NAME", "neither a name nor -l is given", "All: trainer-ops list")
    if name is not None and (selector or first):
        flag = "-l" if selector else "--any"
        raise InvalidRequest(flag, f"a name and {flag} exclude each other", "Give one of them")


def demo(
    where: TargetFlags,
    view: ViewFlags,
    plain: Annotated[bool, typer.Option("--plain", help="The training that needs no packages.")] = False,
    rounds: Annotated[int | None, typer.Option("--rounds", metavar="N", min=1, help="How long it trains.")] = None,
) -> int:
    """Train a small model on two nodes.

    Really, in less than half a minute: with xgboost and scikit-learn installed it learns to read handwritten digits,
    without them, in plain Python, noisy ones that it draws itself.
    """
    from trainer_ops.cli.demo import demo_request
    from trainer_ops.cli.inputs import key_of
    from trainer_ops.cli.screen import Screen
    from trainer_ops.cli.session import Session
    from trainer_ops.cli.target import clock, opened

    screen = Screen(view.output)
    with opened(where.target) as backend:
        session = Session(backend, screen, view, clock(), ("trainer-ops", "demo"), where.target)
        return session.run(demo_request(plain=plain, rounds=rounds), key_of(None, None))


def _request(train: TrainFlags, limits: LimitFlags, target: str | None) -> tuple[TrainRequest, RunKey]:
    from trainer_ops.cli.inputs import key_of, request_of
    from trainer_ops.cli.manifests import only, parse, read
    from trainer_ops.validate.trainjob import check, refuse

    manifest: dict[str, Any] | None = None
    if train.file is not None:
        manifest = only(parse(read(train.file), train.file)).manifest
        # Once more when it is built, against its runtime; but what names no runtime must be told so first.
        refuse(check(manifest, None))
    request = request_of(
        train,
        limits,
        manifest,
        is_file=lambda path: Path(path).is_file(),
        environ=os.environ,
        data=partial(_data, target),
    )
    return request, key_of(train.key, manifest)


def _data(target: str | None, text: str, kind: SnapshotKind) -> str | Snapshot:
    from trainer_ops.cli.data import data_of
    from trainer_ops.cli.stored import snapshot_of
    from trainer_ops.cli.target import opened

    def find(prefix: str, kind: SnapshotKind) -> Snapshot:
        with opened(target) as backend:
            return snapshot_of(backend, prefix, kind)

    def read(path: str) -> str | None:
        return Path(path).read_text(encoding="utf-8", errors="replace") if Path(path).is_file() else None

    return data_of(text, kind, read=read, find=find)
