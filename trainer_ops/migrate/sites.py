"""Where v1 jobs are in a text: documents, items of lists, and the things that carry jobs inside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from trainer_ops.migrate.documents import Document, read
from trainer_ops.migrate.findings import finding
from trainer_ops.migrate.kinds import kind_of, once_was
from trainer_ops.migrate.markdown import fences
from trainer_ops.migrate.masks import Masks, mask
from trainer_ops.migrate.paths import Path, get, text_of
from trainer_ops.migrate.report.results import Placed
from trainer_ops.model.names import slug

__all__ = ["ARGO_KINDS", "Inner", "Page", "Site", "read_page", "sites_of"]

# What Argo does to objects that are there.
_OF_ANOTHER: Final = ("get", "delete", "patch")
# By this label Katib knows a ConfigMap of trial templates; it gives what it makes of them a name.
_KATIB: Final = "katib.kubeflow.org/component"
ARGO_KINDS: Final = frozenset({"Workflow", "WorkflowTemplate", "ClusterWorkflowTemplate", "CronWorkflow"})
_KIND = re.compile(r"""["']?kind["']?\s*:\s*["']?(PyTorchJob|TFJob|MPIJob|XGBoostJob|PaddleJob|JAXJob|MXJob)\b""")
# A text in a text in a text: more is a mistake.
_DEPTH = 3


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """One v1 job in its place.

    Attributes:
        raw: the job as ``convert`` gets it.
        path: where in its document; () is all of it.
        document: the document.
        line: in the file.
        within: what carries it, for people; "" for a document of its own.
        how: ``document``, ``item`` (of a List), ``trial`` (Katib), ``component`` (AppWrapper), ``manifest`` (Argo),
            ``field`` (of anything else).
        nameless: what carries it gives it a name, so the one that ``convert`` was given is taken away again.
    """

    raw: Mapping[str, Any]
    path: Path
    document: Document
    line: int
    within: str = ""
    how: str = "document"
    nameless: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Inner:
    """A text inside a text.

    Attributes:
        page: the text.
        document: the document with the field that holds it, None in Markdown.
        path: that field.
        span: of the text in Markdown.
        margin: what each line of it begins with there.
        within: what carries it, for people.
    """

    page: Page
    document: Document | None = None
    path: Path = ()
    span: tuple[int, int] = (0, 0)
    margin: str = ""
    within: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """A text with what is in it.

    Attributes:
        text: as it stands, or with words for expressions.
        documents: of YAML or JSON; none of Markdown.
        sites: the jobs that stand in it directly.
        inner: the texts in it that hold jobs.
        findings: about what could not be read or converted in its place.
        first_line: the line of the file that it begins on.
        masks: the expressions.
        one_object: it may hold one object only, so a runtime goes outside.
    """

    text: str
    documents: tuple[Document, ...] = ()
    sites: tuple[Site, ...] = ()
    inner: tuple[Inner, ...] = ()
    findings: tuple[Placed, ...] = ()
    first_line: int = 1
    masks: Masks = field(default_factory=Masks)
    one_object: bool = False


def sites_of(page: Page) -> Iterator[tuple[Site, Page]]:
    """All jobs, those of inner texts included, each with the page that it is on, in the order of the file."""
    found = [(site.line, site, page) for site in page.sites]
    found += [(site.line, site, its) for inner in page.inner for site, its in sites_of(inner.page)]
    for _, site, its in sorted(found, key=lambda entry: entry[0]):
        yield site, its


def read_page(text: str, *, markdown: bool = False, first_line: int = 1, within: str = "", depth: int = 0) -> Page:
    """Find all v1 jobs.

    Args:
        text: the file, or a text in it.
        markdown: jobs are in fenced blocks.
        first_line: the line of the file that the text begins on.
        within: what carries the text, for people.
        depth: in how many texts it is.
    """
    if markdown:
        return _markdown(text, first_line)
    documents = read(text)
    sites: list[Site] = []
    inner: list[Inner] = []
    findings: list[Placed] = []
    for document in documents:
        if document.problem is not None:
            if _KIND.search(text, document.start, document.end):
                findings.append(_unreadable(document, first_line, text))
            continue
        found, held, told = _Walk(document, first_line, within, depth).all()
        sites += found
        inner += held
        findings += told
    return Page(text, documents, tuple(sites), tuple(inner), tuple(findings), first_line)


def _unreadable(document: Document, first_line: int, text: str) -> Placed:
    problem = document.problem
    assert problem is not None
    if re.search(r"\{[{%]", text[document.start : document.end]):
        told = finding("TEMPLATE", (), f"document {document.index} is a template: {problem.reason}")
        return Placed(told, problem.line + first_line - 1, document.index)
    where = f"document {document.index}" + (f", column {problem.column}" if problem.column else "")
    told = finding("UNREADABLE", (), f"{where}: {problem.reason}", remedy=problem.remedy)
    return Placed(told, problem.line + first_line - 1, document.index)


def _markdown(text: str, first_line: int) -> Page:
    inner = []
    findings: list[Placed] = []
    for fence in fences(text):
        if not _KIND.search(fence.text):
            continue
        line = first_line + text.count("\n", 0, fence.start)
        page = read_page(fence.text, first_line=line, within="Markdown", depth=1)
        findings += page.findings
        inner.append(Inner(page, span=(fence.start, fence.end), margin=fence.margin, within="Markdown"))
    return Page(text, inner=tuple(inner), findings=tuple(findings), first_line=first_line)


class _Walk:
    """The jobs and texts of one document."""

    def __init__(self, document: Document, first_line: int, within: str, depth: int) -> None:
        self._document = document
        self._first = first_line
        self._within = within
        self._depth = depth
        self._sites: list[Site] = []
        self._inner: list[Inner] = []
        self._findings: list[Placed] = []

    def all(self) -> tuple[list[Site], list[Inner], list[Placed]]:
        """Sites, inner texts, findings."""
        if self._document.built is not None:
            self._look(self._document.value, ())
        return self._sites, self._inner, self._findings

    def _look(self, value: Any, path: Path) -> None:
        if isinstance(value, Mapping):
            if self._is_job(value, path):
                self._sites.append(self._site(value, path))
                return
            for key, item in value.items():
                self._look(item, (*path, key))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self._look(item, (*path, index))
        elif isinstance(value, str) and _KIND.search(value) and "\n" in value and self._depth < _DEPTH:
            self._text(value, path)

    def _is_job(self, value: Mapping[str, Any], path: Path) -> bool:
        said = value.get("apiVersion"), value.get("kind")
        named = kind_of(*said) is not None or once_was(*said)
        # Elsewhere the two fields may be a reference to a job.
        return named and (not path or isinstance(value.get("spec"), Mapping))

    def _site(self, value: Mapping[str, Any], path: Path) -> Site:
        line = self._document.line_of(path) + self._first - 1
        how, within = self._carrier(path)
        nameless = False
        metadata = value.get("metadata") if isinstance(value.get("metadata"), Mapping) else {}
        assert isinstance(metadata, Mapping)
        if how in ("trial", "manifest") and not metadata.get("name") and not metadata.get("generateName"):
            # Katib and Argo name what they make.
            value, nameless = {**value, "metadata": {"generateName": f"{self._name()}-", **metadata}}, True
        return Site(value, path, self._document, line, within, how, nameless)

    def _name(self) -> str:
        top = self._document.value
        name = get(top, ("metadata", "name")) or get(top, ("metadata", "generateName")) or "trial"
        return slug(str(name), 30)

    def _carrier(self, path: Path) -> tuple[str, str]:
        if not path:
            return "manifest" if self._within.startswith(("Argo", "Katib")) else "document", self._within
        top = self._document.value
        kind = str(get(top, ("kind",)) or "") if isinstance(top, Mapping) else ""
        name = str(get(top, ("metadata", "name")) or get(top, ("metadata", "generateName")) or "")
        called = f"{kind} {name}".strip()
        if len(path) == 2 and path[0] == "items" and kind.endswith("List"):
            return "item", f"{kind}, item {int(path[1]) + 1}"
        if kind == "Experiment" and path == ("spec", "trialTemplate", "trialSpec"):
            return "trial", f"Katib {called}"
        if kind == "AppWrapper":
            return "component", called
        return "field", f"{called or 'a list'}, {text_of(path)}"

    def _text(self, value: str, path: Path) -> None:
        node = self._document.built.nodes[path] if self._document.built is not None else None
        block = getattr(node, "style", None) in ("|", ">")
        line = self._document.line_of(path) + self._first - 1 + (1 if block else 0)
        within, alone = self._text_carrier(path)
        action = get(self._document.value, (*path[:-1], "action"))
        if within.startswith("Argo") and action in _OF_ANOTHER:
            told = finding(
                "WRAPPER",
                path,
                f"{within}: {action} is of a job that something else makes, and the manifest only names it",
                severity="refused",
                remedy="Name the TrainJob that it is now; spec.suspend is the one thing of it that may be changed",
            )
            self._findings.append(Placed(told, line, self._document.index))
            return
        masks = Masks()
        if alone and "{{" in value:
            value, masks = mask(value)
        page = read_page(value, first_line=line, within=within, depth=self._depth + 1)
        if not page.sites and not page.inner:
            told = finding(
                "WRAPPER",
                path,
                "this text names a v1 job but is not YAML, so it stays as it is",
                severity="warning",
                remedy="Convert the job in a file of its own",
            )
            self._findings.append(Placed(told, line, self._document.index))
            return
        self._findings += page.findings
        page = Page(page.text, page.documents, page.sites, page.inner, page.findings, line, masks, one_object=alone)
        self._inner.append(Inner(page, self._document, path, within=within))

    def _text_carrier(self, path: Path) -> tuple[str, bool]:
        top = self._document.value
        kind = str(get(top, ("kind",)) or "")
        name = str(get(top, ("metadata", "name")) or get(top, ("metadata", "generateName")) or "")
        if kind in ARGO_KINDS and path[-2:] == ("resource", "manifest"):
            return f"Argo {kind} {name}, template {get(top, (*path[:-2], 'name')) or path[-3]}", True
        if kind == "ConfigMap" and get(top, ("metadata", "labels", _KATIB)) == "trial-templates":
            return f"Katib ConfigMap {name}, {path[-1]}", True
        called = f"{kind} {name}".strip() or "a list"
        return f"{called}, {path[-1] if kind in ('ConfigMap', 'Secret') else text_of(path)}", False
