"""Starts one MPI rank where it belongs: mpirun's exec agent. A program of its own; the standard library only.

mpirun runs ``python mpi_agent.py PROGRAM ARGS…`` in place of each rank. A rank of the launcher's own node becomes
PROGRAM at once. A rank of another node is handed over, with its environment, folder and open streams, to the
``mpi_node`` of that node; the agent stays as its shadow: signals go to the rank, the rank's end is the agent's end.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NoReturn

__all__ = ["main", "seat"]

# The same text as plan_mpi.ENV_NODES.
_NODES = "TRAINER_OPS_MPI"
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)
_NOT_FOUND, _NOT_RUNNABLE, _NO_NODE = 127, 126, 255  # as a shell and as ssh would end


def main(argv: Sequence[str]) -> int:
    """Become the rank, or run it on its node; returns its exit code."""
    env = dict(os.environ)
    table = json.loads(env[_NODES])
    hostname, path = seat(table, env)
    if not path:
        _become(argv, env)
    return _relay(table["dir"], path, hostname, argv, env)


def seat(table: Mapping[str, Any], env: MutableMapping[str, str]) -> tuple[str, str]:
    """The (hostname, socket) of this rank's node; tells the rank in ``env`` where it is.

    Ranks fill the slots of one node after the other. MPI itself sees one machine, so what it says about a rank's place
    within its node is put right here for those who read it from the environment. (PMIX_HOSTNAME must stay as it is:
    MPI_Init fails where two ranks of one server have different ones.)
    """
    rank = int(env.get("OMPI_COMM_WORLD_RANK") or env.get("PMIX_RANK") or 0)
    size = int(env.get("OMPI_COMM_WORLD_SIZE") or 1)
    slots, nodes = int(table["slots"]), table["nodes"]
    index = rank // slots % len(nodes)
    beside = [r for r in range(max(size, rank + 1)) if r // slots % len(nodes) == index]
    hostname, path = nodes[index]
    here = {
        "OMPI_COMM_WORLD_LOCAL_RANK": beside.index(rank),
        "OMPI_COMM_WORLD_NODE_RANK": beside.index(rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": len(beside),
    }
    env.update({name: str(value) for name, value in here.items() if name in env})
    return hostname, path


def _become(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    try:
        os.execvpe(argv[0], list(argv), env)
    except OSError as exc:
        print(f"{argv[0]}: {exc.strerror}", file=sys.stderr)
        sys.exit(_NOT_FOUND if isinstance(exc, FileNotFoundError) else _NOT_RUNNABLE)


def _relay(folder: str, path: str, hostname: str, argv: Sequence[str], env: Mapping[str, str]) -> int:
    where = os.getcwd()
    with socket.socket(socket.AF_UNIX) as node:
        try:
            os.chdir(folder)  # a socket's path may have about 100 characters; its name always fits
            node.connect(path)
        except OSError as exc:
            print(f"{hostname} is not there: {exc.strerror}", file=sys.stderr)
            return _NO_NODE
        for number in _FORWARDED:
            signal.signal(number, lambda n, _frame: _tell(node, {"signal": n}))
        socket.send_fds(node, [b"\0"], [0, 1, 2])
        _tell(node, {"argv": list(argv), "env": dict(env), "cwd": where})
        with node.makefile("r", encoding="utf-8") as replies:
            answer = replies.readline()
    if not answer:
        # The node is gone, and whatever ran there with it.
        _die(signal.SIGKILL)
    return _ended(json.loads(answer), argv)


def _tell(node: socket.socket, message: Mapping[str, Any]) -> None:
    # A node that is gone shows at the next read.
    with contextlib.suppress(OSError):
        node.sendall(json.dumps(message).encode() + b"\n")


def _ended(answer: Mapping[str, Any], argv: Sequence[str]) -> int:
    if "failed" in answer:
        print(f"{argv[0]}: {answer['failed']}", file=sys.stderr)
        return _NOT_FOUND
    code = int(answer["ended"])
    if code < 0:
        _die(-code)
    return code


def _die(number: int) -> NoReturn:
    """End by this signal, as the rank did, and without a core file of our own."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.pause()
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
