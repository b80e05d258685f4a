"""The YAML that is written: every reader gets the value back, and people can read it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trainer_ops.migrate.yamltext import render, to_yaml

SAID = {
    "texts that need no quotes": (
        {"image": "docker.io/a/b:v1", "cpu": "200m", "memory": "64Mi", "args": ["--lr=0.1", "$(A)", "-x", "a b"]},
        "image: docker.io/a/b:v1\ncpu: 200m\nmemory: 64Mi\nargs:\n  - --lr=0.1\n  - $(A)\n  - -x\n  - a b\n",
    ),
    "texts that would be something else": (
        {"a": "1", "b": "yes", "c": "2026-01-01", "d": "0x1f", "e": "1e3", "f": "1:30", "g": "~", "h": "", "i": "null"},
        'a: "1"\nb: "yes"\nc: "2026-01-01"\nd: "0x1f"\ne: "1e3"\nf: "1:30"\ng: "~"\nh: ""\ni: "null"\n',
    ),
    "a list of mappings": ({"env": [{"name": "A", "value": "1"}, {"name": "B"}]}, None),
    "empty ones": ({"a": {}, "b": [], "c": None, "d": True}, "a: {}\nb: []\nc: null\nd: true\n"),
    "a script": ({"args": ["set -e\npython x\n"]}, "args:\n  - |\n    set -e\n    python x\n"),
    "without a line end": ({"a": "x\ny"}, "a: |-\n  x\n  y\n"),
    "with several": ({"a": "x\ny\n\n\n", "b": 1}, "a: |+\n  x\n  y\n\n\nb: 1\n"),
    "an empty line inside": ({"a": "x\n\ny\n"}, "a: |\n  x\n\n  y\n"),
    "a tab at a line's end": ({"a": "x\t\ny"}, None),
    "lists of lists": ({"a": [[1, [2]], []]}, "a:\n  - - 1\n    - - 2\n  - []\n"),
    "a placeholder": ({"numNodes": "$NUM_NODES", "m": "${N}"}, "numNodes: $NUM_NODES\nm: ${N}\n"),
    "a placeholder where only text may stand": (
        {"env": [{"name": "A", "value": "$N"}, {"name": "B", "value": "$(A)"}], "args": ["${N}", "--n=$N", "$(A)"]},
        'env:\n  - name: A\n    value: "$N"\n  - name: B\n    value: $(A)\nargs:\n  - "${N}"\n  - --n=$N\n  - $(A)\n',
    ),
    "an annotation with a slash": ({"sidecar.istio.io/inject": "false"}, 'sidecar.istio.io/inject: "false"\n'),
}


@pytest.mark.parametrize(("value", "text"), SAID.values(), ids=SAID.keys())
def test_said(value: Any, text: str | None) -> None:
    written = to_yaml(value)
    assert yaml.safe_load(written) == value
    assert text is None or written == text


def test_each_line_knows_its_path() -> None:
    lines = render({"spec": {"env": [{"name": "A", "value": "x\ny\n"}]}})
    assert [line.path for line in lines] == [
        ("spec",),
        ("spec", "env"),
        ("spec", "env", 0, "name"),
        ("spec", "env", 0, "value"),
        ("spec", "env", 0, "value"),
        ("spec", "env", 0, "value"),
    ]
    assert [line.opens for line in lines] == [False, False, False, True, True, True]


ODD = (
    *("- a", "#x", "a: b", "a #b", "!x", "&x", "*x", "|", ">", "%x", "@x", "`x", "?", "? x", "---", "...", "a\n b"),
    *("\n", " \n", "x\n ", "x \ny", "\tx\ny", "x\n\n", "x\n  \ny", "x\n\t\n", "{a}", "[a]", "'", '"', "0", ".5"),
    *("1_0", "+1", "12e", "012", "0b1", "1 ", "1e+16", "=", "<<", "a:", ":a", "a,b", "-"),
)
TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(ODD)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_both_readers_get_it_back(value: Any) -> None:
    written = to_yaml(value)
    readers: list[Any] = [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)]
    for reader in readers:
        assert yaml.load(written, Loader=reader) == value
    nested = "".join(f"{line.text}\n" for line in render({"k": value}, indent=4))
    assert yaml.safe_load(nested) == {"k": value}
