"""hf:// without a network: what ``huggingface_hub`` has in its own cache on this machine (``HF_HUB_OFFLINE``)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.hub_words import Repo
from trainer_ops.initializers.provider import Listing, RemoteFile, SnapshotError
from trainer_ops.initializers.source import Source

__all__ = ["HubCache"]

_CHUNK: Final = 1 << 20
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SHA1: Final = re.compile(r"[0-9a-f]{40}")
_REMEDY: Final = (
    "Unset HF_HUB_OFFLINE, or fetch it into that cache first:"
    " hf download {name} --repo-type {kind} --revision {revision}"
)


class HubCache:
    """One repository as the hub's cache has it.

    Args:
        source: what is asked for.
        repo: the same, taken apart.
    """

    def __init__(self, source: Source, repo: Repo) -> None:
        from huggingface_hub import constants
        from huggingface_hub.file_download import repo_folder_name

        self._source, self._repo = source, repo
        self._folder = Path(constants.HF_HUB_CACHE).expanduser() / repo_folder_name(
            repo_id=repo.name, repo_type=repo.kind
        )
        self._commit = ""

    def resolve(self) -> Listing:
        """The commit that the cache has for the revision, and its files.

        Raises:
            InvalidRequest: field ``uri`` or ``revision``: it is not in the cache.
        """
        if not self._folder.is_dir():
            raise self._absent("uri", f"{self._repo.uri} is not in the hub's cache {self._folder.parent}")
        self._commit = self._known_commit()
        folder = self._folder / "snapshots" / self._commit
        if not folder.is_dir():
            raise self._absent("revision", f"the hub's cache has no files of {self._repo.uri} at {self._commit}")
        files = tuple(sorted(self._listed(folder), key=lambda file: file.path))
        return Listing(self._source.uri, self._commit, files)

    def fetch(self, file: RemoteFile, part: Path, wrote: Callable[[int], None]) -> None:
        """Copy it; the bytes that are there already are not copied again."""
        path = self._folder / "snapshots" / self._commit / file.url
        try:
            kept = path.open("rb", buffering=0)
        except OSError as error:
            raise SnapshotError(
                f"{self._source.uri}: {file.path} is not in the hub's cache, which has only a part of this revision",
                remedy=self._remedy(),
            ) from error
        with kept, part.open("ab", buffering=0) as copy:
            there, size = copy.tell(), os.fstat(kept.fileno()).st_size
            if there > size:
                wrote(-there)
                copy.truncate(0)
                there = 0
            kept.seek(there)
            while block := kept.read(_CHUNK):
                view = memoryview(block)
                while view:
                    view = view[copy.write(view) :]
                wrote(len(block))

    def close(self) -> None:
        """Nothing is open."""

    def _known_commit(self) -> str:
        if self._source.pinned:
            return self._source.pinned
        revision = self._source.revision or "main"
        try:
            if ".." in revision.split("/"):
                raise FileNotFoundError(revision)
            return str((self._folder / "refs" / revision).read_text()).strip()
        except OSError as error:
            raise self._absent(
                "revision", f'the hub\'s cache does not know what "{revision}" of {self._repo.uri} is'
            ) from error

    def _listed(self, folder: Path) -> Iterator[RemoteFile]:
        below = self._repo.below
        for path, entry in self._tree().items():
            if not below or path.startswith(f"{below}/"):
                yield _file(folder / path, path[len(below) + 1 :] if below else path, path, entry)
            elif path == below:
                yield _file(folder / path, path.rpartition("/")[2], path, entry)

    def _tree(self) -> dict[str, Any]:
        """All files of the commit, also those that the cache has not.

        Raises:
            InvalidRequest: the cache has no listing: what it has may be a part, and a part is no snapshot.
        """
        try:
            from huggingface_hub import get_cached_repo_tree

            tree = get_cached_repo_tree(self._repo.name, repo_type=self._repo.kind, revision=self._commit)
        except Exception as error:
            # An older huggingface_hub keeps no listing; a newer one says in an error of its own that it has none.
            raise self._absent(
                "uri",
                f"the hub's cache does not say which files {self._repo.uri} has at {self._commit} (it was filled file"
                " by file, or by an older huggingface_hub)",
            ) from error
        return {entry.path: entry for entry in tree}

    def _remedy(self) -> str:
        revision = self._source.revision or "main"
        return _REMEDY.format(name=self._repo.name, kind=self._repo.kind, revision=revision)

    def _absent(self, field: str, reason: str) -> InvalidRequest:
        return InvalidRequest(field, f"{reason}, and HF_HUB_OFFLINE forbids to ask the hub", self._remedy())


def _file(kept: Path, path: str, place: str, entry: Any) -> RemoteFile:
    """What the cache knows: a blob there is named by its ETag, which is its digest."""
    blob = os.path.basename(os.path.realpath(kept)) if kept.is_symlink() else ""
    size = kept.stat().st_size if kept.is_file() else getattr(entry, "size", None)
    if _SHA256.fullmatch(blob):
        return RemoteFile(path, size, blob, sha256=blob, url=place)
    if _SHA1.fullmatch(blob):
        return RemoteFile(path, size, blob, blob_sha1=blob, url=place)
    return RemoteFile(path, size, blob, url=place)
