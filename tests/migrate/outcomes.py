"""What has to come of each job of the corpus: no warning, these warnings, or refused and with what it converts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["OUTCOMES", "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one job.

    Attributes:
        warned: codes of warnings with the default options; () is a clean conversion.
        refused: codes of refusals with the default options.
        flags: options with which a refused job converts; empty when none do.
        then: codes of warnings with these.
        rewritten: the command of rank 0 is another one, and a code tells why.
        grown: the training has other resources than in v1, and a code tells why.
    """

    warned: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)
    then: tuple[str, ...] = ()
    rewritten: bool = False
    grown: bool = False


CLEAN = Outcome()
# The job's name is the file's.
OUTCOMES: Mapping[str, Outcome] = {
    "jax": CLEAN,
    "jax-gpu": CLEAN,
    "lightgbm": Outcome(("EXITCODE", "ROLE-DIFF")),
    "mpi-as-worker": Outcome(("MPI-HOST-ORDER",), rewritten=True),
    "mpi-horovod-elastic": Outcome(refused=("MPI-HOROVOD-ELASTIC", "MPI-TRANSPORT")),
    "mpi-intel": Outcome(refused=("MPI-IMPL",)),
    "mpi-interactive": CLEAN,
    "mpi-kubectl": Outcome(
        refused=("MPI-TRANSPORT",),
        flags={"image_has_sshd": True},
        then=("MPI-KEYMODE", "MPI-TRANSPORT"),
        rewritten=True,
    ),
    "mpi-launcher-only": Outcome(("MPI-LAUNCHER-ONLY",)),
    "mpi-nccl": Outcome(("HOST-NETWORK", "MPI-KEYMODE"), rewritten=True),
    "mpi-root": Outcome(("MPI-KEYMODE",), rewritten=True),
    "mpi-user": Outcome(("TTL-RERUN",), rewritten=True),
    "mpi-v1-alone": Outcome(("MPI-LAUNCHER-ONLY",), rewritten=True),
    "mpi-v1-gpu-launcher": Outcome(
        refused=("MPI-TRANSPORT",),
        flags={"image_has_sshd": True},
        then=("CLEANUP", "EXITCODE", "MPI-HOST-ORDER", "MPI-KEYMODE", "MPI-TRANSPORT"),
        rewritten=True,
    ),
    "mpi-v1-horovod": Outcome(
        refused=("MPI-TRANSPORT",),
        flags={"image_has_sshd": True},
        then=("MPI-KEYMODE", "MPI-TRANSPORT"),
        rewritten=True,
    ),
    "mpi-v1-intel": Outcome(refused=("MPI-IMPL", "MPI-TRANSPORT")),
    "mpi-v1-main-container": Outcome(
        refused=("MPI-TRANSPORT",),
        flags={"image_has_sshd": True},
        then=("CLEANUP", "MPI-KEYMODE", "MPI-TRANSPORT"),
        rewritten=True,
    ),
    "mxnet": Outcome(refused=("NOT-V1",)),
    "paddle": Outcome(rewritten=True),
    "paddle-gpu": Outcome(
        refused=("ELASTIC-RANGE",), flags={"pin_elastic": "replicas"}, then=("ELASTIC-RANGE",), rewritten=True
    ),
    "paddle-servers": Outcome(("CLEANUP",)),
    "pytorch-args": CLEAN,
    "pytorch-cpu-master": Outcome(
        refused=("ROLE-DIFF",), flags={"template_from": "worker"}, then=("ROLE-DIFF",), grown=True
    ),
    "pytorch-deepspeed": CLEAN,
    "pytorch-elastic": Outcome(
        refused=("ELASTIC-RANGE",), flags={"pin_elastic": "replicas"}, then=("CPU-AUTO", "ELASTIC-RANGE")
    ),
    "pytorch-elastic-fixed": CLEAN,
    "pytorch-exitcode": Outcome(("EXITCODE",)),
    "pytorch-fsdp": Outcome(refused=("ELASTIC-RANGE",), flags={"pin_elastic": "replicas"}, then=("ELASTIC-RANGE",)),
    "pytorch-generate-name": Outcome(("GENERATE-NAME",)),
    "pytorch-host-network": Outcome(("HOST-NETWORK", "SIDECAR")),
    "pytorch-kueue": CLEAN,
    "pytorch-legacy": Outcome(("ALWAYS", "CLEANUP", "TTL-RERUN")),
    "pytorch-live": CLEAN,
    "pytorch-mpi-backend": Outcome(("MPI-BACKEND",)),
    "pytorch-nproc-gpu": CLEAN,
    "pytorch-other-container": Outcome(("CONTAINER-NAME",)),
    "pytorch-partial-gang": Outcome(refused=("GANG-MIN",), flags={"drop": frozenset({"GANG-MIN"})}, then=("GANG-MIN",)),
    "pytorch-placeholder": Outcome(refused=("PLACEHOLDER",), flags={"allow_placeholders": True}),
    "pytorch-rich": Outcome(("SIDECAR",)),
    "pytorch-role-command": Outcome(
        refused=("ROLE-DIFF",), flags={"role_branch": True}, then=("ROLE-DIFF",), rewritten=True
    ),
    "pytorch-sidecars": Outcome(("MESH", "SIDECAR")),
    "pytorch-silent": CLEAN,
    "pytorch-simple": CLEAN,
    "pytorch-torchrun": CLEAN,
    "pytorch-unknown-field": Outcome(
        refused=("UNKNOWN-FIELD",),
        flags={"drop": frozenset({"UNKNOWN-FIELD"})},
        then=("CPU-AUTO", "UNKNOWN-FIELD"),
    ),
    "pytorch-volcano": CLEAN,
    "pytorch-world-size": Outcome(("TORCHRUN-FLAGS",), rewritten=True),
    "tf-all-workers": CLEAN,
    "tf-chief": CLEAN,
    "tf-dynamic": Outcome(refused=("TF-DYNAMIC",)),
    "tf-ps": Outcome(("CLEANUP",)),
    "tf-single": CLEAN,
    "tf-two-chiefs": Outcome(refused=("NOT-A-JOB",)),
    "tf-workers": Outcome(("CLEANUP",)),
    "xgboost": CLEAN,
    "xgboost-gpu": Outcome(("XGBOOST-GPUS",)),
    "xgboost-quotes": Outcome(("ROLE-DIFF",)),
}
