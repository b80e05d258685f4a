"""Which Secret a snapshot's Job has its credentials from, in words: its program sees variables only. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.build.snapshot_job import SnapshotAsk
from trainer_ops.initializers.provider import SnapshotError

__all__ = ["how_to_make", "named"]

# What the program looks for (``initializers.environment``, and the drivers of gs and az by themselves).
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "hf": ("HF_TOKEN",),
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    "http": ("HTTP_TOKEN",),
    "https": ("HTTP_TOKEN",),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "az": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"),
}
# Of which the value is the content of a file.
_FILES: Final = ("GOOGLE_APPLICATION_CREDENTIALS",)


def named(error: SnapshotError, ask: SnapshotAsk, namespace: str) -> SnapshotError:
    """The error; where it is about credentials, with the Secret that they are of, or that none was given.

    Args:
        error: the program's.
        ask: what the Job was to do.
        namespace: the Job's.
    """
    if not error.credentials:
        return error
    secrets = _secrets(ask)
    if secrets:
        plural = "s" if len(secrets) > 1 else ""
        hint = f"The Job was given Secret{plural} {' and '.join(secrets)} of namespace {namespace}"
        hint += ", whose keys must have these names" if error.credentials == "missing" and _keys(ask) else ""
    elif _keys(ask) and error.credentials == "missing":
        hint = f"The Job was given no Secret: name one of namespace {namespace} with secret_ref"
    else:
        return error
    remedy = f"{error.remedy.rstrip('.')}. {hint}"
    return SnapshotError(error.message, remedy=remedy, transient=error.transient, credentials=error.credentials)


def how_to_make(secret: str, ask: SnapshotAsk, namespace: str) -> str:
    """The command that makes such a Secret."""
    given = "".join(f" --from-{'file' if key in _FILES else 'literal'}={key}=…" for key in _keys(ask) or ("KEY",))
    return f"kubectl create secret generic {secret} -n {namespace}{given}"


def _keys(ask: SnapshotAsk) -> list[str]:
    """What source and store want, each once."""
    schemes = [url.partition("://")[0] for url in (ask.uri, ask.store)]
    return list(dict.fromkeys(key for scheme in schemes for key in _KEYS.get(scheme, ())))


def _secrets(ask: SnapshotAsk) -> list[str]:
    """``secret_ref``, and what single variables are taken from."""
    found = [ask.secret_ref] if ask.secret_ref else []
    for value in ask.env.values():
        source = value.get("valueFrom", value) if isinstance(value, Mapping) else {}
        ref = source.get("secretKeyRef") if isinstance(source, Mapping) else None
        if isinstance(ref, Mapping) and ref.get("name"):
            found.append(str(ref["name"]))
    return list(dict.fromkeys(found))
