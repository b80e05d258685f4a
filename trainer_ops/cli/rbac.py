"""``rbac``: the rights that a user or a service account needs, to be read and applied by whoever may give them."""

from __future__ import annotations

import re
from typing import Annotated

import typer

__all__ = ["rbac"]


def rbac(
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Where the trainings are; of --kfp kubeflow, else default.")
    ] = "",
    service_account: Annotated[
        list[str] | None,
        typer.Option("--service-account", metavar="[NAMESPACE:]NAME", help="Who gets the rights; may be repeated."),
    ] = None,
    user: Annotated[list[str] | None, typer.Option("--user", metavar="NAME", help="A user who gets them.")] = None,
    kfp: Annotated[bool, typer.Option("--kfp", help="The service accounts that KFP's steps run as get them.")] = False,
    exec_: Annotated[bool, typer.Option("--exec", help="Also what trainer-ops exec needs.")] = False,
    runtimes: Annotated[bool, typer.Option("--runtimes", help="Also to apply runtimes.")] = False,
) -> int:
    """Print the Role that trainings and snapshots need.

    For kubectl apply -f - to read. Nothing is sent anywhere. Without anyone to give it to, it is the Role alone.
    """
    from trainer_ops.build.rbac import KFP_ACCOUNTS, Subject, manifests, subject_of
    from trainer_ops.errors import InvalidRequest

    where = namespace or ("kubeflow" if kfp else "default")
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", where):
        raise InvalidRequest("--namespace", f'"{where}" is no name of a namespace', "Use a-z, 0-9 and -")
    accounts = list(service_account or ()) or (list(KFP_ACCOUNTS) if kfp else [])
    subjects = [subject_of(one, namespace=where) for one in accounts]
    subjects += [Subject(one) for one in user or ()]
    parts = [name for name, wanted in (("exec", exec_), ("runtimes", runtimes)) if wanted]
    print(manifests(where, subjects, parts=parts), end="")
    return 0
