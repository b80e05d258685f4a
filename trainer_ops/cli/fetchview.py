"""A snapshot on its way, and the end of one, as styled text: pure, and the same words with a terminal and without."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from trainer_ops.cli.render import Signs, entry
from trainer_ops.cli.text import Spans, cut, plain, roughly, size_text, wide
from trainer_ops.model.lines import clean
from trainer_ops.model.snapshot import Snapshot
from trainer_ops.model.times import duration

__all__ = ["Progress", "block", "files_text", "made", "progress_line", "short"]

# The rate is that of the last seconds: a line that stood still for an hour must not slow the estimate for an hour.
_WINDOW = 15.0
_BAR = (8, 30)


@dataclass(slots=True)
class Progress:
    """How far a snapshot is. Told by a listener, drawn by ``progress_line``.

    Attributes:
        uri: what is fetched.
        began: when the command began, in seconds since the epoch.
        files: how many there will be; None until the source has been asked.
        size: bytes of all files; None where the source does not say.
        done: bytes that are there, those of an earlier try included.
        files_done: files that are there.
    """

    uri: str
    began: float
    files: int | None = None
    size: int | None = None
    done: int = 0
    files_done: int = 0
    _points: deque[tuple[float, int]] = field(default_factory=deque)

    def start(self, at: float, files: int, size: int | None, done: int) -> None:
        """The source has been asked; ``done`` bytes were there from before."""
        self.files, self.size, self.done = files, size, done
        self._points = deque([(at, done)])

    def move(self, at: float, done: int, files_done: int) -> None:
        """So many bytes and files are there now."""
        self.done, self.files_done = done, files_done
        self._points.append((at, done))
        while len(self._points) > 2 and at - self._points[1][0] > _WINDOW:
            self._points.popleft()

    @property
    def percent(self) -> int | None:
        """None where nobody knows how much there is."""
        if self.files is None or not self.size:
            return None
        return max(0, min(100, self.done * 100 // self.size))

    def rate(self, at: float) -> float | None:
        """Bytes a second over the last seconds; None while nothing can be said."""
        if not self._points:
            return None
        since, before = self._points[0]
        return (self.done - before) / (at - since) if at - since >= 0.5 and self.done > before else None

    def left(self, at: float) -> float | None:
        """Seconds that it will take from now; None while nothing can be said."""
        rate = self.rate(at)
        return (self.size - self.done) / rate if rate and self.size and self.size > self.done else None


def short(uri: str) -> str:
    """What a person calls it: the last part of a URI."""
    return uri.split("?")[0].rstrip("/").rsplit("/", 1)[-1] or uri


def files_text(files: int, size: int | None) -> str:
    """``200 files, 1.7 GB``."""
    count = "1 file" if files == 1 else f"{files:,} files".replace(",", " ")
    return count if size is None else f"{count}, {size_text(size)}"


def progress_line(seen: Progress, at: float, width: int, signs: Signs) -> Spans:
    """``digits  0:12  ━━━━╸──  71 %  1.2 of 1.7 GB  48 MB/s  17 s left  143 of 200 files`` in ``width`` columns.

    What has no room is left out: the files first, then the estimate, the rate, the bar.
    """
    name = cut(clean(short(seen.uri)), max(12, width // 3), ellipsis=signs.ellipsis)
    head = [(name, "bold"), ("  ", ""), (duration(at - seen.began), "")]
    if seen.files is None:
        return [*head, (cut("  looking at what is there", width - wide(plain(head)), ellipsis=signs.ellipsis), "dim")]
    percent = seen.percent
    amount = [(f"  {percent:>3} %", "")] if percent is not None else []
    amount.append((f"  {_of(seen)}", ""))
    room = width - wide(plain(head)) - wide(plain(amount))
    room -= _BAR[0] + 2 if percent is not None else 0
    tail = []
    for text, style in _details(seen, at):
        if wide(text) > room:
            break
        tail.append((text, style))
        room -= wide(text)
    bar = min(_BAR[1], _BAR[0] + room) if percent is not None else 0
    drawn = [("  ", ""), *_bar(seen.done, seen.size or 0, bar, signs)] if bar >= _BAR[0] else []
    return [*head, *drawn, *amount, *tail]


def _of(seen: Progress) -> str:
    if not seen.size:
        return size_text(seen.done)
    done, total = size_text(seen.done), size_text(seen.size)
    same = done.rpartition(" ")[2] == total.rpartition(" ")[2]
    return f"{done.rpartition(' ')[0] if same else done} of {total}"


def _details(seen: Progress, at: float) -> list[tuple[str, str]]:
    rate, left = seen.rate(at), seen.left(at)
    details = [(f"  {size_text(rate)}/s", "")] if rate else []
    if left is not None:
        details.append((f"  {roughly(left)} left", "dim"))
    return [*details, (f"  {seen.files_done} of {seen.files} files", "dim")] if seen.files != 1 else details


def _bar(done: int, size: int, columns: int, signs: Signs) -> list[tuple[str, str]]:
    halves = min(columns * 2, done * columns * 2 // size) if size else 0
    full, half = divmod(halves, 2)
    drawn = signs.done * full + (signs.half if half else "")
    return [(drawn, "cyan"), (signs.rest * (columns - full - half), "bright_black")]


def made(snapshot: Snapshot, took: float | None, use: str, width: int, signs: Signs) -> list[Spans]:
    """The end: what, how much, whether it was there already, and how to go on with it."""
    says = " was there already" if snapshot.hit else f" fetched in {duration(took or 0)}"
    count = f"   {files_text(snapshot.files, snapshot.size)}"
    uri = clean(snapshot.uri)
    room = width - wide(f"{signs.good} {snapshot.kind} {says}{count}")
    name, source = (uri, "") if wide(uri) <= room else (cut(clean(short(uri)), room, ellipsis=signs.ellipsis), uri)
    head = [(f"{signs.good} ", "bold green"), (f"{snapshot.kind} ", ""), (name, "bold"), (says, "green"), (count, "")]
    facts = {
        "source": source,
        "key": snapshot.key,
        "revision": snapshot.revision,
        "where": snapshot.location,
        "use": use,
    }
    return [head, *([(f"  {label:<9}", "bold"), (clean(text), "")] for label, text in facts.items() if text)]


def block(head: Spans, what: str, remedy: str, width: int, next_steps: Sequence[tuple[str, str]] = ()) -> list[Spans]:
    """What went wrong, what to do, and the commands to go on with, which are never broken."""
    lines = entry("what", what, width) + entry("do", remedy, width)
    return [head, *lines, *([(f"  {label:<8}", "bold"), (command, "")] for label, command in next_steps)]
