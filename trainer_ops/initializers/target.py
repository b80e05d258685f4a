"""One file over HTTP: what it is, which answers are of its content, and when it is given up."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from trainer_ops.initializers.patience import Patience, retry_after
from trainer_ops.initializers.provider import SnapshotError, SourceChanged
from trainer_ops.initializers.wire import Answer, LineCut, NotTrusted, origin

__all__ = [
    "BUSY",
    "Busy",
    "NoRanges",
    "Target",
    "Tries",
    "check",
    "content_range",
    "encoding",
    "judged",
    "not_trusted",
    "same_etag",
]

BUSY: Final = (408, 425, 429, 500, 502, 503, 504)
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


@dataclass(frozen=True, slots=True)
class Target:
    """Where the bytes of one file are, and how its content is told from another.

    Attributes:
        name: what errors call it; no URL that anybody could use.
        url: asked for each connection: a signed URL does not live for ever.
        headers: sent with each request.
        size: bytes, where known.
        etag: as the server gave it; "" for none.
        date: its Last-Modified; "" for none.
        pinned: the URL means one content for ever (a commit, a version), so nothing has to be compared.
        proven: its digest is known and compared afterwards, so a cut that looks like the end will be noticed.
        raw: keep a body as it is sent, even where the server calls it gzip-encoded (it is a ``.gz`` file).
        refused: what an answer of 4xx means; None for nothing special.
        host: who is asked, for errors; "" for the URL's.
    """

    name: str
    url: Callable[[], str]
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    size: int | None = None
    etag: str = ""
    date: str = ""
    pinned: bool = False
    proven: bool = False
    raw: bool = False
    refused: Callable[[Answer], Exception | None] = lambda _: None
    host: str = ""

    @property
    def steady(self) -> bool:
        """Whether bytes of two answers can be told to be of one content."""
        return self.pinned or bool(self.etag or self.date)

    @property
    def strong(self) -> bool:
        """Whether that is sure: dates count seconds, weak ETags count meanings."""
        return self.pinned or (bool(self.etag) and not self.etag.startswith("W/"))

    def changed(self) -> SourceChanged:
        """What is there now is another content."""
        return SourceChanged(
            f"{self.name} changed while it was being fetched",
            remedy="Try again when nobody writes there, or keep versions under names of their own.",
        )


class NoRanges(Exception):
    """The bytes asked for did not come, the file's beginning may: it has to be fetched in one go."""


class Busy(LineCut):
    """The server asks for patience."""

    def __init__(self, status: int, after: float | None) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.after = after


class Tries:
    """Counts questions that brought nothing."""

    def __init__(self, patience: Patience, target: Target) -> None:
        self._patience = patience
        self._target = target
        self._count = 0

    def reset(self) -> None:
        """Something came: from here it is counted anew."""
        self._count = 0

    def again(self, error: LineCut) -> None:
        """Wait for the next try.

        Raises:
            SnapshotError: it is not worth it.
        """
        self._count += 1
        after = error.after if isinstance(error, Busy) else None
        if self._patience.pause(self._count, after):
            return
        host = self._target.host or origin(self._target.url())[1]
        if isinstance(error, Busy) and error.status == 429:
            asked = f", and asks to wait {after:g} s" if after is not None else ""
            raise SnapshotError(
                f"{self._target.name}: {host} limits how often it is asked (HTTP 429{asked})",
                remedy="Try again later: what was fetched is kept. A token, or another one, may have a higher limit.",
                transient=True,
            ) from error
        raise SnapshotError(
            f"{self._target.name}: no usable answer from {host} after {self._count} tries ({error})",
            remedy="This is the network or the server: check name, proxy (HTTPS_PROXY) and firewall from where this"
            " runs. What was fetched is kept; a retry goes on from there.",
            transient=True,
        ) from error


def judged(answer: Answer, target: Target) -> Answer:
    """The answer, where it is one that brings something.

    Raises:
        LineCut: ask again.
        SourceChanged: it is another content now.
        SnapshotError: it is refused; also what else ``target.refused`` makes of it.
    """
    if answer.status < 400:
        return answer
    with answer:
        if answer.status in BUSY:
            raise Busy(answer.status, retry_after(answer.headers))
        if answer.status == 412:
            raise target.changed()
        raise target.refused(answer) or SnapshotError(
            f"{target.name}: {origin(answer.url)[1]} answered HTTP {answer.status}",
            remedy="This is not what a server of files answers: check the address.",
        )


def check(answer: Answer, target: Target, start: int) -> None:
    """Close and refuse an answer of other content than the target's, or other bytes than those from ``start``.

    Raises:
        SourceChanged: it is another content now.
        NoRanges: these bytes cannot be put behind those that are there.
    """
    same = True if target.pinned else _same(answer, target)
    first, total = content_range(answer)
    if same is False or (None not in (total, target.size) and total != target.size and answer.status == 206):
        answer.close()
        raise target.changed()
    if answer.status == 206 and (first != start or encoding(answer) or (same is None and start)):
        answer.close()
        raise NoRanges


def _same(answer: Answer, target: Target) -> bool | None:
    """None where the answer does not say."""
    etag, date = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
    if target.etag and etag:
        return same_etag(target.etag, etag)
    if target.date and date:
        return target.date == date
    return None


def same_etag(one: str, other: str) -> bool:
    """Whether two ETags mean the same content; one that became weak on its way through a proxy still does."""
    return one.removeprefix("W/").strip('"') == other.removeprefix("W/").strip('"')


def content_range(answer: Answer) -> tuple[int | None, int | None]:
    """(first byte, bytes of the whole file) of a partial answer; None for what it does not say."""
    found = _RANGE.match(answer.headers.get("Content-Range") or "")
    if not found:
        return None, None
    first, total = found.groups()
    return (None if first is None else int(first)), (None if total == "*" else int(total))


def encoding(answer: Answer) -> str:
    """How the body is encoded, in lower case; "" for not at all."""
    said = (answer.headers.get("Content-Encoding") or "").strip().lower()
    return "" if said == "identity" else said


def not_trusted(target: Target, error: NotTrusted) -> SnapshotError:
    """What to say of a certificate."""
    return SnapshotError(
        f"{target.name}: the certificate of {origin(target.url())[1]} is not trusted here ({error})",
        remedy="Set SSL_CERT_FILE to a file with the certificate authority of that server or of the proxy before it.",
    )
