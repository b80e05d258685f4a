"""One thread that keeps one kind of one namespace mirrored: list, watch, and again.

However many wait, there is one of these a kind. It reconnects by itself with jitter, lists again on 410 in both forms
and every half hour besides (a resync, should an event ever be lost), notices a dead connection by its silence, and
polls where ``watch`` is forbidden.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from trainer_ops.backends.kubernetes.client import READ_TIMEOUT, TIMEOUT, Apis, Cluster
from trainer_ops.backends.kubernetes.kinds import Kind
from trainer_ops.backends.kubernetes.mirror import Gone, Mirror
from trainer_ops.errors import BackendError, Forbidden, Unreachable

__all__ = ["Reflector"]

_PAGE = 500
_RESYNC_SECONDS = 1800.0
_WATCH_SECONDS = 300
_POLL_SECONDS = 10.0
_UNREADABLE_RETRY_SECONDS = 300.0


class Reflector:
    """The thread and what it knows.

    Attributes:
        unreadable: this user may not list the kind, or the cluster does not serve it.
        error: why the mirror is behind; None while it is fresh.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        *,
        changed: Callable[[Iterable[str]], None],
        note: Callable[[str], None],
    ) -> None:
        """Start it.

        Args:
            cluster: where.
            kind: what.
            changed: told the owners of objects that changed, from this thread.
            note: told once what a person should know: ``watch`` or ``list`` is forbidden.
        """
        self.unreadable = False
        self.error: BackendError | None = None
        self._cluster = cluster
        self._kind = kind
        self._changed = changed
        self._note = note
        self._mirror = Mirror(kind)
        self._lock = threading.Lock()
        self._synced = threading.Event()
        self._stopped = threading.Event()
        self._listed_at = 0.0
        self._polling = False
        self._response: Any = None
        self._thread = threading.Thread(target=self._run, name=f"watch-{kind.plural}", daemon=True)
        self._thread.start()

    def of(self, owner: str) -> list[dict[str, Any]]:
        """The objects of one owner, as of the newest event."""
        with self._lock:
            return self._mirror.of(owner)

    def wait_synced(self, timeout: float) -> bool:
        """Whether the first list is in, or is known to be impossible."""
        return self._synced.wait(timeout)

    def stop(self) -> None:
        """End the thread soon; it never keeps a process alive."""
        self._stopped.set()
        response = self._response
        # urllib3 2.3 and newer can wake a blocked read; older ones end with the watch's own time-out.
        shutdown = getattr(response, "shutdown", None)
        if shutdown is not None:
            try:
                shutdown()
            except (OSError, ValueError, RuntimeError):
                return

    # -- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                self._turn()
                failures = 0
            except Gone:
                continue
            except Forbidden as error:
                self._forbidden(error)
            except BackendError as error:
                if error.status == 404 and self._kind.optional:
                    self._give_up()
                    continue
                if error.status == 410:
                    self._mirror.version = ""
                failures += 1
                self._behind(error)
                self._stopped.wait(random.uniform(0.1, min(30.0, 0.5 * 2**failures)))

    def _turn(self) -> None:
        if not self._mirror.version or time.monotonic() - self._listed_at > _RESYNC_SECONDS:
            self._list()
        if self._polling:
            self._mirror.version = ""
            self._stopped.wait(_POLL_SECONDS * random.uniform(0.9, 1.1))
            return
        self._watch()

    def _list(self) -> None:
        items: list[dict[str, Any]] = []
        token = ""
        while True:
            options: dict[str, Any] = {"limit": _PAGE, **({"_continue": token} if token else {})}
            page = self._cluster.call(f"listing {self._kind.plural}", partial(self._ask, **options), tries=1)
            items += page.get("items") or []
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                break
        with self._lock:
            changed = self._mirror.replace(items, page["metadata"]["resourceVersion"])
        self._listed_at = time.monotonic()
        self._fresh()
        self._changed(changed)

    def _watch(self) -> None:
        begun = time.monotonic()
        response = self._cluster.send(
            f"watching {self._kind.plural}",
            lambda apis: self._ask(
                apis,
                watch=True,
                resource_version=self._mirror.version,
                allow_watch_bookmarks=True,
                # Jitter, so that a fleet's watches do not end in the same second.
                timeout_seconds=int(_WATCH_SECONDS * random.uniform(0.8, 1.2)),
                _request_timeout=(TIMEOUT[0], READ_TIMEOUT),
            ),
            tries=1,
        )
        self._response = response
        self._fresh()
        try:
            for event in _events(response, self._kind.plural):
                if self._stopped.is_set():
                    return
                with self._lock:
                    owners = self._mirror.apply(event)
                self._fresh()
                if owners:
                    self._changed(owners)
        finally:
            self._response = None
            response.close()
        if time.monotonic() - begun < 1.0:
            # A proxy that ends every watch at once must not make a storm of them.
            self._stopped.wait(random.uniform(0.5, 1.5))

    def _ask(self, apis: Apis, **options: Any) -> Any:
        kind, namespace = self._kind, self._cluster.address.namespace
        options = {"_preload_content": False, "_request_timeout": TIMEOUT, **options}
        if kind.selector:
            options["label_selector"] = kind.selector
        if kind.group:
            return apis.custom.list_namespaced_custom_object(
                kind.group, kind.version, namespace, kind.plural, **options
            )
        return getattr(apis.core, f"list_namespaced_{_CORE[kind.plural]}")(namespace, **options)

    def _fresh(self) -> None:
        self.error = None
        self._synced.set()

    def _behind(self, error: BackendError) -> None:
        if self.error is None:
            self.error = error
            # Whoever waits should hear of it now, not at its next poll.
            self._changed(self._owners())
        self._synced.set()

    def _owners(self) -> set[str]:
        with self._lock:
            return {owner for obj in self._mirror.objects.values() for owner in self._kind.owners(obj)}

    def _forbidden(self, error: Forbidden) -> None:
        if self._mirror.version and not self._polling:
            self._polling = True
            self._note(f"{error.message}; asking every {_POLL_SECONDS:g} s instead")
            return
        if not self._kind.optional:
            self._behind(error)
            self._stopped.wait(_POLL_SECONDS)
            return
        if not self.unreadable:
            self._note(f"{error.message}; going on without {self._kind.plural}")
        self._give_up()

    def _give_up(self) -> None:
        """Live without this kind; a right that is granted later is noticed later."""
        self.unreadable = True
        self._synced.set()
        self._stopped.wait(_UNREADABLE_RETRY_SECONDS)


_CORE = {"pods": "pod", "events": "event"}


def _events(response: Any, plural: str) -> Iterator[dict[str, Any]]:
    """The JSON lines of a watch's stream.

    Raises:
        Unreachable: the connection broke, fell silent, or sent something else.
    """
    from urllib3.exceptions import HTTPError

    rest = b""
    try:
        for chunk in response.stream(amt=None, decode_content=True):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)
    except (HTTPError, OSError) as exc:
        raise Unreachable(f"watching {plural}: {type(exc).__name__}: {exc}"[:300]) from exc
    except ValueError as exc:
        raise Unreachable(f"watching {plural}: a line is no JSON") from exc
