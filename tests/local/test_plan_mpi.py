"""MPI's side of a plan, without MPI."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.local import mpi_agent
from trainer_ops.local.catalogue import builtin
from trainer_ops.local.plan import JobPlan, Place, plan
from trainer_ops.local.plan_mpi import ENV_NODES, per_host_option
from trainer_ops.model.runtime import TrainingRuntime

Raw = dict[str, Any]


def place(python: str = "/venv/bin/python3") -> Place:
    return Place(job_dir="/j", env={"PATH": "/bin"}, python=python, port=1, dataset_dir="/j/d", model_dir="/j/m")


def planned(name: str, *command: str, python: str = "/venv/bin/python3", **trainer: Any) -> JobPlan:
    raw = builtin()["ClusterTrainingRuntime", name]
    job = {"metadata": {"name": "t"}, "spec": {"trainer": {"command": list(command), **trainer}}}
    return plan(job, TrainingRuntime.from_raw(raw), place=place(python))


def test_the_nodes_run_a_stand_in_for_sshd_and_the_launcher_waits_for_them() -> None:
    made = planned("deepspeed-distributed", "mpirun", "python", "x.py", numNodes=3)
    node, launcher = made.steps
    assert (node.name, launcher.name, launcher.depends_on) == ("node", "launcher", (("node", "Ready"),))
    for i, pod in enumerate(node.pods):
        assert pod.main.role == "sshd"
        assert pod.main.argv[0] == "/venv/bin/python3"
        assert pod.main.argv[1].endswith("/trainer_ops/local/mpi_node.py")
        assert pod.main.argv[2] == pod.main.ready_path == f"/j/mpi/node-{i}.sock"
        assert {"HOSTNAME", "TRAINER_OPS_RESULT_PATH"} <= set(pod.main.argv[3:])
    # Only what differs is the node's own: the index of node 0 is that of the launcher.
    assert "JOB_COMPLETION_INDEX" not in node.pods[0].main.argv
    assert "JOB_COMPLETION_INDEX" in node.pods[1].main.argv
    assert launcher.pods[0].main.argv == ("mpirun", "python", "x.py")
    assert launcher.pods[0].main.ready_path is None
    assert made.success_steps == ("launcher",)
    assert made.folders == ("/j/results", "/j/mpi")


def test_the_hostfile_of_a_cluster_is_the_one_here() -> None:
    env = [{"name": "PRTE_MCA_prte_default_hostfile", "value": "/etc/mpi/hostfile"}]
    made = planned("mpi-distributed", "mpirun", "--hostfile", "/etc/mpi/hostfile", "x", numNodes=2, env=env)
    launcher = made.steps[-1].pods[0].main
    assert launcher.argv == ("mpirun", "--hostfile", "/j/mpi/hostfile", "x")
    assert launcher.env["PRTE_MCA_prte_default_hostfile"] == "/j/mpi/hostfile"
    assert made.notes == ("/etc/mpi/hostfile is /j/mpi/hostfile on this machine",)
    assert [path for path, _ in made.files] == ["/j/mpi/hostfile"]


@pytest.mark.parametrize("python", ["/venv/bin/python3", "/my venv/bin/python3"])
def test_the_agent_is_one_command_that_can_be_split_at_spaces(python: str) -> None:
    env = planned("mpi-distributed", "mpirun", "x", python=python).steps[-1].pods[0].main.env
    words = env["PRTE_MCA_odls_base_exec_agent"].split(" ")
    assert words[0] == ("python3" if " " in python else python)
    assert words[1].endswith("/mpi_agent.py")
    assert env["OMPI_MCA_orte_fork_agent"] == env["PRTE_MCA_odls_base_exec_agent"]


def test_the_engines_settings_can_be_overridden() -> None:
    env = [{"name": "PRTE_MCA_hwloc_default_binding_policy", "value": "core"}]
    made = planned("mpi-distributed", "mpirun", "x", env=env)
    assert made.steps[-1].pods[0].main.env["PRTE_MCA_hwloc_default_binding_policy"] == "core"


def test_more_than_one_launcher_is_refused() -> None:
    raw = copy.deepcopy(builtin()["ClusterTrainingRuntime", "deepspeed-distributed"])
    raw["spec"]["mlPolicy"]["numNodes"] = 2
    job = {"metadata": {"name": "t"}, "spec": {"trainer": {"command": ["mpirun"]}}}
    with pytest.raises(InvalidRequest, match="2 would make that many launchers"):
        plan(job, TrainingRuntime.from_raw(raw), place=place())


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("mpirun python x.py", None),
        ("mpirun -np 2 python x.py -N 4", None),
        ("mpirun -x A -mca btl tcp,self --hostfile h -np 2 python x.py --npernode 4", None),
        ("mpirun -N 2 python x.py", "-N 2"),
        ("/opt/bin/mpirun --allow-run-as-root -mca a b -npernode 1 python x.py", "-npernode 1"),
        ("mpiexec -pernode python x.py", "-pernode"),
        ("mpirun --map-by ppr:2:node python x.py", "--map-by ppr:2:node"),
        ("mpirun --map-by node python x.py", None),
        ("python -N 2 x.py", None),
        ("mpirun", None),
        ("mpirun -np", None),
    ],
)
def test_options_that_count_by_host(command: str, expected: str | None) -> None:
    assert per_host_option(command.split()) == expected


def test_options_that_count_by_host_are_refused() -> None:
    with pytest.raises(InvalidRequest, match='"-N 1" counts ranks by host') as caught:
        planned("mpi-distributed", "mpirun", "-N", "1", "python", "x.py", numNodes=2)
    assert caught.value.field == "spec.trainer.command"


# -------------------------------------------------------------------------------------- where the agent puts a rank


def test_plan_and_agent_speak_of_the_same_variable() -> None:
    assert mpi_agent._NODES == ENV_NODES


TABLE = {"dir": "/j/mpi", "slots": 2, "nodes": [["t-launcher-0-0", ""], ["t-node-0-0", "node-0.sock"]]}


@pytest.mark.parametrize(
    ("rank", "size", "host", "local", "beside"),
    [
        (0, 4, "t-launcher-0-0", "0", "2"),
        (1, 4, "t-launcher-0-0", "1", "2"),
        (2, 4, "t-node-0-0", "0", "2"),
        (3, 4, "t-node-0-0", "1", "2"),
        pytest.param(2, 3, "t-node-0-0", "0", "1", id="fewer ranks than slots"),
        pytest.param(4, 5, "t-launcher-0-0", "2", "3", id="oversubscribed: round again"),
    ],
)
def test_seats(rank: int, size: int, host: str, local: str, beside: str) -> None:
    env = {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": "9",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "9",
        "PMIX_HOSTNAME": "vm",
    }
    assert mpi_agent.seat(TABLE, env)[0] == host
    assert (env["OMPI_COMM_WORLD_LOCAL_RANK"], env["OMPI_COMM_WORLD_LOCAL_SIZE"]) == (local, beside)
    assert "OMPI_COMM_WORLD_NODE_RANK" not in env
    assert env["PMIX_HOSTNAME"] == "vm"


def test_a_program_that_is_no_mpi_rank_has_a_seat_too() -> None:
    assert mpi_agent.seat(TABLE, {"PMIX_RANK": "3"}) == ("t-node-0-0", "node-0.sock")
