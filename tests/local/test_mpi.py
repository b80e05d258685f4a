"""MPI for real: mpirun, our agent and our nodes as processes, started from a plan as the engine would."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.local.catalogue import builtin
from trainer_ops.local.plan import Place, plan
from trainer_ops.model.runtime import TrainingRuntime

BIN = os.path.dirname(sys.executable)
PATIENCE = 60.0

pytestmark = pytest.mark.skipif(shutil.which("mpirun", path=BIN) is None, reason="no mpirun beside this interpreter")

HELLO = """\
import json, os
from mpi4py import MPI
world = MPI.COMM_WORLD
names = ("HOSTNAME", "JOB_COMPLETION_INDEX", "FOO", "OMPI_COMM_WORLD_LOCAL_RANK")
seen = {name: os.environ.get(name) for name in names}
world.Barrier()
print("SAW " + json.dumps([world.rank, world.size, world.allreduce(world.rank + 1), seen]), flush=True)
"""


class Job:
    """The processes of one plan."""

    def __init__(self, folder: Path, runtime: str, nodes: int, procs: int | None, command: list[str]) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        env = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "TMPDIR": "/tmp"}
        place = Place(str(folder), env, sys.executable, 1, f"{folder}/d", f"{folder}/m")
        trainer = {
            "numNodes": nodes,
            "numProcPerNode": procs,
            "command": command,
            "env": [{"name": "FOO", "value": "bar"}],
        }
        job = {"metadata": {"name": "t"}, "spec": {"trainer": trainer}}
        made = plan(job, TrainingRuntime.from_raw(builtin()["ClusterTrainingRuntime", runtime]), place=place)
        for path in made.folders:
            os.makedirs(path, exist_ok=True)
        for path, text in made.files:
            Path(path).write_text(text)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for pod in made.pods:
            main = pod.main
            with open(folder / f"{pod.hostname}.log", "wb") as log:
                self.processes[pod.hostname] = subprocess.Popen(
                    main.argv,
                    env=main.env,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            if main.ready_path is not None:
                until(partial(os.path.exists, main.ready_path))

    def log(self, hostname: str = "t-launcher-0-0") -> str:
        return (self.folder / f"{hostname}.log").read_text(errors="replace")

    def wait(self, hostname: str = "t-launcher-0-0") -> int:
        return self.processes[hostname].wait(PATIENCE)

    def saw(self) -> list[Any]:
        """What the ranks of HELLO saw, by rank."""
        return sorted(json.loads(line[4:]) for line in self.log().splitlines() if line.startswith("SAW "))

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether it runs: a zombie that nobody has reaped yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    jobs: list[Job] = []

    def one(
        command: list[str],
        *,
        runtime: str = "mpi-distributed",
        nodes: int = 2,
        procs: int | None = None,
        below: str = "j",
    ) -> Job:
        jobs.append(Job(tmp_path / below, runtime, nodes, procs, command))
        return jobs[-1]

    yield one
    for job in jobs:
        job.close()


@pytest.fixture
def hello(tmp_path: Path) -> str:
    pytest.importorskip("mpi4py")
    (tmp_path / "hello.py").write_text(HELLO)
    return str(tmp_path / "hello.py")


# ----------------------------------------------------------------------------------------------------------- placement


@pytest.mark.parametrize(
    ("runtime", "nodes", "procs", "hosts"),
    [
        ("deepspeed-distributed", 2, None, ["launcher-0-0", "node-0-0"]),
        ("mpi-distributed", 2, None, ["node-0-0", "node-0-1"]),
        pytest.param("deepspeed-distributed", 1, None, ["launcher-0-0", "node-0-0"], marks=pytest.mark.slow),
        pytest.param("mlx-distributed", 3, None, ["launcher-0-0", "node-0-0", "node-0-1"], marks=pytest.mark.slow),
        pytest.param(
            "deepspeed-distributed",
            2,
            2,
            ["launcher-0-0", "launcher-0-0", "node-0-0", "node-0-0"],
            marks=pytest.mark.slow,
        ),
        pytest.param("mpi-distributed", 1, None, ["node-0-0"], marks=pytest.mark.slow),
    ],
)
def test_ranks_are_where_a_cluster_has_them(
    start: Start, hello: str, runtime: str, nodes: int, procs: int | None, hosts: list[str]
) -> None:
    job = start(["mpirun", "python", hello], runtime=runtime, nodes=nodes, procs=procs)
    assert job.wait() == 0, job.log()
    size = len(hosts)
    assert job.saw() == [
        [
            rank,
            size,
            size * (size + 1) // 2,
            {
                "HOSTNAME": f"t-{host}",
                "JOB_COMPLETION_INDEX": host[-1],
                "FOO": "bar",
                "OMPI_COMM_WORLD_LOCAL_RANK": str(hosts[:rank].count(host)),
            },
        ]
        for rank, host in enumerate(hosts)
    ]
    for i in range(len({host for host in hosts if host.startswith("node")})):
        ranks = [rank for rank, host in enumerate(hosts) if host == f"node-0-{i}"]
        assert all(f"rank {rank} ended with exit code 0" in job.log(f"t-node-0-{i}") for rank in ranks)


@pytest.mark.slow
def test_fewer_ranks_leave_the_last_node_idle(start: Start, hello: str) -> None:
    command = ["mpirun", "-np", "2", "--hostfile", "/etc/mpi/hostfile", "-x", "FOO=baz", "python", hello]
    job = start(command, runtime="deepspeed-distributed", nodes=3)
    assert job.wait() == 0, job.log()
    assert [(seen["HOSTNAME"], seen["FOO"]) for *_, seen in job.saw()] == [
        ("t-launcher-0-0", "baz"),
        ("t-node-0-0", "baz"),
    ]
    assert job.log("t-node-0-1") == ""


def test_more_ranks_than_slots_are_refused_as_on_a_cluster(start: Start) -> None:
    job = start(["mpirun", "-np", "3", "python", "-c", "pass"])
    assert job.wait() != 0
    assert "not enough slots available" in job.log()


def test_a_deep_folder_and_a_users_module_named_like_one_of_pythons(start: Start) -> None:
    job = start(["mpirun", "python", "-c", "print('rank', end='-ran\\n')"], below="/".join(["deep" * 8] * 5))
    for name in ("json", "socket", "selectors"):
        (job.folder / f"{name}.py").write_text("raise SystemExit('shadowed')")
    assert job.wait() == 0, job.log()
    assert job.log().count("rank-ran") == 2


# ---------------------------------------------------------------------------------------------------------------- ends

SECOND_RANK = "import os, time; os.environ['OMPI_COMM_WORLD_RANK'] == '1' and {}; time.sleep(600)"


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        ("os._exit(5)", 5, "rank 1 ended with exit code 5"),
        ("os.kill(os.getpid(), 11)", 128 + 11, "rank 1 ended with signal 11"),
    ],
)
def test_mpirun_ends_as_the_first_failing_rank_did(start: Start, end: str, code: int, said: str) -> None:
    job = start(["mpirun", "python", "-c", SECOND_RANK.format(end)])
    assert job.wait() == code, job.log()
    assert said in job.log("t-node-0-1")
    until(lambda: "rank 0 ended" in job.log("t-node-0-0"))


WRITE_PID = (
    "import os, time; open('pid-' + os.environ['OMPI_COMM_WORLD_RANK'], 'w').write(str(os.getpid())); time.sleep(600)"
)


def pids(job: Job) -> list[int]:
    files = [job.folder / f"pid-{rank}" for rank in range(2)]
    until(lambda: all(file.exists() and file.read_text() for file in files))
    return [int(file.read_text()) for file in files]


def test_a_killed_node_takes_its_ranks_along_and_fails_the_training(start: Start) -> None:
    job = start(["mpirun", "python", "-c", WRITE_PID])
    here, there = pids(job)
    assert os.getpgid(there) == job.processes["t-node-0-1"].pid
    os.killpg(job.processes["t-node-0-1"].pid, signal.SIGKILL)
    assert job.wait() != 0
    until(lambda: not alive(here) and not alive(there))
    assert job.processes["t-node-0-0"].poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ranks_end_with_their_mpirun(start: Start, number: int) -> None:
    job = start(["mpirun", "python", "-c", WRITE_PID])
    both = pids(job)
    job.processes["t-launcher-0-0"].send_signal(number)
    if number == signal.SIGKILL:
        # What the engine does when a container's first process is gone: end what is left of its session.
        for agent in session(job.processes["t-launcher-0-0"].pid):
            os.kill(agent, signal.SIGKILL)
    assert job.wait() != 0
    until(lambda: not any(alive(pid) for pid in both))


def session(leader: int) -> list[int]:
    import psutil

    return [p.pid for p in psutil.process_iter() if p.pid != leader and _session(p.pid) == leader]


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def test_a_stopped_node_ends_its_ranks_first_and_leaves_no_socket(start: Start) -> None:
    job = start(["mpirun", "python", "-c", WRITE_PID])
    _, there = pids(job)
    job.processes["t-node-0-1"].terminate()
    assert job.wait("t-node-0-1") == 128 + signal.SIGTERM
    assert not alive(there)
    assert "rank 1 ended with signal 15" in job.log("t-node-0-1")
    assert not (job.folder / "mpi/node-1.sock").exists()
    assert job.wait() != 0


# ----------------------------------------------------------------------------------------- the agent without an mpirun


def agent(job: Job, *argv: str, rank: int = 1, **more: str) -> subprocess.CompletedProcess[str]:
    """One rank handed over by hand."""
    nodes = [["t-node-0-0", "node-0.sock"], ["t-node-0-1", "node-1.sock"], ["t-gone", "gone.sock"]]
    env = {**os.environ, "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "3", **more}
    env["TRAINER_OPS_MPI"] = json.dumps({"dir": f"{job.folder}/mpi", "slots": 1, "nodes": nodes})
    import trainer_ops.local.mpi_agent as program

    command = [sys.executable, program.__file__, *argv]
    return subprocess.run(
        command, env=env, cwd=job.folder, capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def test_streams_folder_environment_and_exit_code_are_the_ranks(start: Start) -> None:
    job = start(["sleep", "600"])
    code = "import os, sys; print(os.getcwd(), os.environ['HOSTNAME'], os.environ['MINE'])\n"
    code += "print('e', file=sys.stderr); sys.exit(7)"
    done = agent(job, "python", "-c", code, MINE="x", HOSTNAME="of-the-launcher", PATH=f"{BIN}:/usr/bin:/bin")
    assert (done.returncode, done.stdout, done.stderr) == (7, f"{job.folder.resolve()} t-node-0-1 x\n", "e\n")


def test_what_cannot_be_started_says_so(start: Start) -> None:
    job = start(["sleep", "600"])
    absent = agent(job, "/no/such/program")
    assert (absent.returncode, absent.stderr) == (127, "/no/such/program: No such file or directory\n")
    gone = agent(job, "true", rank=2)
    assert (gone.returncode, gone.stderr) == (255, "t-gone is not there: No such file or directory\n")
