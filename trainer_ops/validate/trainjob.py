"""``check`` and ``refuse``: a whole TrainJob against every rule, before anything is created."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.validate import env, identity, initializers, patches, policies, resources, trainer
from trainer_ops.validate.findings import Finding, closed, error, in_order
from trainer_ops.validate.peek import mapping, show
from trainer_ops.validate.schema import check_structure
from trainer_ops.validate.sizes import TRAINJOB, check_sizes
from trainer_ops.validate.standing import standing
from trainer_ops.validate.subject import Subject

__all__ = ["check", "refuse"]

# How many more errors a refusal names before it counts the rest.
_NAMED = 5

_RULES: tuple[Callable[[Subject], Iterator[Finding]], ...] = (
    identity.job_name,
    trainer.spec_fields,
    trainer.reaches_nodes,
    trainer.counts,
    trainer.image,
    env.reserved_names,
    env.trainer_references,
    resources.resources,
    initializers.initializers,
    patches.patches,
    policies.torchtune,
    policies.mpi,
    policies.flux,
)


def check(manifest: Any, runtime: TrainingRuntime | None) -> tuple[Finding, ...]:
    """All that is wrong with a TrainJob, errors first. Never raises, whatever is given.

    Args:
        manifest: the object as it would be sent.
        runtime: the runtime it names; None when it is not known, which leaves out what depends on it.
    """
    if not isinstance(manifest, Mapping):
        remedy = "Give a TrainJob with apiVersion, kind, metadata and spec"
        return (error("manifest-type", "manifest", f"{show(manifest)} is not a mapping", remedy),)
    strange = [found for found in identity.api_and_kind(manifest, keys.KIND) if found.rule == "v1-kind"]
    # Of a v1 job every field would be unknown: the one remedy says it all.
    return tuple(strange) or in_order(_all(Subject(manifest, runtime)))


def _all(subject: Subject) -> Iterator[Finding]:
    manifest = subject.manifest
    yield from identity.api_and_kind(manifest, keys.KIND)
    yield from check_structure(manifest)
    if manifest.get("spec") is None:
        yield error("missing-field", "spec", "is missing", "Give at least spec.runtimeRef.name")
    yield from identity.leftovers(manifest)
    yield from identity.label_syntax(manifest.get("metadata"), "metadata")
    yield from check_sizes(manifest, TRAINJOB)
    yield from env.env_lists(manifest)
    for rule in _RULES:
        yield from rule(subject)
    if subject.runtime is not None:
        yield from _of_runtime(subject.runtime)


def _of_runtime(runtime: TrainingRuntime) -> Iterator[Finding]:
    """What is wrong with the runtime, told where the TrainJob names it."""
    for found in standing(mapping(runtime.raw)):
        # Without spec.trainer such a runtime is as it should be; with it, trainer-ignored has said so.
        if found.rule == "runtime-ancestors" and runtime.trainer_job is None:
            continue
        reason = f"of the runtime {show(runtime.name)}, {found.path} {found.reason}"
        yield replace(found, path="spec.runtimeRef.name", reason=reason)


def refuse(findings: Iterable[Finding]) -> None:
    """Raise for the first error; the others are named in the remedy. Warnings pass.

    Raises:
        InvalidRequest: at least one finding is an error.
    """
    errors = [found for found in findings if found.is_error]
    if not errors:
        return
    first, *others = errors
    shown = [f"{other.path}: {other.reason}" for other in others[:_NAMED]]
    if len(others) > _NAMED:
        shown.append(f"and {len(others) - _NAMED} more")
    remedy = first.remedy
    if shown:
        remedy = f"{closed(remedy)} Also wrong: {'; '.join(shown)}" if remedy else f"Also wrong: {'; '.join(shown)}"
    raise InvalidRequest(first.path, first.reason, remedy, what=f"invalid {first.subject}")
