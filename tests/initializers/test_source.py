"""What may be asked for, what it becomes, and what is refused with which remedy."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.source import Source, claim_of, folder_of, parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("uri", "canonical"),
    [
        pytest.param("hf://datasets/org/name", "hf://datasets/org/name", id="hub-dataset"),
        pytest.param("hf://org/name", "hf://org/name", id="hub-model"),
        pytest.param("hf://models/org/name", "hf://org/name", id="hub-model-by-its-word"),
        pytest.param("HF://org/Name/", "hf://org/Name", id="scheme-in-capitals"),
        pytest.param("hf://gpt2", "hf://gpt2", id="hub-without-owner"),
        pytest.param("hf://datasets/org/name/data/en", "hf://datasets/org/name/data/en", id="hub-folder"),
        pytest.param("  s3://bucket/data/ ", "s3://bucket/data", id="s3-slash-at-the-end"),
        pytest.param("s3://bucket", "s3://bucket", id="s3-whole-bucket"),
        pytest.param("s3://bucket/", "s3://bucket", id="s3-whole-bucket-slash"),
        pytest.param("s3://bucket/a b/ü?x#y", "s3://bucket/a b/ü?x#y", id="s3-keys-hold-anything"),
        pytest.param("gs://bucket/a", "gs://bucket/a", id="gs"),
        pytest.param("az://container/a", "az://container/a", id="az"),
        pytest.param("az://$web/a", "az://$web/a", id="az-system-container"),
        pytest.param("https://Example.ORG:443/a.csv", "https://example.org/a.csv", id="https-host-and-port"),
        pytest.param("http://127.0.0.1:8080/a?b=1", "http://127.0.0.1:8080/a?b=1", id="http-query"),
        pytest.param("http://[::1]:80", "http://[::1]/", id="http-ipv6"),
        pytest.param("file:///data/x/", "file:///data/x", id="file"),
        pytest.param("file://localhost/data", "file:///data", id="file-localhost"),
        pytest.param("file:///data//./x y", "file:///data/x%20y", id="file-space"),
        pytest.param("file:///data/x%20y", "file:///data/x%20y", id="file-space-written-out"),
        pytest.param("pvc://claim", "pvc://claim", id="pvc"),
        pytest.param("pvc://claim/a//b/", "pvc://claim/a/b", id="pvc-folder"),
    ],
)
def test_canonical(uri: str, canonical: str) -> None:
    assert parse(uri).uri == canonical
    assert parse(canonical).uri == canonical


def test_the_kind_says_what_a_hub_name_without_a_word_is() -> None:
    assert parse("hf://org/name", kind="dataset").uri == "hf://datasets/org/name"
    assert parse("hf://models/org/name", kind="dataset").uri == "hf://org/name"
    assert parse("hf://datasets/org/name", kind="model").uri == "hf://datasets/org/name"


@pytest.mark.parametrize(
    ("uri", "given", "reason"),
    [
        pytest.param("/data", {}, "is not a URI", id="path"),
        pytest.param("", {}, "is not a URI", id="empty"),
        pytest.param("ftp://host/x", {}, "ftp:// cannot be fetched", id="scheme"),
        pytest.param("minio://b/x", {}, "minio:// cannot be fetched", id="minio"),
        pytest.param("cache://b/x", {}, "cache:// cannot be fetched", id="cache"),
        pytest.param("hf://", {}, "names no repository", id="hub-nothing"),
        pytest.param("hf://datasets/", {}, "names no repository", id="hub-word-only"),
        pytest.param("hf://spaces/a/b", {}, "a space is not", id="hub-space"),
        pytest.param("hf://user:tok@org/name", {}, "does not name a repository", id="hub-credential"),
        pytest.param("hf://org/name@", {}, "does not name a repository", id="hub-empty-revision"),
        pytest.param("hf://org/name/../x", {}, "does not name a repository", id="hub-dots"),
        pytest.param("hf://org/name@v1", {"revision": "v2"}, "differ", id="hub-two-revisions"),
        pytest.param("s3://", {}, "is not the name of a bucket", id="s3-nothing"),
        pytest.param("s3://key:secret@bucket/x", {}, "holds a credential", id="s3-credential"),
        pytest.param("az://c@account.blob.core.windows.net/x", {}, "or an account", id="az-account"),
        pytest.param("https://user:pw@host/x", {}, "holds a credential", id="https-credential"),
        pytest.param("https://host/x?X-Amz-Signature=1", {}, "is a credential", id="presigned-s3"),
        pytest.param("https://host/x?sv=1&sig=abc", {}, "is a credential", id="presigned-azure"),
        pytest.param("https://host/x?token=abc", {}, "is a credential", id="token"),
        pytest.param("https://", {}, "names no host", id="https-no-host"),
        pytest.param("https://host:port/", {}, "is not a URL", id="https-port"),
        pytest.param("https://host/a#b", {}, "part after #", id="https-fragment"),
        pytest.param("file://data/x", {}, "is not absolute", id="file-relative"),
        pytest.param("file:///", {}, "whole machine", id="file-root"),
        pytest.param("file:///.//", {}, "whole machine", id="file-root-disguised"),
        pytest.param("file:///a/../b", {}, 'holds ".."', id="file-dots"),
        pytest.param("file:///a/%2e%2e/b", {}, 'holds ".."', id="file-dots-disguised"),
        pytest.param("pvc://Claim/x", {}, "is not the name of a claim", id="pvc-name"),
        pytest.param("pvc://claim/../x", {}, 'holds ".."', id="pvc-dots"),
        pytest.param("s3://bucket/a\nb", {}, "control character", id="line-end"),
        pytest.param("s3://bucket/" + "a" * 3000, {}, "too long", id="long"),
        pytest.param("s3://bucket/\udc80", {}, "not valid UTF-8", id="not-text"),
        pytest.param("s3://bucket", {"include": ["/a"]}, "is absolute", id="pattern"),
    ],
)
def test_refused(uri: str, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(uri, **given)
    assert reason in caught.value.reason
    assert caught.value.remedy


@pytest.mark.parametrize(
    "uri", ["s3://key:SECRET@bucket", "https://u:SECRET@h/x", "hf://u:SECRET@org/x", "//u:SECRET@h"]
)
def test_a_refusal_does_not_show_the_credential(uri: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(uri)
    assert "SECRET" not in str(caught.value)


def test_field_is_the_caller_s() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse("nonsense", field="dataset")
    assert caught.value.field == "dataset"


# What is written -> a remedy that can be typed as it stands.
REMEDIES = {
    ("/tmp/my data", "uri"): "Write file:///tmp/my%20data.",
    ("ftp://host/x", "uri"): "Known: hf://datasets/owner/name, s3://",
    ("ftp://host/x", "to"): "Known: file:///folder, s3://bucket/folder",
}


@pytest.mark.parametrize("given", REMEDIES)
def test_remedies(given: tuple[str, str]) -> None:
    uri, field = given
    with pytest.raises(InvalidRequest) as caught:
        parse(uri, field=field)
    assert caught.value.remedy.startswith(REMEDIES[given])
    assert ("fetched" in caught.value.reason) is (uri.startswith("ftp") and field == "uri")


def test_patterns_have_one_form() -> None:
    assert parse("s3://b", include=["b", "a ", "a", ""]).include == ("a", "b")
    assert parse("s3://b", ignore="*.tmp").ignore == ("*.tmp",)


@pytest.mark.parametrize(
    ("uri", "revision", "asked", "pinned"),
    [
        pytest.param("hf://org/name", "", "", "", id="newest"),
        pytest.param("hf://org/name", "main", "main", "", id="branch"),
        pytest.param("hf://org/name@main", "", "main", "", id="in-the-uri"),
        pytest.param("hf://org/name@refs%2Fpr%2F1", "", "refs/pr/1", "", id="pull-request"),
        pytest.param("hf://org/name@v1", "v1", "v1", "", id="both-equal"),
        pytest.param("hf://org/name", COMMIT.upper(), COMMIT, COMMIT, id="commit"),
        pytest.param("hf://org/name", COMMIT[:7], COMMIT[:7], "", id="short-commit"),
        pytest.param("s3://bucket/x", "abc", "abc", "abc", id="derived"),
    ],
)
def test_revision(uri: str, revision: str, asked: str, pinned: str) -> None:
    source = parse(uri, revision=revision)
    assert (source.revision, source.pinned) == (asked, pinned)


def test_paths_of_uris() -> None:
    assert folder_of(parse("file:///data/x%20y").uri) == "/data/x y"
    assert folder_of("pvc://claim/a/b%20c") == "a/b c"
    assert folder_of("pvc://claim") == ""
    assert claim_of("pvc://claim/a/b") == "claim"
    assert Source("s3://b").scheme == "s3"
