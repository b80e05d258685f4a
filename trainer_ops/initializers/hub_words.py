"""Which repository of the hub is meant, and what the hub's refusals mean. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.initializers.source import Source

__all__ = ["Repo", "no_revision", "refusal"]

_TOKEN: Final = "a token (HF_TOKEN, a Secret with that key, or the connection's password)"
_NAMES: Final = 8


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository.

    Attributes:
        kind: ``dataset`` or ``model``.
        name: ``owner/name``, or ``name`` alone for some old ones.
        below: the folder or file in it that is meant; "" for all.
    """

    kind: str
    name: str
    below: str = ""

    @classmethod
    def of(cls, source: Source) -> Repo:
        """The repository of a canonical ``hf://`` URI."""
        parts = source.uri.partition("://")[2].split("/")
        kind = "model"
        if parts[0] == "datasets":
            kind, parts = "dataset", parts[1:]
        return cls(kind, "/".join(parts[:2]), "/".join(parts[2:]))

    @property
    def place(self) -> str:
        """Its path on the hub."""
        return f"datasets/{self.name}" if self.kind == "dataset" else self.name

    @property
    def uri(self) -> str:
        """Its URI, without a folder."""
        return f"hf://{self.place}"

    @property
    def other(self) -> Repo:
        """The repository of the other kind that has the same name."""
        return Repo("model" if self.kind == "dataset" else "dataset", self.name)


def refusal(
    status: int,
    code: str,
    message: str,
    *,
    repo: Repo,
    source: Source,
    page: str,
    authorized: bool,
    known: Callable[[str], Sequence[str]] = lambda _: (),
) -> TrainerOpsError:
    """The error that an answer of the hub means.

    Args:
        status: of HTTP.
        code: its header ``X-Error-Code``.
        message: its header ``X-Error-Message``.
        repo: which was asked for.
        source: as it was asked for.
        page: where a person looks at it.
        authorized: whether a token was sent.
        known: asked with the code for what there is instead.
    """
    if code == "GatedRepo":
        return _gated(repo, page, authorized)
    if "Invalid credentials" in message or (status == 401 and authorized and code != "RepoNotFound"):
        return SnapshotError(
            f"token wrong: the hub does not know the token that was given for {repo.uri}",
            remedy="It may have expired or been revoked: make one that may read at https://huggingface.co/settings/tokens.",
            credentials="refused",
        )
    if code == "RevisionNotFound":
        return no_revision(repo, source.revision, known(code))
    if code == "EntryNotFound" and repo.below:
        return InvalidRequest(
            "uri", f'{repo.uri} has no "{repo.below}" at the revision asked for', f"Look at {page}/tree/main."
        )
    if code == "RepoNotFound" or status == 401 or (status == 404 and not code):
        return _no_repo(repo, authorized, known("RepoNotFound"))
    if "disabled" in message:
        return SnapshotError(f"the hub has disabled {repo.uri}", remedy=f"Look at {page} for the reason.")
    if status == 403:
        return SnapshotError(
            f"{'the token may not read' if authorized else 'nobody without a token may read'} {repo.uri}"
            f" ({message or 'HTTP 403'})",
            remedy=f"Give {_TOKEN} that has the permission to read it.",
            credentials="refused" if authorized else "missing",
        )
    return SnapshotError(
        f"the hub refuses to give {repo.uri} (HTTP {status}{f', {message}' if message else ''})",
        remedy=f"Look at {page}.",
    )


def _gated(repo: Repo, page: str, authorized: bool) -> SnapshotError:
    if authorized:
        return SnapshotError(
            f"{repo.uri} is gated, and the account of the token that was given has not been let in",
            remedy=f"Ask for access at {page} with that account, and give a token that may read gated repositories.",
            credentials="refused",
        )
    return SnapshotError(
        f"token missing: {repo.uri} is gated",
        remedy=f"Accept its terms at {page}, then give {_TOKEN} of that account.",
        credentials="missing",
    )


def _no_repo(repo: Repo, authorized: bool, other: Sequence[str]) -> InvalidRequest:
    hint = f" There is {other[0]}." if other else ""
    if authorized:
        return InvalidRequest(
            "uri",
            f"there is no {repo.kind} {repo.name}, or the token that was given may not see it",
            f"Check the name, and whether the token's account may read it.{hint}",
        )
    return InvalidRequest(
        "uri",
        f"there is no {repo.kind} {repo.name}, or it is private and the token is missing",
        f"Check the name; for a private one give {_TOKEN}.{hint}",
    )


def no_revision(repo: Repo, revision: str, known: Sequence[str]) -> InvalidRequest:
    """There is no such branch, tag or commit."""
    close = difflib.get_close_matches(revision, known, 1)
    shown = ", ".join(known[:_NAMES]) + (f" and {len(known) - _NAMES} more" if len(known) > _NAMES else "")
    there = f"There are: {shown}; or give a whole commit." if known else "Give a branch, a tag or a whole commit."
    return InvalidRequest(
        "revision",
        f'{repo.uri} has no branch, tag or commit "{revision}"',
        f"Did you mean {close[0]}? {there}" if close else there,
    )
