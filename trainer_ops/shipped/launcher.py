"""Process 1 of a training's container: runs the code that came along in the TrainJob's command.

    python3 -u -c <this text> <payload> [more payload ...] [arguments of the script ...]

A plain Python program as process 1 ignores SIGTERM: at every cancel, preemption and suspension it goes on until it is
killed, and its last checkpoint is lost. So the code runs as a child of this one, which forwards SIGTERM, waits for as
long as the child needs, and then exits 143: a training that was told to stop is never a success.

The payload is base64 of compressed JSON, cut into pieces because Linux takes at most 128 KiB in one argument; the first
begins with the number of pieces. Kubernetes expands a dollar and a parenthesis in a command: here is no such pair.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

HOSTFILE = "OMPI_MCA_orte_default_hostfile"
# Where rank 0 sends its result: TOKEN/PORT/ADDRESS of the launcher that started mpirun.
RELAY = "TRAINER_OPS_RESULT_TO"
RESULT_LIMIT = 4096
# Whether mpirun has started this launcher as one rank: the launcher that starts mpirun says so in the payload.
IS_RANK = len(sys.argv) > 1 and sys.argv[1].partition(":")[0].endswith("r")

stopped_by: list[int] = []
child: list[int] = []
# mpirun answers SIGTERM by killing all ranks within a second, but it passes SIGUSR1 on to them.
translate: dict[int, int] = {}


def on_signal(number: int, frame: object) -> None:
    """Remember it, and pass it on to the child there is; a rank under mpirun gets SIGUSR1 for SIGTERM."""
    number = signal.SIGTERM if number == signal.SIGUSR1 else number
    stopped_by.append(number)
    pass_on(number)


def pass_on(number: int) -> None:
    """Send it to the child."""
    for pid in child:
        try:
            os.kill(pid, translate.get(number, number))
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    # Before the slow imports: until a handler is set, the kernel drops what is sent to process 1.
    for _number in (signal.SIGTERM, signal.SIGINT, *([signal.SIGUSR1] if IS_RANK else [])):
        signal.signal(_number, on_signal)

import base64  # noqa: E402
import importlib.util  # noqa: E402
import json  # noqa: E402
import secrets  # noqa: E402
import shutil  # noqa: E402
import socket  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
import zlib  # noqa: E402

# What a shipped function's file ends with. Guarded: processes that it spawns import the file once more.
CALL = """

if __name__ == "__main__":
    import _trainer_ops_call

    _trainer_ops_call.finish({name}(**_trainer_ops_call.kwargs))
"""

# The module that it imports: the arguments, and what becomes of the returned value.
CALL_MODULE = '''"""Calls the function that was shipped with the TrainJob."""

import json
import os
import sys

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "_trainer_ops_kwargs.json"), encoding="utf-8") as _f:
    kwargs = json.load(_f)


def finish(result):
    """Report what the function returned. The training is done: a value that cannot be reported does not undo it.

    A dict is metrics by name, beside the parts of a report; what is no number or text in it is an artifact of that
    name. Anything else is the artifact ``return_value``.
    """
    from trainer_ops import report

    if result is None:
        return
    try:
        if not isinstance(result, dict):
            report(artifacts={"return_value": result})
            return
        parts = {name: result[name] for name in ("metrics", "model_uri", "artifacts") if name in result}
        rest = {name: value for name, value in result.items() if name not in parts}
        other = (dict, list, tuple, type(None))
        nested = {name: rest.pop(name) for name in list(rest) if isinstance(rest[name], other)}
        metrics = {**(parts.pop("metrics", None) or {}), **rest}
        artifacts = {**(parts.pop("artifacts", None) or {}), **nested}
        report(metrics, artifacts=artifacts, **parts)
    except (TypeError, ValueError) as error:
        print("trainer_ops: what the function returned is not reported:", error, file=sys.stderr)
'''

# ``import trainer_ops`` where it is not installed. Last in the path, and it still looks for an installed one first:
# PYTHONPATH comes before site-packages.
STAND_IN = '''"""Stands in for trainer_ops where it is not installed: ``report`` and nothing else."""

import importlib.util
import os
import sys


def _installed():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path, module = list(sys.path), sys.modules.pop(__name__)
    sys.path[:] = [folder for folder in path if os.path.abspath(folder) != here]
    try:
        return importlib.util.find_spec(__name__)
    finally:
        sys.path[:], sys.modules[__name__] = path, module


_spec = _installed()
if _spec is not None and _spec.origin is not None:
    sys.modules[__name__] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[__name__])
else:
    from trainer_ops.reporting import report
'''


class Failed(Exception):
    """Ends the launcher with one line and exit code 1."""


def read_payload(argv: list[str]) -> tuple[dict[str, Any], list[str]]:
    """(payload, arguments of the script) from our own arguments."""
    try:
        head, _, first = argv[0].partition(":")
        count = int(head.rstrip("r"))
        data = json.loads(zlib.decompress(base64.b64decode("".join([first, *argv[1:count]]))).decode("utf-8"))
    except (IndexError, ValueError, zlib.error) as error:
        raise Failed(f"the code that came with the TrainJob cannot be read: {error!r}") from error
    # What follows the script's own arguments is left over from the runtime, whose command ours replaced.
    return data, argv[count : count + data["argc"]]


def write(folder: str, name: str, text: str) -> str:
    """A file of that text; returns its path."""
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return path


def write_code(folder: str, data: dict[str, Any]) -> str:
    """The code and what it imports of ours; returns the path of the file to run."""
    write(folder, "lib/trainer_ops/__init__.py", STAND_IN)
    write(folder, "lib/trainer_ops/reporting.py", data["reporting"])
    if data["kind"] == "script":
        return write(folder, f"code/{data['filename']}", data["source"])
    write(folder, "lib/_trainer_ops_call.py", CALL_MODULE)
    write(folder, "lib/_trainer_ops_kwargs.json", json.dumps(data["kwargs"]))
    # Not ``<name>.py``: a function named like a package must not hide it.
    return write(folder, f"code/function_{data['name']}.py", data["source"] + CALL.format(name=data["name"]))


def deafen() -> None:
    """In the child of a rank: mpirun sends SIGUSR1 to all of a rank's processes, but it is meant for the launcher."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def run(argv: list[str], env: dict[str, str]) -> int:
    """Run it as the child and wait; its exit code, as a shell counts signals."""
    if stopped_by:
        return 128 + stopped_by[0]
    try:
        process = subprocess.Popen(argv, env=env, preexec_fn=deafen if IS_RANK else None)
    except OSError as error:
        raise Failed(f"{argv[0]} cannot be started: {error}") from error
    child.append(process.pid)
    for number in stopped_by:
        pass_on(number)
    while True:
        # Process 1 also inherits what the training leaves behind, and has to reap it.
        pid, status = os.waitpid(-1, 0)
        if pid == process.pid:
            child.clear()
            process.returncode = status
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def install(packages: list[str], index: str | None, folder: str, env: dict[str, str]) -> None:
    """Put the packages into the folder; what the image has already is left as it is."""
    target, names = os.path.join(folder, "packages"), " ".join(packages)
    options = ["--index-url", index] if index else []
    print(f"trainer_ops: installing {names}", file=sys.stderr)
    if importlib.util.find_spec("pip"):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", *options]
        wanted = missing(pip, packages, os.path.join(folder, "report.json"), env)
        code = run([*pip, "--target", target, *wanted], env) if wanted else 0
    elif shutil.which("uv"):
        code = run(["uv", "pip", "install", "--python", sys.executable, "--target", target, *options, *packages], env)
    else:
        raise Failed(f"packages cannot be installed ({names}): this image has neither pip nor uv")
    if code and not stopped_by:
        raise Failed(f"packages could not be installed ({names}): exit code {code}")
    env["PYTHONPATH"] = joined(target, env.get("PYTHONPATH"))
    env["PATH"] = joined(os.path.join(target, "bin"), env.get("PATH"))


def missing(pip: list[str], packages: list[str], report: str, env: dict[str, str]) -> list[str]:
    """Arguments for pip that install only what is not there yet.

    ``--target`` alone takes nothing for installed: one package that depends on torch would bring a second torch,
    gigabytes of it, to shadow the one that the image's drivers go with.
    """
    code = run([*pip, "--dry-run", "--report", report, *packages], env)
    if code == 2:
        return packages  # a pip before 22.2, which knows no report
    if code and not stopped_by:
        raise Failed(f"packages cannot be installed ({' '.join(packages)}): pip ended with exit code {code}")
    if stopped_by:
        return []
    with open(report, encoding="utf-8") as file:
        plan = json.load(file)["install"]
    return ["--no-deps", *map(requirement, plan)] if plan else []


def requirement(item: dict[str, Any]) -> str:
    """One row of pip's report as a requirement."""
    meta, source = item["metadata"], item["download_info"]
    if not item["is_direct"]:
        return f"{meta['name']}=={meta['version']}"
    vcs = source.get("vcs_info")
    at = f"{vcs['vcs']}+{source['url']}@{vcs['commit_id']}" if vcs else source["url"]
    return f"{meta['name']} @ {at}"


def joined(*parts: str | None) -> str:
    """A search path of these, in this order."""
    return os.pathsep.join(part for part in parts if part)


def choose(runner: str) -> str:
    """The runner where the TrainJob leaves it to us: by what Trainer's plugin has put into the environment."""
    if runner != "auto":
        return runner
    if os.environ.get("PET_NNODES"):
        return "torchrun"
    return "mpirun" if os.environ.get(HOSTFILE) else "python"


def mpirun(data: dict[str, Any], argv: list[str], env: dict[str, str]) -> list[str]:
    """All slots of the hostfile; every rank is a launcher of its own, since other nodes do not have the code."""
    hostfile = os.environ.get(HOSTFILE) or "/etc/mpi/hostfile"
    # Open MPI 5 reads none of the variables that Trainer sets for version 4. Of those, keep_fqdn_hostnames must not be
    # carried over: mpirun would not know its own pod, whose host name is short, by the hostfile's name, and would call
    # itself by ssh. It connects by the whole names anyway.
    if env.get("OMPI_MCA_plm_rsh_args"):
        env.setdefault("PRTE_MCA_plm_ssh_args", env["OMPI_MCA_plm_rsh_args"])
    ours = [name for name in env if name.startswith(("TRAINER_OPS_", "KUBEFLOW_TRAINER_SERVER_"))]
    exported = sorted({*ours, *(name for name in data["exports"] if name in env)})
    head, _, first = argv[0].partition(":")
    return [
        "mpirun",
        *(["--hostfile", hostfile] if os.path.exists(hostfile) else []),
        *(["--allow-run-as-root"] if os.getuid() == 0 else []),
        *(word for name in exported for word in ("-x", name)),
        *[sys.executable, "-u", "-c", own_text(), f"{head}r:{first}"],
        *argv[1:],
    ]


def result_path() -> str:
    """Where ``report`` leaves the result."""
    return os.environ.get("TRAINER_OPS_RESULT_PATH") or "/dev/termination-log"


def listen(env: dict[str, str]) -> None:
    """Let rank 0 send its result to this pod: its own is deleted with what it holds as soon as mpirun has ended.

    (Where the launcher is no node, and with Open MPI 5 also where it is one: that starts with the hostfile's first.)
    """
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        server = socket.create_server(("", 0), family=family, dualstack_ipv6=family == socket.AF_INET6)
        address = str(socket.getaddrinfo(socket.gethostname(), None)[0][4][0])
    except OSError:
        return
    token = secrets.token_hex(16)
    env[RELAY] = f"{token}/{server.getsockname()[1]}/{address}"
    threading.Thread(target=receive, args=(server, token.encode()), daemon=True).start()


def receive(server: socket.socket, token: bytes) -> None:
    """Write what rank 0 sends into our own termination message, and say that it is there."""
    while True:
        peer, _ = server.accept()
        peer.settimeout(10)
        try:
            with peer, peer.makefile("rb") as file:
                given, _, text = file.read(len(token) + 1 + RESULT_LIMIT).partition(b"\n")
                if secrets.compare_digest(given, token):
                    with open(result_path(), "wb") as result:
                        result.write(text)
                    peer.sendall(b"1")
        except OSError:
            pass  # whoever it was hears nothing and says so


def send_result() -> None:
    """As rank 0: what ``report`` has left in this pod. Where that does not work the pod's own message has to do."""
    relay = os.environ.get(RELAY)
    rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMIX_RANK")
    if not relay or rank != "0":
        return
    token, port, address = relay.split("/", 2)
    try:
        with open(result_path(), "rb") as file:
            text = file.read(RESULT_LIMIT)
        if text:
            with socket.create_connection((address, int(port)), timeout=10) as peer:
                peer.sendall(token.encode() + b"\n" + text)
                peer.shutdown(socket.SHUT_WR)
                peer.recv(1)
    except OSError as error:
        print(f"trainer_ops: the result did not reach the launcher: {error}", file=sys.stderr)


def own_text() -> str:
    """This program's text, as the interpreter was given it."""
    line = getattr(sys, "orig_argv", None)
    if line is None:  # before Python 3.10
        with open("/proc/self/cmdline", encoding="utf-8", errors="surrogateescape") as file:
            line = file.read().split("\0")
    return str(line[line.index("-c") + 1])


def launch(argv: list[str], folder: str) -> int:
    """Unpack, install, run."""
    data, arguments = read_payload(argv)
    env = dict(os.environ, PYTHONUNBUFFERED="1", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_ROOT_USER_ACTION="ignore")
    runner = "python" if IS_RANK else choose(data["runner"])
    if runner == "mpirun":
        translate.update({signal.SIGTERM: signal.SIGUSR1, signal.SIGINT: signal.SIGUSR1})
        listen(env)
        return run(mpirun(data, argv, env), env)
    script = write_code(folder, data)
    if data["packages"]:
        install(data["packages"], data["index_url"], folder, env)
    # The working folder too: images keep modules beside the script that they expect to be started.
    env["PYTHONPATH"] = joined(env.get("PYTHONPATH"), os.getcwd().rstrip("/"), os.path.join(folder, "lib"))
    start = [sys.executable, "-u"]
    if runner == "torchrun":
        found = shutil.which("torchrun", path=env.get("PATH"))
        start = [found] if found else [sys.executable, "-u", "-m", "torch.distributed.run"]
    code = run([*start, script, *arguments], env)
    if IS_RANK:
        send_result()
    # To mpirun a rank that was told to stop is no failure: it would kill the others, who may still be saving.
    return 0 if IS_RANK and stopped_by else code


def main(argv: list[str]) -> int:
    """The exit code of process 1."""
    folder = ""
    try:
        folder = tempfile.mkdtemp(prefix="trainer-ops-")
        code = launch(argv, folder)
    except (Failed, OSError) as error:
        print(f"trainer_ops: {error}", file=sys.stderr)
        code = 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    _code = main(sys.argv[1:])
    sys.exit(128 + stopped_by[0] if stopped_by and not IS_RANK else _code)
