"""What a stock runtime can carry: ``spec.trainer`` and ``runtimePatches``, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from trainer_ops.migrate import fields
from trainer_ops.migrate.draft import NODE, Draft, Part, main
from trainer_ops.migrate.paths import Path
from trainer_ops.migrate.places import Place

__all__ = ["Need", "in_trainer", "needs"]

_MAX_ITEMS: Final = 128
_MAX_IMAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that only a runtime of the job's own can have.

    Attributes:
        path: in the v1 job, of what asks for it.
        what: a few words.
    """

    path: Path
    what: str


def in_trainer(part: Part) -> tuple[str, ...]:
    """The fields of the main container that spec.trainer can say; the others stay in the runtime."""
    held = part.container
    return tuple(
        name
        for name in fields.TRAINER
        if name in held
        and name not in part.kept
        and not (name in ("command", "args", "env") and len(held[name]) > _MAX_ITEMS)
        and not (name == "image" and len(held[name]) > _MAX_IMAGE)
        and not (name == "resources" and held[name].get("claims"))
    )


def _none_shipped(draft: Draft) -> str:
    if "mpi" in draft.policy:
        return "the workers' image and command: spec.trainer gives those of Trainer's own MPI runtimes neither"
    kind = "one plain pod" if draft.job.kind.name == "MPIJob" else draft.job.kind.name
    return f"a runtime for {kind}: Trainer ships none"


def needs(draft: Draft) -> tuple[Need, ...]:
    """All reasons for a runtime of the job's own, () when a stock one carries the job."""
    found: list[Need] = []
    if not draft.stock:
        found.append(Need(("kind",), _none_shipped(draft)))
    if len(draft.parts) > 1:
        found.append(Need(("spec",), "more than one kind of pod"))
    for name in draft.jobset["spec"]:
        found.append(_need(draft, ("jobset", "spec", name), f"{name} of the JobSet"))
    for name in draft.runtime:
        found.append(_need(draft, ("runtime", name), name))
    for part in draft.parts:
        found.extend(_of_job(draft, part))
        found.extend(_of_pod(draft, part))
        found.extend(_of_container(draft, part))
    return tuple(found)


def _of_job(draft: Draft, part: Part) -> Iterator[Need]:
    for name in part.job:
        place: Place = ("job", part.name, name)
        if place not in draft.stock_places:
            yield _need(draft, place, f"{name} of the Job")


def _of_pod(draft: Draft, part: Part) -> Iterator[Need]:
    for name, value in part.spec.items():
        place = part.place("spec", name)
        since = fields.POD_PATCH.get(name)
        if place in draft.stock_places or name == "containers" or (since and since <= draft.options.trainer_version):
            continue
        if name == "initContainers" and not value:
            continue
        yield _need(draft, place, f"{name} of the pods")


def _of_container(draft: Draft, part: Part) -> Iterator[Need]:
    for container in part.spec.get("containers") or ():
        if container.get("name") != NODE:
            yield _need(draft, part.place("spec", "containers"), f"the container {container.get('name')}")
    movable = in_trainer(part)
    mounted = [mount.get("name") for mount in part.container.get("volumeMounts") or ()]
    for name in part.container:
        if name in movable or (name in fields.CONTAINER_PATCH and not (name == "volumeMounts" and _twice(mounted))):
            continue
        what = "a volume mounted twice" if name == "volumeMounts" else f"{name} of the container"
        yield _need(draft, main(part, name), what)


def _twice(names: list[object]) -> bool:
    return len({str(name) for name in names}) < len(names)


def _need(draft: Draft, place: Place, what: str) -> Need:
    """With the path of the v1 leaf that went to this place."""
    size = len(place)
    near = (link.path for link in draft.links if link.place[:size] == place or place[: len(link.place)] == link.place)
    return Need(next(near, ("spec",)), what)
