"""The files of a trained model, wherever it is: a file or a folder, on this machine or behind fsspec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit

from trainer_ops.errors import InvalidRequest

__all__ = ["ModelFile", "ModelFiles", "local_path", "model_files", "remote"]

_FIELD: Final = "model_uri"
_NOT_COPIED: Final = "promote it where it is (copy=False)"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model.

    Attributes:
        path: relative, with ``/``: its own name where the model is one file.
        size: bytes.
        open: opens it for reading.
    """

    path: str
    size: int
    open: Callable[[], BinaryIO]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """All of a model.

    Attributes:
        files: by path; () for a model that is only referred to.
        name: the file's name where the model is one file; "" where it is a folder.
    """

    files: tuple[ModelFile, ...] = ()
    name: str = ""


def model_files(uri: str, options: Mapping[str, Any] | None = None) -> ModelFiles:
    """All files of the model at ``uri``.

    Args:
        uri: ``file:///…``, a plain absolute path, or what fsspec has a driver for (``s3://…``).
        options: for that driver.

    Raises:
        InvalidRequest: field ``model_uri``: there is nothing, or it cannot be read from here.
    """
    path = local_path(uri, _FIELD)
    found = _local(path, uri) if path is not None else _remote(uri, options or {})
    if not found.files:
        raise InvalidRequest(
            _FIELD, f"{uri} holds no file", "Report the file or the folder that the model was saved to"
        )
    return found


def local_path(uri: str, field: str) -> Path | None:
    """The path that a ``file://`` URI or a plain path means; None for every other scheme.

    Raises:
        InvalidRequest: a relative one, which means another folder in every process.
    """
    parts = urlsplit(uri)
    if "://" in uri and parts.scheme != "file":
        return None
    path = Path(unquote(parts.path)) if parts.scheme == "file" else Path(uri)
    if parts.netloc not in ("", "localhost") or not path.is_absolute():
        raise InvalidRequest(field, f'"{uri}" is no absolute path', "Write file:///absolute/path")
    return path


def remote(uri: str, field: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """The driver that fsspec has for a URI, and the path that it knows it by.

    Raises:
        InvalidRequest: there is no driver for it here.
    """
    try:
        import fsspec

        fs, path = fsspec.core.url_to_fs(uri, **options)
    except (ImportError, ValueError) as exc:
        extra = {"gs": "gcs", "gcs": "gcs", "az": "azure", "abfs": "azure"}.get(urlsplit(uri).scheme, "initializers")
        remedy = f"pip install 'trainer-ops[{extra}]'"
        raise InvalidRequest(field, f"{uri} cannot be read here: {exc}", remedy) from exc
    return fs, str(path)


def _local(path: Path, uri: str) -> ModelFiles:
    if not path.exists():
        remedy = f"Where it is in a pod's volume, mount that here at the same path, or {_NOT_COPIED}"
        raise InvalidRequest(_FIELD, f"{uri} is not on this machine", remedy)
    if path.is_file():
        return ModelFiles((_file(path, path.name),), path.name)
    found = sorted(below for below in path.rglob("*") if below.is_file())
    return ModelFiles(tuple(_file(below, below.relative_to(path).as_posix()) for below in found))


def _file(path: Path, name: str) -> ModelFile:
    return ModelFile(name, path.stat().st_size, lambda: path.open("rb"))


def _remote(uri: str, options: Mapping[str, Any]) -> ModelFiles:
    if urlsplit(uri).scheme == "pvc":
        raise InvalidRequest(_FIELD, f"{uri} is in a volume", f"Mount it here and give its path, or {_NOT_COPIED}")
    fs, root = remote(uri, _FIELD, options)
    root = root.rstrip("/")
    found = {name: info for name, info in fs.find(root, detail=True).items() if info["type"] == "file"}
    if list(found) == [root]:
        name = root.rsplit("/", 1)[-1]
        return ModelFiles((_object(fs, root, name, found[root]),), name)
    return ModelFiles(tuple(_object(fs, at, at.removeprefix(f"{root}/"), found[at]) for at in sorted(found)))


def _object(fs: Any, at: str, name: str, info: Mapping[str, Any]) -> ModelFile:
    return ModelFile(name, int(info["size"]), lambda: fs.open(at, "rb"))
