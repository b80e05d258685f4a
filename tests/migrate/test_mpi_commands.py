"""What an MPIJob's launcher starts: mpirun and its numbers and hosts, horovodrun, scripts, and people."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.checked import checked, codes, env_of, trainer_of
from tests.migrate.kinds import mpi

HOSTFILE = ["--hostfile", "/etc/mpi/hostfile"]


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        pytest.param(["mpirun", "t"], ["mpirun", *HOSTFILE, "t"], id="mpirun"),
        pytest.param(["mpiexec", "-n", "2", "t"], ["mpiexec", *HOSTFILE, "-n", "2", "t"], id="mpiexec"),
        pytest.param(["mpirun", "-H", "a:1,b:1", "t"], ["mpirun", "-H", "a:1,b:1", "t"], id="hosts-are-named"),
        pytest.param(["mpirun", *HOSTFILE, "t"], ["mpirun", *HOSTFILE, "t"], id="the-same-hostfile"),
        pytest.param(
            ["mpirun", "--mca", "orte_default_hostfile", "/x", "t"],
            ["mpirun", "--mca", "orte_default_hostfile", "/x", "t"],
            id="by-mca",
        ),
        pytest.param(
            ["mpirun", "-mca", "btl", "^openib", "-x", "A=b", "-bind-to", "none", "t", "-H", "no-option-of-mpirun"],
            [
                *("mpirun", *HOSTFILE, "-mca", "btl", "^openib", "-x", "A=b", "-bind-to", "none", "t"),
                *("-H", "no-option-of-mpirun"),
            ],
            id="options-end-with-the-program",
        ),
        pytest.param(
            ["bash", "-c", "set -e\ncd /w && mpirun -np 2 t # go\nexit"],
            [
                "bash",
                "-c",
                "set -e\ncd /w && mpirun --hostfile /etc/mpi/hostfile -np 2 t # go\nexit",
            ],
            id="in-a-shell",
        ),
        pytest.param(
            ["timeout", "60", "mpirun", "t"], ["timeout", "60", "mpirun", *HOSTFILE, "t"], id="behind-a-wrapper"
        ),
    ],
)
def test_the_hostfile_is_named_where_nothing_names_hosts(command: list[str], wanted: list[str]) -> None:
    done = checked(mpi(command))
    assert trainer_of(done)["command"] == wanted
    assert ("MPI-OMPI5" in codes(done)) is (command != wanted)


def test_command_and_args_stay_apart() -> None:
    found = trainer_of(checked(mpi(["mpirun"], launcher={"args": ["-np", "2", "t"]})))
    assert (found["command"], found["args"]) == (["mpirun", *HOSTFILE], ["-np", "2", "t"])


@pytest.mark.parametrize(
    ("options", "spec", "severity"),
    [
        pytest.param(["-np", "4"], {"slotsPerWorker": 2}, None, id="as-many-as-slots"),
        pytest.param(["-np", "2"], {"slotsPerWorker": 2}, "info", id="fewer"),
        pytest.param(["-np", "3"], {}, "warning", id="more"),
        pytest.param(["-np", "3"], {"runLauncherAsWorker": True}, None, id="with-the-launchers-slot"),
        pytest.param(["--oversubscribe", "-np", "3"], {}, None, id="more-as-allowed"),
        pytest.param(["-np", "$(N)"], {}, "info", id="worked-out-later"),
        pytest.param([], {"slotsPerWorker": 2}, None, id="not-said"),
        pytest.param(["-np", "1", "a", ":", "-np", "1", "b"], {}, None, id="several-programs"),
    ],
)
def test_ranks_and_slots(options: list[str], spec: dict[str, Any], severity: str | None) -> None:
    done = checked(mpi(["mpirun", *options, "t"], **spec))
    assert [found.severity for found in done.findings if found.code == "MPI-NP"] == ([severity] if severity else [])
    assert trainer_of(done)["command"][3:] == [*options, "t"]


@pytest.mark.parametrize(("number", "left_out"), [("2", True), ("1", False)])
def test_a_number_that_says_nothing_new_is_left_out_when_asked(number: str, left_out: bool) -> None:
    found = trainer_of(checked(mpi(["mpirun", "-np", number, "t"]), drop_np=True))["command"]
    assert found == ["mpirun", *HOSTFILE, *([] if left_out else ["-np", number]), "t"]


@pytest.mark.parametrize(
    ("host", "wanted"),
    [
        ("j-worker-0:2,j-worker-1:2", "j-node-0-0.j:2,j-node-0-1.j:2"),
        ("j-worker-0.j", "j-node-0-0.j"),
        ("j-worker-1.j.default.svc", "j-node-0-1.j.default.svc"),
        ("j-launcher", "j-launcher-0-0.j"),
        ("j-launcher.j.default.svc:1", "j-launcher-0-0.j.default.svc:1"),
        ("other-j-worker-0,j-launcher-x", "other-j-worker-0,j-launcher-x"),
    ],
)
def test_hosts_by_name(host: str, wanted: str) -> None:
    assert trainer_of(checked(mpi(["mpirun", "-H", host, "t"])))["command"] == ["mpirun", "-H", wanted, "t"]


def test_another_hostfile_is_not_seen() -> None:
    assert "HOST-LITERAL" in codes(checked(mpi(["mpirun", "--hostfile", "/job/hosts", "t"])), "warning")


def test_what_the_launcher_starts_is_not_seen() -> None:
    assert "UNSEEN-SCRIPT" in codes(checked(mpi(["/run.sh"])), "info")
    assert "UNSEEN-SCRIPT" not in codes(checked(mpi(["mpirun", "/run.sh"])))


@pytest.mark.parametrize(
    ("command", "code"),
    [
        pytest.param(["horovodrun", "-np", "2", "python", "t.py"], "MPI-HOROVOD-HOSTS", id="no-hosts"),
        pytest.param(["horovodrun", "-np", "2", "-H", "j-worker-0:1", "t"], None, id="hosts"),
        pytest.param(["horovodrun", "-np", "2", "--hostfile", "/etc/mpi/hostfile", "t"], None, id="hostfile"),
        pytest.param(
            ["horovodrun", "-np", "2", "--host-discovery-script", "/etc/mpi/discover_hosts.sh", "t"],
            "MPI-HOROVOD-ELASTIC",
            id="elastic",
        ),
        pytest.param(["sh", "-c", "cat /etc/mpi/discover_hosts.sh; run"], "MPI-HOROVOD-ELASTIC", id="the-script"),
    ],
)
def test_horovod(command: list[str], code: str | None) -> None:
    assert codes(checked(mpi(command)), "refused") == ([code] if code else [])


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["sleep", "infinity"], id="sleep"),
        pytest.param(["bash", "-c", "sleep infinity"], id="shell"),
        pytest.param(["sh", "-c", "trap : TERM; while true; do sleep 10; done"], id="loop"),
        pytest.param(["tail", "-f", "/dev/null"], id="tail"),
    ],
)
def test_a_launcher_that_waits_for_people(command: list[str]) -> None:
    done = checked(mpi(command))
    assert trainer_of(done)["command"] == command
    (found,) = [one for one in done.findings if one.code == "MPI-INTERACTIVE"]
    assert "trainer-ops exec j -- mpirun --hostfile /etc/mpi/hostfile" in found.message
    there = checked(mpi(command, metadata={"name": "j", "namespace": "ml"}))
    (found,) = [one for one in there.findings if one.code == "MPI-INTERACTIVE"]
    assert "trainer-ops exec j --target kubernetes:///ml -- mpirun" in found.message
    assert "kubectl exec -n ml -it -c node $(kubectl get pod -n ml -o name" in found.message
    assert "jobset.sigs.k8s.io/jobset-name=j,jobset.sigs.k8s.io/replicatedjob-name=launcher" in found.message
    assert "activeDeadlineSeconds" in found.remedy
    bounded = checked(mpi(command, runPolicy={"activeDeadlineSeconds": 60}))
    assert [one.remedy for one in bounded.findings if one.code == "MPI-INTERACTIVE"] == [""]


def test_a_sleep_before_the_start_is_no_waiting() -> None:
    assert "MPI-INTERACTIVE" not in codes(checked(mpi(["sh", "-c", "sleep 10; mpirun t"])))


def test_the_shim_can_be_left_out() -> None:
    assert env_of(checked(mpi(), env_shim=False)) == {}


def test_every_mpirun_of_a_script_is_given_it() -> None:
    found = trainer_of(checked(mpi(["sh", "-c", "mpirun a && mpirun 'b c'"])))["command"][2]
    assert found == "mpirun --hostfile /etc/mpi/hostfile a && mpirun --hostfile /etc/mpi/hostfile 'b c'"
