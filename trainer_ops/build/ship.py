"""Code on its way into a container: the launcher's text and a payload in the TrainJob's command."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.request import FunctionCode, ScriptCode, TrainRequest
from trainer_ops.model.runtime import TrainingRuntime

__all__ = ["PAYLOAD_LIMIT", "launch_command"]

# Linux refuses to start a program with a single argument of 128 KiB (MAX_ARG_STRLEN), well below the API's 1 048 576
# characters for an item of a command. A piece also carries the number of pieces.
_PIECE: Final = 120_000
PAYLOAD_LIMIT: Final = 1_000_000
"""Characters of compressed code: etcd stores objects of at most 1.5 MiB, and the command is not all of a TrainJob."""

_RUNNERS: Final = {"torch": "torchrun", "mpi": "mpirun"}


def launch_command(request: TrainRequest, runtime: TrainingRuntime | None) -> list[str]:
    """``trainer.command`` for the request's code; the script's own arguments stay readable in ``trainer.args``.

    Raises:
        InvalidRequest: the code is too big to travel in a TrainJob.
    """
    code = request.code
    assert code is not None
    payload = {
        **_code(code),
        "runner": _runner(request, runtime),
        "packages": list(request.packages),
        "index_url": request.pip_index_url,
        "argc": len(request.args or ()),
        # mpirun hands on to other nodes only the variables that it is told to.
        "exports": sorted(request.env),
        "reporting": _text("reporting.py"),
    }
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode("ascii")
    if len(packed) > PAYLOAD_LIMIT:
        raise InvalidRequest(
            "script" if isinstance(code, ScriptCode) else "python_callable",
            f"is {len(packed):,} characters when compressed; at most {PAYLOAD_LIMIT:,} can travel in a TrainJob",
            "Put the code into the image and give command, or move data out of the code",
        )
    return ["python3", "-u", "-c", _text("launcher.py"), *_pieces(packed)]


def _code(code: ScriptCode | FunctionCode) -> dict[str, Any]:
    if isinstance(code, FunctionCode):
        return {"kind": "function", "name": code.name, "source": code.source, "kwargs": code.kwargs}
    name = code.filename.replace("\\", "/").rsplit("/", 1)[-1] or "script.py"
    return {"kind": "script", "filename": name, "source": code.source}


def _runner(request: TrainRequest, runtime: TrainingRuntime | None) -> str:
    """What starts the code; ``auto`` is left to the launcher only where the runtime could not be read."""
    if request.runner != "auto" or runtime is None:
        return request.runner
    return _RUNNERS.get(runtime.policy, "python")


def _pieces(packed: str) -> Sequence[str]:
    cuts = [packed[start : start + _PIECE] for start in range(0, len(packed), _PIECE)]
    return [f"{len(cuts)}:{cuts[0]}", *cuts[1:]]


@cache
def _text(name: str) -> str:
    return resources.files("trainer_ops.shipped").joinpath(name).read_text(encoding="utf-8")
