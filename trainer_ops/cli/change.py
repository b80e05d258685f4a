"""The commands that change a training: ``cancel``, ``suspend``, ``resume``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainer_ops.cli.flags import NameFlags

if TYPE_CHECKING:
    from trainer_ops.backends.base import Backend
    from trainer_ops.cli.screen import Screen
    from trainer_ops.model.identity import JobRef

__all__ = ["cancel", "resume", "suspend"]

Output = Annotated[str, typer.Option("--output", "-o", metavar="text|json", help="json: what became of it.")]


def cancel(
    name: NameFlags,
    policy: Annotated[
        str, typer.Option("--policy", metavar="delete|suspend", help="suspend keeps the record, to be resumed.")
    ] = "delete",
    wait: Annotated[
        str | None, typer.Option("--wait", metavar="TIME", help="How long to wait for its processes to end.")
    ] = "45s",  # more than the usual grace period, so that what ignores SIGTERM is seen to end too
    output: Output = "text",
) -> int:
    """Stop a training for good.

    Its processes get SIGTERM and their grace period (30 s unless the runtime says otherwise); the TrainJob is gone at
    once.
    """
    from trainer_ops.cli.durations import seconds
    from trainer_ops.cli.screen import Screen, put_json
    from trainer_ops.cli.target import clock, opened
    from trainer_ops.errors import InvalidRequest
    from trainer_ops.lifecycle.cancel import cancel as stop
    from trainer_ops.lifecycle.find import find

    screen = Screen(output)
    if policy not in ("delete", "suspend"):
        raise InvalidRequest("--policy", f'"{policy}" is none of delete, suspend', "Give delete, or leave it out")
    patience = seconds(wait, "--wait")
    with opened(name.target) as backend:
        ref = find(backend, name.name)
        done = stop(backend, ref, policy="suspend" if policy == "suspend" else "delete", wait=patience, clock=clock())
    if screen.json:
        put_json({**ref.to_json(), "how": done.how, "ended": done.ended})
        return 0
    says = {
        "deleted": "cancelled",
        "suspended": "suspended",
        "kept": "goes on",
        "already_finished": "had ended already: nothing to cancel",
        "gone": "was gone already",
    }[done.how]
    rest = "" if done.ended or done.how == "already_finished" else "; its processes still end (grace period)"
    screen.say([(ref.name, "bold"), (f" {says}{rest}", "")])
    return 0


def suspend(name: NameFlags, output: Output = "text") -> int:
    """Stop a training, to resume it.

    Its processes end; resume starts them anew, from their checkpoints if they write any.
    """
    return _set(name, True, output)


def resume(name: NameFlags, output: Output = "text") -> int:
    """Let a suspended training go on."""
    return _set(name, False, output)


def _set(name: NameFlags, suspended: bool, output: str) -> int:
    from trainer_ops.cli.screen import Screen
    from trainer_ops.cli.target import opened
    from trainer_ops.lifecycle.find import find

    screen = Screen(output)
    with opened(name.target) as backend:
        ref = find(backend, name.name)
        _refuse_ended(backend, ref, "suspend" if suspended else "resume")
        raw = backend.set_suspended(ref.name, suspended, uid=ref.uid)
    _say_set(screen, ref, raw, suspended, name.target)
    return 0


def _refuse_ended(backend: Backend, ref: JobRef, verb: str) -> None:
    from trainer_ops.cli.target import clock
    from trainer_ops.errors import InvalidRequest
    from trainer_ops.lifecycle.attempts import Attempt

    raw = backend.get(ref.name)
    if raw is not None and (phase := Attempt.from_raw(raw, now=clock().now()).phase).finished:
        raise InvalidRequest(
            "name", f"{ref.name} has {phase} already", "See it: trainer-ops status " + ref.name, what=f"cannot {verb}"
        )


def _say_set(screen: Screen, ref: JobRef, raw: dict[str, Any], suspended: bool, target: str | None) -> None:
    from trainer_ops.cli.screen import put_json

    if screen.json:
        put_json({**ref.to_json(), "suspended": bool((raw.get("spec") or {}).get("suspend"))})
        return
    at = f" --target {shlex.quote(target)}" if target else ""
    hint = f"resume it: trainer-ops resume {ref.name}{at}" if suspended else f"wait: trainer-ops wait {ref.name}{at}"
    screen.say([(ref.name, "bold"), (f" {'is suspended' if suspended else 'goes on'}   {hint}", "")])
