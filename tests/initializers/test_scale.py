"""Ten thousand files, and one larger than the memory that may be used for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, resource, sys, time
from pathlib import Path
from tests.initializers.killer import Clock
from trainer_ops.initializers.open import open_provider
from trainer_ops.initializers.folder_store import FolderStore
from trainer_ops.initializers.source import parse
from trainer_ops.initializers.take import take

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 * 1024 if sys.platform == "darwin" else 1024)

source = parse(f"file://{sys.argv[1]}")
store = FolderStore(sys.argv[2])
before = peak()
made = take(source, store, kind="dataset", provider=open_provider(source), clock=Clock())
grown = peak() - before
again = take(source, store, kind="dataset", provider=open_provider(source), clock=Clock())
print(json.dumps([made.files, made.size, grown, again.hit, store.verify(made.key)]))
"""


def run(source: Path, store: Path) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(source), str(store)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[object] = json.loads(done.stdout)
    return found


def test_ten_thousand_files(tmp_path: Path) -> None:
    source = tmp_path / "data"
    for number in range(10_000):
        folder = source / f"part-{number % 100:02}"
        if number < 100:
            folder.mkdir(parents=True)
        (folder / f"{number}.txt").write_text(str(number))
    files, size, grown, hit, problems = run(source, tmp_path / "store")
    assert (files, size, hit, problems) == (10_000, 38_890, True, [])
    assert isinstance(grown, int)
    assert grown < 100


def test_a_file_larger_than_the_memory_for_it(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    with (source / "large").open("wb") as file:
        file.truncate(400 << 20)
    files, size, grown, hit, problems = run(source, tmp_path / "store")
    assert (files, size, hit, problems) == (1, 400 << 20, True, [])
    assert isinstance(grown, int)
    assert grown < 100
