"""http(s)://: what servers, proxies and lines do to a download, and what a user is told."""

from __future__ import annotations

import gzip
import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.initializers.webserver import Question, Reply, WebServer, serve
from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.initializers import http
from trainer_ops.initializers.patience import Patience
from trainer_ops.initializers.pieces import Pieces
from trainer_ops.initializers.provider import Credentials, SnapshotError, SourceChanged
from trainer_ops.initializers.source import parse

DATA = random.Random(1).randbytes(300_000)
TOKEN = "tok-5b1d9c-secret"
DATE = "Sat, 28 Nov 2026 10:00:00 GMT"


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


@dataclass
class Fetched:
    """One fetch as a test sees it."""

    web: WebServer
    folder: Path
    token: str = ""
    revision: str = ""
    path: str = "/data/train.csv"
    pieces: Pieces | None = None
    paused: list[float] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)

    @property
    def part(self) -> Path:
        return self.folder / "part"

    def take(self, before: Callable[[], None] = lambda: None) -> bytes:
        patience = Patience(sleep=self.paused.append)
        source = parse(self.web.url + self.path, revision=self.revision)
        provider = http.open_source(
            source, Credentials(token=self.token), patience=patience, pieces=self.pieces, now=lambda: 1_796_000_000
        )
        try:
            self.listing = provider.resolve()
            before()
            provider.fetch(self.listing.files[0], self.part, self.counted.append)
        finally:
            provider.close()
        return self.part.read_bytes()


@pytest.fixture
def fetched(web: WebServer, tmp_path: Path) -> Fetched:
    return Fetched(web, tmp_path)


def test_a_file_as_a_good_server_gives_it(web: WebServer, fetched: Fetched) -> None:
    web.answer = lambda q: serve(q, DATA, etag='"v1"')
    assert fetched.take() == DATA
    listing = fetched.listing
    assert (listing.revision, listing.files[0].path, listing.files[0].size) == ("v1", "train.csv", len(DATA))
    assert sum(fetched.counted) == len(DATA)
    assert [q.method for q in web.asked] == ["HEAD", "GET"]
    assert web.of("GET")[0].headers["if-match"] == '"v1"'


def test_the_revision_is_the_same_for_the_same_content(web: WebServer, fetched: Fetched) -> None:
    cases = {
        "etag": ({"etag": '"v1"'}, "v1"),
        "weak etag": ({"etag": 'W/"v1"'}, "v1"),
        "date": ({"date": DATE}, f"{DATE}, 300000 bytes"),
        "nothing": ({}, "read at 2026-11-30T00:53:20Z"),
    }
    for name, (said, revision) in cases.items():
        web.answer = lambda q, said=said: serve(q, DATA, **said)  # type: ignore[misc]
        fetched.part.unlink(missing_ok=True)
        assert fetched.take() == DATA, name
        assert fetched.listing.revision == revision, name


def cutting(at: int, times: int, **said: str) -> Callable[[Question], Reply]:
    """Ends the connection after ``at`` bytes of an answer, ``times`` times."""
    left = [times]

    def answer(question: Question) -> Reply:
        reply = serve(question, DATA, **said)  # type: ignore[arg-type]
        if question.method == "GET" and left[0]:
            left[0] -= 1
            reply.cut = at
        return reply

    return answer


@pytest.mark.parametrize("at", [0, 1, 70_000, 299_999])
def test_a_cut_line_goes_on_where_it_was_cut(web: WebServer, fetched: Fetched, at: int) -> None:
    web.answer = cutting(at, 3, etag='"v1"')
    assert fetched.take() == DATA
    assert sum(fetched.counted) == len(DATA)
    starts = [q.range[0] if q.range else 0 for q in web.of("GET")]
    assert starts == [min(n * at, len(DATA)) for n in range(len(starts))]
    assert len(fetched.paused) == len(starts) - 1


def test_a_line_that_is_cut_often_but_gets_on_is_not_given_up(web: WebServer, fetched: Fetched) -> None:
    web.answer = cutting(10_000, 1000, etag='"v1"')
    assert fetched.take() == DATA
    assert len(web.of("GET")) == 30


@pytest.mark.parametrize("said", [{"etag": '"v1"'}, {"etag": 'W/"v1"'}, {"date": DATE}], ids=["etag", "weak", "date"])
def test_a_later_attempt_goes_on_from_the_part_that_is_there(
    web: WebServer, fetched: Fetched, said: dict[str, str]
) -> None:
    fetched.part.write_bytes(DATA[:200_000])
    web.answer = lambda q: serve(q, DATA, **said)  # type: ignore[arg-type]
    assert fetched.take() == DATA
    assert web.of("GET")[-1].range == (200_000, None)
    assert sum(fetched.counted) == 100_000
    assert min(fetched.counted) > 0


def test_nothing_tells_two_contents_apart_so_a_part_is_thrown_away(web: WebServer, fetched: Fetched) -> None:
    fetched.part.write_bytes(b"x" * 200_000)
    web.answer = lambda q: serve(q, DATA)
    assert fetched.take() == DATA
    assert fetched.counted[0] == -200_000
    assert sum(fetched.counted) == len(DATA) - 200_000


@pytest.mark.parametrize(
    ("part", "asked"), [(DATA, 0), (DATA + b"more", 1)], ids=["all of it is there", "more than all of it"]
)
def test_a_part_as_long_as_the_file_or_longer(web: WebServer, fetched: Fetched, part: bytes, asked: int) -> None:
    fetched.part.write_bytes(part)
    web.answer = lambda q: serve(q, DATA, etag='"v1"')
    assert fetched.take() == DATA
    assert len(web.of("GET")) == asked


def test_a_server_without_ranges_starts_again_and_is_given_up_when_it_never_gets_further(
    web: WebServer, fetched: Fetched
) -> None:
    def whole(question: Question) -> Reply:
        reply = serve(question, DATA, etag='"v1"', ranges=False)
        reply.cut = 150_000 if question.method == "GET" and len(web.of("GET")) < 4 else None
        return reply

    web.answer = whole
    assert fetched.take() == DATA
    assert sum(fetched.counted) == len(DATA)

    fetched.part.unlink()
    web.answer = lambda q: serve(q, DATA, etag='"v1"', ranges=False, cut=150_000 if q.method == "GET" else None)
    with pytest.raises(SnapshotError, match=r"no usable answer from 127\.0\.0\.1 after 6 tries") as told:
        fetched.take()
    assert told.value.transient
    assert fetched.part.stat().st_size == 150_000


def test_content_that_changes_between_listing_and_download(web: WebServer, fetched: Fetched) -> None:
    etags = iter(['"v1"', '"v2"', '"v2"'])
    for name, said in {
        "if-match is understood": lambda q: serve(q, DATA, etag=next(etags)),
        "if-match is ignored": lambda q: Reply(200, DATA, {"ETag": f'"{q.method}"'}),
        "only dates": lambda q: Reply(200, DATA, {"Last-Modified": DATE if q.method == "HEAD" else "later"}),
        "another length": lambda q: Reply(200, DATA if q.method == "HEAD" else DATA + b"x"),
    }.items():
        web.answer = said
        fetched.part.unlink(missing_ok=True)
        with pytest.raises(SourceChanged, match="changed while it was being fetched"):
            fetched.take()
        assert name


def test_content_that_changes_in_the_middle_is_never_joined(web: WebServer, fetched: Fetched) -> None:
    def answer(question: Question) -> Reply:
        if len(web.of("GET")) < 2:
            return serve(question, DATA, etag='"v1"', cut=100_000 if question.method == "GET" else None)
        other = bytes(reversed(DATA))
        first = question.range[0] if question.range else 0
        headers = {"ETag": '"v2"', "Content-Range": f"bytes {first}-{len(DATA) - 1}/{len(DATA)}"}
        return Reply(206, other, headers, start=first)

    web.answer = answer
    with pytest.raises(SourceChanged):
        fetched.take()
    assert fetched.part.read_bytes() == DATA[:100_000]


def test_an_answer_that_stops_saying_what_it_is_is_not_put_behind_another(web: WebServer, fetched: Fetched) -> None:
    def answer(question: Question) -> Reply:
        if question.range:
            first = question.range[0]
            return Reply(206, b"?" * len(DATA), {"Content-Range": f"bytes {first}-299999/300000"}, start=first)
        return serve(question, DATA, etag='"v1"', cut=9 if len(web.of("GET")) == 1 else None)

    web.answer = answer
    assert fetched.take() == DATA


@pytest.mark.parametrize("length", ["chunked", ""])
def test_no_length_in_the_listing(web: WebServer, fetched: Fetched, length: str) -> None:
    def answer(question: Question) -> Reply:
        if question.method == "HEAD":
            return Reply(405)
        return serve(question, DATA, etag='"v1"', length=length)

    web.answer = answer
    assert fetched.take() == DATA


def test_a_chunked_body_that_is_cut_is_noticed(web: WebServer, fetched: Fetched) -> None:
    def answer(question: Question) -> Reply:
        if question.method == "HEAD":
            return Reply(200, b"", {"ETag": '"v1"'}, length="chunked")
        return serve(question, DATA, etag='"v1"', length="chunked", cut=65_536 if len(web.of("GET")) == 2 else None)

    web.answer = answer
    assert fetched.take() == DATA
    assert web.of("GET")[-1].range == (65_536, None)


def test_an_end_that_cannot_be_told_from_a_cut_is_refused_unless_the_digest_is_known(
    web: WebServer, fetched: Fetched
) -> None:
    web.answer = lambda q: Reply(405) if q.method == "HEAD" else Reply(200, DATA, {"ETag": '"v1"'}, length="close")
    with pytest.raises(SnapshotError, match="does not say where the file ends"):
        fetched.take()
    fetched.revision = "sha256:" + hashlib.sha256(DATA).hexdigest()
    assert fetched.take() == DATA
    assert fetched.listing.revision == fetched.revision
    assert fetched.listing.files[0].sha256 == hashlib.sha256(DATA).hexdigest()


def test_a_server_that_gzips_although_it_was_asked_not_to(web: WebServer, fetched: Fetched) -> None:
    packed = gzip.compress(DATA[:100_000]) + gzip.compress(DATA[100_000:])
    headers = {"Content-Encoding": "gzip", "ETag": '"v1"'}
    web.answer = lambda q: Reply(200, packed, headers)
    assert fetched.take() == DATA
    assert fetched.listing.files[0].size is None
    assert web.of("GET")[0].headers["accept-encoding"] == "identity"


def test_a_gzip_file_stays_one(web: WebServer, fetched: Fetched) -> None:
    packed = gzip.compress(DATA)
    fetched.path = "/train.csv.gz"
    web.answer = lambda q: Reply(200, packed, {"Content-Encoding": "gzip", "ETag": '"v1"'})
    assert fetched.take() == packed


def test_gzip_that_is_cut_starts_again_and_gzip_that_is_none_is_told(web: WebServer, fetched: Fetched) -> None:
    packed, headers = gzip.compress(DATA), {"Content-Encoding": "gzip", "ETag": '"v1"'}

    def answer(question: Question) -> Reply:
        cut = 200_000 if question.method == "GET" and len(web.of("GET")) == 1 else None
        return Reply(200, packed, headers, cut=cut)

    web.answer = answer
    assert fetched.take() == DATA
    assert sum(fetched.counted) == len(DATA)
    fetched.part.unlink()
    web.answer = lambda q: Reply(200, DATA, headers)
    with pytest.raises(SnapshotError, match="calls it gzip-encoded and sends something else"):
        fetched.take()
    web.answer = lambda q: Reply(200, DATA, {"Content-Encoding": "br", "ETag": '"v1"'})
    with pytest.raises(SnapshotError, match="sends it br-encoded"):
        fetched.take()


def test_redirects_are_followed_and_the_token_stays_at_home(web: WebServer, fetched: Fetched) -> None:
    with WebServer(lambda q: serve(q, DATA, etag='"v1"')) as other:

        def answer(question: Question) -> Reply:
            if question.path == "/data/train.csv":
                return Reply(302, b"", {"Location": "/moved here"})
            return Reply(307, b"", {"Location": f"{other.url}/far?sig=1"})

        web.answer = answer
        fetched.token = TOKEN + "\n"
        assert fetched.take() == DATA
        assert all(q.headers["authorization"] == f"Bearer {TOKEN}" for q in web.asked)
        assert all("authorization" not in q.headers for q in other.asked)
        assert other.of("GET", "/far")


def test_a_redirect_without_end(web: WebServer, fetched: Fetched) -> None:
    web.answer = lambda q: Reply(302, b"", {"Location": q.path})
    with pytest.raises(SnapshotError, match="redirected more than 10 times"):
        fetched.take()


REFUSALS: dict[str, tuple[int, str, type[TrainerOpsError], str]] = {
    "no such file": (404, "", InvalidRequest, "there is no file at"),
    "gone": (410, "", InvalidRequest, "there is no file at"),
    "no token": (401, "", SnapshotError, "token missing"),
    "wrong token": (401, TOKEN, SnapshotError, "token wrong"),
    "may not": (403, TOKEN, SnapshotError, "token wrong"),
    "proxy": (407, "", SnapshotError, "the proxy wants a name"),
    "odd": (418, "", SnapshotError, "answered HTTP 418"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_which(web: WebServer, fetched: Fetched, case: str) -> None:
    status, fetched.token, kind, words = REFUSALS[case]
    web.answer = lambda q: Reply(status, b"no")
    with pytest.raises(kind, match=words) as told:
        fetched.take()
    assert told.value.remedy
    said = {"token missing": "missing", "token wrong": "refused"}
    assert getattr(told.value, "credentials", "") == said.get(words, "")
    assert TOKEN not in str(told.value) + repr(told.value)
    assert fetched.paused == []


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408])
def test_a_server_in_trouble_is_asked_again(web: WebServer, fetched: Fetched, status: int) -> None:
    def answer(question: Question) -> Reply:
        return Reply(status) if len(web.asked) in (1, 3) else serve(question, DATA, etag='"v1"')

    web.answer = answer
    assert fetched.take() == DATA
    assert len(fetched.paused) == 2


def test_retry_after_is_heeded_and_one_too_long_is_told_instead(web: WebServer, fetched: Fetched) -> None:
    asked = ["7", "Sat, 28 Nov 2020 10:00:00 GMT", "nonsense"]

    def answer(question: Question) -> Reply:
        return Reply(429, b"", {"Retry-After": asked.pop(0)}) if asked else serve(question, DATA, etag='"v1"')

    web.answer = answer
    assert fetched.take() == DATA
    assert fetched.paused[0] == 7
    assert max(fetched.paused[1:]) < 4
    web.answer = lambda q: Reply(429, b"", {"Retry-After": "86400"})
    with pytest.raises(SnapshotError, match=r"limits how often .*HTTP 429, and asks to wait 86400 s") as told:
        fetched.take()
    assert told.value.transient


def test_nobody_there(web: WebServer, fetched: Fetched) -> None:
    web.close()
    try:
        with pytest.raises(SnapshotError, match=r"after 6 tries \(Connection refused\).*HTTPS_PROXY") as told:
            fetched.take()
    finally:
        web._thread.join()
    assert told.value.transient
    assert len(fetched.paused) == 5
    assert fetched.paused == sorted(fetched.paused)


def test_a_token_that_cannot_be_sent_is_not_shown(web: WebServer, fetched: Fetched) -> None:
    fetched.token = f"{TOKEN}\nX-Other: 1"
    with pytest.raises(InvalidRequest, match="token: it holds characters that no token has") as told:
        fetched.take()
    assert TOKEN not in str(told.value)


@pytest.mark.parametrize(
    ("revision", "good"), [("v1", True), ('"v1"', True), ("v2", False), ("sha256:" + "0" * 64, True)]
)
def test_a_revision_asked_for_is_what_must_be_there(
    web: WebServer, fetched: Fetched, revision: str, good: bool
) -> None:
    web.answer = lambda q: serve(q, DATA, etag='"v1"')
    fetched.revision = revision
    if good:
        assert fetched.take() == DATA
        assert fetched.listing.revision == revision
        return
    with pytest.raises(InvalidRequest, match='has the revision "v1" now, not "v2"') as told:
        fetched.take()
    assert told.value.field == "revision"


def test_an_empty_file(web: WebServer, fetched: Fetched) -> None:
    web.answer = lambda q: serve(q, b"", etag='"v0"')
    assert fetched.take() == b""


NAMES = {
    "/a/b%20c.csv": "b c.csv",
    "/": "index",
    "/%C3%BC.csv?version=2": "ü.csv",
    "/ü.csv": "ü.csv",
}


@pytest.mark.parametrize("path", NAMES)
def test_names(web: WebServer, fetched: Fetched, path: str) -> None:
    web.answer = lambda q: serve(q, DATA, etag='"v1"')
    fetched.path = path
    assert fetched.take() == DATA
    assert fetched.listing.files[0].path == NAMES[path]


class TestLargeFiles:
    """Read in pieces by several threads."""

    SIZE = 10_000

    @pytest.fixture(autouse=True)
    def pieces(self, fetched: Fetched) -> None:
        fetched.pieces = Pieces(size=self.SIZE, at_once=4)

    def test_in_order_from_where_it_was(self, web: WebServer, fetched: Fetched) -> None:
        fetched.part.write_bytes(DATA[:55_555])
        web.answer = lambda q: serve(q, DATA, etag='"v1"')
        assert fetched.take() == DATA
        asked = sorted(q.range for q in web.of("GET") if q.range)
        assert asked[0] == (55_555, 65_554)
        assert len(asked) == 25
        assert sum(fetched.counted) == len(DATA) - 55_555

    def test_cut_lines_and_trouble_in_any_of_them(self, web: WebServer, fetched: Fetched) -> None:
        dice = random.Random(7)

        def answer(question: Question) -> Reply:
            if question.method == "HEAD" or len(web.asked) % 2:
                return serve(question, DATA, etag='"v1"')
            if len(web.asked) % 4:
                return Reply(503)
            return serve(question, DATA, etag='"v1"', cut=dice.randrange(1, self.SIZE))

        web.answer = answer
        assert fetched.take() == DATA
        assert sum(fetched.counted) == len(DATA)

    def test_what_is_there_after_a_failure_is_a_beginning(self, web: WebServer, fetched: Fetched) -> None:
        def answer(question: Question) -> Reply:
            return serve(question, DATA, etag='"v1"' if len(web.of("GET")) < 12 else '"v2"')

        web.answer = answer
        with pytest.raises(SourceChanged):
            fetched.take()
        there = fetched.part.read_bytes()
        assert there == DATA[: len(there)]
        assert sum(fetched.counted) == len(there) < len(DATA)

    def test_a_listener_that_stops_it(self, web: WebServer, fetched: Fetched) -> None:
        web.answer = lambda q: serve(q, DATA, etag='"v1"')

        class Enough(Exception):
            pass

        class Full(list[int]):
            def append(self, count: int) -> None:
                super().append(count)
                if sum(self) > 50_000:
                    raise Enough

        fetched.counted = Full()
        with pytest.raises(Enough):
            fetched.take()
        there = fetched.part.read_bytes()
        assert there == DATA[: len(there)]

    @pytest.mark.parametrize("said", [{"etag": 'W/"v1"'}, {"date": DATE}, {}], ids=["weak", "date", "nothing"])
    def test_only_where_pieces_surely_belong_together(
        self, web: WebServer, fetched: Fetched, said: dict[str, str]
    ) -> None:
        web.answer = lambda q: serve(q, DATA, **said)  # type: ignore[arg-type]
        assert fetched.take() == DATA
        assert [q.range for q in web.of("GET")] == [None]

    def test_a_server_without_ranges_sends_it_once(self, web: WebServer, fetched: Fetched) -> None:
        web.answer = lambda q: serve(q, DATA, etag='"v1"', ranges=False)
        assert fetched.take() == DATA
        assert sum(fetched.counted) == len(DATA)
        assert web.of("GET")[-1].range is None

    def test_a_place_that_expires_is_asked_for_again_and_not_more_often(self, web: WebServer, fetched: Fetched) -> None:
        good = 1

        def far(question: Question) -> Reply:
            if question.query["sig"] != [str(good)]:
                return Reply(403)
            return serve(question, DATA, etag='"v1"')

        with WebServer(far) as other:

            def home(question: Question) -> Reply:
                nonlocal good
                if len(other.asked) > 20 and good == 1:
                    good = 2
                return Reply(302, b"", {"Location": f"{other.url}/x?sig={good}"})

            web.answer = home
            assert fetched.take() == DATA
            assert len(web.asked) < 10
