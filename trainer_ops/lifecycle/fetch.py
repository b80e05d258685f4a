"""Read a text that lies behind a URI: a script, so that it can be shipped, or a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.request import ScriptCode, TrainRequest

__all__ = ["MAX_SCRIPT_BYTES", "fetch_script", "fetch_text"]

# What is shipped travels in an argument of the TrainJob; the API server takes at most 1 MiB of it, encoded.
MAX_SCRIPT_BYTES = 700_000
_TIMEOUT_SECONDS = 30.0


def fetch_script(request: TrainRequest) -> TrainRequest:
    """The request with a script behind a URI read; one without a scheme is a path and stays as it is.

    Raises:
        InvalidRequest: the URI cannot be read, is too big for a script, or is not UTF-8 text.
    """
    uri = request.script or ""
    if "://" not in uri:
        return request
    source = fetch_text(uri, field="script")
    name = unquote(urlsplit(uri).path).rsplit("/", 1)[-1] or "script.py"
    return request.model_copy(update={"script": None, "code": ScriptCode(filename=name, source=source)})


_TOO_BIG = {"script": "Put the code into the image and name the command"}


def fetch_text(uri: str, *, field: str) -> str:
    """The text at a URI, or at a path.

    Args:
        uri: a path, ``file://``, ``http(s)://``, or any scheme that fsspec serves.
        field: what it is called in an error.

    Raises:
        InvalidRequest: it cannot be read, is bigger than what can be shipped, or is not UTF-8.
    """
    data = _read(uri, field)
    if len(data) > MAX_SCRIPT_BYTES:
        raise InvalidRequest(
            field, f"{uri} has more than {MAX_SCRIPT_BYTES} bytes", _TOO_BIG.get(field, "Give a smaller one")
        )
    try:
        return data.decode()
    except UnicodeDecodeError as exc:
        raise InvalidRequest(field, f"{uri} is not UTF-8 text: {exc}", "Save it as UTF-8") from exc


def _read(uri: str, field: str) -> bytes:
    scheme = urlsplit(uri).scheme.lower()
    try:
        if scheme == "file" or "://" not in uri:
            with Path(unquote(urlsplit(uri).path) if scheme == "file" else uri).open("rb") as file:
                return file.read(MAX_SCRIPT_BYTES + 1)
        if scheme in ("http", "https"):
            with urlopen(uri, timeout=_TIMEOUT_SECONDS) as answer:
                return bytes(answer.read(MAX_SCRIPT_BYTES + 1))
        with _fsspec(uri, scheme, field).open(uri, "rb") as stream:
            return bytes(stream.read(MAX_SCRIPT_BYTES + 1))
    except (OSError, URLError, ValueError) as exc:
        raise InvalidRequest(field, f"{uri} cannot be read: {exc}", "Check the URI and the credentials") from exc


def _fsspec(uri: str, scheme: str, field: str) -> Any:
    """The file system behind any other scheme, or an error that names what to install."""
    try:
        import fsspec
    except ImportError as exc:
        raise InvalidRequest(
            field, f"{scheme}:// needs fsspec", "Install it: pip install 'trainer-ops[initializers]'"
        ) from exc
    try:
        return fsspec.core.url_to_fs(uri)[0]
    except (ImportError, ValueError) as exc:
        raise InvalidRequest(field, f"{scheme}:// cannot be read here: {exc}", "Install what it names") from exc
