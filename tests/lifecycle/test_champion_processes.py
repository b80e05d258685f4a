"""Promotions by real processes: killed before each thing they do to the disk, and many at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.lifecycle.champion import FolderRegistry, open_registry
from trainer_ops.lifecycle.champion_places import ObjectPlace
from trainer_ops.lifecycle.model_files import model_files
from trainer_ops.model.champion import Candidate, Champion, ChampionChanged
from trainer_ops.testing import VirtualClock

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# Kills itself before the n-th call that touches the registry's folder. Python tells an audit hook of each.
_ACT = """
import json, os, signal, sys

root, what, model, expect, left = sys.argv[1:]
left, steps = int(left), 0
from trainer_ops.lifecycle.champion import open_registry
from trainer_ops.lifecycle.model_files import model_files
from trainer_ops.model.champion import Candidate, ChampionChanged

def hook(event, args):
    global steps
    if event.split(".")[0] not in ("open", "os", "shutil", "fcntl"):
        return
    where = " ".join(str(arg) for arg in args)
    if root in where or event == "fcntl.flock":
        steps += 1
        if steps == left:
            os.kill(os.getpid(), 9)

registry = open_registry(root)
if left >= 0:
    sys.addaudithook(hook)
else:
    sys.stdin.readline()
try:
    if what == "promote":
        registry.promote(Candidate(model, {"accuracy": 0.9}, model), expect=int(expect))
    else:
        registry.keep(1)
    print(steps, "won")
except ChampionChanged:
    print(steps, "lost")
"""


def act(root: Path, what: str, model: str = "", expect: int = 0, left: int = 0) -> subprocess.Popen[str]:
    """A process that promotes or cleans up; ``left`` is the step it dies before, 0 for none, -1 to wait for a line."""
    words = [str(root), what, model, str(expect), str(left)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", _ACT, *words], text=True, **pipes)


def done(process: subprocess.Popen[str]) -> str:
    text, error = process.communicate("\n", timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), error
    return text.strip()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Four models, each a folder of two files."""
    for name in ("a", "b", "c", "d"):
        (tmp_path / "models" / name).mkdir(parents=True)
        for part in ("1", "2"):
            (tmp_path / "models" / name / part).write_text(f"{name}{part}")
    return tmp_path / "models"


def whole(champion: Champion | None) -> str:
    """The name of the model that is in use; it is all there."""
    assert champion is not None
    folder = Path(champion.model_uri.removeprefix("file://"))
    name = Path(champion.source_uri).name
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"1": f"{name}1", "2": f"{name}2"}
    return name


def test_kill_9_before_every_step_of_a_promotion(models: Path, tmp_path: Path) -> None:
    """Whatever the step: the old champion or the new one, whole; and trying again ends in one promotion."""

    def fresh(name: str) -> Path:
        root = tmp_path / name
        open_registry(str(root)).promote(Candidate(str(models / "a")), expect=0)
        return root

    count, _, how = done(act(fresh("counted"), "promote", str(models / "b"), 1)).partition(" ")
    assert how == "won"
    assert int(count) > 15
    seen = set()
    for left in range(1, int(count) + 1):
        root = fresh(f"at-{left}")
        assert done(act(root, "promote", str(models / "b"), 1, left)) == "", f"step {left} was not reached"
        seen.add(whole(open_registry(str(root)).champion()))
        assert done(act(root, "promote", str(models / "b"), 1)).endswith("won")
        registry = open_registry(str(root))
        champion = registry.champion()
        assert whole(champion) == "b"
        assert champion is not None
        assert champion.version == 2
        # Nothing is left over, neither of the dead process nor of two tries.
        assert len(list((root / "versions").iterdir())) == 2
        registry.keep(1)
        assert [path.name for path in (root / "versions").iterdir()] == [champion.folder]
        assert {path.name for path in root.iterdir()} <= {"champion.json", "versions", ".lock", ".partial"}
        assert not list(root.glob(".partial/*"))
    assert seen == {"a", "b"}


def test_kill_9_before_every_step_of_cleaning_up(models: Path, tmp_path: Path) -> None:
    def fresh(name: str) -> Path:
        for expect, model in enumerate(("a", "b", "c")):
            open_registry(str(tmp_path / name)).promote(Candidate(str(models / model)), expect=expect)
        return tmp_path / name

    count = int(done(act(fresh("counted"), "keep")).split()[0])
    assert count > 8
    for left in range(1, count + 1):
        root = fresh(f"at-{left}")
        assert done(act(root, "keep", left=left)) == ""
        assert whole(open_registry(str(root)).champion()) == "c"
        # What is still listed is whole.
        for version in (root / "versions").iterdir():
            assert {path.name for path in (version / "model").iterdir()} == {"1", "2"}
        assert done(act(root, "keep")).endswith("won")
        assert len(list((root / "versions").iterdir())) == 1
        assert open_registry(str(root)).promote(Candidate(str(models / "d")), expect=3).version == 4


def test_many_promoters_at_once_and_one_wins(models: Path, tmp_path: Path) -> None:
    root = tmp_path / "registry"
    open_registry(str(root)).promote(Candidate(str(models / "a")), expect=0)
    processes = [act(root, "promote", str(models / "bcd"[number % 3]), 1, -1) for number in range(9)]
    for process in processes:  # each waits for a line
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [done(process).split()[1] for process in processes]
    champion = open_registry(str(root)).champion()
    winner = whole(champion)
    # Three processes had that model: the promotion of one is the promotion of all three.
    assert said == ["won" if "bcd"[number % 3] == winner else "lost" for number in range(9)]
    assert champion is not None
    assert champion.version == 2
    assert len(list((root / "versions").iterdir())) == 2


@pytest.fixture(scope="module")
def s3_options() -> Any:
    """A real S3 server on loopback, and what fsspec's driver needs to know of it."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {"key": "test", "secret": "test", "endpoint_url": f"http://{host}:{port}"}
    server.stop()


class Dies(BaseException):
    """What a kill is to the code that it hits: nothing runs after it."""


class Dying:
    """fsspec's driver, which dies before its n-th call; counts them."""

    def __init__(self, fs: Any, left: int) -> None:
        self._fs = fs
        self.left = left
        self.steps = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._fs, name)
        return self._counted(found) if callable(found) else found

    def _counted(self, call: Any) -> Any:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.steps += 1
            if self.steps == self.left:
                raise Dies
            return call(*args, **kwargs)

        return counted


def s3_registry(url: str, options: Any, left: int = 0) -> tuple[FolderRegistry, ObjectPlace, Dying]:
    place = ObjectPlace(url, options)
    place._fs = dying = Dying(place._fs, left)
    return FolderRegistry(place, clock=VirtualClock(), options=options), place, dying


@pytest.fixture
def bucket(s3_options: Any, tmp_path: Path) -> Any:
    """Its name; a bucket for one test."""
    import s3fs

    name = tmp_path.name.replace("_", "-").lower()
    s3fs.S3FileSystem(**s3_options).mkdir(name)
    return name


def test_death_before_every_request_to_object_storage(models: Path, s3_options: Any, bucket: str) -> None:
    def content(champion: Champion | None) -> str:
        assert champion is not None
        name = Path(champion.source_uri).name
        files = model_files(champion.model_uri, s3_options).files
        assert {file.path: file.open().read() for file in files} == {
            "1": f"{name}1".encode(),
            "2": f"{name}2".encode(),
        }
        return name

    seen, left = set(), 0
    while True:
        left += 1
        url = f"s3://{bucket}/{left}"
        s3_registry(url, s3_options)[0].promote(Candidate(str(models / "a")), expect=0)
        registry, _, dying = s3_registry(url, s3_options, left)
        try:
            registry.promote(Candidate(str(models / "b")), expect=1)
        except Dies:
            pass
        seen.add(content(s3_registry(url, s3_options)[0].champion()))
        again = s3_registry(url, s3_options)[0]
        assert again.promote(Candidate(str(models / "b")), expect=1).version == 2
        assert content(again.champion()) == "b"
        assert again.keep(1) == [f"000001-{Candidate(str(models / 'a')).id}"]
        assert content(again.champion()) == "b"
        if dying.steps < left:
            break
    assert left > 6
    assert seen == {"a", "b"}


def test_between_reading_the_pointer_and_writing_it(models: Path, s3_options: Any, bucket: str) -> None:
    """The server's condition decides, not the moment at which somebody looked."""
    for first in (True, False):
        url = f"s3://{bucket}/{first}"
        if not first:
            s3_registry(url, s3_options)[0].promote(Candidate(str(models / "a")), expect=0)
        expect = 0 if first else 1
        registry, place, _ = s3_registry(url, s3_options)
        add = place.add

        def rival(*args: Any, url: str = url, expect: int = expect, add: Any = add) -> None:
            add(*args)
            s3_registry(url, s3_options)[0].promote(Candidate(str(models / "c")), expect=expect)

        place.add = rival  # type: ignore[method-assign,assignment]
        with pytest.raises(ChampionChanged):
            registry.promote(Candidate(str(models / "b")), expect=expect)
        champion = registry.champion()
        assert champion is not None
        assert champion.source_uri == str(models / "c")
        # What the loser had copied goes with the next cleaning up.
        assert len(registry.keep(9)) == 1


def test_a_driver_that_knows_no_condition_reads_again(models: Path, tmp_path: Path) -> None:
    """Google's and Azure's: somebody who wrote right after is noticed, as far as it can be."""
    url = f"memory://{tmp_path.name}/r"
    clock = VirtualClock()
    open_registry(url, clock=clock).promote(Candidate(str(models / "a")), expect=0)
    place = ObjectPlace(url)
    swap = place.swap

    def overtaken(name: str, data: bytes, token: str | None) -> bool:
        rival = {**Champion.of(Candidate("c"), None, model_uri="c", promoted_at="").to_json(), "version": 2}
        return swap(name, data, token) and swap(name, json.dumps(rival).encode(), "")

    place.swap = overtaken  # type: ignore[method-assign]
    with pytest.raises(ChampionChanged, match="the champion is version 2"):
        FolderRegistry(place, clock=clock).promote(Candidate(str(models / "b")), expect=1)
