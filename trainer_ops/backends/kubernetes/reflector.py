"""One thread that keeps one kind of one namespace mirrored: list, watch, and again.

However many wait, there is one of these a kind. It reconnects by itself with jitter, lists again on 410 in both forms
and every half hour besides (a resync, should an event ever be lost), notices a dead connection by its silence, and
polls where ``watch`` is forbidden.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from trainer_ops.backends.kubernetes.client import TIMEOUT, Apis, Cluster
from trainer_ops.backends.kubernetes.failures import Gone, NotServed
from trainer_ops.backends.kubernetes.kinds import Kind, RawObject
from trainer_ops.backends.kubernetes.mirror import Mirror
from trainer_ops.backends.kubernetes.stream import interrupt, json_lines
from trainer_ops.errors import BackendError, Forbidden

__all__ = ["Reflector", "Times"]


@dataclass(frozen=True, slots=True)
class Times:
    """How long things take, in seconds.

    Attributes:
        resync: the mirror is listed anew at least so often.
        watch: one watch lasts so long, give or take a fifth: a fleet's watches must not end in the same second.
        silence: a watch that says nothing for so long is a dead connection; a living one gives a bookmark a minute.
        poll: between two lists where ``watch`` is forbidden.
        unreadable: until a kind that is forbidden or not served is tried again.
        most: the longest pause between two tries to reach a server that is away.
    """

    resync: float = 1800.0
    watch: float = 300.0
    silence: float = 90.0
    poll: float = 10.0
    unreadable: float = 300.0
    most: float = 30.0


class Reflector:
    """The thread and what it knows. Safe for threads.

    Attributes:
        absent: the cluster does not serve the kind.
        error: why the mirror is behind; None while it is fresh. One broken connection is no news: the error shows when
            the reconnect after it fails too.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        kind: Kind,
        *,
        changed: Callable[[Iterable[str]], None],
        note: Callable[[str], None],
        learn: Callable[[RawObject], None] | None = None,
        times: Times | None = None,
    ) -> None:
        """Start it.

        Args:
            cluster: where.
            namespace: in which.
            kind: what.
            changed: told the owners of objects that changed, from this thread.
            note: told once what a person should know: ``watch`` or ``list`` is forbidden.
            learn: shown every object once.
            times: how long things take.
        """
        self.absent = False
        self.error: BackendError | None = None
        self._forbidden = False
        self._cluster = cluster
        self._namespace = namespace
        self._kind = kind
        self._changed = changed
        self._note = note
        self._learn = learn
        self._times = times or Times()
        self._mirror = Mirror(kind)
        self._versions = list(kind.versions)
        self._lock = threading.Lock()
        self._synced = threading.Event()
        self._stopped = threading.Event()
        self._listed_at: float | None = None
        self._polling = False
        self._breaks = 0
        self._renewed = False
        self._response: Any = None
        self._thread = threading.Thread(target=self._run, name=f"watch-{kind.plural}", daemon=True)
        self._thread.start()

    @property
    def unreadable(self) -> bool:
        """This user may not list the kind, or it has never been listed; what ``of`` gives says nothing then."""
        return self._forbidden or (self._listed_at is None and not self.absent)

    @property
    def live(self) -> bool:
        """What ``of`` gives is what the server has, but for the moment that an event travels."""
        return self.error is None and not self._polling and self._listed_at is not None

    def of(self, owner: str) -> list[RawObject]:
        """The objects of one owner, as of the newest event."""
        with self._lock:
            return self._mirror.of(owner)

    def get(self, name: str) -> RawObject | None:
        """One object by its own name, as of the newest event."""
        with self._lock:
            return self._mirror.get(name)

    def all(self) -> list[RawObject]:
        """Every object, as of the newest event. They are shared: copy before a change."""
        with self._lock:
            return self._mirror.all()

    def wait_synced(self, timeout: float) -> bool:
        """Whether the first list is in, or is known to be impossible."""
        return self._synced.wait(timeout)

    def stop(self) -> None:
        """End the thread soon; it never keeps a process alive."""
        self._stopped.set()
        response = self._response
        if response is not None:
            interrupt(response)

    def join(self, timeout: float) -> bool:
        """Whether the thread has ended."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # -- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._turn()
            except BackendError as error:
                if not self._stopped.is_set():
                    self._cope(error)

    def _cope(self, error: BackendError) -> None:
        if isinstance(error, Gone):
            self._mirror.version = ""
            self._back_off(error)
        elif isinstance(error, NotServed) and len(self._versions) > 1:
            self._versions.pop(0)
        elif isinstance(error, NotServed) and self._kind.optional:
            self.absent = True
            self._do_without()
        elif isinstance(error, Forbidden) and error.status == 403:
            self._cope_forbidden(error)
        elif error.status == 401 and not self._renewed:
            # The credentials have expired and are read anew for the next try: nothing is wrong yet.
            self._renewed = True
        else:
            self._back_off(error)

    def _back_off(self, error: BackendError) -> None:
        """Wait before the next try, longer each time; from the second on whoever waits is told."""
        self._breaks += 1
        if self._breaks > 1 or self._listed_at is None:
            news = self.error is None
            self.error = error
            self._synced.set()
            if news:
                self._tell_all()
        asked = getattr(error, "retry_after", None) or 0.0
        self._stopped.wait(asked + random.uniform(0.05, min(self._times.most, 0.25 * 2**self._breaks)))

    def _turn(self) -> None:
        due = self._listed_at is None or time.monotonic() - self._listed_at > self._times.resync
        if due or not self._mirror.version:
            if due:
                self._polling = False
            self._list()
        if self._polling:
            self._mirror.version = ""
            self._stopped.wait(self._times.poll * random.uniform(0.9, 1.1))
            return
        self._watch()

    def _list(self) -> None:
        items, version = self._cluster.items(
            f"listing {self._kind.plural}", self._ask, page=self._kind.page, tries=1, keep=self._mirror.keep
        )
        with self._lock:
            changed = self._mirror.replace(items, version)
        for item in items if self._learn else ():
            self._learn(item)  # type: ignore[misc]
        self._listed_at = time.monotonic()
        self._forbidden = self.absent = False
        self._fresh()
        self._changed(changed)

    def _watch(self) -> None:
        begun, events = time.monotonic(), 0
        what = f"watching {self._kind.plural}"
        response = self._cluster.send(
            what,
            lambda apis: self._ask(
                apis,
                watch=True,
                resource_version=self._mirror.version,
                allow_watch_bookmarks=True,
                timeout_seconds=max(1, int(self._times.watch * random.uniform(0.8, 1.2))),
                _request_timeout=(TIMEOUT[0], self._times.silence),
            ),
            tries=1,
        )
        self._response = response
        try:
            if self._stopped.is_set():
                return
            self._connected()
            for event in json_lines(response, what):
                if self._stopped.is_set():
                    return
                events += 1
                self._take(event)
        finally:
            self._response = None
            response.close()
        if events or time.monotonic() - begun >= 1.0:
            self._breaks = 0
            return
        # A proxy that ends every watch at once must not make a storm of them.
        self._breaks += 1
        self._stopped.wait(random.uniform(0.1, min(self._times.poll, 0.25 * 2**self._breaks)))

    def _take(self, event: dict[str, Any]) -> None:
        with self._lock:
            owners = self._mirror.apply(event)
        self._fresh()
        if not owners:
            return
        if self._learn is not None:
            self._learn(event["object"])
        self._changed(owners)

    def _ask(self, apis: Apis, **options: Any) -> Any:
        kind = self._kind
        options = {"_preload_content": False, "_request_timeout": TIMEOUT, **options}
        if kind.selector:
            options["label_selector"] = kind.selector
        if kind.group:
            return apis.custom.list_namespaced_custom_object(
                kind.group, self._versions[0], self._namespace, kind.plural, **options
            )
        return getattr(apis.core, f"list_namespaced_{kind.plural.removesuffix('s')}")(self._namespace, **options)

    def _fresh(self) -> None:
        """The server answers with what is asked for."""
        self._breaks = 0
        self._connected()

    def _connected(self) -> None:
        news = self.error is not None
        self.error = None
        self._renewed = False
        self._synced.set()
        if news:
            self._tell_all()

    def _tell_all(self) -> None:
        with self._lock:
            owners = self._mirror.owners()
        self._changed(owners)

    def _cope_forbidden(self, error: Forbidden) -> None:
        if self._mirror.version and not self._polling:
            self._polling = True
            self._note(f"{error.message}; asking every {self._times.poll:g} s instead")
            return
        if self._kind.optional and self._kind.group and not self._cluster.serves(self._kind.group):
            self.absent = True
        else:
            self._note(f"{error.message}; going on without {self._kind.plural}")
            self._forbidden = True
        self._do_without()

    def _do_without(self) -> None:
        """Live without this kind; one that is granted or installed later is noticed later."""
        self._versions = list(self._kind.versions)
        self.error = None
        self._synced.set()
        self._stopped.wait(self._times.unreadable * random.uniform(0.8, 1.2))
