"""The example pipeline of each component folder, under kfp's SubprocessRunner, on the embedded engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.kfp, pytest.mark.slow]

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def test_train_job(engine: str, runner: Any) -> None:
    from components.train_job.pipeline import digits

    said = digits(script_uri=str(ROOT / "dags" / "scripts" / "train_digits.py"), rounds=8, target=engine).output
    assert float(said.split()[1].rstrip(",")) > 0.85
    assert "model of default/train-digits-" in said


def test_train_from_function(engine: str, runner: Any) -> None:
    from components.train_from_function.pipeline import minimum

    assert minimum(rounds=30, target=engine).output == pytest.approx(3.0, abs=1e-3)


def test_submit_train_job(engine: str, runner: Any, capfd: pytest.CaptureFixture[str]) -> None:
    from components.submit_train_job.pipeline import meanwhile

    assert meanwhile(target=engine).output == ""
    said = capfd.readouterr().out
    assert "created on local://" in said
    assert "waiting for it on local://" in said
    assert "[node-0] trained" in said


def test_wait_train_job(engine: str, runner: Any) -> None:
    from components.wait_train_job.pipeline import follow
    from trainer_ops import submit

    made = submit(runtime="plain", command=["sleep", "1"], name="nightly", target=engine)
    assert follow(name=made.ref.name, target=engine).output == f"{made.ref.name}: succeeded"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What an example takes a snapshot of."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "digits.csv").write_text("1\n2\n3\n")
    (folder / "weight.txt").write_text("3")
    return folder


def test_initialize_dataset(engine: str, runner: Any, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from components.initialize_dataset.pipeline import from_a_snapshot

    said = from_a_snapshot(uri=folder.as_uri(), target=engine).output
    assert said.startswith("2 files, sha256:")
    assert said.endswith("the first is digits.csv")
    assert "[node-0] 3" in capfd.readouterr().out


def test_initialize_model(engine: str, runner: Any, folder: Path) -> None:
    from components.initialize_model.pipeline import two_from_one_model

    assert two_from_one_model(uri=folder.as_uri(), target=engine).output == 6.0


@pytest.mark.parametrize("fails", [False, True])
def test_cleanup_train_jobs(engine: str, runner: Any, fails: bool, capfd: pytest.CaptureFixture[str]) -> None:
    from components.cleanup_train_jobs.pipeline import tidy
    from trainer_ops.lifecycle.target import open_backend

    if fails:
        with pytest.raises(RuntimeError):
            tidy(fails=True, target=engine)
    else:
        tidy(fails=False, target=engine)
    backend = open_backend(engine)
    assert backend.list() == []
    backend.close()
    assert "trainings cleaned up: 1" in capfd.readouterr().out


def test_apply_runtime(engine: str, runner: Any, capfd: pytest.CaptureFixture[str]) -> None:
    from components.apply_runtime.pipeline import with_its_runtime

    assert with_its_runtime(target=engine).output == "created"
    assert "[node-0] of the runtime" in capfd.readouterr().out
    assert with_its_runtime(target=engine).output == "unchanged"


def test_decide_retraining(engine: str, runner: Any, folder: Path, tmp_path: Path) -> None:
    from components.decide_retraining.pipeline import anything_new

    registry = (tmp_path / "champions").as_uri()
    assert anything_new(uri=folder.as_uri(), registry=registry, target=engine).output == "there is no champion yet"


def test_promote_model(engine: str, runner: Any, tmp_path: Path) -> None:
    from components.promote_model.pipeline import better_or_not

    registry = (tmp_path / "champions").as_uri()
    first = better_or_not(registry=registry, quality=0.9, target=engine).output
    assert first == "promoted as version 1: the first champion, with accuracy 0.9"
    assert better_or_not(registry=registry, quality=0.905, target=engine).output.startswith("not promoted, version 1")
    assert better_or_not(registry=registry, quality=0.95, target=engine).output.startswith("promoted as version 2")
