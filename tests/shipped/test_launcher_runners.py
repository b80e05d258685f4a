"""What starts the code on a node: python, torchrun or mpirun."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

# Stands for torchrun and mpirun: writes down how it was called.
RECORDS = """#!{python}
import json, sys
json.dump(sys.argv[1:], open("called", "w"))
"""


def called(container: Any, program: str, **fields: Any) -> list[str]:
    container.program(program, RECORDS.format(python=container.python))
    assert container.run("print('not called')", **fields).code == 0
    argv: list[str] = json.loads(container.wait_for("called"))
    return argv


def test_torchrun(container: Any) -> None:
    script, *args = called(container, "torchrun", runner="torchrun", args=["--lr", "1"])
    assert script.endswith("/code/train.py")
    assert args == ["--lr", "1"]


def test_torchrun_is_a_module_where_it_is_no_program(container: Any) -> None:
    container.write(
        {
            "path/torch/__init__.py": "",
            "path/torch/distributed/__init__.py": "",
            "path/torch/distributed/run.py": "import sys; print('torch', sys.argv[2:])",
        }
    )
    container.env["PYTHONPATH"] = str(container.folder / "path")
    assert container.run("", runner="torchrun", args=["a"]).out == "torch ['a']\n"


AUTO: dict[str, tuple[dict[str, str], str]] = {
    "Trainer's torch plugin": ({"PET_NNODES": "2"}, "torchrun"),
    "Trainer's MPI plugin": ({"OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile"}, "mpirun"),
}


@pytest.mark.parametrize(("env", "program"), AUTO.values(), ids=AUTO.keys())
def test_auto_goes_by_the_environment(container: Any, env: dict[str, str], program: str) -> None:
    container.env.update(env)
    assert called(container, program, runner="auto")


def test_auto_is_python_otherwise(container: Any) -> None:
    assert container.run("print('trained')", runner="auto").out == "trained\n"


def test_a_runner_that_is_not_there(container: Any) -> None:
    container.env["PATH"] = str(container.folder)
    run = container.run("", runner="mpirun")
    assert (run.code, run.err.count("\n")) == (1, 1)
    assert run.err.startswith("trainer_ops: mpirun cannot be started: ")


def test_mpirun(container: Any) -> None:
    hostfile = container.write({"hostfile": "localhost slots=1\n"}) / "hostfile"
    container.env.update({"OMPI_MCA_orte_default_hostfile": str(hostfile), "LR": "1", "TRAINER_OPS_ATTEMPT": "2"})
    argv = called(container, "mpirun", runner="mpirun", env={"LR": 1, "UNSET": 2}, args=["a"])
    at = argv.index(str(container.python))
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    assert argv[:at] == [
        *["--hostfile", str(hostfile), *root],
        *["-x", "LR", "-x", "TRAINER_OPS_ATTEMPT", "-x", "TRAINER_OPS_RESULT_PATH", "-x", "TRAINER_OPS_RESULT_TO"],
    ]
    assert argv[at + 1 : at + 3] == ["-u", "-c"]
    assert argv[-2].startswith("1r:")
    assert argv[-1] == "a"


def test_a_rank_runs_the_code_whatever_the_runner(container: Any) -> None:
    argv = called(container, "mpirun", runner="mpirun", args=["a"])
    rank = argv[argv.index(str(container.python)) :]
    assert container.finish(container.popen(rank)).out == "not called\n"


def test_a_rank_that_is_told_to_stop_is_no_failure_to_mpirun(container: Any) -> None:
    container.program("mpirun", RECORDS.format(python=container.python))
    script = "import time\nopen('up', 'w').write('x')\ntime.sleep(600)"
    assert container.run(script, runner="mpirun").code == 0
    argv: list[str] = json.loads(container.wait_for("called"))
    process = container.popen(argv[argv.index(str(container.python)) :])
    container.wait_for("up")
    process.send_signal(signal.SIGUSR1)  # what mpirun passes on instead of SIGTERM
    assert container.finish(process).code == 0


# Stands for mpirun: runs one rank in another pod, whose termination message is lost.
ELSEWHERE = """#!{python}
import os, subprocess, sys
env = dict(os.environ, OMPI_COMM_WORLD_RANK="{rank}", TRAINER_OPS_RESULT_PATH="other-pod")
sys.exit(subprocess.call(sys.argv[sys.argv.index("-u") - 1 :], env=env))
"""


@pytest.mark.parametrize(("rank", "told"), [("0", True), ("1", False)])
def test_rank_0_in_another_pod_sends_its_result_to_the_launcher(container: Any, rank: str, told: bool) -> None:
    container.program("mpirun", ELSEWHERE.format(python=container.python, rank=rank))
    script = "open('other-pod', 'w').write('{\"metrics\": {\"rank\": 0}}')"
    assert container.run(script, runner="mpirun").code == 0
    assert container.wait_for("other-pod")
    assert container.result.exists() == told
    if told:
        assert json.loads(container.result.read_text()) == {"metrics": {"rank": 0}}


def test_a_result_that_cannot_be_sent_fails_nothing(container: Any) -> None:
    argv = called(container, "mpirun", runner="mpirun")
    container.env.update({"OMPI_COMM_WORLD_RANK": "0", "TRAINER_OPS_RESULT_TO": "token/1/127.0.0.1"})
    container.write({"termination-log": "{}"})
    run = container.finish(container.popen(argv[argv.index(str(container.python)) :]))
    assert run.code == 0
    assert run.err.startswith("trainer_ops: the result did not reach the launcher: ")


MPI = Path(sys.executable).parent / "mpirun"
TRAIN = """
import os, signal, sys, time
from mpi4py import MPI
import trainer_ops

world = MPI.COMM_WORLD
trainer_ops.report({"rank": world.rank, "size": world.size})
mode = sys.argv[1]

def save(number, frame):
    while world.rank == 0 and not os.path.exists("saved-1"):
        time.sleep(0.02)
    open("saved-%d" % world.rank, "w").write("x")
    sys.exit(0)

signal.signal(signal.SIGTERM, save)
world.Barrier()
if mode == "fail" and world.rank == 1:
    os._exit(5)  # by sys.exit mpi4py would wait for the others
if world.rank == 0:
    open("up", "w").write("x")
while mode != "end":
    time.sleep(0.02)
"""


@pytest.fixture
def mpi(container: Any) -> Any:
    """Two ranks on this machine, by the Open MPI of the test environment."""
    if not MPI.exists():
        pytest.skip("no Open MPI here")
    container.python = Path(sys.executable)
    hostfile = container.write({"hostfile": "localhost slots=2\n"}) / "hostfile"
    container.env["OMPI_MCA_orte_default_hostfile"] = str(hostfile)
    return container


@pytest.mark.slow
def test_real_ranks(mpi: Any) -> None:
    run = mpi.run(TRAIN, runner="mpirun", args=["end"])
    assert run.code == 0, run.err
    assert json.loads(mpi.result.read_text())["metrics"] == {"rank": 0, "size": 2}


@pytest.mark.slow
def test_the_exit_code_of_a_real_rank(mpi: Any) -> None:
    assert mpi.run(TRAIN, runner="mpirun", args=["fail"]).code == 5


@pytest.mark.slow
def test_real_ranks_may_all_save(mpi: Any) -> None:
    # Rank 0 ends only after rank 1 has: mpirun must not take rank 1's end for a failure.
    process = mpi.start(TRAIN, runner="mpirun", args=["hang"])
    mpi.wait_for("up")
    process.send_signal(signal.SIGTERM)
    run = mpi.finish(process)
    assert run.code == 143, run.err
    assert mpi.wait_for("saved-0") == mpi.wait_for("saved-1") == "x"
