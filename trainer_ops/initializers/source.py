"""What is asked for: a URI, a revision and patterns, as one canonical value. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.snapshot import SnapshotKind

__all__ = ["SCHEMES", "Source", "claim_of", "folder_of", "parse"]

SCHEMES: Final = ("hf", "s3", "gs", "az", "http", "https", "file", "pvc")

# A result with it must fit into a termination message of 4096 bytes, and object names end at 1024.
_LONGEST: Final = 1200
_KNOWN = "Known: hf://datasets/owner/name, s3://, gs://, az://, http(s)://, file:///folder and pvc://claim/folder."
_STORES = "Known: file:///folder, s3://bucket/folder, gs://, az:// and pvc://claim/folder."
_COUSINS = {
    "minio": "MinIO speaks S3: write s3:// and give its endpoint (endpoint_url, AWS_ENDPOINT_URL).",
    "s3a": "Write s3://.",
    "s3n": "Write s3://.",
    "gcs": "Write gs://.",
    "abfs": "Write az://container/folder and give the account with the credentials.",
    "abfss": "Write az://container/folder and give the account with the credentials.",
    "adl": "Write az://container/folder and give the account with the credentials.",
    "azure": "Write az://container/folder and give the account with the credentials.",
    "huggingface": "Write hf://.",
    "cache": "Trainer's data cache serves one TrainJob from inside it; it cannot be copied.",
}
# Names of query parameters that let whoever reads a URL in: presigned links of S3, GCS and Azure, and plain tokens.
_SECRET = re.compile(
    r"x-(amz|goog)-(signature|credential|security-token)|sig|signature|awsaccesskeyid|password|secret"
    r"|(access_|auth_)?token|auth|(api_?)?key",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_CLAIM = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]*")
_REPO = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Source:
    """A source as somebody asks for it; made by ``parse`` only, which refuses what cannot be fetched.

    Attributes:
        uri: canonical, without credentials: ``hf://datasets/org/name`` (a model: ``hf://org/name``),
            ``s3://bucket/prefix``, ``gs://…``, ``az://…``, ``http(s)://…``, ``file:///…``, ``pvc://claim/folder``.
        revision: as asked ("main", "v1", a commit); "" for the newest. Only the hub can fetch older ones; elsewhere
            it is what the source must still hold.
        include: glob patterns of paths to take; () for all.
        ignore: glob patterns of paths to leave out; wins over ``include``.
    """

    uri: str
    revision: str = ""
    include: Sequence[str] = ()
    ignore: Sequence[str] = ()

    @property
    def scheme(self) -> str:
        """The part before ``://``: ``hf``, ``s3``."""
        return self.uri.partition("://")[0]

    @property
    def pinned(self) -> str:
        """The revision, where nobody has to be asked what it means: a whole commit of the hub; else ""."""
        if self.scheme == "hf" and not _COMMIT.fullmatch(self.revision):
            return ""
        return self.revision


def parse(
    uri: str,
    *,
    revision: str = "",
    include: Sequence[str] = (),
    ignore: Sequence[str] = (),
    field: str = "uri",
    kind: SnapshotKind = "model",
) -> Source:
    """The canonical form of what somebody wrote.

    Args:
        uri: see ``Source.uri``; ``hf://…@revision`` is taken apart.
        revision: see ``Source.revision``.
        include: see ``Source.include``; one pattern may be given as a string.
        ignore: see ``Source.ignore``.
        field: what the input is called where it was written, for the error.
        kind: what ``hf://owner/name`` without ``datasets/`` is.

    Raises:
        InvalidRequest: it cannot be fetched, it holds a credential, or it is ambiguous.
    """
    scheme, separator, rest = uri.strip().partition("://")
    if not separator:
        remedy = f"Write file://{quote(_shown(uri))}." if uri.strip().startswith("/") else _KNOWN
        raise InvalidRequest(field, f'"{_shown(uri)}" is not a URI', remedy)
    scheme = scheme.lower()
    if scheme not in SCHEMES:
        use, known = ("keep snapshots", _STORES) if field == "to" else ("be fetched", _KNOWN)
        raise InvalidRequest(field, f"{_shown(scheme)}:// cannot {use}", _COUSINS.get(scheme, known))
    if any(ord(char) < 0x20 or char == "\x7f" for char in rest):
        raise InvalidRequest(field, "it holds a control character", "Write the URI on one line.")
    if any("\ud800" <= char <= "\udfff" for char in rest):
        raise InvalidRequest(field, "it is not valid UTF-8", "Check where the URI comes from.")
    if len(rest.encode()) > _LONGEST:
        raise InvalidRequest(field, f"it is too long ({len(rest.encode())} bytes)", f"{_LONGEST} are taken.")
    asked = revision.strip()
    if scheme == "hf":
        canonical, asked = _hub(rest, asked, kind, field)
    else:
        canonical = _CANONICAL[scheme](scheme, rest, field)
    return Source(canonical, asked, _patterns(include, "include"), _patterns(ignore, "ignore"))


def folder_of(uri: str) -> str:
    """The absolute path that a canonical ``file://`` URI means; the one below the claim for ``pvc://``."""
    rest = uri.partition("://")[2]
    return unquote(rest) if uri.startswith("file://") else unquote(rest.partition("/")[2])


def claim_of(uri: str) -> str:
    """The claim's name of a canonical ``pvc://`` URI."""
    return uri.partition("://")[2].partition("/")[0]


def _shown(text: str) -> str:
    """A user's text for an error: short, on one line, and nothing of what may be a password in it."""
    one_line = "".join(char if char.isprintable() else "?" for char in text.strip())
    return re.sub(r"[^/\s]*:[^/@\s]*@", "…@", one_line)[:200]


def _patterns(patterns: Sequence[str], field: str) -> tuple[str, ...]:
    given = (patterns,) if isinstance(patterns, str) else patterns
    for pattern in given:
        if pattern.startswith("/"):
            raise InvalidRequest(field, f'"{_shown(pattern)}" is absolute', "Paths are relative to the source's root.")
    return tuple(sorted({pattern.strip() for pattern in given} - {""}))


def _hub(rest: str, revision: str, kind: SnapshotKind, field: str) -> tuple[str, str]:
    form = "Write hf://datasets/owner/name or hf://owner/name, with /folder or @revision after it."
    prefix, parts = "", [part for part in rest.split("/") if part]
    if not parts:
        raise InvalidRequest(field, "it names no repository", form)
    if parts[0] in ("datasets", "models"):
        prefix = "datasets/" if parts.pop(0) == "datasets" else ""
    elif parts[0] == "spaces":
        raise InvalidRequest(field, "a space is not a dataset or model", form)
    elif kind == "dataset":
        prefix = "datasets/"
    repository, below = parts[:2], parts[2:]
    if not repository:
        raise InvalidRequest(field, "it names no repository", form)
    repository[-1], at, inside = repository[-1].partition("@")
    if at and revision and inside != revision:
        raise InvalidRequest("revision", f'"{_shown(revision)}" and "@{_shown(inside)}" in the URI differ', "Give one.")
    if (at and not inside) or not all(map(_REPO.fullmatch, repository)) or ".." in below:
        raise InvalidRequest(field, f'"{_shown(f"hf://{rest}")}" does not name a repository', form)
    asked = unquote(inside) or revision
    canonical = asked.lower() if _COMMIT.fullmatch(asked.lower()) else asked
    return f"hf://{prefix}{'/'.join([*repository, *below])}", canonical


def _bucket(scheme: str, rest: str, field: str) -> str:
    bucket, _, prefix = rest.partition("/")
    form = f"{scheme}://{'container' if scheme == 'az' else 'bucket'}/folder"
    if "@" in bucket or ":" in bucket:
        raise InvalidRequest(
            field,
            "it holds a credential or an account, which would end in logs and manifests",
            f"Write {form} and give the rest as credentials.",
        )
    if not _BUCKET.fullmatch(bucket):
        raise InvalidRequest(field, f'"{_shown(bucket)}" is not the name of a bucket', f"Write {form}.")
    prefix = prefix.rstrip("/")
    return f"{scheme}://{bucket}/{prefix}" if prefix else f"{scheme}://{bucket}"


def _web(scheme: str, rest: str, field: str) -> str:
    try:
        url = urlsplit(f"{scheme}://{rest}")
        host, port = url.hostname or "", url.port
    except ValueError as problem:
        raise InvalidRequest(field, f"it is not a URL ({problem})", "Write https://host/path.") from problem
    if url.username is not None or url.password is not None:
        raise InvalidRequest(field, "it holds a credential", "Give a bearer token as credentials (HTTP_TOKEN).")
    secret = [name for name, _ in parse_qsl(url.query, keep_blank_values=True) if _SECRET.fullmatch(name)]
    if secret:
        raise InvalidRequest(
            field,
            f"its parameter {_shown(secret[0])} is a credential, which would end in logs and manifests",
            "Give a bearer token as credentials (HTTP_TOKEN), or the s3://, gs:// or az:// URI.",
        )
    if not host:
        raise InvalidRequest(field, "it names no host", "Write https://host/path.")
    if url.fragment:
        raise InvalidRequest(field, "a server does not see the part after #", "Leave it out.")
    shown = f"[{host}]" if ":" in host else host
    place = shown if port in (None, {"http": 80, "https": 443}[scheme]) else f"{shown}:{port}"
    return f"{scheme}://{place}{url.path or '/'}{'?' + url.query if url.query else ''}"


def _file(_scheme: str, rest: str, field: str) -> str:
    path = unquote(rest.removeprefix("localhost"))
    if not path.startswith("/"):
        raise InvalidRequest(field, f'"{_shown(rest)}" is not absolute', "Write file:///folder, with three slashes.")
    if posixpath.normpath("/" + path.lstrip("/")) == "/":
        raise InvalidRequest(field, "it is the whole machine", "Name a folder or a file.")
    return f"file://{_clean(path, field)}"


def _claim(_scheme: str, rest: str, field: str) -> str:
    claim, _, path = rest.partition("/")
    if not _CLAIM.fullmatch(claim):
        raise InvalidRequest(field, f'"{_shown(claim)}" is not the name of a claim', "Write pvc://claim/folder.")
    below = _clean("/" + unquote(path), field)
    return f"pvc://{claim}{'' if below == '/' else below}"


def _clean(path: str, field: str) -> str:
    if ".." in path.split("/"):
        raise InvalidRequest(field, 'it holds ".."', "Write the folder that is meant.")
    return quote(posixpath.normpath("/" + path.lstrip("/")), safe="/-._~@+=,")


_CANONICAL: dict[str, Callable[[str, str, str], str]] = {
    "s3": _bucket,
    "gs": _bucket,
    "az": _bucket,
    "http": _web,
    "https": _web,
    "file": _file,
    "pvc": _claim,
}
