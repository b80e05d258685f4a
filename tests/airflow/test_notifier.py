"""WebhookNotifier: what it says of each end of a task, and what it does not let out."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from trainer_ops.errors import TrainerOpsError


class Ti:
    """As much of a task instance as a callback reads."""

    dag_id, task_id, run_id, map_index, state = "digits", "train", "manual__1", -1, "success"

    def __init__(self, **xcoms: Any) -> None:
        self._xcoms = xcoms

    def xcom_pull(self, task_ids: str, key: str = "return_value", map_indexes: Any = None) -> Any:
        assert (task_ids, map_indexes) == ("train", None)
        return self._xcoms.get(key)


@pytest.fixture
def hook() -> Iterator[Any]:
    """A chat's webhook; ``status`` is what it answers."""

    class Hook(BaseHTTPRequestHandler):
        status = 200
        bodies: list[Any] = []  # noqa: RUF012

        def do_POST(self) -> None:
            self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(self.status)
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = Thread(target=server.serve_forever)
    thread.start()
    Hook.url = f"http://127.0.0.1:{server.server_port}/services/SECRET"  # type: ignore[attr-defined]
    yield Hook
    server.shutdown()
    thread.join()
    server.server_close()


def notifier(*args: Any, **kwargs: Any) -> Any:
    from trainer_ops.airflow import WebhookNotifier

    return WebhookNotifier(*args, **kwargs)


# what the task left behind: what is said
SAID: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "its own words": ({"text": "unchanged", "return_value": {"text": "x"}}, {}, "unchanged"),
    "words in its result": ({"return_value": {"text": "promoted"}}, {}, "promoted"),
    "its result": ({"return_value": 3}, {}, "3"),
    "nothing": ({}, {}, "success"),
    "a result without words": ({"return_value": {"a": 1}}, {}, "success"),
    "an error": ({"text": "of before"}, {"exception": ValueError("exit code 1 on node-0")}, "exit code 1 on node-0"),
    "an error without words": ({}, {"exception": KeyboardInterrupt()}, "KeyboardInterrupt"),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_said(case: str, hook: Any) -> None:
    xcoms, more, text = SAID[case]
    notifier(hook.url)({"ti": Ti(**xcoms), **more})
    assert hook.bodies == [{"text": f"digits.train of manual__1: {text}"}]


def test_a_text_and_a_webhook_are_templates(hook: Any) -> None:
    context = {"ti": Ti(), "run_id": "manual__1", "params": {"webhook": hook.url}}
    notifier("{{ params.webhook }}", "all done in {{ run_id }}")(context)
    assert hook.bodies == [{"text": "digits.train of manual__1: all done in manual__1"}]


def test_without_a_webhook_it_is_only_logged(capsys: pytest.CaptureFixture[str]) -> None:
    notifier(text="done")({"ti": Ti()})
    assert "digits.train of manual__1: done" in capsys.readouterr().out


def test_a_long_diagnosis_is_cut(hook: Any) -> None:
    notifier(hook.url, "x" * 9000)({"ti": Ti()})
    assert len(hook.bodies[0]["text"]) == 3000


@pytest.mark.parametrize(
    ("url", "reason"), [("", "404"), ("http://127.0.0.1:9/SECRET", "Error"), ("http://[SECRET", "Error")]
)
def test_a_webhook_that_fails_is_named_without_its_secret(url: str, reason: str, hook: Any) -> None:
    hook.status = 404
    with pytest.raises(TrainerOpsError, match="the webhook did not take the message") as raised:
        notifier(url or hook.url)({"ti": Ti()})
    assert reason in str(raised.value)
    assert "SECRET" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("url", ["SECRET", "file:///dev/null?SECRET", "ftp://127.0.0.1/SECRET", "None"])
def test_what_nobody_would_be_told_by_is_refused(url: str) -> None:
    with pytest.raises(TrainerOpsError, match=r"is no URL that can be posted to\. Write https://host/path") as raised:
        notifier(url)({"ti": Ti()})
    assert "SECRET" not in str(raised.value)


def test_an_answer_that_is_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            line, _ = server.accept()
            with line:
                line.recv(65536)
                line.sendall(b"SSH-2.0-OpenSSH\r\n")

        thread = Thread(target=answer)
        thread.start()
        with pytest.raises(TrainerOpsError, match=r"did not take the message \(BadStatusLine\)"):
            notifier(f"http://127.0.0.1:{server.getsockname()[1]}/x")({"ti": Ti()})
        thread.join()
