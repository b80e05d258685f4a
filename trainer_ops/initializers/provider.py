"""What a scheme must be able to do: say which files there are, and fetch one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from trainer_ops.errors import InvalidRequest, TrainerOpsError

__all__ = [
    "Credentials",
    "CredentialsTrouble",
    "Listing",
    "Provider",
    "RemoteFile",
    "SnapshotError",
    "SourceChanged",
    "error_from_json",
    "error_to_json",
]


CredentialsTrouble = Literal["", "missing", "refused"]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a listing.

    Attributes:
        path: relative, with ``/``, below the source's root; never absolute, never with ``..``.
        size: bytes; None where the source does not say.
        version: what tells this content from a later one of the same path (ETag, version id, blob id); "" when the
            source has nothing of the kind.
        sha256: hex, where the source knows it.
        blob_sha1: hex, git's id of a blob, where the source knows it (small files of the Hugging Face hub).
        md5: hex, where the source knows it (the ETag of an object that was uploaded in one part).
        url: what the provider fetches it by, where that is not its path.
    """

    path: str
    size: int | None = None
    version: str = ""
    sha256: str = ""
    blob_sha1: str = ""
    md5: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a source holds now.

    Attributes:
        uri: canonical, without credentials.
        revision: resolved: a commit of the hub, a digest over the files' versions where the source has no revision of
            its own. The same content gives the same revision.
        files: all of them, before patterns.
    """

    uri: str
    revision: str
    files: tuple[RemoteFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to reach a source. Never stored, never printed.

    Attributes:
        token: of the Hugging Face hub, or a bearer token for http(s).
        options: keyword arguments for fsspec's driver (``key``, ``secret``, ``endpoint_url``, …).
    """

    token: str = field(default="", repr=False)
    options: Mapping[str, object] = field(default_factory=dict, repr=False)


class SnapshotError(TrainerOpsError):
    """A snapshot could not be made; nothing half made is visible. Raised with a remedy.

    Attributes:
        transient: whether the same call may well work later (no answer, a lock that is held, a full disk that is not
            ours): a retry is worth it.
        credentials: what is wrong with the credentials, where it is them: ``missing`` (also one half of them) or
            ``refused``; "" else. For those who know where they come from, which is not known here.
    """

    def __init__(
        self, message: str, *, remedy: str = "", transient: bool = False, credentials: CredentialsTrouble = ""
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.transient = transient
        self.credentials = credentials


class SourceChanged(SnapshotError):
    """A file changed on the remote between listing and download. ``take`` lists again, a few times."""

    def __init__(self, message: str, *, remedy: str = "", transient: bool = True) -> None:
        super().__init__(message, remedy=remedy, transient=transient)


def error_to_json(error: TrainerOpsError) -> dict[str, Any]:
    """An error as plain data: how it leaves a pod or a triggerer."""
    return {
        "field": error.field if isinstance(error, InvalidRequest) else "",
        "reason": error.reason if isinstance(error, InvalidRequest) else error.message,
        "remedy": error.remedy,
        "transient": isinstance(error, SnapshotError) and error.transient,
        "credentials": error.credentials if isinstance(error, SnapshotError) else "",
    }


def error_from_json(data: Mapping[str, Any]) -> InvalidRequest | SnapshotError:
    """The inverse of ``error_to_json``: InvalidRequest where a field is named, else SnapshotError; misses nothing."""
    field, reason, remedy = (str(data.get(name) or "") for name in ("field", "reason", "remedy"))
    if field:
        return InvalidRequest(field, reason, remedy)
    said = data.get("credentials")
    trouble: CredentialsTrouble = said if said in ("missing", "refused") else ""
    return SnapshotError(reason, remedy=remedy, transient=bool(data.get("transient")), credentials=trouble)


class Provider(Protocol):
    """One source, opened. Safe for threads: ``fetch`` runs in several at once.

    It may have a method ``stop()`` too: called when a snapshot is given up, so that fetches that wait (for the next
    try, for a server) end soon, with any exception. Without it they are waited for.
    """

    def resolve(self) -> Listing:
        """Ask the source what it holds now.

        Raises:
            InvalidRequest: field ``uri`` or ``revision``: there is nothing of that name.
            SnapshotError: gated, wrong or missing token, no answer after retries; the message says which.
        """

    def fetch(self, file: RemoteFile, part: Path, wrote: Callable[[int], None]) -> None:
        """Make ``part`` the whole content of ``file``; goes on from the bytes that are there where the source can.

        Args:
            file: one of ``resolve``'s.
            part: a file that may hold the first bytes of the same version already; bounded memory is used. It is
                written from its beginning to its end: what ``wrote`` was told of is read (for its digest) meanwhile.
            wrote: told of each further so many bytes; negative when bytes had to be thrown away. It may raise, to stop
                the download: let that through, and leave ``part`` as it is.

        Raises:
            SourceChanged: the content there now is of another version than the listed one.
            SnapshotError: no answer after retries.
            OSError: it cannot be written here (ENOSPC, EDQUOT): the caller says what to do.
        """

    def close(self) -> None:
        """Let go of connections; idempotent."""
