"""Every difference has a name: which finding of a conversion tells it. One that none tells is a fault of the rules.

``EXTRAS`` is the finding that is always there: pods' own names, v1's labels, and variables that only v1's operator
or Trainer itself has a use for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.normalise import V1Job
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.simulate.argv import told
from trainer_ops.migrate.simulate.compare import Difference
from trainer_ops.migrate.simulate.fleet import Fleet, SimContainer

__all__ = ["EXTRAS", "extras", "name", "told_of_roles"]

EXTRAS: Final = "V1-EXTRAS"

_ROLES: Final = "ROLE-DIFF"
_GONE: Final = ".*>"
_PORT: Final = r"\d+>29500"
_MASTER: Final = r"<status\.podIP>:\d+><\w+ 0>:\d+"
# (topic, what it is of, ``v1>v2``, the codes that tell it)
_TABLE: Final[tuple[tuple[str, str, str, tuple[str, ...]], ...]] = (
    ("nodes", ".*", ".*", ("ELASTIC-RANGE", "MPI-LAUNCHER-ONLY")),
    ("pods", ".*", ".*", ("ELASTIC-RANGE",)),
    ("totals", ".*", ".*", ("ELASTIC-RANGE",)),
    ("processes", ".*", r"auto>\d+", ("CPU-AUTO", "XPU-PROC", "TORCHRUN-FLAGS")),
    ("processes", ".*", r"(gpu|cpu)>\d+", ("NPROC-TEXT",)),
    ("processes", ".*", r"(auto|gpu|cpu)>\d+", ("UNSEEN-SCRIPT",)),
    ("processes", ".*", r"\d+>1", ("MPI-LAUNCHER-ONLY",)),
    ("hostfile", ".*", _GONE, ("MPI-LAUNCHER-ONLY",)),
    ("ranks", ".*", ".*", ("MPI-HOST-ORDER",)),
    ("environment", "PET_NNODES", r"[\d:]+>\d+", ("ELASTIC-RANGE",)),
    ("environment", "WORLD_SIZE|PADDLE_NNODES", r"\d+>\d+", ("ELASTIC-RANGE",)),
    ("environment", "PADDLE_JOB_ID", ".*", ("NAME-LEN",)),
    ("environment", "PET_RDZV_.*", ".*", ("RDZV-ENDPOINT",)),
    ("environment", "PADDLE_MASTER", _MASTER, ("PADDLE-MASTER",)),
    ("environment", "POD_IP_DUMMY", r".*><status\.podIP>", ("PADDLE-MASTER",)),
    ("environment", r"(TF_)?TASK_INDEX\w*", r">\d+", ("TF-CONFIG",)),
    ("environment", "OMPI_MCA_.*|NVIDIA_.*|HYDRA_.*|I_MPI_.*", _GONE, ("MPI-LAUNCHER-ONLY", "MPI-TRANSPORT")),
    ("environment", "OMPI_MCA_plm_rsh_args", ".*>.+", ("RESERVED-ENV",)),
    ("port", "(.*: )?PET_MASTER_PORT", _PORT, (EXTRAS,)),
    ("port", "(.*: )?MASTER_PORT", _PORT, ("ENV-SHIM",)),
    ("port", "(.*: )?PET_RDZV_ENDPOINT", r".*>.*:29500", ("RDZV-ENDPOINT",)),
    ("names", ".*", ".*", (EXTRAS,)),
    ("ssh", ".*", ".*", ("MPI-KEYMODE", "MPI-LAUNCHER-ONLY")),
    ("pod", "dnsPolicy", ".*", ("MPI-LAUNCHER-ONLY",)),
    ("pod", "serviceAccountName", ".*", ("MPI-TRANSPORT", "MPI-LAUNCHER-ONLY")),
    ("pod", "schedulerName", ">.+", ("SCHEDULER-NAME",)),
    ("pod", "priorityClassName", ">.+", ("GANG-PRIORITY",)),
    ("container", "readinessProbe", ".*", ("MPI-SSHD-CMD",)),
    ("sidecar", r".*: PET_\w+", _GONE, ("SIDECAR",)),
    ("sidecar", r".*: PADDLE_MASTER", _MASTER, ("PADDLE-MASTER",)),
    ("sidecar", r".*: POD_IP_DUMMY", r".*><status\.podIP>", ("PADDLE-MASTER",)),
    ("sidecar", r".*: PADDLE_JOB_ID", ".*", ("NAME-LEN",)),
    ("sidecar", r".*: (WORLD_SIZE|PADDLE_NNODES)", r"\d+>\d+", ("ELASTIC-RANGE",)),
    ("gang", ".*", ">.+", ("SCHEDULER-NAME",)),
    ("start", ".*", ".*", ("GANG-DEPENDS", "MPI-LAUNCHER-ONLY")),
    ("success", ".*", ".*", ("SUCCESS-RULE", "MPI-LAUNCHER-ONLY", "ELASTIC-RANGE")),
    ("cleanup", "ttl", ".*", ("TTL-RERUN",)),
    ("cleanup", "running pods", ".*", ("CLEANUP", "SUCCESS-RULE")),
    ("cleanup", "cleanup", ".*", ("CLEANUP",)),
    ("deadline", ".*", ".*", ("DEADLINE",)),
    ("restart", ".*", ".*", ("ALWAYS", "EXITCODE", "NEVER-BACKOFF0", "BACKOFF")),
    ("retries", ".*", ".*", ("BACKOFF", "NEVER-BACKOFF0", "ALWAYS", "EXITCODE")),
)
# What v1's operators gave to all containers and the code may look at: given on, unless the user wants it otherwise.
_GIVEN: Final = re.compile(
    r"MASTER_(ADDR|PORT)|RANK|WORLD_SIZE|PYTHONUNBUFFERED|TF_CONFIG|WORKER_(ADDRS|PORT)|COORDINATOR_(ADDRESS|PORT)"
    r"|NUM_PROCESSES|PROCESS_ID|PADDLE_\w+|POD_IP_DUMMY|NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES)|K_MPI_JOB_ROLE"
)
_TRANSPORT: Final = re.compile(r"K_MPI_JOB_ROLE|OMPI_MCA_plm_rsh_agent|I_MPI_HYDRA_BOOTSTRAP(_EXEC)?")
_RENDEZVOUS: Final = re.compile(r"MASTER_(ADDR|PORT)|RANK|WORLD_SIZE")
_NPROC: Final = re.compile(r"--nproc[_-]per[_-]node")
_TORCHRUN: Final = re.compile(r"torchrun|torch\.distributed\.(run|launch)")


def name(
    differences: Iterable[Difference], job: V1Job, options: Options, findings: Sequence[Finding], v2: Fleet
) -> tuple[Difference, ...]:
    """The same with the code that tells each; ``code`` stays "" where nothing does."""
    present = {EXTRAS, *(found.code for found in findings)}
    return tuple(
        replace(one, code=next((code for code in _codes(one, job, options, v2, present) if code in present), ""))
        for one in differences
    )


def told_of_roles(found: Iterable[Difference], rest: Sequence[Difference]) -> tuple[Difference, ...]:
    """What differs because the roles did, with that code: without the differences of the roles it does not.

    Args:
        found: of the v1 job as it is.
        rest: of the v1 job with roles that are the same, named.
    """
    return tuple(one if one.code or _remains(one, rest) else replace(one, code=_ROLES) for one in found)


def _remains(one: Difference, rest: Sequence[Difference]) -> bool:
    """Something that no finding tells is left of it."""
    same = (other for other in rest if (other.topic, other.what) == (one.topic, one.what) and not other.code)
    return any(not one.seats or set(one.seats) & set(other.seats) for other in same)


def extras(v1: Fleet, v2: Fleet) -> Finding:
    """The finding that tells what is always so."""
    one, other = v1.first, v2.first
    assert one is not None
    assert other is not None
    services = "" if v1.services == v2.services else f", the Service is {', '.join(v2.services)}"
    message = f"pods are {other.name}-… where v1 had {one.name}…{services}; labels training.kubeflow.org/… are gone"
    return finding(EXTRAS, ("kind",), message)


def _codes(one: Difference, job: V1Job, options: Options, v2: Fleet, present: set[str]) -> Iterator[str]:
    values = f"{one.v1}>{one.v2}"
    for topic, what, changed, codes in _TABLE:
        if topic == one.topic and re.fullmatch(what, one.what) and re.fullmatch(changed, values, re.DOTALL):
            yield from codes
    if one.topic == "security" and _given_a_group(one):
        yield "MPI-KEYMODE"
    if one.what.endswith("argv"):
        yield told(one.v1, one.v2, present, env_shim=options.env_shim)
        if one.topic == "sidecar" and "$(PET_" in one.v2:
            yield "SIDECAR"
    if _of_no_use(one, job, options, v2):
        yield EXTRAS


def _given_a_group(one: Difference) -> bool:
    before, after = (json.loads(side or "{}") for side in (one.v1, one.v2))
    return "fsGroup" not in before and before == {name: held for name, held in after.items() if name != "fsGroup"}


def _of_no_use(one: Difference, job: V1Job, options: Options, v2: Fleet) -> bool:
    """Whether a difference is of something that nobody looks at, or that was asked for by an option."""
    variable = one.what.rpartition(": ")[2]
    if one.topic == "gang":
        return options.gang != "none"
    if one.topic == "success":
        return not one.v1
    if one.topic == "processes" and job.kind.name == "PyTorchJob":
        texts = [_text(pod.code) for pod in v2.pods]
        return all(not _TORCHRUN.search(text) or _NPROC.search(text) for text in texts)
    if one.topic == "sidecar" and variable == "PET_NPROC_PER_NODE" and one.v2:
        return not any(variable in _text(held, after=True) for pod in v2.pods for held in pod.containers)
    if one.topic not in ("environment", "sidecar", "port") or (one.v2 and one.topic != "port"):
        return False
    if not options.env_shim and _GIVEN.fullmatch(variable):
        return True
    unread = not any(variable in _text(pod.code, after=True) for pod in v2.pods)
    if _TRANSPORT.fullmatch(variable):
        return unread
    torchrun = all(_TORCHRUN.search(_text(pod.code)) for pod in v2.pods)
    # torchrun gives them to the processes that it starts, whatever its words mention: only a reference comes before it.
    referred = re.compile(rf"\$[({{]?{re.escape(variable)}\b")
    unread = not any(referred.search(_text(pod.code, after=True)) for pod in v2.pods)
    return job.kind.name == "PyTorchJob" and torchrun and unread and bool(_RENDEZVOUS.fullmatch(variable))


def _text(container: SimContainer, *, after: bool = False) -> str:
    """What can refer to a variable: the command as it is written, and with ``after`` the values of other variables."""
    raw = container.raw
    texts = [*(raw.get("command") or ()), *(raw.get("args") or ())]
    if after:
        texts += [str(item.get("value") or "") for item in raw.get("env") or ()]
    return "\n".join(map(str, texts))
