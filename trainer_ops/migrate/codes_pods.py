"""The codes of findings about the pods of both generations, worked out and compared. Part of ``codes.CODES``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.code import Code

__all__ = ["POD_CODES"]

POD_CODES: Final[Mapping[str, Code]] = {
    "DIFFERENCE": Code(
        "both generations' pods differ and no rule says why",
        "refused",
        "Report it: this is a fault of the converter",
        "After conversion the pods of both generations are worked out and compared. What differs without a "
        "finding is a fault of the rules, so nothing comes out.",
    ),
    "GANG-PRIORITY": Code(
        "the group's priority class is the pods'",
        "info",
        "The PriorityClass has to exist in the cluster",
        "v1's schedulingPolicy.priorityClass was of the pod group alone. Trainer takes a group's class from the "
        "pods, so they have it now, and are scheduled and preempted by it.",
    ),
    "NOT-PLAYED": Code(
        "the pods of both generations were not compared",
        "info",
        "",
        "A conversion is checked by working out the pods of both generations and comparing them. That needs numbers "
        "where numbers belong, a runtime that is known, and no more pods than can be worked out in a moment.",
    ),
    "SIDECAR-NAME": Code(
        "another container is called otherwise",
        "info",
        "Say the new name to what reads its logs or runs commands in it",
        "Trainer's container with the code is called node. Another container of a v1 job that was called so is "
        "node-sidecar now, an init container node-init.",
    ),
    "V1-EXTRAS": Code(
        "what v1's operator added to every pod",
        "info",
        "Rewrite what selects or addresses pods from outside the training",
        "v1's pods were called JOB-master-0 or JOB-worker-N, had a Service each, and the labels "
        "training.kubeflow.org/…; v2's are called JOB-node-0-N with a random tail, have one Service called as the job, "
        "and the labels jobset.sigs.k8s.io/…. Dashboards, NetworkPolicies and scripts outside the job may look at "
        "them. Variables of v1's operator that the code does not look at are not given any more.",
    ),
}
