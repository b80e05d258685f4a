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


@pytest.mark.parametrize("workers", [2, None])
def test_sidecars_kept_an_mpi_job_from_its_end_as_they_do_now(workers: int | None) -> None:
    side = {"name": "logs", "image": "example.com/side:1"}
    done = checked(v1(workers=workers, pod={"containers": [side]}), image_has_sshd=True)
    assert done.ok
    assert "SIDECAR" not in codes(done)


@pytest.mark.parametrize("role", ["launcher", "worker"])
def test_intel_mpi_shows_by_its_variables(role: str) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "I_MPI_DEBUG", "value": "5"}]
    held: dict[str, Any] = {role: {"env": env}}
    done = checked(v1(**held), image_has_sshd=True)
    (found,) = (one for one in done.findings if one.severity == "refused")
    assert (found.code, found.v1_path.rpartition(".")[2]) == ("MPI-IMPL", "env[1]")


def test_another_user_than_root_has_no_sshd_to_rely_on() -> None:
    done = checked(v1(user=1000), image_has_sshd=True)
    assert codes(done, "refused") == ["MPI-TRANSPORT"]


def test_the_launcher_was_a_pod_that_is_not_tried_again() -> None:
    done = checked(v1(cleanPodPolicy="Running"), image_has_sshd=True)
    held = parts(done)["launcher"]["template"]["spec"]
    assert (held["backoffLimit"], held["template"]["spec"]["restartPolicy"]) == (0, "Never")


@pytest.mark.parametrize(
    ("launcher", "worker", "limit", "expected"),
    [
        pytest.param("Never", "OnFailure", 2, {"launcher": 0, "node": 2}, id="of-the-workers"),
        pytest.param("OnFailure", "Never", 2, {"launcher": 2, "node": 0}, id="of-the-launcher"),
        pytest.param("OnFailure", "OnFailure", 2, {"launcher": 2, "node": 2}, id="of-both"),
        pytest.param("Never", "Never", 2, {"launcher": 0, "node": 0}, id="of-nobody"),
        pytest.param("ExitCode", "ExitCode", 2, {"launcher": 0, "node": 0}, id="of-nobody-that-restarts"),
        pytest.param("ExitCode", "OnFailure", 2, {"launcher": 0, "node": 2}, id="of-those-that-do"),
    ],
)
def test_the_limit_is_of_all_pods_that_restart(
    launcher: str, worker: str, limit: int, expected: dict[str, int]
) -> None:
    """Mpi-operator gives it to the launcher's Job; training-operator counted all containers' restarts."""
    raw = v1(runPolicy={"backoffLimit": limit})
    for role, policy in (("Launcher", launcher), ("Worker", worker)):
        raw["spec"]["mpiReplicaSpecs"][role]["restartPolicy"] = policy
    done = checked(raw, image_has_sshd=True)
    assert {name: part["template"]["spec"]["backoffLimit"] for name, part in parts(done).items()} == expected
    fate = fates(done)["spec.runPolicy.backoffLimit"]
    assert (fate == "dropped") == (not any(expected.values()))


def test_exit_codes_never_made_a_new_pod() -> None:
    done = checked(v1(role={"restartPolicy": "ExitCode"}), image_has_sshd=True)
    for part in parts(done).values():
        spec = part["template"]["spec"]
        assert (spec["backoffLimit"], spec["template"]["spec"]["restartPolicy"]) == (0, "Never")
        assert "podFailurePolicy" not in spec
    said = [found.message for found in done.findings if found.code == "EXITCODE"]
    assert len(said) == 2
    assert all("did nothing, whatever the exit code" in text for text in said)


@pytest.mark.parametrize("workers", [2, None])
def test_an_account_that_v1_made(workers: int | None) -> None:
    raw = v1(workers=workers)
    raw["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["serviceAccountName"] = "trainer"
    done = checked(raw, image_has_sshd=True)
    (said,) = (found for found in done.findings if found.v1_path.endswith("serviceAccountName"))
    assert (said.code, said.severity) == ("MPI-TRANSPORT", "info")
    part = parts(done)["launcher" if workers else "node"]
    assert part["template"]["spec"]["template"]["spec"]["serviceAccountName"] == "trainer"


@pytest.mark.parametrize(
    ("worker", "held"),
    [
        pytest.param({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}, "A, B,", id="env"),
        pytest.param({"envFrom": [{"secretRef": {"name": "s"}}]}, "those of envFrom,", id="envFrom"),
        pytest.param({}, "", id="nothing"),
    ],
)
def test_variables_of_the_workers_that_ssh_does_not_show(worker: dict[str, Any], held: str) -> None:
    done = checked(v1(worker=worker), image_has_sshd=True)
    said = [found.message for found in done.findings if found.code == "MPI-TRANSPORT" and "saw" in found.message]
    assert [held in text for text in said] == ([True] if held else [])


def test_what_was_said_to_kubectl_exec_is_not_said_to_ssh() -> None:
    env = [{"name": "OMPI_MCA_plm_rsh_args", "value": "-v"}]
    done = checked(v1(launcher={"env": env}), image_has_sshd=True)
    assert [one.code for one in done.differences if one.what == "OMPI_MCA_plm_rsh_args"] == ["RESERVED-ENV"]
    assert "RESERVED-ENV" in codes(done, "info")


def test_no_transport_without_workers() -> None:
    assert checked(v1(workers=None)).ok
