"""The engine's initializers: fetch a dataset or a model into the TrainJob's own folder.

Run as the process of an initializer step: ``python -m trainer_ops.local.initialize dataset|model URI FOLDER``, with
``ACCESS_TOKEN`` and ``IGNORE_PATTERNS`` as Trainer's images read them. What it prints is that step's log, how it exits
is that step's result.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trainer_ops.errors import InvalidRequest

__all__ = ["check_source", "copy_folder", "fetch", "main", "repository"]

# What Trainer's model initializer downloads, whatever else is in the repository.
MODEL_PATTERNS = ("*.json", "*.safetensors", "*.model", "*.txt")


def check_source(uri: str, field: str) -> None:
    """Refuse, before anything is created, what this machine cannot fetch.

    Raises:
        InvalidRequest: an unknown scheme, or an extra that is not installed.
    """
    scheme = urlsplit(uri).scheme
    if scheme == "hf":
        import importlib.util

        repository(uri, field)
        if importlib.util.find_spec("huggingface_hub") is None:
            raise InvalidRequest(field, "hf:// needs huggingface_hub", "pip install 'trainer-ops[initializers]'")
    elif scheme != "file":
        remedy = "Use file:///folder or hf://org/name here; other sources: an initializer step, or a cluster"
        raise InvalidRequest(field, f'"{uri}" cannot be fetched on this machine', remedy)


def repository(uri: str, field: str = "storageUri") -> tuple[str, str]:
    """Repository id and kind ("model" or "dataset" or "", what the step is for) of an ``hf://`` URI.

    Raises:
        InvalidRequest: it names no organisation and repository.
    """
    parts = [part for part in uri.removeprefix("hf://").split("/") if part]
    kind = ""
    if parts and parts[0] in ("datasets", "models"):
        kind = parts.pop(0)[:-1]
    if len(parts) < 2:
        raise InvalidRequest(field, f'"{uri}" names no repository', "Write hf://organisation/name")
    return "/".join(parts[:2]), kind


def fetch(kind: str, uri: str, target: Path, environ: Mapping[str, str]) -> int:
    """Fetch what the URI names into the folder; how many files that were.

    Raises:
        InvalidRequest: the URI names nothing that is there.
        OSError: it cannot be read or written.
    """
    ignore = [p.strip() for p in environ.get("IGNORE_PATTERNS", "").split(",") if p.strip()]
    target.mkdir(parents=True, exist_ok=True)
    if uri.startswith("file://"):
        count = copy_folder(Path(unquote(urlsplit(uri).path)), target, ignore)
    else:
        count = _download(kind, uri, target, ignore, environ.get("ACCESS_TOKEN") or None)
    if count == 0:
        raise InvalidRequest("storageUri", f'"{uri}" holds no files (ignored: {ignore or "none"})', "Check the path")
    return count


def copy_folder(source: Path, target: Path, ignore: Sequence[str] = ()) -> int:
    """Copy a folder's files, or one file.

    Raises:
        InvalidRequest: there is no such file or folder.
    """
    if not source.exists():
        raise InvalidRequest("storageUri", f"{source} does not exist on this machine", "Check the path")
    files = [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())
    base = source.parent if source.is_file() else source
    count = 0
    for file in files:
        relative = file.relative_to(base)
        if any(fnmatch.fnmatch(relative.as_posix(), pattern) for pattern in ignore):
            continue
        copy = target / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.unlink(missing_ok=True)
        # A copy, not a hard link: training code that writes into its dataset must not change the original.
        shutil.copy2(file, copy)
        count += 1
    return count


def _download(kind: str, uri: str, target: Path, ignore: list[str], token: str | None) -> int:
    from huggingface_hub import snapshot_download

    name, named_kind = repository(uri)
    repo_type = named_kind or kind
    snapshot_download(
        name,
        repo_type=repo_type,
        local_dir=target,
        token=token,
        ignore_patterns=ignore or None,
        allow_patterns=list(MODEL_PATTERNS) if kind == "model" else None,
    )
    # Its own notes are not part of the data.
    shutil.rmtree(target / ".cache", ignore_errors=True)
    return sum(1 for path in target.rglob("*") if path.is_file())


def main(kind: str = "", uri: str = "", folder: str = "") -> int:
    """The program; its exit code."""
    if not folder:
        print("usage: initialize dataset|model URI FOLDER", file=sys.stderr)
        return 2
    print(f"fetching {kind} {uri}", flush=True)
    try:
        count = fetch(kind, uri, Path(folder), os.environ)
    except Exception as error:
        # One line for the person, not our traceback: what failed is what they wrote, or the network.
        print(f"{kind} initializer: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return 1
    print(f"{count} files in {folder}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
