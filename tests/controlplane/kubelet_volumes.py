"""The volumes of a pod as folders of this machine, and what of them is mounted where."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.api import Api, ApiError, path_of
from tests.controlplane.kubelet_env import ConfigError, expand, field_of

__all__ = ["Mount", "MountError", "Volumes"]


class MountError(Exception):
    """A volume cannot be made now; the text is that of the ``FailedMount`` event."""


@dataclass(frozen=True, slots=True)
class Mount:
    """Something of this machine at a path in a container."""

    source: Path
    target: str
    read_only: bool = False


class Volumes:
    """Makes the volumes of one pod.

    Args:
        api: reads ConfigMaps and Secrets, asks for tokens.
        folder: the pod's own folder.
        claims: where each claim has a folder, for all pods that mount it.
    """

    def __init__(self, api: Api, folder: Path, claims: Path) -> None:
        self._api = api
        self._folder = folder
        self._claims = claims
        self._at: dict[str, Path] = {}
        self._read_only: set[str] = set()

    def mount(self, pod: Mapping[str, Any]) -> None:
        """Make all of them, or none is to be used.

        Raises:
            MountError: what one of them needs is missing.
        """
        for volume in pod["spec"].get("volumes") or ():
            if volume["name"] not in self._at:
                if (volume.get("persistentVolumeClaim") or {}).get("readOnly"):
                    self._read_only.add(volume["name"])
                try:
                    self._at[volume["name"]] = self._make(volume, pod)
                    _give_to_group(self._at[volume["name"]], volume, pod)
                except MountError as exc:
                    raise MountError(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {exc}') from exc

    def mounts(self, container: Mapping[str, Any], env: Mapping[str, str]) -> list[Mount]:
        """The mounts of one container, parents before what lies in them.

        Raises:
            ConfigError: a folder that is not there would have to be made in a volume that may only be read.
        """
        found = []
        for entry in container.get("volumeMounts") or ():
            source, read_only = self._at[entry["name"]], entry["name"] in self._read_only
            sub = entry.get("subPath") or expand(entry.get("subPathExpr") or "", env)
            if sub:
                source = source / sub
                if not source.exists() and read_only:
                    name = container["name"]
                    raise ConfigError(
                        f'failed to create subPath directory for volumeMount "{entry["name"]}" of "{name}"'
                    )
                if not source.exists():
                    source.mkdir(parents=True)
            found.append(Mount(source, entry["mountPath"], read_only or bool(entry.get("readOnly"))))
        return sorted(found, key=lambda mount: mount.target)

    def remove(self) -> None:
        """Delete what belongs to the pod alone."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make(self, volume: Mapping[str, Any], pod: Mapping[str, Any]) -> Path:
        own = self._folder / str(volume["name"])
        if "hostPath" in volume:
            return _host_path(volume["hostPath"])
        if "persistentVolumeClaim" in volume:
            name = str(volume["persistentVolumeClaim"]["claimName"])
            claim = self._claims / str(pod["metadata"]["namespace"]) / name
            if not claim.exists():
                claim.mkdir(parents=True)
                claim.chmod(0o777)
            return claim
        own.mkdir(parents=True, exist_ok=True)
        own.chmod(0o777)
        sources = (volume.get("projected") or {}).get("sources") or [volume]
        mode = next((v["defaultMode"] for v in volume.values() if isinstance(v, dict) and "defaultMode" in v), 0o644)
        for source in sources:
            self._fill(own, source, pod, int(mode))
        return own

    def _fill(self, own: Path, source: Mapping[str, Any], pod: Mapping[str, Any], mode: int) -> None:
        space = pod["metadata"]["namespace"]
        if "configMap" in source:
            ref = source["configMap"]
            self._keys(own, ref, self._data("ConfigMap", ref, space), mode)
        elif "secret" in source:
            ref = source["secret"]
            self._keys(own, ref, self._data("Secret", ref, space), mode)
        elif "downwardAPI" in source:
            for item in source["downwardAPI"].get("items") or ():
                _write(own / item["path"], field_of(pod, item["fieldRef"]["fieldPath"]).encode(), item, mode)
        elif "serviceAccountToken" in source:
            _write(own / source["serviceAccountToken"]["path"], self._token(source, pod), {}, mode)
        elif "emptyDir" not in source:
            raise MountError(f"the test kubelet has no such volume: {', '.join(k for k in source if k != 'name')}")

    def _data(self, kind: str, ref: Mapping[str, Any], space: str) -> dict[str, bytes]:
        name = ref.get("name") or ref.get("secretName")
        obj = self._api.get(kind, str(name), namespace=space)
        if obj is None:
            if ref.get("optional"):
                return {}
            raise MountError(f'{kind.lower()} "{name}" not found')
        encoded = obj.get("binaryData") if kind == "ConfigMap" else obj.get("data")
        plain = (obj.get("data") or {}) if kind == "ConfigMap" else {}
        return {
            **{key: text.encode() for key, text in plain.items()},
            **{key: base64.b64decode(text) for key, text in (encoded or {}).items()},
        }

    def _keys(self, own: Path, ref: Mapping[str, Any], data: Mapping[str, bytes], mode: int) -> None:
        items = ref.get("items") or [{"key": key, "path": key} for key in data]
        for item in items:
            if item["key"] in data:
                _write(own / item["path"], data[item["key"]], item, mode)
            elif not ref.get("optional"):
                raise MountError("references non-existent config key: " + item["key"])

    def _token(self, source: Mapping[str, Any], pod: Mapping[str, Any]) -> bytes:
        asked = source["serviceAccountToken"]
        meta = pod["metadata"]
        spec = {
            "expirationSeconds": asked.get("expirationSeconds", 3600),
            **({"audiences": [asked["audience"]]} if asked.get("audience") else {}),
            "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]},
        }
        account = pod["spec"].get("serviceAccountName", "default")
        path = path_of("ServiceAccount", meta["namespace"], account, "token")
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            return str(self._api.call("POST", path, body)["status"]["token"]).encode()
        except ApiError as exc:
            raise MountError(f"failed to fetch token: {exc}") from exc


def _give_to_group(folder: Path, volume: Mapping[str, Any], pod: Mapping[str, Any]) -> None:
    """``fsGroup``: the group owns what is in the volume and may read it, which makes 0600 of a Secret 0640.

    As a kubelet: nothing of a claim that is only read, and with ``OnRootMismatch`` nothing where the root is right.
    """
    security = pod["spec"].get("securityContext") or {}
    group, claim = security.get("fsGroup"), volume.get("persistentVolumeClaim")
    if group is None or "hostPath" in volume or os.geteuid() != 0 or (claim or {}).get("readOnly"):
        return
    root = folder.stat()
    lazy = claim is not None and security.get("fsGroupChangePolicy") == "OnRootMismatch"
    if lazy and root.st_gid == group and root.st_mode & 0o070 == 0o070:
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, -1, group)
        path.chmod(path.stat().st_mode | (0o060 if path.is_dir() else 0o040))


def _host_path(ref: Mapping[str, Any]) -> Path:
    path = Path(ref["path"])
    if ref.get("type") == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        raise MountError(f"hostPath type check failed: {path} is not a directory")
    return path


def _write(path: Path, data: bytes, item: Mapping[str, Any], mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(int(item.get("mode") or mode))
