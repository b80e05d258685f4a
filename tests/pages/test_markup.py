"""Text becomes text, whatever it is."""

from __future__ import annotations

import pytest

from trainer_ops.pages.markup import Content, Markup, el, shown

MADE: dict[str, tuple[Markup, str]] = {
    "nothing in it": (el("p"), "<p></p>"),
    "text is escaped": (el("p", "<b>&\"'"), "<p>&lt;b&gt;&amp;\"'</p>"),
    "markup is not": (el("p", el("b", "x")), "<p><b>x</b></p>"),
    "attributes are escaped": (el("p", title="\"><b>'"), '<p title="&quot;&gt;&lt;b&gt;&#x27;"></p>'),
    "names of attributes": (el("p", class_="a", aria_label="b", dX="c"), '<p class="a" aria-label="b" dX="c"></p>'),
    "no attribute": (el("p", class_=None), "<p></p>"),
    "a number": (el("p", 3, 0.5), "<p>30.5</p>"),
    "nothing, lists, and what makes them": (
        el("p", None, ["a", [el("i"), None]], (str(i) for i in range(2))),
        "<p>a<i></i>01</p>",
    ),
    "what has no end": (el("meta", name="x"), '<meta name="x">'),
}


@pytest.mark.parametrize(("made", "wanted"), MADE.values(), ids=MADE.keys())
def test_el(made: Markup, wanted: str) -> None:
    assert made == wanted


def test_a_text_that_was_markup_once_is_text_again() -> None:
    joined: Content = "".join([el("b", "x")])
    assert el("p", joined) == "<p>&lt;b&gt;x&lt;/b&gt;</p>"


SHOWN = {
    "lines stay lines": ("a\nb", "a\nb"),
    "colours go": ("\x1b[31mred\x1b[0m", "red"),
    "control characters": ("a\x00b\x07", "a�b�"),
    "half a character": ("a\ud800b", "a�b"),
    "what turns the order of what follows": ("a\u202eb\u2066c", "a�b�c"),
    "letters of all the world": ("漢 ü العربية 🚀", "漢 ü العربية 🚀"),
}


@pytest.mark.parametrize(("text", "wanted"), SHOWN.values(), ids=SHOWN.keys())
def test_shown(text: str, wanted: str) -> None:
    assert shown(text) == wanted
    wanted.encode()
