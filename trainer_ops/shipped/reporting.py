"""``report``: what the training code says about itself, from any Python, without a dependency.

What is reported ends in two places. The result (metrics, model, artifacts) is JSON of at most 4096 bytes in the
container's termination message, which the kubelet carries into the pod's status. Progress is posted to Trainer's
status server where the controller runs one (feature gate ``TrainJobStatus``). Outside of a training both are nothing.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import ssl
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from typing import Any

__all__ = ["is_rank_zero", "report"]

LIMIT = 4096  # bytes; the kubelet cuts what is longer
TERMINATION_LOG = "/dev/termination-log"
POST_INTERVAL = 5.0  # seconds between two posts, as Trainer's own SDK keeps it
POST_TIMEOUT = 5.0
QUIET_AFTER_ERROR = 60.0  # a server that does not answer must not slow down the training

# The process's own rank comes before that of its node: torchrun and mpirun start several processes on a node.
RANKS = (
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PET_NODE_RANK",
    "JAX_PROCESS_ID",
    "DMLC_TASK_ID",
    "JOB_COMPLETION_INDEX",
)


def is_rank_zero() -> bool:
    """Whether this process is the one whose report counts; True outside of a distributed training."""
    rank = next((os.environ[name] for name in RANKS if os.environ.get(name)), "0")
    return rank.strip() == "0"


class _Reporter:
    """What was reported so far in this process, and when it was last posted."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.result: dict[str, Any] = {"metrics": {}, "model_uri": None, "artifacts": {}}
        self.progress: dict[str, int] = {}
        self.next_post = 0.0
        self.unsent = False
        self.failing = False
        self.complained: set[str] = set()

    def add(self, parts: Mapping[str, Any], progress: Mapping[str, int]) -> None:
        """Merge, write, post."""
        merged = {
            "metrics": {**self.result["metrics"], **parts["metrics"]},
            "model_uri": parts["model_uri"] or self.result["model_uri"],
            "artifacts": {**self.result["artifacts"], **parts["artifacts"]},
        }
        text = _fit(merged)
        self.result = merged
        self.progress.update(progress)
        if not is_rank_zero():
            return
        if any(parts.values()):
            self.write(text)
        if os.environ.get("KUBEFLOW_TRAINER_SERVER_URL"):
            self.unsent = True
            self.post(now=progress.get("progressPercentage") == 100)

    def write(self, text: bytes) -> None:
        """Into the termination message; a file that is not there or not ours fails no training."""
        path = os.environ.get("TRAINER_OPS_RESULT_PATH")
        if not path and not os.path.exists(TERMINATION_LOG):
            return
        try:
            _overwrite(path or TERMINATION_LOG, text)
        except OSError as error:
            self.complain("the result cannot be written", error)

    def post(self, now: bool = False) -> None:
        """To Trainer's status server, unless one went out a moment ago; the last word is never held back."""
        if not self.unsent or (not now and time.monotonic() < self.next_post):
            return
        try:
            _post(_trainer_status(self.result["metrics"], self.progress))
            self.unsent = self.failing = False
            self.next_post = time.monotonic() + POST_INTERVAL
        except (OSError, ValueError) as error:
            # HTTPError and URLError are OSErrors; ValueError is a URL or a header that is none.
            self.complain("progress cannot be posted", error)
            self.failing = True
            self.next_post = time.monotonic() + QUIET_AFTER_ERROR

    def flush(self) -> None:
        """At exit: what a pause between two posts held back."""
        if not self.failing:
            self.post(now=True)

    def complain(self, what: str, error: Exception) -> None:
        """Say it once; the training goes on."""
        if what not in self.complained:
            print(f"trainer_ops: {what}: {error}", file=sys.stderr)
        self.complained.add(what)


_reporter = _Reporter()
atexit.register(_reporter.flush)


def report(
    metrics: Mapping[str, Any] | None = None,
    *,
    model_uri: str | None = None,
    artifacts: Mapping[str, Any] | None = None,
    progress: float | None = None,
    eta_seconds: float | None = None,
) -> None:
    """Report from the training code; call it as often as you like, later values replace earlier ones of the same name.

    Only rank 0 writes, so that all ranks may call it. Outside of a training nothing happens.

    Args:
        metrics: name to number (also of numpy or torch) or text.
        model_uri: where the model is.
        artifacts: name to URI or other JSON data.
        progress: percent, 0 to 100.
        eta_seconds: estimated seconds left.

    Raises:
        ValueError: a value is no JSON, or all of it is more than 4096 bytes. Nothing was written.
    """
    parts = {
        "metrics": {_name(k, "metrics"): _metric(k, v) for k, v in (metrics or {}).items()},
        "model_uri": None if model_uri is None else str(model_uri),
        "artifacts": {_name(k, "artifacts"): _json(v, f"artifacts[{k!r}]") for k, v in (artifacts or {}).items()},
    }
    numbers = {}
    if progress is not None and math.isfinite(progress):
        numbers["progressPercentage"] = max(0, min(100, int(progress)))
    if eta_seconds is not None and math.isfinite(eta_seconds):
        numbers["estimatedRemainingSeconds"] = max(0, min(2**31 - 1, int(eta_seconds)))
    with _reporter.lock:
        _reporter.add(parts, numbers)


def _name(name: Any, where: str) -> str:
    if not isinstance(name, str):
        raise ValueError(f"{where}: the name {name!r} is a {type(name).__name__}; give text")
    return name


def _metric(name: Any, value: Any) -> Any:
    if not isinstance(value, (str, int, float)) and callable(getattr(value, "item", None)):
        try:
            value = value.item()  # a scalar of numpy, torch, jax
        except (TypeError, ValueError, RuntimeError):
            pass  # an array of several numbers: refused below, by name
    if not isinstance(value, (str, int, float)):
        raise ValueError(f"metrics[{name!r}] is a {type(value).__name__}; give a number or text")
    return _json(value, f"metrics[{name!r}]")


def _json(value: Any, path: str) -> Any:
    """The value as JSON can carry it: numbers that JSON does not know become text."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Mapping):
        return {_name(k, path): _json(v, f"{path}[{k!r}]") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item, f"{path}[{index}]") for index, item in enumerate(value)]
    raise ValueError(f"{path} is a {type(value).__name__}; give plain data (text, numbers, lists, dicts)")


def _encode(value: Any) -> bytes:
    # A lone surrogate (from a file name that is no UTF-8) has no bytes of its own.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _fit(result: Mapping[str, Any]) -> bytes:
    text = _encode(result)
    if len(text) <= LIMIT:
        return text
    sizes = {part: len(_encode(value)) for part, value in result.items()}
    name, size = max(sizes.items(), key=lambda item: item[1])
    raise ValueError(
        f"the report has {len(text)} bytes and at most {LIMIT} fit; the biggest part is {name} with {size}. "
        "Nothing of it was written. Put large things into a file and report where it is"
    )


def _overwrite(path: str, text: bytes) -> None:
    """Replace the content in place: the termination message is a mounted file that cannot be renamed over.

    Blanks cover what an earlier, longer report leaves, so that the file is valid JSON also between the two calls.
    """
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(handle, text.ljust(os.fstat(handle).st_size))
        os.ftruncate(handle, len(text))
    finally:
        os.close(handle)


def _trainer_status(metrics: Mapping[str, Any], progress: Mapping[str, int]) -> dict[str, Any]:
    """The body that Trainer takes; it refuses all of it for one name or value of more than 64 characters."""
    rows: list[dict[str, str]] = [{"name": name, "value": str(value)} for name, value in metrics.items()]
    rows = [row for row in rows if 0 < len(row["name"]) <= 64 and len(row["value"]) <= 64][:256]
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"trainerStatus": {**progress, "metrics": rows, "lastUpdatedTime": stamp}}


def _post(body: Mapping[str, Any]) -> None:
    url = os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
    headers = {"Content-Type": "application/json"}
    token = os.environ.get("KUBEFLOW_TRAINER_SERVER_TOKEN")  # a path: the kubelet renews the file's content
    if token:
        with open(token, encoding="utf-8") as file:
            headers["Authorization"] = "Bearer " + file.read().strip()
    authority = os.environ.get("KUBEFLOW_TRAINER_SERVER_CA_CERT")
    context = ssl.create_default_context(cafile=authority) if authority and url.startswith("https:") else None
    request = urllib.request.Request(url, data=_encode(body), headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=POST_TIMEOUT, context=context):
        pass
