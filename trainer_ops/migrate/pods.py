"""A role's pod template into a part of the draft: every field is carried, dropped with the reason, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from trainer_ops.migrate import fields
from trainer_ops.migrate.draft import NODE, Draft, Part
from trainer_ops.migrate.ledger import Fate
from trainer_ops.migrate.normalise import Role
from trainer_ops.migrate.paths import Path, get
from trainer_ops.migrate.places import Key, Place

__all__ = ["carry", "names_of", "same", "sidecars", "without_nulls"]

V1_LABELS = "training.kubeflow.org/"
_QUEUE = "kueue.x-k8s.io/queue-name"
_POD_GROUPS = ("scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group")
_BY_JOBSET = "JobSet gives the pods their names"
_MESH = "sidecar.istio.io/inject"
# Where Master and Workers become nodes of one Job, which all have to end.
_JOINED = ("PyTorchJob", "XGBoostJob")
_LISTENS = {"MPIJob": "sshd's port", "TFJob": "TensorFlow's port", "PaddleJob": "Paddle's port"}


def carry(draft: Draft, role: Role, part: Part) -> None:
    """Copy the role's pod template into the part, with links for the ledger; the main container becomes ``node``."""
    for leaf in draft.ledger.left(role.template_path):
        if draft.ledger.value(leaf) is None:
            draft.drop(leaf, "null says nothing")
    _metadata(draft, role, part)
    _pod(draft, role, part)
    names = names_of(role)
    for i, (container, name) in enumerate(zip(role.pod["containers"], names, strict=True)):
        _container(draft, role, part, container, ("containers", i), name)
    for i, container in enumerate(role.pod.get("initContainers") or ()):
        called = str(container.get("name") or "")
        name = _free("node-init", role) if called == NODE else called
        _container(draft, role, part, container, ("initContainers", i), name)
    # The container with the code comes first, as in every runtime that Trainer ships.
    part.spec["containers"].sort(key=lambda container: container.get("name") != NODE)


def same(draft: Draft, role: Role, part: Part, reason: str) -> None:
    """A role that has become the pods of a part which another role has filled.

    Args:
        draft: with that part.
        role: whose leaves are to be accounted for.
        part: where they are.
        reason: why a leaf is dropped that is not there.
    """
    shadow = Draft(draft.job, draft.ledger, draft.options, draft.name)
    carry(shadow, role, shadow.add_part(part.name, trains=part.trains))
    for found in shadow.findings:
        if found.severity == "refused" and found not in draft.findings:
            draft.findings.append(found)
    for link in shadow.links:
        draft.link(link.path, link.place, link.reason, exact=link.exact, otherwise=(Fate.DROPPED, reason))


def names_of(role: Role) -> list[str]:
    """What the role's containers are called in the result: the main one ``node``, none of the others."""
    names: list[str] = []
    for i, container in enumerate(role.pod["containers"]):
        name = str(container.get("name") or "")
        if i == role.main:
            name = NODE
        elif name == NODE:
            name = _free("node-sidecar", role)
        names.append(name)
    return names


def _free(name: str, role: Role) -> str:
    """That name, or the first with a number that no container of the pod has: init containers share its names."""
    held = (*role.pod["containers"], *(role.pod.get("initContainers") or ()))
    taken = {str(container.get("name") or "") for container in held}
    return next(one for one in (name, *(f"{name}-{k}" for k in range(len(held)))) if one not in taken)


def without_nulls(value: Any) -> Any:
    """A deep copy without the keys that are null."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(item) for item in value]
    return deepcopy(value)


def _empty(value: Any) -> bool:
    return value in ("", {}, []) or value is None or value == ()


def _metadata(draft: Draft, role: Role, part: Part) -> None:
    path: Path = (*role.template_path, "metadata")
    held = role.template.get("metadata") or {}
    for name in ("name", "namespace", "generateName", "creationTimestamp"):
        draft.drop((*path, name), _BY_JOBSET)
    for name in ("apiVersion", "kind"):
        draft.drop((*role.template_path, name), "a pod template does not say what it is: v1's API server dropped it")
    for kind in ("labels", "annotations"):
        for key, value in (held.get(kind) or {}).items():
            where = (*path, kind, key)
            if value is None:
                continue
            reason = _metadata_drop(key)
            if reason:
                draft.drop(where, reason)
                continue
            if key == _MESH and value == "true":
                draft.say("MESH", where, "the mesh's sidecar does not end with the training, and every pod has to end")
            part.pod["metadata"].setdefault(kind, {})[key] = value
            draft.link(where, part.place("metadata", kind, key))
        if not held.get(kind):
            draft.drop((*path, kind), "empty")


def _metadata_drop(key: str) -> str:
    if key.startswith(V1_LABELS):
        return "written by v1's operator"
    if key == _QUEUE:
        return "Kueue reads it on the TrainJob, not on pods"
    return "set by the controller of the pod group" if key in _POD_GROUPS else ""


def _pod(draft: Draft, role: Role, part: Part) -> None:
    for name, value in role.pod.items():
        path: Path = (*role.pod_path, name)
        if name in ("containers", "initContainers") and not _empty(value):
            part.spec[name] = []
        elif name == "restartPolicy":
            draft.drop(path, f"v1 overrides it with {role.name}'s own restartPolicy")
        elif _empty(value):
            draft.drop(path, "empty")
        elif name in ("hostname", "subdomain"):
            draft.say("POD-NAME", path, f"{name} {value!r} is not kept: {_BY_JOBSET}")
            draft.drop(path, _BY_JOBSET)
        elif name == "ephemeralContainers":
            draft.drop(path, "no field of a pod template: added to running pods")
        elif name == "serviceAccount":
            _service_account(draft, role, part, path, value)
        elif name in fields.POD:
            _pod_field(draft, part, path, name, value)


def _pod_field(draft: Draft, part: Part, path: Path, name: str, value: Any) -> None:
    if fields.POD_DEFAULTS.get(name) == value:
        draft.drop(path, "the default")
        return
    if name == "nodeName":
        draft.say("NODE-NAME", path, f"all pods are put on {value}, past the scheduler", severity="warning")
    if name == "hostNetwork":
        port = _LISTENS.get(draft.job.kind.name, "port 29500")
        draft.say("HOST-NETWORK", path, f"two pods of one host would both listen on {port}")
    part.spec[name] = without_nulls(value)
    _link_items(draft, path, part.place("spec", name), name, value)


def _service_account(draft: Draft, role: Role, part: Part, path: Path, value: str) -> None:
    """The old name of serviceAccountName, which wins."""
    if role.pod.get("serviceAccountName") or value == "default":
        draft.drop(path, "the old name of serviceAccountName, which says it" if value != "default" else "the default")
        return
    part.spec["serviceAccountName"] = value
    draft.link(path, part.place("spec", "serviceAccountName"), "serviceAccount is the old name of serviceAccountName")


def _link_items(draft: Draft, path: Path, place: Place, name: str, value: Any) -> None:
    """One link for each item of a list in which order says nothing, else one for all."""
    field = fields.KEYED.get(name)
    known = [item.get(field) for item in value] if field else []
    if field and all(isinstance(key, str) for key in known) and len(set(known)) == len(known):
        for i, key in enumerate(known):
            draft.link((*path, i), (*place, Key(key, field)))
    else:
        draft.link(path, place)


def _container(draft: Draft, role: Role, part: Part, held: Mapping[str, Any], at: tuple[str, int], name: str) -> None:
    path: Path = (*role.pod_path, *at)
    place = part.place("spec", at[0], Key(name))
    made: dict[str, Any] = {"name": name}
    part.spec[at[0]].append(made)
    is_main = name == NODE and at[0] == "containers"
    if "name" in held:
        changed = "" if held["name"] == name else f"called {name} now"
        if changed and not is_main:
            draft.say("SIDECAR-NAME", (*path, "name"), f"the container {held['name']} is {changed}", severity="info")
        otherwise = (Fate.MAPPED, f"the runtime's container {name}") if is_main else None
        draft.link((*path, "name"), (*place, "name"), changed, exact=not changed, otherwise=otherwise)
    for field, value in held.items():
        where = (*path, field)
        if field == "name":
            continue
        if _empty(value):
            draft.drop(where, "empty")
        elif field == "env":
            _env(draft, where, (*place, "env"), made, value)
        elif field == "ports" and is_main:
            _ports(draft, where, (*place, "ports"), made, value)
        elif field in fields.CONTAINER:
            _container_field(draft, where, (*place, field), made, held)
    if not is_main and at[0] == "containers":
        draft.sidecars.append((path, part))


def sidecars(draft: Draft) -> None:
    """Say of containers beside the one with the code what they keep waiting; call it when the job's end is decided."""
    targets = draft.jobset["spec"].get("successPolicy", {}).get("targetReplicatedJobs")
    for path, part in draft.sidecars:
        # An MPIJob is over with its launcher's pod in both generations, and a pod with all of its containers. Pods
        # that nothing waits for are ended with the training.
        if draft.job.kind.name == "MPIJob" or (targets and part.name not in targets):
            continue
        name = (get(draft.job.raw, path) or {}).get("name")
        if _waited_for_in_v1(draft, part):
            message = f"the container {name} has to end before the training is over, as in v1"
            draft.say("SIDECAR", path, message, severity="info")
        else:
            message = f"the container {name} has to end in every pod before the training is over;"
            draft.say("SIDECAR", path, f"{message} in v1 the pods of the first role were enough")


def _waited_for_in_v1(draft: Draft, part: Part) -> bool:
    """Whether v1 waited for the end of the same pods: not where roles were joined, or one worker's end was enough."""
    held = [role for role in draft.job.roles if role.replicas != 0]
    fewer = draft.job.kind.name in _JOINED and (len(held) > 1 or bool(draft.job.spec.get("elasticPolicy")))
    return not fewer or draft.num_nodes == 1 or "successPolicy" in part.job


def _container_field(draft: Draft, path: Path, place: Place, made: dict[str, Any], held: Mapping[str, Any]) -> None:
    field = str(path[-1])
    value = held[field]
    if fields.CONTAINER_DEFAULTS.get(field) == value:
        draft.drop(path, "the default")
    elif field == "imagePullPolicy" and value == default_of(held):
        draft.drop(path, "the default for this image's tag")
    else:
        made[field] = without_nulls(value)
        _link_items(draft, path, place, field, value)


def default_of(container: Mapping[str, Any]) -> str:
    """The pull policy that a container's image has by its tag."""
    return fields.default_pull_policy(str(container.get("image") or ""))


def _env(draft: Draft, path: Path, place: Place, made: dict[str, Any], value: Any) -> None:
    """Of variables with one name Kubernetes takes the last, and Trainer refuses two."""
    last = {item.get("name"): i for i, item in enumerate(value)}
    earlier: dict[str, str] = {}
    for i, item in enumerate(value):
        where = (*path, i)
        if last[item["name"]] != i:
            draft.drop(where, f"{item['name']} is set again further down, which wins")
            if item.get("value") is not None:
                earlier[item["name"]] = item["value"]
            continue
        kept = without_nulls(item)
        made.setdefault("env", []).append(kept)
        draft.link(where, (*place, Key(item["name"])))
        # What stands between the two, and the second itself, sees the first: PATH is $(PATH):/more.
        for name, text in earlier.items():
            if f"$({name})" in (kept.get("value") or ""):
                kept["value"] = kept["value"].replace(f"$({name})", text)
                draft.rewrote((*place, Key(item["name"]), "value"), f"the {name} that is set further up is written out")
        earlier.pop(item["name"], None)


def _ports(draft: Draft, path: Path, place: Place, made: dict[str, Any], value: Any) -> None:
    """The port of v1's rendezvous is not the port of v2's, which Trainer declares itself."""
    own, number = draft.job.kind.port
    kept: list[Any] = []
    for i, port in enumerate(value):
        held = port.get("containerPort")
        if held is not None and (not isinstance(held, int) or isinstance(held, bool)):
            draft.refuse("NOT-A-JOB", (*path, i, "containerPort"), f"{held!r} is no port number")
        if own and (port.get("name") == own or (port.get("containerPort") == number and not port.get("name"))):
            draft.drop((*path, i), "the port of v1's rendezvous; Trainer adds its own")
            continue
        draft.link((*path, i), (*place, len(kept)))
        kept.append(without_nulls(port))
    if kept:
        made["ports"] = kept
