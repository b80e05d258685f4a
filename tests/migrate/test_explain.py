"""--explain: of every code all there is to know, and no code without a use."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from trainer_ops.migrate import codes_files, codes_kinds, codes_scan
from trainer_ops.migrate.codes import CODES
from trainer_ops.migrate.explain import code, files, kinds, nodes, pods, policy
from trainer_ops.migrate.explain.text import EXPLAINED, explain

ROOT = Path(__file__).parents[2] / "trainer_ops"
TABLES = (
    nodes.OF_NODES, policy.OF_POLICY, pods.OF_PODS, kinds.OF_KINDS, files.IN_FILES, code.IN_CODE,
)  # fmt: skip
# Calls that make a finding, and the place of its code among their arguments.
_MADE = re.compile(
    r"""(?:\b(?:finding|placed|known_finding|Finding)\(|\.(?:say|refuse)\(|\b_?told\([\w, ]*,)\s*"([A-Z][A-Z0-9-]+)\""""
)


def sources() -> dict[str, str]:
    folders = [ROOT / "migrate", ROOT / "cli", ROOT / "lifecycle"]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    tables = re.compile(r"migrate/(?:codes\w*|explain/.*)\.py$")
    return {str(path): path.read_text(encoding="utf-8") for path in paths if not tables.search(path.as_posix())}


def test_every_code_is_explained_and_no_other() -> None:
    assert set(EXPLAINED) == set(CODES)


@pytest.mark.parametrize("name", CODES)
def test_an_explanation_is_whole(name: str) -> None:
    known, entry = CODES[name], EXPLAINED[name]
    assert known.title
    assert known.explanation
    for text in (entry.v1, entry.v2, entry.matters, entry.do):
        assert text.strip() == text
        assert text.endswith("."), text
        assert "  " not in text
    assert all(re.fullmatch(r"[a-z-]+ #\d+", issue) for issue in entry.issues)


def test_no_code_is_explained_twice() -> None:
    count = Counter(name for table in TABLES for name in table)
    assert [name for name, times in count.items() if times > 1] == []


def test_no_code_is_in_two_tables() -> None:
    count = Counter([*codes_files.FILE_CODES, *codes_kinds.KIND_CODES, *codes_scan.SCAN_CODES])
    assert [name for name, times in count.items() if times > 1] == []


def test_codes_that_are_made_are_known() -> None:
    made = {(path, name) for path, text in sources().items() for name in _MADE.findall(text)}
    assert len(made) > 40
    assert {(path, name) for path, name in made if name not in CODES} == set()


def test_every_code_is_used() -> None:
    text = "\n".join(sources().values())
    assert [name for name in CODES if f'"{name}"' not in text] == []


def test_explained_flags_exist() -> None:
    """What --explain tells people to give is a flag of this tool, or of one that is named."""
    options = (ROOT / "migrate" / "options.py").read_text(encoding="utf-8")
    known = set(re.findall(r"^    (\w+):", options, re.M))
    flags = {flag for entry in EXPLAINED.values() for flag in re.findall(r"--([a-z][a-z-]+)", f"{entry.do} {entry.v2}")}
    others = {"apply-check", "explain", "no-env-shim", "hostfile", "nproc_per_node", "nproc", "for"}
    assert {flag for flag in flags - others if flag.replace("-", "_") not in known} == set()


@pytest.mark.parametrize("name", CODES)
def test_lines_fit(name: str) -> None:
    lines = explain(name, 72)
    assert max(len(line) for line in lines) <= 98
    assert max((len(line) for line in lines if not line.startswith("    ")), default=0) <= 72
    assert lines[0].startswith("In v1: ")
    assert "" not in (lines[0], lines[-1])


def test_paragraphs() -> None:
    text = "\n".join(explain("ENV-SHIM", 100))
    heads = [part.split(":")[0] for part in text.split("\n\n")]
    assert heads == ["In v1", "In v2", "Why it matters", "What to do", "    env", "Upstream"]
    assert text.endswith("Upstream: trainer #3277")
