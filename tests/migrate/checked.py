"""Converting with what holds for every job checked on the way: nothing lost, nothing inadmissible, the same bytes."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from trainer_ops.migrate.convert import Converted, convert
from trainer_ops.migrate.ledger import Fate
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.paths import leaves, text_of
from trainer_ops.migrate.simulate.named import EXTRAS
from trainer_ops.migrate.yamltext import to_yaml
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.validate.runtime import check_runtime
from trainer_ops.validate.trainjob import check

__all__ = ["checked", "codes", "env_of", "fates", "paths_exist", "pytorch", "trainer_of", "unwrapped"]

# Stand-ins for the runtimes that Trainer ships, with what the rules of admission look at.
STOCK: Mapping[str, str] = {
    "torch-distributed": "torch",
    "jax-distributed": "jax",
    "xgboost-distributed": "xgboost",
}


def checked(raw: Mapping[str, Any], **choices: Any) -> Converted:
    """``convert`` with options as keywords; asserts what holds for every job."""
    before = copy.deepcopy(raw)
    options = Options(**choices)
    done = convert(raw, options)
    assert raw == before, "the input was changed"
    assert [entry.path for entry in done.ledger] == [text_of(path) for path, _ in leaves(raw)], "a leaf is lost"
    again = convert(copy.deepcopy(raw), options)
    assert again == done
    assert done.ok or any(found.severity == "refused" for found in done.findings)
    assert all(found.code != "DIFFERENCE" for found in done.findings), [str(one) for one in done.differences]
    if done.trainjob is not None:
        _admitted(done, placeholders=options.allow_placeholders)
        paths_exist(done)
        assert _bytes(done) == _bytes(again)
    return done


def _bytes(done: Converted) -> bytes:
    return "---\n".join(to_yaml(one) for one in (done.runtime, done.trainjob) if one).encode()


def _admitted(done: Converted, *, placeholders: bool) -> None:
    assert done.trainjob is not None
    assert not any(found.severity == "refused" for found in done.findings)
    found = [str(one) for one in check_runtime(done.runtime) if one.is_error] if done.runtime else []
    runtime = TrainingRuntime.from_raw(done.runtime or _stock(done.trainjob["spec"]["runtimeRef"]["name"]))
    found += [str(one) for one in check(done.trainjob, runtime) if one.is_error]
    # A placeholder is no number until somebody renders it.
    found = [one for one in found if not (placeholders and '"$' in one)]
    assert not found, "\n".join(found)


def _stock(name: str) -> dict[str, Any]:
    policy = STOCK.get(name, "torch")
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    pod = {"spec": {"containers": [{"name": "node", "image": "stock"}]}}
    job = {"name": "node", "template": {"metadata": {"labels": labels}, "spec": {"template": pod}}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": policy}},
        "spec": {"mlPolicy": {"numNodes": 1, policy: {}}, "template": {"spec": {"replicatedJobs": [job]}}},
    }


def paths_exist(done: Converted) -> None:
    """Every path that the ledger gives is in the objects."""
    known: set[str] = set()
    for name, made in (("trainjob", done.trainjob), ("runtime", done.runtime)):
        for path, _ in leaves(made or {}):
            known.update(f"{name}:{text_of(path[:size])}" for size in range(1, len(path) + 1))
    for entry in done.ledger:
        if entry.fate is Fate.MAPPED:
            assert entry.v2_paths, entry
            assert set(entry.v2_paths) <= known, entry
        else:
            assert entry.reason, entry


def codes(done: Converted, severity: str | None = None) -> list[str]:
    """The findings' codes, each once, sorted; without the one that every conversion has."""
    return sorted({found.code for found in done.findings if severity in (None, found.severity)} - {EXTRAS})


def fates(done: Converted) -> dict[str, str]:
    """Path -> ``mapped to …`` or ``dropped`` or ``refused``."""
    return {e.path: ", ".join(e.v2_paths) if e.fate is Fate.MAPPED else str(e.fate) for e in done.ledger}


def trainer_of(done: Converted) -> dict[str, Any]:
    """``spec.trainer``."""
    assert done.trainjob is not None, [str(found) for found in done.findings]
    found: dict[str, Any] = done.trainjob["spec"]["trainer"]
    return found


def env_of(done: Converted) -> dict[str, Any]:
    """``spec.trainer.env`` by name: text, or the source's raw form."""
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in trainer_of(done).get("env") or ()}


def pytorch(
    container: Mapping[str, Any] | None = None,
    *,
    workers: int | None = 1,
    master: bool = True,
    pod: Mapping[str, Any] | None = None,
    role: Mapping[str, Any] | None = None,
    master_container: Mapping[str, Any] | None = None,
    name: str = "mnist",
    **spec: Any,
) -> dict[str, Any]:
    """A PyTorchJob, Master and Workers alike unless ``master_container`` says otherwise."""

    def entry(replicas: int, more: Mapping[str, Any]) -> dict[str, Any]:
        main = {"name": "pytorch", "image": "example.com/train:1", **copy.deepcopy(dict(more))}
        extra = copy.deepcopy(dict(pod or {}))
        containers = [main, *extra.pop("containers", [])]
        template = {"metadata": extra.pop("metadata", None) or {}, "spec": {"containers": containers, **extra}}
        if not template["metadata"]:
            del template["metadata"]
        return {"replicas": replicas, **copy.deepcopy(dict(role or {})), "template": template}

    given = {"command": ["python", "train.py"]} if container is None else container
    roles: dict[str, Any] = {}
    if master:
        roles["Master"] = entry(1, given if master_container is None else master_container)
    if workers is not None:
        roles["Worker"] = entry(workers, given)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": roles, **spec},
    }


def unwrapped(argv: Sequence[str]) -> tuple[str, ...]:
    """The command behind the lines of shell that a conversion has put before it; argv itself when there are none."""
    if len(argv) > 4 and (*argv[:2], argv[3]) == ("sh", "-c", "sh") and argv[2].endswith('\nexec "$@"'):
        return tuple(argv[4:])
    return tuple(argv)
