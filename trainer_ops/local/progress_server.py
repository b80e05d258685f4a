"""The endpoint that training code posts its progress to, as Trainer's webhook server offers it (alpha since 2.2).

``POST …/trainjobs/{name}/status`` with ``{"trainerStatus": {…}}`` and a bearer token; 200 echoes. Bound when a training
starts; the HTTP code is imported only when something connects, in a thread of its own.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from typing import Any

from trainer_ops.local import records
from trainer_ops.local.store import Store
from trainer_ops.model import keys
from trainer_ops.model.times import parse_time, rfc3339

__all__ = ["LIMIT_BYTES", "ProgressServer", "check_status"]

Raw = dict[str, Any]
LIMIT_BYTES = 64 * 1024
_IDLE_SECONDS = 30


class ProgressServer:
    """Listens on loopback; the supervisor's loop calls ``accept`` when somebody connects.

    Args:
        folder: where the token's file is written, readable by its owner only.
    """

    def __init__(self, store: Store, uid: str, name: str, namespace: str, folder: str) -> None:
        self._store, self._uid = store, uid
        self.path = f"/apis/{keys.API_VERSION}/namespaces/{namespace}/{keys.PLURAL}/{name}/status"
        self._token = os.urandom(24).hex()
        self.token_path = f"{folder}/token"
        with open(os.open(self.token_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(self._token)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}{self.path}"

    def accept(self) -> None:
        """Serve one connection in a thread."""
        try:
            connection, address = self.socket.accept()
        except OSError:
            return
        connection.settimeout(_IDLE_SECONDS)
        threading.Thread(target=self._serve, args=(connection, address), daemon=True).start()

    def close(self) -> None:
        """Listen no more; idempotent."""
        self.socket.close()

    def _serve(self, connection: socket.socket, address: Any) -> None:
        from trainer_ops.local.progress_http import handler_class

        with connection:
            try:
                handler_class(self)(connection, address, None)
            except OSError:
                pass  # the other end is gone: its progress is advisory

    def answer(self, path: str, authorization: str, body: bytes) -> tuple[int, Raw]:
        """HTTP status and body for one POST."""
        if path.partition("?")[0] != self.path:
            return _refusal(404, "NotFound", "no such TrainJob")
        import hmac  # late, as all that only a post needs

        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self._token.encode()):
            return _refusal(403, "Forbidden", "the token is not that of this TrainJob")
        try:
            data = json.loads(body)
            status = check_status(data["trainerStatus"])
        except (ValueError, KeyError, TypeError) as error:
            return _refusal(422, "Invalid", f"trainerStatus: {error}")
        status.setdefault("lastUpdatedTime", rfc3339(time.time()))
        if not self._write(status):
            return _refusal(404, "NotFound", "no such TrainJob")
        return 200, {"trainerStatus": status}

    def _write(self, status: Raw) -> bool:
        def change(job: Raw) -> None:
            job.setdefault("status", {})["trainerStatus"] = status

        with self._store.write() as connection:
            found = records.change_job(connection, self._uid, change)
        self._store.touch(self._uid)
        return found is not None


def _refusal(code: int, reason: str, message: str) -> tuple[int, Raw]:
    return code, {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}


def check_status(raw: Any) -> Raw:
    """The rules of the TrainJob's schema for ``trainerStatus``.

    Raises:
        ValueError: the first rule that is broken, with the field's name.
    """
    if not isinstance(raw, dict):
        raise ValueError("is no object")
    known = {"progressPercentage", "estimatedRemainingSeconds", "metrics", "lastUpdatedTime"}
    unknown = sorted(set(raw) - known)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]}")
    _whole(raw, "progressPercentage", 100)
    _whole(raw, "estimatedRemainingSeconds", 2**31 - 1)
    if raw.get("lastUpdatedTime") is not None and parse_time(str(raw["lastUpdatedTime"])) is None:
        raise ValueError("lastUpdatedTime is no RFC 3339 time")
    _metrics(raw.get("metrics"))
    return {name: value for name, value in raw.items() if value is not None}


def _whole(raw: Raw, name: str, most: int) -> None:
    value = raw.get(name)
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{name} must be a whole number from 0 to {most}")


def _metrics(metrics: Any) -> None:
    if metrics is None:
        return
    if not isinstance(metrics, list) or len(metrics) > 256:
        raise ValueError("metrics must be a list of at most 256")
    for metric in metrics:
        for name in ("name", "value"):
            text = metric.get(name) if isinstance(metric, dict) else None
            if not isinstance(text, str) or not 1 <= len(text) <= 64:
                raise ValueError(f"metrics: {name} must be a text of 1 to 64 characters")
