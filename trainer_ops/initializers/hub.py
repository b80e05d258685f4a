"""hf://: datasets and models of the Hugging Face hub, or of a server that speaks its API (``HF_ENDPOINT``).

Asked through ``huggingface_hub``: its token, its endpoint, its cache where ``HF_HUB_OFFLINE`` is set. The bytes come
over plain HTTP, not through its Xet client: that one can go on neither from a part of an earlier process nor within
the memory that is promised here. Only what the hub gives out over nothing else goes through it.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.http import bearer
from trainer_ops.initializers.hub_words import Repo, refusal
from trainer_ops.initializers.patience import Patience, retry_after
from trainer_ops.initializers.pieces import Pieces
from trainer_ops.initializers.provider import Credentials, Listing, Provider, RemoteFile, SnapshotError
from trainer_ops.initializers.source import Source
from trainer_ops.initializers.target import BUSY, Busy, Target, Tries
from trainer_ops.initializers.transfer import Transfer
from trainer_ops.initializers.wire import Answer, LineCut, Wire, origin

__all__ = ["open_source"]

# The hub's own limit for a file over plain HTTP (huggingface_hub: MAX_HTTP_DOWNLOAD_SIZE).
PLAIN_LIMIT: Final = 50 * 1000**3
_SECONDS: Final = 30.0
_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)

_Told = TypeVar("_Told")


def open_source(
    source: Source, credentials: Credentials, *, patience: Patience | None = None, pieces: Pieces | None = None
) -> Provider:
    """Open a repository of the hub.

    Args:
        source: its revision is a branch, a tag or a commit; "" for the newest.
        credentials: a token, else the one that ``huggingface_hub`` finds (HF_TOKEN, ``hf auth login``); option
            ``endpoint`` for another server than ``HF_ENDPOINT`` says.
        patience: how long to go on asking.
        pieces: threads and memory for large files.

    Raises:
        ImportError: ``huggingface_hub`` is not installed.
        InvalidRequest: the token cannot be sent, or the endpoint is not a URL.
    """
    from huggingface_hub import constants

    repo = Repo.of(source)
    if constants.HF_HUB_OFFLINE:
        from trainer_ops.initializers.hub_cache import HubCache

        return HubCache(source, repo)
    return _Hub(source, repo, credentials, patience or Patience(), pieces)


class _Hub:
    def __init__(
        self, source: Source, repo: Repo, credentials: Credentials, patience: Patience, pieces: Pieces | None
    ) -> None:
        from huggingface_hub import HfApi
        from huggingface_hub.utils import build_hf_headers

        bearer(credentials.token)
        token = credentials.token.strip() or None
        endpoint = credentials.options.get("endpoint")
        self._source, self._repo, self._patience = source, repo, patience
        self._api = HfApi(
            endpoint=str(endpoint).rstrip("/") if endpoint else None, token=token, library_name="trainer-ops"
        )
        if not str(self._api.endpoint).startswith(("http://", "https://")):
            # Not the text itself: what stands in its place may be a token.
            raise InvalidRequest(
                "HF_ENDPOINT", "it is not a URL", "Write it whole, as in HF_ENDPOINT=https://hub.example.com."
            )
        self._headers = dict(build_hf_headers(token=token, library_name="trainer-ops"))
        # One that huggingface_hub has found is as little to be seen in an error of http.client.
        self._authorized = bool(bearer(self._headers.get("authorization", "").removeprefix("Bearer ")))
        self._transfer = Transfer(Wire(), patience=patience, pieces=pieces)
        self._commit = ""

    def resolve(self) -> Listing:
        """The commit that the revision means now, and its files."""
        self._commit = self._source.pinned or str(self._asked(self._info).sha)
        files = self._asked(lambda: tuple(self._files(self._repo.below)))
        return Listing(self._source.uri, self._commit, files)

    def fetch(self, file: RemoteFile, part: Path, wrote: Callable[[int], None]) -> None:
        """See ``Provider.fetch``."""
        if (file.size or 0) > PLAIN_LIMIT:
            self._by_hub(file, part, wrote)
            return
        target = Target(
            name=f"{self._source.uri}: {file.path}",
            url=lambda: self._url(file),
            headers=self._headers,
            size=file.size,
            pinned=True,
            refused=self._refused,
        )
        self._transfer.fetch(target, part, wrote)

    def stop(self) -> None:
        """See ``Provider``. What huggingface_hub is fetching (only what is over 50 GB) goes on to its end."""
        self._transfer.stop()

    def close(self) -> None:
        """See ``Provider.close``."""
        self._transfer.close()

    def _info(self) -> Any:
        return self._api.repo_info(
            self._repo.name, repo_type=self._repo.kind, revision=self._source.revision or None, timeout=_SECONDS
        )

    def _files(self, below: str) -> Iterator[RemoteFile]:
        from huggingface_hub.errors import EntryNotFoundError

        try:
            tree = self._api.list_repo_tree(
                self._repo.name, below or None, recursive=True, revision=self._commit, repo_type=self._repo.kind
            )
            for entry in tree:
                # A folder has no blob.
                if getattr(entry, "blob_id", None):
                    yield _file(entry, entry.path[len(below) + 1 :] if below else entry.path)
        except EntryNotFoundError:
            found = self._api.get_paths_info(self._repo.name, [below], revision=self._commit, repo_type=self._repo.kind)
            if not [entry for entry in found if getattr(entry, "blob_id", None)]:
                raise
            yield _file(found[0], below.rpartition("/")[2])

    def _url(self, file: RemoteFile) -> str:
        from huggingface_hub import hf_hub_url

        return str(
            hf_hub_url(
                self._repo.name,
                file.url,
                repo_type=self._repo.kind,
                revision=self._commit,
                endpoint=self._api.endpoint,
            )
        )

    def _by_hub(self, file: RemoteFile, part: Path, wrote: Callable[[int], None]) -> None:
        """A file too large for plain HTTP, through huggingface_hub."""
        aside = part.with_name(f"{part.name}.hub")
        there = part.stat().st_size if part.exists() else 0
        try:
            made = self._asked(
                lambda: self._api.hf_hub_download(
                    self._repo.name, file.url, repo_type=self._repo.kind, revision=self._commit, local_dir=aside
                )
            )
            os.replace(made, part)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        wrote((file.size or 0) - there)

    def _asked(self, ask: Callable[[], _Told]) -> _Told:
        """The answer to a question put through huggingface_hub, which asks again in some cases only."""
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError

        # huggingface_hub speaks through requests, httpx or httpx2, as its version is: what its own error is made of
        # is the base of all of that library's.
        foreign: tuple[type[Exception], ...] = (HfHubHTTPError.__bases__[0], OSError)
        tries = Tries(self._patience, Target(name=self._source.uri, url=lambda: str(self._api.endpoint)))
        while True:
            try:
                return ask()
            except foreign as error:
                tries.again(self._judged(error))
            except HFValidationError as error:
                raise InvalidRequest("uri", f"{self._repo.name} cannot be a repository: {error}") from error
            except (ValueError, KeyError, TypeError) as error:
                raise self._no_hub() from error

    def _no_hub(self) -> SnapshotError:
        return SnapshotError(
            f"{self._source.uri}: what answers at {self._api.endpoint} is not a Hugging Face hub",
            remedy="Check HF_ENDPOINT, and the proxy before it.",
        )

    def _judged(self, error: Exception) -> LineCut:
        response = getattr(error, "response", None)
        status = getattr(response, "status_code", None)
        if response is None or status is None:
            if isinstance(error, ValueError):
                # What requests makes of a body that is no JSON.
                raise self._no_hub() from error
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise SnapshotError(
                    f"{self._source.uri}: the certificate of {self._api.endpoint} is not trusted here",
                    remedy="Set SSL_CERT_FILE to a file with the certificate authority of that server or proxy.",
                ) from error
            if isinstance(error, OSError) and error.errno in _DISK:
                raise error
            return LineCut(str(error) or type(error).__name__)
        if status in BUSY:
            return Busy(status, retry_after(response.headers))
        raise self._refusal(status, response.headers) from error

    def _refused(self, answer: Answer) -> Exception | None:
        if origin(answer.url) != origin(str(self._api.endpoint)):
            # The store behind the hub, which knows nothing of repositories.
            return None
        return self._refusal(answer.status, answer.headers)

    def _refusal(self, status: int, headers: Any) -> Exception:
        return refusal(
            status,
            headers.get("X-Error-Code") or "",
            headers.get("X-Error-Message") or "",
            repo=self._repo,
            source=self._source,
            page=f"{self._api.endpoint}/{self._repo.place}",
            authorized=self._authorized,
            known=self._known,
        )

    def _known(self, code: str) -> list[str]:
        """What there is instead: revisions, or the other kind of repository of that name; [] when nobody says."""
        try:
            if code == "RevisionNotFound":
                refs = self._api.list_repo_refs(self._repo.name, repo_type=self._repo.kind)
                return [ref.name for ref in (*refs.branches, *refs.tags)]
            other = self._repo.other
            return [other.uri] if self._api.repo_exists(other.name, repo_type=other.kind) else []
        except Exception:
            # This only makes an error more helpful; whatever is wrong here, that error is the one to tell.
            return []


def _file(entry: Any, path: str) -> RemoteFile:
    lfs = entry.lfs
    if lfs is None:
        return RemoteFile(path, entry.size, entry.blob_id, blob_sha1=entry.blob_id, url=entry.path)
    return RemoteFile(path, lfs.size, entry.blob_id, sha256=lfs.sha256, url=entry.path)
