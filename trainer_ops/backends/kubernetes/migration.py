"""What a migration asks of a cluster: which v1 jobs are there, and whether it would take their results. Read only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainer_ops.backends.kubernetes.client import TIMEOUT, Cluster
from trainer_ops.backends.kubernetes.failures import NotServed
from trainer_ops.backends.kubernetes.kinds import RawObject
from trainer_ops.errors import AlreadyExists, Forbidden, NotFound
from trainer_ops.model import keys

__all__ = ["ClusterMigration", "V1Jobs"]

_PLAIN: dict[str, Any] = {"_preload_content": False, "_request_timeout": TIMEOUT}
_GROUP = "kubeflow.org"
# MPIJob is served by one of two operators, whose CRDs cannot stand side by side.
_SERVED: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("PyTorchJob", "pytorchjobs", ("v1",)),
    ("TFJob", "tfjobs", ("v1",)),
    ("MPIJob", "mpijobs", ("v2beta1", "v1")),
    ("XGBoostJob", "xgboostjobs", ("v1",)),
    ("PaddleJob", "paddlejobs", ("v1",)),
    ("JAXJob", "jaxjobs", ("v1",)),
)
_PLURALS = {
    keys.KIND: keys.PLURAL,
    keys.NAMESPACED_RUNTIME: "trainingruntimes",
    keys.CLUSTER_RUNTIME: "clustertrainingruntimes",
}


@dataclass(frozen=True, slots=True)
class V1Jobs:
    """The v1 jobs of a namespace.

    Attributes:
        objects: as stored, each with apiVersion and kind, in the order of kinds and then of names.
        hidden: plurals that this user may not list.
    """

    objects: tuple[RawObject, ...] = ()
    hidden: tuple[str, ...] = ()


class ClusterMigration:
    """Reads, and dry runs, in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def v1_jobs(self) -> V1Jobs:
        """All v1 training jobs; kinds that the cluster does not serve are left out."""
        found: list[RawObject] = []
        hidden = []
        for kind, plural, versions in _SERVED:
            try:
                found += self._list(kind, plural, versions)
            except Forbidden as exc:
                if exc.status == 401:
                    raise
                hidden.append(plural)
        if not self._cluster.serves(_GROUP):
            hidden = []
        return V1Jobs(tuple(found), tuple(hidden))

    def would_take(self, manifest: Mapping[str, Any]) -> bool:
        """Send it as a server-side dry run with ``fieldValidation=Strict``: nothing is stored.

        Returns:
            False: an object of that name is there, so nothing was checked.

        Raises:
            Rejected: the cluster's admission refuses it.
            Forbidden: this user may not create it.
        """
        kind = str(manifest["kind"])
        name = str(manifest["metadata"].get("name") or manifest["metadata"].get("generateName") or "")
        body = {**manifest, "metadata": {**manifest["metadata"], "namespace": self._namespace}}
        where: tuple[str, ...] = (keys.GROUP, keys.VERSION, self._namespace, _PLURALS[kind])
        try:
            self._cluster.call(
                f"checking {kind} {self._namespace}/{name}",
                lambda apis: apis.custom.create_namespaced_custom_object(
                    *where, body=body, dry_run="All", field_validation="Strict", **_PLAIN
                ),
            )
        except AlreadyExists:
            return False
        return True

    def _list(self, kind: str, plural: str, versions: tuple[str, ...]) -> list[RawObject]:
        for version in versions:
            where = (_GROUP, version, self._namespace, plural)
            try:
                found, _ = self._cluster.items(
                    f"listing {plural} in {self._namespace}",
                    lambda apis, where=where, **page: apis.custom.list_namespaced_custom_object(
                        *where, **_PLAIN, **page
                    ),
                )
            except (NotServed, NotFound):
                continue
            named = [{"apiVersion": f"{_GROUP}/{version}", "kind": kind, **one} for one in found]
            return sorted(named, key=lambda one: str(one["metadata"]["name"]))
        return []
