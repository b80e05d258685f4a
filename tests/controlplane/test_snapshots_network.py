"""Snapshots whose source a cluster serves: S3, the hub and a web server in a pod, credentials out of Secrets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import trainer_ops
from tests.controlplane.api import path_of
from tests.controlplane.fixtures import Cluster, unused_name
from tests.controlplane.plane import wait_until
from tests.controlplane.sources import BIG, CUT, FILES, KEPT
from tests.controlplane.trainings import IMAGE, Heard, target_of
from trainer_ops.backends.kubernetes.hub import end_idle
from trainer_ops.cli import main
from trainer_ops.errors import TrainerOpsError
from trainer_ops.initializers.manifest import Manifest
from trainer_ops.lifecycle.clock import RealClock
from trainer_ops.lifecycle.snapshots import take_snapshot
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model.snapshot import Snapshot

pytest.importorskip("huggingface_hub")
pytest.importorskip("moto.server")
pytest.importorskip("s3fs")
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
STORE: dict[str, Any] = {"to": "pvc://store/team", "storage": "1Gi"}


class Town:
    """A namespace with the sources, and Secrets that do and do not fit.

    Attributes:
        told: what the sources have said of themselves.
        asks: arguments of ``take_snapshot`` that work, by source.
        notes: all that listeners were told.
    """

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.target = target_of(cluster, namespace)
        self.backend = open_backend(self.target)
        self.notes: list[str] = []
        self.folder = self._serve()
        self.told: dict[str, dict[str, str]] = json.loads((self.folder / "ready.json").read_text())
        s3, hub, web = (self.told[name] for name in ("s3", "hub", "web"))
        self.endpoint = {"AWS_ENDPOINT_URL": s3["AWS_ENDPOINT_URL"]}
        key, secret = s3["AWS_ACCESS_KEY_ID"], s3["AWS_SECRET_ACCESS_KEY"]
        self.secrets = [secret, hub["HF_TOKEN"], web["HTTP_TOKEN"], "wrong-secret-0123456789", "hf_wrong0123456789"]
        self._secret("aws", AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=f"{secret}\n")
        self._secret("hub", HF_TOKEN=hub["HF_TOKEN"], HF_ENDPOINT=hub["HF_ENDPOINT"])
        self._secret("web", HTTP_TOKEN=web["HTTP_TOKEN"])
        self._secret("unknown", AWS_ACCESS_KEY_ID="AKIAUNKNOWN000000000", AWS_SECRET_ACCESS_KEY=self.secrets[3])
        self._secret("half", AWS_ACCESS_KEY_ID=key)
        self._secret("others", accesskey=key, secretkey=secret)
        self._secret("old", HF_TOKEN=self.secrets[4], HF_ENDPOINT=hub["HF_ENDPOINT"])
        self.asks: dict[str, dict[str, Any]] = {
            "s3": {"uri": "s3://digits/set", "secret_ref": "aws", "env": self.endpoint},
            "hub": {"uri": "hf://org/digits", "kind": "model", "revision": "main", "secret_ref": "hub"},
            "web": {"uri": web["uri"], "secret_ref": "web"},
        }

    def _serve(self) -> Path:
        mount = {"name": "told", "mountPath": "/told"}
        container = {
            "name": "sources",
            "image": IMAGE,
            "workingDir": str(ROOT),
            "command": ["python3", "-m", "tests.controlplane.sources", "$(ADDRESS)", "/told"],
            "env": [{"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "volumeMounts": [mount],
        }
        volume = {"name": "told", "persistentVolumeClaim": {"claimName": "told"}}
        size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
        self._make("PersistentVolumeClaim", "told", {"spec": size})
        self._make("Pod", "sources", {"spec": {"containers": [container], "volumes": [volume]}})
        folder = self.cluster.kubelet.claim(self.namespace, "told")
        wait_until("the sources listen", (folder / "ready.json").exists)
        return folder

    def _make(self, kind: str, name: str, rest: Mapping[str, Any]) -> None:
        obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **rest}
        self.cluster.api.create(obj, namespace=self.namespace)

    def _secret(self, name: str, **data: str) -> None:
        self._make("Secret", name, {"stringData": data})

    def take(self, asked: Mapping[str, Any]) -> Snapshot:
        given = {**STORE, **asked}
        return take_snapshot(self.backend, given.pop("uri"), clock=RealClock(), listener=self, **given)

    def take_all(self) -> dict[str, Snapshot]:
        """One of each source, at once."""
        with ThreadPoolExecutor(len(self.asks)) as pool:
            return dict(zip(self.asks, pool.map(self.take, self.asks.values()), strict=True))

    def asked(self) -> list[str]:
        """Reads of content, as the sources saw them."""
        return sorted((self.folder / "asked").read_text().splitlines())

    def claimed(self, made: Snapshot) -> Path:
        return self.cluster.kubelet.claim(self.namespace, "store") / "team" / made.key

    def on_start(self, files: int, size: int, done: int) -> None:
        """How much there is."""

    def on_progress(self, size: int, files: int) -> None:
        """How far it is."""

    def on_note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(scope="module")
def town(control_plane: Cluster) -> Iterator[Town]:
    if control_plane.kubelet.mode == "plain":
        pytest.skip("it needs containers: the sources are at a pod's address")
    name = control_plane.plane.namespace(unused_name("town"))
    made = Town(control_plane, name)
    yield made
    made.backend.close()
    control_plane.api.delete("Namespace", name)
    assert end_idle()


@pytest.fixture(scope="module")
def made(town: Town) -> dict[str, Snapshot]:
    """The snapshots that all tests may look at."""
    return town.take_all()


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_lies_on_the_claim(town: Town, made: dict[str, Snapshot]) -> None:
    for name, snapshot in made.items():
        files = {"big.bin": BIG} if name == "web" else FILES
        assert content(town.claimed(snapshot) / "data") == files
        manifest = Manifest.load((town.claimed(snapshot) / "manifest.json").read_text())
        assert (manifest.uri, manifest.revision) == (town.asks[name]["uri"], snapshot.revision)
        assert {(f.path, f.size, f.sha256) for f in manifest.files} == {
            (path, len(data), hashlib.sha256(data).hexdigest()) for path, data in files.items()
        }
        assert (snapshot.location, snapshot.hit) == (f"pvc://store/team/{snapshot.key}/data", False)
    assert made["hub"].revision == town.told["hub"]["commit"]
    assert made["web"].revision == "v1"
    assert len(made["s3"].revision) == 40


def test_each_is_fetched_once_and_gone_on_with_after_a_cut(town: Town, made: dict[str, Snapshot]) -> None:
    read = town.asked()
    assert [line for line in read if line.startswith("web ")] == [
        "web GET /big.bin - 200",
        f"web GET /big.bin bytes={CUT}- 206",
    ]
    # By signed URLs, and from the store behind the hub.
    assert [line for line in read if line.startswith("s3 ")] == [
        "s3 GET /digits/set/deep/big.bin - 200",
        "s3 GET /digits/set/train.csv - 200",
    ]
    assert [line[-5:] for line in read if line.startswith("hub ")] == ["- 200"]
    again = town.take_all()
    assert {name: (one.key, one.digest, one.hit) for name, one in again.items()} == {
        name: (one.key, one.digest, True) for name, one in made.items()
    }
    assert town.asked() == read


def measure() -> dict[str, Any]:
    import os

    dataset, model = os.environ["TRAINER_OPS_DATASET_DIR"], os.environ["TRAINER_OPS_MODEL_DIR"]
    with open(f"{dataset}/train.csv") as table:
        total = sum(map(float, table.read().split()))
    return {"metrics": {"total": total, "bytes": os.path.getsize(f"{model}/deep/big.bin")}}


def test_a_training_reads_them(town: Town, made: dict[str, Snapshot]) -> None:
    heard = Heard()
    outcome = trainer_ops.run(
        runtime="xgboost-distributed",
        python_callable=measure,
        dataset=made["s3"],
        model=made["hub"],
        target=town.target,
        listener=heard,
        max_restarts=0,
        wait_timeout=120,
    )
    assert outcome.succeeded, f"{outcome.diagnosis}\n{heard.text()}"
    assert outcome.metrics == {"total": 6.0, "bytes": float(len(BIG))}


def test_a_store_in_object_storage(
    town: Town, made: dict[str, Snapshot], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source's token is one key of another Secret; a store wants no claim."""
    token = {"HTTP_TOKEN": {"secretKeyRef": {"name": "web", "key": "HTTP_TOKEN"}}}
    asked = {**town.asks["web"], "to": f"s3://{KEPT}/team", "storage": None, "secret_ref": "aws"}
    kept = town.take({**asked, "env": {**town.endpoint, **token}})
    assert kept.location == f"s3://{KEPT}/team/{made['web'].key}/data"
    assert (kept.digest, kept.hit) == (made["web"].digest, False)
    monkeypatch.setenv("TRAINER_OPS_TARGET", town.target)
    endpoint = f"AWS_ENDPOINT_URL={town.endpoint['AWS_ENDPOINT_URL']}"
    assert (
        main(["snapshots", "list", "--to", f"s3://{KEPT}/team", "--secret", "aws", "-e", endpoint, "-o", "json"]) == 0
    )
    (row,) = json.loads(capsys.readouterr().out)["snapshots"]
    assert (row["key"], row["location"], row["bytes"]) == (kept.key, kept.location, len(BIG))


GIVEN = "The Job was given Secret {0} of namespace {1}"
# (source, what is asked for instead, words, the end of the remedy)
REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "an unknown key": (
        "s3",
        {"secret_ref": "unknown"},
        "credentials wrong: the bucket digits at 10.88.",
        GIVEN.format("unknown", "{}"),
    ),
    "half a key": (
        "s3",
        {"secret_ref": "half"},
        "credentials incomplete: AWS_SECRET_ACCESS_KEY is missing",
        GIVEN.format("half", "{}, whose keys must have these names"),
    ),
    "keys of other names": (
        "s3",
        {"secret_ref": "others"},
        "credentials missing: the bucket digits at 10.88.",
        GIVEN.format("others", "{}, whose keys must have these names"),
    ),
    "no Secret": (
        "web",
        {"secret_ref": None},
        "token missing",
        "The Job was given no Secret: name one of namespace {} with secret_ref",
    ),
    "a token that has expired": ("hub", {"secret_ref": "old"}, "token wrong", GIVEN.format("old", "{}")),
    "an endpoint that is no URL": (
        "s3",
        {"env": {"AWS_ENDPOINT_URL": "minio:9000"}},
        "the endpoint of s3:// is not a URL",
        "as in AWS_ENDPOINT_URL=http://minio:9000.",
    ),
}


def test_what_is_refused_says_whose_credentials_they_were(town: Town) -> None:
    with ThreadPoolExecutor(len(REFUSED)) as pool:
        told = dict(zip(REFUSED, pool.map(lambda case: failure(town, *case[:2]), REFUSED.values()), strict=True))
    for name, (_, _, words, remedy) in REFUSED.items():
        assert words in str(told[name]), name
        assert told[name].remedy.endswith(remedy.format(town.namespace)), name
    # None of them was worth a second try.
    assert len(of_snapshots(town, "Pod")) == len(of_snapshots(town, "Job"))
    assert [note for note in town.notes if "tried again" in note] == []


def failure(town: Town, source: str, asked: Mapping[str, Any]) -> TrainerOpsError:
    with pytest.raises(TrainerOpsError) as caught:
        town.take({**town.asks[source], **asked})
    town.notes.append(f"{caught.value}")
    return caught.value


def of_snapshots(town: Town, kind: str) -> list[dict[str, Any]]:
    return town.cluster.api.list(kind, namespace=town.namespace, labelSelector="trainer-ops/snapshot")


def log_of(town: Town, pod: str) -> str:
    return str(town.cluster.api.call("GET", path_of("Pod", town.namespace, pod, "log")))


def test_a_terminal_tells_each_thing_once(
    town: Town, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINER_OPS_TARGET", town.target)
    endpoint = f"AWS_ENDPOINT_URL={town.endpoint['AWS_ENDPOINT_URL']}"
    argv = ("init", "dataset", "s3://none/set", "--to", "pvc://store/team", "-e", endpoint, "--secret")
    assert main([*argv, "aws"]) == 2
    said = capsys.readouterr()
    server = endpoint.partition("://")[2].partition(":")[0]
    assert "error" not in said.out
    assert said.err == (
        f"invalid request: URI: there is no bucket none at {server}. "
        "Check the name, and the endpoint and account that are asked.\n"
    )


def test_no_secret_is_written_anywhere(town: Town, made: dict[str, Snapshot]) -> None:
    kinds = ("Job", "Pod", "Event", "TrainJob")
    texts = [json.dumps(town.cluster.api.list(kind, namespace=town.namespace)) for kind in kinds]
    texts += [log_of(town, pod["metadata"]["name"]) for pod in of_snapshots(town, "Pod")]
    texts += [*town.notes, *((town.claimed(one) / "manifest.json").read_text() for one in made.values())]
    assert [text for text in texts if "is whole" in text]
    assert [secret for secret in town.secrets if any(secret in text for text in texts)] == []
