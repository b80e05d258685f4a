"""Launchers as real processes, in interpreters where this package is not installed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from trainer_ops.build.ship import launch_command
from trainer_ops.model.request import FunctionCode, ScriptCode, TrainRequest

WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
GENEROUS = 60.0  # seconds until a process that should have reacted counts as hung
MARK = "TEST_CONTAINER"  # in the environment of all of a container's processes: the container's folder


def _interpreter(folder: Path, *, with_pip: bool) -> Path:
    venv.create(folder, with_pip=with_pip, symlinks=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with nothing installed, not even pip."""
    return _interpreter(tmp_path_factory.mktemp("bare"), with_pip=False)


@pytest.fixture(scope="session")
def pip_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with pip and nothing else."""
    return _interpreter(tmp_path_factory.mktemp("pip"), with_pip=True)


@dataclass
class Run:
    """A launcher that has ended."""

    code: int
    out: str
    err: str


@dataclass
class Container:
    """Starts launchers as a container's process 1 is started, with an environment of its own."""

    python: Path
    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def result(self) -> Path:
        """What stands for the termination message."""
        return self.folder / "termination-log"

    def command(self, code: str | FunctionCode, **fields: Any) -> list[str]:
        """Argv of a TrainJob's container that runs this script or function."""
        shipped = ScriptCode(filename="train.py", source=code) if isinstance(code, str) else code
        request = TrainRequest(**{"runtime": "torch", "runner": "python", "code": shipped, **fields})
        return [str(self.python), *launch_command(request, None)[1:], *(request.args or ())]

    def start(self, code: str | FunctionCode, *more: str, **fields: Any) -> subprocess.Popen[str]:
        """Start the launcher of a request; ``more`` is argv that is not its own."""
        return self.popen([*self.command(code, **fields), *more])

    def popen(self, argv: list[str]) -> subprocess.Popen[str]:
        """Any process in this container."""
        process = subprocess.Popen(
            argv,
            env=self.environment(),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.python.parent), "/usr/bin", "/bin"])
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        ours = {"PATH": path, "HOME": str(self.folder), "TMPDIR": str(temporary), "PIP_NO_INDEX": "1"}
        return {**ours, "TRAINER_OPS_RESULT_PATH": str(self.result), MARK: str(self.folder), **self.env}

    def finish(self, process: subprocess.Popen[str]) -> Run:
        """Wait for its end; the pipes are closed with it."""
        out, err = process.communicate(timeout=GENEROUS)
        return Run(process.returncode, out, err)

    def run(self, code: str | FunctionCode, *more: str, **fields: Any) -> Run:
        """Start and finish."""
        return self.finish(self.start(code, *more, **fields))

    def wait_for(self, name: str) -> str:
        """The text of a file that the training writes, once it is there."""
        path = self.folder / name
        poll(lambda: path.exists() and path.read_text() != "", f"{name} does not appear")
        return path.read_text()

    def write(self, files: Mapping[str, str]) -> Path:
        """Files of that text below the container's folder; returns the folder."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self.folder

    def program(self, name: str, text: str) -> None:
        """A program in the first folder of PATH."""
        path = self.write({f"bin/{name}": text}) / "bin" / name
        path.chmod(0o755)
        self.env["PATH"] = os.pathsep.join([str(path.parent), self.environment()["PATH"]])

    def running(self) -> list[psutil.Process]:
        """Its processes that have not ended, whoever is their parent now and whatever group mpirun gave them."""
        return [process for process in psutil.process_iter() if _mark_of(process) == str(self.folder)]

    def leftovers(self) -> list[str]:
        """What launchers have left in the temporary folder."""
        return [path.name for path in (self.folder / "tmp").iterdir()]


def _mark_of(process: psutil.Process) -> str:
    try:
        return process.environ().get(MARK, "")
    except psutil.Error:  # another user's, or gone
        return ""


def poll(condition: Callable[[], bool], text: str) -> None:
    """Until the condition holds."""
    end = time.monotonic() + GENEROUS
    while not condition():
        assert time.monotonic() < end, text
        time.sleep(0.02)


@pytest.fixture
def container(bare_python: Path, tmp_path: Path) -> Iterator[Container]:
    made = Container(bare_python, tmp_path)
    yield made
    try:
        if all(process.poll() is not None for process in made.started):
            # A pod ends with its process 1; here what a launcher leaves behind would run on.
            poll(lambda: not made.running(), "a launcher has ended, and processes of its training have not")
    finally:
        # One by one: mpirun gives every rank a process group of its own.
        for left in made.running():
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
        for process in made.started:
            process.kill()
            process.communicate()


def other_pythons() -> dict[str, Path]:
    """Interpreters of other versions on this machine: the shipped programs understand 3.8."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {path.parent.parent.name: path for path in sorted(root.glob("3.*/bin/python"))}
    minors = {name: int(name.split(".")[1]) for name in found}
    return {name: found[name] for name, minor in minors.items() if minor >= 8 and minor != sys.version_info.minor}


def wheel(folder: Path, name: str, version: str, source: str, requires: str = "") -> Path:
    """A wheel of one module, made by hand."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", source)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(f"{info}/WHEEL", WHEEL)
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[..., Path]:
    """``make_wheel("name", "1.0", "VALUE = 1", requires="other")``, where pip finds it without a network."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    return lambda *args, **kwargs: wheel(folder, *args, **kwargs)


@pytest.fixture(params=[*other_pythons()] or ["none"])
def other_python(request: pytest.FixtureRequest) -> Path:
    """Each other version of Python that this machine has."""
    if request.param == "none":
        pytest.skip("no other Python on this machine")
    return other_pythons()[request.param]
