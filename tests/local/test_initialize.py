"""The engine's initializers, against folders and a stand-in of the Hugging Face hub on loopback."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.local.initialize import check_source, copy_folder, main, repository
from trainer_ops.model.phase import Phase

FILES = {
    "config.json": b'{"a": 1}',
    "model.safetensors": b"\x00" * 4096,
    "README.md": b"# hello",
    "data/train.csv": b"x,y\n1,2\n",
    "data/test.csv": b"x,y\n",
}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(BaseHTTPRequestHandler):
    """What ``snapshot_download`` asks: the repository's files at a revision, then each of them."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[tuple[str, str]]] = []
    token: ClassVar[str | None] = None

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        self.seen.append((self.command, path))
        if self.token and self.headers.get("Authorization") != f"Bearer {self.token}":
            self._send(401, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "token is missing"}, body)
            return
        kind, _, name = path.removeprefix("/api/").partition("/")
        if path.startswith("/api/") and kind in ("models", "datasets") and name.startswith("org/digits"):
            siblings = [{"rfilename": f} for f in FILES]
            info = {"id": "org/digits", "sha": COMMIT, "siblings": siblings, "private": False}
            if "/tree/" in path:
                info_list = [{"type": "file", "path": f, "size": len(c), "oid": _etag(c)} for f, c in FILES.items()]
                self._send(200, json.dumps(info_list).encode(), {}, body)
                return
            self._send(200, json.dumps(info).encode(), {}, body)
            return
        file = path.partition(f"/resolve/{COMMIT}/")[2]
        if "org/digits/resolve/" in path and file in FILES:
            content = FILES[file]
            self._send(200, content, {"ETag": f'"{_etag(content)}"', "X-Repo-Commit": COMMIT}, body)
            return
        self._send(404, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}, body)

    def _send(self, code: int, content: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json" if content[:1] in b"{[" else "application/octet-stream")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _etag(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Hub]]:
    Hub.seen, Hub.token = [], None
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    yield Hub
    server.shutdown()
    server.server_close()
    thread.join()


LIST = """
import os, sys
for name in sys.argv[1:]:
    folder = os.environ[name]
    print(name, sorted(os.path.relpath(os.path.join(d, f), folder) for d, _, fs in os.walk(folder) for f in fs))
"""
DATASET, MODEL = "TRAINER_OPS_DATASET_DIR", "TRAINER_OPS_MODEL_DIR"


@pytest.fixture
def initialized(make_engine: Any, make_runtime: Any) -> Any:
    steps = ("dataset-initializer", "model-initializer")
    return make_engine(make_runtime("t-init", initializers=steps))


def train(engine: Any, name: str, *folders: str, **initializer: Any) -> Any:
    engine.create(name, ["python", "-c", LIST, *folders], runtime="t-init", initializer=initializer)
    return engine.finished(name)


def test_a_folder_of_this_machine(initialized: Any, tmp_path: Path) -> None:
    source = tmp_path / "my data"
    (source / "deep").mkdir(parents=True)
    (source / "train.csv").write_text("1")
    (source / "deep" / "test.csv").write_text("2")
    (source / "skip.tmp").write_text("3")
    dataset = {"storageUri": f"file://{source}", "env": [{"name": "IGNORE_PATTERNS", "value": "*.tmp, *.bak"}]}
    seen = train(initialized, "folder", DATASET, dataset=dataset)
    assert initialized.state("folder").phase is Phase.SUCCEEDED
    assert initialized.lines("folder") == [f"{DATASET} ['deep/test.csv', 'train.csv']"]
    assert [(p.step, p.phase) for p in seen.pods] == [("dataset-initializer", "Succeeded"), ("node", "Succeeded")]
    assert {j.name: j.succeeded for j in seen.job.jobs} == {"dataset-initializer": 1, "node": 1}


def test_a_missing_folder_is_a_failed_pod_with_a_log(initialized: Any, tmp_path: Path) -> None:
    seen = train(initialized, "missing", DATASET, dataset={"storageUri": f"file://{tmp_path}/none"})
    assert initialized.state("missing").phase is Phase.FAILED
    assert seen.job.condition("Failed").message.endswith("(first failed job: missing-dataset-initializer-0)")
    [pod] = seen.pods
    assert (pod.step, pod.main.terminated.exit_code) == ("dataset-initializer", 1)
    from trainer_ops.backends.base import log_sources

    lines = initialized.backend.logs(log_sources(seen.pods)[0]).lines
    assert any(f"{tmp_path}/none does not exist on this machine" in line for line in lines)
    assert not any("Traceback" in line for line in lines)


def test_a_dataset_and_a_model_of_the_hub(initialized: Any, hub: type[Hub]) -> None:
    dataset = {"storageUri": "hf://org/digits", "env": [{"name": "IGNORE_PATTERNS", "value": "*.md"}]}
    train(initialized, "hub", DATASET, MODEL, dataset=dataset, model={"storageUri": "hf://org/digits"})
    assert initialized.state("hub").phase is Phase.SUCCEEDED
    assert initialized.lines("hub") == [
        f"{DATASET} ['config.json', 'data/test.csv', 'data/train.csv', 'model.safetensors']",
        f"{MODEL} ['config.json', 'model.safetensors']",
    ]
    assert any(path.startswith("/api/datasets/org/digits") for _, path in hub.seen)
    assert any(path.startswith("/api/models/org/digits") for _, path in hub.seen)


def test_with_a_token(initialized: Any, hub: type[Hub]) -> None:
    hub.token = "hf_secret"
    dataset = {"storageUri": "hf://datasets/org/digits", "env": [{"name": "ACCESS_TOKEN", "value": "hf_secret"}]}
    train(initialized, "token", DATASET, dataset=dataset)
    assert initialized.state("token").phase is Phase.SUCCEEDED
    train(initialized, "none", DATASET, dataset={"storageUri": "hf://datasets/org/digits"})
    assert initialized.state("none").phase is Phase.FAILED


def test_a_repository_that_is_not_there(initialized: Any, hub: type[Hub]) -> None:
    train(initialized, "absent", DATASET, dataset={"storageUri": "hf://org/absent"})
    assert initialized.state("absent").phase is Phase.FAILED


def test_without_the_extra_it_is_refused_by_name(initialized: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *a: None if n == "huggingface_hub" else real(n, *a))
    with pytest.raises(InvalidRequest, match=r"trainer-ops\[initializers\]") as caught:
        train(initialized, "extra", dataset={"storageUri": "hf://org/digits"})
    assert caught.value.field == "spec.initializer.dataset.storageUri"
    assert initialized.backend.list() == []


@pytest.mark.parametrize("uri", ["s3://bucket/x", "cache://x", "hf://only"])
def test_what_cannot_be_fetched_is_refused(uri: str) -> None:
    with pytest.raises(InvalidRequest):
        check_source(uri, "field")


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("hf://org/name", ("org/name", "")),
        ("hf://org/name/deep/file", ("org/name", "")),
        ("hf://datasets/org/name", ("org/name", "dataset")),
        ("hf://models/org/name", ("org/name", "model")),
    ],
)
def test_repository(uri: str, found: tuple[str, str]) -> None:
    assert repository(uri) == found


def test_the_program_says_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main() == 2
    (tmp_path / "empty").mkdir()
    assert main("dataset", f"file://{tmp_path}/empty", str(tmp_path / "to")) == 1
    assert "holds no files" in capsys.readouterr().err


def test_a_copy_is_no_link(tmp_path: Path) -> None:
    """Training code that writes into its dataset must not change the original."""
    source = tmp_path / "one.csv"
    source.write_text("original")
    assert copy_folder(source, tmp_path / "to") == 1
    (tmp_path / "to" / "one.csv").write_text("changed")
    assert source.read_text() == "original"
    assert copy_folder(source, tmp_path / "to") == 1
    assert (tmp_path / "to" / "one.csv").read_text() == "original"
