"""Rules about parts of a pod that patches and runtimes share: mounts, volumes, tolerations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from trainer_ops.validate.findings import Finding, error, warning
from trainer_ops.validate.peek import items, mapping, named, repeated, show, text

__all__ = ["mounts", "sources_of", "tolerations", "volumes"]


def sources_of(volume: Mapping[Any, Any]) -> list[str]:
    """Where a volume comes from: the names of its fields but ``name``."""
    return sorted(str(key) for key, held in volume.items() if key != "name" and held is not None)


def volumes(held: Any, path: str, base: Mapping[str, list[str]] | None = None) -> Iterator[Finding]:
    """Where each volume comes from; ``base`` has the sources of volumes that it will be merged with.

    A volume without one becomes an emptyDir.
    """
    for i, name, volume in named(held):
        own = sources_of(volume)
        inherited = (base or {}).get(name, [])
        if len(own) > 1:
            reason = f"{show(name)} has {' and '.join(own)}, which exclude each other"
            yield error("volume-source", f"{path}[{i}]", reason, "Keep one of them")
        elif not own and not inherited:
            reason = f"{show(name)} does not say where it comes from, and will be an empty folder"
            yield warning("volume-source", f"{path}[{i}]", reason, "Give a source; emptyDir: {} if that is meant")
        elif inherited and own and own != inherited:
            reason = f"{show(name)} is {', '.join(inherited)} in the runtime: merged it would have two sources"
            yield error("volume-source", f"{path}[{i}]", reason, "Give it another name")


def mounts(held: Any, path: str, known: Collection[str] | None) -> Iterator[Finding]:
    """Paths of one container's mounts, and that their volumes are there; ``known`` None: not to be judged."""
    paths = [text(mapping(item).get("mountPath")) for item in items(held)]
    for twice in repeated(one for one in paths if one):
        yield error("mount-path", path, f"mounts two volumes at {show(twice)}", "Give each its own path")
    for i, one in enumerate(paths):
        if ":" in one:
            yield error("mount-path", f"{path}[{i}].mountPath", f"{show(one)} has a colon in it", "Use a path without")
    for i, name, _ in named(held):
        if known is not None and name not in known:
            reason = f"there is no volume {show(name)} in this pod"
            yield error("mount-without-volume", f"{path}[{i}].name", reason, "Add it to volumes beside containers")


def tolerations(held: Any, path: str) -> Iterator[Finding]:
    """What does not go together in a toleration."""
    for i, raw in enumerate(items(held)):
        one = mapping(raw)
        operator, where = one.get("operator") or "Equal", f"{path}[{i}]"
        if operator == "Exists" and text(one.get("value")):
            yield error(
                "toleration", f"{where}.value", "is given with operator Exists", "Leave value out, or use Equal"
            )
        if operator != "Exists" and not text(one.get("key")):
            yield error(
                "toleration", f"{where}.key", "is empty without operator Exists", "Give key, or operator Exists"
            )
        if one.get("tolerationSeconds") is not None and one.get("effect") != "NoExecute":
            reason = "is given without effect NoExecute"
            yield error("toleration", f"{where}.tolerationSeconds", reason, "Leave it out, or give effect: NoExecute")
