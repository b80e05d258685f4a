"""Start one process as process 1 of namespaces of its own: a container whose image is this machine's file system.

A program, run by ``kubelet_run`` as root: ``python -I -S container.py SPEC.json STATUS_FD``. It makes new mount, pid,
host name and IPC namespaces, joins the pod's network namespace, lays an overlay over ``/`` whose changes live in
memory and vanish with the process, mounts the volumes, and executes the command. It stays as the parent and ends with
the command's exit code (128 + number for a signal). To STATUS_FD it writes ``PID n`` and, when the command could not
be started, ``ERROR text``; STATUS_FD is closed when the command runs.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import signal
import socket
import sys
from typing import Any

NEW_NS, NEW_UTS, NEW_IPC, NEW_PID, NEW_NET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 1, 32, 4096, 16384, 1 << 18, 2
PR_SET_PDEATHSIG = 1
OLD = "/.old"
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
NOT_FILES = {
    *("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "mqueue", "debugfs", "tracefs", "securityfs", "bpf"),
    *("nsfs", "pstore", "configfs", "hugetlbfs", "fusectl", "autofs", "binfmt_misc", "efivarfs", "rpc_pipefs"),
}

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    done = libc.mount(source.encode(), target.encode(), kind.encode() or None, flags, data.encode() or None)
    check(done, f"mount {target}")


def die_with_parent() -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def isolate(netns: str) -> None:
    if netns:
        handle = os.open(netns, os.O_RDONLY)
        check(libc.setns(handle, NEW_NET), "setns")
        os.close(handle)
    check(libc.unshare(NEW_NS | NEW_UTS | NEW_IPC | NEW_PID), "unshare")


def make_root(stage: str) -> str:
    """A writable view of ``/`` in memory, with the machine's other file systems bound into it."""
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    others = [line.split()[:3] for line in open("/proc/self/mounts", encoding="utf-8")]  # noqa: SIM115
    mount("tmpfs", stage, "tmpfs")
    upper, work, root = (os.path.join(stage, name) for name in ("upper", "work", "root"))
    for path in (upper, work, root):
        os.mkdir(path)
    mount("overlay", root, "overlay", data=f"lowerdir=/,upperdir={upper},workdir={work}")
    for _, target, kind in others:
        skip = target == "/" or kind in NOT_FILES or target.startswith(("/proc", "/sys", "/dev", "/run"))
        if not skip and os.path.isdir(root + target) and not stage.startswith(target + "/"):
            mount(target, root + target, flags=MS_BIND)
    return root


def make_devices(root: str) -> None:
    dev = root + "/dev"
    mount("tmpfs", dev, "tmpfs", data="mode=755")
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        open(f"{dev}/{name}", "w").close()
        mount(f"/dev/{name}", f"{dev}/{name}", flags=MS_BIND)
    for name in ("pts", "shm"):
        os.mkdir(f"{dev}/{name}")
    mount("devpts", f"{dev}/pts", "devpts", data="newinstance,ptmxmode=0666,mode=0620")
    mount("tmpfs", f"{dev}/shm", "tmpfs", data="mode=1777")
    links = (("pts/ptmx", "ptmx"), ("/proc/self/fd", "fd"))
    for target, name in (*links, *((f"/proc/self/fd/{i}", n) for i, n in enumerate(("stdin", "stdout", "stderr")))):
        os.symlink(target, f"{dev}/{name}")
    mount("proc", root + "/proc", "proc")
    mount("/sys", root + "/sys", flags=MS_BIND | MS_REC)


def enter(root: str) -> None:
    """Make it the root. The old one is at ``OLD`` until ``leave``."""
    os.mkdir(root + OLD)
    os.chdir(root)
    check(libc.syscall(PIVOT_ROOT[platform.machine()], b".", OLD[1:].encode()), "pivot_root")
    os.chdir("/")


def bind(source: str, target: str, read_only: bool) -> None:
    """Mount a file or folder of the old root. Inside the new one, or a link would lead out of it."""
    source = OLD + source
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "w").close()
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def leave_old_root() -> None:
    check(libc.umount2(OLD.encode(), MNT_DETACH), "umount the old root")
    os.rmdir(OLD)


def become(user: int | None, groups: list[int]) -> None:
    if user is None:
        return
    os.setgroups(groups)
    os.setgid(groups[0] if groups else user)
    os.setuid(user)
    die_with_parent()  # the kernel forgets it when the user changes


def run(spec: dict[str, Any]) -> None:
    root = make_root(spec["stage"])
    make_devices(root)
    for path in spec["opened"]:
        os.chmod(root + path, 0o755)
    enter(root)
    for source, target, read_only in spec["mounts"]:
        bind(source, target, read_only)
    leave_old_root()
    socket.sethostname(spec["hostname"])
    os.makedirs(spec["cwd"], exist_ok=True)
    become(spec["user"], spec["groups"])
    os.chdir(spec["cwd"])
    execute(spec["argv"], spec["env"])


def execute(argv: list[str], env: dict[str, str]) -> None:
    """Replace this process. The errors read as runc's do."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    name = argv[0]
    if "/" not in name:
        found = shutil.which(name, path=env.get("PATH", ""))
        if found is None:
            raise RuntimeError(f'exec: "{name}": executable file not found in $PATH')
        name = found
    elif not os.path.exists(name):
        raise RuntimeError(f'exec: "{name}": stat {name}: no such file or directory')
    try:
        os.execve(name, argv, env)
    except OSError as exc:
        raise RuntimeError(f'exec: "{argv[0]}": {os.strerror(exc.errno or 0).lower()}') from exc


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    status = int(sys.argv[2])
    os.set_inheritable(status, False)
    die_with_parent()
    try:
        isolate(spec["netns"])
        child = os.fork()
        if child == 0:
            die_with_parent()
            os.write(status, f"PID {os.readlink('/proc/self')}\n".encode())
            run(spec)
    except BaseException as exc:
        os.write(status, f"ERROR {exc}\n".encode())
        os._exit(128)
    os.close(status)
    null = os.open("/dev/null", os.O_RDWR)
    for stream in (1, 2):
        os.dup2(null, stream)  # the log ends with the container, not with this process
    _, ended = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(ended)
    os._exit(128 - code if code < 0 else code)


if __name__ == "__main__":
    main()
