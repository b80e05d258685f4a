"""HTML made so that nothing from outside is ever taken for markup: what is not ``Markup`` is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from trainer_ops.model.lines import clean

__all__ = ["Content", "Markup", "document", "el", "shown", "table"]

# Lone surrogates are in no encoding, the last two are no characters, and the others turn the order of what follows.
_UNFIT = re.compile("[\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
_VOID = frozenset({"meta", "br"})
# Nothing is loaded and nothing runs, whatever a name, a log line or an event holds.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = object  # Markup, text, a number, None (nothing), or an iterable of these


def shown(value: object) -> str:
    """A text as it may be shown: no control characters but line ends, nothing that hides or turns others."""
    return _UNFIT.sub("�", "\n".join(map(clean, str(value).split("\n"))))


def el(tag: str, /, *children: Content, **attributes: object) -> Markup:
    """An element. ``class_`` is ``class``, ``aria_label`` is ``aria-label``; an attribute of None is left out."""
    head = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(shown(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(map(_inner, children))
    return Markup(f"<{tag}{head}>" if tag in _VOID else f"<{tag}{head}>{inner}</{tag}>")


def _inner(child: Content) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, Iterable) and not isinstance(child, str):
        return "".join(map(_inner, child))
    return escape(shown(child), quote=False)


def table(caption: str, head: Iterable[tuple[str | None, str]], rows: Content) -> Markup:
    """A table; ``head`` is the class and the name of each column."""
    return el(
        "table",
        el("caption", caption) if caption else None,
        el("thead", el("tr", [el("th", name, scope="col", class_=kind) for kind, name in head])),
        el("tbody", rows),
    )


def document(title: str, css: str, main: Markup) -> str:
    """A whole page that needs nothing else and can do nothing."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("title", title),
        el("style", Markup(css)),
    )
    return "<!DOCTYPE html>\n" + el("html", head, el("body", main), lang="en") + "\n"
