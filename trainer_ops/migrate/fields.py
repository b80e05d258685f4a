"""Fields of pods and containers: what each may be, what it is when left out, and where a stock runtime takes it.

Sources: Kubernetes core/v1 (v1.36), trainer v2.3.0 ``pkg/apis/trainer/v1alpha1`` PodSpecPatch and ContainerPatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "CONTAINER",
    "CONTAINER_DEFAULTS",
    "CONTAINER_PATCH",
    "KEYED",
    "POD",
    "POD_DEFAULTS",
    "POD_PATCH",
    "TRAINER",
    "default_pull_policy",
]

# The types that the rules rely on; anything else is refused as the API server would.
POD: Final[Mapping[str, str]] = {
    "activeDeadlineSeconds": "int",
    "affinity": "map",
    "automountServiceAccountToken": "bool",
    "containers": "maps",
    "dnsConfig": "map",
    "dnsPolicy": "str",
    "enableServiceLinks": "bool",
    "ephemeralContainers": "maps",
    "hostAliases": "maps",
    "hostIPC": "bool",
    "hostNetwork": "bool",
    "hostPID": "bool",
    "hostUsers": "bool",
    "hostname": "str",
    "hostnameOverride": "str",
    "imagePullSecrets": "maps",
    "initContainers": "maps",
    "nodeName": "str",
    "nodeSelector": "texts",
    "os": "map",
    "overhead": "map",
    "preemptionPolicy": "str",
    "priority": "int",
    "priorityClassName": "str",
    "readinessGates": "maps",
    "resourceClaims": "maps",
    "resources": "map",
    "restartPolicy": "str",
    "runtimeClassName": "str",
    "schedulerName": "str",
    "schedulingGates": "maps",
    "securityContext": "map",
    "serviceAccount": "str",
    "serviceAccountName": "str",
    "setHostnameAsFQDN": "bool",
    "shareProcessNamespace": "bool",
    "subdomain": "str",
    "terminationGracePeriodSeconds": "int",
    "tolerations": "maps",
    "topologySpreadConstraints": "maps",
    "volumes": "maps",
}
CONTAINER: Final[Mapping[str, str]] = {
    "args": "strs",
    "command": "strs",
    "env": "maps",
    "envFrom": "maps",
    "image": "str",
    "imagePullPolicy": "str",
    "lifecycle": "map",
    "livenessProbe": "map",
    "name": "str",
    "ports": "maps",
    "readinessProbe": "map",
    "resizePolicy": "maps",
    "resources": "map",
    "restartPolicy": "str",
    "restartPolicyRules": "maps",
    "securityContext": "map",
    "startupProbe": "map",
    "stdin": "bool",
    "stdinOnce": "bool",
    "terminationMessagePath": "str",
    "terminationMessagePolicy": "str",
    "tty": "bool",
    "volumeDevices": "maps",
    "volumeMounts": "maps",
    "workingDir": "str",
}
# What a field is when it is left out, where that is one value.
POD_DEFAULTS: Final[Mapping[str, Any]] = {
    "automountServiceAccountToken": True,
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "hostIPC": False,
    "hostNetwork": False,
    "hostPID": False,
    "hostUsers": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "schedulerName": "default-scheduler",
    "serviceAccountName": "default",
    "setHostnameAsFQDN": False,
    "shareProcessNamespace": False,
    "terminationGracePeriodSeconds": 30,
}
CONTAINER_DEFAULTS: Final[Mapping[str, Any]] = {
    "stdin": False,
    "stdinOnce": False,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "tty": False,
}
# Lists whose items are told apart by a field, so that their order says nothing.
KEYED: Final[Mapping[str, str]] = {
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "volumeDevices": "devicePath",
}
# Of the container with the code, what spec.trainer says; where the name there is another, that one.
TRAINER: Final[Mapping[str, str]] = {
    "image": "image",
    "command": "command",
    "args": "args",
    "env": "env",
    "resources": "resourcesPerNode",
}
# What runtimePatches can set in the pods of a stock runtime; the version of Trainer since when.
POD_PATCH: Final[Mapping[str, str]] = {
    "affinity": "2.2",
    "imagePullSecrets": "2.2",
    "nodeSelector": "2.2",
    "schedulingGates": "2.2",
    "securityContext": "2.2",
    "serviceAccountName": "2.2",
    "terminationGracePeriodSeconds": "2.3",
    "tolerations": "2.2",
    "volumes": "2.2",
}
CONTAINER_PATCH: Final = frozenset({"name", "volumeMounts", "securityContext"})


def default_pull_policy(image: str) -> str:
    """What Kubernetes does with an image whose pull policy is left out: ``Always`` for the tag latest and for none."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "IfNotPresent" if tag and tag != "latest" else "Always"
