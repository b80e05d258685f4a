"""A stand-in of the Hugging Face hub: what its API answers, as far as downloads need it.

Small files are git blobs and come from the hub itself; large ones are LFS objects and come from a store behind it, at
another address, by a URL that is valid for a while.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from tests.initializers.webserver import Question, Reply, WebServer, serve

Content = bytes | Path


def blob_id(content: bytes) -> str:
    """What git calls it."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def commit_of(number: int) -> str:
    return hashlib.sha1(b"commit %d" % number).hexdigest()


@dataclass
class Stored:
    """One file of a commit; ``sha256`` where it is an LFS object."""

    content: Content
    sha256: str = ""

    @property
    def size(self) -> int:
        return self.content.stat().st_size if isinstance(self.content, Path) else len(self.content)

    @property
    def oid(self) -> str:
        if self.sha256:
            pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n"
            return blob_id(pointer.encode())
        assert isinstance(self.content, bytes)
        return blob_id(self.content)

    def listed(self, path: str) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "file", "oid": self.oid, "size": self.size, "path": path}
        if self.sha256:
            entry["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": 134}
        return entry


@dataclass
class HubRepo:
    """A repository; ``refs`` are branches and tags by name, and its commits are immutable."""

    commits: dict[str, dict[str, Stored]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    private: bool = False
    gated: bool = False
    disabled: bool = False

    def commit(self, files: Mapping[str, Content | Stored], *, to: str = "main", lfs_from: int = 1000) -> str:
        """Make the next commit; files of ``lfs_from`` bytes and more become LFS objects."""
        made: dict[str, Stored] = {}
        for path, content in files.items():
            if isinstance(content, Stored):
                made[path] = content
            elif isinstance(content, bytes) and len(content) < lfs_from:
                made[path] = Stored(content)
            else:
                data = content.read_bytes() if isinstance(content, Path) else content
                made[path] = Stored(content, hashlib.sha256(data).hexdigest())
        sha = commit_of(len(self.commits) + 1)
        self.commits[sha] = made
        self.refs[to] = sha
        return sha


class Hub:
    """The hub and the store behind it.

    Attributes:
        repos: by place: ``org/name`` a model, ``datasets/org/name`` a dataset.
        tokens: those that are known, with the places of gated and private repositories that each may read.
        before: asked first for each question; a reply that it gives is the answer.
        page: entries of one page of a listing.
    """

    def __init__(self, *, remember: bool = True, host: str = "127.0.0.1") -> None:
        self.repos: dict[str, HubRepo] = {}
        self.tokens: dict[str, set[str]] = {}
        self.before: Callable[[Question], Reply | None] = lambda _: None
        self.before_store: Callable[[Question], Reply | None] = lambda _: None
        self.page = 1000
        self.objects: dict[str, Content] = {}
        self.web = WebServer(self._answer, remember=remember, host=host)
        self.store = WebServer(self._object, remember=remember, host=host)

    @property
    def url(self) -> str:
        return self.web.url

    def close(self) -> None:
        self.web.close()
        self.store.close()

    def _answer(self, question: Question) -> Reply:
        early = self.before(question)
        if early is not None:
            return early
        found = re.fullmatch(
            r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree|refs|paths-info)(?:/(.*))?)?", question.path
        )
        if found:
            kind, name, verb, rest = found.groups()
            place = name if kind == "models" else f"datasets/{name}"
            repo = self._repo(place, question)
            if isinstance(repo, Reply):
                return repo
            return self._api(repo, verb or "revision", rest or "main", question)
        found = re.fullmatch(r"/((?:datasets/)?[^/]+/[^/]+)/resolve/([^/]+)/(.+)", question.path)
        if not found:
            return refuse(404, "", "Not found")
        repo = self._repo(found[1], question)
        if isinstance(repo, Reply):
            return repo
        return self._gate(repo, found[1], question) or self._resolve(repo, found[2], found[3], question)

    def _token(self, question: Question) -> str:
        return question.headers.get("authorization", "").removeprefix("Bearer ")

    def _repo(self, place: str, question: Question) -> HubRepo | Reply:
        token, repo = self._token(question), self.repos.get(place)
        if token and token not in self.tokens:
            return refuse(401, "", "Invalid credentials in Authorization header")
        if repo is None or (repo.private and place not in self.tokens.get(token, ())):
            return (
                refuse(404, "RepoNotFound", "Repository not found")
                if token
                else refuse(401, "", "Invalid username or password.")
            )
        if repo.disabled:
            return refuse(403, "", "Access to this resource is disabled.")
        return repo

    def _gate(self, repo: HubRepo, place: str, question: Question) -> Reply | None:
        token = self._token(question)
        if not repo.gated or place in self.tokens.get(token, ()):
            return None
        return refuse(403 if token else 401, "GatedRepo", f"Access to {place} is restricted.")

    def _api(self, repo: HubRepo, verb: str, rest: str, question: Question) -> Reply:
        if verb == "refs":
            refs = [{"name": name, "ref": f"refs/heads/{name}", "targetCommit": sha} for name, sha in repo.refs.items()]
            return as_json({"branches": refs, "converts": [], "tags": []})
        if verb == "revision":
            sha = self._sha(repo, rest)
            return as_json({"id": "org/name", "sha": sha, "siblings": []}) if sha else no_revision(rest)
        revision, _, below = rest.partition("/")
        sha = self._sha(repo, revision)
        if sha is None:
            return no_revision(revision)
        files = repo.commits[sha]
        if verb == "paths-info":
            asked = parse_qs(question.body.decode()).get("paths", [])
            return as_json([files[path].listed(path) for path in asked if path in files])
        prefix = f"{below}/" if below else ""
        entries = [stored.listed(path) for path, stored in sorted(files.items()) if path.startswith(prefix)]
        if below and not entries:
            return refuse(404, "EntryNotFound", f"{below} does not exist on {revision}")
        folders = {path.rpartition("/")[0] for path in files if "/" in path}
        entries += [{"type": "directory", "oid": "0" * 40, "size": 0, "path": folder} for folder in sorted(folders)]
        begin = int(question.query.get("cursor", ["0"])[0])
        reply = as_json(entries[begin : begin + self.page])
        if begin + self.page < len(entries):
            reply.headers["Link"] = f'<{self.url}{question.path}?recursive=True&cursor={begin + self.page}>; rel="next"'
        return reply

    def _sha(self, repo: HubRepo, revision: str) -> str | None:
        return revision if revision in repo.commits else repo.refs.get(revision)

    def _resolve(self, repo: HubRepo, revision: str, path: str, question: Question) -> Reply:
        sha = self._sha(repo, revision)
        if sha is None:
            return no_revision(revision)
        stored = repo.commits[sha].get(path)
        if stored is None:
            return refuse(404, "EntryNotFound", "Entry not found")
        told = {"X-Repo-Commit": sha}
        if not stored.sha256:
            reply = serve(question, stored.content, etag=f'"{stored.oid}"')
            reply.headers.update(told)
            return reply
        self.objects[stored.sha256] = stored.content
        told |= {"X-Linked-Etag": f'"{stored.sha256}"', "X-Linked-Size": str(stored.size), "ETag": '"of-the-redirect"'}
        return Reply(302, b"", {**told, "Location": f"{self.store.url}/{stored.sha256}?signature=abc"})

    def _object(self, question: Question) -> Reply:
        early = self.before_store(question)
        if early is not None:
            return early
        sha256 = question.path[1:]
        return serve(question, self.objects[sha256], etag=f'"store-{sha256[:8]}"')


def refuse(status: int, code: str, message: str, **headers: str) -> Reply:
    told = {"X-Error-Message": message, "Content-Type": "application/json", **headers}
    if code:
        told["X-Error-Code"] = code
    return Reply(status, json.dumps({"error": message}).encode(), told)


def no_revision(revision: str) -> Reply:
    return refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")


def as_json(data: Any) -> Reply:
    return Reply(200, json.dumps(data).encode(), {"Content-Type": "application/json"})
