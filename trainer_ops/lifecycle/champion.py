"""Which model is in use, and how another takes its place: at once, or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol
from urllib.parse import quote, urlsplit

from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.lifecycle.champion_places import RECORD, LocalPlace, ObjectPlace, Place
from trainer_ops.lifecycle.clock import Clock, RealClock
from trainer_ops.lifecycle.model_files import ModelFiles, local_path, model_files
from trainer_ops.model.champion import Candidate, Champion, ChampionChanged, RegistryError, expendable
from trainer_ops.model.times import rfc3339

__all__ = ["POINTER", "FolderRegistry", "Registry", "open_registry"]

POINTER: Final = "champion.json"
_BUCKETS: Final = ("s3", "gs", "az")


class Registry(Protocol):
    """Where champions are kept. Safe for several processes, on several machines, at once."""

    @property
    def url(self) -> str:
        """What ``open_registry`` opens it by."""

    def champion(self) -> Champion | None:
        """The model in use; None before the first promotion.

        Raises:
            RegistryError: it cannot be read.
        """

    def promote(self, candidate: Candidate, *, expect: int) -> Champion:
        """Make the candidate the champion, if that is still the one that it was judged against.

        Doing it again with the same candidate changes nothing. Broken off at any point, the champion is the old one or
        the new one, and doing it again goes on.

        Args:
            candidate: the better model.
            expect: the champion's version; 0 for none.

        Raises:
            ChampionChanged: another one was promoted in the meantime.
            InvalidRequest: field ``model_uri``: the model cannot be read.
            RegistryError: it cannot be written.
        """

    def keep(self, count: int) -> list[str]:
        """Remove all but the ``count`` newest promoted models, never the champion; says what was removed.

        Raises:
            InvalidRequest: field ``keep``.
            RegistryError: it cannot be written.
        """


def open_registry(
    url: str, *, copy: bool = True, options: Mapping[str, Any] | None = None, clock: Clock | None = None
) -> Registry:
    """Open a registry; a folder is made when something is promoted.

    Args:
        url: ``file:///folder`` or a plain absolute path; ``s3://bucket/prefix`` or another of fsspec's drivers;
            ``mlflow://NAME`` for a registered model of MLflow, whose server ``MLFLOW_REGISTRY_URI`` or
            ``MLFLOW_TRACKING_URI`` names.
        copy: keep a copy of each promoted model. Without one the champion is where the training left it, and only the
            pointer changes; MLflow never copies.
        options: for fsspec's driver (credentials, ``endpoint_url``); its own environment variables where left out.
        clock: says when something was promoted.

    Raises:
        InvalidRequest: field ``registry``: no registry can be at such a URL, or a package for it is missing.
    """
    clock = clock or RealClock()
    url = str(url or "").strip()
    if not url:
        raise InvalidRequest("registry", "is empty", "Give file:///folder, s3://bucket/prefix or mlflow://NAME")
    if url.startswith("mlflow:"):
        from trainer_ops.lifecycle.champion_mlflow import MlflowRegistry

        return MlflowRegistry(url, clock=clock)
    path = local_path(url, "registry")
    place: Place = LocalPlace(path) if path is not None else _objects(url, options)
    return FolderRegistry(place, copy=copy, options=options, clock=clock)


def _objects(url: str, options: Mapping[str, Any] | None) -> Place:
    if urlsplit(url).scheme in _BUCKETS and not urlsplit(url).netloc:
        raise InvalidRequest("registry", f'"{url}" names no bucket', "Write s3://bucket/prefix")
    with _told(url, "opened"):  # some drivers connect when they are made
        return ObjectPlace(url, options)


class FolderRegistry:
    """A pointer file beside the copies that it points at.

    A promotion copies first and then replaces the pointer, under the condition that it is the one that was read.
    """

    def __init__(
        self, place: Place, *, clock: Clock, copy: bool = True, options: Mapping[str, Any] | None = None
    ) -> None:
        self._place = place
        self._copy = copy
        self._options = options
        self._clock = clock

    @property
    def url(self) -> str:
        """The place's."""
        return self._place.url

    def champion(self) -> Champion | None:
        """See ``Registry``."""
        with _told(self.url, "read"):
            found = self._read()[0]
            if found is not None and found.model_uri.startswith(f"{self.url}/versions/"):
                self._check_copy(found)
            return found

    def promote(self, candidate: Candidate, *, expect: int) -> Champion:
        """See ``Registry``."""
        with _told(self.url, "written"), self._place.alone():
            found, token = self._read()
            if found is not None and found.id == candidate.id:
                return found
            if (found.version if found else 0) != expect:
                raise _changed(candidate, expect, found)
            champion = self._kept(candidate, found)
            if not self._place.swap(POINTER, _json(champion.to_json()), token):
                raise _changed(candidate, expect, self._read()[0])
            self._verify(champion, candidate, expect)
            return champion

    def keep(self, count: int) -> list[str]:
        """See ``Registry``."""
        with _told(self.url, "written"), self._place.alone():
            champion, _ = self._read()
            if champion is None:
                return []
            gone = expendable(self._place.folders(), champion, count)
            for folder in gone:
                self._place.remove(folder)
            return gone

    def _read(self) -> tuple[Champion | None, str | None]:
        found = self._place.read(POINTER)
        if found is None:
            return None, None
        try:
            return Champion.from_json(json.loads(found[0])), found[1]
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise RegistryError(
                f"{self.url}/{POINTER} is no pointer of ours ({exc!r})",
                remedy="Give the registry a folder of its own; where it is one and was damaged, copy the newest "
                "versions/*/promotion.json over the pointer",
            ) from exc

    def _check_copy(self, champion: Champion) -> None:
        """Nothing to train for data that a model was made from, where that model is lost, would be said for ever."""
        if self._place.read(f"versions/{champion.folder}/{RECORD}") is None:
            raise RegistryError(
                f"{self.url}/{POINTER} points at version {champion.version}, and that is gone from the registry",
                remedy=f"Bring versions/{champion.folder} back, or remove {POINTER} to begin anew",
            )

    def _kept(self, candidate: Candidate, before: Champion | None) -> Champion:
        """The candidate as the champion that it is going to be, its folder made."""
        model = model_files(candidate.model_uri, self._options) if self._copy else ModelFiles()
        now = rfc3339(self._clock.now())
        champion = Champion.of(candidate, before, model_uri=candidate.model_uri, promoted_at=now)
        if self._copy:
            name = quote(model.name) if self.url.startswith("file:") else model.name
            uri = f"{self.url}/versions/{champion.folder}/model/{name}".rstrip("/")
            champion = replace(champion, model_uri=uri)
        self._place.add(champion.folder, model.files, _json({**champion.to_json(), "previous": []}))
        return champion

    def _verify(self, champion: Champion, candidate: Candidate, expect: int) -> None:
        """The pointer as it reads now is ours, or one that came after ours."""
        found, _ = self._read()
        if found is None or champion.folder not in (found.folder, *found.previous):
            raise _changed(candidate, expect, found)


@contextmanager
def _told(url: str, done: str) -> Iterator[None]:
    """Foreign errors end here: drivers raise what they like."""
    try:
        yield
    except TrainerOpsError:
        raise
    except Exception as exc:
        raise RegistryError(
            f"the registry {url} cannot be {done}: {str(exc) or type(exc).__name__}",
            remedy="Check its URL, the credentials and the rights of this user",
        ) from exc


def _json(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, indent=2, ensure_ascii=False).encode() + b"\n"


def _changed(candidate: Candidate, expect: int, found: Champion | None) -> ChampionChanged:
    now = f"{found}" if found else "none"
    judged = f"version {expect}" if expect else "none"
    return ChampionChanged(
        f"{candidate.model_uri} was not promoted: it was judged against champion {judged}, and the champion is {now}",
        remedy="Compare it with that one",
    )
