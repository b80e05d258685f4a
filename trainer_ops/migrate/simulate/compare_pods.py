"""In what two pods of one seat differ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from trainer_ops.migrate import fields
from trainer_ops.migrate.simulate.amounts import amount
from trainer_ops.migrate.simulate.fleet import Fleet, SimContainer, SimPod

__all__ = ["Found", "pods"]

Found = tuple[str, str, Any, Any]
Say = Callable[[str], str]

# What the operators and controllers add themselves.
_OWN_INIT: Final = ("init-pytorch", "kubectl-delivery")
_OWN_VOLUMES: Final = ("ssh-auth", "mpi-job-config", "mpi-job-kubectl", "mpi-ssh-auth", "mpi-hostfile")
_SSH: Final = ("ssh-auth", "mpi-ssh-auth")
_OWN_LABELS: Final = (
    *("training.kubeflow.org/", "jobset.sigs.k8s.io/", "batch.kubernetes.io/"),
    *("scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group", "kueue.x-k8s.io/", "job-name"),
)
# Variables that Trainer sets and v1's operators did not; the code of v1 did not know them.
_OWN_VARIABLES: Final = re.compile(r"(PET|JAX|DMLC|OMPI_MCA|PRTE_MCA)_\w+|TRAINJOB_NAME")
_NUMBER: Final = re.compile(r"\d+")
_PORTS: Final = re.compile(r"(?<=>):\d+")
# Compared on their own, or not kept by the API server in a template.
_COMPARED: Final = (
    "ephemeralContainers",
    "containers",
    "initContainers",
    "volumes",
    "hostname",
    "subdomain",
    "restartPolicy",
)
_SELECTING: Final = ("affinity", "topologySpreadConstraints")
_JOB_V1: Final = "training.kubeflow.org/job-name"
_JOB_V2: Final = "jobset.sigs.k8s.io/jobset-name"
_SEEN: Final = ("name", "image", "command", "args", "env", "envFrom", "resources", "volumeMounts", "ports")


def pods(one: SimPod, other: SimPod, old: Say, new: Say, v1: Fleet, v2: Fleet) -> Iterator[Found]:
    """(topic, what, v1, v2) of all differences.

    Args:
        one: of v1.
        other: of v2.
        old: says v1's addresses in the words that both share.
        new: says v2's.
        v1: of the pod, for what happens around it.
        v2: of the other.
    """
    yield from _metadata(one, other)
    yield from _around(one, other, v1, v2)
    yield from _spec(one, other, v1, v2)
    yield from _code(one, other, old, new)
    yield from _others(one, other, old, new)
    yield from _volumes(one, other)


def _metadata(one: SimPod, other: SimPod) -> Iterator[Found]:
    for kind in ("labels", "annotations"):
        before, after = (
            {key: value for key, value in held.items() if not key.startswith(_OWN_LABELS)}
            for held in (getattr(one, kind), getattr(other, kind))
        )
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key):
                yield kind, key, before.get(key), after.get(key)


def _around(one: SimPod, other: SimPod, v1: Fleet, v2: Fleet) -> Iterator[Found]:
    before, after = v1.behaviour.restart.get(one.seat), v2.behaviour.restart.get(other.seat)
    if before != after:
        yield "restart", "failing pod", before, after
    limit, now = v1.behaviour.retries.get(one.seat), v2.behaviour.retries.get(other.seat)
    if limit != now:
        yield "retries", "number", "for ever" if limit is None else str(limit), "for ever" if now is None else str(now)
    elif limit and v1.behaviour.shared_retries:
        yield "retries", "counted", "restarts of running pods", "all restarts of the Job's pods"


def _spec(one: SimPod, other: SimPod, v1: Fleet, v2: Fleet) -> Iterator[Found]:
    before, after = _plain(one.spec, fields.POD_DEFAULTS), _plain(other.spec, fields.POD_DEFAULTS)
    if before.get("serviceAccountName") == f"{v1.name}-launcher":
        # training-operator makes an account for its launcher, which runs kubectl.
        del before["serviceAccountName"]
    _without_search(before, v1)
    for held, fleet, label in ((before, v1, _JOB_V1), (after, v2, _JOB_V2)):
        held.update({name: _selecting(held[name], label, fleet.name) for name in _SELECTING if name in held})
    for name in sorted(before.keys() | after.keys()):
        if name in fields.POD and name not in _COMPARED and before.get(name) != after.get(name):
            yield ("security" if name == "securityContext" else "pod"), name, before.get(name), after.get(name)


def _selecting(value: Any, label: str, name: str) -> Any:
    """A rule with the label that all pods of the job have in a word for both generations."""
    if isinstance(value, Mapping):
        made = {
            ("<job>" if key == label and item == name else key): (
                "<job>" if key == label and item == name else _selecting(item, label, name)
            )
            for key, item in value.items()
        }
        return {**made, "key": "<job>"} if made.get("key") == label and made.get("values") == [name] else made
    if isinstance(value, list | tuple):
        return [_selecting(item, label, name) for item in value]
    return value


def _without_search(spec: dict[str, Any], v1: Fleet) -> None:
    """mpi-operator adds a domain to search in, which v2's addresses do not need."""
    dns = spec.get("dnsConfig")
    if not isinstance(dns, Mapping):
        return
    own = f"{v1.name}.{v1.namespace}.svc.cluster.local"
    kept = {**dns, "searches": [name for name in dns.get("searches") or () if name != own]}
    kept = {name: value for name, value in kept.items() if value}
    if kept:
        spec["dnsConfig"] = kept
    else:
        del spec["dnsConfig"]


def _plain(held: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in held.items() if value not in (None, "", [], {}) and defaults.get(name) != value
    }


def _code(one: SimPod, other: SimPod, old: Say, new: Say) -> Iterator[Found]:
    """The container with the code."""
    mine, its = one.code, other.code
    if mine.image != its.image:
        yield "image", "image", mine.image, its.image
    yield from _argv(mine, its, old, new, "command")
    for topic, what, before, after in _environment(mine, its, old, new, "environment"):
        if what == "PET_NPROC_PER_NODE":
            yield "processes", "of a node", before, after
        elif before is not None and after is not None and other.name in after and mine.env[what] == one.name:
            # A pod's own name, which the code asks for.
            yield "names", what, before, after
        else:
            yield topic, what, before, after
    yield from _container(mine, its, "")


def _argv(mine: SimContainer, its: SimContainer, old: Say, new: Say, topic: str) -> Iterator[Found]:
    before, after = [old(text) for text in mine.argv], [new(text) for text in its.argv]
    ports = _ports(mine, its)
    same = len(before) == len(after) and all(
        one == other or _NUMBER.sub(lambda found: ports.get(found[0], found[0]), one) == other
        for one, other in zip(before, after, strict=True)
    )
    if not same:
        yield topic, "argv", before, after
    elif bool(mine.command) != bool(its.command):
        # The image's entry point is in one of them only.
        yield topic, "entry point", list(mine.command), list(its.command)


def _ports(mine: SimContainer, its: SimContainer) -> dict[str, str]:
    """Old port -> new one, of variables in the command that Kubernetes fills in: they differ, and are told as those."""
    words = " ".join([*(its.raw.get("command") or ()), *(its.raw.get("args") or ())])
    both = [name for name in mine.env if name.endswith("_PORT") and name in its.env and f"$({name})" in words]
    return {mine.env[name]: its.env[name] for name in both}


def _environment(mine: SimContainer, its: SimContainer, old: Say, new: Say, topic: str) -> Iterator[Found]:
    for name in (*mine.env, *(name for name in its.env if name not in mine.env)):
        before = old(mine.env[name]) if name in mine.env else None
        after = new(its.env[name]) if name in its.env else None
        if before is not None and after is not None:
            if name == "PET_NNODES":
                # As many as that at least and at most.
                before = before if len(set(before.split(":"))) > 1 else before.partition(":")[0]
            if not _means_the_same(before, after):
                yield (topic if not _same_but_port(name, before, after) else "port"), name, before, after
        elif before is not None or not _OWN_VARIABLES.fullmatch(name):
            yield topic, name, before, after
    if mine.sources != its.sources:
        yield topic, "envFrom", list(mine.sources), list(its.sources)


def _means_the_same(before: str, after: str) -> bool:
    if before == after:
        return True
    try:
        return bool(before[:1] == "{" and json.loads(before) == json.loads(after))
    except ValueError:
        return False


def _same_but_port(name: str, before: str, after: str) -> bool:
    if name.endswith("_PORT"):
        return before.isdigit() and after.isdigit()
    return _means_the_same(_PORTS.sub("", before), _PORTS.sub("", after))


def _container(mine: SimContainer, its: SimContainer, prefix: str) -> Iterator[Found]:
    for kind in ("limits", "requests"):
        before, after = mine.resources.get(kind, {}), its.resources.get(kind, {})
        for name in sorted(before.keys() | after.keys()):
            if _differ(before.get(name), after.get(name)):
                yield "resources", f"{prefix}{kind}.{name}", before.get(name), after.get(name)
    before, after = (_fields(container) for container in (mine, its))
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            topic = "security" if name == "securityContext" else "container"
            yield topic, f"{prefix}{name}", before.get(name), after.get(name)
    yield from _mounts(mine, its, prefix)


def _differ(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return one is not other
    return one != other and (amount(one) is None or amount(one) != amount(other))


def _fields(container: SimContainer) -> dict[str, Any]:
    held = _plain(container.raw, fields.CONTAINER_DEFAULTS)
    if held.get("imagePullPolicy") == fields.default_pull_policy(container.image):
        del held["imagePullPolicy"]
    claims = (held.get("resources") or {}).get("claims")
    kept = {name: value for name, value in held.items() if name in fields.CONTAINER and name not in _SEEN}
    return {**kept, "claims": claims} if claims else kept


def _mounts(mine: SimContainer, its: SimContainer, prefix: str) -> Iterator[Found]:
    before, after = (
        {path: mount for path, mount in container.mounts.items() if mount.get("name") not in _OWN_VOLUMES}
        for container in (mine, its)
    )
    for path in sorted(before.keys() | after.keys()):
        if _plain(before.get(path) or {}, {"readOnly": False}) != _plain(after.get(path) or {}, {"readOnly": False}):
            yield "mounts", f"{prefix}{path}", before.get(path), after.get(path)


def _others(one: SimPod, other: SimPod, old: Say, new: Say) -> Iterator[Found]:
    """Init containers and sidecars, by their place: their names may have had to change."""
    for word, mine, its in (
        ("init container", [c for c in one.init if c.name not in _OWN_INIT], list(other.init)),
        (
            "sidecar",
            [c for c in one.containers if c is not one.code],
            [c for c in other.containers if c is not other.code],
        ),
    ):
        if len(mine) != len(its):
            yield word, "number", [c.name for c in mine], [c.name for c in its]
            continue
        for before, after in zip(mine, its, strict=True):
            prefix = f"{before.name}: "
            if before.image != after.image:
                yield word, f"{prefix}image", before.image, after.image
            for topic, what, was, now in (
                *_argv(before, after, old, new, word),
                *_environment(before, after, old, new, word),
                *_container(before, after, prefix),
            ):
                yield topic, what if what.startswith(prefix) else f"{prefix}{what}", was, now


def _volumes(one: SimPod, other: SimPod) -> Iterator[Found]:
    before, after = (
        {str(held.get("name")): held for held in made.spec.get("volumes") or () if held.get("name") not in _OWN_VOLUMES}
        for made in (one, other)
    )
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield "volumes", name, before.get(name), after.get(name)
    was, now = (_key(made) for made in (one, other))
    if was and was != now:
        yield "ssh", "key", was, now


def _key(made: SimPod) -> dict[str, Any]:
    """Where the ssh key is and who may read it, as far as it matters to ssh: its own folder wants 0600."""
    for path, mount in made.code.mounts.items():
        if mount.get("name") in _SSH:
            secret = next((v.get("secret") or {} for v in made.spec.get("volumes") or () if v.get("name") in _SSH), {})
            mode = next((item.get("mode") for item in secret.get("items") or () if item.get("path") == "id_rsa"), None)
            mode = mode if mode is not None else secret.get("defaultMode", 0o644)
            return {"path": path, **({"mode": oct(mode)} if path == "/root/.ssh" and _is_root(made) else {})}
    return {}


def _is_root(made: SimPod) -> bool:
    """A mode matters: ssh looks at that of its own user's files, and root owns the mounted ones."""
    of_container, of_pod = made.code.raw.get("securityContext") or {}, made.spec.get("securityContext") or {}
    return not of_container.get("runAsUser", of_pod.get("runAsUser"))
