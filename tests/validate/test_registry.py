"""The registry and the code say the same, and every rule has a case in a table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import trainer_ops.validate.rules as registry
from trainer_ops.validate.rules import RULES

SOURCES = Path(registry.__file__).parent
TABLES = Path(__file__).parent
# Told for what is no manifest at all, which a table of changes to a right one cannot hold: test_messages.
ELSEWHERE = {"manifest-type"}


def told() -> set[str]:
    texts = "\n".join(path.read_text() for path in SOURCES.glob("*.py") if path.name != "rules.py")
    direct = re.findall(r'\b(?:error|warning|say|_no_such|Hint)\(\s*"([a-z0-9-]+)"', texts)
    return set(direct)


def test_every_rule_is_told_and_every_told_rule_is_registered() -> None:
    assert told() == set(RULES)


def test_every_rule_has_a_case() -> None:
    cases = "\n".join((TABLES / name).read_text() for name in ("job_cases.py", "runtime_cases.py"))
    assert set(re.findall(r'\bCase\(\s*"([a-z0-9-]+)"', cases)) == set(RULES) - ELSEWHERE


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_names_its_source(rule: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule)
    assert re.search(
        r"\((?:API server|CRD|webhook|controller|initializers|jobset|Kubernetes|Kueue|kubeflow/|trainer )", RULES[rule]
    )
    assert len(RULES[rule]) < 110


def test_importing_the_rules_loads_nothing_heavy() -> None:
    code = "import sys, trainer_ops.validate.trainjob, trainer_ops.validate.runtime; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "kubernetes", "yaml", "kubeflow_trainer_api"} & set(loaded)
