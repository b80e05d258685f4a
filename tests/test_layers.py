"""What holds for the package as a whole: who may import whom, and how big things may be."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "trainer_ops"

MODULES = sorted(p.relative_to(ROOT).as_posix() for p in PACKAGE.rglob("*.py"))
TESTS = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").rglob("*.py"))
FOLDERS = sorted(p.parent.relative_to(ROOT).as_posix() for p in PACKAGE.rglob("__init__.py"))


def test_imports_point_down_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from importlinter.cli import lint_imports

    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename="pyproject.toml", cache_dir=str(tmp_path)) == 0, "lint-imports says more"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_states_its_rule(folder: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text()))
    assert text
    assert "To be described" not in text
    if folder not in ("trainer_ops", "trainer_ops/local/runtimes"):
        assert "may import" in text.lower(), "say what the folder may import"


@pytest.mark.parametrize(("files", "limit"), [(MODULES, 400), (TESTS, 600)], ids=["modules", "tests"])
def test_nothing_is_too_long(files: list[str], limit: int) -> None:
    lengths = {name: len((ROOT / name).read_text().splitlines()) for name in files}
    assert {name: lines for name, lines in lengths.items() if lines > limit} == {}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_says_what_it_is(module: str) -> None:
    assert ast.get_docstring(ast.parse((ROOT / module).read_text()))


@pytest.mark.parametrize(
    ("package", "home"),
    [
        ("kubernetes", "trainer_ops/backends/"),
        ("pydantic", "trainer_ops/model/request.py"),
        ("airflow", "trainer_ops/airflow/"),
        ("kfp", "trainer_ops/kfp/"),
        ("typer", "trainer_ops/cli/"),
        ("rich", "trainer_ops/cli/"),
        ("pytest", "trainer_ops/testing/plugin.py"),
    ],
)
def test_a_package_has_one_home(package: str, home: str) -> None:
    strangers = [m for m in MODULES if not m.startswith(home) and package in _imported(ROOT / m)]
    assert strangers == []


def _imported(path: Path) -> set[str]:
    """Top packages that a module imports, wherever in it; what only type checkers see included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def test_what_is_shipped_runs_alone() -> None:
    import sys

    for path in (PACKAGE / "shipped").glob("*.py"):
        foreign = {name for name in _imported(path) - set(sys.stdlib_module_names) if name != "trainer_ops"}
        assert not foreign, path
