"""The in-job initializers: which of them are run, and what they fetch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainer_ops.local.plan_env import Entry, entries, upsert
from trainer_ops.local.plan_template import Raw, Template, refuse
from trainer_ops.local.plan_text import expand
from trainer_ops.local.plan_values import Place
from trainer_ops.model import keys

__all__ = ["KINDS", "Kind", "check_uri", "given_folders", "initializer_env", "kind_of", "wanted"]

_SCHEMES = ("file", "hf")
_URI = "STORAGE_URI"


@dataclass(frozen=True, slots=True)
class Kind:
    """``dataset`` or ``model``: the field, the job's ancestor, the path on a cluster, the variable that tells it."""

    name: str
    ancestor: str
    path: str
    env: str

    @property
    def field(self) -> str:
        """The path in the TrainJob."""
        return f"spec.initializer.{self.name}"

    def folder(self, place: Place) -> str:
        """The folder on this machine."""
        return place.dataset_dir if self.name == "dataset" else place.model_dir


KINDS = (
    Kind("dataset", keys.STEP_DATASET, keys.DATASET_PATH, keys.ENV_DATASET_DIR),
    Kind("model", keys.STEP_MODEL, keys.MODEL_PATH, keys.ENV_MODEL_DIR),
)


def kind_of(template: Template) -> Kind | None:
    """The kind of an initializer job; None for the others."""
    return next((kind for kind in KINDS if kind.ancestor == template.job.ancestor), None)


def _asked(trainjob: Raw, kind: Kind) -> Raw | None:
    found: Raw | None = ((trainjob.get("spec") or {}).get("initializer") or {}).get(kind.name)
    return found


def wanted(trainjob: Raw, templates: Sequence[Template], runtime: str) -> tuple[Template, ...]:
    """The jobs to run: an initializer only if the TrainJob asks for it or the runtime says what it does.

    Raises:
        InvalidRequest: the TrainJob asks for one that the runtime has no job for. Trainer would ignore it.
    """
    for kind in KINDS:
        if _asked(trainjob, kind) is not None and not any(kind_of(t) == kind for t in templates):
            raise refuse(
                kind.field,
                f'the runtime "{runtime}" has no job for it',
                f"Add a job with the label {keys.LABEL_ANCESTOR}: {kind.ancestor}, or take a built-in runtime.",
            )
    return tuple(t for t in templates if (own := kind_of(t)) is None or _has_work(trainjob, t, own))


def _has_work(trainjob: Raw, template: Template, kind: Kind) -> bool:
    main = template.main or {}
    uri = any(entry.get("name") == _URI and entry.get("value") for entry in main.get("env") or ())
    return _asked(trainjob, kind) is not None or bool(main.get("command")) or uri


def given_folders(trainjob: Raw, chosen: Sequence[Template]) -> list[tuple[str, str]]:
    """(path on a cluster, path here) of data that are on this machine already: a snapshot, told by its variable."""
    fetching = {kind_of(template) for template in chosen}
    found: list[tuple[str, str]] = []
    for kind in KINDS:
        for entry in ((trainjob.get("spec") or {}).get("trainer") or {}).get("env") or ():
            here = expand(str(entry.get("value") or ""), {}) if entry.get("name") == kind.env else ""
            # A folder below the path that it stands for would be replaced again.
            if kind not in fetching and here.startswith("/") and not here.startswith(kind.path):
                found.append((kind.path, here))
    return found


def initializer_env(trainjob: Raw, kind: Kind, env: list[Entry]) -> list[Entry]:
    """The container's env with what ``spec.initializer`` adds.

    Raises:
        InvalidRequest: it names a Secret.
    """
    asked = _asked(trainjob, kind) or {}
    if asked.get("secretRef"):
        raise refuse(
            f"{kind.field}.secretRef",
            "there are no Secrets on this machine",
            f"Leave it out and give what it holds in {kind.field}.env, or log in (huggingface-cli login).",
        )
    if asked.get("storageUri"):
        env = upsert(env, [Entry({"name": _URI, "value": asked["storageUri"]}, f"{kind.field}.storageUri")])
    return upsert(env, entries(asked.get("env"), f"{kind.field}.env"))


def check_uri(env: dict[str, str], kind: Kind) -> str:
    """The URI to fetch, after resolution.

    Raises:
        InvalidRequest: none, or a scheme that the engine cannot fetch.
    """
    uri = env.get(_URI, "")
    field = f"{kind.field}.storageUri"
    if not uri:
        raise refuse(field, "it is missing", "Give file:///folder or hf://owner/name.")
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in _SCHEMES or not rest:
        raise refuse(
            field,
            f'"{uri}" cannot be fetched by this machine\'s initializer',
            "It knows file:///folder and hf://owner/name; a cluster knows s3:// too.",
        )
    return uri
