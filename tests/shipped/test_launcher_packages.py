"""Packages are installed beside the image's own, never over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeWheel = Callable[..., Path]


@pytest.fixture
def with_pip(container: Any, pip_python: Path, tmp_path: Path) -> Any:
    """A container whose Python has pip, which looks for packages in ``wheels`` only."""
    container.python = pip_python
    container.env["PIP_FIND_LINKS"] = str(tmp_path / "wheels")
    return container


@pytest.mark.slow
def test_a_package_and_what_it_needs(with_pip: Any, make_wheel: MakeWheel) -> None:
    make_wheel("leaf", "1.0", "VALUE = 1")
    make_wheel("tree", "2.0", "import leaf\nVALUE = leaf.VALUE + 1", requires="leaf>=1")
    run = with_pip.run("import tree; print(tree.VALUE)", packages=["tree>=1"])
    assert (run.out, run.err, run.code) == ("2\n", "trainer_ops: installing tree>=1\n", 0)
    assert with_pip.leftovers() == []


@pytest.mark.slow
def test_a_file_is_a_package_too(with_pip: Any, make_wheel: MakeWheel) -> None:
    path = make_wheel("leaf", "1.0", "VALUE = 1")
    assert with_pip.run("import leaf; print(leaf.VALUE)", packages=[str(path)]).out == "1\n"


@pytest.mark.slow
def test_what_the_image_has_is_not_installed_again(with_pip: Any, make_wheel: MakeWheel, tmp_path: Path) -> None:
    # "heavy" is in the image and nowhere else: an installer that ignored it would not find it.
    make_wheel("tree", "2.0", "import heavy\nVALUE = heavy.VALUE", requires="heavy")
    info = "Metadata-Version: 2.1\nName: heavy\nVersion: 1.0\n"
    with_pip.write({"image/heavy.py": "VALUE = 'the image'", "image/heavy-1.0.dist-info/METADATA": info})
    with_pip.env["PYTHONPATH"] = str(tmp_path / "image")
    run = with_pip.run("import tree; print(tree.VALUE)", packages=["tree"])
    assert (run.out, run.code) == ("the image\n", 0)


@pytest.mark.slow
def test_nothing_to_install(with_pip: Any) -> None:
    run = with_pip.run("import pip; print('there')", packages=["pip"])
    assert (run.out, run.code) == ("there\n", 0)


@pytest.mark.slow
def test_a_newer_one_comes_before_the_images(with_pip: Any, make_wheel: MakeWheel, tmp_path: Path) -> None:
    make_wheel("leaf", "2.0", "VALUE = 2")
    info = "Metadata-Version: 2.1\nName: leaf\nVersion: 1.0\n"
    with_pip.write({"image/leaf.py": "VALUE = 1", "image/leaf-1.0.dist-info/METADATA": info})
    with_pip.env["PYTHONPATH"] = str(tmp_path / "image")
    run = with_pip.run("import leaf; print(leaf.VALUE)", packages=["leaf>=2"])
    assert run.out == "2\n"
    assert (tmp_path / "image" / "leaf.py").exists()


@pytest.mark.slow
def test_a_package_that_does_not_exist(with_pip: Any, make_wheel: MakeWheel) -> None:
    run = with_pip.run("print('never')", packages=["no-such-package"])
    assert (run.code, run.out) == (1, "")
    assert "No matching distribution found for no-such-package" in run.err
    assert run.err.endswith("trainer_ops: packages cannot be installed (no-such-package): pip ended with exit code 1\n")


RECORDS = """#!/bin/sh
echo "$@" > called
"""


def test_uv_where_there_is_no_pip(container: Any) -> None:
    container.program("uv", RECORDS)
    run = container.run("print('trained')", packages=["a", "b==1"], pip_index_url="https://index")
    assert (run.code, run.out) == (0, "trained\n")
    called = container.wait_for("called").split()
    target = called.pop(called.index("--target") + 1)
    assert target.endswith("/packages")
    assert called == [
        *["pip", "install", "--python", str(container.python), "--target"],
        *["--index-url", "https://index", "a", "b==1"],
    ]


def test_neither_pip_nor_uv(container: Any) -> None:
    container.env["PATH"] = str(container.folder)
    run = container.run("print('never')", packages=["a", "b==1"])
    assert (run.code, run.out) == (1, "")
    assert run.err.splitlines() == [
        "trainer_ops: installing a b==1",
        "trainer_ops: packages cannot be installed (a b==1): this image has neither pip nor uv",
    ]


OLD_PIP = """
import sys
open("called", "a").write(" ".join(sys.argv[1:]) + "\\n")
sys.exit(2 if "--dry-run" in sys.argv else 0)
"""


def test_a_pip_that_knows_no_report(container: Any) -> None:
    container.write({"path/pip/__init__.py": "", "path/pip/__main__.py": OLD_PIP})
    container.env["PYTHONPATH"] = str(container.folder / "path")
    assert container.run("print('trained')", packages=["a"]).out == "trained\n"
    last = container.wait_for("called").splitlines()[-1].split()
    assert (last[0], last[-1]) == ("install", "a")
    assert "--target" in last
