"""A snapshot's Job: its name, its pod, what of the ask stands where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trainer_ops.build.snapshot_job import LABEL_SNAPSHOT, SnapshotAsk, claim, snapshot_job
from trainer_ops.errors import InvalidRequest

ASK: dict[str, Any] = {
    "uri": "hf://datasets/org/digits",
    "revision": "main",
    "include": ("*.csv", "deep/"),
    "ignore": ("*.tmp",),
    "store": "pvc://data/team",
    "image": "img:1",
}


def job(attempt: int = 1, **other: Any) -> dict[str, Any]:
    return snapshot_job(SnapshotAsk(**{**ASK, **other}), attempt, version="0.1.0", asked_by="run-1")


def pod(**other: Any) -> dict[str, Any]:
    found: dict[str, Any] = job(**other)["spec"]["template"]["spec"]
    return found


def container(**other: Any) -> dict[str, Any]:
    [found] = pod(**other)["containers"]
    return dict(found)


def test_equal_asks_give_equal_bytes() -> None:
    assert json.dumps(job()) == json.dumps(job())


def test_metadata() -> None:
    meta = job(2)["metadata"]
    digest = SnapshotAsk(**ASK).digest
    assert meta["name"] == f"snapshot-digits-{digest[:10]}-2"
    assert meta["labels"] == {
        "app.kubernetes.io/managed-by": "trainer-ops",
        LABEL_SNAPSHOT: digest,
        "trainer-ops/attempt": "2",
    }
    assert meta["annotations"] == {
        "trainer-ops/version": "0.1.0",
        "trainer-ops/asked-by": "run-1",
        "trainer-ops/source": "hf://datasets/org/digits@main",
    }


def test_a_program_that_ends_by_itself() -> None:
    spec = job(active_deadline_seconds=60)["spec"]
    assert spec["backoffLimit"] == 4
    assert spec["activeDeadlineSeconds"] == 60
    assert spec["ttlSecondsAfterFinished"] == 86400
    assert [rule["action"] for rule in spec["podFailurePolicy"]["rules"]] == ["Ignore", "FailJob"]
    assert spec["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"] == [1, 2]
    template = spec["template"]
    assert template["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"
    assert template["spec"]["restartPolicy"] == "Never"
    assert template["spec"]["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    assert "activeDeadlineSeconds" not in job()["spec"]


TAKE = "python3 -m trainer_ops.initializers take --store"
# (changes of the ask, the command)
COMMANDS: dict[str, tuple[dict[str, Any], str]] = {
    "everything": (
        {},
        (
            f"{TAKE} /store/team --location pvc://data/team --kind dataset --uri hf://datasets/org/digits "
            "--revision main --include *.csv --include deep/ --ignore *.tmp"
        ),
    ),
    "nothing but a source": (
        {"revision": "", "include": (), "ignore": (), "kind": "model", "store": "pvc://data"},
        f"{TAKE} /store --location pvc://data --kind model --uri hf://datasets/org/digits",
    ),
    "from another claim": (
        {"uri": "pvc://raw/x", "revision": "", "include": (), "ignore": ()},
        f"{TAKE} /store/team --location pvc://data/team --kind dataset --uri pvc://raw/x --mount raw=/claims/raw",
    ),
    "into object storage": (
        {"store": "s3://bucket/x", "revision": "", "include": (), "ignore": (), "args": ("--verify",)},
        f"{TAKE} s3://bucket/x --kind dataset --uri hf://datasets/org/digits --verify",
    ),
    "another verb": (
        {"verb": "verify", "args": ("5a5a",)},
        "python3 -m trainer_ops.initializers verify --store /store/team --location pvc://data/team 5a5a",
    ),
}


@pytest.mark.parametrize(("other", "command"), COMMANDS.values(), ids=COMMANDS.keys())
def test_command(other: dict[str, Any], command: str) -> None:
    assert " ".join(container(**other)["command"]) == command


# (changes of the ask, claims of the pod with readOnly, mounts)
VOLUMES: dict[str, tuple[dict[str, Any], list[tuple[str, bool]], dict[str, bool]]] = {
    "the store's": ({}, [("data", False)], {"/store": False}),
    "and the source's": (
        {"uri": "pvc://raw/x"},
        [("data", False), ("raw", True)],
        {"/store": False, "/claims/raw": True},
    ),
    "one for both": ({"uri": "pvc://data/x"}, [("data", False)], {"/store": False, "/claims/data": True}),
    "none for object storage": ({"store": "s3://b"}, [], {}),
}


@pytest.mark.parametrize(("other", "claims", "mounts"), VOLUMES.values(), ids=VOLUMES.keys())
def test_a_claim_is_one_volume(other: dict[str, Any], claims: list[tuple[str, bool]], mounts: dict[str, bool]) -> None:
    volumes = [v["persistentVolumeClaim"] for v in pod(**other)["volumes"] if "persistentVolumeClaim" in v]
    assert [(v["claimName"], v.get("readOnly", False)) for v in volumes] == claims
    found = {m["mountPath"]: m.get("readOnly", False) for m in container(**other)["volumeMounts"]}
    assert found == {"/scratch": False, **mounts}


def test_its_environment() -> None:
    found = container(secret_ref="hub", env={"ENDPOINT": "http://x", "HOME": "/mine", "N": 2})
    assert found["envFrom"] == [{"secretRef": {"name": "hub"}}]
    assert {row["name"]: row["value"] for row in found["env"]} == {
        "ENDPOINT": "http://x",
        "HOME": "/mine",
        "N": "2",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": "/scratch",
    }
    assert "envFrom" not in container()


def test_the_pods_own_fields_go_before_ours() -> None:
    found = pod(pod={"nodeSelector": {"a": "b"}, "securityContext": {}}, resources={"limits": {"memory": "8Gi"}})
    assert (found["nodeSelector"], found["securityContext"]) == ({"a": "b"}, {})
    assert found["containers"][0]["resources"] == {"limits": {"memory": "8Gi"}}
    with pytest.raises(InvalidRequest, match=r"pod\.containers: is what the Job is made of\. Leave it out"):
        pod(pod={"containers": []})


def test_labels_for_a_queue() -> None:
    queue = {"kueue.x-k8s.io/queue-name": "q"}
    made = job(labels=queue)
    assert queue.items() <= made["metadata"]["labels"].items()
    assert queue.items() <= made["spec"]["template"]["metadata"]["labels"].items()
    with pytest.raises(InvalidRequest, match=r"labels\.trainer-ops/attempt: is a name of ours"):
        job(labels={"trainer-ops/attempt": "7"})


OTHER: dict[str, dict[str, Any]] = {
    "source": {"uri": "hf://datasets/org/other"},
    "revision": {"revision": "v1"},
    "patterns": {"include": ("*.csv",)},
    "store": {"store": "pvc://data/other"},
    "Secret": {"secret_ref": "s"},
    "image": {"image": "img:2"},
    "token": {"token": "x"},
    "verb": {"verb": "list"},
}


@pytest.mark.parametrize("other", OTHER.values(), ids=OTHER.keys())
def test_another_ask_is_another_job(other: dict[str, Any]) -> None:
    assert SnapshotAsk(**{**ASK, **other}).digest != SnapshotAsk(**ASK).digest


NAMES: dict[str, tuple[dict[str, Any], str]] = {
    "a repository": ({}, "snapshot-digits-"),
    "a long name": ({"uri": "s3://b/" + "x" * 80}, "snapshot-xxxxxxxxxxxxxxxxxxxxxx-"),
    "a number": ({"uri": "s3://b/2026"}, "snapshot-t-2026-"),
    "a file": ({"uri": "https://h/a/Train Set.csv"}, "snapshot-train-set-csv-"),
    "no letters": ({"uri": "s3://b/数据"}, "snapshot-"),
    "another verb": ({"verb": "gc", "uri": ""}, "snapshot-gc-"),
}


@pytest.mark.parametrize(("other", "begins"), NAMES.values(), ids=NAMES.keys())
def test_names_fit_with_those_of_pods(other: dict[str, Any], begins: str) -> None:
    name = SnapshotAsk(**{**ASK, **other}).name(9999)
    assert name.startswith(begins)
    assert len(name) <= 57


def test_an_ask_crosses_processes() -> None:
    ask = SnapshotAsk(**ASK, env={"A": {"secretKeyRef": {"name": "s", "key": "k"}}}, active_deadline_seconds=5)
    carried = SnapshotAsk.from_json(json.loads(json.dumps(ask.to_json())))
    assert carried == ask
    assert carried.digest == ask.digest
    assert SnapshotAsk.from_json(SnapshotAsk().to_json()) == SnapshotAsk()


def test_a_claim() -> None:
    made = claim("data", storage="20Gi", storage_class=None, access_mode="ReadWriteMany")
    assert made["spec"] == {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "20Gi"}}}
    assert claim("d", storage="1Gi", storage_class="", access_mode="ReadWriteOnce")["spec"]["storageClassName"] == ""
