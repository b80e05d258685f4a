"""Snapshots in a TrainJob: mounted, told, hashed, refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.build.manifest import BuiltJob
from trainer_ops.build.mounts import Place, place_of
from trainer_ops.errors import InvalidRequest
from trainer_ops.model import keys
from trainer_ops.model.runtime import TrainingRuntime
from trainer_ops.model.snapshot import Snapshot
from trainer_ops.validate.trainjob import check

Built = Callable[..., BuiltJob]
RuntimeOf = Callable[..., TrainingRuntime]
CLUSTER, MACHINE = "kubernetes://prod/team-a", "local:///srv/engine"


def snapshot(location: str, **other: Any) -> Snapshot:
    fields = {"kind": "dataset", "uri": "hf://datasets/a/b", "revision": "c0ffee", "key": "5a" * 16, **other}
    return Snapshot(location=location, digest=fields.pop("digest", "sha256:1"), **fields)


ON_CLAIM = snapshot("pvc://data/store/5a5a/data")
HERE = snapshot("file:///srv/snapshots/5a5a/data")
IN_BUCKET = snapshot("s3://bucket/store/5a5a/data")

# (location, where that is)
PLACES: dict[str, tuple[str, Place]] = {
    "a folder": ("file:///srv/x/data", Place("file", "/srv/x/data")),
    "a folder with odd letters": ("file:///srv/a%20b/d%C3%A9", Place("file", "/srv/a b/dé")),
    "on a claim": ("pvc://team-a.data/store/x", Place("pvc", "store/x", "team-a.data")),
    "a whole claim": ("pvc://data", Place("pvc", "", "data")),
    "a bucket": ("s3://bucket/x", Place("s3")),
    "a bucket of Google": ("gs://bucket", Place("gs")),
    "a container of Azure": ("az://box/x", Place("az")),
}


@pytest.mark.parametrize(("location", "place"), PLACES.values(), ids=PLACES.keys())
def test_places(location: str, place: Place) -> None:
    assert place_of(location, "dataset") == place


NO_PLACES = ["", "/srv/x", "file://host/x", "file:x", "pvc://UPPER/x", "pvc:///x", "hf://a/b", "s3:///x"]


@pytest.mark.parametrize("location", NO_PLACES)
def test_no_places(location: str) -> None:
    with pytest.raises(InvalidRequest, match=r"dataset: .* is no place of a snapshot\. Give file:///folder, pvc://"):
        place_of(location, "dataset")


def test_a_place_does_not_lead_out_of_its_store() -> None:
    for location in ("pvc://data/../x", "file:///a/%2e%2e/x"):
        with pytest.raises(InvalidRequest, match="leads out of its store"):
            place_of(location, "dataset")


def own_patches(made: BuiltJob) -> list[dict[str, Any]]:
    found = made.manifest["spec"].get("runtimePatches") or []
    return [patch for patch in found if patch["manager"].startswith("trainer-ops.")]


def pods_of(patch: dict[str, Any]) -> dict[str, dict[str, Any]]:
    jobs = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    return {job["name"]: job["template"]["spec"]["template"]["spec"] for job in jobs}


def env_of(made: BuiltJob) -> dict[str, Any]:
    rows = made.manifest["spec"]["trainer"]["env"]
    found = {row["name"]: row["value"] for row in rows}
    return {name: value for name, value in found.items() if name.endswith(("_DIR", "_URI"))}


def with_containers(runtime: TrainingRuntime, **pods: dict[str, Any]) -> TrainingRuntime:
    """The runtime with these pod specs in its jobs; every job has a container ``node`` unless said."""
    jobs = runtime.raw["spec"]["template"]["spec"]["replicatedJobs"]
    for job in jobs:
        pod = {"containers": [{"name": "node", "image": "i"}], **pods.get(job["name"].replace("-", "_"), {})}
        job["template"]["spec"] = {"template": {"spec": pod}}
    return TrainingRuntime.from_raw(runtime.raw)


def test_on_a_claim_it_is_mounted_where_the_initializers_would_have_put_it(built: Built, runtime_of: RuntimeOf) -> None:
    runtime = with_containers(runtime_of("torch", "dataset-initializer", "node"))
    made = built({"dataset": ON_CLAIM}, runtime=runtime, target=CLUSTER)
    [patch] = own_patches(made)
    assert patch["manager"] == keys.PATCH_MANAGER
    assert pods_of(patch) == {
        "node": {
            "volumes": [
                {"name": "trainer-ops-dataset", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}
            ],
            "containers": [
                {
                    "name": "node",
                    "volumeMounts": [
                        {
                            "name": "trainer-ops-dataset",
                            "mountPath": "/workspace/dataset",
                            "subPath": "store/5a5a/data",
                            "readOnly": True,
                        }
                    ],
                }
            ],
        }
    }
    assert env_of(made) == {"TRAINER_OPS_DATASET_DIR": "/workspace/dataset"}
    assert "initializer" not in made.manifest["spec"]
    assert [found for found in check(made.manifest, runtime) if found.is_error] == []


def test_launcher_and_nodes_have_it(built: Built, runtime_of: RuntimeOf) -> None:
    made = built({"model": ON_CLAIM}, runtime=with_containers(runtime_of("mpi", "launcher", "node")), target=CLUSTER)
    assert set(pods_of(own_patches(made)[0])) == {"launcher", "node"}
    assert env_of(made) == {"TRAINER_OPS_MODEL_DIR": "/workspace/model"}


def test_it_shares_the_patch_of_the_grace_period(built: Built) -> None:
    made = built({"dataset": ON_CLAIM, "termination_grace_period_seconds": 90}, target=CLUSTER)
    [patch] = own_patches(made)
    pod = pods_of(patch)["node"]
    assert pod["terminationGracePeriodSeconds"] == 90
    assert [volume["name"] for volume in pod["volumes"]] == ["trainer-ops-dataset"]


def test_two_claims_are_two_volumes_of_one_patch(built: Built) -> None:
    made = built({"dataset": ON_CLAIM, "model": snapshot("pvc://models/x/data")}, target=CLUSTER)
    [patch] = own_patches(made)
    pod = pods_of(patch)["node"]
    assert [volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]] == ["data", "models"]
    mounts = pod["containers"][0]["volumeMounts"]
    assert [mount["mountPath"] for mount in mounts] == ["/workspace/dataset", "/workspace/model"]


def test_one_claim_is_one_volume_of_two_patches(built: Built, runtime_of: RuntimeOf) -> None:
    """A claim twice in a pod may never be mounted, and one patch mounts a volume once only."""
    runtime = with_containers(runtime_of("torch"))
    fields = {"dataset": ON_CLAIM, "model": snapshot("pvc://data/store/77/data"), "termination_grace_period_seconds": 5}
    made = built(fields, runtime=runtime, target=CLUSTER)
    first, second = map(pods_of, own_patches(made))
    assert [volume["name"] for volume in first["node"]["volumes"]] == ["trainer-ops-dataset"]
    assert set(second["node"]) == {"containers"}
    [mount] = second["node"]["containers"][0]["volumeMounts"]
    assert (mount["name"], mount["mountPath"], mount["subPath"]) == (
        "trainer-ops-dataset",
        "/workspace/model",
        "store/77/data",
    )
    assert [found for found in check(made.manifest, runtime) if found.is_error] == []


def test_a_claim_that_the_runtime_mounts_already_is_not_added_again(built: Built, runtime_of: RuntimeOf) -> None:
    held = {"volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "data"}}]}
    made = built({"dataset": ON_CLAIM}, runtime=with_containers(runtime_of("torch"), node=held), target=CLUSTER)
    pod = pods_of(own_patches(made)[0])["node"]
    assert "volumes" not in pod
    assert pod["containers"][0]["volumeMounts"][0]["name"] == "shared"


def test_a_claim_of_the_users_own_patch_is_not_added_again(built: Built) -> None:
    pod = {"volumes": [{"name": "mine", "persistentVolumeClaim": {"claimName": "data"}}]}
    row = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    patch = {"manager": "a.b/c", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [row]}}}}
    made = built({"dataset": ON_CLAIM, "runtime_patches": [patch]}, target=CLUSTER)
    assert pods_of(own_patches(made)[0])["node"]["containers"][0]["volumeMounts"][0]["name"] == "mine"


CONTAINERS: dict[str, tuple[list[str], str]] = {
    "Trainer's": (["sidecar", "node"], "node"),
    "named like its job": (["sidecar", "work"], "work"),
    "the first": (["one", "two"], "one"),
}


@pytest.mark.parametrize(("names", "expected"), CONTAINERS.values(), ids=CONTAINERS.keys())
def test_the_container_that_trains(built: Built, runtime_of: RuntimeOf, names: list[str], expected: str) -> None:
    pod = {"containers": [{"name": name, "image": "i"} for name in names]}
    made = built({"dataset": ON_CLAIM}, runtime=with_containers(runtime_of("torch", "work"), work=pod), target=CLUSTER)
    assert pods_of(own_patches(made)[0])["work"]["containers"][0]["name"] == expected


def test_a_whole_claim_has_no_sub_path(built: Built) -> None:
    made = built({"dataset": snapshot("pvc://data")}, target=CLUSTER)
    [mount] = pods_of(own_patches(made)[0])["node"]["containers"][0]["volumeMounts"]
    assert "subPath" not in mount


def test_on_this_machine_it_is_a_path_in_the_same_variable(built: Built) -> None:
    made = built({"dataset": HERE, "model": snapshot("file:///srv/$(x)/data")}, target=MACHINE)
    assert env_of(made) == {
        "TRAINER_OPS_DATASET_DIR": "/srv/snapshots/5a5a/data",
        "TRAINER_OPS_MODEL_DIR": "/srv/$$(x)/data",
    }
    assert own_patches(made) == []


# An initializer's job as Trainer wants it.
FETCHES = {"containers": [{"name": "dataset-initializer", "volumeMounts": [{"name": "initializer"}]}]}

# (snapshot, the runtime's jobs, target, spec.initializer, variables)
OBJECTS: dict[str, tuple[Snapshot, tuple[str, ...], str, Any, dict[str, str]]] = {
    "fetched by the runtime's job": (
        IN_BUCKET,
        ("dataset-initializer", "node"),
        CLUSTER,
        {"dataset": {"storageUri": IN_BUCKET.location}},
        {"TRAINER_OPS_DATASET_URI": IN_BUCKET.location, "TRAINER_OPS_DATASET_DIR": "/workspace/dataset"},
    ),
    "told, where the runtime has no job": (
        IN_BUCKET,
        ("node",),
        CLUSTER,
        None,
        {"TRAINER_OPS_DATASET_URI": IN_BUCKET.location},
    ),
    "told, where Trainer does not know the scheme": (
        snapshot("gs://bucket/x"),
        ("dataset-initializer", "node"),
        CLUSTER,
        None,
        {"TRAINER_OPS_DATASET_URI": "gs://bucket/x"},
    ),
    "told on this machine": (
        IN_BUCKET,
        ("dataset-initializer", "node"),
        MACHINE,
        None,
        {"TRAINER_OPS_DATASET_URI": IN_BUCKET.location},
    ),
}


@pytest.mark.parametrize(("given", "jobs", "target", "initializer", "env"), OBJECTS.values(), ids=OBJECTS.keys())
def test_in_object_storage(
    built: Built,
    runtime_of: RuntimeOf,
    given: Snapshot,
    jobs: tuple[str, ...],
    target: str,
    initializer: Any,
    env: dict[str, str],
) -> None:
    runtime = with_containers(runtime_of("torch", *jobs), dataset_initializer=FETCHES)
    made = built({"dataset": given}, runtime=runtime, target=target)
    assert made.manifest["spec"].get("initializer") == initializer
    assert env_of(made) == env
    assert own_patches(made) == []


def test_the_users_own_value_wins(built: Built) -> None:
    made = built({"dataset": HERE, "env": {"TRAINER_OPS_DATASET_DIR": "/mine"}}, target=MACHINE)
    assert env_of(made) == {"TRAINER_OPS_DATASET_DIR": "/mine"}


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a claim, on this machine": (
        {"dataset": ON_CLAIM},
        MACHINE,
        (
            'dataset: the snapshot "pvc://data/store/5a5a/data" lies on a claim of a cluster, and the training runs on '
            "this machine (local:///srv/engine). Let the initializer step and the training run on the same target, or "
            "keep snapshots in object storage"
        ),
    ),
    "a folder, on a cluster": (
        {"model": HERE},
        CLUSTER,
        (
            'model: the snapshot "file:///srv/snapshots/5a5a/data" lies on the machine that it was made on, and the '
            "training runs on kubernetes://prod/team-a. Let the initializer step and the training run on the same "
            "target, or keep snapshots in object storage"
        ),
    ),
    "our second manager": (
        {"runtime_patches": [{"manager": keys.PATCH_MANAGER_SECOND}]},
        CLUSTER,
        (
            f'runtime_patches[0].manager: "{keys.PATCH_MANAGER_SECOND}" marks the patches made from this request. '
            "Give another, such as your-domain.example/name"
        ),
    ),
    "no room for its mount": (
        {"runtime_patches": [{"manager": "a.b/c"}] * 16, "dataset": ON_CLAIM},
        CLUSTER,
        (
            "dataset: its mount needs one more entry in runtime_patches, which already has 16 of the 16 that are "
            "allowed. Join some of them into one"
        ),
    ),
}


@pytest.mark.parametrize(("fields", "target", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(built: Built, fields: dict[str, Any], target: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        built(fields, target=target)
    assert str(caught.value) == f"invalid request: {text}"


def test_the_same_files_are_the_same_request_wherever_they_lie(built: Built) -> None:
    hashes = {
        built({"dataset": given}).spec_hash
        for given in (ON_CLAIM, HERE, snapshot(ON_CLAIM.location, hit=True, revision="main"))
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("other", [{"key": "77" * 16}, {"digest": "sha256:2"}], ids=["key", "digest"])
def test_other_files_are_another_request(built: Built, other: dict[str, str]) -> None:
    assert built({"dataset": snapshot("pvc://data/x", **other)}).spec_hash != built({"dataset": ON_CLAIM}).spec_hash
