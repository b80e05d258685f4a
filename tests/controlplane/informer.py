"""List and watch one kind, in a thread, for as long as the process lives."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any

from tests.controlplane.api import Api, ApiError, path_of

__all__ = ["Informer"]

# (ADDED | MODIFIED | DELETED, the object)
Handler = Callable[[str, dict[str, Any]], None]


class Informer:
    """Calls a handler for every object of a kind that is there, and for every change.

    The handler runs in the informer's thread: what takes long belongs elsewhere.
    """

    def __init__(self, api: Api, kind: str, handler: Handler) -> None:
        self._api = api
        self._path = path_of(kind, "")
        self._handler = handler
        self._known: dict[str, dict[str, Any]] = {}
        self.synced = threading.Event()
        threading.Thread(target=self._loop, name=f"informer {kind}", daemon=True).start()

    def _loop(self) -> None:
        while True:
            try:
                self._follow(self._list())
            except (ApiError, OSError, HTTPException, json.JSONDecodeError):
                time.sleep(0.2)

    def _list(self) -> str:
        answer = self._api.call("GET", self._path)
        found = {item["metadata"]["uid"]: item for item in answer["items"]}
        for uid in [uid for uid in self._known if uid not in found]:
            self._tell("DELETED", self._known[uid])
        for uid, item in found.items():
            self._tell("MODIFIED" if uid in self._known else "ADDED", item)
        self.synced.set()
        return str(answer["metadata"]["resourceVersion"])

    def _follow(self, version: str) -> None:
        while True:
            for change in self._api.watch(f"{self._path}?resourceVersion={version}"):
                if change["type"] == "ERROR":
                    return
                version = change["object"]["metadata"]["resourceVersion"]
                if change["type"] != "BOOKMARK":
                    self._tell(change["type"], change["object"])

    def _tell(self, change: str, obj: dict[str, Any]) -> None:
        uid = obj["metadata"]["uid"]
        if change == "DELETED":
            self._known.pop(uid, None)
        else:
            self._known[uid] = obj
        try:
            self._handler(change, obj)
        except Exception as exc:
            print(f"informer: {change} {obj['metadata'].get('name')}: {exc!r}", file=sys.stderr, flush=True)
