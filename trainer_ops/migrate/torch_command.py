"""What starts a PyTorchJob's training, and what of it has to be written otherwise for Trainer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from trainer_ops.migrate.commands import Launch, Line, Option, Word, launches, mentions, option, options
from trainer_ops.migrate.draft import Draft, Part, main
from trainer_ops.migrate.torch_env import MASTER

__all__ = ["ARITY", "Start", "look", "set_processes", "to_torchrun", "to_trainer_variables", "write"]

ARITY: Final = {"--standalone": 0, "--no_python": 0, "--run_path": 0, "--use_env": 0, "-m": 0, "--module": 0}
"""Options of torchrun without a value; with ``-m`` the options end."""

_ELASTIC: Final = ("torchrun", "launch")
# Programs beside the training's that look at no rank.
_QUIET: Final = (
    *(".", ":", "[", "[[", "apt", "apt-get", "cat", "cd", "chmod", "conda", "cp", "curl", "date", "df"),
    *("do", "done", "echo", "exit", "export", "fi", "free", "git", "hostname", "id", "ln", "ls", "mkdir"),
    *("mv", "nproc", "nvidia-smi", "pip", "pip3", "printenv", "printf", "pwd", "rm", "set", "sleep"),
    *("source", "sync", "tar", "test", "then", "touch", "trap", "true", "ulimit", "uname", "unset"),
    *("unzip", "wait", "wget", "whoami", "{", "}"),
)
_IN_TRAINER: Final = {
    "MASTER_ADDR": "PET_MASTER_ADDR",
    "MASTER_PORT": "PET_MASTER_PORT",
    "RANK": "PET_NODE_RANK",
    "WORLD_SIZE": "PET_NNODES",
}


@dataclass(frozen=True, slots=True)
class Start:
    """What a container starts.

    Attributes:
        line: its command and args.
        launch: the launcher, else the python program, else None.
        torchrun: the training is started by torchrun or torch.distributed.launch.
        seen: what starts the training is known: no script and no entry point of the image in between.
        needs_rank: something looks, or may look, at v1's RANK, WORLD_SIZE, MASTER_ADDR or MASTER_PORT.
    """

    line: Line
    launch: Launch | None
    torchrun: bool
    seen: bool
    needs_rank: bool


def look(part: Part) -> Start:
    """At the main container of a part."""
    container = part.container
    line = Line.of(container)
    found = launches(line)
    launch = next((one for one in found if one.program not in ("python", "other")), None)
    launch = launch or next((one for one in found if one.program == "python"), None)
    torchrun = launch is not None and launch.program in _ELASTIC and line.split > 0
    loud = [one for one in found if one is not launch and not _quiet(one)]
    texts = [*line.argv, *(str(item.get("value") or "") for item in container.get("env") or ())]
    asks = any(mentions(texts, name) for name in MASTER)
    return Start(line, launch, torchrun, line.split > 0 and launch is not None, asks or not torchrun or bool(loud))


def write(draft: Draft, part: Part, line: Line, reason: str) -> None:
    """Give the main container another command line."""
    container = part.container
    for field, texts in (("command", line.command), ("args", line.args)):
        if texts != list(container.get(field) or ()):
            if texts:
                container[field] = texts
            else:
                container.pop(field, None)
            draft.rewrote(main(part, field), reason)


def set_processes(draft: Draft, part: Part, value: str, start: Start) -> Start:
    """``--nproc_per_node`` on torchrun's command line, unless it is there already."""
    if not start.torchrun or start.launch is None:
        return start
    if option(options(start.launch, ARITY), "--nproc_per_node") is None:
        head = start.launch.words[start.launch.head - 1]
        write(draft, part, start.line.insert(head, [f"--nproc_per_node={value}"]), "nprocPerNode is an option now")
    return look(part)


def to_torchrun(draft: Draft, part: Part, start: Start) -> Start:
    """A plain ``python script`` started by torchrun instead."""
    launch = start.launch
    if launch is None or launch.program != "python" or not start.seen:
        return start
    flags = _python_flags(launch.words)
    if flags is None:
        return start
    line = start.line.remove(flags)
    line = line.put(launch.words[0], "torchrun")
    write(draft, part, line, "started by torchrun now")
    draft.say("TORCHRUN-FLAGS", ("spec",), "the script is started by torchrun, one process for each GPU of a node")
    return look(part)


def to_trainer_variables(draft: Draft, part: Part, start: Start, *, names: Sequence[str]) -> Start:
    """``$RANK`` and its like in the options of a launcher become what Trainer sets."""
    if start.launch is None or not names:
        return start
    line, changed = start.line, False
    for word in reversed(start.launch.words):
        text = line.argv[word.item][word.start : word.end] if word.shell else word.text
        made = _renamed(text, names)
        if made != text:
            line, changed = line.put(word, made), True
    if changed:
        write(draft, part, line, "Trainer's variables instead of v1's")
        draft.say("TORCHRUN-FLAGS", ("spec",), f"{', '.join(names)} in the command: {_new(names)} now")
    return look(part)


def number_of_nodes(start: Start) -> tuple[Option | None, Callable[[str], Line] | None]:
    """torchrun's ``--nnodes`` and how to write another value."""  # noqa: D403
    if not start.torchrun or start.launch is None:
        return None, None
    found = option(options(start.launch, ARITY), "--nnodes")
    if found is None:
        return None, None
    word: Word = found.words[-1]
    prefix = f"{found.name}=" if len(found.words) == 1 else ""
    return found, lambda text: start.line.put(word, prefix + text)


def _quiet(launch: Launch) -> bool:
    if launch.head == 0 or not launch.words:
        return True
    text = launch.texts[0].rpartition("/")[2]
    return text in _QUIET or (launch.program == "python" and launch.texts[1:3] == ("-m", "pip"))


def _python_flags(words: Sequence[Word]) -> list[Word] | None:
    """Words between ``python`` and its script or ``-m``; None when there is neither."""
    flags: list[Word] = []
    for word in words[1:]:
        if word.text == "-m" or not word.text.startswith("-"):
            return flags
        if word.text.startswith(("-c", "-W", "-X", "-")) and word.text in ("-c", "-", "-W", "-X"):
            return None
        flags.append(word)
    return None


def _renamed(text: str, names: Sequence[str]) -> str:
    for name in names:
        new = _IN_TRAINER[name]
        text = re.sub(rf"\$\({name}\)", f"$({new})", text)
        text = re.sub(rf"\$\{{{name}(?=[}}:])", f"${{{new}", text)
        text = re.sub(rf"\${name}\b", f"${new}", text)
    return text


def _new(names: Sequence[str]) -> str:
    return ", ".join(_IN_TRAINER[name] for name in names)
