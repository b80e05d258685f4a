"""A registered model of MLflow as a registry: the champion is the version that has the alias ``champion``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.lifecycle.clock import Clock
from trainer_ops.model.champion import Candidate, Champion, ChampionChanged, RegistryError, kept_number
from trainer_ops.model.times import rfc3339

__all__ = ["MlflowRegistry"]

# A version's tags; the values of the last two are JSON. MLflow takes at most 5000 characters of a value.
_ID: Final = "trainer-ops.candidate"
_FINGERPRINT: Final = "trainer-ops.fingerprint"
_PROMOTED: Final = "trainer-ops.promoted-at"
_METRICS: Final = "trainer-ops.metrics"
_NOTE: Final = "trainer-ops.note"
_TAG_LIMIT: Final = 5000
_KNOWN: Final = frozenset({"alias", "registry"})


class MlflowRegistry:
    """Champions as versions of one registered model.

    MLflow sets an alias without a condition, so this registry looks before and after: of two promoters in the same
    instant the later wins, and the earlier may not learn of it. Let one pipeline at a time promote
    (``max_active_runs=1``). Versions that somebody else registered are left alone.

    Args:
        url: ``mlflow://NAME[?alias=champion][&registry=URI]``; ``registry`` goes before MLflow's own environment.
        clock: says when something was promoted.
    """

    def __init__(self, url: str, *, clock: Clock) -> None:
        parts = urlsplit(url)
        asked = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self._name = unquote(parts.netloc + parts.path)
        if not self._name or asked.keys() - _KNOWN:
            raise InvalidRequest("registry", f'"{url}" names no model', "Write mlflow://NAME[?alias=champion]")
        self._alias = asked.get("alias", "champion")
        self._url = url
        self._clock = clock
        self._client = _client(asked.get("registry"))

    @property
    def url(self) -> str:
        """As given."""
        return self._url

    def champion(self) -> Champion | None:
        """See ``Registry``."""
        with self._told():
            found = self._aliased()
        return None if found is None else _champion(found)

    def promote(self, candidate: Candidate, *, expect: int) -> Champion:
        """See ``Registry``; the model stays where it is."""
        with self._told():
            before = self._expected(candidate, expect)
            if before is not None and before.tags.get(_ID) == candidate.id:
                return _champion(before)
            version = self._registered(candidate, expect)
            self._expected(candidate, expect)
            self._client.set_registered_model_alias(self._name, self._alias, version.version)
            return _champion(self._expected(candidate, int(version.version)))

    def keep(self, count: int) -> list[str]:
        """See ``Registry``; versions that have an alias of somebody's stay too."""
        count = kept_number(count)
        with self._told():
            current = self._aliased()
            if current is None:
                return []
            ours = [found for found in self._versions() if int(found.version) <= int(current.version)]
            gone = [found for found in ours[count:] if not self._client.get_model_version(*_at(found)).aliases]
            for found in gone:
                self._client.delete_model_version(*_at(found))
            return sorted(str(found.version) for found in gone)

    def _aliased(self) -> Any:
        """The version that has the alias; None where there is none."""
        try:
            return self._client.get_model_version_by_alias(self._name, self._alias)
        except Exception as exc:
            # The file store and the server call it INVALID_PARAMETER_VALUE when only the alias is missing.
            if getattr(exc, "error_code", "") in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise

    def _expected(self, candidate: Candidate, expect: int) -> Any:
        """The champion, when it is that version or the candidate itself."""
        found = self._aliased()
        version = int(found.version) if found is not None else 0
        if version != expect and (found is None or found.tags.get(_ID) != candidate.id):
            raise ChampionChanged(
                f"{candidate.model_uri} was not promoted: it was judged against version {expect or 'none'} of "
                f"{self._name}, and the champion is version {version or 'none'}",
                remedy="Compare it with that one",
            )
        return found

    def _registered(self, candidate: Candidate, after: int) -> Any:
        """A version of the candidate newer than the champion: the one that an earlier try left, or a new one."""
        for found in self._versions():
            if int(found.version) > after and found.tags.get(_ID) == candidate.id:
                return found
        try:
            self._client.create_registered_model(self._name)
        except Exception as exc:
            if getattr(exc, "error_code", "") != "RESOURCE_ALREADY_EXISTS":
                raise
        tags = {
            _ID: candidate.id,
            _FINGERPRINT: candidate.fingerprint,
            _PROMOTED: rfc3339(self._clock.now()),
            _METRICS: _tag("metrics", candidate.metrics),
            _NOTE: _tag("note", candidate.note),
        }
        return self._client.create_model_version(self._name, source=candidate.model_uri, tags=tags)

    def _versions(self) -> list[Any]:
        """Those that a candidate of ours became, newest first."""
        quoted = self._name.replace("'", "\\'")
        found: list[Any] = []
        token: str | None = None
        while True:
            page = self._client.search_model_versions(f"name='{quoted}'", max_results=1000, page_token=token)
            found += [version for version in page if version.tags.get(_ID)]
            token = page.token
            if not token:
                return sorted(found, key=lambda version: -int(version.version))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """MLflow's errors end here."""
        try:
            yield
        except TrainerOpsError:
            raise
        except Exception as exc:
            raise RegistryError(
                f"MLflow's registry refuses {self._name}: {str(exc) or type(exc).__name__}",
                remedy="Check MLFLOW_REGISTRY_URI or MLFLOW_TRACKING_URI and the rights of this user",
            ) from exc


def _client(asked: str | None) -> Any:
    """A client that knows no other store: MLflow's default one is a database in the working folder."""
    uri = asked or os.environ.get("MLFLOW_REGISTRY_URI") or os.environ.get("MLFLOW_TRACKING_URI")
    if not uri:
        remedy = "Set MLFLOW_REGISTRY_URI or MLFLOW_TRACKING_URI, or write mlflow://NAME?registry=URI"
        raise InvalidRequest("registry", "mlflow:// names no server", remedy)
    try:
        from mlflow import MlflowClient
    except ImportError as exc:
        remedy = "pip install 'trainer-ops[mlflow]'"
        raise InvalidRequest("registry", f"mlflow:// needs MLflow ({exc})", remedy) from exc
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _at(found: Any) -> tuple[str, str]:
    return found.name, str(found.version)


def _tag(name: str, value: Mapping[str, Any]) -> str:
    text = json.dumps(dict(value), ensure_ascii=False)
    if len(text) > _TAG_LIMIT:
        raise InvalidRequest(name, f"has {len(text)} characters as JSON", f"MLflow takes {_TAG_LIMIT} in a tag")
    return text


def _champion(found: Any) -> Champion:
    """A version that somebody registered by hand and gave the alias is a champion too, without metrics."""
    tags = found.tags
    return Champion(
        version=int(found.version),
        id=tags.get(_ID, ""),
        model_uri=str(found.source or ""),
        metrics=json.loads(tags.get(_METRICS) or "{}"),
        fingerprint=tags.get(_FINGERPRINT, ""),
        promoted_at=tags.get(_PROMOTED, ""),
        source_uri=str(found.source or ""),
        note=json.loads(tags.get(_NOTE) or "{}"),
    )
