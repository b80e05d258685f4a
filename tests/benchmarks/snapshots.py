"""A snapshot beside a plain copy of the same source, in turns: throughput and memory.

Servers and clients are processes of their own. A plain copy is neither verified nor written down nor safe against a
loss of power; a snapshot is, and its time counts until it is there.
"""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.measure import Row

SMALL = int(os.environ.get("BENCH_SNAPSHOT_FILES", "2000"))
LARGE = int(os.environ.get("BENCH_SNAPSHOT_BYTES", str(2 << 30)))
TURNS = int(os.environ.get("BENCH_SNAPSHOT_TURNS", "3"))
OPTIONS = {"key": "AKIDEXAMPLE", "secret": "secret"}


def snapshots() -> Iterator[Row]:
    """Snapshots of 2,000 small files and of one of 2 GB, beside snapshot_download and s3fs.get."""
    with tempfile.TemporaryDirectory(prefix="bench-snapshots-") as scratch:
        folder = Path(scratch)
        _fill(folder / "source")
        for server, peer in (("hub", "snapshot_download"), ("s3", "s3fs.get")):
            with _server(server, folder / "source") as url:
                for what in ("small", "large"):
                    yield from _compare(f"{server}://", what, url, peer, folder)
        with _server("moto", folder / "source") as url:
            yield from _compare("s3://, moto's server,", "small", url, "s3fs.get", folder)


def _compare(scheme: str, what: str, url: str, peer: str, folder: Path) -> Iterator[Row]:
    name = scheme.split(":")[0]
    samples: dict[str, list[tuple[float, float]]] = {"ours": [], "peer": []}
    for turn in range(TURNS):
        # Who goes first changes: the first writes to a calmer disk.
        for who in ("ours", "peer") if turn % 2 == 0 else ("peer", "ours"):
            samples[who].append(_sample(f"{who}-{name}", what, url, folder / "out"))
    (ours, our_peak), (theirs, their_peak) = (
        tuple(statistics.median(column) for column in zip(*samples[who], strict=True)) for who in ("ours", "peer")
    )
    title = f"{scheme} one file of {LARGE / 1e9:.1f} GB" if what == "large" else f"{scheme} {SMALL} small files"
    yield Row(
        title,
        _speed(what, ours),
        f"{peer} {_speed(what, theirs)}",
        f"{theirs / ours:.2f} x",
        ">= 0.9 x",
        theirs / ours >= 0.9,
    )
    yield Row(
        f"{title}, peak memory over imports",
        f"{our_peak / 1e6:.0f} MB",
        f"{peer} {their_peak / 1e6:.0f} MB",
        "",
        "< 100 MB",
        our_peak < 100e6,
    )


def _speed(what: str, seconds: float) -> str:
    return f"{LARGE / seconds / 1e6:.0f} MB/s" if what == "large" else f"{SMALL / seconds:.0f} files/s"


def _fill(folder: Path) -> None:
    dice = random.Random(1)
    for number in range(SMALL):
        path = folder / "small" / f"{number % 20:02}" / f"{number:05}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dice.randbytes(dice.randrange(1000, 8000)))
    (folder / "large").mkdir(parents=True)
    with (folder / "large" / "model.bin").open("wb") as file:
        left = LARGE
        while left:
            left -= file.write(os.urandom(min(left, 8 << 20)))


@contextmanager
def _server(kind: str, folder: Path) -> Iterator[str]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.snapshots", "serve", kind, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def _sample(who: str, what: str, url: str, out: Path) -> tuple[float, float]:
    """(seconds, bytes of memory) in a new process."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "AWS_"))}
    # Telemetry and progress bars off for both; Xet needs servers that a stand-in is not.
    env = {
        **clean,
        "HF_ENDPOINT": url,
        "HF_HOME": str(out / "home"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_XET": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.snapshots", who, what, url, str(out / "data")]
    os.sync()
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        seconds, peak = json.loads(done.stdout.splitlines()[-1])
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return float(seconds), float(peak)


def _peak() -> int:
    """Bytes that this process has had resident at most."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _measured(act: Callable[[], object]) -> None:
    before, begun = _peak(), time.perf_counter()
    act()
    print(json.dumps([time.perf_counter() - begun, _peak() - before]))


def _ours(uri: str, options: dict[str, object], out: str) -> None:
    from trainer_ops.initializers.folder_store import FolderStore
    from trainer_ops.initializers.open import open_provider
    from trainer_ops.initializers.provider import Credentials
    from trainer_ops.initializers.source import parse
    from trainer_ops.initializers.take import take
    from trainer_ops.lifecycle.clock import RealClock

    source = parse(uri, kind="dataset")
    provider = open_provider(source, Credentials(options=options))

    def act() -> None:
        made = take(source, FolderStore(Path(out)), kind="dataset", provider=provider, clock=RealClock())
        assert not made.hit
        provider.close()

    _measured(act)


def _ours_hub(what: str, url: str, out: str) -> None:
    import huggingface_hub  # noqa: F401

    _ours(f"hf://datasets/org/{what}", {}, out)


def _peer_hub(what: str, url: str, out: str) -> None:
    from huggingface_hub import snapshot_download

    _measured(lambda: snapshot_download(f"org/{what}", repo_type="dataset", local_dir=out))


def _ours_s3(what: str, url: str, out: str) -> None:
    import s3fs  # noqa: F401

    _ours(f"s3://data/{what}", {**OPTIONS, "endpoint_url": url}, out)


def _peer_s3(what: str, url: str, out: str) -> None:
    import s3fs

    fs = s3fs.S3FileSystem(**OPTIONS, endpoint_url=url)
    _measured(lambda: fs.get(f"data/{what}", out, recursive=True))


def _serve(kind: str, folder: str) -> None:
    logging.disable(logging.CRITICAL)
    if kind == "hub":
        from tests.initializers.hubserver import Hub, HubRepo

        hub = Hub(remember=False)
        for what in ("small", "large"):
            root = Path(folder) / what
            repo = hub.repos[f"datasets/org/{what}"] = HubRepo()
            paths = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
            repo.commit(
                dict(paths) if what == "large" else {name: path.read_bytes() for name, path in paths.items()},
                lfs_from=1 << 20,
            )
        print(hub.url, flush=True)
    elif kind == "s3":
        from tests.benchmarks.s3files import S3Files

        print(S3Files(Path(folder)).url, flush=True)
    else:
        from tests.initializers.s3server import S3Server

        server = S3Server()
        small = Path(folder) / "small"
        server.bucket("data", {})
        server.fill("data", {p.relative_to(folder).as_posix(): p.read_bytes() for p in small.rglob("*") if p.is_file()})
        print(server.url, flush=True)
    threading.Event().wait()


def main(argv: list[str]) -> None:
    if argv[0] == "serve":
        _serve(*argv[1:])
        return
    {"ours-hub": _ours_hub, "peer-hub": _peer_hub, "ours-s3": _ours_s3, "peer-s3": _peer_s3}[argv[0]](*argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
