"""How the launcher of an MPIJob reaches its workers: keys that ssh takes, and an sshd that knows them.

Trainer mounts the private key with mode 0640 and owned by root. ssh refuses a key of its own user that others may
read, so root cannot use it where it is; another user can, when its group may read it (fsGroup). v1 mounted it 0600.
Seen on Kubernetes 1.36 with Trainer 2.3.0 and mpi-operator 0.8.0.
"""

from __future__ import annotations

from typing import Any, Final

from trainer_ops.migrate import shims
from trainer_ops.migrate.commands import Launch, Line, launches
from trainer_ops.migrate.draft import Draft, Part
from trainer_ops.migrate.mpi_command import waits
from trainer_ops.migrate.normalise import Role
from trainer_ops.migrate.pods import names_of
from trainer_ops.migrate.torch_command import write

__all__ = ["ROOT", "keys_for", "servers", "user_of"]

ROOT: Final = "/root/.ssh"
"""Where v1's operator mounted the keys when nothing was said."""

_ASIDE: Final = ("/mnt/ssh", "/mnt/mpi-ssh", "/mnt/trainer-ssh")
_BEFORE: Final = (("exec",), ("nohup",), ("sudo",), ("then",), ("do",), ("tini",), ("dumb-init",))
_SSHD: Final = "/usr/sbin/sshd"
_GROUP: Final = 1000


def user_of(role: Role) -> int | None:
    """The user of the container with the code, None when the image says it."""
    for held in (role.container.get("securityContext"), role.pod.get("securityContext")):
        found = held.get("runAsUser") if isinstance(held, dict) else None
        if isinstance(found, int):
            return found
    return None


def servers(draft: Draft, part: Part, role: Role, *, by_exec: bool) -> None:
    """The workers' command.

    Args:
        draft: of the job.
        part: of the workers.
        role: of the workers.
        by_exec: v1 reached them by kubectl exec, so that they only had to be there.
    """
    path = (*role.main_path, "command")
    line = Line.of(role.container)
    nothing = not line.split if by_exec else not line.argv
    if by_exec and role.main != 0:
        _sleeps(draft, part, role)
    if nothing or (by_exec and waits(role)):
        container = part.container
        container["command"], container["args"] = [_SSHD], ["-De"]
        for field in ("command", "args"):
            draft.drop((*role.main_path, field), "workers slept until kubectl exec came; they run sshd now")
        was = "slept" if by_exec else "were given it by v1's operator"
        draft.say("MPI-SSHD-CMD", path, f"workers run {_SSHD} -De, said by the runtime: in v1 they {was}")
    elif by_exec and not any("sshd" in text for text in line.argv):
        message = "workers have to run sshd, which their command does not show"
        draft.say("MPI-SSHD-CMD", path, message, severity="warning", remedy="Let it start sshd")


def _sleeps(draft: Draft, part: Part, role: Role) -> None:
    """v1's operator let the first container sleep when it had no command, also where another one is the main one."""
    first = role.pod["containers"][0]
    if first.get("command"):
        return
    name = names_of(role)[0]
    held = next(container for container in part.spec["containers"] if container["name"] == name)
    held["command"], held["args"] = ["sleep"], ["365d"]
    draft.drop((*role.pod_path, "containers", 0, "args"), "v1's operator overruled it: the container sleeps")


def keys_for(draft: Draft, launcher: tuple[Role, Part], worker: tuple[Role, Part], mount: str) -> str:
    """Make the keys usable, and say where Trainer is to mount them.

    Args:
        draft: of the job, with the workers' command.
        launcher: role and part.
        worker: role and part.
        mount: where v1 mounted them.
    """
    if mount == ROOT and user_of(launcher[0]) in (None, 0):
        return _aside(draft, launcher, worker)
    for role, part in (launcher, worker):
        user = user_of(role)
        if user != 0:
            _readable(draft, role, part, user)
    if mount == ROOT:
        message = f"the ssh key in {ROOT} has mode 0640, where v1 gave it 0600"
        draft.say("MPI-KEYMODE", launcher[0].main_path, message, severity="info")
    return mount


def _readable(draft: Draft, role: Role, part: Part, user: int | None) -> None:
    held: dict[str, Any] = part.spec.setdefault("securityContext", {})
    if "fsGroup" in held:
        return
    held["fsGroup"] = user or _GROUP
    message = (
        f"fsGroup {held['fsGroup']} lets the user of the image read the ssh key, which Trainer mounts 0640 for root"
    )
    draft.say("MPI-KEYMODE", role.main_path, message, severity="info")


def _aside(draft: Draft, launcher: tuple[Role, Part], worker: tuple[Role, Part]) -> str:
    """Keys beside root's own folder: sshd is told where, and the launcher copies its key with a mode that ssh takes."""
    role, part = launcher
    taken = {
        mount.get("mountPath") for _, one in (launcher, worker) for mount in one.container.get("volumeMounts") or ()
    }
    mount = next(path for path in _ASIDE if path not in taken)
    script = f"mkdir -p {ROOT} && install -m 600 {mount}/id_rsa {ROOT}/id_rsa || exit"
    if not shims.wrap(draft, part, script, "behind a line of shell that copies the ssh key"):
        draft.refuse(
            "MPI-KEYMODE",
            role.main_path,
            "ssh as root refuses the key as Trainer mounts it, and nothing can be put before the image's entry point",
            remedy="Give the launcher its command, or run it as another user than root",
        )
        return mount
    message = (
        f"as root: Trainer mounts the ssh key at {mount}, and a line of shell before the launcher's command copies it"
    )
    draft.say("MPI-KEYMODE", role.main_path, message, remedy="The image needs sh and install, and sshd on the workers")
    _knows(draft, *worker, mount)
    return mount


def _knows(draft: Draft, role: Role, part: Part, mount: str) -> None:
    """Sshd has to find the public key."""
    line = Line.of(part.container)
    found = [one for one in launches(line) if _sshd(one) is not None]
    if len(found) == 1 and not any("authorizedkeysfile" in text.lower() for text in line.argv):
        at = _sshd(found[0])
        assert at is not None
        option = ["-o", f"AuthorizedKeysFile={mount}/authorized_keys"]
        word = found[0].words[at]
        if not word.shell and at + 1 < len(found[0].words) and found[0].texts[at + 1] == "-De":
            at, word = at + 1, found[0].words[at + 1]
        write(draft, part, line.insert(word, option), "sshd is told where the keys are")
        return
    script = f"mkdir -p {ROOT} && install -m 600 {mount}/authorized_keys {ROOT}/authorized_keys || exit"
    if not shims.wrap(draft, part, script, "behind a line of shell that copies the public key"):
        message = f"the image's entry point has to start sshd with -o AuthorizedKeysFile={mount}/authorized_keys"
        draft.say("MPI-KEYMODE", role.main_path, message, remedy="Give the workers their command")


def _sshd(one: Launch) -> int | None:
    """Index of the word that starts sshd, behind such as ``exec``."""
    at = 1 if one.texts[:1] in _BEFORE else 0
    return at if len(one.texts) > at and one.texts[at].rpartition("/")[2] == "sshd" else None
