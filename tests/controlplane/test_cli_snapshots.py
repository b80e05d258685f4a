"""``trainer-ops init`` and ``snapshots`` with a cluster as their target."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.fixtures import Cluster
from tests.controlplane.plane import wait_until
from trainer_ops.cli import main

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

INIT = ("init", "dataset", "pvc://raw/digits", "--to", "pvc://store/team", "--storage", "1Gi")
AT = ("--to", "pvc://store/team")
MEASURE = """
import os, trainer_ops
folder = os.environ["TRAINER_OPS_DATASET_DIR"]
trainer_ops.report({"bytes": os.path.getsize(os.path.join(folder, "train.csv"))})
"""
HOLD = """
import os, time
while os.path.exists("/claims/raw/held"):
    time.sleep(0.05)
"""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Cli = Callable[..., Ran]


@pytest.fixture
def cli(cluster_target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.setenv("TRAINER_OPS_TARGET", cluster_target)

    def run(*argv: str) -> Ran:
        capsys.readouterr()
        code = main(argv)
        said = capsys.readouterr()
        return Ran(code, said.out, said.err)

    return run


@pytest.fixture
def claims(control_plane: Cluster, cluster_namespace: str) -> Iterator[Callable[[str], Path]]:
    """The folder behind a claim; ``raw`` has data on it, and lets Jobs wait while ``held`` is there."""
    if control_plane.kubelet.mode == "plain":
        pytest.skip("it needs containers: what a Job mounts is at paths of its own")
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "raw"}, "spec": spec}
    control_plane.api.create(claim, namespace=cluster_namespace)
    raw = control_plane.kubelet.claim(cluster_namespace, "raw")
    (raw / "digits").mkdir(parents=True)
    (raw / "digits" / "train.csv").write_text("1\n2\n3\n")
    (raw / "sitecustomize.py").write_text(HOLD)
    raw.chmod(0o755)
    yield lambda name: control_plane.kubelet.claim(cluster_namespace, name)
    (raw / "held").unlink(missing_ok=True)


def test_from_the_first_to_the_last(cli: Cli, claims: Callable[[str], Path], tmp_path: Path) -> None:
    made = cli(*INIT)
    assert made.code == 0, made.err + made.out
    notes = [line for line in made.out.splitlines() if line.startswith("· ")]
    assert "· made the claim store of 1Gi" in notes
    assert any(note.startswith("· made Job snapshot-digits-") for note in notes)
    again = cli(*INIT, "-o", "json")
    snapshot: dict[str, Any] = json.loads(again.out)
    assert snapshot["hit"]
    assert f"  use      trainer-ops run --dataset {snapshot['location']} …" in made.out

    script = tmp_path / "train.py"
    script.write_text(MEASURE)
    ran = cli("run", "-r", "xgboost-distributed", "-n", "1", "--dataset", snapshot["location"], "-q", "--", str(script))
    assert ran.code == 0, ran.err + ran.out
    assert "bytes 6" in ran.out

    (row,) = cli("snapshots", "list", *AT).out.splitlines()[1:]
    assert row.startswith(snapshot["key"][:12])
    assert cli("snapshots", "verify", *AT).code == 0
    file = claims("store") / "team" / snapshot["key"] / "data" / "train.csv"
    file.chmod(0o644)
    file.write_text("1\n")
    damaged = cli("snapshots", "verify", *AT)
    assert damaged.code == 1
    assert damaged.out.startswith(f"✘ {snapshot['key'][:12]}  1 fault")
    freed = json.loads(cli("snapshots", "gc", *AT, "--keep", "0", "-o", "json").out)
    assert [one["key"] for one in freed["snapshots"]] == [snapshot["key"]]
    assert cli("snapshots", "list", *AT).out.startswith("no snapshots on pvc://store/team")


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "no claim": (("init", "dataset", "pvc://raw/digits", "--to", "pvc://none"), '--to: there is no claim "none"'),
    "no match": ((*INIT, "--include", "*.parquet"), "--include: *.parquet matches none of the 1 files"),
    "a file of this machine": (("init", "dataset", "file:///data", *AT), "URI: file:///data is on one machine"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_names_the_flag(case: str, cli: Cli, claims: Callable[[str], Path]) -> None:
    argv, text = REFUSED[case]
    ran = cli(*argv)
    assert (ran.code, text in ran.err) == (2, True), ran.err


def test_an_interrupt_deletes_the_job(
    cli: Cli, claims: Callable[[str], Path], control_plane: Cluster, cluster_namespace: str
) -> None:
    (claims("raw") / "held").touch()

    def listed(kind: str) -> list[dict[str, Any]]:
        return control_plane.api.list(kind, namespace=cluster_namespace, labelSelector="trainer-ops/snapshot")

    def interrupt() -> None:
        wait_until("it runs", lambda: [pod["status"].get("phase") for pod in listed("Pod")] == ["Running"])
        os.kill(os.getpid(), signal.SIGINT)

    killer = threading.Thread(target=interrupt)
    killer.start()
    ran = cli(*INIT, "--env", "PYTHONPATH=/claims/raw")
    killer.join()
    assert ran.code == 130
    assert "interrupted: no snapshot of digits yet" in ran.out
    wait_until("the Job is gone", lambda: not listed("Job"))
