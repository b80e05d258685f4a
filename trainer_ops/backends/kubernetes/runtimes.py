"""The runtimes of a cluster: reading them, and making one be as a manifest says."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from trainer_ops.backends.kubernetes.client import TIMEOUT, Cluster
from trainer_ops.backends.kubernetes.kinds import RawObject
from trainer_ops.errors import AlreadyExists, Forbidden, InvalidRequest, NotFound, Unreachable
from trainer_ops.model import keys

__all__ = ["Runtimes"]

_PLAIN: dict[str, Any] = {"_preload_content": False, "_request_timeout": TIMEOUT}
_PLURALS = {keys.CLUSTER_RUNTIME: "clustertrainingruntimes", keys.NAMESPACED_RUNTIME: "trainingruntimes"}
# So often somebody else may be quicker between reading a runtime and writing it.
_RACES = 5


class Runtimes:
    """ClusterTrainingRuntimes, and the TrainingRuntimes of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def get(self, name: str, kind: str) -> RawObject | None:
        """The runtime of that kind and name; None for 404."""
        if kind not in _PLURALS:
            return None
        call, where = self._verb("get", kind)
        try:
            return self._json(f"reading {kind} {name}", call, *where, name)
        except NotFound:
            return None

    def all(self) -> list[RawObject]:
        """All cluster runtimes, and those of this namespace where they may be read."""
        found = self._list(keys.CLUSTER_RUNTIME, "listing clustertrainingruntimes")
        try:
            return [*found, *self._list(keys.NAMESPACED_RUNTIME, f"listing trainingruntimes in {self._namespace}")]
        except Forbidden:
            return found

    def apply(self, manifest: Mapping[str, Any]) -> RawObject:
        """Create it, or replace its spec; see ``Backend.apply_runtime``.

        A whole replacement and no patch: what the manifest leaves out has to go, and server-side apply is more than the
        oldest client can. Finalizers and owners are others' and stay: Trainer marks a runtime in use with one.
        """
        meta = manifest["metadata"]
        kind, name = str(manifest["kind"]), str(meta["name"])
        if kind == keys.NAMESPACED_RUNTIME and meta.get("namespace") not in (None, "", self._namespace):
            reason = f'"{meta["namespace"]}" is not the namespace of this target, {self._namespace}'
            remedy = "Leave it out, or name that target"
            raise InvalidRequest("metadata.namespace", reason, remedy, what=f"invalid {kind}")
        for _ in range(_RACES):
            standing = self.get(name, kind)
            try:
                return self._create(kind, manifest) if standing is None else self._replace(kind, manifest, standing)
            except AlreadyExists:
                continue
            except (NotFound, Unreachable) as exc:
                # Deleted, or changed by somebody else, since it was read: look again.
                if exc.status not in (404, 409):
                    raise
                error = exc
        raise Unreachable(f"changing {kind} {name}: somebody else changes it all the time: {error.message}", status=409)

    def _create(self, kind: str, manifest: Mapping[str, Any]) -> RawObject:
        call, where = self._verb("create", kind)
        body = copy.deepcopy(dict(manifest))
        return self._json(
            f"creating {kind} {body['metadata']['name']}", call, *where, body=body, field_validation="Strict"
        )

    def _replace(self, kind: str, manifest: Mapping[str, Any], standing: RawObject) -> RawObject:
        new = {**standing, "spec": copy.deepcopy(manifest["spec"])}
        new["metadata"] = {**standing["metadata"]}
        for notes in ("labels", "annotations"):
            wanted = manifest["metadata"].get(notes) or {}
            if wanted:
                new["metadata"][notes] = {**(standing["metadata"].get(notes) or {}), **wanted}
        call, where = self._verb("replace", kind)
        name = standing["metadata"]["name"]
        # One try: a conflict would only be repeated with what was read before it.
        return self._json(f"changing {kind} {name}", call, *where, name, body=new, field_validation="Strict", tries=1)

    def _list(self, kind: str, what: str) -> list[RawObject]:
        call, where = self._verb("list", kind)
        found, _ = self._cluster.items(what, lambda apis, **page: getattr(apis.custom, call)(*where, **_PLAIN, **page))
        return found

    def _verb(self, verb: str, kind: str) -> tuple[str, tuple[str, ...]]:
        """The generated method for a verb, and its first arguments."""
        plural = _PLURALS[kind]
        if kind == keys.CLUSTER_RUNTIME:
            return f"{verb}_cluster_custom_object", (keys.GROUP, keys.VERSION, plural)
        return f"{verb}_namespaced_custom_object", (keys.GROUP, keys.VERSION, self._namespace, plural)

    def _json(self, what: str, call: str, *where: str, tries: int = 5, **options: Any) -> RawObject:
        answer: RawObject = self._cluster.call(
            what, lambda apis: getattr(apis.custom, call)(*where, **options, **_PLAIN), tries=tries
        )
        return answer
