"""http(s): one file by its URL.

What tells its content from a later one is what the server says of it (ETag, Last-Modified), or the digest that the user
gives as revision. A server that says nothing of the kind gives a new snapshot each time: never a wrong one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.patience import Patience
from trainer_ops.initializers.pieces import Pieces
from trainer_ops.initializers.provider import Credentials, Listing, Provider, RemoteFile, SnapshotError
from trainer_ops.initializers.source import Source
from trainer_ops.initializers.target import Target, encoding, same_etag
from trainer_ops.initializers.transfer import Transfer
from trainer_ops.initializers.wire import Answer, Wire

__all__ = ["bearer", "open_source"]

_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
# A file's version is its ETag, or this and its Last-Modified.
_DATED: Final = "date:"
_PACKED: Final = (".gz", ".tgz", ".svgz")


def open_source(
    source: Source,
    credentials: Credentials,
    *,
    patience: Patience | None = None,
    pieces: Pieces | None = None,
    now: Callable[[], float] = time.time,
) -> Provider:
    """Open an http(s) source.

    Args:
        source: its revision, where one is asked for, is the ETag that the file must still have, or ``sha256:…``.
        credentials: a bearer token; option ``verify``: False, or the path of certificates to trust.
        patience: how long to go on asking.
        pieces: threads and memory for large files.
        now: seconds since the epoch.

    Raises:
        InvalidRequest: the token cannot be sent.
    """
    verify = credentials.options.get("verify", True)
    wire = Wire(verify=verify if isinstance(verify, bool | str) else True)
    return _Http(source, bearer(credentials.token), Transfer(wire, patience=patience, pieces=pieces), now)


def bearer(token: str) -> dict[str, str]:
    """The header that carries a token; a line end after it, as files have, does not matter.

    Raises:
        InvalidRequest: it is no token, and sending it would show it in an error.
    """
    token = token.strip()
    if not token:
        return {}
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidRequest(
            "token", "it holds characters that no token has", "Check the Secret or variable it comes from."
        )
    return {"Authorization": f"Bearer {token}"}


class _Http:
    def __init__(self, source: Source, headers: dict[str, str], transfer: Transfer, now: Callable[[], float]) -> None:
        self._source = source
        self._headers = headers
        self._transfer = transfer
        self._now = now
        self._url = quote(source.uri, safe="%/:?#[]@!$&'()*+,;=~")
        self._name = source.uri.partition("?")[0]

    def resolve(self) -> Listing:
        """What the server says of the file now; HEAD, or the beginning of a GET where HEAD is not answered."""
        size, etag, date = self._look()
        found = _DIGEST.fullmatch(self._source.revision)
        asked = self._source.revision
        revision = _revision(size, etag, date, self._now())
        if found is None and asked and not same_etag(asked, revision):
            raise InvalidRequest(
                "revision",
                f'{self._name} has the revision "{revision}" now, not "{asked}"',
                "A server keeps one content of a URL: leave the revision out, or give the file's digest (sha256:…).",
            )
        version = etag or (date and _DATED + date)
        path = unquote(urlsplit(self._url).path).rpartition("/")[2] or "index"
        file = RemoteFile(path=path, size=size, version=version, sha256=found.group(1) if found else "", url=self._url)
        return Listing(self._source.uri, asked or revision, (file,))

    def fetch(self, file: RemoteFile, part: Path, wrote: Callable[[int], None]) -> None:
        """See ``Provider.fetch``."""
        dated = file.version.startswith(_DATED)
        self._transfer.fetch(
            Target(
                name=self._name,
                url=lambda: file.url,
                headers=self._headers,
                size=file.size,
                etag="" if dated else file.version,
                date=file.version.removeprefix(_DATED) if dated else "",
                proven=bool(file.sha256),
                raw=file.path.endswith(_PACKED),
                refused=self._refused,
            ),
            part,
            wrote,
        )

    def stop(self) -> None:
        """See ``Provider``."""
        self._transfer.stop()

    def close(self) -> None:
        """See ``Provider.close``."""
        self._transfer.close()

    def _look(self) -> tuple[int | None, str, str]:
        """(size, ETag, Last-Modified)."""
        refused: list[int] = []

        def noted(answer: Answer) -> Exception:
            # A server that knows no HEAD says so with almost any number; a GET tells what is really the matter.
            refused.append(answer.status)
            return SnapshotError(f"{self._name}: HTTP {answer.status}")

        try:
            with self._transfer.ask(self._target(noted), method="HEAD") as answer:
                if "Content-Length" in answer.headers:
                    return _told(answer)
        except SnapshotError:
            if not refused:
                raise
        with self._transfer.ask(self._target(self._refused)) as answer:
            return _told(answer)

    def _target(self, refused: Callable[[Answer], Exception | None]) -> Target:
        return Target(name=self._name, url=lambda: self._url, headers=self._headers, refused=refused)

    def _refused(self, answer: Answer) -> Exception | None:
        if answer.status in (404, 410):
            return InvalidRequest(
                "uri", f"there is no file at {self._name} (HTTP {answer.status})", "Check the address."
            )
        if answer.status == 407:
            return SnapshotError(
                f"{self._name}: the proxy wants a name and a password (HTTP 407)",
                remedy="Put them into HTTPS_PROXY: http://name:password@host:port.",
            )
        if answer.status not in (401, 403):
            return None
        if self._headers:
            return SnapshotError(
                f"{self._name}: token wrong: the server refuses it (HTTP {answer.status})",
                remedy="Check that the token is valid and may read this file.",
                credentials="refused",
            )
        return SnapshotError(
            f"{self._name}: token missing: the server lets nobody in without one (HTTP {answer.status})",
            remedy="Give a bearer token (HTTP_TOKEN, a Secret with that key, or the connection's password).",
            credentials="missing",
        )


def _told(answer: Answer) -> tuple[int | None, str, str]:
    length = answer.headers.get("Content-Length") or ""
    # The length of an encoded body is not the file's.
    size = int(length) if length.isdigit() and not encoding(answer) else None
    return size, answer.headers.get("ETag") or "", answer.headers.get("Last-Modified") or ""


def _revision(size: int | None, etag: str, date: str, now: float) -> str:
    if etag:
        return etag.removeprefix("W/").strip('"')
    if date:
        return f"{date}, {size} bytes" if size is not None else date
    return "read at " + time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
