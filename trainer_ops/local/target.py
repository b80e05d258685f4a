"""``local://`` URLs: how a target on this machine is written in a connection, a flag or an environment variable."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from trainer_ops.errors import InvalidRequest
from trainer_ops.local.engine import LocalBackend

__all__ = ["open_local"]


def open_local(url: str) -> LocalBackend:
    """The engine at ``local:///absolute/folder``, with ``?max_jobs=2`` where wanted.

    Raises:
        InvalidRequest: field ``target``; it is no such URL.
    """
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.scheme != "local" or parts.netloc or not path.startswith("/"):
        raise InvalidRequest("target", f'"{url}" is no local target', "Write local:///absolute/folder")
    query = parse_qs(parts.query, keep_blank_values=True)
    unknown = sorted(set(query) - {"max_jobs"})
    if unknown:
        raise InvalidRequest("target", f'"{unknown[0]}" is no option of a local target', "Known: max_jobs")
    blocked = next((p for p in (Path(path), *Path(path).parents) if p.exists() and not p.is_dir()), None)
    if blocked is not None:
        raise InvalidRequest("target", f"{blocked} is a file, not a folder", "Name a folder, or one that can be made")
    return LocalBackend(path, max_jobs=_max_jobs(query))


def _max_jobs(query: dict[str, list[str]]) -> int | None:
    if "max_jobs" not in query:
        return None
    text = query["max_jobs"][-1]
    if not text.isdigit() or int(text) < 1:
        raise InvalidRequest("target", f"max_jobs={text} is not a whole number of at least 1", "Write ?max_jobs=2")
    return int(text)
