"""The environment of one container: what Trainer's plugins, JobSet and the Job controller put in, then resolved.

The order of the entries is theirs (it decides what ``$(NAME)`` can see): torch puts PET_* after the TrainJob's own env,
jax its JAX_* before it, MPI its OMPI_MCA_* before it. For xgboost Trainer's order is left to chance (its plugins are
walked as a Go map); here DMLC_* come last, so that nobody comes to rely on them in ``spec.trainer.env``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from trainer_ops.errors import InvalidRequest
from trainer_ops.local.plan_template import Raw, refuse
from trainer_ops.local.plan_text import count_of, expand, gpus, quantity
from trainer_ops.local.plan_values import LOOPBACK, Place
from trainer_ops.model import keys

__all__ = ["Entry", "PodFacts", "entries", "injected", "progress", "resolve", "upsert"]

_INDEX = {"fieldRef": {"fieldPath": f"metadata.annotations['{keys.COMPLETION_INDEX}']"}}


@dataclass(frozen=True, slots=True)
class Entry:
    """One EnvVar and where it was written, for errors."""

    raw: Raw
    path: str

    @property
    def name(self) -> str:
        """The variable's name."""
        return str(self.raw.get("name") or "")


def entries(env: Sequence[Raw] | None, path: str) -> list[Entry]:
    """A container's (or a TrainJob's) ``env`` list; ``path`` is that of the list."""
    return [Entry(item, f"{path}[{i}]") for i, item in enumerate(env or ())]


def upsert(env: list[Entry], new: Sequence[Entry]) -> list[Entry]:
    """Later entries of a name replace earlier ones in their place; new names go to the end."""
    found = {entry.name: entry for entry in env}
    found.update({entry.name: entry for entry in new})
    return list(found.values())


def _plain(values: Mapping[str, Any]) -> list[Entry]:
    """Entries that a plugin makes; a mapping is a ``valueFrom``."""
    return [
        Entry({"name": name, "valueFrom": value} if isinstance(value, Mapping) else {"name": name, "value": value}, "")
        for name, value in values.items()
    ]


def injected(policy: str, *, nodes: int, procs: int | None, resources: Raw, place: Place) -> list[Entry]:
    """What the policy's plugin adds to the training container (all but MPI).

    Args:
        policy: ``torch``, ``jax``, ``xgboost``; others add nothing.
        nodes: the step's pods.
        procs: ``spec.trainer.numProcPerNode``.
        resources: of ``proc_resources``.
        place: gives the port.
    """
    make = _PLUGINS.get(policy)
    return [] if make is None else _plain(make(nodes, procs, resources, str(place.port)))


def _torch(nodes: int, procs: int | None, resources: Raw, port: str) -> dict[str, Any]:
    return {
        "PET_NNODES": str(nodes),
        "PET_NPROC_PER_NODE": _torch_procs(procs, resources),
        "PET_NODE_RANK": _INDEX,
        "PET_MASTER_ADDR": LOOPBACK,
        "PET_MASTER_PORT": port,
    }


def _torch_procs(procs: int | None, resources: Raw) -> str:
    """The number given; ``auto`` where a GPU is asked for; else the CPUs, rounded up, at least 1."""
    if procs is not None:
        return str(procs)
    if gpus(resources):
        return "auto"
    cpu = count_of((resources.get("requests") or {}).get("cpu")) or count_of((resources.get("limits") or {}).get("cpu"))
    return str(max(1, cpu))


def _jax(nodes: int, procs: int | None, resources: Raw, port: str) -> dict[str, Any]:
    return {
        "JAX_NUM_PROCESSES": str(nodes),
        "JAX_PROCESS_ID": _INDEX,
        "JAX_COORDINATOR_ADDRESS": f"{LOOPBACK}:{port}",
    }


def _xgboost(nodes: int, procs: int | None, resources: Raw, port: str) -> dict[str, Any]:
    return {
        "DMLC_TRACKER_URI": LOOPBACK,
        "DMLC_TRACKER_PORT": port,
        "DMLC_TASK_ID": _INDEX,
        "DMLC_NUM_WORKER": str(nodes * max(1, gpus(resources))),
    }


_Plugin = Callable[[int, "int | None", Raw, str], dict[str, Any]]
_PLUGINS: Mapping[str, _Plugin] = {"torch": _torch, "jax": _jax, "xgboost": _xgboost}


def progress(place: Place) -> list[Entry]:
    """What Trainer's feature TrainJobStatus adds to every container of the training pods; values are paths."""
    if place.progress_url is None:
        return []
    return _plain(
        {
            "KUBEFLOW_TRAINER_SERVER_URL": place.progress_url,
            "KUBEFLOW_TRAINER_SERVER_CA_CERT": place.progress_ca,
            "KUBEFLOW_TRAINER_SERVER_TOKEN": place.progress_token,
        }
    )


# ------------------------------------------------------------------------------------------------------- resolution


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What a fieldRef or a resourceFieldRef may ask for."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    resources: Mapping[str, Raw]
    place: Place


def resolve(env: Sequence[Entry], env_from: Sequence[Raw], container: str, pod: PodFacts, path: str) -> dict[str, str]:
    """Name to text, as the kubelet would.

    The completion index is the last entry, as the Job controller appends it.

    Args:
        env: in their order.
        env_from: the container's ``envFrom``.
        container: its name, for resourceFieldRef.
        pod: what the references are about.
        path: the container's, for errors.

    Raises:
        InvalidRequest: a Secret, a ConfigMap or a field that this machine does not have.
    """
    _refuse_env_from(env_from, path)
    known: dict[str, str] = {}
    own_index = any(entry.name == "JOB_COMPLETION_INDEX" for entry in env)
    for entry in [*env, *([] if own_index else _plain({"JOB_COMPLETION_INDEX": _INDEX}))]:
        source = entry.raw.get("valueFrom")
        if source:
            text = _from(source, container, pod, f"{entry.path}.valueFrom")
        else:
            text = expand(str(entry.raw.get("value") or ""), known)
        if text is not None:
            known[entry.name] = text
    return known


def _from(source: Raw, container: str, pod: PodFacts, path: str) -> str | None:
    for kind in ("secretKeyRef", "configMapKeyRef"):
        if kind in source:
            if source[kind].get("optional"):
                return None
            raise _absent(f"{path}.{kind}", kind.removesuffix("KeyRef"), source[kind].get("name"))
    if "fieldRef" in source:
        return _field(source["fieldRef"].get("fieldPath") or "", pod, f"{path}.fieldRef")
    if "resourceFieldRef" in source:
        return _resource(source["resourceFieldRef"], container, pod, f"{path}.resourceFieldRef")
    raise refuse(path, f"{', '.join(source)} cannot be told here", "Give a value.")


def _absent(path: str, kind: str, name: object) -> InvalidRequest:
    what = "Secrets" if kind == "secret" else "ConfigMaps"
    return refuse(
        path,
        f'there are no {what} on this machine ("{name}" is one)',
        "Give the variable a value, or mark the reference optional and let the code do without.",
    )


def _refuse_env_from(env_from: Sequence[Raw], path: str) -> None:
    for i, source in enumerate(env_from):
        for key, kind in (("secretRef", "secret"), ("configMapRef", "configMap")):
            ref = source.get(key)
            if ref and not ref.get("optional"):
                raise _absent(f"{path}: envFrom[{i}].{key}", kind, ref.get("name"))


def _field(path: str, pod: PodFacts, where: str) -> str:
    for part, values in (("labels", pod.labels), ("annotations", pod.annotations)):
        if path.startswith(f"metadata.{part}['") and path.endswith("']"):
            return values.get(path[len(f"metadata.{part}['") : -2], "")
    known = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.place.namespace,
        "spec.nodeName": pod.place.host,
        "spec.serviceAccountName": "default",
        "status.podIP": LOOPBACK,
        "status.podIPs": LOOPBACK,
        "status.hostIP": LOOPBACK,
        "status.hostIPs": LOOPBACK,
    }
    if path not in known:
        raise refuse(
            where, f'"{path}" cannot be told on this machine', f"Known: {', '.join(known)}, labels, annotations."
        )
    return known[path]


def _resource(ref: Raw, container: str, pod: PodFacts, where: str) -> str:
    resource = str(ref.get("resource") or "")
    kind, _, name = resource.partition(".")
    given = pod.resources.get(ref.get("containerName") or container, {})
    value = quantity((given.get(kind) or {}).get(name, ""))
    if value is None:
        # Without a limit the kubelet tells what the node has; without a request, the limit or nothing.
        whole = {"cpu": Fraction(pod.place.cpu_count), "memory": Fraction(pod.place.memory_bytes)}
        if name not in whole:
            raise refuse(where, f'"{resource}" cannot be told on this machine', "Give a value.")
        limit = quantity((given.get("limits") or {}).get(name, ""))
        value = (limit or whole[name]) if kind == "limits" else (limit or Fraction(0))
    divisor = quantity(ref.get("divisor") or "1") or Fraction(1)
    return str(ceil(value / (divisor or 1)))
