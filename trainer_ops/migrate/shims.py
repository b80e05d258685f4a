"""What v1's operators gave to the code and Trainer does not: variables, and lines of shell before a command.

An operator appends its variables to those of the job, and of two with one name Kubernetes takes the last: a job's own
variable of such a name had no effect in v1, and has none here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from trainer_ops.migrate.commands import Line, launches
from trainer_ops.migrate.draft import Draft, Part, main
from trainer_ops.migrate.normalise import Role
from trainer_ops.migrate.places import Key

__all__ = [
    "INDEX",
    "JOB_NAME",
    "UNBUFFERED",
    "drop_variable",
    "give",
    "named_port",
    "number_of_pods",
    "overruled",
    "reserved",
    "unseen",
    "without",
    "wrap",
]

INDEX: Final = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
JOB_NAME: Final = {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/jobset-name']"}}
UNBUFFERED: Final[Mapping[str, Any]] = {"PYTHONUNBUFFERED": "1"}

# ``$(NAME)`` with what escapes it before: ``$$(NAME)`` is no reference.
_REFERENCE: Final = re.compile(r"(?<!\$)((?:\$\$)*)(\$\(([^()]+)\))")
# Behind the text of a ``sh -c``: what follows are the words of the command, as they were.
_EXEC: Final = 'exec "$@"'
_ZERO: Final = "sh"


def give(draft: Draft, part: Part, roles: Iterable[Role], made: Mapping[str, Any], *, everywhere: bool = True) -> None:
    """Give variables to the code, behind its own and in place of those that v1's operator overruled.

    Args:
        draft: with the name decided.
        part: whose containers get them.
        roles: that the part came from.
        made: name -> text, or the form of a ``valueFrom``; may refer to ``$(TRAINJOB_NAME)`` of a job without a name.
        everywhere: all containers get them, as from all operators but that of TFJobs.
    """
    for role in roles:
        overruled(draft, role, made, everywhere=everywhere)
    items: list[dict[str, Any]] = [] if draft.name else [{"name": "TRAINJOB_NAME", "valueFrom": JOB_NAME}]
    items += [
        {"name": name, **({"value": value} if isinstance(value, str) else {"valueFrom": dict(value)})}
        for name, value in made.items()
    ]
    names = {item["name"] for item in items}
    for container in part.spec["containers"] if everywhere else [part.container]:
        _remove(draft, part, container, names)
        container["env"] = [*container.get("env", ()), *(dict(item) for item in items)]


def overruled(draft: Draft, role: Role, names: Iterable[str], *, everywhere: bool = True) -> None:
    """Settle the job's own variables of these names: v1's operator set them too, and won."""
    wanted = set(names)
    for i, container in enumerate(role.pod["containers"]):
        if i != role.main and not everywhere:
            continue
        for k, item in enumerate(container.get("env") or ()):
            if item["name"] in wanted:
                path = (*role.pod_path, "containers", i, "env", k)
                draft.drop(path, "v1's operator overruled it")
                if item["name"] in UNBUFFERED:
                    continue
                message = f"{item['name']} had no effect in v1: its operator set it too"
                draft.say("RESERVED-ENV", path, message, severity="info", remedy="")


def number_of_pods(draft: Draft, roles: Iterable[Role], what: str) -> int | None:
    """How many pods roles have together; None with a refusal when a placeholder says it."""
    total = 0
    for role in roles:
        if isinstance(role.replicas, str):
            draft.refuse("PLACEHOLDER", (*role.path, "replicas"), f"{role.replicas} is no number, and {what} needs one")
            return None
        total += role.replicas
    return total


def named_port(draft: Draft, role: Role) -> int:
    """The port of v1's rendezvous: of the container's port with the kind's name, else the kind's default."""
    name, default = draft.job.kind.port
    found = next(
        (port.get("containerPort") for port in role.container.get("ports") or () if port.get("name") == name), None
    )
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def wrap(draft: Draft, part: Part, script: str, reason: str) -> bool:
    """Put lines of shell before the command, which stays as it is behind them.

    Args:
        draft: with the part.
        part: of which the main container's command is wrapped.
        script: shell, without what starts the command.
        reason: for the ledger.

    Returns:
        False, and nothing is changed, when there is no command: the image's own entry point cannot be started by a
        script that does not know it.
    """
    command = part.container.get("command")
    if not command:
        return False
    part.container["command"] = ["sh", "-c", f"{script}\n{_EXEC}", _ZERO, *command]
    draft.rewrote(main(part, "command"), reason)
    return True


def reserved(
    draft: Draft,
    part: Part,
    role: Role,
    names: Iterable[str],
    same: Mapping[str, Sequence[Any]],
    *,
    remedy: str | None = None,
) -> None:
    """Settle the job's own variables that Trainer sets itself, and refuses in ``spec.trainer.env``.

    Args:
        draft: with the part.
        part: of which they are taken out.
        role: that sets them.
        names: the variables.
        same: name -> values that are the same as what Trainer sets, as text or ``valueFrom``.
        remedy: what to do about one that is not the same.
    """
    wanted = set(names)
    for i, item in enumerate(role.container.get("env") or ()):
        name = item["name"]
        if name not in wanted:
            continue
        path = (*role.main_path, "env", i)
        drop_variable(draft, part, name)
        if item.get("value", item.get("valueFrom")) in same.get(name, ()):
            draft.drop(path, "Trainer sets the same")
        else:
            draft.refuse("RESERVED-ENV", path, f"Trainer sets {name} itself and refuses it here", remedy=remedy)


def drop_variable(draft: Draft, part: Part, *names: str) -> None:
    """Take variables out of the container with the code."""
    _remove(draft, part, part.container, set(names))


def _remove(draft: Draft, part: Part, container: dict[str, Any], names: Collection[str]) -> None:
    """Take variables out of a container; others that refer to them get their text, which they had from the job."""
    known: dict[str, str] = {}
    kept: list[dict[str, Any]] = []
    for item in container.get("env") or ():
        text = item.get("value")
        filled = None if text is None else _REFERENCE.sub(lambda match: match[1] + known.get(match[3], match[2]), text)
        if item["name"] in names:
            known[item["name"]] = filled or ""
            if "valueFrom" in item:
                del known[item["name"]]
            continue
        if filled != text:
            place = part.place("spec", "containers", Key(container["name"]), "env", Key(item["name"]), "value")
            draft.rewrote(place, "with the text of a variable that v1's operator set again behind it")
            item = {**item, "value": filled}
        kept.append(item)
    container.pop("env", None)
    if kept:
        container["env"] = kept


def unseen(draft: Draft, role: Role) -> None:
    """Say so when what starts the training cannot be looked into: a script, or the image's own entry point."""
    line = Line.of(role.container)
    if line.split and any(found.program != "other" for found in launches(line)):
        return
    what = "a script" if line.split else "the image's entry point"
    draft.say("UNSEEN-SCRIPT", role.main_path, f"{what} starts the training, and is not seen here")


def without(draft: Draft, part: Part, roles: Sequence[Role], names: Sequence[str]) -> None:
    """Give none of v1's variables, as asked by ``--no-env-shim``; the job's own of these names had no effect either."""
    for role in roles:
        overruled(draft, role, names)
    for container in part.spec["containers"]:
        _remove(draft, part, container, set(names))
    message = f"the code gets no {', '.join(name for name in names if name not in UNBUFFERED)}"
    draft.say("ENV-SHIM", roles[0].main_path, message, severity="warning", remedy="Leave --no-env-shim out")
