"""Rules about environment variables, wherever a TrainJob may list them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainer_ops.validate.findings import Finding, error, warning
from trainer_ops.validate.peek import find, mapping, named, show, text, texts
from trainer_ops.validate.subject import Subject

__all__ = ["RESERVED", "env_lists", "reserved_names", "trainer_references"]

_POD = "spec.runtimePatches[].trainingRuntimeSpec.template.spec.replicatedJobs[].template.spec.template.spec"
# Trainer copies these field by field into the pod; those of patches are merged as they are.
_COPIED = ("spec.trainer.env", "spec.initializer.dataset.env", "spec.initializer.model.env")
_MERGED = (f"{_POD}.containers[].env", f"{_POD}.initContainers[].env")
_SOURCES = ("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef")

# What a policy sets itself and refuses to be given; JAX's is not refused but replaced.
RESERVED: Mapping[str, tuple[str, ...]] = {
    "torch": ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    "mpi": (
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
    ),
    "xgboost": ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
}
_JAX = ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS")

_SECRETS = frozenset(
    {
        "ACCESS_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "MLFLOW_TRACKING_PASSWORD",
        "SECRET_ACCESS_KEY",
        "WANDB_API_KEY",
    }
)
# $(NAME), but not $$(NAME), which Kubernetes writes as $(NAME).
_REFERENCE = re.compile(r"(?<!\$)(?:\$\$)*\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


def env_lists(manifest: Mapping[Any, Any]) -> Iterator[Finding]:
    """Names, values and sources of every variable in the TrainJob."""
    for pattern in (*_COPIED, *_MERGED):
        for path, held in find(manifest, pattern):
            for i, name, item in named(held):
                yield from _variable(f"{path}[{i}]", name, item, pattern in _COPIED)


def _variable(path: str, name: str, item: Mapping[Any, Any], copied: bool) -> Iterator[Finding]:
    if "=" in name or not all(" " <= letter <= "~" for letter in name):
        reason = f"{show(name)} is no name of an environment variable"
        yield error("env-name", f"{path}.name", reason, "Use letters, digits and _")
    source = item.get("valueFrom")
    if isinstance(source, Mapping):
        yield from _source(f"{path}.valueFrom", name, source, copied)
        if text(item.get("value")):
            ignored = ": Trainer ignores value" if copied else ""
            yield error("env-source", path, f"{name} has both value and valueFrom{ignored}", "Keep one of them")
    elif name in _SECRETS and text(item.get("value")):
        reason = f"{name} is a credential in plain text, readable by all who may read TrainJobs"
        yield warning("secret-in-clear", f"{path}.value", reason, "Use valueFrom.secretKeyRef, or secretRef")


def _source(path: str, name: str, source: Mapping[Any, Any], copied: bool) -> Iterator[Finding]:
    given = sorted(str(key) for key, held in source.items() if held is not None)
    remedy = f"Give one of {', '.join(_SOURCES if copied else (*_SOURCES, 'fileKeyRef'))}"
    if len(given) != 1:
        reason = f"{name} has {' and '.join(given) or 'no source'}" + (", which exclude each other" if given else "")
        yield error("env-source", path, reason, remedy)
    elif copied and given == ["fileKeyRef"]:
        reason = f"{name} has fileKeyRef, which Trainer drops: the pods would be refused"
        yield error("env-source", path, reason, remedy)


def reserved_names(subject: Subject) -> Iterator[Finding]:
    """Variables of ``spec.trainer.env`` that belong to the runtime's policy."""
    for policy, names in RESERVED.items():
        if subject.runtime is not None and subject.policy != policy:
            continue
        for i, name, _ in _trainer_env(subject):
            if name in names:
                path = f"spec.trainer.env[{i}].name"
                if subject.runtime is None:
                    reason = f"{name} is refused by runtimes with the policy {policy}, which set it themselves"
                    yield warning("env-reserved", path, reason, "Remove it if the runtime is one of them")
                else:
                    reason = f"{name} is set by the {policy} policy of the runtime"
                    yield error("env-reserved", path, reason, "Remove it: it follows from numNodes and numProcPerNode")
    for i, name, _ in _trainer_env(subject):
        if subject.policy == "jax" and name in _JAX:
            reason = f"{name} replaces what the jax policy of the runtime sets, on all nodes alike"
            yield warning("env-overrides", f"spec.trainer.env[{i}].name", reason, "Remove it unless that is meant")


def trainer_references(subject: Subject) -> Iterator[Finding]:
    """``$(NAME)`` in values of ``spec.trainer.env`` that will stay as they are."""
    entries = _trainer_env(subject)
    own = [name for _, name, _ in entries]
    before = set(texts([name for _, name, _ in named(subject.node_container.get("env"))]))
    for position, (i, _, item) in enumerate(entries):
        for name in _REFERENCE.findall(text(item.get("value"))):
            why = _late(name, subject)
            if not why and name in own[position:] and name not in own[:position] and name not in before:
                why = "is defined only here or further down"
            if why:
                reason = f"$({name}) stays as it is: {name} {why}"
                remedy = "Read it in the program, or in args, where all variables are known"
                yield warning("env-reference", f"spec.trainer.env[{i}].value", reason, remedy)


def _late(name: str, subject: Subject) -> str:
    if name in RESERVED["torch"] and subject.policy in ("", "torch"):
        return "is added after trainer.env"
    if name in RESERVED["xgboost"] and subject.policy in ("", "xgboost"):
        # PlainML and XGBoost both write to the container, in the order of a Go map.
        return "is added before or after trainer.env, by chance"
    return ""


def _trainer_env(subject: Subject) -> list[tuple[int, str, Mapping[Any, Any]]]:
    return named(mapping(subject.trainer).get("env"))
