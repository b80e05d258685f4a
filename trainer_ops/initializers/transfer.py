"""One file over HTTP, whole or not at all: goes on after a cut, never joins two versions, bounded memory.

What http(s), the Hugging Face hub and S3 have in common. Each gives a ``Target`` and says what refusals mean.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trainer_ops.initializers.parts import open_part, restart, write_all
from trainer_ops.initializers.patience import Patience
from trainer_ops.initializers.pieces import Pieces, Read, Stopped
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.initializers.target import (
    NoRanges,
    Target,
    Tries,
    check,
    content_range,
    encoding,
    judged,
    not_trusted,
)
from trainer_ops.initializers.wire import Answer, LineCut, NotTrusted, Wire, origin

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["Transfer"]

# A place that somebody else named for us (a signed URL) stops being valid; then the first one is asked again.
EXPIRED: Final = (400, 401, 403, 404, 410)
CHUNK: Final = 1 << 20

Wrote = Callable[[int], None]


class Transfer:
    """Connections, threads and memory of one provider. Safe for threads.

    Args:
        wire: the connections.
        patience: how long to go on asking.
        pieces: threads for large files.
    """

    def __init__(self, wire: Wire, *, patience: Patience | None = None, pieces: Pieces | None = None) -> None:
        self._wire = wire
        self._patience = patience or Patience()
        self._pieces = pieces or Pieces()

    def ask(self, target: Target, *, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
        """One answer of 2xx or 3xx, after as many tries as it takes.

        Raises:
            SnapshotError: no answer; or what ``target.refused`` makes of it.
        """
        tries, said = Tries(self._patience, target), {**target.headers, **(headers or {})}
        while True:
            try:
                return judged(self._wire.ask(target.url(), said, method=method), target)
            except LineCut as error:
                tries.again(error)
            except NotTrusted as error:
                raise not_trusted(target, error) from error

    def fetch(self, target: Target, part: Path, wrote: Wrote) -> None:
        """``Provider.fetch`` of a target."""
        with open_part(part) as file:
            have = file.tell()
            if have and (not target.steady or (target.size is not None and have > target.size)):
                have = restart(file, wrote)
            if target.size is not None and have == target.size:
                return
            route = _Route(self._wire, target)
            if target.strong and target.size is not None and target.size - have >= 2 * self._pieces.size:
                try:
                    read = _reader(route, self._patience)
                    self._pieces.copy(have, target.size, lambda piece: write_all(file, piece), read, wrote)
                    return
                except NoRanges:
                    pass
            _stream(route, file, wrote, self._patience)

    def stop(self) -> None:
        """Nothing more is wanted: what waits for a server, or for the next try, ends with an exception; idempotent."""
        self._patience.end()
        self._wire.stop()

    def close(self) -> None:
        """Let connections, threads and memory go; idempotent."""
        self._pieces.close()
        self._wire.close()


class _Route:
    """The way to one file: remembers where a redirect led, so that each piece does not ask for it again."""

    def __init__(self, wire: Wire, target: Target) -> None:
        self.target = target
        self._wire = wire
        self._place = ""

    def ask(self, start: int = 0, stop: int | None = None) -> Answer:
        """The bytes from ``start`` (to ``stop``): 200, 206, or 416 for a start at or after the end.

        Raises:
            LineCut: ask again.
            SourceChanged: it is another content now.
            SnapshotError: it is refused.
        """
        target = self.target
        headers = dict(target.headers)
        if start or stop is not None:
            headers["Range"] = f"bytes={start}-{'' if stop is None else stop - 1}"
        if target.etag and target.strong:
            headers["If-Match"] = target.etag
        try:
            answer = self._answer(headers)
        except NotTrusted as error:
            raise not_trusted(target, error) from error
        if answer.status != 416 or not start:
            judged(answer, target)
            check(answer, target, start)
        return answer

    def _answer(self, headers: dict[str, str]) -> Answer:
        place = self._place
        if place:
            bare = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            answer = self._wire.ask(place, bare)
            if answer.status not in EXPIRED:
                return answer
            answer.close()
            self._place = ""
        url = self.target.url()
        answer = self._wire.ask(url, headers)
        if origin(answer.url) != origin(url) and answer.status in (200, 206):
            self._place = answer.url
        return answer


def _stream(route: _Route, file: io.FileIO, wrote: Wrote, patience: Patience) -> None:
    """The file in one answer, or in as many as the line lets through."""
    tries = Tries(patience, route.target)
    best = file.tell()
    ranges = True
    while True:
        try:
            if not ranges and file.tell():
                restart(file, wrote)
            if _rest(route, file, wrote):
                return
        except NoRanges:
            ranges = False
        except LineCut as error:
            # Where a server always starts from the beginning, getting as far as last time is not getting on.
            if file.tell() > best:
                best = file.tell()
                tries.reset()
            tries.again(error)


def _rest(route: _Route, file: io.FileIO, wrote: Wrote) -> bool:
    """What is missing; False when it has to be asked for from the beginning."""
    target, have = route.target, file.tell()
    with route.ask(have) as answer:
        if answer.status == 416:
            whole = target.size is None and content_range(answer)[1] == have
            if not whole:
                restart(file, wrote)
            return whole
        if have and answer.status != 206:
            have = restart(file, wrote)
        if not (answer.delimited or target.proven) and target.size is None:
            raise SnapshotError(
                f"{target.name}: the server does not say where the file ends: a cut line would look like its end",
                remedy="Give the file's own digest as revision (sha256:…), or fetch it from elsewhere.",
            )
        for data in _body(answer, target):
            write_all(file, data)
            have += len(data)
            wrote(len(data))
    if target.size is None or have == target.size:
        return True
    if have > target.size:
        raise target.changed()
    raise LineCut(f"the line was cut {target.size - have} bytes before the end")


def _body(answer: Answer, target: Target) -> Iterator[memoryview | bytes]:
    encoded = "" if target.raw else encoding(answer)
    if not encoded:
        view = memoryview(bytearray(CHUNK if answer.left is None else max(1, min(CHUNK, answer.left))))
        while count := answer.readinto(view):
            yield view[:count]
        return
    if encoded not in ("gzip", "x-gzip"):
        raise SnapshotError(
            f"{target.name}: the server sends it {encoded}-encoded although it was asked not to",
            remedy="Fetch it from a server that sends files as they are.",
        )
    try:
        with gzip.GzipFile(fileobj=io.BufferedReader(_Raw(answer), CHUNK)) as plain:
            while data := plain.read(CHUNK):
                yield data
    except EOFError as error:
        raise LineCut("the line was cut before the end") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise SnapshotError(
            f"{target.name}: the server calls it gzip-encoded and sends something else ({error})",
            remedy="Fetch it from a server that sends files as they are.",
        ) from error


class _Raw(io.RawIOBase):
    """An answer's body as a file, for the decoder."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._answer.readinto(memoryview(buffer))


def _reader(route: _Route, patience: Patience) -> Read:
    def read(offset: int, view: memoryview, stopped: Callable[[], bool]) -> None:
        tries, filled = Tries(patience, route.target), 0
        while filled < len(view):
            try:
                with route.ask(offset + filled, offset + len(view)) as answer:
                    if answer.status != 206:
                        raise NoRanges
                    while filled < len(view):
                        if stopped():
                            raise Stopped
                        count = answer.readinto(view[filled : filled + CHUNK])
                        if not count:
                            raise LineCut("less came than was asked for")
                        filled += count
                        tries.reset()
            except LineCut as error:
                if stopped():
                    raise Stopped from error
                tries.again(error)

    return read
