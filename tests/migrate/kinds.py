"""v1 jobs of the kinds beside PyTorchJob, as short as a case can say them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from trainer_ops.migrate.convert import Converted
from trainer_ops.migrate.kinds import KINDS

__all__ = ["containers", "job", "mpi", "parts", "variables"]

Raw = dict[str, Any]


def job(
    kind: str,
    roles: Mapping[str, int | str | tuple[int | str | None, Mapping[str, Any]] | None],
    container: Mapping[str, Any] | None = None,
    *,
    pod: Mapping[str, Any] | None = None,
    role: Mapping[str, Any] | None = None,
    version: str = "v1",
    name: str = "j",
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Raw:
    """A job.

    Args:
        kind: ``TFJob``.
        roles: name -> replicas (None leaves them out), or replicas and what this role's container has beside.
        container: what all containers with the code have.
        pod: what all pod specs have beside containers; ``containers`` are put behind the first.
        role: what all roles have beside: ``restartPolicy``.
        version: of the API.
        name: of the job.
        metadata: instead of the name.
        spec: the rest of ``spec``.
    """
    known = KINDS[(kind, version)]
    made: Raw = {}
    for key, held in roles.items():
        replicas, more = held if isinstance(held, tuple) else (held, {})
        main = {"name": known.container or "main", "image": "example.com/train:1", **(container or {}), **more}
        extra = copy.deepcopy(dict(pod or {}))
        spec_ = {"containers": [copy.deepcopy(main), *extra.pop("containers", [])], **extra}
        made[key] = {
            **({} if replicas is None else {"replicas": replicas}),
            **(role or {}),
            "template": {"spec": spec_},
        }
    return {
        "apiVersion": known.api_version,
        "kind": kind,
        "metadata": dict(metadata) if metadata else {"name": name},
        "spec": {known.replica_specs: made, **spec},
    }


def mpi(
    command: list[str] | None = None,
    *,
    workers: int | str | None = 2,
    launcher: Mapping[str, Any] | None = None,
    worker: Mapping[str, Any] | None = None,
    version: str = "v2beta1",
    user: int | None = 1000,
    **more: Any,
) -> Raw:
    """An MPIJob of user 1000 with keys in their home, unless ``user`` says otherwise (None: the image's, root)."""
    secure: Raw = {} if user is None else {"securityContext": {"runAsUser": user}}
    if user and version == "v2beta1":
        more.setdefault("sshAuthMountPath", "/home/mpiuser/.ssh")
    head = {"command": ["mpirun", "python", "t.py"] if command is None else command, **secure, **(launcher or {})}
    if not head["command"]:
        del head["command"]
    roles: dict[str, Any] = {"Launcher": (1, head)}
    if workers is not None:
        roles["Worker"] = (workers, {**secure, **(worker or {})})
    return job("MPIJob", roles, version=version, **more)


def parts(done: Converted) -> dict[str, Raw]:
    """The runtime's replicatedJobs by name."""
    assert done.runtime is not None, [str(found) for found in done.findings]
    return {one["name"]: one for one in done.runtime["spec"]["template"]["spec"]["replicatedJobs"]}


def containers(done: Converted, part: str) -> list[Raw]:
    """The containers of a part."""
    found: list[Raw] = parts(done)[part]["template"]["spec"]["template"]["spec"]["containers"]
    return found


def variables(container: Mapping[str, Any]) -> Raw:
    """Variables of a container by name: text, or the source."""
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container.get("env") or ()}
