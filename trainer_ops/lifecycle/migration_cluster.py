"""The jobs that a cluster holds, and what it says of their results. Nothing there is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainer_ops.backends.base import Backend
from trainer_ops.errors import BackendError, Forbidden, InvalidRequest, Rejected
from trainer_ops.migrate.convert import Converted
from trainer_ops.migrate.files import Checker, Source, read_source
from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.yamltext import to_yaml

if TYPE_CHECKING:
    from trainer_ops.backends.kubernetes.migration import ClusterMigration

__all__ = ["cluster_of", "dry_run", "live_sources", "state_of"]

_METADATA = ("name", "namespace", "generateName", "labels", "annotations", "ownerReferences")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_HELM = "meta.helm.sh/"


def cluster_of(backend: Backend, flag: str) -> ClusterMigration:
    """What a migration asks of the target's cluster.

    Raises:
        InvalidRequest: the target is no cluster.
    """
    from trainer_ops.backends.kubernetes.backend import KubernetesBackend

    if not isinstance(backend, KubernetesBackend):
        remedy = "Give --target kubernetes://CONTEXT/NAMESPACE"
        raise InvalidRequest(flag, f"{backend.target} is no cluster", remedy)
    return backend.migration


def live_sources(cluster: ClusterMigration) -> tuple[list[Source], tuple[str, ...]]:
    """All v1 jobs of the namespace, each like a file ``pytorchjob/NAME``, and the kinds that may not be listed."""
    found = cluster.v1_jobs()
    sources = []
    for raw in found.objects:
        name = f"{raw['kind'].lower()}/{raw['metadata']['name']}"
        source = read_source(name, to_yaml(_wanted(raw)).encode())
        state = state_of(raw)
        if state:
            told = finding("LIVE-RUNNING", (), f"the job is {state} and is left alone")
            source = replace(source, findings=(*source.findings, Placed(told)))
        sources.append(source)
    return sources, found.hidden


def _wanted(raw: Mapping[str, Any]) -> dict[str, Any]:
    """What a person wanted: without what servers and tools wrote into it."""
    metadata = {name: raw["metadata"][name] for name in _METADATA if raw["metadata"].get(name)}
    notes = {key: value for key, value in (metadata.get("annotations") or {}).items() if not _noise(key)}
    metadata.pop("annotations", None)
    if notes:
        metadata["annotations"] = notes
    return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": metadata, "spec": raw.get("spec")}


def _noise(key: str) -> bool:
    return key == _APPLIED or key.startswith(_HELM)


def state_of(raw: Mapping[str, Any]) -> str:
    """``running`` or ``waiting`` of a job that has not ended and is not suspended; "" of others."""
    conditions = (raw.get("status") or {}).get("conditions") or ()
    true = {str(one.get("type")) for one in conditions if str(one.get("status")) == "True"}
    if true & {"Succeeded", "Failed", "Suspended"}:
        return ""
    if ((raw.get("spec") or {}).get("runPolicy") or {}).get("suspend"):
        return ""
    return "running" if true & {"Running", "Restarting"} else "waiting to run"


def dry_run(backend: Backend, cluster: ClusterMigration) -> Checker:
    """A checker that asks the cluster: the runtime first, and the TrainJob where its runtime exists."""

    def check(converted: Converted) -> Iterator[Finding]:
        job, runtime = converted.trainjob, converted.runtime
        assert job is not None
        if runtime is not None:
            yield from _asked(cluster, runtime, "runtime", backend.namespace)
        reference = job["spec"]["runtimeRef"]
        if backend.runtime(reference["name"], reference["kind"]) is None:
            yield _unchecked(f"the cluster has no runtime {reference['name']} yet")
        else:
            yield from _asked(cluster, job, "trainjob", backend.namespace)

    return check


def _asked(cluster: ClusterMigration, manifest: Mapping[str, Any], what: str, namespace: str) -> Iterator[Finding]:
    own = manifest["metadata"].get("namespace")
    if own and own != namespace:
        yield _unchecked(f"it belongs to namespace {own}, and the target is {namespace}")
        return
    try:
        taken = cluster.would_take(manifest)
    except Rejected as exc:
        yield finding("ADMISSION", (), f"the cluster refuses it: {exc.message}", v2_path=f"{what}:")
    except Forbidden as exc:
        yield _unchecked(exc.message)
    except BackendError:
        raise
    else:
        if not taken:
            yield _unchecked(f"a {manifest['kind']} {manifest['metadata'].get('name')} is there already")


def _unchecked(reason: str) -> Finding:
    return finding("ADMISSION", (), f"not checked by the cluster: {reason}", severity="info", remedy="")
