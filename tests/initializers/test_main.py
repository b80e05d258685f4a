"""The snapshot step of a pod: what it prints, what it leaves as its message, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.initializers.stand_ins import MemoryProvider
from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers import __main__ as program
from trainer_ops.initializers.environment import credentials_from
from trainer_ops.initializers.provider import Credentials, Provider, SnapshotError, error_from_json
from trainer_ops.initializers.source import Source
from trainer_ops.model.snapshot import Snapshot

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    (made / "a.csv").write_text("1,2\n")
    (made / "b.tmp").write_text("x")
    return made


class Pod:
    """Runs the program with a message file."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.store, self._message, self._capsys = folder / "store", folder / "message", capsys
        self.lines: list[str] = []
        self.errors = ""

    def __call__(self, *argv: str, env: Mapping[str, str] | None = None) -> tuple[int, Any]:
        given = {"TRAINER_OPS_RESULT_PATH": str(self._message), **(env or {})}
        code = program.main([argv[0], "--store", str(self.store), *argv[1:]], given)
        out = self._capsys.readouterr()
        self.lines, self.errors = out.out.splitlines(), out.err
        message = self._message.read_text()
        assert len(message.encode()) <= 4096
        return code, json.loads(message)

    def take(self, uri: str, *argv: str, env: Mapping[str, str] | None = None) -> tuple[int, Any]:
        return self("take", "--kind", "dataset", "--uri", uri, *argv, env=env)


@pytest.fixture
def pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Pod:
    return Pod(tmp_path, capsys)


def test_take(pod: Pod, folder: Path) -> None:
    code, said = pod.take(f"file://{folder}", "--ignore", "*.tmp", "--location", "pvc://claim/store")
    made = Snapshot.from_json(said)
    assert code == 0
    assert (made.files, made.size, made.hit) == (1, 4, False)
    assert made.location == f"pvc://claim/store/{made.key}/data"
    assert json.loads(pod.lines[-1]) == said
    assert pod.lines[0] == "fetching 1 files, 4 bytes"
    assert pod.lines[1].startswith(f"snapshot {made.key} is whole: 1 files, 4 bytes, pvc://claim")
    code, again = pod.take(f"file://{folder}", "--ignore", "*.tmp", "--location", "pvc://claim/store")
    assert (code, again) == (0, {**said, "hit": True})


def test_a_mounted_claim(pod: Pod, folder: Path) -> None:
    code, said = pod.take("pvc://claim/data", "--mount", f"claim={folder.parent}", "--include", "*.csv")
    assert (code, said["uri"], said["files"]) == (0, "pvc://claim/data", 1)


def test_verify_repairs(pod: Pod, folder: Path) -> None:
    _, made = pod.take(f"file://{folder}")
    data = Path(made["location"].removeprefix("file://"))
    (data / "a.csv").unlink()
    assert pod("verify") == (1, {"problems": {made["key"]: ["a.csv: is missing"]}})
    assert "  a.csv: is missing" in pod.lines
    code, again = pod.take(f"file://{folder}", "--verify")
    assert (code, again["hit"]) == (0, False)
    assert pod("verify", made["key"]) == (0, {"problems": {made["key"]: []}})


def test_list_and_gc(pod: Pod, folder: Path) -> None:
    assert pod("list") == (0, {"snapshots": []})
    _, first = pod.take(f"file://{folder}")
    (folder / "c").touch()
    _, second = pod.take(f"file://{folder}")
    _, listed = pod("list")
    assert [(one["key"], one["location"], one["count"]) for one in listed["snapshots"]] == [
        (one["key"], one["location"], one["files"]) for one in (first, second)
    ]
    code, said = pod("gc", "--keep-last", "0", "--keep", second["key"], "--dry-run")
    assert (code, [one["key"] for one in said["snapshots"]], said["bytes"]) == (0, [first["key"]], 5)
    assert pod.lines[0].startswith(f"would remove {first['key']}: file://")
    _, said = pod("gc", "--keep-last", "1")
    assert [one["key"] for one in said["snapshots"]] == [first["key"]]
    assert [one["key"] for one in pod("list")[1]["snapshots"]] == [second["key"]]


def test_errors_are_data(pod: Pod, tmp_path: Path) -> None:
    code, said = pod.take(f"file://{tmp_path}/nowhere")
    assert code == 1
    assert said["error"]["field"] == "uri"
    assert "No such file" in said["error"]["reason"]
    assert said["error"]["remedy"] == "Check the path."
    assert said["error"]["transient"] is False
    assert pod.errors.startswith("error: invalid request: uri: file://")
    assert pod.take("nonsense")[0] == 1


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (SnapshotError("no answer", transient=True), 75),
        (SnapshotError("gated", remedy="Ask.", credentials="refused"), 1),
    ],
)
def test_what_may_work_later(problem: SnapshotError, code: int, pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(MemoryProvider):
        def resolve(self) -> Any:
            raise problem

    remote = Broken({})
    monkeypatch.setattr(program, "open_provider", lambda *_, **__: remote)
    ended, said = pod.take("s3://bucket/x")
    assert (ended, said["error"]["reason"], said["error"]["transient"]) == (code, problem.message, code == 75)
    assert error_from_json(said["error"]).__dict__ == problem.__dict__
    assert remote.closed


def test_credentials_come_from_the_environment_and_go_nowhere(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Credentials] = []

    def opened(source: Source, credentials: Credentials, **_: Any) -> Provider:
        seen.append(credentials)
        return MemoryProvider({"a": b"a"})

    monkeypatch.setattr(program, "open_provider", opened)
    code, said = pod.take("hf://org/name", env={"HF_TOKEN": "hf_SECRET\n"})
    assert (code, seen[0].token) == (0, "hf_SECRET")
    assert "SECRET" not in json.dumps(said) + "".join(pod.lines) + pod.errors


S3 = {"key": "k", "secret": "s"}
GOOGLE = "GOOGLE_APPLICATION_CREDENTIALS"
KEY = {"type": "service_account", "private_key": "SECRET"}


@pytest.mark.parametrize(
    ("scheme", "env", "token", "options"),
    [
        pytest.param("hf", {"ACCESS_TOKEN": "a"}, "a", {}, id="trainer-s-name"),
        pytest.param("hf", {"ACCESS_TOKEN": "a", "HF_TOKEN": "b"}, "b", {}, id="the-hub-s-name-first"),
        pytest.param("hf", {"HF_TOKEN": " "}, "", {}, id="blank"),
        pytest.param("https", {"HTTP_TOKEN": "t", "HF_TOKEN": "b"}, "t", {}, id="bearer"),
        pytest.param("s3", {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}, "", S3, id="aws"),
        pytest.param("s3", {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s"}, "", S3, id="trainer"),
        pytest.param(
            "s3",
            {"ENDPOINT": "http://m:9000", "REGION": "eu"},
            "",
            {"endpoint_url": "http://m:9000", "client_kwargs": {"region_name": "eu"}},
            id="endpoint-and-region",
        ),
        pytest.param("s3", {"REGION": "auto"}, "", {}, id="region-auto-is-none"),
        pytest.param("gs", {"AWS_ACCESS_KEY_ID": "k"}, "", {}, id="gs-finds-its-own"),
        pytest.param("gs", {GOOGLE: "/etc/key.json"}, "", {}, id="gs-opens-a-key-file-itself"),
        pytest.param("gs", {GOOGLE: f"{json.dumps(KEY)}\n"}, "", {"token": KEY}, id="the-content-of-a-key-file"),
        pytest.param("file", {"HF_TOKEN": "b"}, "", {}, id="file"),
    ],
)
def test_credentials(scheme: str, env: Mapping[str, str], token: str, options: Mapping[str, object]) -> None:
    found = credentials_from(env, scheme)
    assert (found.token, found.options) == (token, options)


@pytest.mark.parametrize("text", ['{"type": "external_account", "x": "SECRET"}', '{"private_key": "SECRET', "{}"])
def test_no_key_of_google(text: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{GOOGLE}: it is no key of type service_account or") as caught:
        credentials_from({GOOGLE: text}, "gs")
    assert "SECRET" not in str(caught.value)


def test_a_role_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="ROLE_ARN"):
        credentials_from({"ROLE_ARN": "arn:aws:iam::1:role/x"}, "s3")


LONG = [{"key": f"{n:032}", "uri": "s3://bucket/" + "x" * 200} for n in range(500)]


@pytest.mark.parametrize(
    ("result", "holds"),
    [
        pytest.param({"snapshots": LONG}, lambda said: said["left_out"] + len(said["snapshots"]) == 500, id="list"),
        pytest.param({"problems": {o["key"]: [o["uri"]] for o in LONG}}, lambda said: said["left_out"] > 0, id="map"),
        pytest.param({"problems": {"k": ["x" * 100] * 500}}, lambda said: said["left_out"] > 0, id="deep"),
        pytest.param({"a": 1}, lambda said: said == {"a": 1}, id="short"),
        pytest.param(
            {"error": {"field": "uri", "reason": "\0" * 9000, "remedy": "ü" * 9000, "transient": True}},
            lambda said: said["error"]["transient"] is True and said["error"]["reason"],
            id="error",
        ),
    ],
)
def test_a_message_fits(result: dict[str, Any], holds: Callable[[Any], bool]) -> None:
    text = program.fitting(result)
    assert len(text.encode()) <= 4096
    assert holds(json.loads(text))


@pytest.mark.parametrize(
    "argv",
    [
        ["take", "--kind", "data", "--uri", "s3://b"],
        ["take", "--kind", "dataset"],
        ["take", "--kind", "dataset", "--uri", "s3://b", "--jobs", "0"],
        ["take", "--kind", "dataset", "--uri", "s3://b", "--mount", "claim"],
        ["gc", "--keep-last", "-1"],
        [],
    ],
)
def test_wrong_flags(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        program.main([*argv[:1], "--store", "/tmp/x", *argv[1:]], {})
    assert caught.value.code == 2
    capsys.readouterr()


def test_progress_lines_are_rare(capsys: pytest.CaptureFixture[str]) -> None:
    now = 100.0
    printer = program.Printer(lambda: now)
    printer.on_start(10, 2_000_000, 500_000)
    for step in range(1000):
        now = 100.0 + step * 0.01
        printer.on_progress(500_000 + step * 1000, step // 100)
    assert capsys.readouterr().out.splitlines() == [
        "fetching 10 files, 2.0 MB, 500.0 kB are there already",
        "1.0 MB of 2.0 MB, 5 of 10 files, 100.0 kB/s",
    ]


SLOW = """
import sys, time
from trainer_ops.initializers import __main__ as program
from tests.initializers.stand_ins import MemoryProvider

def after(file, there):
    print("block", flush=True)
    time.sleep(0.05)

program.open_provider = lambda *_, **__: MemoryProvider({"a": b"a" * 10_000_000}, after_block=after, block=1000)
program.run(sys.argv[1:])
"""


def test_sigterm_lets_the_lock_go_and_the_next_one_goes_on(tmp_path: Path, folder: Path) -> None:
    store = tmp_path / "store"
    argv = ["take", "--kind", "dataset", "--uri", "s3://b/x", "--store", str(store)]
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, *argv], cwd=ROOT, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as pod:
        assert pod.stdout is not None
        for line in pod.stdout:
            if line == "block\n":
                break
        pod.send_signal(signal.SIGTERM)
        pod.stdout.read()
        assert pod.wait(60) == 143
    assert list((store / ".locks").iterdir()) == []
    assert len(list((store / ".partial").glob("*/parts/*"))) == 1


def test_started_as_a_pod_starts_it(tmp_path: Path, folder: Path) -> None:
    message = tmp_path / "message"
    done = subprocess.run(
        [
            *(sys.executable, "-X", "importtime", "-m", "trainer_ops.initializers", "take", "--kind", "model"),
            *("--uri", f"file://{folder}", "--store", str(tmp_path / "store")),
        ],
        cwd=ROOT,
        env={**os.environ, "TRAINER_OPS_RESULT_PATH": str(message)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(message.read_text())["files"] == 2
    heavy = ("kubernetes", "pydantic", "fsspec", "huggingface_hub", "yaml", "rich", "airflow", "kfp")
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert not imported & set(heavy)
