"""What starts the ranks of an MPIJob: mpirun, horovodrun, a script, or a person.

Sources: Open MPI 4.1 ``mpirun(1)``, PRRTE 3 ``prterun(1)``; horovod 0.28 ``horovodrun --help``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainer_ops.migrate import shims
from trainer_ops.migrate.commands import Launch, Line, Option, launches, mentions, option, options
from trainer_ops.migrate.draft import Draft, Part
from trainer_ops.migrate.normalise import Role
from trainer_ops.migrate.paths import Path
from trainer_ops.migrate.torch_command import write
from trainer_ops.model import keys

__all__ = ["ARITY", "HOSTFILE", "HOSTS", "elastic", "ranks", "refers_to_role", "waits"]

HOSTFILE: Final = keys.HOSTFILE_PATH
"""The same path in mpi-operator, training-operator and Trainer."""

_FLAGS: Final = (
    *("allow-run-as-root", "bynode", "byslot", "bycore", "continuous", "d", "debug-daemons", "debug-devel"),
    *("disable-recovery", "display-allocation", "display-devel-allocation", "display-devel-map"),
    *("display-diffable-map", "display-map", "display-topo", "do-not-launch", "do-not-resolve", "enable-recovery"),
    *("get-stack-traces", "h", "help", "index-argv-by-rank", "leave-session-attached", "merge-stderr-to-stdout"),
    *("no-oversubscribe", "nolocal", "nooversubscribe", "novm", "oversubscribe", "overload-allowed", "pernode", "q"),
    *("quiet", "report-bindings", "report-child-jobs-separately", "report-state-on-timeout", "s", "tag-output"),
    *("timestamp-output", "tv", "use-hwthread-cpus", "use-regexp", "V", "v", "verbose", "version", "xml"),
)
_PAIRS: Final = ("mca", "gmca", "omca", "prtemca", "pmixmca", "gomca", "gprtemca", "gpmixmca")
ARITY: Final = {
    **{f"{dash}{name}": 0 for name in _FLAGS for dash in ("-", "--")},
    **{f"{dash}{name}": 2 for name in _PAIRS for dash in ("-", "--")},
}
HOSTS: Final = (
    *("-H", "-host", "--host", "-hostfile", "--hostfile", "-machinefile", "--machinefile"),
    *("-default-hostfile", "--default-hostfile"),
)
_NUMBER: Final = ("-np", "--np", "-n", "--n", "-c")
_MORE: Final = ("-oversubscribe", "--oversubscribe", "-overload-allowed", "--overload-allowed")
_MCA_HOSTFILES: Final = ("orte_default_hostfile", "prte_default_hostfile")
_HOROVOD_FLAGS: Final = {"--verbose": 0, "--gloo": 0, "--mpi": 0, "--jsrun": 0, "--disable-cache": 0, "-cb": 0}
_HOROVOD_HOSTS: Final = ("-H", "--hosts", "-hostfile", "--hostfile")
_DISCOVER: Final = "discover_hosts.sh"
# Words of a shell that do nothing but wait.
_IDLE: Final = (*("while", "until", "do", "done", "true", ":", "trap", "wait", "exec", "echo", "tail", "sleep"), "date")


def waits(role: Role) -> bool:
    """Whether the role's command does nothing but wait: for people who start mpirun in it, or for kubectl exec."""
    found = launches(Line.of(role.container))
    words = [text.rpartition("/")[2] for one in found for text in one.texts]
    idle = all(one.texts[0].rpartition("/")[2] in _IDLE for one in found if one.texts)
    return idle and ("sleep" in words or ("tail" in words and "null" in words))


def elastic(draft: Draft, role: Role) -> bool:
    """Refuse elastic Horovod: nothing in v2 keeps a list of the hosts that there are at the moment."""
    container = role.container
    texts = [*Line.of(container).argv, *(str(item.get("value") or "") for item in container.get("env") or ())]
    if not any(_DISCOVER in text or "--host-discovery-script" in text for text in texts):
        return False
    draft.refuse(
        "MPI-HOROVOD-ELASTIC",
        role.main_path,
        "elastic Horovod asks discover_hosts.sh, which v1's operator kept up to date and nobody does now",
        remedy="Start horovodrun with -np and --hostfile /etc/mpi/hostfile",
    )
    return True


def ranks(draft: Draft, part: Part, role: Role, hosts: int | None, slots: int) -> None:
    """Look at what the launcher starts, and make it right for Trainer's hostfile.

    Args:
        draft: with the name decided.
        part: of the launcher.
        role: of the launcher.
        hosts: in the hostfile, None while a placeholder says it.
        slots: of each host.
    """
    path = (*role.main_path, "command")
    found = launches(Line.of(part.container))
    for one in found:
        if one.texts and one.texts[0].rpartition("/")[2] == "mpiexec.hydra":
            draft.refuse(
                "MPI-IMPL", path, "mpiexec.hydra is of MPICH and Intel MPI, and Trainer's runtimes start Open MPI"
            )
        if one.program == "horovodrun" and option(options(one, _HOROVOD_FLAGS), *_HOROVOD_HOSTS) is None:
            draft.refuse("MPI-HOROVOD-HOSTS", path, "horovodrun without hosts starts all processes in the launcher")
    if not any(one.program in ("mpirun", "horovodrun", "deepspeed") for one in found):
        shims.unseen(draft, role)
        return
    for one in found:
        if one.program == "mpirun":
            _number(draft, part, path, one, None if hosts is None else hosts * slots)
    _hostfile(draft, part, path)


def _mpiruns(part: Part) -> Iterator[tuple[Line, Launch, tuple[Option, ...]]]:
    line = Line.of(part.container)
    for one in launches(line):
        if one.program == "mpirun":
            yield line, one, options(one, ARITY)


def _hostfile(draft: Draft, part: Part, path: Path) -> None:
    """Name the hostfile where nothing names hosts: Open MPI 5 does not read Trainer's variable."""
    while True:
        bare = next(((line, one) for line, one, found in _mpiruns(part) if not _names_hosts(found)), None)
        if bare is None:
            break
        line, one = bare
        write(
            draft, part, line.insert(one.words[one.head - 1], ["--hostfile", HOSTFILE]), "mpirun is given its hostfile"
        )
        message = f"mpirun is given --hostfile {HOSTFILE}, which Open MPI 4 would take anyway"
        draft.say("MPI-OMPI5", path, message)
    for _, _, found in _mpiruns(part):
        named = option(found, *HOSTS)
        if named is not None and "file" in named.name and named.value not in (HOSTFILE, ""):
            message = f"the hostfile {named.value} is not seen here: it has to name v2's pods"
            draft.say("HOST-LITERAL", path, message, severity="warning", remedy=f"Give --hostfile {HOSTFILE}")


def _names_hosts(found: tuple[Option, ...]) -> bool:
    if option(found, *HOSTS) is not None:
        return True
    return any(one.name.lstrip("-") in _PAIRS and one.value in _MCA_HOSTFILES for one in found)


def _number(draft: Draft, part: Part, path: Path, one: Launch, slots: int | None) -> None:
    """``-np`` and the slots of the hostfile. The number of ranks stays v1's: without ``-np`` it follows the slots."""
    found = options(one, ARITY)
    given = option(found, *_NUMBER)
    if given is None or slots is None or ":" in one.texts:
        return
    text = given.value
    if not (text.isascii() and text.isdigit()):
        draft.say("MPI-NP", path, f"{given.name} {text} is worked out when it runs; the hostfile has {slots} slots")
        return
    number = int(text)
    if number > slots and option(found, *_MORE) is None:
        message = f"{number} ranks and {slots} slots: mpirun refuses, as in v1, unless --oversubscribe is given"
        draft.say("MPI-NP", path, message, severity="warning")
    elif number < slots:
        draft.say("MPI-NP", path, f"{number} ranks on {slots} slots, as in v1: {given.name} is kept")
    elif number == slots and draft.options.drop_np:
        line = Line.of(part.container)
        write(
            draft, part, line.remove(given.words), f"{given.name} says what the hostfile says, and is left out as asked"
        )
        draft.say("MPI-NP", path, f"{given.name} {number} is left out: one rank for each slot")


def refers_to_role(*roles: Role) -> bool:
    """Whether something in the job looks at ``K_MPI_JOB_ROLE``, which mpi-operator sets."""
    texts = [text for role in roles for text in Line.of(role.container).argv]
    texts += [str(item.get("value") or "") for role in roles for item in role.container.get("env") or ()]
    return mentions(texts, "K_MPI_JOB_ROLE") or any("K_MPI_JOB_ROLE" in text for text in texts)
