"""From the bytes of files to the bytes of files: read, convert, share runtimes, put back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainer_ops.migrate.clashes import Named, clashes
from trainer_ops.migrate.convert import Converted, convert
from trainer_ops.migrate.documents import Document, Unreadable, decode, names_kubeflow, read
from trainer_ops.migrate.emit import share
from trainer_ops.migrate.findings import Finding, finding
from trainer_ops.migrate.masks import Masks, mask_all
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.outside import apart
from trainer_ops.migrate.paths import Path, text_of
from trainer_ops.migrate.recognise import is_helm, is_kustomization, recognise, template
from trainer_ops.migrate.report.results import FileResult, JobResult, Placed
from trainer_ops.migrate.scan.any import scan, wants
from trainer_ops.migrate.sites import Inner, Page, Site, read_page, sites_of
from trainer_ops.migrate.wrappers import Around, around_manifest, around_site
from trainer_ops.migrate.writing import Outcome, write
from trainer_ops.model.keys import KIND

__all__ = ["Checker", "Migrated", "Source", "migrate", "read_source"]

# What else is known of a result: its findings, of which a refused one keeps it from being written.
Checker = Callable[[Converted], Iterable[Finding]]
_MANIFESTS = (".yaml", ".yml", ".json")
_MARKDOWN = (".md", ".markdown", ".mdx")
_ORDER = ("refused", "warning", "info")


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One file as it is.

    Attributes:
        name: as people call it.
        text: its content, "" when it is no text.
        page: what is in it; None when it cannot be read or is not for this package.
        findings: what is to be told of it before any job is converted.
    """

    name: str
    text: str = ""
    page: Page | None = None
    findings: tuple[Placed, ...] = ()

    @property
    def is_code(self) -> bool:
        """It is code, of which findings are told and which is never changed."""
        return wants(self.name) and not self.name.lower().endswith(_MANIFESTS)


@dataclass(frozen=True, slots=True, eq=False)
class Migrated:
    """One file as it becomes.

    Attributes:
        source: what it was.
        result: its jobs and findings, for the report.
        text: what it becomes; the same when nothing in it is converted.
        runtimes: that belong before it and have no place in it.
    """

    source: Source
    result: FileResult
    text: str
    runtimes: tuple[Mapping[str, Any], ...] = ()

    @property
    def changed(self) -> bool:
        """Something in it was converted."""
        return self.text != self.source.text


def read_source(name: str, data: bytes, *, is_patch: bool = False, named: bool = True) -> Source:
    """Read one file; what is wrong with it is in its findings.

    Args:
        name: as people call it.
        data: its content.
        is_patch: a kustomization beside it uses it as a patch, so its jobs are no whole ones.
        named: somebody asked for this very file; of others that cannot be read only those that name v1 are told.
    """
    try:
        text = decode(data)
    except Unreadable as exc:
        problem = exc.problem
        if not named and not names_kubeflow(data.decode("latin-1")):
            return Source(name)
        told = finding("UNREADABLE", (), problem.reason, remedy=problem.remedy)
        return Source(name, findings=(Placed(told, problem.line),))
    kustomize = is_kustomization(name)
    if Source(name).is_code:
        return Source(name, text)
    if not kustomize and not names_kubeflow(text):
        return Source(name, text)
    if is_helm(text):
        return Source(name, text, findings=(template(text),))
    if is_patch:
        return Source(name, text, findings=(Placed(finding("OVERLAY", (), "kustomize uses this file as a patch")),))
    if kustomize:
        return Source(name, text, findings=tuple(recognise(read(text, all_of_it=True), name=name)))
    # In Argo's documents expressions are everywhere; there they are masked in the manifests alone.
    masked, masks = (text, Masks()) if "argoproj.io" in text else mask_all(text)
    page = replace(read_page(masked, markdown=name.lower().endswith(_MARKDOWN)), masks=masks)
    beside = [
        told
        for part in _pages(page)
        for told in recognise(part.documents, first_line=part.first_line, known=_known(part))
    ]
    return Source(name, text, page, (*page.findings, *beside))


def _known(page: Page) -> Callable[[Document, Path], bool]:
    """What is converted, or changed around it."""
    held: dict[Document, list[Path]] = {}
    for site in page.sites:
        # Around a trial its whole template is, with the names and conditions in it.
        held.setdefault(site.document, []).append(site.path[:-1] if site.how == "trial" else site.path)
    for inner in page.inner:
        if inner.document is not None:
            held.setdefault(inner.document, []).append(inner.path)
    return lambda document, path: any(path[: len(above)] == above for above in held.get(document, ()))


def _pages(page: Page) -> Iterator[Page]:
    yield page
    for inner in page.inner:
        yield from _pages(inner.page)


def migrate(sources: Sequence[Source], options: Options, check: Checker | None = None) -> list[Migrated]:
    """Convert all jobs of all files; equal generated runtimes of one namespace are written once, with the first job."""
    jobs = [
        (number, site, page)
        for number, source in enumerate(sources)
        if source.page is not None
        for site, page in sites_of(source.page)
    ]
    outer = {inner.page: (page, inner) for source in sources if source.page for page, inner in _inners(source.page)}
    converted = [_convert(site, page, outer.get(page), options, check) for _, site, page in jobs]
    converted = _shared(_apart(sources, jobs, converted))
    brought: set[tuple[str, str]] = set()
    outcomes: dict[Site, Outcome] = {}
    results: dict[int, list[JobResult]] = {}
    for (number, site, page), (made, around) in zip(jobs, converted, strict=True):
        key = _runtime_key(made)
        runtime = made.runtime if made.runtime is not None and key not in brought else None
        brought.add(key)
        outcomes[site] = Outcome(made, runtime, around)
        results.setdefault(number, []).append(
            _result(site, page.masks if page.masks.words else _masks(sources[number]), made)
        )
    return [_migrated(source, results.get(number, []), outcomes, options) for number, source in enumerate(sources)]


def _migrated(source: Source, jobs: list[JobResult], outcomes: Mapping[Site, Outcome], options: Options) -> Migrated:
    text, left = write(source.page, outcomes) if source.page is not None else (source.text, [])
    if source.page is not None:
        text = source.page.masks.restore(text)
    documents = len(source.page.documents) if source.page is not None else 0
    scanned = scan(source.name, source.text, options)
    # A script that the scanner understands needs no word that it is no YAML.
    inside = any(one.finding.code == "JOB-IN-CODE" for one in scanned)
    said = ("WRAPPER", "warning")
    own = [one for one in source.findings if not (inside and (one.finding.code, one.finding.severity) == said)]
    told = (*own, *scanned)
    result = FileResult(source.name, tuple(jobs), tuple(sorted(told, key=lambda one: one.line)), documents)
    return Migrated(source, result, text, tuple(left))


def _inners(page: Page) -> Iterable[tuple[Page, Inner]]:
    for inner in page.inner:
        yield page, inner
        yield from _inners(inner.page)


# -- one job ----------------------------------------------------------------------------------------------------------


def _convert(
    site: Site, page: Page, outer: tuple[Page, Inner] | None, options: Options, check: Checker | None
) -> tuple[Converted, Around]:
    made = convert(site.raw, options)
    told = list(made.findings)
    if page.one_object and page.masks.words and made.runtime is not None:
        made, left = apart(made, page.masks)
        told += left
    if made.ok and check is not None:
        told += check(made)
    if site.nameless:
        told = [one for one in told if one.code != "GENERATE-NAME"]
        ledger = tuple(entry for entry in made.ledger if entry.path != "metadata.generateName")
        made = replace(made, ledger=ledger)
    told += _anchors(site)
    if made.ok and _lends(site):
        reason = "other parts of the document use anchors of this job, which go with it"
        told.append(finding("ANCHORS", (), reason, severity="refused", remedy="Write out what they stand for"))
    if made.ok and _no_place(site, made):
        reason = f"it needs a runtime, and what it stands in ({site.within}) is no object with documents beside it"
        told.append(finding("WRAPPER", (), reason, severity="refused", remedy="Convert the job in a file of its own"))
    if any(one.severity == "refused" for one in told):
        made = replace(made, trainjob=None, runtime=None)
    around = around_manifest(*outer, made) if outer is not None and page.one_object else around_site(page, site, made)
    told = sorted([*told, *around.findings], key=lambda one: _ORDER.index(one.severity))
    return replace(made, findings=tuple(told)), around


def _no_place(site: Site, made: Converted) -> bool:
    top = site.document.value
    return made.runtime is not None and site.how == "field" and not (isinstance(top, Mapping) and "apiVersion" in top)


def _anchors(site: Site) -> list[Finding]:
    built = site.document.built
    if built is None or not built.shared:
        return []
    lines = ", ".join(str(line - site.document.line_of(site.path) + site.line) for line in built.shared)
    said = f"anchors of the document (line {lines}) are written out in the TrainJob"
    return [finding("ANCHORS", (), said)]


def _lends(site: Site) -> bool:
    """Whether something that stays refers to an anchor inside the job."""
    built = site.document.built
    if built is None or not built.shared or not site.path:
        return False
    first: dict[int, Path] = {}
    size = len(site.path)
    for path, node in built.nodes.items():
        known = first.setdefault(id(node), path)
        if known[:size] == site.path and path[:size] != site.path:
            return True
    return False


def _apart(
    sources: Sequence[Source], jobs: list[tuple[int, Site, Page]], converted: list[tuple[Converted, Around]]
) -> list[tuple[Converted, Around]]:
    """With what is to be told of jobs that would become one TrainJob, each job in its file's own documents."""
    held = {
        number: Named(sources[where].name, site.line, site.raw, made.trainjob)
        for number, ((where, site, page), (made, _)) in enumerate(zip(jobs, converted, strict=True))
        if page is sources[where].page and site.how in ("document", "item")
    }
    there = [
        Named(source.name, document.line, document.value, document.value)
        for source in sources
        for document in (source.page.documents if source.page is not None else ())
        if document.kind == KIND and isinstance(document.value, Mapping)
    ]
    numbers = {id(one): number for number, one in held.items()}
    for one, told in clashes([*there, *held.values()]):
        made, around = converted[numbers[id(one)]]
        if told.severity == "refused":
            made = replace(made, trainjob=None, runtime=None)
        findings = sorted([*made.findings, told], key=lambda each: _ORDER.index(each.severity))
        converted[numbers[id(one)]] = replace(made, findings=tuple(findings)), around
    return converted


def _shared(converted: list[tuple[Converted, Around]]) -> list[tuple[Converted, Around]]:
    emitted = [(number, made.emitted) for number, (made, _) in enumerate(converted)]
    whole = [(number, one) for number, one in emitted if one is not None]
    for (number, _), one in zip(whole, share([one for _, one in whole]), strict=True):
        made, around = converted[number]
        old, new = (str((runtime or {}).get("metadata", {}).get("name")) for runtime in (made.runtime, one.runtime))
        # What stands around a job was told the name that its runtime had then.
        told = tuple(
            replace(found, message=found.message.replace(f"the runtime {old} ", f"the runtime {new} "))
            for found in made.findings
        )
        converted[number] = (replace(made, trainjob=one.trainjob, runtime=one.runtime, findings=told), around)
    return converted


def _runtime_key(made: Converted) -> tuple[str, str]:
    metadata = (made.runtime or {}).get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _masks(source: Source) -> Masks:
    return source.page.masks if source.page is not None else Masks()


def _result(site: Site, masks: Masks, made: Converted) -> JobResult:
    if masks.words:
        made = replace(
            made,
            raw=masks.restored(made.raw),
            trainjob=masks.restored(made.trainjob),
            runtime=masks.restored(made.runtime),
            ledger=tuple(replace(entry, value=masks.restored(entry.value)) for entry in made.ledger),
            findings=tuple(replace(one, message=masks.restored(one.message)) for one in made.findings),
        )
    lines = {}
    if site.document.built is not None:
        size = len(site.path)
        offset = site.line - site.document.line_of(site.path)
        known = site.document.built.lines
        lines = {text_of(path[size:]): at + offset for path, at in known.items() if _below(path, site.path)}
    kind = site.within.split(",")[0].split(" ")
    wrapper = " ".join(kind[:2]) if kind[0] in ("Katib", "Argo") else kind[0]
    return JobResult(made, site.document.index, site.line, wrapper, site.within, lines)


def _below(path: Path, above: Path) -> bool:
    return len(path) > len(above) and path[: len(above)] == above
