"""MPIJobs of training-operator (kubeflow.org/v1), which reached their workers by kubectl exec."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.checked import checked, codes, env_of, fates, trainer_of, unwrapped
from tests.migrate.kinds import containers, mpi, parts

GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
SSHD = ["/usr/sbin/sshd", "-De", "-o", "AuthorizedKeysFile=/mnt/ssh/authorized_keys"]


def v1(command: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return mpi(command, **{"version": "v1", "user": None, **more})


def test_refused_until_the_image_is_known_to_run_sshd() -> None:
    assert codes(checked(v1()), "refused") == ["MPI-TRANSPORT"]
    assert checked(v1(), image_has_sshd=True).ok


@pytest.mark.parametrize(
    "worker",
    [
        pytest.param({}, id="the-operators-sleep"),
        pytest.param({"args": ["run"]}, id="which-overrules-args"),
        pytest.param({"command": ["sleep"], "args": ["infinity"]}, id="a-sleep-of-its-own"),
        pytest.param({"command": ["bash", "-c", "while true; do sleep 30; done"]}, id="a-loop"),
        pytest.param({"command": ["tail", "-f", "/dev/null"]}, id="tail"),
    ],
)
def test_workers_that_slept_run_sshd(worker: dict[str, Any]) -> None:
    done = checked(v1(worker=worker), image_has_sshd=True)
    (node,) = containers(done, "node")
    assert [*node["command"], *node["args"]] == SSHD
    assert "MPI-SSHD-CMD" in codes(done, "info")


def test_workers_with_a_script_have_to_start_sshd() -> None:
    done = checked(v1(worker={"command": ["/start.sh"]}), image_has_sshd=True)
    (node,) = containers(done, "node")
    assert unwrapped(node["command"]) == ("/start.sh",)
    assert "MPI-SSHD-CMD" in codes(done, "warning")


def test_the_variables_of_kubectl_exec_go() -> None:
    env = [
        {"name": "OMPI_MCA_plm_rsh_agent", "value": "/etc/mpi/kubexec.sh"},
        {"name": "OMPI_MCA_orte_keep_fqdn_hostnames", "value": "true"},
        {"name": "OMPI_MCA_btl", "value": "tcp"},
    ]
    done = checked(v1(launcher={"env": env}), image_has_sshd=True)
    assert [name for name in env_of(done) if name.startswith("OMPI")] == ["OMPI_MCA_btl"]
    assert fates(done)["spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env[0].value"] == "dropped"
    env[1]["value"] = "false"
    assert codes(checked(v1(launcher={"env": env}), image_has_sshd=True), "refused") == ["RESERVED-ENV"]


def test_the_agent_in_the_command_goes() -> None:
    command = ["mpirun", "-mca", "plm_rsh_agent", "/etc/mpi/kubexec.sh", "-np", "2", "t"]
    held = trainer_of(checked(v1(command), image_has_sshd=True))
    assert unwrapped(held["command"]) == ("mpirun", "--hostfile", "/etc/mpi/hostfile", "-np", "2", "t")


def test_a_launcher_with_a_gpu_is_a_node() -> None:
    done = checked(v1(launcher=GPU, worker=GPU), image_has_sshd=True)
    assert done.runtime is not None
    assert done.runtime["spec"]["mlPolicy"]["mpi"]["runLauncherAsNode"] is True
    assert trainer_of(done)["numNodes"] == 3
    assert "MPI-LAUNCHER-RES" in codes(done)
    assert "env" not in trainer_of(done)


def test_the_main_container_of_workers_is_node() -> None:
    side = {"name": "train", "image": "example.com/side:1"}
    raw = v1(mainContainer="train", pod={"containers": [side]})
    done = checked(raw, image_has_sshd=True)
    assert [one["command"] for one in containers(done, "node") if one["name"] == "main"] == [["sleep"]]
    found = {one["name"]: one["image"] for one in containers(done, "node")}
    assert found == {"node": "example.com/side:1", "main": "example.com/train:1"}
    found = {one["name"]: one["image"] for one in containers(done, "launcher")}
    assert found == {"node": "example.com/train:1", "train": "example.com/side:1"}
    assert codes(checked(v1(mainContainer="none"), image_has_sshd=True), "refused") == ["NOT-A-JOB"]


def test_another_user_than_root_has_no_sshd_to_rely_on() -> None:
    done = checked(v1(user=1000), image_has_sshd=True)
    assert codes(done, "refused") == ["MPI-TRANSPORT"]


def test_the_launcher_was_a_pod_that_is_not_tried_again() -> None:
    done = checked(v1(cleanPodPolicy="Running"), image_has_sshd=True)
    held = parts(done)["launcher"]["template"]["spec"]
    assert (held["backoffLimit"], held["template"]["spec"]["restartPolicy"]) == (0, "Never")


def test_no_transport_without_workers() -> None:
    assert checked(v1(workers=None)).ok
