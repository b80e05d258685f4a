"""A snapshot that is being made in a folder, and what is left of it when that breaks off.

What lies where::

    .partial/<key>/tree/data/…         files that are whole, under their own names
    .partial/<key>/tree/manifest.json  just before ``tree`` is renamed to ``<key>``
    .partial/<key>/parts/<hash>        files on their way
    .partial/<key>/done.jsonl          what is whole, a line each
    .partial/<key>/boot                the kernel's run that wrote the parts
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainer_ops.initializers.claims import boot_id
from trainer_ops.initializers.hashing import sha256_of
from trainer_ops.initializers.manifest import FileEntry, Manifest, check_clashes
from trainer_ops.initializers.provider import RemoteFile
from trainer_ops.initializers.source import Source

__all__ = ["FolderDraft", "identity", "sync_folder", "write_synced"]

_SYNC_THREADS = 8


class FolderDraft:
    """See the module. Several threads may keep files at once; only the holder of the key's lock makes one."""

    def __init__(self, folder: Path, final: Path) -> None:
        self._folder, self._final = folder, final
        self._data = folder / "tree" / "data"
        self._parts = folder / "parts"
        self._journal = folder / "done.jsonl"
        self._done: dict[str, tuple[str, FileEntry]] = {}
        self._lock = threading.Lock()
        self._same_boot = False

    @property
    def place(self) -> str:
        """The folder."""
        return str(self._folder)

    def start(self, files: Sequence[RemoteFile], source: Source) -> int:
        """Make the folders, see what is there already, throw away what does not belong."""
        for folder in (self._data, self._parts):
            folder.mkdir(parents=True, exist_ok=True)
        self._same_boot = self._is_same_boot()
        (self._folder / "tree" / "manifest.json").unlink(missing_ok=True)
        if _is_case_blind(self._parts):
            check_clashes(files, source)
        wanted = {file.path: identity(file) for file in files}
        self._done = {
            path: (identity, entry)
            for path, (identity, entry) in self._read_journal().items()
            if identity and wanted.get(path) == identity
        }
        return self._remove_others({_part_name(file) for file in files if self._goes_on(file)})

    def _goes_on(self, file: RemoteFile) -> bool:
        """Whether first bytes of it from an earlier try count."""
        return bool(file.sha256 or file.blob_sha1 or file.md5) or (self._same_boot and bool(identity(file)))

    def _is_same_boot(self) -> bool:
        """Whether what was written is here for sure; a kernel that went down may have left holes in a part."""
        said = self._folder / "boot"
        now = boot_id()
        try:
            if said.read_text(encoding="utf-8") == now:
                return True
        except (OSError, ValueError):
            pass
        said.write_text(now, encoding="utf-8")
        return False

    def _read_journal(self) -> dict[str, tuple[str, FileEntry]]:
        done: dict[str, tuple[str, FileEntry]] = {}
        try:
            lines = self._journal.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return done
        for line in lines:
            try:
                data = json.loads(line)
                done[data["path"]] = (data["of"], FileEntry(data["path"], data["size"], data["sha256"]))
            except (ValueError, KeyError, TypeError):
                continue  # The last line, when its writer died.
        return done

    def _remove_others(self, parts: set[str]) -> int:
        there = 0
        for part in self._parts.iterdir():
            if part.name in parts:
                there += part.stat().st_size
            else:
                part.unlink()
        for path in list(_walk(self._data)):
            done = self._done.get(path.relative_to(self._data).as_posix())
            if done and path.stat().st_size == done[1].size:
                there += done[1].size
            else:
                path.unlink()
        # A folder that has become a file's name must not be in its way.
        for folder, _, _ in os.walk(self._data, topdown=False):
            if folder != str(self._data) and not os.listdir(folder):
                os.rmdir(folder)
        return there

    def room(self) -> int:
        """What the file system says is free for us; a quota is not seen."""
        return shutil.disk_usage(self._folder).free

    def kept(self, file: RemoteFile, wrote: Callable[[int], None]) -> FileEntry | None:
        """Read again, because a machine that lost its power may have lost bytes of it."""
        found = self._done.get(file.path)
        path = self._data / file.path
        if found is None or not path.exists():
            return None
        entry = found[1]
        if sha256_of(path) == entry.sha256:
            return entry
        wrote(-entry.size)
        path.unlink()
        return None

    def part(self, file: RemoteFile) -> Path:
        """Named by path and version: bytes of two versions never meet."""
        return self._parts / _part_name(file)

    def keep(self, file: RemoteFile, entry: FileEntry) -> None:
        """Write the line that says so, then rename it to its place: what has no line there is thrown away."""
        part, path = self.part(file), self._data / entry.path
        said = {"path": entry.path, "size": entry.size, "sha256": entry.sha256, "of": identity(file)}
        with self._lock, self._journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(said) + "\n")
        path.parent.mkdir(parents=True, exist_ok=True)
        part.chmod(0o444)
        part.replace(path)

    def commit(self, manifest: Manifest) -> None:
        """Everything on the disk, then the manifest, then one rename."""
        tree = self._data.parent
        folders = [Path(folder) for folder, _, _ in os.walk(self._data)]
        with ThreadPoolExecutor(_SYNC_THREADS) as pool:
            for _ in pool.map(lambda entry: _sync(self._data / entry.path), manifest.files):
                pass
        for folder in folders:
            folder.chmod(0o755)
            sync_folder(folder)
        write_synced(tree / "manifest.json", manifest.dump())
        tree.chmod(0o755)
        sync_folder(tree)
        tree.rename(self._final)
        sync_folder(self._final.parent)
        shutil.rmtree(self._folder, ignore_errors=True)

    def leave(self) -> None:
        """Every file was written down when it was kept."""


def identity(file: RemoteFile) -> str:
    """What must be equal for bytes from an earlier try to count; "" when nothing tells versions apart."""
    if not (file.version or file.sha256 or file.blob_sha1 or file.md5):
        return ""
    return json.dumps([file.size, file.version, file.sha256, file.blob_sha1, file.md5])


def _part_name(file: RemoteFile) -> str:
    return hashlib.sha256(f"{file.path}\n{identity(file)}".encode()).hexdigest()[:40]


def _walk(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        for name in names:
            yield Path(where, name)


def _is_case_blind(folder: Path) -> bool:
    probe = folder / "Probe"
    probe.touch()
    try:
        return (folder / "pROBE").exists()
    finally:
        probe.unlink()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make renames in it last; some network file systems do not know that, and need not."""
    try:
        _sync(folder)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EACCES, errno.EISDIR):
            raise


def write_synced(path: Path, text: str) -> None:
    """Write a small file that is there whole, also after a loss of power."""
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
