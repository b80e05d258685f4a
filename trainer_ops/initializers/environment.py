"""Credentials as a pod or a shell has them: in environment variables, in the spellings that are in use."""

from __future__ import annotations

import json
from collections.abc import Mapping

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.provider import Credentials

__all__ = ["credentials_from"]

# The first that is set counts. Trainer's own initializers read the short names, the AWS tools the long ones.
_HUB_TOKEN = ("HF_TOKEN", "ACCESS_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_S3 = {
    "key": ("AWS_ACCESS_KEY_ID", "ACCESS_KEY_ID"),
    "secret": ("AWS_SECRET_ACCESS_KEY", "SECRET_ACCESS_KEY"),
    "token": ("AWS_SESSION_TOKEN", "SESSION_TOKEN"),
    "endpoint_url": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "ENDPOINT"),
}
_GOOGLE = "GOOGLE_APPLICATION_CREDENTIALS"
# What gcsfs makes of a mapping; it does not look for other kinds in one.
_GOOGLE_KINDS = ("service_account", "authorized_user")
_S3_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION", "REGION")


def credentials_from(env: Mapping[str, str], scheme: str) -> Credentials:
    """What this environment has for a scheme.

    gs:// and az:// get nothing: their drivers read their own variables (GOOGLE_APPLICATION_CREDENTIALS,
    AZURE_STORAGE_…) and the identity of the pod. So do those of s3:// where no key is given. But a Secret becomes
    variables, not files: GOOGLE_APPLICATION_CREDENTIALS may be a key file's content instead of its path.

    Raises:
        InvalidRequest: ROLE_ARN, which Trainer's initializer assumes with the keys; not done here. Or a key of Google
            that is none.
    """
    if scheme == "hf":
        # Not only this process's own, which huggingface_hub has read already: -e HF_ENDPOINT=… too.
        endpoint = _first(env, ("HF_ENDPOINT",))
        return Credentials(token=_first(env, _HUB_TOKEN), options={"endpoint": endpoint} if endpoint else {})
    if scheme in ("http", "https"):
        return Credentials(token=env.get("HTTP_TOKEN", ""))
    if scheme == "gs":
        return Credentials(options=_google_key(env.get(_GOOGLE, "").strip()))
    if scheme != "s3":
        return Credentials()
    if env.get("ROLE_ARN"):
        raise InvalidRequest(
            "ROLE_ARN",
            "a role is not assumed with keys here",
            "Give the pod's service account the role (AWS_ROLE_ARN with a web identity), or the role's session keys.",
        )
    options: dict[str, object] = {name: value for name, names in _S3.items() if (value := _first(env, names))}
    region = _first(env, _S3_REGION)
    if region and region != "auto":
        options["client_kwargs"] = {"region_name": region}
    return Credentials(options=options)


def _google_key(text: str) -> dict[str, object]:
    """What gcsfs wants for the content of a key file; nothing for a path, which Google's library opens."""
    if not text.startswith("{"):
        return {}
    try:
        key = json.loads(text)
    except ValueError:  # its text quotes the key
        key = {}
    if key.get("type") not in _GOOGLE_KINDS:
        raise InvalidRequest(
            _GOOGLE,
            f"it is no key of type {' or '.join(_GOOGLE_KINDS)}",
            "Give the path of a key file or its whole content, or give the pod's service account an identity.",
        )
    return {"token": key}


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((env[name].strip() for name in names if env.get(name, "").strip()), "")
