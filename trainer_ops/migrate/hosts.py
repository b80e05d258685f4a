"""Addresses: v1's pods by name in commands and variables become v2's."""

from __future__ import annotations

import re
from collections.abc import Callable

from trainer_ops.migrate.draft import Draft, Part
from trainer_ops.migrate.places import Key

__all__ = ["address", "rewrite_hosts"]


def address(draft: Draft, part: str, index: int) -> str:
    """The address of a pod within its namespace; of a job with generateName, by the variable ``TRAINJOB_NAME``."""
    name = draft.name or "$(TRAINJOB_NAME)"
    return f"{name}-{part}-0-{index}.{name}"


def rewrite_hosts(draft: Draft, target: Callable[[str, int], tuple[str, int] | None]) -> None:
    """v1's host names in command, args and env of all containers.

    Args:
        draft: with its parts, after ``metadata.name``.
        target: (canonical role, index) -> (part, index) of the pod that it is now; None: no such pod.
    """
    job = draft.job
    if not job.name or not draft.name:
        return
    roles = {role.lower(): role for role in job.kind.roles}
    pattern = re.compile(
        rf"(?<![A-Za-z0-9.-]){re.escape(job.name)}-(?:({'|'.join(roles)})-(\d+)|(launcher)(?!-))"
        rf"(?:\.{re.escape(job.name)})?"
        rf"((?:\.{re.escape(job.namespace or 'default')})(?:\.svc(?:\.[a-z0-9-]+)*)?)?(?![A-Za-z0-9-]|\.[A-Za-z])"
    )

    def replaced(match: re.Match[str]) -> str:
        # The one pod that has no number in its name.
        name, index = ("Launcher", 0) if match[3] else (roles[match[1]], int(match[2]))
        found = target(name, index) if _was_there(draft, name, index) else None
        return match[0] if found is None else address(draft, *found) + (match[4] or "")

    for part in draft.parts:
        for kind in ("initContainers", "containers"):
            for container in part.spec.get(kind) or ():
                _container(draft, part, kind, container, lambda text: pattern.sub(replaced, text))


def _was_there(draft: Draft, name: str, index: int) -> bool:
    """Whether v1 had such a pod; an elastic job may have had any."""
    role = draft.job.role(name)
    if role is None or isinstance(role.replicas, str) or draft.job.spec.get("elasticPolicy"):
        return role is not None
    return index < role.replicas


def _container(draft: Draft, part: Part, kind: str, container: dict[str, object], change: Callable[[str], str]) -> None:
    here = (part.name, kind, Key(container.get("name")))
    place = part.place("spec", *here[1:])
    for field in ("command", "args"):
        texts = container.get(field)
        for i, text in enumerate(texts if isinstance(texts, list) else ()):
            made = change(text)
            if made != text:
                texts[i] = made  # type: ignore[index]
                _told(draft, (*place, field, i), text, made)
    for item in container.get("env") or ():  # type: ignore[attr-defined]
        value: str | None = item.get("value")
        if value is not None and change(value) != value:
            item["value"] = change(value)
            _told(draft, (*place, "env", Key(item["name"]), "value"), value, item["value"])


def _told(draft: Draft, place: tuple[str | int | Key, ...], old: str, new: str) -> None:
    draft.rewrote(place, "names v2's pods now")
    path = next((link.path for link in draft.links if place[: len(link.place)] == link.place), ("spec",))
    draft.say("HOST-LITERAL", path, f"{_short(old)} is {_short(new)} now")


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:77]}…")
