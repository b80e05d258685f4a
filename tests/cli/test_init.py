"""``trainer-ops init``: what is made, what is said, how it fails; on a folder of this machine."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.cli.making import in_flags
from trainer_ops.errors import Forbidden, InvalidRequest, Unreachable
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.lifecycle import snapshots
from trainer_ops.model.snapshot import Snapshot
from trainer_ops.testing import VirtualClock

Cli = Callable[..., Any]


@pytest.fixture
def source(tmp_path: Path) -> str:
    folder = tmp_path / "digits"
    (folder / "test").mkdir(parents=True)
    (folder / "train.csv").write_text("1,2\n")
    (folder / "test" / "test.csv").write_text("3,4,5\n")
    return f"file://{folder}"


@pytest.fixture
def init(cli: Cli, tmp_path: Path) -> Cli:
    """``init dataset`` into a store of its own."""
    return lambda *argv: cli("init", "dataset", *argv, "--to", f"file://{tmp_path}/store")


def test_it_is_made_and_how_to_go_on(init: Cli, source: str, tmp_path: Path) -> None:
    ran = init(source)
    assert ran.code == 0, ran.err
    plan, head, *facts = ran.out.splitlines()
    assert plan == "digits  2 files, 10 B"
    assert head == "✔ dataset digits fetched in 0:00   2 files, 10 B"
    said = {line.split()[0]: line.split(None, 1)[1] for line in facts}
    assert set(said) == {"source", "key", "revision", "where", "use"}
    assert said["source"] == source
    assert said["where"] == f"file://{tmp_path}/store/{said['key']}/data"
    assert said["use"] == f"trainer-ops run --dataset {said['where']} …"
    assert Path(said["where"].removeprefix("file://"), "test", "test.csv").read_text() == "3,4,5\n"


def test_again_it_is_there_already(init: Cli, source: str) -> None:
    init(source)
    ran = init(source)
    assert ran.out.splitlines()[0] == "✔ dataset digits was there already   2 files, 10 B"


def test_quiet_says_only_how_it_ended(init: Cli, source: str) -> None:
    assert len(init(source, "--quiet").out.splitlines()) == 1


def test_json_is_alone_on_stdout(init: Cli, source: str) -> None:
    ran = init(source, "-o", "json")
    snapshot = Snapshot.from_json(json.loads(ran.out))
    assert (snapshot.kind, snapshot.uri, snapshot.files, snapshot.size, snapshot.hit) == (
        "dataset",
        source,
        2,
        10,
        False,
    )
    assert "fetched in" in ran.err


def test_patterns(init: Cli, source: str) -> None:
    ran = init(source, "--include", "*.csv", "--ignore", "test/*", "-o", "json")
    assert json.loads(ran.out)["files"] == 1


def test_a_model_is_used_as_one(cli: Cli, source: str, tmp_path: Path) -> None:
    ran = cli("init", "model", source, "--to", f"file://{tmp_path}/store")
    assert ran.out.splitlines()[1].startswith("✔ model digits fetched")
    assert "  use      trainer-ops run --model file://" in ran.out


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "no scheme": (("digits",), 'invalid request: URI: "digits" is not a URI'),
    "a scheme that nobody knows": (("ftp://h/x",), "invalid request: URI: ftp:// cannot be fetched"),
    "a password in the URI": (("https://me:pw@h/x",), "invalid request: URI: it holds a credential"),
    "nothing there": (("file:///nowhere/at/all",), "invalid request: URI: "),
    "no match": (("{source}", "--include", "*.parquet"), "invalid request: --include: *.parquet matches none"),
    "not the revision": (("{source}", "--revision", "v1"), "invalid request: --revision: "),
    "a time that is none": (("{source}", "--timeout", "soon"), 'invalid request: --timeout: "soon"'),
    "a variable without a name": (("{source}", "--env", "=x"), 'invalid request: --env: "=x" has no name'),
    "a form of output": (("{source}", "-o", "yaml"), 'invalid request: --output: "yaml"'),
    "no URI": ((), "Missing argument 'URI'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_names_the_flag(case: str, init: Cli, source: str, tmp_path: Path) -> None:
    argv, text = REFUSED[case]
    ran = init(*(word.format(source=source) for word in argv))
    assert ran.code == 2, ran.out
    assert text in ran.err
    assert not list((tmp_path / "store").glob("[0-9a-f]*"))
    assert "pw" not in ran.err


def test_a_password_is_in_no_line(init: Cli) -> None:
    ran = init("https://me:s3cret@host/x")
    assert "s3cret" not in ran.out + ran.err


def _raising(error: BaseException, after: float = 0.0) -> Callable[..., Any]:
    def take(*_args: Any, clock: VirtualClock, listener: Any, **_given: Any) -> Any:
        listener.on_start(3, 1000, 200)
        clock.sleep(after)
        listener.on_progress(400, 1)
        raise error

    return take


def test_a_failure_is_one_block_with_the_remedy(init: Cli, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = SnapshotError("the token may not read org/digits (gated)", remedy="Accept its terms on its page")
    monkeypatch.setattr(snapshots, "take_snapshot", _raising(error, 21))
    ran = init(source)
    assert ran.code == 1
    assert ran.out.splitlines()[:2] == ["digits  3 files, 1.0 kB", "· 200 B are here from an earlier try"]
    block = ran.out.splitlines()[-4:]
    assert block[:3] == [
        "✘ no snapshot of digits after 0:21",
        "  what    the token may not read org/digits (gated)",
        "  do      Accept its terms on its page",
    ]
    assert block[3].startswith(f"  again   trainer-ops init dataset {source} --to")


ENDS: dict[str, tuple[Exception, int]] = {
    "no snapshot": (SnapshotError("x"), 1),
    "no right": (Forbidden("x"), 2),
    "no cluster": (Unreachable("x"), 5),
    "no time left": (SnapshotError("not done within 1:00 (wait_timeout)", transient=True), 3),
}


@pytest.mark.parametrize("case", ENDS)
def test_exit_codes(case: str, init: Cli, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error, code = ENDS[case]
    monkeypatch.setattr(snapshots, "take_snapshot", _raising(error, 61))
    ran = init(source, "--timeout", "1m")
    assert ran.code == code
    assert "wait_timeout" not in ran.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_says_what_is_kept(number: int, init: Cli, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def take(*_args: Any, listener: Any, **_given: Any) -> Any:
        listener.on_start(3, 1000, 0)
        os.kill(os.getpid(), number)
        pytest.fail("went on")

    monkeypatch.setattr(snapshots, "take_snapshot", take)
    ran = init(source)
    assert ran.code == 130
    interrupted, again = ran.out.splitlines()[-2:]
    assert interrupted == "interrupted: no snapshot of digits yet; what was fetched is kept."
    assert again.startswith(f"  again   trainer-ops init dataset {source}")


def test_what_a_pipe_is_told(init: Cli, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def take(*_args: Any, clock: VirtualClock, listener: Any, **_given: Any) -> Snapshot:
        listener.on_start(10, 1000, 0)
        for done in range(0, 1001, 50):
            clock.sleep(4)
            listener.on_progress(done, done // 100)
        listener.on_note("10.0.0.1 does not answer; trying again")
        return Snapshot("dataset", source, "r", "ab" * 16, "file:///x", files=10, size=1000)

    monkeypatch.setattr(snapshots, "take_snapshot", take)
    lines = init(source).out.splitlines()
    shown = [line for line in lines if " %  " in line]
    assert [line[line.index("%") - 4 : line.index("%")].strip() for line in shown] == [
        str(n) for n in range(10, 100, 10)
    ]
    assert "· 10.0.0.1 does not answer; trying again" in lines
    assert "✔ dataset" in "".join(lines[-6:-4])


def test_a_secret_variable_is_not_put_into_a_job(cli: Cli, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "made_here", lambda _backend: False)
    ran = cli("init", "dataset", "hf://datasets/org/digits", "--env", "HF_TOKEN=hf_secret")
    assert ran.code == 2
    assert "--env: HF_TOKEN would stand readable in the Job" in ran.err
    assert "hf_secret" not in ran.out + ran.err


def test_parameters_are_called_as_they_were_typed() -> None:
    error = in_flags(InvalidRequest("secret_ref", "of wait_timeout", "Give storage_class"))
    assert str(error) == "invalid request: --secret: of --timeout. Give --storage-class"
    assert in_flags(InvalidRequest("target", "x")).field == "target"
