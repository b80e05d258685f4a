"""``report=`` of the operator: where the page goes, and that it never decides how a task ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainer_ops.testing import MemoryBackend


def make(**kwargs: Any) -> Any:
    from airflow.sdk import DAG

    from trainer_ops.airflow import TrainJobOperator

    with DAG("digits", schedule=None):
        return TrainJobOperator(**{"task_id": "train", "runtime": "torch-distributed", "command": ["true"], **kwargs})


def test_a_file_whose_name_is_a_template(worker: Any, memory: MemoryBackend, tmp_path: Path) -> None:
    ran = worker(make(report=f"{tmp_path}/deep/{{{{ ti.task_id }}}}.html"))
    assert ran.state == "success"
    html = (tmp_path / "deep" / "train.html").read_text(encoding="utf-8")
    assert "<h1>digits, train</h1>" in html
    assert "✔ Trained" in html
    assert ran.xcoms["report"].endswith(f"{tmp_path}/deep/train.html")


def test_a_folder_has_one_for_each_training_a_failed_one_too(
    worker: Any, memory: MemoryBackend, tmp_path: Path
) -> None:
    memory.script("*", [(0, lambda t: t.running()), (2, lambda t: t.out_of_memory())])
    ran = worker(make(report=f"file://{tmp_path}/"))
    assert ran.state == "failed"
    (page,) = tmp_path.glob("*.html")
    assert page.stem == memory.list()[0]["metadata"]["name"]
    assert "out_of_memory" in page.read_text(encoding="utf-8")
    assert ran.xcoms["report"].endswith(page.name)


PLACES = {"a folder that is a file": "{}/file/x.html", "no such kind of storage": "nowhere://x/y.html"}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_a_page_that_cannot_be_written_fails_no_task(
    worker: Any, memory: MemoryBackend, tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    ran = worker(make(report=place.format(tmp_path)))
    assert ran.state == "success"
    assert "report" not in ran.xcoms
    assert "There is no report at" in capsys.readouterr().out


def test_without_xcom_it_is_written_all_the_same(worker: Any, memory: MemoryBackend, tmp_path: Path) -> None:
    ran = worker(make(report=f"{tmp_path}/x.html", do_xcom_push=False))
    assert (ran.xcoms, (tmp_path / "x.html").exists()) == ({}, True)
