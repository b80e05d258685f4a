"""What all pods of one test kubelet share."""

from __future__ import annotations

import heapq
import itertools
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.controlplane.api import Api
from tests.controlplane.kubelet_clock import Clock
from tests.controlplane.kubelet_events import Recorder
from tests.controlplane.kubelet_net import Network
from tests.controlplane.kubelet_run import ContainerSpec, Process

__all__ = ["Host", "Timers", "image_problem"]

IMAGE_PROBLEMS = {
    "absent.example/": (
        'rpc error: code = NotFound desc = failed to pull and unpack image "{image}": failed to resolve image: '
        "{image}: not found"
    ),
    "secret.example/": (
        'failed to pull and unpack image "{image}": failed to resolve image: pull access denied, repository does not '
        "exist or may require authorization: authorization failed: no basic auth credentials"
    ),
    "unknown.example/": (
        'failed to pull and unpack image "{image}": failed to resolve image: failed to do request: Head '
        '"https://unknown.example/v2/{path}/manifests/1": dial tcp: lookup unknown.example: no such host'
    ),
}


def image_problem(image: str, missing: Mapping[str, str] = IMAGE_PROBLEMS) -> tuple[str, str] | None:
    """(reason, text) of an image that cannot be had: by the prefixes of ``missing``, or because it is no image name."""
    repository = image.partition("@")[0].rpartition(":")[0] or image
    if re.search(r"[A-Z]", repository.rpartition("/")[2]):
        part = repository.rpartition("/")[2]
        return "InvalidImageName", (
            f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": invalid reference '
            f"format: repository name ({part}) must be lowercase"
        )
    for prefix, text in missing.items():
        if image.startswith(prefix):
            return "ErrImagePull", text.format(image=image, path=repository.partition("/")[2])
    return None


class Timers:
    """Calls functions later, from a few threads."""

    def __init__(self, workers: int = 8) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="timer")
        threading.Thread(target=self._loop, name="timers", daemon=True).start()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call it once, so many real seconds from now."""
        with self._changed:
            heapq.heappush(self._heap, (time.monotonic() + seconds, next(self._count), call))
            self._changed.notify()

    def _loop(self) -> None:
        while True:
            with self._changed:
                while not self._heap or self._heap[0][0] > time.monotonic():
                    self._changed.wait(self._heap[0][0] - time.monotonic() if self._heap else None)
                _, _, call = heapq.heappop(self._heap)
            self._pool.submit(_safely, call)


def _safely(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception as exc:
        print(f"timer: {exc!r}", file=sys.stderr, flush=True)


@dataclass
class Host:
    """The machine under the pods.

    Attributes:
        folder: for everything that pods need; ``stage`` is an empty folder in it.
        start: makes a process of a container.
        contained: whether ``start`` makes namespaces.
        missing: prefixes of images that cannot be pulled, with the text that says why.
        lost: nodes that are as if unplugged: nothing is told of their pods.
    """

    api: Api
    clock: Clock
    recorder: Recorder
    network: Network
    timers: Timers
    folder: Path
    start: Callable[[ContainerSpec], Process]
    contained: bool
    missing: Mapping[str, str] = field(default_factory=lambda: IMAGE_PROBLEMS)
    lost: set[str] = field(default_factory=set)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def stage(self) -> Path:
        """The mount point that each container covers for itself."""
        return self.folder / "stage"

    @property
    def stand_ins(self) -> dict[str, Path]:
        """Programs of images that are not here: path in the container -> file to mount over it."""
        return {f"/usr/{place}": self.folder / place for place in ("sbin/sshd", "bin/ssh")}

    @property
    def resolver(self) -> dict[str, Path]:
        """The same for images that ask for names: there is no DNS here, but names are known."""
        return {"/usr/bin/nslookup": self.folder / "bin" / "nslookup"}

    def write_stand_ins(self) -> None:
        """Make them."""
        program = Path(__file__).with_name("rshd.py")
        texts = {path: f'{program} {path.name} "$@"' for path in self.stand_ins.values()}
        ask = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
        texts |= dict.fromkeys(self.resolver.values(), f'-c "{ask}" "$1"')
        for path, arguments in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S {arguments}\n")
            path.chmod(0o755)

    def base_env(self, hostname: str) -> dict[str, str]:
        """What a container's environment begins with: python3, torchrun and mpirun are this interpreter's."""
        own = str(Path(sys.executable).parent)
        return {
            "PATH": f"{own}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOSTNAME": hostname,
            "HOME": "/root" if self.contained else os.environ.get("HOME", "/"),
            "KUBERNETES_SERVICE_HOST": "10.0.0.1",
            "KUBERNETES_SERVICE_PORT": "443",
        }
