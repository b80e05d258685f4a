"""The pods' network: an address, a network namespace and the names of its training for each pod.

``BridgedNetwork`` gives each pod a namespace with an ``eth0`` on a bridge that lies in a namespace too: pods reach each
other by address and port as on a cluster, nothing of the machine is touched and all of it goes with ``close``. There
is no way out of it, also not to the API server. ``LoopbackNetwork`` has one address for all pods, so ports that pods
listen on are rewritten to free ones, the same for all pods of a JobSet.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tests.controlplane.plane import free_port

__all__ = ["BridgedNetwork", "LoopbackNetwork", "Network"]


class Network(Protocol):
    """What a pod worker needs of the network."""

    def attach(self, pod: Mapping[str, Any]) -> str:
        """Give a pod its place; returns its address."""

    def detach(self, pod: Mapping[str, Any]) -> None:
        """Take the place away; idempotent."""

    def place(self, pod: Mapping[str, Any]) -> tuple[str, Path | None]:
        """The name of the network namespace ("" is the machine's) and the hosts file to bind."""

    def localise(self, text: str, pod: Mapping[str, Any]) -> str:
        """A value of the environment or a word of the command as the process is to see it."""

    def port(self, name: str, value: str, pod: Mapping[str, Any]) -> str:
        """The value of a variable that holds a port number."""

    def close(self) -> None:
        """Leave nothing behind."""


def group_of(pod: Mapping[str, Any]) -> tuple[str, str]:
    """Pods of one training see each other's names."""
    meta = pod["metadata"]
    return meta["namespace"], _v1_job(pod) or pod["spec"].get("subdomain") or meta["uid"]


def names_of(pod: Mapping[str, Any]) -> list[str]:
    """The DNS names that headless services give a pod: one with its subdomain, or training-operator's for each pod."""
    host, sub = pod["spec"].get("hostname"), pod["spec"].get("subdomain")
    if host and sub:
        own = f"{host}.{sub}"
    elif _v1_job(pod):
        own = pod["metadata"]["name"]
    else:
        return []
    full = f"{own}.{pod['metadata']['namespace']}.svc"
    return [own, full.removesuffix(".svc"), full, f"{full}.cluster.local"]


def _v1_job(pod: Mapping[str, Any]) -> str:
    return str((pod["metadata"].get("labels") or {}).get("training.kubeflow.org/job-name") or "")


class BridgedNetwork:
    """An address a pod, as on a cluster.

    Args:
        name: short and unique on this machine.
        folder: for hosts files.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self._hub = name
        self._folder = folder
        self._lock = threading.Lock()
        self._next = 1
        self._pods: dict[str, tuple[str, Mapping[str, Any]]] = {}
        folder.mkdir(parents=True)
        _ip("netns", "add", name)
        _batch(name, "link set lo up", "link add br0 type bridge", "addr add 10.88.0.1/16 dev br0", "link set br0 up")

    def attach(self, pod: Mapping[str, Any]) -> str:
        with self._lock:
            self._next += 1
            number = self._next
        address, space = f"10.88.{number // 256}.{number % 256}", self._space(pod)
        end = f"v{number}"
        _ip("netns", "add", space)
        _batch(
            self._hub,
            f"link add {end} type veth peer name eth0 netns {space}",
            f"link set {end} master br0",
            f"link set {end} up",
        )
        _batch(space, "link set lo up", f"addr add {address}/16 dev eth0", "link set eth0 up")
        with self._lock:
            self._pods[pod["metadata"]["uid"]] = (address, pod)
            self._write_hosts(group_of(pod))
        return address

    def detach(self, pod: Mapping[str, Any]) -> None:
        with self._lock:
            if self._pods.pop(pod["metadata"]["uid"], None) is None:
                return
            self._write_hosts(group_of(pod))
            (self._folder / pod["metadata"]["uid"]).unlink(missing_ok=True)
        _ip("netns", "delete", self._space(pod), check=False)

    def place(self, pod: Mapping[str, Any]) -> tuple[str, Path | None]:
        return self._space(pod), self._folder / pod["metadata"]["uid"]

    def localise(self, text: str, pod: Mapping[str, Any]) -> str:
        return text

    def port(self, name: str, value: str, pod: Mapping[str, Any]) -> str:
        return value

    def close(self) -> None:
        for _, pod in list(self._pods.values()):
            self.detach(pod)
        _ip("netns", "delete", self._hub, check=False)

    def _space(self, pod: Mapping[str, Any]) -> str:
        return f"{self._hub}-{pod['metadata']['uid'][:13]}"

    def _write_hosts(self, group: tuple[str, str]) -> None:
        """Names of a group, into the hosts file of each of its pods; in place, because running containers see it."""
        members = [(address, pod) for address, pod in self._pods.values() if group_of(pod) == group]
        shared = [f"{address}\t{' '.join(names_of(pod))}" for address, pod in members if names_of(pod)]
        for address, pod in members:
            own = pod["spec"].get("hostname") or pod["metadata"]["name"]
            lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost", *shared, f"{address}\t{own}"]
            _overwrite(self._folder / pod["metadata"]["uid"], "\n".join(lines) + "\n")


class LoopbackNetwork:
    """One address for all pods: names become 127.0.0.1 and ports become free ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ports: dict[tuple[tuple[str, str], str], str] = {}

    def attach(self, pod: Mapping[str, Any]) -> str:
        return "127.0.0.1"

    def detach(self, pod: Mapping[str, Any]) -> None:
        """Nothing was made."""

    def place(self, pod: Mapping[str, Any]) -> tuple[str, Path | None]:
        return "", None

    def localise(self, text: str, pod: Mapping[str, Any]) -> str:
        sub = pod["spec"].get("subdomain")
        if not sub or f".{sub}" not in text:
            return text
        space = re.escape(pod["metadata"]["namespace"])
        name = rf"[a-z0-9-]+\.{re.escape(sub)}(?:\.{space}(?:\.svc(?:\.cluster\.local)?)?)?"
        found = re.compile(rf"\b{name}(?::(\d+))?(?![\w.-])")
        return found.sub(lambda m: f"127.0.0.1:{self._free(pod, m[1])}" if m[1] else "127.0.0.1", text)

    def port(self, name: str, value: str, pod: Mapping[str, Any]) -> str:
        if name.endswith("_PORT") and value.isdigit() and pod["spec"].get("subdomain"):
            return self._free(pod, value)
        return value

    def close(self) -> None:
        """Nothing was made."""

    def _free(self, pod: Mapping[str, Any], port: str) -> str:
        key = (group_of(pod), port)
        with self._lock:
            if key not in self._ports:
                self._ports[key] = str(free_port())
            return self._ports[key]


def _overwrite(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(handle, text.encode())
        os.ftruncate(handle, len(text.encode()))
    finally:
        os.close(handle)


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, stdin=subprocess.DEVNULL, capture_output=not check)


def _batch(space: str, *lines: str) -> None:
    subprocess.run(["ip", "-n", space, "-batch", "-"], input="\n".join(lines).encode() + b"\n", check=True)
