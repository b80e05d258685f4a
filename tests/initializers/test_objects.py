"""s3:// against a real S3 server: what is there, what changes, and what a user is told."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from tests.initializers.s3server import KEY, SECRET, S3Server
from tests.initializers.webserver import Question, Reply, WebServer
from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.initializers import objects
from trainer_ops.initializers.patience import Patience
from trainer_ops.initializers.pieces import Pieces
from trainer_ops.initializers.provider import Credentials, Listing, Provider, SnapshotError, SourceChanged
from trainer_ops.initializers.s3 import server_of
from trainer_ops.initializers.source import parse

pytest.importorskip("moto.server")
pytest.importorskip("s3fs")

BIG = random.Random(5).randbytes(200_000)
FILES = {"train.bin": BIG, "a b/ü#1%+?.csv": b"a,b\n", "deep/er/x": b"x", "empty": b""}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def s3(server: S3Server) -> Iterator[S3Server]:
    """The server, empty."""
    yield server
    server.tell("reset")


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has no credentials of its own."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")


Open = Callable[..., Provider]


@pytest.fixture
def opened(s3: S3Server) -> Iterator[Open]:
    providers: list[Provider] = []

    def make(uri: str = "s3://data/set", pieces: Pieces | None = None, **options: object) -> Provider:
        credentials = Credentials(options=options or s3.options())
        provider = objects.open_source(parse(uri), credentials, patience=Patience(sleep=lambda _: None), pieces=pieces)
        providers.append(provider)
        return provider

    yield make
    for provider in providers:
        provider.close()


def taken(provider: Provider, folder: Path, listing: Listing | None = None) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    folder.mkdir(exist_ok=True)
    for number, file in enumerate((listing or provider.resolve()).files):
        counted: list[int] = []
        part = folder / str(number)
        there = part.stat().st_size if part.exists() else 0
        provider.fetch(file, part, counted.append)
        found[file.path] = part.read_bytes()
        assert sum(counted) == len(found[file.path]) - there
    return found


def in_set(files: dict[str, bytes] = FILES) -> dict[str, bytes]:
    return {f"set/{path}": data for path, data in files.items()}


def test_everything_below_a_prefix(s3: S3Server, opened: Open, tmp_path: Path) -> None:
    s3.bucket("data", {**in_set(), "set/": b"", "set/deep/": b"", "settings": b"not below it", "other/x": b""})
    provider = opened()
    listing = provider.resolve()
    assert taken(provider, tmp_path, listing) == FILES
    assert all(file.size == len(FILES[file.path]) for file in listing.files)
    assert opened().resolve().revision == listing.revision


def test_a_whole_bucket_and_one_object(s3: S3Server, opened: Open, tmp_path: Path) -> None:
    s3.bucket("data", in_set())
    assert taken(opened("s3://data"), tmp_path / "all") == in_set()
    assert taken(opened("s3://data/set/train.bin"), tmp_path / "one") == {"train.bin": BIG}


def test_a_key_that_is_both_object_and_folder_means_the_folder(s3: S3Server, opened: Open) -> None:
    s3.bucket("data", {"set": b"object", "set/x": b"below"})
    assert [file.path for file in opened().resolve().files] == ["x"]


def test_five_thousand_keys(s3: S3Server, opened: Open) -> None:
    s3.bucket("data", {})
    s3.fill("data", {f"set/{number:05}": b"%d" % number for number in range(5000)})
    listing = opened().resolve()
    assert len(listing.files) == 5000
    assert sum(file.size or 0 for file in listing.files) == sum(len(str(number)) for number in range(5000))


def test_new_content_is_a_new_revision(s3: S3Server, opened: Open) -> None:
    client = s3.bucket("data", in_set())
    before = opened().resolve().revision
    client.put_object(Bucket="data", Key="set/empty", Body=b"no more")
    assert opened().resolve().revision != before


# The second has an option that a signed URL does not carry, so the driver reads.
WAYS: dict[str, dict[str, object]] = {"signed": {}, "driver": {"s3_additional_kwargs": {"RequestPayer": "requester"}}}


@pytest.fixture(params=WAYS)
def options(request: pytest.FixtureRequest, s3: S3Server) -> dict[str, object]:
    """Both ways of reading."""
    return s3.options(**WAYS[request.param])


@pytest.mark.parametrize("size", [None, 30_000])
def test_both_ways_of_reading(
    s3: S3Server, opened: Open, tmp_path: Path, options: dict[str, object], size: int | None
) -> None:
    s3.bucket("data", in_set())
    pieces = None if size is None else Pieces(size=size, at_once=4)
    assert taken(opened(pieces=pieces, **options), tmp_path) == FILES


def test_goes_on_from_a_part(s3: S3Server, opened: Open, tmp_path: Path, options: dict[str, object]) -> None:
    s3.bucket("data", {"set/train.bin": BIG})
    (tmp_path / "0").write_bytes(BIG[:150_000])
    assert taken(opened(**options), tmp_path) == {"train.bin": BIG}


@pytest.mark.parametrize("gone", [False, True], ids=["changed", "gone"])
def test_an_object_that_changed_after_it_was_listed(
    s3: S3Server, opened: Open, tmp_path: Path, options: dict[str, object], gone: bool
) -> None:
    client = s3.bucket("data", {"set/train.bin": BIG})
    provider = opened(**options)
    listing = provider.resolve()
    if gone:
        client.delete_object(Bucket="data", Key="set/train.bin")
    else:
        client.put_object(Bucket="data", Key="set/train.bin", Body=bytes(reversed(BIG)))
    with pytest.raises(SourceChanged, match=r"s3://data/set: train\.bin changed"):
        taken(provider, tmp_path, listing)
    assert (tmp_path / "0").read_bytes() == b""


def test_a_bucket_that_keeps_versions_gives_what_was_listed(
    s3: S3Server, opened: Open, tmp_path: Path, options: dict[str, object]
) -> None:
    client = s3.bucket("data", in_set(), versions=True)
    provider = opened(version_aware=True, **options)
    listing = provider.resolve()
    client.put_object(Bucket="data", Key="set/train.bin", Body=b"new")
    client.delete_object(Bucket="data", Key="set/empty")
    assert taken(provider, tmp_path, listing) == FILES
    assert {file.path: file.size for file in opened(version_aware=True, **options).resolve().files} == {
        "train.bin": 3, "a b/ü#1%+?.csv": 4, "deep/er/x": 1,
    }  # fmt: skip


def test_a_signed_url_that_is_not_taken_is_no_end(
    s3: S3Server, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket's policy may want signed headers."""
    s3.bucket("data", in_set())
    with WebServer(lambda q: Reply(403, b"<Error><Code>AccessDenied</Code></Error>")) as strict:
        provider: Any = opened()
        monkeypatch.setattr(provider._fs, "url", lambda path, **more: f"{strict.url}/{quote(path)}")
        listing = provider.resolve()
        assert taken(provider, tmp_path, listing) == FILES
        assert strict.asked


def test_cut_lines_and_a_server_in_trouble(
    s3: S3Server, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.bucket("data", {"set/train.bin": BIG})
    provider: Any = opened(pieces=Pieces(size=40_000, at_once=3))
    etag = provider.resolve().files[0].version
    dice = random.Random(2)

    def answer(question: Question) -> Reply:
        if len(bad.asked) % 3 == 0:
            return Reply(503, b"<Error><Code>SlowDown</Code></Error>", {"Retry-After": "1"})
        assert question.range is not None
        first, last = question.range
        stop = len(BIG) if last is None else last + 1
        headers = {"Content-Range": f"bytes {first}-{stop - 1}/{len(BIG)}", "ETag": etag}
        return Reply(206, BIG, headers, start=first, count=stop - first, cut=dice.randrange(1, 20_000))

    with WebServer(answer) as bad:
        monkeypatch.setattr(provider._fs, "url", lambda path, **more: f"{bad.url}/{path}")
        assert taken(provider, tmp_path) == {"train.bin": BIG}


def test_everybody_may_read_a_public_bucket(s3: S3Server, opened: Open, tmp_path: Path) -> None:
    client = s3.bucket("data", {})
    for key, data in in_set().items():
        client.put_object(Bucket="data", Key=key, Body=data, ACL="public-read")
    assert taken(opened(anon=True, endpoint_url=s3.url), tmp_path / "asked") == FILES
    assert taken(opened(endpoint_url=s3.url), tmp_path / "no credentials here") == FILES


ABSENT = {
    "no such bucket": ("s3://dat/set", r"there is no bucket dat at 127\.0\.0\.1", "Check the name"),
    "no such prefix": ("s3://data/sett", "there is no object s3://data/sett", "In s3://data there are: other, set."),
    "no such folder far down": ("s3://data/set/a/b/c", "there is no object", "In s3://data/set there are: a b, deep"),
    "half a name": ("s3://data/se", "there is no object", "In s3://data there are: other, set."),
    "an empty bucket": ("s3://empty", "there is no object s3://empty", "s3://empty is empty."),
}


@pytest.mark.parametrize("case", ABSENT)
def test_nothing_of_that_name(s3: S3Server, opened: Open, case: str) -> None:
    uri, words, remedy = ABSENT[case]
    s3.bucket("data", {**in_set(), "other/x": b""})
    s3.bucket("empty", {})
    with pytest.raises(InvalidRequest, match=words) as told:
        opened(uri).resolve()
    assert told.value.field == "uri"
    assert told.value.remedy.startswith(remedy)


POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "%s", "Action": "s3:*", "Resource": "*"}]}'


@pytest.fixture
def guarded(s3: S3Server) -> Iterator[dict[str, str]]:
    """The server asks who it is; a user with a key, who is let in."""
    s3.bucket("data", in_set())
    iam = s3.client("iam")
    iam.create_user(UserName="reader")
    iam.put_user_policy(UserName="reader", PolicyName="read", PolicyDocument=POLICY % "Allow")
    iam.create_user(UserName="stranger")
    keys = {}
    for name in ("reader", "stranger"):
        made = iam.create_access_key(UserName=name)["AccessKey"]
        keys[name], keys[f"{name}'s secret"] = made["AccessKeyId"], made["SecretAccessKey"]
    s3.tell("reset-auth", "0")
    yield keys
    s3.tell("reset-auth", "inf")


CREDENTIALS: dict[str, tuple[str, str, type[TrainerOpsError], str]] = {
    "unknown key": ("AKIAUNKNOWN000000000", SECRET, SnapshotError, "credentials wrong: .*InvalidAccessKeyId"),
    "wrong secret": ("reader", SECRET, SnapshotError, "credentials wrong: .*SignatureDoesNotMatch"),
    "not allowed": ("stranger", "stranger's secret", SnapshotError, "credentials are not allowed to read"),
    "half of them": ("reader", "", SnapshotError, "credentials incomplete: AWS_SECRET_ACCESS_KEY is missing"),
}


@pytest.mark.parametrize("case", CREDENTIALS)
def test_credentials_that_are_refused(
    s3: S3Server, opened: Open, guarded: dict[str, str], caplog: pytest.LogCaptureFixture, case: str
) -> None:
    key, secret, kind, words = CREDENTIALS[case]
    key, secret = guarded.get(key, key), guarded.get(secret, secret)
    with caplog.at_level("INFO"), pytest.raises(kind, match=words) as told:
        opened(endpoint_url=s3.url, key=key, secret=secret or None).resolve()
    assert told.value.remedy
    assert getattr(told.value, "credentials", "") == ("refused" if secret else "missing")
    assert all((secret or SECRET) not in text for text in (str(told.value), repr(told.value), caplog.text))


def test_credentials_that_are_taken(s3: S3Server, opened: Open, guarded: dict[str, str], tmp_path: Path) -> None:
    # The server that asks who it is knows headers only, no signed URLs.
    options = s3.options(key=guarded["reader"], secret=guarded["reader's secret"], **WAYS["driver"])
    assert taken(opened(**options), tmp_path) == FILES


@pytest.mark.parametrize("region", [{}, {"client_kwargs": {"region_name": "eu-west-3"}}], ids=["none", "given"])
def test_a_signed_url_is_of_today_and_lets_headers_be_added(
    s3: S3Server, opened: Open, region: dict[str, object]
) -> None:
    s3.bucket("data", in_set())
    provider: Any = opened(**s3.options(token="session", **region))
    query = parse_qs(urlsplit(provider._fs.url("data/set/empty")).query)
    assert query["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]
    assert query["X-Amz-SignedHeaders"] == ["host"]
    assert query["X-Amz-Security-Token"] == ["session"]


ANSWERS: dict[str, tuple[int, str, bool, str]] = {
    # name: status, code, anonymous, words
    "open to nobody": (403, "AccessDenied", True, r"missing: the bucket data at 127\.0\.0\.1 is not open to everybody"),
    "not for this key": (403, "AccessDenied", False, r"not allowed to read the bucket data at 127\.0\.0\.1"),
    "old session": (400, "ExpiredToken", False, "credentials wrong: "),
    "elsewhere": (400, "IllegalLocationConstraintException", False, "in another region"),
    "clock": (403, "RequestTimeTooSkewed", False, "the clock of this machine is wrong"),
    "archive": (403, "InvalidObjectState", False, "archived objects"),
    "trouble": (503, "SlowDown", False, r"no usable answer from 127\.0\.0\.1"),
    "something else": (400, "InvalidArgument", False, r"no usable answer from 127\.0\.0\.1"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_what_a_server_may_answer(opened: Open, case: str) -> None:
    status, code, anonymous, words = ANSWERS[case]
    body = f"<Error><Code>{code}</Code><Message>No, {SECRET}.</Message></Error>".encode()
    with WebServer(lambda q: Reply(status, body, {"Content-Type": "application/xml"})) as server:
        options: dict[str, object] = {"anon": True} if anonymous else {"key": KEY, "secret": SECRET}
        options["config_kwargs"] = {"retries": {"max_attempts": 0}}
        with pytest.raises(SnapshotError, match=words) as told:
            opened(endpoint_url=server.url, **options).resolve()
    assert SECRET not in str(told.value)
    assert told.value.remedy


def test_nobody_there(opened: Open) -> None:
    with WebServer() as gone:
        pass
    with pytest.raises(SnapshotError, match=r"no usable answer from 127\.0\.0\.1 .*Could not connect") as told:
        opened(key=KEY, secret=SECRET, endpoint_url=gone.url, config_kwargs={"retries": {"max_attempts": 0}}).resolve()
    assert told.value.transient
    assert SECRET not in str(told.value)


@pytest.mark.parametrize("endpoint", ["minio:9000", "minio", "http://minio:900000", "http//minio:9000"])
def test_an_endpoint_that_is_no_url(opened: Open, endpoint: str) -> None:
    with pytest.raises(InvalidRequest, match="the endpoint of s3:// is not a URL") as told:
        opened(key=KEY, secret=SECRET, endpoint_url=endpoint).resolve()
    assert "AWS_ENDPOINT_URL=http://" in told.value.remedy
    assert endpoint not in told.value.reason


ASKED: dict[str, tuple[dict[str, object], dict[str, str], str]] = {
    "Amazon": ({}, {}, "Amazon S3"),
    "the option": ({"endpoint_url": "http://minio:9000"}, {"AWS_ENDPOINT_URL": "http://other"}, "minio"),
    "the environment": ({}, {"AWS_ENDPOINT_URL": "http://minio:9000"}, "minio"),
    "of S3 alone": ({}, {"AWS_ENDPOINT_URL_S3": "http://minio", "AWS_ENDPOINT_URL": "http://other"}, "minio"),
    "no port": ({"endpoint_url": "http://minio:port"}, {}, ""),
}


@pytest.mark.parametrize(("options", "env", "server"), ASKED.values(), ids=ASKED.keys())
def test_who_is_asked(
    options: dict[str, object], env: dict[str, str], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert server_of(options) == server


def test_options_that_the_driver_does_not_know(opened: Open, s3: S3Server) -> None:
    with pytest.raises((InvalidRequest, SnapshotError)) as told:
        opened(**s3.options(client_kwargs={"nonsense": SECRET})).resolve()
    assert SECRET not in str(told.value)


def test_a_profile_that_is_not_there(opened: Open, s3: S3Server) -> None:
    with pytest.raises(InvalidRequest, match="no AWS profile of that name"):
        opened(profile="nobody", endpoint_url=s3.url).resolve()
