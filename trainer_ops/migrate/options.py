"""What a person may decide about a migration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """Choices; the defaults refuse rather than guess.

    Attributes:
        trainer_version: what the cluster runs: 2.2 and 2.3 admit different things.
        runtime: ``auto`` takes a stock runtime where it carries the job, ``generate`` always makes one; any other text
            is the name of the stock runtime to use.
        gang: gang scheduling, which v1 had as a flag of its operator and not in the job.
        role_branch: Master and Worker that differ in command, args or env only become one script that branches by rank.
        template_from: of a Master and a Worker that differ otherwise, whose pod is taken.
        pin_elastic: the number of nodes of an elastic job: its minimum, its maximum, its replicas, or so many.
        to_torchrun: start a plain ``python`` command by torchrun instead of giving it v1's environment.
        env_shim: give the code the variables that v1's operator gave.
        preserve_success: the job is over when rank 0 is, as in v1 with a Master.
        image_has_sshd: the image of an MPIJob of ``kubeflow.org/v1`` can run sshd: v1 needed none.
        drop_np: leave out ``-np`` where it says what the hostfile says.
        allow_placeholders: ``$NAME`` where a number belongs is carried as it is.
        drop: codes whose refusals become losses that are told: ``GANG-MIN``, ``UNKNOWN-FIELD``…
        live: the job was read from a cluster: marks of Helm and Argo CD are left out, which are right in files only.
        keep_ttl: set a TTL although Trainer up to 2.3.0 runs a failed job again after it.
    """

    trainer_version: Literal["2.2", "2.3"] = "2.3"
    runtime: str = "auto"
    gang: Literal["none", "coscheduling", "volcano"] = "none"
    role_branch: bool = False
    template_from: Literal["master", "worker"] | None = None
    pin_elastic: Literal["min", "max", "replicas"] | int | None = None
    to_torchrun: bool = False
    env_shim: bool = True
    preserve_success: bool = False
    image_has_sshd: bool = False
    drop_np: bool = False
    allow_placeholders: bool = False
    drop: frozenset[str] = frozenset()
    keep_ttl: bool = False
    live: bool = False
