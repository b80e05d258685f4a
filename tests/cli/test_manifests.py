"""YAML files: what is wrong with one is said with file, line, reason and remedy."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from trainer_ops.cli.manifests import only, parse, read
from trainer_ops.errors import InvalidRequest

GOOD = b"""apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: digits, annotations: {day: 2026-01-01}}
spec:
  runtimeRef: {name: torch-distributed}
"""

UNREADABLE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "job.yaml: is empty. Write a TrainJob into it; a start: trainer-ops run --help"),
    "only comments and separators": (b"# nothing\n---\n---\n", "job.yaml: is empty. Write a TrainJob"),
    "a tab": (b"kind: TrainJob\nspec:\n\ttrainer: {}\n", "job.yaml: line 3, column 1: a tab where YAML wants spaces. "),
    "a list": (b"- kind: TrainJob\n", "job.yaml: line 1: this is a list, not a mapping of fields. A TrainJob starts"),
    "text": (b"\n\nhello\n", "job.yaml: line 3: this is text, not a mapping of fields. "),
    "a number": (b"42", "job.yaml: line 1: this is a number, not a mapping of fields. "),
    "not UTF-8": (b"kind: x\nname: \xff\n", "job.yaml: line 2: byte 0xff is not UTF-8 text. Save the file as UTF-8"),
    "a control character": (b"kind: x\nname: \x07\n", "job.yaml: line 2: character #x0007 is not allowed in YAML. "),
    "a key twice": (
        b"kind: TrainJob\nspec:\n  a: 1\n  b: 2\n  a: 3\n",
        'job.yaml: line 5: the key "a" is here twice, first at line 3. Keep one of them',
    ),
    "a key twice in a list": (b"a:\n- {b: 1, b: 2}\n", 'job.yaml: line 2: the key "b" is here twice, first at line 2.'),
    "a key that is a number": (b"a:\n  1: x\n", "job.yaml: line 2: the key 1 is not text. Put it in quotes"),
    "a key that YAML takes for a boolean": (b"on: x\n", "job.yaml: line 1: the key on is not text. Put it in quotes"),
    "a colon in a value": (b"kind: a: b\n", "job.yaml: line 1, column 8: a colon in an unexpected place. "),
    "a bracket that stays open": (b"spec: {a: 1\n", "job.yaml: line 2, column 1: expected ',' or '}'"),
    "a tag": (b"a: !!python/name:os.system x\n", "job.yaml: line 1: the tag !!python/name:os.system has no meaning"),
    "a set": (b"a: !!set {x}\n", "job.yaml: line 1: the tag !!set has no meaning in a TrainJob. "),
    "not a number": (b"a: .nan\n", "job.yaml: line 1: .nan is no number that JSON can say. Put it in quotes"),
    "an anchor in itself": (b"a: &x\n  b: *x\n", "job.yaml: line 1: an anchor contains itself. Write the value out"),
    "an anchor that is nowhere": (b"a: *x\n", "job.yaml: line 1, column 4: found undefined alias 'x'"),
}


@pytest.mark.parametrize(("data", "text"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_unreadable(data: bytes, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(data, "job.yaml")
    assert str(refused.value).startswith(f"unreadable input: {text}")


def test_a_date_without_quotes_stays_text() -> None:
    assert parse(GOOD, "x")[0].manifest["metadata"]["annotations"] == {"day": "2026-01-01"}


def test_values_are_what_kubernetes_reads() -> None:
    manifest = parse(b"a: 1:30\nb: 010\nc: yes\nd: 1.5\ne: null\nf: 2e3\n", "x")[0].manifest
    assert manifest == {"a": "1:30", "b": 8, "c": True, "d": 1.5, "e": None, "f": "2e3"}


def test_a_byte_order_mark_is_no_part_of_it() -> None:
    assert parse(b"\xef\xbb\xbf" + GOOD, "x")[0].manifest["kind"] == "TrainJob"


def test_json_is_yaml() -> None:
    assert parse(b'{"kind": "TrainJob", "spec": {}}', "x")[0].manifest == {"kind": "TrainJob", "spec": {}}


def test_anchors_and_merges_are_written_out() -> None:
    manifest = parse(b"a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\n", "x")[0].manifest
    assert manifest["d"] == {"b": 1, "c": 3}


def test_several_documents_know_their_lines() -> None:
    documents = parse(b"---\na: 1\n---\n# nothing\n---\nb: 2\n", "x")
    assert [(d.index, d.line, d.manifest) for d in documents] == [(1, 2, {"a": 1}), (2, 6, {"b": 2})]


def test_one_training_takes_one_document() -> None:
    with pytest.raises(InvalidRequest) as refused:
        only(parse(b"a: 1\n---\nb: 2\n", "two.yaml"))
    assert str(refused.value).startswith(
        "unreadable input: two.yaml: holds 2 documents (at lines 1, 3), one training takes one. "
    )


def test_the_one_document() -> None:
    assert only(parse(GOOD, "x")).manifest["kind"] == "TrainJob"


def test_a_file_that_is_not_there_has_a_neighbour(tmp_path: Path) -> None:
    (tmp_path / "trainjob.yaml").write_bytes(GOOD)
    with pytest.raises(InvalidRequest) as refused:
        read(str(tmp_path / "trianjob.yaml"))
    wanted = f"{tmp_path}/trianjob.yaml: there is no such file. Did you mean {tmp_path}/trainjob.yaml?"
    assert str(refused.value) == f"unreadable input: {wanted}"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"there is no such file\. Check the path"):
        read(str(tmp_path / "nowhere" / "job.yaml"))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="is a folder"):
        read(str(tmp_path))


def test_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[")))
    with pytest.raises(InvalidRequest, match="unreadable input: stdin: line 1"):
        parse(read("-"), "-")
