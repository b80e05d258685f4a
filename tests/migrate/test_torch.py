"""PyTorchJob: topologies, environment, number of processes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.migrate.checked import checked, codes, env_of, fates, pytorch, trainer_of

INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
SHIM = {
    "PYTHONUNBUFFERED": "1",
    "MASTER_ADDR": "mnist-node-0-0.mnist",
    "MASTER_PORT": "29500",
    "WORLD_SIZE": "2",
    "RANK": INDEX,
}
GPU = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
PYTHON = {"command": ["python", "train.py"]}
TORCHRUN = {"command": ["torchrun", "train.py"]}


def test_two_equal_roles_are_two_nodes_of_a_stock_runtime() -> None:
    done = checked(pytorch(workers=3))
    assert done.runtime is None
    assert done.trainjob is not None
    assert done.trainjob["spec"]["runtimeRef"]["name"] == "torch-distributed"
    assert trainer_of(done)["numNodes"] == 4
    assert env_of(done) == {**SHIM, "WORLD_SIZE": "4"}
    assert "runtimePatches" not in done.trainjob["spec"]
    assert codes(done) == ["BACKOFF", "ENV-SHIM", "SUCCESS-RULE"]


def test_where_every_leaf_went() -> None:
    done = checked(
        pytorch(
            {**PYTHON, "volumeMounts": [{"name": "d", "mountPath": "/d"}]},
            pod={"volumes": [{"name": "d", "emptyDir": {}}]},
        )
    )
    patch = "trainjob:spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template"
    mount = "template.spec.containers[0].volumeMounts[0]"
    for role in ("Master", "Worker"):
        base = f"spec.pytorchReplicaSpecs.{role}"
        found = {path.removeprefix(f"{base}."): fate for path, fate in fates(done).items() if path.startswith(base)}
        assert found == {
            "replicas": "trainjob:spec.trainer.numNodes",
            "template.spec.containers[0].name": f"{patch}.spec.containers[0].name",
            "template.spec.containers[0].image": "trainjob:spec.trainer.image",
            "template.spec.containers[0].command[0]": "trainjob:spec.trainer.command[0]",
            "template.spec.containers[0].command[1]": "trainjob:spec.trainer.command[1]",
            f"{mount}.name": f"{patch}.spec.containers[0].volumeMounts[0].name",
            f"{mount}.mountPath": f"{patch}.spec.containers[0].volumeMounts[0].mountPath",
            "template.spec.volumes[0].name": f"{patch}.spec.volumes[0].name",
            "template.spec.volumes[0].emptyDir": f"{patch}.spec.volumes[0].emptyDir",
        }


@pytest.mark.parametrize(
    ("job", "nodes", "shim"),
    [
        pytest.param(pytorch(workers=None), 1, True, id="Master alone"),
        pytest.param(pytorch(workers=0), 1, True, id="no Workers of a Worker role"),
        pytest.param(pytorch(master=False, workers=3), 3, False, id="Workers alone had no rank in v1"),
        pytest.param(pytorch(TORCHRUN, workers=2), 3, False, id="torchrun needs none"),
        pytest.param(pytorch({"command": ["python", "-m", "torch.distributed.run", "x.py"]}), 2, False, id="run"),
        pytest.param(pytorch({"command": ["python", "-m", "torch.distributed.launch", "x.py"]}), 2, False, id="launch"),
        pytest.param(pytorch({"command": ["accelerate", "launch", "x.py"]}), 2, True, id="accelerate"),
        pytest.param(pytorch({"command": ["deepspeed", "x.py"]}), 2, True, id="deepspeed"),
        pytest.param(
            pytorch({"command": ["torchrun", "--node_rank=$(RANK)", "x.py"]}), 2, True, id="torchrun that asks"
        ),
        pytest.param(pytorch({**TORCHRUN, "env": [{"name": "A", "value": "$(RANK)"}]}), 2, True, id="asked by env"),
        pytest.param(
            pytorch({"command": ["sh", "-c", "pip install x && exec torchrun --nnodes 2 x.py"]}),
            2,
            False,
            id="in sh -c",
        ),
        pytest.param(
            pytorch({"command": ["bash", "-c", "torchrun --master_addr $MASTER_ADDR x.py"]}), 2, True, id="sh that asks"
        ),
        pytest.param(pytorch({"command": ["bash", "-c", "./prepare.sh; torchrun x.py"]}), 2, True, id="script beside"),
        pytest.param(pytorch({"command": ["bash", "run.sh"]}), 2, True, id="a script"),
        pytest.param(pytorch({"args": ["--backend", "gloo"]}), 2, True, id="args only"),
        pytest.param(pytorch({"args": ["torchrun", "x.py"]}), 2, True, id="args for an unknown entry point"),
        pytest.param(pytorch({}), 2, True, id="neither"),
    ],
)
def test_numbers_and_shim(job: dict[str, Any], nodes: int, shim: bool) -> None:
    done = checked(job)
    assert trainer_of(done)["numNodes"] == nodes
    assert ("RANK" in env_of(done)) is shim
    assert env_of(done)["PYTHONUNBUFFERED"] == "1"
    if shim:
        assert env_of(done)["WORLD_SIZE"] == str(nodes)


def test_an_unseen_start_is_told() -> None:
    assert "UNSEEN-SCRIPT" in codes(checked(pytorch({"args": ["x"]})))
    assert "UNSEEN-SCRIPT" in codes(checked(pytorch({"command": ["bash", "run.sh"]})))
    assert "UNSEEN-SCRIPT" not in codes(checked(pytorch()))


@pytest.mark.parametrize(
    ("container", "nproc", "number", "world", "found"),
    [
        pytest.param(TORCHRUN, "2", 2, None, [], id="a number"),
        pytest.param(PYTHON, "2", 2, "4", [], id="v1 counted processes in WORLD_SIZE"),
        pytest.param({**TORCHRUN, **GPU}, "auto", None, None, [], id="auto with GPUs"),
        pytest.param(TORCHRUN, "auto", None, None, ["CPU-AUTO"], id="auto without"),
        pytest.param(TORCHRUN, None, None, None, ["CPU-AUTO"], id="none without"),
        pytest.param(PYTHON, "auto", None, "2", [], id="auto that nobody reads"),
        pytest.param({"command": ["torchrun", "--nproc-per-node=4", "x.py"]}, "auto", None, None, [], id="on the line"),
        pytest.param({**PYTHON, **GPU}, "gpu", 2, "2", ["NPROC-TEXT"], id="gpu"),
        pytest.param(PYTHON, "cpu", None, "2", [], id="cpu that nobody reads"),
        pytest.param(
            {**TORCHRUN, "resources": {"limits": {"nvidia.com/mig-1g.5gb": 3}}}, "auto", 3, None, ["XPU-PROC"], id="mig"
        ),
        pytest.param(
            {**TORCHRUN, "resources": {"limits": {"aws.amazon.com/neuron": 2}}},
            None,
            None,
            None,
            ["XPU-PROC"],
            id="neuron",
        ),
    ],
)
def test_processes(
    container: dict[str, Any], nproc: str | None, number: int | None, world: str | None, found: list[str]
) -> None:
    spec: dict[str, Any] = {} if nproc is None else {"nprocPerNode": nproc}
    done = checked(pytorch(container, **spec))
    assert trainer_of(done).get("numProcPerNode") == number
    assert env_of(done).get("WORLD_SIZE") == world
    assert [code for code in codes(done) if code in ("CPU-AUTO", "XPU-PROC", "NPROC-TEXT")] == found


def test_a_word_of_nproc_becomes_an_option_of_torchrun() -> None:
    done = checked(pytorch(TORCHRUN, nprocPerNode="cpu"))
    assert trainer_of(done)["command"] == ["torchrun", "--nproc_per_node=cpu", "train.py"]
    text = {"command": ["sh", "-c", "cd /w\nexec torchrun x.py --lr 1"]}
    done = checked(pytorch(text, nprocPerNode="gpu"))
    assert trainer_of(done)["command"][2] == "cd /w\nexec torchrun --nproc_per_node=gpu x.py --lr 1"


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        pytest.param({"nprocPerNode": "0"}, "NOT-A-JOB", id="no processes"),
        pytest.param({"nprocPerNode": "many"}, "NOT-A-JOB", id="no number"),
        pytest.param({"nprocPerNode": "$N"}, "PLACEHOLDER", id="a placeholder"),
        pytest.param({"nprocPerNode": "2", "elasticPolicy": {"nProcPerNode": 2}}, "NOT-A-JOB", id="twice"),
        pytest.param({"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}}, "ELASTIC-RANGE", id="a range"),
        pytest.param({"elasticPolicy": {"minReplicas": "x"}}, "NOT-A-JOB", id="no number of workers"),
        pytest.param({"elasticPolicy": {"metrics": [{}], "minReplicas": 1}}, "ELASTIC-RANGE", id="an autoscaler"),
        pytest.param({"elasticPolicy": []}, "NOT-A-JOB", id="no policy"),
        pytest.param({"surprise": {"a": [1, 2]}}, "UNKNOWN-FIELD", id="an unknown field"),
    ],
)
def test_refused(spec: dict[str, Any], code: str) -> None:
    done = checked(pytorch(master=False, workers=2, **spec))
    assert not done.ok
    assert codes(done, "refused") == [code]


def test_two_masters_are_refused_as_in_v1() -> None:
    job = pytorch()
    job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] = 2
    assert codes(checked(job), "refused") == ["NOT-A-JOB"]


@pytest.mark.parametrize(
    ("policy", "pin", "nodes"),
    [
        pytest.param({}, None, 2, id="v1 fills in the workers"),
        pytest.param({"minReplicas": 2}, None, 2, id="only the least"),
        pytest.param({"minReplicas": 2, "maxReplicas": 2}, None, 2, id="no range"),
        pytest.param({"minReplicas": 1, "maxReplicas": 4}, "min", 1, id="pinned at the least"),
        pytest.param({"minReplicas": 1, "maxReplicas": 4}, "max", 4, id="pinned at the most"),
        pytest.param({"minReplicas": 1, "maxReplicas": 64, "metrics": [{"type": "x"}]}, "replicas", 2, id="as it runs"),
        pytest.param({"minReplicas": 1, "maxReplicas": 4}, 3, 3, id="pinned at a number"),
    ],
)
def test_elastic_jobs_of_a_fixed_number(policy: dict[str, Any], pin: Any, nodes: int) -> None:
    line = {"command": ["python", "-m", "torch.distributed.run", "--rdzv_backend=c10d", "x.py"]}
    done = checked(pytorch(line, master=False, workers=2, elasticPolicy=policy), pin_elastic=pin)
    assert trainer_of(done)["numNodes"] == nodes
    env = env_of(done)
    assert env["PET_RDZV_BACKEND"] == "c10d"
    assert env["PET_RDZV_ENDPOINT"] == "mnist-node-0-0.mnist:29500"
    assert "RANK" not in env


def test_all_of_the_rendezvous() -> None:
    policy = {
        "rdzvBackend": "etcd",
        "rdzvHost": "etcd.infra",
        "rdzvPort": 2379,
        "rdzvId": "x1",
        "rdzvConf": [{"key": "timeout", "value": "900"}, {"key": "a", "value": "b"}],
        "maxRestarts": 3,
        "standalone": False,
        "nProcPerNode": 4,
    }
    done = checked(pytorch(TORCHRUN, master=False, workers=2, elasticPolicy=policy))
    assert {name: value for name, value in env_of(done).items() if name.startswith("PET_")} == {
        "PET_RDZV_BACKEND": "etcd",
        "PET_RDZV_ENDPOINT": "etcd.infra:2379",
        "PET_RDZV_ID": "x1",
        "PET_RDZV_CONF": "timeout=900,a=b",
        "PET_MAX_RESTARTS": "3",
    }
    assert trainer_of(done)["numProcPerNode"] == 4
    assert "RDZV-ENDPOINT" in codes(done, "warning")


@pytest.mark.parametrize(
    ("env", "kept", "code"),
    [
        pytest.param({"MASTER_PORT": "1234"}, False, "RESERVED-ENV", id="v1 overruled it"),
        pytest.param({"PET_NNODES": "7"}, False, "RESERVED-ENV", id="v1 overruled PET_ too"),
        pytest.param({"NCCL_DEBUG": "INFO"}, True, "", id="the job's own"),
        pytest.param({"PYTHONUNBUFFERED": "0"}, False, "", id="always 1 in v1"),
    ],
)
def test_the_jobs_own_variables(env: dict[str, str], kept: bool, code: str) -> None:
    held = [{"name": name, "value": value} for name, value in env.items()]
    done = checked(pytorch({**PYTHON, "env": held}))
    (name,) = env
    assert (env_of(done).get(name) == env[name]) is kept
    assert ("RESERVED-ENV" in codes(done)) is (code != "")


@pytest.mark.parametrize(
    ("value", "ok"),
    [
        pytest.param("29500", True, id="as Trainer sets it"),
        pytest.param("1234", False, id="otherwise"),
    ],
)
def test_reserved_variables_that_v1_left_alone(value: str, ok: bool) -> None:
    held = [{"name": "PET_MASTER_PORT", "value": value}]
    done = checked(pytorch({**TORCHRUN, "env": held}, master=False, workers=2))
    assert done.ok is ok
    if ok:
        assert "PET_MASTER_PORT" not in env_of(done)
    else:
        assert codes(done, "refused") == ["RESERVED-ENV"]


def test_no_shim() -> None:
    done = checked(pytorch(), env_shim=False)
    assert "env" not in trainer_of(done)
    assert codes(done, "warning") == ["ENV-SHIM"]
    line = {**GPU, "command": ["sh", "-c", 'torchrun --master_addr="$MASTER_ADDR" --node_rank ${RANK} x.py']}
    done = checked(pytorch(line), env_shim=False)
    assert (
        trainer_of(done)["command"][2] == 'torchrun --master_addr="$PET_MASTER_ADDR" --node_rank ${PET_NODE_RANK} x.py'
    )
    assert codes(done, "warning") == []


def test_nnodes_that_v1_counted_in_processes() -> None:
    line = {"command": ["sh", "-c", "torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK x.py"]}
    done = checked(pytorch(line, nprocPerNode="2"))
    assert trainer_of(done)["command"][2] == "torchrun --nnodes=$PET_NNODES --node_rank=$RANK x.py"
    assert "TORCHRUN-FLAGS" in codes(done, "warning")
    done = checked(pytorch({"command": ["torchrun", "--nnodes", "$(WORLD_SIZE)", "x.py"]}, nprocPerNode="2"))
    assert trainer_of(done)["command"] == ["torchrun", "--nnodes", "$(PET_NNODES)", "x.py"]


@pytest.mark.parametrize(
    ("command", "made"),
    [
        pytest.param(["python3", "-u", "a.py", "-x"], ["torchrun", "a.py", "-x"], id="a script"),
        pytest.param(["python", "-m", "pkg.train"], ["torchrun", "-m", "pkg.train"], id="a module"),
        pytest.param(["sh", "-c", "cd w && python a.py"], ["sh", "-c", "cd w && torchrun a.py"], id="in a shell"),
        pytest.param(["python", "-c", "print()"], ["python", "-c", "print()"], id="code on the line stays"),
        pytest.param(["./run.sh"], ["./run.sh"], id="a script stays"),
    ],
)
def test_to_torchrun(command: list[str], made: list[str]) -> None:
    done = checked(pytorch({"command": command}), to_torchrun=True)
    assert trainer_of(done)["command"] == made
    assert ("RANK" in env_of(done)) is (command == made)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        pytest.param("mnist-master-0", "mnist-node-0-0.mnist", id="the Master"),
        pytest.param("mnist-worker-1:23456", "mnist-node-0-2.mnist:23456", id="a Worker"),
        pytest.param("tcp://mnist-master-0.default:1", "tcp://mnist-node-0-0.mnist.default:1", id="with namespace"),
        pytest.param(
            "mnist-master-0.default.svc.cluster.local", "mnist-node-0-0.mnist.default.svc.cluster.local", id="whole"
        ),
        pytest.param("xmnist-master-0", "xmnist-master-0", id="another job's"),
        pytest.param("mnist-master-0-x", "mnist-master-0-x", id="longer"),
        pytest.param("mnist-chief-0", "mnist-chief-0", id="no role of it"),
    ],
)
def test_addresses(text: str, made: str) -> None:
    held = {"command": ["python", "t.py", f"--init={text}"], "env": [{"name": "ADDR", "value": text}]}
    done = checked(pytorch(held, workers=2))
    assert trainer_of(done)["command"][2] == f"--init={made}"
    assert env_of(done)["ADDR"] == made
    assert ("HOST-LITERAL" in codes(done)) is (text != made)


def test_generate_name_reads_its_name_from_the_pod() -> None:
    job = pytorch()
    job["metadata"] = {"generateName": "mnist-"}
    done = checked(job)
    assert done.trainjob is not None
    assert done.trainjob["metadata"] == {"generateName": "mnist-"}
    names = list(env_of(done))
    assert names.index("TRAINJOB_NAME") < names.index("MASTER_ADDR")
    assert env_of(done)["MASTER_ADDR"] == "$(TRAINJOB_NAME)-node-0-0.$(TRAINJOB_NAME)"
    assert "GENERATE-NAME" in codes(done, "warning")


def test_the_masters_end_can_be_kept_as_the_jobs() -> None:
    done = checked(pytorch(), preserve_success=True)
    assert done.runtime is not None
    (job,) = done.runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert job["template"]["spec"]["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    assert "SUCCESS-RULE" not in codes(done)
    done = checked(pytorch(TORCHRUN, master=False, workers=2, elasticPolicy={}), preserve_success=True)
    assert done.runtime is not None
    (job,) = done.runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert job["template"]["spec"]["successPolicy"] == {"rules": [{"succeededCount": 1}]}


def test_placeholders_for_numbers() -> None:
    job = pytorch(TORCHRUN, master=False)
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = "$NODES"
    assert codes(checked(job), "refused") == ["PLACEHOLDER"]


def test_mpi_in_a_pytorchjob_is_told() -> None:
    assert "MPI-BACKEND" in codes(checked(pytorch({"args": ["--backend", "mpi"]})), "warning")
    assert "MPI-BACKEND" in codes(checked(pytorch({"command": ["mpirun", "-np", "2", "python", "x.py"]})), "warning")


def test_sidecars_that_ask_for_trainers_variables_get_them() -> None:
    side = [{"name": "watch", "image": "w:1", "args": ["--rank=$(PET_NODE_RANK)"]}]
    done = checked(pytorch(pod={"containers": side}))
    assert done.runtime is not None
    (target,) = done.runtime["spec"]["mlPolicy"]["torch"]["envInjection"]["targets"]
    assert target == {"jobName": "node", "containerNames": ["watch"]}
    done = checked(pytorch(pod={"containers": side}), trainer_version="2.2")
    assert done.runtime is not None
    assert done.runtime["spec"]["mlPolicy"]["torch"] == {}


def test_a_live_object_gives_what_its_file_gives() -> None:
    file = pytorch({**TORCHRUN, **GPU}, workers=1)
    live = copy.deepcopy(file)
    live["spec"].update(nprocPerNode="auto", runPolicy={"cleanPodPolicy": "None", "suspend": False})
    live["metadata"].update(uid="u", resourceVersion="1", generation=1, creationTimestamp="2025-01-01T00:00:00Z")
    live["status"] = {"startTime": "2025-01-01T00:00:00Z"}
    for role in live["spec"]["pytorchReplicaSpecs"].values():
        role["restartPolicy"] = "OnFailure"
        main = role["template"]["spec"]["containers"][0]
        main["ports"] = [{"name": "pytorchjob-port", "containerPort": 23456, "protocol": "TCP"}]
    assert checked(live).trainjob == checked(file).trainjob


@pytest.mark.parametrize("runtime", ["auto", "generate"])
def test_why_there_is_a_runtime_of_its_own(runtime: str) -> None:
    done = checked(pytorch({**PYTHON, "workingDir": "/w"}), runtime=runtime)
    assert [need.what for need in done.needs] == ["workingDir of the container"]
    assert checked(pytorch()).needs == ()


def test_marks_of_helm_on_a_live_object() -> None:
    job = pytorch()
    job["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "Helm", "a": "b"}
    job["metadata"]["annotations"] = {"meta.helm.sh/release-name": "r"}
    done = checked(job, live=True)
    assert done.trainjob is not None
    assert done.trainjob["metadata"] == {"name": "mnist", "labels": {"a": "b"}}
    done = checked(job)
    assert done.trainjob is not None
    assert done.trainjob["metadata"]["annotations"] == {"meta.helm.sh/release-name": "r"}


def test_a_generate_name_that_is_too_long() -> None:
    job = pytorch()
    job["metadata"] = {"generateName": f"{'a' * 50}-"}
    assert codes(checked(job), "refused") == ["NAME-LEN"]
