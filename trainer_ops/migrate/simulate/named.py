"""Every difference has a name: which finding of a conversion tells it. One that none tells is a fault of the rules.

``EXTRAS`` is the finding that is always there: pods' own names, v1's labels, and variables that only v1's operator
or Trainer itself has a use for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.normalise import V1Job
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.simulate.compare import Difference
from trainer_ops.migrate.simulate.fleet import Fleet, SimContainer

__all__ = ["EXTRAS", "extras", "name"]

EXTRAS: Final = "V1-EXTRAS"

_ROLES: Final = ("ROLE-DIFF",)
_COMMANDS: Final = (
    *("TORCHRUN-FLAGS", "NPROC-TEXT", "HOST-LITERAL", "RESERVED-ENV", "PADDLE-MASTER", "MPI-OMPI5", "MPI-KEYMODE"),
    *("MPI-SSHD-CMD", "MPI-NP", "MPI-TRANSPORT", "MPI-LAUNCHER-ONLY"),
)
# (topic, what it is of, the codes that tell it)
_TABLE: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("nodes", ".*", ("ELASTIC-RANGE", "MPI-LAUNCHER-ONLY")),
    ("pods", ".*", ("ELASTIC-RANGE",)),
    ("totals", ".*", ("ELASTIC-RANGE", "ROLE-DIFF")),
    ("processes", ".*", ("CPU-AUTO", "XPU-PROC", "NPROC-TEXT", "TORCHRUN-FLAGS", "UNSEEN-SCRIPT", "MPI-LAUNCHER-ONLY")),
    ("hostfile", ".*", ("MPI-LAUNCHER-ONLY",)),
    ("command", ".*", _COMMANDS),
    ("image", ".*", ()),
    ("environment", "PET_NNODES", ("ELASTIC-RANGE",)),
    ("environment", "WORLD_SIZE|PADDLE_NNODES", ("ELASTIC-RANGE",)),
    ("environment", "PADDLE_JOB_ID", ("NAME-LEN",)),
    ("environment", "PET_RDZV_.*", ("RDZV-ENDPOINT",)),
    ("environment", "PADDLE_MASTER|POD_IP_DUMMY", ("PADDLE-MASTER", "ENV-SHIM")),
    ("environment", r"(TF_)?TASK_INDEX\w*", ("TF-CONFIG",)),
    ("environment", "OMPI_MCA_.*|NVIDIA_.*|HYDRA_.*|I_MPI_.*", ("MPI-LAUNCHER-ONLY", "MPI-TRANSPORT")),
    ("environment", "HOROVOD_.*|NCCL_.*", ("MPI-OMPI5",)),
    ("port", "PET_MASTER_PORT", (EXTRAS,)),
    ("port", ".*", ("ENV-SHIM", "RDZV-ENDPOINT", "HOST-LITERAL", "TF-CONFIG")),
    ("names", ".*", (EXTRAS,)),
    ("ssh", ".*", ("MPI-KEYMODE", "MPI-LAUNCHER-ONLY")),
    ("security", ".*", ("MPI-KEYMODE",)),
    ("pod", "dnsPolicy", ("MPI-LAUNCHER-ONLY",)),
    ("pod", "serviceAccountName", ("MPI-TRANSPORT", "MPI-LAUNCHER-ONLY")),
    ("pod", "schedulerName", ("SCHEDULER-NAME",)),
    ("pod", "priorityClassName", ("GANG-FLAG", "SCHEDULER-NAME")),
    ("container", "readinessProbe", ("MPI-SSHD-CMD",)),
    ("sidecar", r".*: PET_\w+", ("SIDECAR",)),
    ("sidecar", r".*: (PADDLE_\w+|POD_IP_DUMMY)", ("PADDLE-MASTER", "NAME-LEN", "ELASTIC-RANGE")),
    ("gang", ".*", ("SCHEDULER-NAME", "ROLE-DIFF")),
    ("start", ".*", ("GANG-DEPENDS", "MPI-LAUNCHER-ONLY")),
    ("success", ".*", ("SUCCESS-RULE", "MPI-LAUNCHER-ONLY", "ELASTIC-RANGE")),
    ("cleanup", "ttl", ("TTL-RERUN",)),
    ("cleanup", "running pods", ("CLEANUP", "SUCCESS-RULE")),
    ("cleanup", ".*", ("CLEANUP",)),
    ("deadline", ".*", ("DEADLINE",)),
    ("restart", ".*", ("ALWAYS", "EXITCODE", "NEVER-BACKOFF0", "BACKOFF")),
    ("retries", ".*", ("BACKOFF", "NEVER-BACKOFF0", "ALWAYS", "EXITCODE")),
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
        replace(one, code=next((code for code in _codes(one, job, options, v2) if code in present), ""))
        for one in differences
    )


def extras(v1: Fleet, v2: Fleet) -> Finding:
    """The finding that tells what is always so."""
    one, other = v1.first, v2.first
    assert one is not None
    assert other is not None
    services = "" if v1.services == v2.services else f", the Service is {', '.join(v2.services)}"
    message = f"pods are {other.name}-… where v1 had {one.name}…{services}; labels training.kubeflow.org/… are gone"
    return finding(EXTRAS, ("kind",), message)


def _codes(one: Difference, job: V1Job, options: Options, v2: Fleet) -> Iterator[str]:
    for topic, what, codes in _TABLE:
        if topic == one.topic and re.fullmatch(what, one.what):
            yield from codes
            break
    if one.topic in ("command", "sidecar") and not options.env_shim:
        yield "ENV-SHIM"
    if one.topic == "sidecar" and "$(PET_" in one.v2:
        yield "SIDECAR"
    if one.seats:
        yield from _ROLES
    if _of_no_use(one, job, options, v2):
        yield EXTRAS


def _of_no_use(one: Difference, job: V1Job, options: Options, v2: Fleet) -> bool:
    """Whether a difference is of something that nobody looks at, or that was asked for by an option."""
    variable = one.what.rpartition(": ")[2]
    if one.topic == "gang":
        return options.gang != "none"
    if one.topic == "success":
        return not one.v1
    if one.topic == "pod" and one.what == "priorityClassName":
        return one.v2 == (job.run_policy.get("schedulingPolicy") or {}).get("priorityClass")
    if one.topic == "processes" and job.kind.name == "PyTorchJob":
        texts = [_text(pod.code) for pod in v2.pods]
        return all(not _TORCHRUN.search(text) or _NPROC.search(text) for text in texts)
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
