"""MPIJob: launcher and nodes, numbers, keys, transports. Command lines are in test_mpi_commands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.checked import checked, codes, env_of, fates, trainer_of, unwrapped
from tests.migrate.kinds import containers, mpi, parts, variables

GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
SSHD = {"command": ["/usr/sbin/sshd"], "args": ["-De", "-f", "/home/mpiuser/.sshd_config"]}


def policy(done: Any) -> dict[str, Any]:
    """``mlPolicy.mpi`` of the runtime."""
    assert done.runtime is not None, [str(found) for found in done.findings]
    held = done.runtime["spec"]["mlPolicy"]
    assert held["numNodes"] == 1, "more launchers than one"
    found: dict[str, Any] = held["mpi"]
    return found


def test_launcher_and_nodes_are_apart() -> None:
    done = checked(mpi(launcher={"image": "example.com/launch:1"}, worker={**SSHD, **GPU}, slotsPerWorker=4))
    assert policy(done) == {
        "numProcPerNode": 4,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": "/home/mpiuser/.ssh",
        "runLauncherAsNode": False,
    }
    trainer = trainer_of(done)
    assert (trainer["numNodes"], trainer["numProcPerNode"], trainer["image"]) == (2, 4, "example.com/launch:1")
    assert list(parts(done)) == ["node", "launcher"]
    (node,) = containers(done, "node")
    assert (node["image"], node["command"], node["resources"]) == (
        "example.com/train:1",
        SSHD["command"],
        GPU["resources"],
    )
    assert parts(done)["launcher"]["dependsOn"] == [{"name": "node", "status": "Ready"}]
    assert done.runtime is not None
    held = done.runtime["spec"]["template"]["spec"]
    assert held["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["launcher"]}
    labelled = [name for name, one in parts(done).items() if "metadata" in one["template"]]
    assert labelled == ["launcher"]


def test_where_the_fields_of_the_job_went() -> None:
    done = checked(
        mpi(slotsPerWorker=2, mpiImplementation="OpenMPI", launcherCreationPolicy="WaitForWorkersReady", worker=SSHD)
    )
    runtime = "runtime:spec.mlPolicy.mpi."
    found = fates(done)
    assert {name: found[f"spec.{name}"] for name in ("slotsPerWorker", "mpiImplementation", "sshAuthMountPath")} == {
        "slotsPerWorker": "trainjob:spec.trainer.numProcPerNode",
        "mpiImplementation": f"{runtime}mpiImplementation",
        "sshAuthMountPath": f"{runtime}sshAuthMountPath",
    }
    assert found["spec.mpiReplicaSpecs.Launcher.replicas"] == "runtime:spec.mlPolicy.numNodes"
    assert found["spec.mpiReplicaSpecs.Worker.replicas"] == "trainjob:spec.trainer.numNodes"
    assert found["spec.launcherCreationPolicy"].endswith("replicatedJobs[1].dependsOn")


@pytest.mark.parametrize(
    ("workers", "spec", "nodes", "as_node"),
    [
        pytest.param(2, {}, 2, False, id="workers-are-nodes"),
        pytest.param(1, {}, 1, False, id="one-worker"),
        pytest.param(2, {"runLauncherAsWorker": False}, 2, False, id="said-so"),
        pytest.param(2, {"runLauncherAsWorker": True}, 3, True, id="launcher-is-one-more"),
    ],
)
def test_number_of_nodes(workers: int, spec: dict[str, Any], nodes: int, as_node: bool) -> None:
    done = checked(mpi(workers=workers, **spec))
    assert trainer_of(done)["numNodes"] == nodes
    assert policy(done)["runLauncherAsNode"] is as_node
    assert ("MPI-HOST-ORDER" in codes(done, "warning")) is as_node


def test_a_launcher_that_is_a_node_keeps_its_own_environment_and_resources() -> None:
    env = {"env": [{"name": "A", "value": "launcher"}]}
    raw = mpi(launcher={**env, "resources": {"limits": {"cpu": 1}}}, worker=GPU, runLauncherAsWorker=True)
    done = checked(raw)
    assert {"env", "resourcesPerNode"} & trainer_of(done).keys() == set()
    (head,) = containers(done, "launcher")
    assert (variables(head), head["resources"]) == ({"A": "launcher"}, {"limits": {"cpu": 1}})
    (node,) = containers(done, "node")
    assert (variables(node), node["resources"]) == ({}, GPU["resources"])


def test_a_launcher_without_ranks_sees_no_gpu() -> None:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, {"name": "A", "value": "b"}]
    found = env_of(checked(mpi(launcher={"env": env})))
    assert found == {"A": "b", "NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}


def test_open_mpis_variables_are_trainers() -> None:
    env = [
        {"name": "OMPI_MCA_orte_default_hostfile", "value": "/x"},
        {"name": "OMPI_MCA_plm_rsh_args", "value": "-p 22"},
        {"name": "OMPI_MCA_btl", "value": "tcp,self"},
    ]
    done = checked(mpi(launcher={"env": env}))
    assert [name for name in env_of(done) if name.startswith("OMPI")] == ["OMPI_MCA_btl"]
    assert "RESERVED-ENV" in codes(done, "info")


@pytest.mark.parametrize("asks", [True, False])
def test_the_role_is_given_where_something_asks_for_it(asks: bool) -> None:
    command = ["sh", "-c", "echo $K_MPI_JOB_ROLE; exec mpirun python t.py"] if asks else ["mpirun", "python", "t.py"]
    done = checked(mpi(command))
    assert ("K_MPI_JOB_ROLE" in env_of(done)) is asks
    (node,) = containers(done, "node")
    assert variables(node) == ({"K_MPI_JOB_ROLE": "worker"} if asks else {})


@pytest.mark.parametrize(
    ("worker", "command", "args"),
    [
        pytest.param({}, ["/usr/sbin/sshd"], ["-De"], id="as-the-operator-does"),
        pytest.param(SSHD, SSHD["command"], SSHD["args"], id="as-it-says"),
        pytest.param({"args": ["run"]}, None, ["run"], id="the-images-own"),
    ],
)
def test_what_workers_run(worker: dict[str, Any], command: Any, args: Any) -> None:
    done = checked(mpi(worker=worker))
    (node,) = containers(done, "node")
    assert (node.get("command"), node.get("args")) == (command, args)
    assert ("MPI-SSHD-CMD" in codes(done)) is (worker == {})


def test_another_user_than_root_reads_the_key_by_its_group() -> None:
    done = checked(mpi(user=1234, pod={"securityContext": {"runAsNonRoot": True}}))
    for part in ("node", "launcher"):
        held = parts(done)[part]["template"]["spec"]["template"]["spec"]["securityContext"]
        assert held == {"runAsNonRoot": True, "fsGroup": 1234}
    done = checked(mpi(pod={"securityContext": {"fsGroup": 7}}))
    held = parts(done)["node"]["template"]["spec"]["template"]["spec"]["securityContext"]
    assert held == {"fsGroup": 7}


def test_root_gets_a_copy_of_the_key() -> None:
    done = checked(mpi(["mpirun", "--allow-run-as-root", "--hostfile", "/etc/mpi/hostfile", "t"], user=None))
    assert policy(done)["sshAuthMountPath"] == "/mnt/ssh"
    command = trainer_of(done)["command"]
    assert command[2].startswith("mkdir -p /root/.ssh && install -m 600 /mnt/ssh/id_rsa /root/.ssh/id_rsa || exit\n")
    assert unwrapped(command) == ("mpirun", "--allow-run-as-root", "--hostfile", "/etc/mpi/hostfile", "t")
    (node,) = containers(done, "node")
    assert [*node["command"], *node["args"]] == [
        "/usr/sbin/sshd",
        "-De",
        "-o",
        "AuthorizedKeysFile=/mnt/ssh/authorized_keys",
    ]
    assert "MPI-KEYMODE" in codes(done, "warning")
    pod = parts(done)["launcher"]["template"]["spec"]["template"]["spec"]
    assert "securityContext" not in pod


@pytest.mark.parametrize(
    ("worker", "argv"),
    [
        pytest.param(
            {"command": ["/usr/sbin/sshd", "-De", "-p", "2222"]},
            ["/usr/sbin/sshd", "-De", "-o", "AuthorizedKeysFile=/mnt/ssh/authorized_keys", "-p", "2222"],
            id="argv",
        ),
        pytest.param(
            {"command": ["sh", "-c", "mkdir -p /run/sshd; exec /usr/sbin/sshd -De"]},
            [
                "sh",
                "-c",
                "mkdir -p /run/sshd; exec /usr/sbin/sshd -o AuthorizedKeysFile=/mnt/ssh/authorized_keys -De",
            ],
            id="shell",
        ),
        pytest.param({"args": ["run"]}, ["run"], id="the-images-own-is-told"),
    ],
)
def test_sshd_of_root_knows_where_the_keys_are(worker: dict[str, Any], argv: list[str]) -> None:
    done = checked(mpi(user=None, worker=worker))
    (node,) = containers(done, "node")
    assert [*node.get("command", ()), *node.get("args", ())] == argv


def test_a_script_of_workers_gets_a_copy_before_it() -> None:
    done = checked(mpi(user=None, worker={"command": ["/start.sh"]}))
    (node,) = containers(done, "node")
    assert "install -m 600 /mnt/ssh/authorized_keys /root/.ssh/authorized_keys" in node["command"][2]
    assert unwrapped(node["command"]) == ("/start.sh",)


def test_keys_elsewhere_stay_there_for_root() -> None:
    done = checked(mpi(user=0, sshAuthMountPath="/keys"))
    assert policy(done)["sshAuthMountPath"] == "/keys"
    assert "MPI-KEYMODE" not in codes(done)


def test_a_folder_that_is_taken_is_not_mounted_over() -> None:
    mounts = {"volumeMounts": [{"name": "d", "mountPath": "/mnt/ssh"}]}
    done = checked(mpi(user=None, launcher=mounts, pod={"volumes": [{"name": "d", "emptyDir": {}}]}))
    assert policy(done)["sshAuthMountPath"] == "/mnt/mpi-ssh"


@pytest.mark.parametrize(
    ("limit", "restart", "job"),
    [
        pytest.param(None, None, {"restartPolicy": "OnFailure"}, id="a-jobs-own-default"),
        pytest.param(3, None, {"backoffLimit": 3, "restartPolicy": "OnFailure"}, id="its-limit"),
        pytest.param(0, "Never", {"backoffLimit": 0, "restartPolicy": "Never"}, id="no-second-try"),
        pytest.param(None, "Never", {"restartPolicy": "Never"}, id="new-pods"),
    ],
)
def test_the_launcher_was_a_job_and_is_one(limit: int | None, restart: str | None, job: dict[str, Any]) -> None:
    raw = mpi(runPolicy={} if limit is None else {"backoffLimit": limit})
    if restart:
        raw["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = restart
    held = parts(checked(raw))["launcher"]["template"]["spec"]
    found = {name: value for name, value in held.items() if name != "template"}
    assert {**found, "restartPolicy": held["template"]["spec"]["restartPolicy"]} == job


def test_the_hosts_network_keeps_the_clusters_names() -> None:
    done = checked(mpi(pod={"hostNetwork": True, "dnsPolicy": "Default"}))
    for part in ("node", "launcher"):
        assert parts(done)[part]["template"]["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_a_gang_waits_for_nobody() -> None:
    done = checked(mpi(launcherCreationPolicy="WaitForWorkersReady"), gang="volcano")
    assert "dependsOn" not in parts(done)["launcher"]
    assert fates(done)["spec.launcherCreationPolicy"] == "dropped"


@pytest.mark.parametrize(("least", "as_node", "ok"), [(3, False, True), (2, False, False), (3, True, True)])
def test_a_gang_is_nodes_and_launcher(least: int, as_node: bool, ok: bool) -> None:
    raw = mpi(runLauncherAsWorker=as_node, runPolicy={"schedulingPolicy": {"minAvailable": least}})
    assert checked(raw, gang="volcano").ok is ok


def test_without_workers_it_is_one_plain_pod() -> None:
    command = ["mpirun", "--hostfile", "/etc/mpi/hostfile", "-np", "2", "python", "t.py"]
    done = checked(mpi(command, workers=None, slotsPerWorker=2))
    assert done.runtime is not None
    assert done.runtime["spec"]["mlPolicy"] == {"numNodes": 1}
    assert trainer_of(done)["command"] == ["mpirun", "-np", "2", "python", "t.py"]
    assert "MPI-LAUNCHER-ONLY" in codes(done, "warning")


def test_without_workers_the_launchers_name_is_the_nodes() -> None:
    command = ["mpirun", "-H", "j-launcher:2", "python", "t.py"]
    assert trainer_of(checked(mpi(command, workers=None)))["command"][2] == "j-node-0-0.j:2"


@pytest.mark.parametrize(
    ("raw", "choices", "code"),
    [
        pytest.param(mpi(mpiImplementation="Intel"), {}, "MPI-IMPL", id="intel"),
        pytest.param(mpi(mpiImplementation="MPICH"), {}, "MPI-IMPL", id="mpich"),
        pytest.param(mpi(mpiImplementation="Other"), {}, "NOT-A-JOB", id="unknown-mpi"),
        pytest.param(mpi(["mpiexec.hydra", "t"]), {}, "MPI-IMPL", id="hydra"),
        pytest.param(mpi(), {"runtime": "flux-runtime"}, "FLUX", id="flux"),
        pytest.param(mpi(), {"runtime": "openmpi-runtime"}, "RUNTIME-FIELD", id="a-stock-runtime"),
        pytest.param(mpi(slotsPerWorker=0), {}, "MPI-NP", id="no-slots"),
        pytest.param(mpi(slotsPerWorker="two"), {}, "NOT-A-JOB", id="slots-as-a-word"),
        pytest.param(mpi(slotsPerWorker="$S"), {"allow_placeholders": True}, "PLACEHOLDER", id="unknown-slots"),
        pytest.param(mpi(launcherCreationPolicy="Later"), {}, "NOT-A-JOB", id="unknown-order"),
        pytest.param(mpi([], user=None), {}, "MPI-KEYMODE", id="root-without-a-command"),
        pytest.param(
            mpi(workers="$N", runLauncherAsWorker=True),
            {"allow_placeholders": True},
            "PLACEHOLDER",
            id="a-sum-of-unknowns",
        ),
        pytest.param(mpi(role={"restartPolicy": "Always"}), {}, "NOT-A-JOB", id="always"),
    ],
)
def test_refused(raw: dict[str, Any], choices: dict[str, Any], code: str) -> None:
    assert code in codes(checked(raw, **choices), "refused")


def test_the_way_out_of_another_mpi_is_said() -> None:
    (found,) = [one for one in checked(mpi(workers=3, mpiImplementation="Intel")).findings if one.code == "MPI-IMPL"]
    assert "Open MPI" in found.remedy
    assert "flux-runtime: numNodes 3" in found.remedy


def test_a_placeholder_of_workers_is_carried() -> None:
    done = checked(mpi(workers="$N"), allow_placeholders=True)
    assert trainer_of(done)["numNodes"] == "$N"


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        pytest.param(mpi(["mpirun", "t"]), "the workers' image and command", id="nodes"),
        pytest.param(mpi(["python", "t"], workers=0), "a runtime for one plain pod: Trainer ships none", id="launcher"),
    ],
)
def test_why_a_runtime_is_made(raw: dict[str, Any], why: str) -> None:
    """Trainer ships runtimes for MPI, and spec.trainer reaches the launcher of them only."""
    assert checked(raw).needs[0].what.startswith(why)
