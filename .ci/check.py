"""Run the checks of `make test` one after the other, show them as they go, and end with one summary line.

A failing step does not stop the next one: a person wants to see everything that is wrong in one run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
KFP_BIN = ROOT / ".venv-kfp" / "bin"


@dataclass
class Counts:
    """Tests of all sessions together."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, junit: Path) -> None:
        """Add what one pytest session wrote; a session without a report counts as one failure."""
        try:
            suite = next(ET.parse(junit).getroot().iter("testsuite"))
        except (OSError, ET.ParseError, StopIteration):
            self.failed += 1
            return
        total, bad, skipped = (
            int(suite.get("tests", 0)),
            int(suite.get("failures", 0)) + int(suite.get("errors", 0)),
            int(suite.get("skipped", 0)),
        )
        self.passed += total - bad - skipped
        self.failed += bad
        self.skipped += skipped


def step(title: str, *command: str | Path) -> bool:
    """Run one command with its output shown; whether it succeeded."""
    print(f"\n── {title}", flush=True)
    begun = time.monotonic()
    code = subprocess.run([str(part) for part in command], cwd=ROOT, check=False).returncode
    print(f"   {'ok' if code == 0 else f'FAILED (exit {code})'} in {time.monotonic() - begun:.0f} s", flush=True)
    return code == 0


def lint() -> list[bool]:
    """Style, layout, types. The import layers are checked by the tests (tests/test_layers.py)."""
    return [
        step("ruff check", BIN / "ruff", "check", "."),
        step("ruff format", BIN / "ruff", "format", "--check", "."),
        step("mypy strict", BIN / "mypy"),
    ]


def programs(*, full: bool) -> list[bool]:
    """The real control plane's programs, built where they are not there: no test waits for a compiler."""
    build = (BIN / "python", "-m", "tests.controlplane.build")
    done = [step("programs of the control plane", *build), step("the v1 operators", *build, "v1")]
    return [*done, step("Kueue", *build, "kueue")] if full else done


def tests(counts: Counts, *, speed: str) -> list[bool]:
    """The two pytest sessions: everything but KFP in .venv, KFP in .venv-kfp."""
    done = []
    with tempfile.TemporaryDirectory() as folder:
        for title, python, select in (
            ("tests in .venv (Airflow, CLI, engine)", BIN / "python", f"not kfp{speed}"),
            ("tests in .venv-kfp (Kubeflow Pipelines)", KFP_BIN / "python", f"kfp{speed}"),
        ):
            junit = Path(folder) / f"{python.parent.parent.name}.xml"
            paths = ["tests/kfp"] if python.parent == KFP_BIN else []
            done.append(step(title, python, "-m", "pytest", "-q", "-m", select, f"--junitxml={junit}", *paths))
            counts.add(junit)
    return done


def main() -> int:
    """The whole run; 0 when everything is well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="leave out the tests marked slow, cluster or full")
    parser.add_argument("--full", action="store_true", help="with the tests marked full")
    parser.add_argument("--lint", action="store_true", help="no tests")
    options = parser.parse_args()
    begun = time.monotonic()
    counts = Counts()
    results = lint()
    if not options.lint:
        left_out = ("slow", "cluster", "full") if options.fast else () if options.full else ("full",)
        results += [] if options.fast else programs(full=options.full)
        results += tests(counts, speed="".join(f" and not {marker}" for marker in left_out))
    print(f"\n{'all checks passed' if all(results) else 'SOME CHECKS FAILED'} in {time.monotonic() - begun:.0f} s")
    if not options.lint:
        print(f"tests: {counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
