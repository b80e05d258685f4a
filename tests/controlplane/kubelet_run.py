"""Run one container as processes of this machine: in namespaces of its own, or plainly.

``contained`` needs Linux, root, ``ip`` and overlay mounts; each pod has a network namespace with an address of its
own and each container its own view of the file system (see ``container.py``). ``plain`` runs anywhere: a process
group, the pod's names and ports rewritten to free ports of loopback, paths of mounts rewritten to folders. What plain
cannot be: process 1 (which ignores SIGTERM when it does not handle it), an own ``/dev/termination-log`` (the path is in
``TRAINER_OPS_RESULT_PATH``), read-only mounts, users.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from tests.controlplane.kubelet_volumes import Mount

__all__ = ["ContainerSpec", "Process", "StartError", "can_contain", "start_contained", "start_plain"]

_HELPER = Path(__file__).with_name("container.py")
_RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: "
)


class StartError(Exception):
    """The command cannot be run; the text is containerd's."""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What to run.

    Attributes:
        termination: the file of this machine that stands for ``terminationMessagePath`` (empty at the start).
        folder: for files of this run only; it exists.
        stage: an empty folder, the same for all.
        netns: name of the pod's network namespace.
    """

    argv: Sequence[str]
    env: dict[str, str]
    cwd: str
    hostname: str
    folder: Path
    stage: Path
    termination: Path
    termination_path: str = "/dev/termination-log"
    hosts: Path | None = None
    netns: str = ""
    mounts: Sequence[Mount] = ()
    user: int | None = None
    groups: list[int] = field(default_factory=list)


class Process:
    """A container that runs.

    Attributes:
        pid: its process 1, as this machine counts.
        output: what it prints, both streams in one, until its end.
    """

    def __init__(self, popen: subprocess.Popen[bytes], pid: int, *, group: bool) -> None:
        self._popen = popen
        self._group = group
        self.pid = pid
        assert popen.stdout is not None
        self.output: IO[bytes] = popen.stdout

    def wait(self) -> int:
        """Block until it has ended with all its processes; its exit code, 128 + n after signal n."""
        code = self._popen.wait()
        if self._group:
            self._sweep()
        return 128 - code if code < 0 else code

    def signal(self, number: int) -> None:
        """Send a signal to process 1; nothing when it has ended."""
        if number == signal.SIGKILL and self._group:
            self._sweep()
        if self._popen.poll() is None:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def _sweep(self) -> None:
        """Kill what is left of the group (in a pid namespace the kernel does it)."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def listens(self, port: int) -> bool:
        """Whether something in its network listens on that TCP port."""
        if not self._group:
            return _listens(self.pid, port)
        try:
            processes = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
            return any(
                getattr(c.laddr, "port", None) == port and c.status == psutil.CONN_LISTEN
                for process in processes
                for c in process.net_connections(kind="tcp")
            )
        except psutil.Error:
            return False


def _listens(pid: int, port: int) -> bool:
    wanted = f":{port:04X}"
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
        except OSError:
            continue
        if any(row[1].endswith(wanted) and row[3] == "0A" for row in map(str.split, lines)):
            return True
    return False


def start_contained(spec: ContainerSpec) -> Process:
    """Run it in namespaces.

    Raises:
        StartError: the command is not there or cannot be run.
    """
    mounts = [*spec.mounts, Mount(spec.termination, spec.termination_path)]
    if spec.hosts is not None:
        mounts.append(Mount(spec.hosts, "/etc/hosts"))
    plan = {
        "argv": list(spec.argv),
        "env": spec.env,
        "cwd": spec.cwd,
        "hostname": spec.hostname,
        "stage": str(spec.stage),
        "netns": f"/run/netns/{spec.netns}" if spec.netns else "",
        "mounts": [(os.path.realpath(mount.source), mount.target, mount.read_only) for mount in mounts],
        "user": spec.user,
        "opened": _closed_folders() if spec.user else [],
        "groups": spec.groups,
    }
    file = spec.folder / "container.json"
    file.write_text(json.dumps(plan))
    reader, writer = os.pipe()
    try:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_HELPER), str(file), str(writer)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writer,),
            start_new_session=True,
        )
    finally:
        os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        report = pipe.read().decode(errors="replace")
    pid = next((int(line[4:]) for line in report.splitlines() if line.startswith("PID ")), popen.pid)
    error = report.partition("ERROR ")[2].strip()
    if error:
        popen.wait()
        assert popen.stdout is not None
        popen.stdout.close()
        raise StartError(_RUNC + error)
    return Process(popen, pid, group=False)


def _closed_folders() -> list[str]:
    """Folders on the way to our interpreter and programs that only root may pass (``/root``): the container opens its
    own view of them for a user who is not.
    """
    goals = (Path(sys.executable), Path(sys.executable).resolve(), Path(sys.prefix), Path(sys.base_prefix), _HELPER)
    parents = {parent for goal in goals for parent in goal.parents}
    return sorted(str(path) for path in parents if path.stat().st_mode & 0o005 != 0o005)


def start_plain(spec: ContainerSpec) -> Process:
    """Run it as a process group.

    Raises:
        StartError: the command is not there or cannot be run.
    """
    name = spec.argv[0]
    if "/" in name and not Path(name).exists():
        raise StartError(f'{_RUNC}exec: "{name}": stat {name}: no such file or directory')
    found = shutil.which(name, path=spec.env.get("PATH", ""))
    if found is None:
        what = "permission denied" if "/" in name else "executable file not found in $PATH"
        raise StartError(f'{_RUNC}exec: "{name}": {what}')
    cwd = Path(spec.cwd) if spec.cwd != "/" and Path(spec.cwd).is_dir() else spec.folder
    try:
        popen = subprocess.Popen(
            [name, *spec.argv[1:]],
            executable=found,
            env=spec.env,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as exc:
        raise StartError(f'{_RUNC}exec: "{name}": {os.strerror(exc.errno or 0).lower()}') from exc
    return Process(popen, popen.pid, group=True)


def can_contain() -> str:
    """ "" when this machine can run contained; else the reason why not."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "it needs Linux and root"
    if shutil.which("ip") is None:
        return "it needs the program ip (Debian: iproute2)"
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for name in ("stage", "run"):
            (base / name).mkdir()
        (base / "end").touch()
        spec = ContainerSpec(
            argv=["true"],
            env={"PATH": os.defpath},
            cwd="/",
            hostname="probe",
            folder=base / "run",
            stage=base / "stage",
            termination=base / "end",
        )
        try:
            process = start_contained(spec)
        except StartError as exc:
            return str(exc).removeprefix(_RUNC)
        output = process.output.read()
        process.output.close()
        code = process.wait()
        return "" if code == 0 else f"a first container ended with {code}: {output.decode(errors='replace')}"
