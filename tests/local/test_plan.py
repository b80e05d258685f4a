"""The plan as a whole: steps and their order, patches, initializers, notes, refusals, purity."""

from __future__ import annotations

import ast
import copy
import json
from importlib import resources
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.local.catalogue import builtin
from trainer_ops.local.plan import JobPlan, Place, StepPlan, plan
from trainer_ops.local.plan_differences import DONE, FOUND
from trainer_ops.model.runtime import TrainingRuntime

Raw = dict[str, Any]
PLACE = Place(
    job_dir="/j",
    env={"PATH": "/bin"},
    python="/py",
    port=4242,
    dataset_dir="/j/data",
    model_dir="/j/model",
    initializer=("fetch",),
)


def runtime(name: str = "torch-distributed") -> TrainingRuntime:
    return TrainingRuntime.from_raw(builtin()["ClusterTrainingRuntime", name])


def trainjob(trainer: Raw | None = None, **spec: Any) -> Raw:
    return {"metadata": {"name": "t"}, "spec": {"trainer": {"command": ["python", "x.py"], **(trainer or {})}, **spec}}


def job(name: str, *containers: Raw, ancestor: str = "", **more: Any) -> Raw:
    """A replicatedJob; ``pod`` and ``spec`` in ``more`` go into the pod's and the Job's spec."""
    pod = {"containers": list(containers) or [{"name": name, "command": [f"run-{name}"]}], **more.pop("pod", {})}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor} if ancestor else {}
    spec = {"template": {"spec": pod}, **more.pop("spec", {})}
    return {"name": name, "template": {"metadata": {"labels": labels}, "spec": spec}, **more}


def own(*jobs: Raw, policy: Raw | None = None, **jobset: Any) -> TrainingRuntime:
    spec: Raw = {"template": {"spec": {"replicatedJobs": list(jobs), **jobset}}}
    if policy is not None:
        spec["mlPolicy"] = policy
    return TrainingRuntime.from_raw({"kind": "ClusterTrainingRuntime", "metadata": {"name": "own"}, "spec": spec})


NODE = job("node", {"name": "node", "command": ["run"]}, ancestor="trainer")


def step(planned: JobPlan, name: str) -> StepPlan:
    return next(s for s in planned.steps if s.name == name)


# ----------------------------------------------------------------------------------------------------------- the steps


def test_the_smallest_plan() -> None:
    planned = plan(trainjob({"args": ["--epochs", "1"]}, activeDeadlineSeconds=60), runtime(), place=PLACE)
    assert [s.name for s in planned.steps] == ["node"]
    node = planned.steps[0]
    assert (node.depends_on, node.restart_policy, node.backoff_limit, node.grace_seconds) == ((), "Never", 0, 30)
    assert (node.storage_uri, node.target_dir) == (None, None)
    assert node.pods[0].main.argv == ("python", "x.py", "--epochs", "1")
    assert (planned.success_steps, planned.max_restarts, planned.deadline_seconds) == (("node",), 0, 60)
    assert (planned.files, planned.hostfile, planned.folders, planned.notes) == ((), None, ("/j/results",), ())


def test_pods_have_the_names_and_labels_of_a_cluster() -> None:
    pod = plan(trainjob({"numNodes": 2}), runtime(), place=PLACE).pods[1]
    assert (pod.name, pod.hostname, pod.step, pod.index) == ("t-node-0-1-local", "t-node-0-1", "node", 1)
    assert pod.labels["jobset.sigs.k8s.io/jobset-name"] == "t"
    assert pod.labels["jobset.sigs.k8s.io/replicatedjob-name"] == "node"
    assert pod.labels["jobset.sigs.k8s.io/restart-attempt"] == "0"
    assert pod.labels["batch.kubernetes.io/job-name"] == "t-node-0"
    assert pod.labels["batch.kubernetes.io/job-completion-index"] == "1"
    assert pod.annotations["batch.kubernetes.io/job-completion-index"] == "1"


def test_steps_start_after_those_they_depend_on() -> None:
    late = job("late", dependsOn=[{"name": "early", "status": "Complete"}, {"name": "node", "status": "Ready"}])
    planned = plan(trainjob(), own(late, NODE, job("early")), place=PLACE)
    assert [s.name for s in planned.steps] == ["node", "early", "late"]
    assert step(planned, "late").depends_on == (("early", "Complete"), ("node", "Ready"))


def test_steps_that_wait_for_each_other_are_refused() -> None:
    ring = [
        job("a", dependsOn=[{"name": "b", "status": "Ready"}]),
        job("b", dependsOn=[{"name": "a", "status": "Ready"}]),
    ]
    with pytest.raises(InvalidRequest, match="a, b wait for each other"):
        plan(trainjob(), own(NODE, *ring), place=PLACE)


def test_a_startup_policy_in_order_is_a_chain() -> None:
    planned = plan(trainjob(), own(job("a"), NODE, startupPolicy={"startupPolicyOrder": "InOrder"}), place=PLACE)
    assert [s.depends_on for s in planned.steps] == [(), (("a", "Ready"),)]


@pytest.mark.parametrize(
    ("jobset", "steps", "any_"),
    [
        ({}, ("a", "node"), False),
        ({"successPolicy": {"operator": "All", "targetReplicatedJobs": ["node"]}}, ("node",), False),
        ({"successPolicy": {"operator": "Any", "targetReplicatedJobs": []}}, ("a", "node"), True),
    ],
)
def test_success(jobset: Raw, steps: tuple[str, ...], any_: bool) -> None:
    planned = plan(trainjob(), own(job("a"), NODE, failurePolicy={"maxRestarts": 2}, **jobset), place=PLACE)
    assert (planned.success_steps, planned.success_any, planned.max_restarts) == (steps, any_, 2)


def test_a_job_that_is_not_the_trainer_keeps_its_parallelism_and_its_program() -> None:
    planned = plan(
        trainjob({"numNodes": 3}), own(NODE, job("ps", spec={"parallelism": 2}), policy={"torch": {}}), place=PLACE
    )
    assert [len(s.pods) for s in planned.steps] == [3, 2]
    ps = step(planned, "ps").pods[1].main
    assert ps.argv == ("run-ps",)
    assert "PET_NNODES" not in ps.env


@pytest.mark.parametrize(
    ("policy", "trainer", "nodes"),
    [
        pytest.param({"numNodes": 2, "torch": {}}, {}, 2, id="the runtime's"),
        pytest.param({"numNodes": 2, "torch": {}}, {"numNodes": 3}, 3, id="the TrainJob's"),
        pytest.param({"torch": {}}, {}, 1, id="one"),
        pytest.param(None, {}, 4, id="parallelism counts without a policy only"),
    ],
)
def test_number_of_nodes(policy: Raw | None, trainer: Raw, nodes: int) -> None:
    parallel = job("node", {"name": "node", "command": ["run"]}, ancestor="trainer", spec={"parallelism": 4})
    assert len(plan(trainjob(trainer), own(parallel, policy=policy), place=PLACE).pods) == nodes


def test_restarts_follow_the_runtime_and_then_the_requests_limit() -> None:
    assert (s := plan(trainjob(), own(NODE), place=PLACE).steps[0]).restart_policy == "OnFailure"
    assert s.backoff_limit == 6
    limited = trainjob(initializer={"dataset": {"storageUri": "file:///d"}})
    limited["metadata"]["annotations"] = {"trainer-ops/limits": json.dumps({"max_restarts": 2, "wait_timeout": None})}
    dataset, node = plan(limited, runtime(), place=PLACE).steps
    assert (node.restart_policy, node.restarts_per_pod) == ("OnFailure", 2)
    assert (dataset.restart_policy, dataset.backoff_limit, dataset.restarts_per_pod) == ("Never", 0, None)


@pytest.mark.parametrize("text", ["[1]", "{", '{"max_restarts": "x"}'])
def test_a_broken_limits_annotation_is_refused(text: str) -> None:
    broken = trainjob()
    broken["metadata"]["annotations"] = {"trainer-ops/limits": text}
    with pytest.raises(InvalidRequest, match="trainer-ops/limits"):
        plan(broken, runtime(), place=PLACE)


# ------------------------------------------------------------------------------------------------------- the containers


def test_command_and_args_replace_the_runtimes_one_by_one() -> None:
    mine = own(job("node", {"name": "node", "command": ["torchrun"], "args": ["a.py"]}, ancestor="trainer"))
    argv = [
        plan({"metadata": {"name": "t"}, "spec": {"trainer": trainer}}, mine, place=PLACE).pods[0].main.argv
        for trainer in ({}, {"args": ["b.py"]}, {"command": ["python"]}, {"command": ["python"], "args": []})
    ]
    assert argv == [("torchrun", "a.py"), ("torchrun", "b.py"), ("python", "a.py"), ("python",)]


def test_sidecars_and_init_containers() -> None:
    pod = {
        "initContainers": [
            {"name": "prepare", "command": ["prepare"]},
            {"name": "proxy", "command": ["proxy"], "restartPolicy": "Always"},
        ]
    }
    exporter = {"name": "exporter", "command": ["export"], "workingDir": "/srv"}
    planned = plan(trainjob(), own(job("node", exporter, {"name": "node"}, ancestor="trainer", pod=pod)), place=PLACE)
    made = planned.pods[0].containers
    assert [(c.name, c.role, c.init) for c in made] == [
        ("prepare", "init", True),
        ("proxy", "sidecar", True),
        ("exporter", "sidecar", False),
        ("node", "main", False),
    ]
    assert planned.pods[0].main.name == "node"
    assert [c.working_dir for c in made] == [None, None, "/srv", None]
    assert len({c.result_path for c in made}) == 4


def test_a_sidecar_without_a_command_is_left_out_and_named() -> None:
    planned = plan(trainjob(), own(job("node", {"name": "node"}, {"name": "istio"}, ancestor="trainer")), place=PLACE)
    assert [c.name for c in planned.pods[0].containers] == ["node"]
    assert any("container istio of node is not started" in note for note in planned.notes)


@pytest.mark.parametrize("trainer", [{"command": None}, {"command": []}, {"command": None, "args": ["--epochs", "3"]}])
def test_nothing_to_run(trainer: Raw) -> None:
    with pytest.raises(InvalidRequest, match="nothing to run on this machine") as caught:
        plan(trainjob(trainer), runtime(), place=PLACE)
    assert caught.value.field == "spec.trainer.command"


def test_args_alone_are_a_program_as_with_an_image_that_has_no_entrypoint() -> None:
    planned = plan(trainjob({"command": None, "args": ["torchrun", "x.py"]}), runtime(), place=PLACE)
    assert planned.pods[0].main.argv == ("torchrun", "x.py")


# ---------------------------------------------------------------------------------------------------------- the patches


def patch(name: str, *, spec: Raw | None = None, metadata: Raw | None = None) -> Raw:
    template = {"spec": {"template": {"metadata": metadata or {}, "spec": spec or {}}}}
    jobs = [{"name": name, "template": template}]
    return {"manager": "a.b/c", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def test_patches_that_mean_something_are_applied() -> None:
    helper = {
        "name": "helper",
        "command": ["help"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}],
    }
    mine = own(job("node", {"name": "node"}, helper, ancestor="trainer"))
    patched = trainjob(
        {"env": [{"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}}]},
        runtimePatches=[
            patch("node", spec={"terminationGracePeriodSeconds": 120}, metadata={"labels": {"team": "a"}}),
            patch("node", spec={"containers": [{"name": "helper", "env": [{"name": "A", "value": "2"}]}]}),
        ],
    )
    before = copy.deepcopy(mine.raw)
    planned = plan(patched, mine, place=PLACE)
    node, sidecar = planned.pods[0].containers
    assert planned.steps[0].grace_seconds == 120
    assert (node.env["TEAM"], sidecar.env["A"], sidecar.env["B"]) == ("a", "2", "2")
    assert planned.pods[0].labels["team"] == "a"
    assert mine.raw == before


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["NEW"], ["NEW", "A", "B"], id="new ones come first"),
        pytest.param(["B"], ["A", "B"], id="an old one stays in its place"),
        pytest.param(["B", "NEW"], ["A", "B", "NEW"], id="a new one after an old one"),
        pytest.param(["NEW", "B"], ["NEW", "A", "B"], id="a new one before an old one"),
        pytest.param(["B", "A"], ["B", "A"], id="the patch's order wins"),
        pytest.param([], ["A", "B"], id="nothing"),
    ],
)
def test_a_patch_orders_the_environment_as_the_api_machinery_does(names: list[str], expected: list[str]) -> None:
    helper = {"name": "helper", "command": ["help"], "env": [{"name": n, "value": "old"} for n in ("A", "B")]}
    env = [{"name": name, "value": "new"} for name in names]
    patched = trainjob({}, runtimePatches=[patch("node", spec={"containers": [{"name": "helper", "env": env}]})])
    planned = plan(patched, own(job("node", {"name": "node"}, helper, ancestor="trainer")), place=PLACE)
    found = {name: value for name, value in planned.pods[0].containers[1].env.items() if value in ("old", "new")}
    assert list(found) == expected
    assert [name for name, value in found.items() if value == "new"] == [n for n in expected if n in names]


def test_a_host_path_is_found_where_it_is() -> None:
    spec = {
        "volumes": [{"name": "big", "hostPath": {"path": "/srv/big"}}],
        "containers": [{"name": "node", "volumeMounts": [{"name": "big", "mountPath": "/data", "subPath": "v1"}]}],
    }
    planned = plan(
        trainjob(
            {"args": ["--data=/data/train"], "env": [{"name": "DATA", "value": "/data"}]},
            runtimePatches=[patch("node", spec=spec)],
        ),
        runtime(),
        place=PLACE,
    )
    main = planned.pods[0].main
    assert (main.argv[-1], main.env["DATA"]) == ("--data=/srv/big/v1/train", "/srv/big/v1")
    assert planned.notes == ("/data is /srv/big/v1 on this machine",)


def test_what_has_no_meaning_is_named_once() -> None:
    spec = {
        "nodeSelector": {"gpu": "a100"},
        "tolerations": [{"key": "x"}],
        "volumes": [{"name": "pvc", "persistentVolumeClaim": {"claimName": "c"}}],
        "containers": [{"name": "node", "volumeMounts": [{"name": "pvc", "mountPath": "/pvc"}]}],
    }
    named = trainjob(
        {"image": "img:1", "numNodes": 2, "resourcesPerNode": {"requests": {"cpu": 2}, "limits": {"memory": "1Gi"}}},
        runtimePatches=[patch("node", spec=spec)],
    )
    named["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    assert plan(named, runtime(), place=PLACE).notes == (
        "images are not used, this machine's programs are: img:1",
        "resources are not reserved: cpu 2, memory 1Gi",
        "volumes are not mounted, processes see this machine's files: pvc at /pvc",
        "without meaning on this machine: nodeSelector, tolerations",
        'Kueue\'s queue "team" is not asked: this machine has a queue of its own',
    )


@pytest.mark.parametrize(
    ("broken", "field"),
    [
        (patch("nodes"), "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].name"),
        (
            patch("node", spec={"containers": [{"name": "trainer"}]}),
            "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].name",
        ),
    ],
)
def test_a_patch_for_what_is_not_there_is_refused(broken: Raw, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan(trainjob(runtimePatches=[broken]), runtime(), place=PLACE)
    assert caught.value.field == field


# ---------------------------------------------------------------------------------------------------- the initializers


@pytest.mark.parametrize(
    "name", ["torch-distributed", "jax-distributed", "xgboost-distributed", "plain", "deepspeed-distributed"]
)
def test_initializers_run_before_the_nodes(name: str) -> None:
    wanted = {
        "dataset": {"storageUri": "hf://org/data", "env": [{"name": "IGNORE_PATTERNS", "value": "*.txt"}]},
        "model": {"storageUri": "file:///models/x"},
    }
    command = ["mpirun", "x.py"] if name == "deepspeed-distributed" else ["python", "x.py"]
    planned = plan(trainjob({"command": command}, initializer=wanted), runtime(name), place=PLACE)
    dataset, model = step(planned, "dataset-initializer"), step(planned, "model-initializer")
    assert (dataset.storage_uri, dataset.target_dir, len(dataset.pods)) == ("hf://org/data", "/j/data", 1)
    assert dataset.pods[0].main.role == "initializer"
    assert dataset.pods[0].main.argv == ("fetch", "dataset", "hf://org/data", "/j/data")
    assert dataset.pods[0].main.env["IGNORE_PATTERNS"] == "*.txt"
    assert dataset.pods[0].main.env["STORAGE_URI"] == "hf://org/data"
    assert model.pods[0].main.argv == ("fetch", "model", "file:///models/x", "/j/model")
    node = step(planned, "node")
    assert node.depends_on == (("dataset-initializer", "Complete"), ("model-initializer", "Complete"))
    assert node.pods[0].main.env["TRAINER_OPS_DATASET_DIR"] == "/j/data"
    assert node.pods[0].main.env["TRAINER_OPS_MODEL_DIR"] == "/j/model"
    assert {"/j/data", "/j/model"} <= set(planned.folders)


def test_only_the_initializer_asked_for_is_run_and_its_path_is_known() -> None:
    asked = trainjob(
        {"args": ["--data", "/workspace/dataset/train", "--model", "/workspace/model"]},
        initializer={"dataset": {"storageUri": "file:///d"}},
    )
    planned = plan(asked, runtime(), place=PLACE)
    assert [s.name for s in planned.steps] == ["dataset-initializer", "node"]
    assert step(planned, "node").pods[0].main.argv[2:] == ("--data", "/j/data/train", "--model", "/workspace/model")
    assert "TRAINER_OPS_MODEL_DIR" not in step(planned, "node").pods[0].main.env
    assert planned.notes == ("/workspace/dataset is /j/data on this machine",)


def initializer_runtime(**container: Any) -> TrainingRuntime:
    init = job("fetch", {"name": "dataset-initializer", **container}, ancestor="dataset-initializer")
    return own(init, {**NODE, "dependsOn": [{"name": "fetch", "status": "Complete"}]})


def test_a_runtime_may_say_itself_what_to_fetch() -> None:
    uri = [{"name": "BASE", "value": "org"}, {"name": "STORAGE_URI", "value": "hf://$(BASE)/x"}]
    planned = plan(trainjob(), initializer_runtime(env=uri), place=PLACE)
    assert [(s.name, s.storage_uri) for s in planned.steps] == [("fetch", "hf://org/x"), ("node", None)]


def test_a_runtime_may_bring_its_own_program() -> None:
    asked = trainjob(initializer={"dataset": {"storageUri": "s3://bucket/x"}})
    planned = plan(asked, initializer_runtime(command=["fetcher", "$(STORAGE_URI)"]), place=PLACE)
    fetch = planned.steps[0]
    assert (fetch.pods[0].main.role, fetch.pods[0].main.argv) == ("main", ("fetcher", "s3://bucket/x"))
    assert (fetch.storage_uri, fetch.target_dir) == (None, "/j/data")


@pytest.mark.parametrize(
    ("initializer", "name", "field", "words"),
    [
        ({"dataset": {"storageUri": "s3://b/x"}}, "plain", "spec.initializer.dataset.storageUri", '"s3://b/x"'),
        ({"model": {"storageUri": "cache://x"}}, "plain", "spec.initializer.model.storageUri", '"cache://x"'),
        ({"model": {"storageUri": "file://"}}, "plain", "spec.initializer.model.storageUri", '"file://"'),
        ({"dataset": {}}, "plain", "spec.initializer.dataset.storageUri", "missing"),
        (
            {"dataset": {"storageUri": "hf://a/b", "secretRef": {"name": "s"}}},
            "plain",
            "spec.initializer.dataset.secretRef",
            "no Secrets",
        ),
        ({"dataset": {"storageUri": "hf://a/b"}}, None, "spec.initializer.dataset", "has no job for it"),
    ],
)
def test_initializers_that_cannot_be_run_are_refused(
    initializer: Raw, name: str | None, field: str, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        plan(trainjob(initializer=initializer), own(NODE) if name is None else runtime(name), place=PLACE)
    assert caught.value.field == field
    assert caught.value.remedy


# --------------------------------------------------------------------------------------------------------- the refusals


@pytest.mark.parametrize(
    ("broken", "using", "field"),
    [
        (trainjob(), own(NODE, policy={"flux": {}}), 'runtime "own": spec.mlPolicy.flux'),
        (trainjob({"command": ["tune", "run"]}), runtime(), "spec.trainer.command"),
        (trainjob({"numNodes": 0}), runtime(), "spec.trainer.numNodes"),
        (trainjob(), own(NODE, job("ps", replicas=2)), 'runtime "own", job ps: replicas'),
        ({"metadata": {"generateName": "t-"}, "spec": {}}, runtime(), "metadata.name"),
        (trainjob(), own(NODE, job("ps", {"name": "ps"})), 'runtime "own", job ps, container ps: command'),
    ],
)
def test_what_cannot_be_run_here_is_refused_by_path(broken: Raw, using: TrainingRuntime, field: str) -> None:
    with pytest.raises(InvalidRequest, match="this machine cannot run the TrainJob") as caught:
        plan(broken, using, place=PLACE)
    assert caught.value.field == field
    assert caught.value.remedy


def test_a_whole_tune_command_is_the_users_own() -> None:
    planned = plan(trainjob({"command": ["tune", "run", "full_finetune_single_device"]}), runtime(), place=PLACE)
    assert planned.pods[0].main.argv[0] == "tune"


def test_host_names_of_the_job_are_on_loopback_here() -> None:
    # What a migrated PyTorchJob carries in its env.
    env = [{"name": "MASTER_ADDR", "value": "t-node-0-0.t"}, {"name": "MASTER_PORT", "value": "29500"}]
    planned = plan(trainjob({"numNodes": 2, "env": env}), runtime(), place=PLACE)
    assert [p.main.env["MASTER_ADDR"] for p in planned.pods] == ["127.0.0.1", "127.0.0.1"]
    assert planned.notes == ("the pods' host names are 127.0.0.1 on this machine",)


def test_differences_are_named_once_each() -> None:
    names = [name for name, _ in DONE]
    assert len(set(names)) == len(names)
    assert all(why for _, why in DONE)
    found = [(row.what, row.cluster) for row in FOUND]
    assert len(set(found)) == len(found)
    assert all(row.why for row in FOUND)


IMPURE = {
    "os",
    "pathlib",
    "time",
    "datetime",
    "asyncio",
    "subprocess",
    "socket",
    "logging",
    "threading",
    "tempfile",
    "random",
    "sys",
}


def test_the_plan_is_pure() -> None:
    files = [f for f in (resources.files("trainer_ops.local")).iterdir() if f.name.startswith("plan")]
    assert len(files) > 5
    for file in files:
        for found in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            modules = [a.name for a in found.names] if isinstance(found, ast.Import) else []
            modules += [found.module or ""] if isinstance(found, ast.ImportFrom) else []
            assert not {m.partition(".")[0] for m in modules} & IMPURE, file.name


GIVEN: dict[str, tuple[str, str]] = {
    "a folder": ("/srv/5a/data", "/srv/5a/data/x"),
    "a folder with an escaped reference": ("/srv/$$(x)", "/srv/$(x)/x"),
    "no folder": ("relative", "/workspace/dataset/x"),
    "the cluster's own path": ("/workspace/dataset", "/workspace/dataset/x"),
    "a folder below that": ("/workspace/dataset/5a/data", "/workspace/dataset/x"),
}


@pytest.mark.parametrize(("given", "seen"), GIVEN.values(), ids=GIVEN.keys())
def test_the_clusters_path_is_the_folder_of_a_snapshot(given: str, seen: str) -> None:
    env = [{"name": "TRAINER_OPS_DATASET_DIR", "value": given}]
    planned = plan(trainjob({"command": ["run", "/workspace/dataset/x"], "env": env}), own(NODE), place=PLACE)
    main = planned.steps[0].pods[0].main
    assert main.argv == ("run", seen)
    assert main.env["TRAINER_OPS_DATASET_DIR"] == given.replace("$$", "$")
