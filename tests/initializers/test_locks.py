"""Who may make a snapshot: on one host, on several, after deaths of all kinds."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.initializers import claims, locks
from trainer_ops.initializers.claims import FileClaim, Holder, KernelLock
from trainer_ops.initializers.locks import STALE, holding
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.testing.clock import VirtualClock


class Host:
    """A host with a kernel of its own, on a network file system that shows each its own kernel locks only."""

    def __init__(self, folder: Path, name: str, clock: VirtualClock) -> None:
        self.folder, self.name, self.clock = folder, name, clock
        self.notes: list[str] = []

    def kernel(self) -> KernelLock:
        class Own(KernelLock):
            def place(own) -> str:
                return self.name

        return Own(self.folder / f"{self.name}-key")

    def claim(self) -> FileClaim:
        return FileClaim(self.folder / "key.json")

    @contextlib.contextmanager
    def hold(self, timeout: float = 0.0, kernel: KernelLock | None = None) -> Iterator[Any]:
        taken = kernel or self.kernel()
        given: dict[str, Any] = {"what": "snapshot k", "clock": self.clock, "timeout": timeout}
        with holding(self.claim(), taken, **given, note=self.notes.append) as held:
            yield held

    def dead(self, pid: int = 4242) -> None:
        """Leave what a process of this host leaves that is killed while it holds."""
        text = Holder("node-" + self.name, pid, self.clock.now(), self.name, "token-of-" + self.name).dump()
        (self.folder / "key.json").write_bytes(text)
        (self.folder / f"{self.name}-key").touch()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def here(tmp_path: Path, clock: VirtualClock) -> Host:
    return Host(tmp_path, "here", clock)


@pytest.fixture
def there(tmp_path: Path, clock: VirtualClock) -> Host:
    return Host(tmp_path, "there", clock)


def test_free_held_free(here: Host, tmp_path: Path) -> None:
    with here.hold() as held:
        held.check(ask=True)
        assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []
    with here.hold():
        pass


def test_held_on_the_same_host(here: Host, clock: VirtualClock) -> None:
    with here.hold(), pytest.raises(SnapshotError) as caught, here.hold(timeout=60):
        pass
    assert f"process {os.getpid()} on " in caught.value.message
    assert "since 2027-01-15" in caught.value.message
    assert "within 60 s" in caught.value.message
    assert caught.value.transient
    assert sum(clock.slept) == pytest.approx(60)
    assert len(here.notes) == 1


def test_held_on_another_host(here: Host, there: Host, clock: VirtualClock) -> None:
    with there.hold():
        # It lives: it touches its claim.
        count = iter(range(1, 1000))

        def beat() -> None:
            os.utime(there.folder / "key.json", ns=(0, next(count)))
            clock.after(10, beat)

        beat()
        with pytest.raises(SnapshotError, match="is being worked on by process"), here.hold(timeout=3600):
            pass
    with here.hold():
        pass


def test_let_go_while_somebody_waits(here: Host, there: Host, clock: VirtualClock) -> None:
    other = there.hold()
    other.__enter__()
    clock.after(7, lambda: other.__exit__(None, None, None))
    with here.hold(timeout=60):
        assert 7 <= sum(clock.slept) < 8
    assert len(here.notes) == 1


def test_a_dead_holder_of_this_host_is_not_waited_for(here: Host, clock: VirtualClock) -> None:
    here.dead()
    with here.hold() as held:
        held.check(ask=True)
    assert clock.slept == []


def test_a_dead_holder_of_another_host_is_known_by_its_silence(here: Host, there: Host, clock: VirtualClock) -> None:
    there.dead()
    with pytest.raises(SnapshotError, match="process 4242 on node-there since 2027"), here.hold(timeout=STALE - 10):
        pass
    with here.hold(timeout=STALE + 10) as held:
        held.check(ask=True)
    assert "process 4242 on node-there" in here.notes[0]


def test_of_two_who_take_over_one_wins(
    here: Host, there: Host, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    Host(here.folder, "gone", clock).dead()
    replace = FileClaim.replace

    def late(claim: FileClaim, text: bytes) -> None:
        replace(claim, text)
        clock.after(1, lambda: there.dead(77))  # The other one writes its name a moment later.

    monkeypatch.setattr(FileClaim, "replace", late)
    with pytest.raises(SnapshotError, match="process 77 on node-there"), here.hold(timeout=STALE + 30):
        pass


def test_one_that_stood_still_sees_that_it_lost(here: Host, there: Host) -> None:
    with here.hold() as held:
        there.dead()
        with pytest.raises(SnapshotError, match="taken over by another process") as caught:
            held.check(ask=True)
        assert caught.value.transient
    assert json.loads((here.folder / "key.json").read_bytes())["place"] == "there"


def test_the_heartbeat_touches_and_sees(here: Host, there: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "BEAT", 0.01)
    touched = threading.Event()
    touch = FileClaim.touch

    def note(claim: FileClaim, text: bytes) -> None:
        touch(claim, text)
        touched.set()

    monkeypatch.setattr(FileClaim, "touch", note)
    with here.hold() as held:
        assert touched.wait(60)
        there.dead()
        for _ in range(6000):
            if held._lost:
                break
            time.sleep(0.01)
        with pytest.raises(SnapshotError, match="taken over"):
            held.check()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"host": "x"}', b"\xff"])
def test_a_claim_that_nobody_can_read_is_stale_too(text: bytes, here: Host, clock: VirtualClock) -> None:
    (here.folder / "key.json").write_bytes(text)
    with pytest.raises(SnapshotError, match="another process"), here.hold():
        pass
    with here.hold(timeout=STALE + 10):
        pass


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_without_kernel_locks_the_claim_does_it_alone(
    number: int, here: Host, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with here.hold() as held:
        held.check(ask=True)
        with pytest.raises(SnapshotError, match="is being worked on"), here.hold(timeout=1):
            pass
    with here.hold():
        pass


def test_without_hard_links_the_claim_is_created_in_place(
    here: Host, there: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(os, "link", refuse)
    with here.hold() as held:
        held.check(ask=True)
        with pytest.raises(SnapshotError, match="is being worked on"), there.hold():
            pass
    assert not (here.folder / "key.json").exists()


def test_a_full_disk_does_not_keep_gc_out(here: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, text: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with here.hold() as held:
        with pytest.raises(SnapshotError):
            held.check(ask=True)  # A maker stops here.
        with pytest.raises(SnapshotError), here.hold():
            pass


def test_a_folder_that_cannot_be_written_is_told(here: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, text: bytes) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(SnapshotError, match="snapshot k cannot be locked: Permission denied"), here.hold():
        pass


def test_the_kernel_frees_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
from trainer_ops.initializers.claims import KernelLock
lock = KernelLock(Path({str(tmp_path / "key")!r}))
print(lock.take(), flush=True)
time.sleep(600)
"""
    lock = KernelLock(tmp_path / "key")
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "True\n"
            assert lock.take() is False
        finally:
            other.kill()
    assert lock.take() is True
    lock.release()


def test_a_lock_file_that_its_holder_removed_is_not_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "key"
    first = KernelLock(path)
    assert first.take()
    first.release()
    second, third = KernelLock(path), KernelLock(path)
    assert second.take()
    assert not third.take()
    second.release()
    assert third.take()
    third.release()
    third.release()


def test_many_threads_one_at_a_time(tmp_path: Path) -> None:
    inside = 0
    most = 0
    ended: list[int] = []

    def work(number: int) -> None:
        nonlocal inside, most
        host = Host(tmp_path, "here", VirtualClock())
        host.clock.sleep = lambda seconds, watch=None: time.sleep(0.001)  # type: ignore[method-assign]
        for _ in range(20):
            with host.hold(timeout=1):
                inside += 1
                most = max(most, inside)
                inside -= 1
        ended.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (most, sorted(ended)) == (1, [0, 1, 2, 3])
    assert list(tmp_path.iterdir()) == []


def test_who_is_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert claims.is_gone(ended.pid)
    assert not claims.is_gone(os.getpid())
    assert claims.processes().startswith(claims.boot_id())
