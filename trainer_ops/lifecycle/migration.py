"""Migrate files: find them, convert what is in them, hold the results to Trainer's admission, write them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.migration_files import Found, find, replace_file, write_file
from trainer_ops.migrate.convert import Converted
from trainer_ops.migrate.documents import read
from trainer_ops.migrate.files import Checker, Migrated, Source, migrate, read_source
from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.paths import get, leaves, text_of
from trainer_ops.migrate.recognise import is_kustomization, patch_files, resource_files
from trainer_ops.migrate.report.results import FileResult, Placed
from trainer_ops.model import keys
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.validate.findings import Finding as Refusal
from trainer_ops.validate.runtime import check_runtime
from trainer_ops.validate.trainjob import check as check_trainjob

__all__ = ["Done", "admission", "migrate_paths", "migrate_sources", "told_where", "write_into", "write_over"]

# Of envsubst, of templates, of examples for people to complete: registry/<your-project>. Kubernetes' $(NAME) is none.
_PLACEHOLDER = re.compile(r"(?<!\$)\$(?:\{\w+\}|[A-Za-z_])|\{\{.*\}\}|<[A-Za-z][\w -]*>")


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one file.

    Attributes:
        migrated: its jobs, findings and new text.
        found: the file; None for what was not one (a live object).
    """

    migrated: Migrated
    found: Found | None = None

    @property
    def name(self) -> str:
        """As people call it."""
        return self.migrated.source.name

    @property
    def result(self) -> FileResult:
        """For the report."""
        return self.migrated.result


def migrate_paths(
    paths: Sequence[str], options: Options, *, stdin: Iterable[bytes] = (), check: Checker | None = None
) -> list[Done]:
    """Convert all jobs in files and folders; nothing is written.

    Args:
        paths: files, folders, ``-`` for standard input.
        options: choices.
        stdin: what standard input holds.
        check: what else may refuse a result, besides the offline admission.

    Raises:
        InvalidRequest: a path cannot be read.
    """
    found = find(paths, stdin)
    patches = set(_patches(found))
    sources = [read_source(one.name, one.data, is_patch=_real(one) in patches, named=one.named) for one in found]
    made = migrate_sources(sources, options, check=check)
    return _transformers([Done(one, where) for one, where in zip(made, found, strict=True)])


def migrate_sources(sources: Sequence[Source], options: Options, *, check: Checker | None = None) -> list[Migrated]:
    """The same of what was read already."""
    return migrate(sources, options, _both(admission, check))


def _real(found: Found) -> Path | None:
    return found.path.resolve() if found.path is not None else None


def _both(first: Checker, second: Checker | None) -> Checker:
    def checked(converted: Converted) -> Iterator[Finding]:
        told = list(first(converted))
        yield from told
        # A cluster is not asked about what it would refuse.
        if second is not None and not any(one.severity == "refused" for one in told):
            yield from second(converted)

    return checked


def _patches(found: Sequence[Found]) -> Iterator[Path]:
    """What kustomizations among the files use as patches."""
    for one in found:
        if one.path is None or not is_kustomization(one.name):
            continue
        documents = read(one.data.decode("utf-8", "replace"), all_of_it=True)
        for name in patch_files(documents):
            yield (one.path.parent / name).resolve()


def _transformers(done: list[Done]) -> list[Done]:
    """What a kustomization does to jobs that it builds from, which it would not do to TrainJobs."""
    changed = {one.found.path.resolve() for one in done if one.migrated.changed and one.found and one.found.path}
    return [_with_images(one, changed) if is_kustomization(one.name) else one for one in done]


def _with_images(one: Done, changed: set[Path]) -> Done:
    if one.found is None or one.found.path is None or not changed:
        return one
    folder = one.found.path.parent
    documents = read(one.migrated.source.text, all_of_it=True)
    held = [(folder / name).resolve() for name in resource_files(documents)]
    images = next((document for document in documents if get(document.value, ("images",))), None)
    if images is None or not any(path in changed or changed & set(path.glob("*")) for path in held):
        return one
    told = finding(
        "ALONGSIDE",
        ("images",),
        "kustomize's images do not reach spec.trainer.image of TrainJobs by themselves",
        remedy="Add a file under configurations: with images: [{path: spec/trainer/image, kind: TrainJob}]",
    )
    result = one.migrated.result
    placed = Placed(told, images.line_of(("images",)), images.index)
    return replace(one, migrated=replace(one.migrated, result=replace(result, findings=(*result.findings, placed))))


# -- admission --------------------------------------------------------------------------------------------------------


def admission(converted: Converted) -> Iterator[Finding]:
    """What Trainer's API server, webhooks and JobSet would say of a result, as far as that is known without them."""
    if converted.trainjob is None:
        return
    if converted.runtime is not None:
        yield from _told("runtime", check_runtime(converted.runtime), converted.runtime)
    yield from _told("trainjob", check_trainjob(converted.trainjob, _runtime(converted)), converted.trainjob)


def _runtime(converted: Converted) -> TrainingRuntime | None:
    if converted.runtime is not None:
        return TrainingRuntime.from_raw(converted.runtime)
    from trainer_ops.local.catalogue import builtin

    assert converted.trainjob is not None
    reference = converted.trainjob["spec"]["runtimeRef"]
    raw = builtin().get((str(reference.get("kind") or keys.CLUSTER_RUNTIME), str(reference.get("name"))))
    return TrainingRuntime.from_raw(raw) if raw is not None else None


def _told(what: str, refusals: Iterable[Refusal], manifest: Mapping[str, Any]) -> Iterator[Finding]:
    held = (path for path, leaf in leaves(manifest) if isinstance(leaf, str) and _PLACEHOLDER.search(leaf))
    open_ = {_plain(text_of(path)) for path in held}
    for one in refusals:
        if _plain(one.path) in open_ or not one.is_error:
            # Of a placeholder nothing is known yet; advice on how to write a TrainJob is no matter of migration.
            continue
        told = f"Trainer would refuse the result: {one.reason}"
        yield replace(finding("ADMISSION", (), told, v2_path=f"{what}:{one.path}"), remedy=one.remedy)


def _plain(path: str) -> str:
    """A path of either package in one form: they differ in when a name stands in brackets, and in quotes."""
    return re.sub(r'\["?([^\]"]*)"?\]', r".\1", path)


# -- writing ----------------------------------------------------------------------------------------------------------


def write_over(done: Sequence[Done]) -> list[Path]:
    """Put each file that changed in its own place.

    Raises:
        InvalidRequest: one cannot be written, or was changed meanwhile; those before it are written.
    """
    written = []
    for one in done:
        if one.found is not None and one.found.path is not None and one.migrated.changed:
            replace_file(one.found, one.migrated.text.encode())
            written.append(one.found.path)
    return written


def write_into(folder: Path, done: Sequence[Done]) -> dict[str, Path]:
    """Put each file that changed below a folder, where it was below the one that was given.

    Returns:
        Where each file, by its name, went.

    Raises:
        InvalidRequest: two would be the same file, or one the file that was read (nothing is written then), or one
            cannot be written.
    """
    places: dict[Path, Done] = {}
    read_ = {one.found.path.resolve() for one in done if one.found is not None and one.found.path is not None}
    for one in done:
        if not one.migrated.changed:
            continue
        below = one.found.below if one.found is not None else Path(f"{one.name.replace('/', '-')}.yaml")
        other = places.setdefault(folder / below, one)
        if other is not one:
            reason = f"{other.name} and {one.name} would both be written there"
            raise InvalidRequest(str(folder / below), reason, "Give one of them at a time", what="not written")
        if (folder / below).resolve() in read_:
            reason = "it is what is migrated itself"
            raise InvalidRequest(str(folder / below), reason, "Give another folder, or --in-place", what="not written")
    for path, one in places.items():
        write_file(path, one.migrated.text.encode())
    return {one.name: path for path, one in places.items()}


def told_where(done: Sequence[Done], written: Mapping[str, str]) -> list[FileResult]:
    """The results, with where each was written.

    Args:
        done: all files.
        written: of each file that was written, by its name, the path.
    """
    return [_told_where(one, written.get(one.name, "")) for one in done]


def _told_where(one: Done, place: str) -> FileResult:
    result = one.result
    if not place:
        return result
    alone = result.documents == 1 and len(result.jobs) == 1 and not result.jobs[0].wrapper
    jobs = []
    for job in result.jobs:
        if job.converted.ok:
            job = replace(job, written=place)
            if alone and job.converted.runtime is None:
                job = replace(job, trainjob_file=place)
        jobs.append(job)
    return replace(result, jobs=tuple(jobs))
