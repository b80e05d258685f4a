"""The environment that v1 gave to the code of a PyTorchJob, and what of it Trainer does not give.

Source: training-operator v1.9.3 ``pkg/controller.v1/pytorch/{envvar,elastic,master}.go``. The operator appends its
variables to those of the job, and of two with one name Kubernetes takes the last: the job's own had no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainer_ops.migrate.draft import NODE, Draft, Part, main
from trainer_ops.migrate.hosts import address
from trainer_ops.migrate.normalise import Role
from trainer_ops.migrate.places import Key
from trainer_ops.migrate.shims import INDEX, JOB_NAME

__all__ = ["MASTER", "RESERVED", "inject", "overruled", "own_variables", "rendezvous", "shim"]

MASTER: Final = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
RESERVED: Final = ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT")
PORT: Final = 29500


def overruled(*, master: bool, elastic: Mapping[str, Any] | None) -> frozenset[str]:
    """The variables that v1's operator set, whatever the job says."""
    found = {"PYTHONUNBUFFERED", "PET_NNODES", "PET_NPROC_PER_NODE"}
    if master:
        found.update(MASTER, ("PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NODE_RANK"))
    if elastic is not None:
        found.update(("PET_RDZV_ENDPOINT", "PET_RDZV_BACKEND"), _elastic_extras(elastic))
    return frozenset(found)


def own_variables(draft: Draft, role: Role, part: Part, *, master: bool, elastic: Mapping[str, Any] | None) -> None:
    """What the job sets itself of the names that v1's operator set, or that Trainer sets.

    Args:
        draft: with the part.
        role: of which the variables are looked at.
        part: in which they lie.
        master: v1 gave the variables of a rendezvous at the Master.
        elastic: the elasticPolicy.
    """
    known = overruled(master=master, elastic=elastic)
    for i, item in enumerate(role.container.get("env") or ()):
        name, path = item["name"], (*role.main_path, "env", i)
        if name in known:
            _remove(part, name)
            draft.drop(path, "v1's operator overruled it")
            if name in RESERVED or name in MASTER:
                draft.say("RESERVED-ENV", path, f"{name} had no effect in v1: its operator set it too", severity="info")
        elif name in RESERVED:
            _reserved(draft, part, path, item)


def _reserved(draft: Draft, part: Part, path: tuple[str | int, ...], item: Mapping[str, Any]) -> None:
    same = {
        "PET_NNODES": str(draft.num_nodes),
        "PET_MASTER_PORT": str(PORT),
        "PET_MASTER_ADDR": address(draft, NODE, 0),
    }
    _remove(part, item["name"])
    if item.get("value") == same.get(item["name"]) or item.get("valueFrom") == INDEX:
        draft.drop(path, "Trainer sets the same")
    else:
        draft.refuse("RESERVED-ENV", path, f"Trainer sets {item['name']} itself and refuses it here")


def shim(draft: Draft, part: Part, processes: int, *, rank: bool) -> None:
    """v1's variables, for every container of the part: what torchrun's children would overrule does no harm.

    Args:
        draft: with name and numNodes.
        part: of the nodes.
        processes: of one node, as v1 counted them for WORLD_SIZE.
        rank: the variables of the rendezvous, else PYTHONUNBUFFERED alone.
    """
    for container in part.spec["containers"]:
        made: list[dict[str, Any]] = [{"name": "PYTHONUNBUFFERED", "value": "1"}]
        if rank:
            if not draft.name:
                made.append({"name": "TRAINJOB_NAME", "valueFrom": JOB_NAME})
            world = draft.num_nodes if processes == 1 else int(draft.num_nodes) * processes
            made += [
                {"name": "MASTER_ADDR", "value": address(draft, NODE, 0)},
                {"name": "MASTER_PORT", "value": str(PORT)},
                {"name": "WORLD_SIZE", "value": str(world)},
                {"name": "RANK", "valueFrom": INDEX},
            ]
        names = [item["name"] for item in made]
        held = [item for item in container.get("env") or () if item["name"] not in names]
        container["env"] = [*held, *made]


def inject(draft: Draft, part: Part) -> None:
    """Trainer gives PET_* to ``node`` alone, v1 gave it to all containers: those that ask for it are named.

    Trainer 2.3 has the field for it (torch.envInjection).
    """
    asking = []
    for container in part.spec["containers"]:
        values = (str(item.get("value") or "") for item in container.get("env") or ())
        texts = [*(container.get("command") or ()), *(container.get("args") or ()), *values]
        if container["name"] != NODE and any("PET_" in text for text in texts):
            asking.append(container["name"])
    if asking and draft.options.trainer_version < "2.3":
        names = ", ".join(asking)
        draft.say("SIDECAR", ("spec",), f"{names} asks for PET_*, which Trainer gives to no sidecar before 2.3")
    elif asking:
        target = {"jobName": part.name, "containerNames": asking}
        draft.policy["torch"] = {"envInjection": {"targets": [target]}}


def rendezvous(draft: Draft, part: Part, elastic: Mapping[str, Any]) -> None:
    """The variables of an elastic job that is pinned to one number of nodes."""
    path = ("spec", "elasticPolicy")
    host, port = elastic.get("rdzvHost"), elastic.get("rdzvPort")
    first = f"{draft.job.name}-worker-0"
    backend = str(elastic.get("rdzvBackend") or "c10d")
    if host in (None, first):
        place = f"{address(draft, NODE, 0)}:{port or PORT}"
    else:
        place = f"{host}:{port or draft.job.kind.port[1]}"
    if backend != "c10d":
        draft.say(
            "RDZV-ENDPOINT", (*path, "rdzvBackend"), f"{backend} has to be reachable at {place}", severity="warning"
        )
    if not draft.name and host is None:
        draft.env(part, "TRAINJOB_NAME", JOB_NAME)
    made = {"PET_RDZV_BACKEND": backend, "PET_RDZV_ENDPOINT": place, **_elastic_extras(elastic)}
    for name, value in made.items():
        draft.env(part, name, value)
    for field, name in _FIELDS.items():
        if field in elastic and name not in made:
            draft.drop((*path, field), "the default")
        draft.link((*path, field), main(part, "env", Key(name), "value"), f"in {name}", exact=False)
    if backend == "c10d":
        draft.say("RDZV-ENDPOINT", path, f"nodes meet at {place}, said by PET_RDZV_ENDPOINT as in v1")


_FIELDS: Final = {
    "rdzvBackend": "PET_RDZV_BACKEND",
    "rdzvHost": "PET_RDZV_ENDPOINT",
    "rdzvPort": "PET_RDZV_ENDPOINT",
    "rdzvId": "PET_RDZV_ID",
    "rdzvConf": "PET_RDZV_CONF",
    "maxRestarts": "PET_MAX_RESTARTS",
    "standalone": "PET_STANDALONE",
}


def _elastic_extras(elastic: Mapping[str, Any]) -> dict[str, str]:
    made: dict[str, str] = {}
    if elastic.get("maxRestarts") is not None:
        made["PET_MAX_RESTARTS"] = str(elastic["maxRestarts"])
    if elastic.get("rdzvId") is not None:
        made["PET_RDZV_ID"] = str(elastic["rdzvId"])
    if elastic.get("rdzvConf"):
        made["PET_RDZV_CONF"] = ",".join(f"{one.get('key')}={one.get('value')}" for one in elastic["rdzvConf"])
    if elastic.get("standalone"):
        made["PET_STANDALONE"] = ""
    return made


def _remove(part: Part, name: str) -> None:
    held = part.container.get("env")
    if held is None:
        return
    held[:] = [item for item in held if item["name"] != name]
    if not held:
        del part.container["env"]
