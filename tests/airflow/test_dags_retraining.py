"""dags/scheduled_retraining.py on the engine: the first model, nothing new, worse, better; and what a person hears."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPT = Path(__file__).parents[2] / "dags" / "scripts" / "retrain_digits.py"


@pytest.fixture
def heard() -> Iterator[tuple[str, list[str]]]:
    """A webhook's URL, and what was posted there."""
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
    yield f"http://127.0.0.1:{server.server_port}/hook", texts
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def data(tmp_path: Path) -> Callable[[int], None]:
    """Delivers so many rows."""

    def deliver(rows: int) -> None:
        subprocess.run([sys.executable, str(SCRIPT), "data", str(tmp_path / "data"), str(rows)], check=True)

    return deliver


def test_rounds(
    dags: Any,
    xcoms: Callable[..., list[Any]],
    states: Callable[[Any], dict[str, str]],
    local_trainer: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    data: Callable[[int], None],
    heard: tuple[str, list[str]],
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TRAINING", local_trainer.target.replace("local:", "trainer-local:"))
    url, texts = heard
    conf = {
        "data": (tmp_path / "data").as_uri(),
        "registry": (tmp_path / "champions").as_uri(),
        "rounds": 8,
        "webhook": url,
        "keep": 1,
    }

    def run(**more: Any) -> tuple[Any, dict[str, str]]:
        texts.clear()
        ran = dags["scheduled_retraining"].test(run_conf={**conf, **more})
        return ran, states(ran)

    def champion() -> Any:
        return json.loads((tmp_path / "champions" / "champion.json").read_text())

    everything = ("snapshot", "decide", "train", "evaluate", "promote")

    # Trains and promotes.
    data(700)
    ran, ends = run()
    assert ends == dict.fromkeys(everything, "success")
    first = champion()
    (promoted,) = xcoms(ran, "promote")
    assert promoted["champion"] == first
    assert first["metrics"]["accuracy"] > 0.8
    assert first["note"]["data"]["uri"] == conf["data"]
    assert first["note"]["trainjob"]["name"].startswith("scheduled-retraini-")
    assert Path(first["model_uri"].removeprefix("file://")).stat().st_size > 1000
    why = f"the first champion, with accuracy {first['metrics']['accuracy']}"
    assert texts == [f"scheduled_retraining.promote of {ran.run_id}: promoted as version 1: {why}"]

    # Unchanged, and skipped: no training, no event, and the run is no failure.
    trained = len(local_trainer.list())
    ran, ends = run()
    assert ends == {"snapshot": "success", **dict.fromkeys(everything[1:], "skipped")}
    assert str(ran.state) == "success"
    assert len(local_trainer.list()) == trained
    assert texts == [f"scheduled_retraining.decide of {ran.run_id}: data and code are unchanged since version 1"]
    assert champion() == first

    # A delivery that is cut short: the model is worse than the champion on the same rows, and is not promoted.
    data(150)
    ran, ends = run()
    assert ends == {**dict.fromkeys(everything, "success"), "promote": "skipped"}
    assert "not promoted, version 1 stays: accuracy 0." in texts[0]
    assert "worse by" in texts[0]
    (scores,) = xcoms(ran, "evaluate", "metrics")
    assert scores["accuracy"] < scores["champion_accuracy"]
    assert champion() == first

    # All of it: better, by more than the margin; of the first only the name is kept.
    data(1797)
    ran, ends = run()
    assert ends == dict.fromkeys(everything, "success")
    second = champion()
    assert (second["version"], len(second["previous"])) == (2, 1)
    (scores,) = xcoms(ran, "evaluate", "metrics")
    assert scores["accuracy"] >= scores["champion_accuracy"] + 0.005
    assert [path.name[:6] for path in (tmp_path / "champions" / "versions").iterdir()] == ["000002"]

    # Other settings are something new; a failure is told with its reason, and nothing is promoted.
    ran, ends = run(rounds="many")
    assert ends == {
        "snapshot": "success",
        "decide": "success",
        "train": "failed",
        "evaluate": "upstream_failed",
        "promote": "upstream_failed",
    }
    assert str(ran.state) == "failed"
    (text,) = texts
    assert text.startswith(f"scheduled_retraining.train of {ran.run_id}: ")
    assert "exit code 1 on node-0" in text
    assert champion() == second
