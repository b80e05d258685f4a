"""hf://: a served stand-in of the hub, asked by the real huggingface_hub client."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.initializers.hubserver import Hub, HubRepo, blob_id, refuse
from tests.initializers.webserver import Question, Reply
from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.initializers import hub as hub_module
from trainer_ops.initializers.patience import Patience
from trainer_ops.initializers.pieces import Pieces
from trainer_ops.initializers.provider import Credentials, Listing, Provider, SnapshotError
from trainer_ops.initializers.source import parse

pytest.importorskip("huggingface_hub")

BIG = random.Random(3).randbytes(250_000)
FILES: dict[str, bytes] = {
    "README.md": b"# digits\n",
    "data/train.bin": BIG,
    "data/ü b#1%.csv": b"a,b\n1,2\n",
    "data/deep/er/x.txt": b"x",
    "empty.txt": b"",
}
TOKEN, OTHER = "hf_letmein0123456789", "hf_nobodyknows98765"
URI = "hf://datasets/org/digits"


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    hub.repos["datasets/org/digits"] = HubRepo()
    hub.repos["datasets/org/digits"].commit(FILES)
    yield hub
    hub.close()


@pytest.fixture
def paused() -> list[float]:
    return []


Open = Callable[..., Provider]


@pytest.fixture
def opened(hub: Hub, paused: list[float], monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens a source on the stand-in; no token and no cache of the machine's user is seen."""
    from huggingface_hub import constants

    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", "/nonexistent")
    monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", "/nonexistent")
    providers: list[Provider] = []

    def make(uri: str = URI, revision: str = "", token: str = "", pieces: Pieces | None = None) -> Provider:
        provider = hub_module.open_source(
            parse(uri, revision=revision),
            Credentials(token=token, options={"endpoint": hub.url}),
            patience=Patience(sleep=paused.append),
            pieces=pieces,
        )
        providers.append(provider)
        return provider

    yield make
    for provider in providers:
        provider.close()
    # Until version 1 it had one session for each thread, which nobody could close.
    from huggingface_hub import utils

    getattr(utils, "close_session", lambda: None)()


def taken(provider: Provider, folder: Path, listing: Listing | None = None) -> dict[str, bytes]:
    """Everything it lists, by path."""
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


def test_a_branch_is_pinned_to_its_commit(hub: Hub, opened: Open, tmp_path: Path) -> None:
    repo = hub.repos["datasets/org/digits"]
    provider = opened(revision="main")
    listing = provider.resolve()
    assert (listing.uri, listing.revision) == (URI, repo.refs["main"])
    repo.commit({"README.md": b"another"})
    assert taken(provider, tmp_path, listing) == FILES
    assert opened(revision="main").resolve().revision != listing.revision


def test_the_listing_knows_every_digest(opened: Open) -> None:
    files = {file.path: file for file in opened().resolve().files}
    assert files["data/train.bin"].sha256 == hashlib.sha256(BIG).hexdigest()
    assert files["data/train.bin"].size == len(BIG)
    assert files["README.md"].blob_sha1 == blob_id(FILES["README.md"])
    assert all(file.size == len(FILES[path]) and (file.sha256 or file.blob_sha1) for path, file in files.items())


def test_a_whole_commit_is_not_asked_for(hub: Hub, opened: Open) -> None:
    sha = hub.repos["datasets/org/digits"].refs["main"]
    assert opened(revision=sha).resolve().revision == sha
    assert [q.path for q in hub.web.asked] == [f"/api/datasets/org/digits/tree/{sha}"]


def test_tags_slashes_and_pages(hub: Hub, opened: Open, tmp_path: Path) -> None:
    hub.repos["datasets/org/digits"].commit({f"{n:03}.txt": b"%d" % n for n in range(57)}, to="feature/x")
    hub.page = 10
    provider = opened(revision="feature/x")
    assert len(taken(provider, tmp_path)) == 57
    assert len([q for q in hub.web.asked if "/tree/" in q.path]) == 6


def test_models_folders_and_single_files(hub: Hub, opened: Open, tmp_path: Path) -> None:
    hub.repos["org/model"] = HubRepo()
    hub.repos["org/model"].commit(FILES)
    assert taken(opened("hf://org/model"), tmp_path)["README.md"] == FILES["README.md"]
    below = taken(opened(f"{URI}/data"), tmp_path / "below")
    assert set(below) == {"train.bin", "ü b#1%.csv", "deep/er/x.txt"}
    assert taken(opened(f"{URI}/data/train.bin"), tmp_path / "one") == {"train.bin": BIG}


REFUSALS: dict[str, tuple[str, str, str, type[TrainerOpsError], str, str]] = {
    # name: repository's state, token, revision, error, words, remedy
    "no such repository": ("absent", "", "", InvalidRequest, "no dataset org/digits, or it is private", "HF_TOKEN"),
    "no such repository with token": (
        "absent", TOKEN, "", InvalidRequest, "or the token that was given may not see it", "Check the name",
    ),
    "private without token": ("private", "", "", InvalidRequest, "it is private and the token is missing", "HF_TOKEN"),
    "wrong token": ("", OTHER, "", SnapshotError, "token wrong", "settings/tokens"),
    "no such revision": ("", "", "mian", InvalidRequest, 'no branch, tag or commit "mian"', "Did you mean main"),
    "no such commit": ("", "", "a" * 40, InvalidRequest, "no branch, tag or commit", "There are: main"),
    "disabled": ("disabled", "", "", SnapshotError, "has disabled", "Look at"),
    "gated without token": ("gated", "", "", SnapshotError, "token missing: .* is gated", "Accept its terms"),
    "gated with token": ("gated", TOKEN, "", SnapshotError, "gated, and the account of the token", "Ask for access"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_which(
    hub: Hub, opened: Open, tmp_path: Path, paused: list[float], caplog: pytest.LogCaptureFixture, case: str
) -> None:
    state, token, revision, kind, words, remedy = REFUSALS[case]
    hub.tokens[TOKEN] = set()
    repo = hub.repos["datasets/org/digits"]
    repo.private, repo.gated, repo.disabled = state == "private", state == "gated", state == "disabled"
    if state == "absent":
        del hub.repos["datasets/org/digits"]
    with caplog.at_level("DEBUG"), pytest.raises(kind, match=words) as told:
        taken(opened(revision=revision, token=token), tmp_path)
    assert remedy in told.value.remedy
    said = {"wrong token": "refused", "gated without token": "missing", "gated with token": "refused"}
    assert getattr(told.value, "credentials", "") == said.get(case, "")
    assert paused == []
    for text in (str(told.value), repr(told.value), repr(told.value.__cause__), caplog.text):
        assert TOKEN not in text
        assert OTHER not in text
    assert [path for path in tmp_path.iterdir() if path.stat().st_size] == [] or state == "gated"


def test_a_gated_or_private_repository_with_the_right_token(hub: Hub, opened: Open, tmp_path: Path) -> None:
    hub.tokens[TOKEN] = {"datasets/org/digits"}
    hub.repos["datasets/org/digits"].gated = hub.repos["datasets/org/digits"].private = True
    assert taken(opened(token=f"{TOKEN}\n"), tmp_path) == FILES
    assert all("authorization" not in q.headers for q in hub.store.asked)
    assert hub.store.asked


@pytest.mark.parametrize("endpoint", ["hub:8080", "hub", "//hub"])
def test_an_endpoint_that_is_no_url(endpoint: str) -> None:
    with pytest.raises(InvalidRequest, match="HF_ENDPOINT: it is not a URL") as told:
        hub_module.open_source(parse(URI), Credentials(options={"endpoint": endpoint}))
    assert endpoint not in told.value.reason


def test_the_other_kind_of_that_name_is_named(opened: Open) -> None:
    with pytest.raises(InvalidRequest, match="there is no model org/digits") as told:
        opened("hf://org/digits").resolve()
    assert "There is hf://datasets/org/digits" in told.value.remedy


@pytest.mark.parametrize("below", ["nowhere", "data/nothing.csv"])
def test_no_such_folder(opened: Open, below: str) -> None:
    with pytest.raises(InvalidRequest, match=f'has no "{below}"') as told:
        opened(f"{URI}/{below}").resolve()
    assert told.value.field == "uri"


def test_a_name_that_no_repository_has(opened: Open) -> None:
    with pytest.raises(InvalidRequest, match="cannot be a repository"):
        opened("hf://org/a--b").resolve()


def test_trouble_is_waited_for_where_it_asks(hub: Hub, opened: Open, tmp_path: Path, paused: list[float]) -> None:
    troubles = [refuse(429, "", "Too many requests", **{"Retry-After": "11"}), refuse(503, "", "busy"), Reply(500)]

    def before(question: Question) -> Reply | None:
        interesting = "/revision/" in question.path or question.path.endswith("digits") or "/resolve/" in question.path
        return troubles.pop(0) if troubles and interesting else None

    hub.before = before
    assert taken(opened(), tmp_path) == FILES
    assert paused[0] == 11
    assert len(paused) == 3
    hub.before = lambda _: refuse(429, "", "Too many requests", **{"Retry-After": "9999"})
    with pytest.raises(SnapshotError, match=r"limits how often .*asks to wait 9999 s") as told:
        opened().resolve()
    assert told.value.transient


def test_nobody_there(hub: Hub, opened: Open, paused: list[float]) -> None:
    provider = opened()
    hub.web._server.server_close()
    with pytest.raises(SnapshotError, match=r"no usable answer from 127\.0\.0\.1 after 6 tries") as told:
        provider.resolve()
    assert told.value.transient
    assert len(paused) == 5


def test_something_else_answers(hub: Hub, opened: Open) -> None:
    hub.before = lambda _: Reply(200, b"<html>Welcome to the hotel</html>", {"Content-Type": "text/html"})
    with pytest.raises(SnapshotError, match="is not a Hugging Face hub"):
        opened().resolve()


def test_the_store_behind_the_hub_cuts_and_its_urls_expire(hub: Hub, opened: Open, tmp_path: Path) -> None:
    dice, fresh = random.Random(1), [False]

    def before(question: Question) -> None:
        fresh[0] = fresh[0] or "/resolve/" in question.path

    def store(question: Question) -> Reply | None:
        new, fresh[0] = fresh[0], False
        if not new and dice.random() < 0.5:
            return Reply(403, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")
        first = question.range[0] if question.range else 0
        headers = {"Content-Range": f"bytes {first}-{len(BIG) - 1}/{len(BIG)}"} if question.range else {}
        return Reply(206 if question.range else 200, BIG, headers, start=first, cut=dice.randrange(60_000))

    hub.before, hub.before_store = before, store
    assert taken(opened(), tmp_path) == FILES
    assert len(hub.store.asked) > 5


def test_a_store_that_refuses_says_nothing_of_the_repository(hub: Hub, opened: Open, tmp_path: Path) -> None:
    hub.before_store = lambda _: Reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
    with pytest.raises(SnapshotError, match=r"hf://datasets/org/digits: data/train\.bin: 127.* answered HTTP 404"):
        taken(opened(), tmp_path)


def test_a_large_file_is_read_in_pieces_and_the_hub_is_asked_where_it_is_only_once_or_so(
    hub: Hub, opened: Open, tmp_path: Path
) -> None:
    assert taken(opened(pieces=Pieces(size=10_000, at_once=4)), tmp_path) == FILES
    assert len(hub.store.asked) == 25
    assert len([q for q in hub.web.asked if q.path.endswith("train.bin")]) <= 4


def test_a_part_of_an_earlier_process_is_gone_on_from(hub: Hub, opened: Open, tmp_path: Path) -> None:
    provider = opened()
    listing = provider.resolve()
    number = [file.path for file in listing.files].index("data/train.bin")
    (tmp_path / str(number)).write_bytes(BIG[:200_000])
    assert taken(provider, tmp_path, listing) == FILES
    assert [q.range for q in hub.store.asked] == [(200_000, None)]


def test_a_file_too_large_for_plain_http_goes_through_the_hubs_client(
    hub: Hub, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "PLAIN_LIMIT", 100_000)
    (tmp_path / "1").write_bytes(BIG[:10])
    assert taken(opened(), tmp_path) == FILES
    assert {path.name for path in tmp_path.iterdir()} == {"0", "1", "2", "3", "4"}


CODE = """
import sys, json
from pathlib import Path
from trainer_ops.initializers.hub import open_source
from trainer_ops.initializers.provider import Credentials
from trainer_ops.initializers.source import parse
provider = open_source(parse(sys.argv[1], revision=sys.argv[2], kind="dataset"), Credentials())
try:
    listing = provider.resolve()
    for number, file in enumerate(listing.files):
        provider.fetch(file, Path(sys.argv[3]) / str(number), lambda count: None)
    digests = [file.sha256 or file.blob_sha1 for file in listing.files]
    print(json.dumps([listing.revision, [file.path for file in listing.files], digests]))
except Exception as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""
ONE = """
import sys, huggingface_hub
huggingface_hub.hf_hub_download("org/digits", sys.argv[1], repo_type="dataset")
print("[]")
"""
WARM = """
import sys, huggingface_hub
huggingface_hub.snapshot_download("org/digits", repo_type="dataset", allow_patterns=sys.argv[1])
print("[]")
"""


class TestOwnProcess:
    """What ``huggingface_hub`` reads from the environment when it is imported."""

    @pytest.fixture
    def run(self, hub: Hub, tmp_path: Path) -> Callable[..., list[object]]:
        import json

        home = tmp_path / "home"

        def run(*args: str, code: str = CODE, **env: str) -> list[object]:
            folder = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            clean = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
            env = {**clean, "HF_HOME": str(home), "HF_ENDPOINT": hub.url, **env}
            done = subprocess.run(
                [sys.executable, "-c", code, *args, str(folder)], env=env, capture_output=True, text=True, timeout=90
            )
            assert TOKEN not in done.stdout + done.stderr
            assert done.returncode == 0, done.stderr
            answer = json.loads(done.stdout.splitlines()[-1])
            assert isinstance(answer, list)
            return answer

        return run

    def test_endpoint_and_token_of_the_environment(self, hub: Hub, run: Callable[..., list[object]]) -> None:
        hub.tokens[TOKEN] = {"datasets/org/digits"}
        hub.repos["datasets/org/digits"].private = True
        assert run("hf://org/digits", "main", HF_TOKEN=TOKEN)[1] == sorted(FILES)
        assert run("hf://org/digits", "main")[0] == "InvalidRequest"

    def test_offline_the_hubs_own_cache_serves(self, hub: Hub, run: Callable[..., list[object]]) -> None:
        sha = hub.repos["datasets/org/digits"].refs["main"]
        kind, words = run("hf://org/digits", "main", HF_HUB_OFFLINE="1")
        assert kind == "InvalidRequest"
        assert "is not in the hub's cache" in str(words)
        run("README.md", code=ONE)
        kind, words = run("hf://org/digits", "main", HF_HUB_OFFLINE="1")
        assert kind == "InvalidRequest"
        assert "does not say which files" in str(words)
        run("data/*", code=WARM)
        kind, words = run("hf://org/digits", "main", HF_HUB_OFFLINE="1")
        assert kind == "SnapshotError"
        assert "has only a part of this revision" in str(words)
        assert "hf download org/digits --repo-type dataset --revision main" in str(words)
        run("*", code=WARM)
        asked = len(hub.web.asked)
        for revision in ("main", "", sha):
            found, paths, digests = run("hf://org/digits", revision, HF_HUB_OFFLINE="1")
            assert (found, paths) == (sha, sorted(FILES))
            assert all(digests)  # type: ignore[arg-type]
        assert run("hf://org/digits/data", "main", HF_HUB_OFFLINE="1")[1] == [
            "deep/er/x.txt",
            "train.bin",
            "ü b#1%.csv",
        ]
        assert run("hf://org/digits", "v9", HF_HUB_OFFLINE="1")[0] == "InvalidRequest"
        assert len(hub.web.asked) == asked
