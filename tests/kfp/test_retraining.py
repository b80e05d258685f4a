"""The scheduled retraining as a KFP pipeline: rounds on the engine, and its two steps by themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.retraining import ENV_WEBHOOK, decide_retraining, promote_model
from trainer_ops.kfp.task import Artifact, Task
from trainer_ops.lifecycle.retraining import decide

pytestmark = pytest.mark.kfp

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "dags" / "scripts" / "retrain_digits.py"
SNAPSHOT = {
    "kind": "dataset",
    "uri": "hf://datasets/a/b",
    "revision": "c0",
    "key": "0" * 32,
    "location": "pvc://store/k/data",
    "digest": "sha256:ab",
    "files": 2.0,
    "bytes": 70.0,
    "hit": False,
}


@pytest.fixture
def registry(tmp_path: Path) -> str:
    return (tmp_path / "champions").as_uri()


@pytest.fixture
def model(tmp_path: Path) -> str:
    file = tmp_path / "model.json"
    file.write_text("{}")
    return file.as_uri()


def decided(registry: str, **inputs: Any) -> Any:
    return decide_retraining(Task("decide_retraining", {"registry": registry, **inputs}, {}))


def promoted(registry: str, plan: Any, **inputs: Any) -> tuple[Any, Artifact]:
    artifact = Artifact.from_json({"name": "1", "uri": "s3://b/v2/model", "customPath": "/nowhere"})
    task = Task("promote_model", {"registry": registry, "plan": plan, "copy": True, **inputs}, {"model": artifact})
    return promote_model(task), artifact


class TestSteps:
    def test_the_same_is_not_learnt_twice(self, registry: str, model: str) -> None:
        made_from = {"snapshot": SNAPSHOT, "script_uri": str(SCRIPT), "settings": {"rounds": 8.0}}
        plan = decided(registry, **made_from)
        assert (plan["train"], plan["champion_uri"]) == (True, "")
        made, artifact = promoted(registry, plan["plan"], model_uri=model, metrics={"accuracy": 0.9}, keep=2.0)
        assert made["promoted"] is True
        assert artifact.metadata["version"] == 1
        assert artifact.metadata["metric_accuracy"] == 0.9
        again = decided(registry, **{**made_from, "snapshot": {**SNAPSHOT, "hit": True}})
        assert (again["train"], again["champion_uri"]) == (False, made["champion_uri"])
        assert decided(registry, **made_from, force=True)["train"] is True
        assert decided(registry, **{**made_from, "settings": {"rounds": 9.0}})["train"] is True

    def test_the_fingerprint_is_the_one_of_airflow(self, registry: str, tmp_path: Path) -> None:
        from trainer_ops.lifecycle.champion import open_registry

        plan = decided(registry, snapshot=SNAPSHOT, script_uri=SCRIPT.as_uri(), settings={"rounds": 20.0})
        there = decide(open_registry(registry), {**SNAPSHOT, "files": 2}, SCRIPT, {"rounds": 20})
        assert plan["plan"]["fingerprint"] == there.fingerprint

    def test_a_number_of_the_pipeline_inside_the_settings(self, registry: str) -> None:
        """The local runner writes "8.0" there, the cluster "8"."""
        given = {"registry": registry, "settings": {"rounds": "8.0"}}
        local = decide_retraining(Task("x", given, {}, channels={"pipelinechannel--rounds": 8.0}))
        cluster = decide_retraining(Task("x", {**given, "settings": {"rounds": "8"}}, {}))
        assert local["plan"] == cluster["plan"]

    def test_null_is_left_out(self, registry: str, model: str, tmp_path: Path) -> None:
        nothing = dict.fromkeys(("margin", "mode", "threshold", "keep", "copy", "note", "outcome", "metric"))
        plan = decided(registry, settings={"a": 1}, snapshot=None, script_uri=None, force=None)["plan"]
        made, _ = promoted(registry, plan, **{"model_uri": model, "metrics": {"accuracy": "0.9"}, **nothing})
        assert made["promoted"] is True
        assert Path(made["champion_uri"].removeprefix("file://")).is_relative_to(tmp_path / "champions")

    def test_the_plan_holds_no_null(self, registry: str) -> None:
        assert "null" not in json.dumps(decided(registry, settings={"a": 1})["plan"])

    @pytest.mark.parametrize(
        ("inputs", "says"),
        [
            pytest.param({"model_uri": ""}, "the training reported no model", id="no model"),
            pytest.param({"metrics": {}}, "one of outcome and metrics", id="nothing measured"),
            pytest.param({"outcome": {"metrics": {"accuracy": 1}}}, "one of outcome and metrics", id="measured twice"),
            pytest.param({"metric": "f1"}, "f1", id="no such metric"),
            pytest.param({"mode": "best"}, "neither max nor min", id="mode"),
            pytest.param({"margin": "some"}, "margin: 'some' is not a number", id="margin"),
            pytest.param({"keep": 0.0}, "keep: 0 is not at least 1", id="keep"),
            pytest.param({"note": "text"}, "note: 'text' is no mapping", id="note"),
            pytest.param({"metrics": "0.9"}, "metrics: '0.9' is no mapping", id="metrics"),
            pytest.param({"plan": {"train": True}}, "plan: is none", id="plan"),
            pytest.param({"registry": ""}, "registry: is empty", id="registry"),
        ],
    )
    def test_refused(self, registry: str, model: str, inputs: dict[str, Any], says: str) -> None:
        plan = decided(registry, settings={"a": 1})["plan"]
        given = {"model_uri": model, "metrics": {"accuracy": 0.5}, "plan": plan, "registry": registry, **inputs}
        with pytest.raises(InvalidRequest, match=says):
            promoted(given.pop("registry"), given.pop("plan"), **given)

    @pytest.mark.parametrize(
        ("inputs", "says"),
        [
            pytest.param({}, "neither snapshot nor script_uri nor settings", id="nothing"),
            pytest.param({"snapshot": {"uri": "x"}}, "is no snapshot", id="no snapshot"),
            pytest.param({"settings": "rounds"}, "settings: 'rounds' is no mapping", id="settings"),
            pytest.param({"script_uri": "/no/such.py"}, "script_uri: /no/such.py cannot be read", id="no script"),
        ],
    )
    def test_not_decided(self, registry: str, inputs: dict[str, Any], says: str) -> None:
        with pytest.raises(InvalidRequest, match=says):
            decided(registry, **inputs)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a webhook was told."""
    texts: list[str] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            texts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv(ENV_WEBHOOK, f"http://127.0.0.1:{server.server_port}/secret")
    yield texts
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_that_is_away_undoes_nothing(
    registry: str, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ENV_WEBHOOK, "http://127.0.0.1:1/secret")
    plan = decided(registry, settings={"a": 1})["plan"]
    made, _ = promoted(registry, plan, model_uri=model, outcome={"metrics": {"accuracy": 0.9}})
    assert made["promoted"] is True
    said = capsys.readouterr().out
    assert "the webhook did not take the message" in said
    assert "secret" not in said


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore:Task .* have no effect in the current local runner:UserWarning")
def test_rounds(
    engine: str, runner: Any, registry: str, tmp_path: Path, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Train and promote; unchanged and skipped; worse and rejected; more data and promoted; two are kept."""
    monkeypatch.syspath_prepend(str(ROOT))
    from components.scheduled_retraining.pipeline import scheduled_retraining
    from trainer_ops.lifecycle.target import open_backend

    def trainings() -> int:
        backend = open_backend(engine)
        try:
            return len(backend.list())
        finally:
            backend.close()

    def round_of(rows: int, rounds: int) -> tuple[int, int, str]:
        """(the champion's version, trainings so far, what a person hears)"""
        subprocess.run([sys.executable, str(SCRIPT), "data", str(tmp_path / "data"), str(rows)], check=True)
        heard.clear()
        scheduled_retraining(
            data=(tmp_path / "data").as_uri(),
            script_uri=str(SCRIPT),
            registry=registry,
            rounds=rounds,
            margin=0.005,
            keep=1,
            target=engine,
        )
        champion = json.loads((tmp_path / "champions" / "champion.json").read_text())
        assert champion["note"]["uri"] == (tmp_path / "data").as_uri()
        assert Path(champion["model_uri"].removeprefix("file://")).is_file()
        (text,) = heard
        return champion["version"], trainings(), text

    version, number, text = round_of(900, 4)
    assert (version, number) == (1, 2)
    assert text.startswith("promoted as version 1")
    version, number, text = round_of(900, 4)
    assert (version, number, text) == (1, 2, "data and code are unchanged since version 1")
    version, number, text = round_of(900, 1)
    assert (version, number) == (1, 4)
    assert text.startswith("not promoted, version 1 stays")
    version, number, text = round_of(1797, 12)
    assert (version, number) == (2, 6)
    assert text.startswith("promoted as version 2")
    assert len(list((tmp_path / "champions" / "versions").iterdir())) == 1
