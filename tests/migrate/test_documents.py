"""Text to documents: where each begins and ends, and what is wrong with it, by file line."""

from __future__ import annotations

import pytest

from trainer_ops.migrate.documents import Edit, Unreadable, decode, edited, read
from trainer_ops.migrate.files import migrate, read_source
from trainer_ops.migrate.options import Options

JOB = """apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: digits}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: pytorch
            image: a/b:v1
            command: [torchrun, train.py]
            resources: {requests: {cpu: 1}}
"""
OTHER = "apiVersion: v1\nkind:   ConfigMap\nmetadata: {name:   x}\n"


def spans(text: str) -> list[str]:
    return [text[one.start : one.end] for one in read(text, all_of_it=True)]


SPLIT: dict[str, tuple[str, list[str]]] = {
    "nothing": ("", []),
    "comments only": ("# a\n\n# b\n", []),
    "empty documents": ("---\n---\n# c\n---\na: 1\n---\n", ["a: 1"]),
    "comments around": ("# a\na: 1 # b\n# c\n---\n# d\nb: 2", ["a: 1 # b", "b: 2"]),
    "a mark in a block scalar": ("a: |\n  x\n  ---\n  y\n---\nb: 1\n", ["a: |\n  x\n  ---\n  y", "b: 1"]),
    "a comment sign in a block scalar": ("a: |\n  x\n  # no comment\n# one\n", ["a: |\n  x\n  # no comment"]),
    "a mark that is a text": ("a: ---b\n---b: 1\n", ["a: ---b\n---b: 1"]),
    "a directive": ("%YAML 1.1\n---\na: 1\n", ["a: 1"]),
    "an end": ("a: 1\n...\n# x\n---\nb: 1\n", ["a: 1", "b: 1"]),
    "content behind the mark": ("--- {a: 1} # c\n--- # d\nb: 1\n", [" {a: 1} # c", "b: 1"]),
    "Windows": ("a: 1\r\n---\r\n# c\r\nb: 2\r\n", ["a: 1", "b: 2"]),
    "a byte order mark": ("\ufeff---\na: 1\n", ["a: 1"]),
    "JSON": ('{"a":\t1}\n', ['{"a":\t1}']),
    "several values of JSON": ('{"a": 1}\n{"b": "\\ud83d\\ude00"}', ['{"a": 1}', '{"b": "\\ud83d\\ude00"}']),
    "an alias at the end": ("a: &x {b: 1}\nc: *x # d\n# e\n", ["a: &x {b: 1}\nc: *x # d"]),
    "an alias in a list at the end": ("a: &x [1]\nc:\n- *x\n\n# e\n", ["a: &x [1]\nc:\n- *x"]),
}


@pytest.mark.parametrize(("text", "parts"), SPLIT.values(), ids=SPLIT.keys())
def test_where_documents_are(text: str, parts: list[str]) -> None:
    found = [
        part for part, document in zip(spans(text), read(text, all_of_it=True), strict=True) if not document.problem
    ]
    assert found == parts


WRONG: dict[str, tuple[bytes, str]] = {
    "a tab": (b"kind: PyTorchJob\nspec:\n\ta: 1\n", "line 3: document 1, column 1: a tab where YAML wants spaces"),
    "a key twice": (
        b"# kind: PyTorchJob\n---\nkind: PyTorchJob\nspec:\n  a: 1\n  b: 2\n  a: 3\n",
        'line 7: document 1: the key "a" is here twice, first at line 5. Keep one of them',
    ),
    "a key twice in JSON": (
        b'{"kind": "PyTorchJob",\n\t"kind": "x"}',
        'line 2: document 1: the key "kind" is here twice, first at line 1',
    ),
    "in the second document": (
        b"a: 1\n---\nkind: TFJob\nb: [\n",
        "line 5: document 2, column 1: it ends where more is expected. Close all brackets",
    ),
    "a key that is a number": (b"kind: TFJob\n1: x\n", "line 2: document 1: the key 1 is not text. Put it in quotes"),
    "a tag": (b"kind: TFJob\na: !x y\n", "line 2: document 1: the tag !x has no meaning here"),
    "an anchor in itself": (b"kind: TFJob\na: &x\n  b: *x\n", "line 2: document 1: an anchor contains itself"),
    "an unknown anchor": (b"kind: TFJob\na: *x\n", "line 2: document 1, column 4: found undefined alias"),
    "not a number": (b"kind: TFJob\na: .inf\n", "line 2: document 1: .inf is no number that JSON can say"),
    "a merge of a text": (b"kind: TFJob\n<<: x\n", "line 2: document 1: << is given no mapping"),
    "a control character": (b"kind: TFJob\na: \x07\n", "line 2: document 1: character #x0007 is not allowed in YAML"),
    "deep": (b"kind: TFJob\na: " + b"[" * 5000, "line 2: document 1, column 1003: it is nested too deeply"),
    "not UTF-8": (b"kind: TFJob\nname: \xff\n", "line 2: byte 0xff (byte 19 of the file) is not UTF-8 text"),
    "UTF-16": ("kind: TFJob".encode("utf-16"), "line 1: the file is UTF-16. Save it as UTF-8"),
    "UTF-16 without a mark": ("kind: TFJob".encode("utf-16-le"), "line 1: the file is UTF-16. Save it as UTF-8"),
    "UTF-16 the other way": ("kind: TFJob".encode("utf-16-be"), "line 1: the file is UTF-16. Save it as UTF-8"),
    "a template": (b"kind: TFJob\n{% if a %}\na: 1\n", "line 2: document 1 is a template"),
}


@pytest.mark.parametrize(("data", "text"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong(data: bytes, text: str) -> None:
    source = read_source("job.yaml", data)
    (told,) = source.findings
    assert told.finding.severity == "refused"
    assert f"line {told.line}: {told.finding.message}. {told.finding.remedy}".startswith(text)
    assert migrate([source], Options())[0].text == source.text


def test_anchors_that_multiply_end() -> None:
    layers = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    source = read_source("job.yaml", f"kind: TFJob\na0: &a0 [1]\n{layers}".encode())
    assert "anchors make the document too big" in source.findings[0].finding.message


def test_a_broken_document_does_not_keep_others_from_being_converted() -> None:
    text = f"kind: PyTorchJob\na: [\n---\n{JOB}---\nalso: [broken\n"
    made = migrate([read_source("job.yaml", text.encode())], Options())[0]
    assert [placed.finding.code for placed in made.result.findings] == ["UNREADABLE"]
    assert "kind: TrainJob" in made.text
    assert made.text.startswith("kind: PyTorchJob\na: [\n---\n")
    assert made.text.endswith("---\nalso: [broken\n")


def test_values_are_what_kubernetes_reads() -> None:
    (document,) = read("a: 1:30\nb: 010\nc: yes\nd: 1.5\ne: 2026-01-01\nf: 2e3\ng: ~\n", all_of_it=True)
    assert document.value == {"a": "1:30", "b": 8, "c": True, "d": 1.5, "e": "2026-01-01", "f": "2e3", "g": None}


def test_merge_keys() -> None:
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz:\n  <<: [*x, *y]\n  c: 3\nw: {<<: *x}\n"
    (document,) = read(text, all_of_it=True)
    assert document.value["z"] == {"a": 1, "b": 1, "c": 3}
    assert document.value["w"] == {"a": 1, "b": 1}
    assert document.built is not None
    assert document.built.shared == (1, 2)


def test_lines_of_paths() -> None:
    (document,) = read(f"# c\n---\n\n{JOB}")
    assert document.line == 4
    assert document.line_of(("spec", "pytorchReplicaSpecs", "Worker", "replicas")) == 10
    assert document.line_of(("spec", "nothing")) == 7


def test_edits() -> None:
    assert edited("abcdef", [Edit(3, 4, "D"), Edit(0, 1, ""), Edit(6, 6, "!"), Edit(3, 3, "-")]) == "bc-Def!"


def test_decode_says_where() -> None:
    with pytest.raises(Unreadable) as wrong:
        decode(b"a\nbc\xe9")
    assert (wrong.value.problem.line, wrong.value.problem.column) == (2, 3)


def test_many_documents_and_a_big_file() -> None:
    text = "---\n".join(JOB.replace("digits", f"digits-{i}") + "---\n" + OTHER for i in range(100))
    made = migrate([read_source("many.yaml", text.encode())], Options())[0]
    assert len(made.result.jobs) == 100
    assert made.text.count("kind: TrainJob") == 100
    big = f"{JOB}---\nkind: ConfigMap\ndata:\n  a: |\n" + "    some line of text\n" * 500_000
    assert len(big) > 10_000_000
    made = migrate([read_source("big.yaml", big.encode())], Options())[0]
    assert made.text.endswith(big[len(JOB) :])
