"""Two roles of one rendezvous: the same pods, pods that differ in what they start, or other pods altogether.

For kinds whose roles become the nodes of one replicatedJob (PyTorch, XGBoost, Paddle): index 0 was the first role.
"""

from __future__ import annotations

import copy
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from trainer_ops.migrate import fields, pods, policy
from trainer_ops.migrate.draft import NODE, Draft, Part, main
from trainer_ops.migrate.ledger import Ledger
from trainer_ops.migrate.normalise import Role
from trainer_ops.migrate.paths import Path

__all__ = ["Difference", "differences", "join"]

_CODE: Final = ("command", "args", "env")


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which two roles differ.

    Attributes:
        topic: ``code`` (command, args, env of the main container), ``metadata``, ``restarts``, or ``pod``.
        where: in the pod template.
        first: of the first role, None when it has none.
        second: of the second role.
    """

    topic: str
    where: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return f"{self.where}: {_short(self.first)} and {_short(self.second)}"


def differences(
    draft: Draft, first: Role, second: Role, *, ignore: frozenset[str] = frozenset()
) -> tuple[Difference, ...]:
    """In what two roles differ, after what says nothing is left out: defaults, v1's ports and names, order of keys.

    Args:
        draft: of the job.
        first: one role.
        second: another.
        ignore: variables that had no effect in v1.
    """
    one, two = _plain(draft, first, ignore), _plain(draft, second, ignore)
    found = [
        Difference("metadata", f"metadata.{kind}.{key}", a.get(key), b.get(key))
        for kind in ("labels", "annotations")
        for a, b in [(one["metadata"].get(kind) or {}, two["metadata"].get(kind) or {})]
        for key in sorted(a.keys() | b.keys())
        if a.get(key) != b.get(key)
    ]
    main_one, main_two = one["main"], two["main"]
    for name in sorted(main_one.keys() | main_two.keys()):
        if main_one.get(name) != main_two.get(name):
            topic = "code" if name in ("argv", "env") else "pod"
            found.append(Difference(topic, f"the container's {name}", main_one.get(name), main_two.get(name)))
    rest_one, rest_two = one["spec"], two["spec"]
    for name in sorted(rest_one.keys() | rest_two.keys()):
        if rest_one.get(name) != rest_two.get(name):
            found.append(Difference("pod", f"spec.{name}", rest_one.get(name), rest_two.get(name)))
    if first.restart_policy != second.restart_policy:
        found.append(Difference("restarts", "restartPolicy", first.restart_policy, second.restart_policy))
    return tuple(found)


def join(
    draft: Draft, part: Part, first: Role, second: Role, *, rank: str, ignore: frozenset[str] = frozenset()
) -> bool:
    """Fill the part with what both roles are; False when they cannot be one and the draft has the refusal.

    Args:
        draft: of the job.
        part: empty.
        first: the role of index 0.
        second: the role of all other indexes.
        rank: the variable with the index, which Trainer sets: it tells the roles apart in a script.
        ignore: variables that had no effect in v1.
    """
    found = differences(draft, first, second, ignore=ignore)
    topics = {difference.topic for difference in found}
    if topics <= {"metadata"}:
        _metadata(draft, part, first, second, found)
        return True
    if topics <= {"metadata", "code"} and draft.options.role_branch:
        return _branch(draft, part, (first, second), rank, ignore)
    if draft.options.template_from is None:
        shown = "; ".join(str(difference) for difference in found)
        flags = "--template-from master or worker" + (", or --role-branch" if topics <= {"metadata", "code"} else "")
        draft.refuse("ROLE-DIFF", first.path, f"{first.name} and {second.name} differ: {shown}", remedy=f"Give {flags}")
        return False
    taken, left = (second, first) if draft.options.template_from == second.name.lower() else (first, second)
    draft.say(
        "ROLE-DIFF",
        left.path,
        f"all nodes are {taken.name}'s pods now; {left.name}'s differ: {'; '.join(map(str, found))}",
        severity="warning",
        remedy="",
    )
    _fill(draft, part, taken, left, f"{taken.name}'s template is taken for all nodes")
    draft.agree(replace(left, template=taken.template, main=taken.main, restart_policy=taken.restart_policy))
    return True


def _fill(draft: Draft, part: Part, taken: Role, left: Role, reason: str) -> None:
    pods.carry(draft, taken, part)
    policy.restarts(draft, taken, part)
    pods.same(draft, left, part, reason)
    policy.same_restarts(draft, left, part, reason)


def _metadata(draft: Draft, part: Part, first: Role, second: Role, found: tuple[Difference, ...]) -> None:
    """Labels and annotations of both; where they contradict, the second role's, which has more pods."""
    _fill(draft, part, second, first, f"{second.name}'s value is taken")
    for difference in found:
        _, kind, key = difference.where.split(".", 2)
        held = part.pod["metadata"].setdefault(kind, {})
        if difference.second is None:
            held[key] = difference.first
            only = first.name
        elif difference.first is None:
            only = second.name
        else:
            message = f"{key} is {difference.first!r} here and {difference.second!r} of {second.name}, which is taken"
            path: Path = (*first.template_path, "metadata", kind, key)
            draft.say("ROLE-DIFF", path, message, severity="warning", remedy="")
            continue
        role = first if only == first.name else second
        path = (*role.template_path, "metadata", kind, key)
        draft.say("ROLE-DIFF", path, f"{key} is of {only} only, and of all nodes now", severity="info", remedy="")
    for role in (first, second) if found else ():
        draft.agree(replace(role, template={**role.template, "metadata": copy.deepcopy(part.pod["metadata"])}))


def _branch(draft: Draft, part: Part, roles: tuple[Role, Role], rank: str, ignore: frozenset[str]) -> bool:
    """One script that starts what the pod's role started."""
    first, second = roles
    for role in roles:
        if not role.container.get("command"):
            where = (*role.main_path, "command")
            draft.refuse("ROLE-DIFF", where, "a script cannot start an image's own entry point: give command")
            return False
    env = [_variables(role, ignore) for role in roles]
    apart = [n for n in dict.fromkeys((*env[0], *env[1])) if env[0].get(n) != env[1].get(n)]
    for role, held in zip(roles, env, strict=True):
        for name in apart:
            if "valueFrom" in held.get(name, {}):
                draft.refuse(
                    "ROLE-DIFF", (*role.main_path, "env"), f"{name} comes from elsewhere, which no script can say"
                )
                return False
    reason = f"in a script that branches by {rank}"
    for role in roles:
        _link_branch(draft, part, role, apart, reason)
    _metadata(
        draft,
        part,
        first,
        second,
        tuple(d for d in differences(draft, first, second, ignore=ignore) if d.topic == "metadata"),
    )
    arms = [_arm(role, held, apart) for role, held in zip(roles, env, strict=True)]
    script = f'if [ "${rank}" = 0 ]; then\n{arms[0]}else\n{arms[1]}fi\n'
    container = part.container
    container["command"] = ["sh", "-c", script]
    container.pop("args", None)
    kept = [item for item in container.get("env") or () if item["name"] not in apart]
    container["env"] = kept
    if not kept:
        del container["env"]
    for role in roles:
        draft.agree(_started(draft.agreed.get(role.name, role), script, apart))
    draft.say(
        "ROLE-DIFF", first.path, f"both roles are started {reason}; the image needs sh", severity="warning", remedy=""
    )
    return True


def _link_branch(draft: Draft, part: Part, role: Role, apart: list[str], reason: str) -> None:
    place = main(part, "command")
    for field in ("command", "args"):
        draft.link((*role.main_path, field), place, reason, exact=False)
    for i, item in enumerate(role.container.get("env") or ()):
        if item["name"] in apart:
            draft.link((*role.main_path, "env", i), place, reason, exact=False)


def _started(role: Role, script: str, apart: list[str]) -> Role:
    """The role with that script for its command, which exports the variables."""
    template = copy.deepcopy(dict(role.template))
    container = template["spec"]["containers"][role.main]
    container.update(command=["sh", "-c", script], args=[])
    container["env"] = [item for item in container.get("env") or () if item["name"] not in apart]
    return replace(role, template=template)


def _arm(role: Role, env: Mapping[str, Any], apart: list[str]) -> str:
    lines = [f"  export {name}={shlex.quote(env[name].get('value') or '')}\n" for name in apart if name in env]
    argv = [*role.container["command"], *(role.container.get("args") or ())]
    return "".join(lines) + f"  exec {' '.join(shlex.quote(text) for text in argv)}\n"


def _variables(role: Role, ignore: frozenset[str]) -> dict[str, Any]:
    held = role.container.get("env") or ()
    return {item["name"]: pods.without_nulls(item) for item in held if item["name"] not in ignore}


def _plain(draft: Draft, role: Role, ignore: frozenset[str]) -> dict[str, Any]:
    """A role's pod template as a part would have it, in a form that compares equal when the pods are."""
    shadow = Draft(draft.job, Ledger({}), draft.options)
    part = shadow.add_part(NODE, trains=True)
    pods.carry(shadow, role, part)
    held = dict(part.container)
    command, args = held.pop("command", None), held.pop("args", None)
    # Without a command the entry point of the image comes first: the same args are another argv then.
    held["argv"] = [*command, *(args or ())] if command else {"args": args}
    env = [item for item in held.pop("env", ()) if item["name"] not in ignore]
    if env:
        held["env"] = env
    spec = {name: value for name, value in part.spec.items() if name != "containers"}
    spec["sidecars"] = [container for container in part.spec["containers"] if container is not part.container]
    return {"metadata": part.pod["metadata"], "main": _sorted(held), "spec": _sorted(spec)}


def _sorted(held: Mapping[str, Any]) -> dict[str, Any]:
    made = {}
    for name, value in held.items():
        key = fields.KEYED.get(name)
        made[name] = sorted(value, key=lambda item: str(item.get(key))) if key else value
    return made


def _short(value: Any) -> str:
    text = "nothing" if value in (None, {}, []) else str(value)
    return text if len(text) <= 120 else f"{text[:117]}…"
