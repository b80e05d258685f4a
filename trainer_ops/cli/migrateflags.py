"""The flags of ``migrate`` that become its ``Options``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainer_ops.errors import InvalidRequest

if TYPE_CHECKING:
    from trainer_ops.migrate.options import Options

__all__ = ["OptionFlags", "options_of"]

_VERSIONS = ("2.2", "2.3")
_GANGS = ("none", "coscheduling", "volcano")
_ROLES = ("master", "worker")
_PINS = ("min", "max", "replicas")


@dataclass(frozen=True, slots=True)
class OptionFlags:
    """What a person decides about a conversion; the defaults refuse rather than guess."""

    trainer_version: Annotated[
        str, typer.Option("--trainer-version", metavar="2.2|2.3", help="The Trainer of the cluster.")
    ] = "2.3"
    runtime: Annotated[
        str,
        typer.Option(
            "--runtime",
            metavar="auto|generate|NAME",
            help="auto: a stock runtime where it carries the job, else a generated one.",
        ),
    ] = "auto"
    gang: Annotated[
        str,
        typer.Option("--gang", metavar="none|coscheduling|volcano", help="Gang scheduling: a flag of v1's operator."),
    ] = "none"
    role_branch: Annotated[
        bool,
        typer.Option("--role-branch", help="Roles that differ in command or env: one script that branches by rank."),
    ] = False
    template_from: Annotated[
        str | None,
        typer.Option("--template-from", metavar="master|worker", help="Of roles that differ, whose pod is taken."),
    ] = None
    pin_elastic: Annotated[
        str | None,
        typer.Option("--pin-elastic", metavar="min|max|replicas|N", help="The number of nodes of an elastic job."),
    ] = None
    to_torchrun: Annotated[
        bool, typer.Option("--to-torchrun", help="Start python by torchrun, instead of giving it v1's variables.")
    ] = False
    no_env_shim: Annotated[bool, typer.Option("--no-env-shim", help="Do not give the code v1's variables.")] = False
    preserve_success: Annotated[
        bool, typer.Option("--preserve-success", help="The job is over when its first node is, as in v1.")
    ] = False
    image_has_sshd: Annotated[
        bool, typer.Option("--image-has-sshd", help="The image of an MPIJob of kubeflow.org/v1 can run sshd.")
    ] = False
    drop_np: Annotated[bool, typer.Option("--drop-np", help="Leave out -np where it says what the hostfile says.")] = (
        False
    )
    allow_placeholders: Annotated[
        bool, typer.Option("--allow-placeholders", help="Carry $NAME where a number belongs.")
    ] = False
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="CODE", help="What is refused with this code is left out; repeatable."),
    ] = None
    keep_ttl: Annotated[
        bool, typer.Option("--keep-ttl", help="Set a TTL although a failed job may run again after it.")
    ] = False


def options_of(flags: OptionFlags, *, live: bool = False) -> Options:
    """The choices.

    Raises:
        InvalidRequest: a flag has a value that it does not know.
    """
    from trainer_ops.migrate.options import Options

    _one_of("--trainer-version", flags.trainer_version, _VERSIONS)
    _one_of("--gang", flags.gang, _GANGS)
    if flags.template_from is not None:
        _one_of("--template-from", flags.template_from, _ROLES)
    chosen: dict[str, Any] = {
        "trainer_version": flags.trainer_version,
        "runtime": flags.runtime,
        "gang": flags.gang,
        "role_branch": flags.role_branch,
        "template_from": flags.template_from,
        "pin_elastic": _pin(flags.pin_elastic),
        "to_torchrun": flags.to_torchrun,
        "env_shim": not flags.no_env_shim,
        "preserve_success": flags.preserve_success,
        "image_has_sshd": flags.image_has_sshd,
        "drop_np": flags.drop_np,
        "allow_placeholders": flags.allow_placeholders,
        "drop": frozenset(_code(code) for code in flags.drop or ()),
        "keep_ttl": flags.keep_ttl,
        "live": live,
    }
    return Options(**chosen)


def _one_of(flag: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidRequest(flag, f'"{value}" is none of {", ".join(allowed)}', f"Give {allowed[-1]}")


def _pin(value: str | None) -> str | int | None:
    if value is None or value in _PINS:
        return value
    if value.isdecimal() and int(value) > 0:
        return int(value)
    raise InvalidRequest("--pin-elastic", f'"{value}" is none of {", ".join(_PINS)} or a number', "Give replicas")


def _code(code: str) -> str:
    from trainer_ops.cli.migrateview import known_code

    return known_code(code, "--drop")
