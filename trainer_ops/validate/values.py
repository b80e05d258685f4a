"""Fixed values, smallest numbers, and quantities: what the types of the fields do not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from trainer_ops.validate.peek import number

__all__ = ["ENUMS", "MINIMUM", "QUANTITY", "WIDE", "amount"]

_SELECTOR = ("In", "NotIn", "Exists", "DoesNotExist")
_PULL = ("Always", "IfNotPresent", "Never")
_PROFILE = ("RuntimeDefault", "Unconfined", "Localhost")

# By type and field, as in ``Toleration.effect``. The CRDs have those of JobSet and the policies; the others are
# Kubernetes' own and are refused when the Job or its pods are made.
ENUMS: Mapping[str, tuple[str, ...]] = {
    "AppArmorProfile.type": _PROFILE,
    "Container.imagePullPolicy": _PULL,
    "Container.terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "DependsOn.status": ("Ready", "Complete"),
    "FailurePolicy.restartStrategy": ("Recreate", "BlockingRecreate", "InPlaceRestart"),
    "FailurePolicyRule.action": (
        "FailJobSet",
        "RestartJobSet",
        "RestartJobSetAndIgnoreMaxRestarts",
        "RestartJob",
        "RestartJobAndIgnoreMaxRestarts",
    ),
    "ImageVolumeSource.pullPolicy": _PULL,
    "JobSpec.completionMode": ("NonIndexed", "Indexed"),
    "JobSpec.podReplacementPolicy": ("TerminatingOrFailed", "Failed"),
    "LabelSelectorRequirement.operator": _SELECTOR,
    "MPIMLPolicySource.mpiImplementation": ("OpenMPI", ""),
    "NetworkTopologySpec.mode": ("hard", "soft"),
    "NodeSelectorRequirement.operator": (*_SELECTOR, "Gt", "Lt"),
    "PersistentVolumeClaimSpec.accessModes": ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
    "PersistentVolumeClaimSpec.volumeMode": ("Filesystem", "Block"),
    "PodFailurePolicyRule.action": ("FailJob", "FailIndex", "Ignore", "Count"),
    "PodSecurityContext.fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "PodSecurityContext.supplementalGroupsPolicy": ("Merge", "Strict"),
    "PodSpec.dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
    "SeccompProfile.type": _PROFILE,
    "StartupPolicy.startupPolicyOrder": ("AnyOrder", "InOrder"),
    "SuccessPolicy.operator": ("All", "Any"),
    "Toleration.effect": ("NoSchedule", "PreferNoSchedule", "NoExecute", ""),
    "Toleration.operator": ("Exists", "Equal", "Lt", "Gt", ""),
    "TopologySpreadConstraint.whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "VolumeMount.mountPropagation": ("None", "HostToContainer", "Bidirectional"),
    "VolumeMount.recursiveReadOnly": ("Disabled", "IfPossible", "Enabled"),
    "VolumeRetentionPolicy.whenDeleted": ("Delete", "Retain"),
}

# What has a rule of its own (numNodes, activeDeadlineSeconds, numProcPerNode) is not here.
MINIMUM: Mapping[str, int] = {
    "FailurePolicy.maxRestarts": 0,
    "JobSetSpec.ttlSecondsAfterFinished": 0,
    "JobSpec.backoffLimit": 0,
    "JobSpec.completions": 0,
    "JobSpec.parallelism": 0,
    "JobSpec.ttlSecondsAfterFinished": 0,
    "PodSpec.terminationGracePeriodSeconds": 0,
    "PodSpecPatch.terminationGracePeriodSeconds": 0,
    "ReplicatedJob.replicas": 0,
}

# Numbers of 64 bits; all others have 32.
WIDE = frozenset(
    {
        "activeDeadlineSeconds",
        "deletionGracePeriodSeconds",
        "expirationSeconds",
        "fsGroup",
        "generation",
        "observedGeneration",
        "runAsGroup",
        "runAsUser",
        "seconds",
        "supplementalGroups",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
    }
)

_DIGITS = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
QUANTITY = re.compile(rf"([+-]?{_DIGITS})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?", re.ASCII)

_SCALE = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def amount(value: Any) -> Decimal | None:
    """A quantity as an exact number, in the resource's own unit (cores, bytes); None for what is none."""
    whole = number(value)
    if whole is not None:
        return Decimal(whole)
    match = QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    digits, unit = match.group(1), match.group(2) or ""
    try:
        if unit in _BINARY:
            return Decimal(digits) * Decimal(1024) ** _BINARY[unit]
        exponent = _SCALE[unit] if unit in _SCALE else int(unit[1:] or 0)
        return Decimal(digits).scaleb(exponent)
    except (InvalidOperation, OverflowError, ValueError):
        return None
