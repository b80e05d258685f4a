"""What an answer of the API server means, as one of our errors. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from trainer_ops.errors import (
    AlreadyExists,
    BackendError,
    Forbidden,
    NotFound,
    PreconditionFailed,
    Rejected,
    Unreachable,
)

__all__ = ["failure", "retry_after"]

# Statuses that say nothing about the request: asking again may help. 401 is among them because a token that expired in
# mid-wait must not fail a training (kubernetes-client/python #1768); it ends at unreachable_timeout like the others.
_PASSING = frozenset({401, 408, 425, 429, 500, 502, 503, 504})

_FORBIDDEN = re.compile(r'User "(?P<user>[^"]+)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)"')


def failure(what: str, status: int | None, body: bytes | str | None) -> BackendError:
    """The error for one answer.

    Args:
        what: what was asked, for the message: ``creating trainjob team-a/x``.
        status: the HTTP status; None and 0 mean that there was no answer.
        body: the answer's body: a Status object, or anything else.
    """
    raw = _status_object(body)
    text = str(raw.get("message") or "").strip()
    if not status:
        return Unreachable(f"{what}: no answer: {text or 'connection failed'}")
    if status == 403:
        return _forbidden(what, text)
    if status == 404:
        return _not_found(what, text, raw)
    if status == 409:
        return _conflict(what, text, raw)
    if status in _PASSING or status >= 500:
        return Unreachable(f"{what}: {status} {text or 'without a reason'}", status=status)
    return Rejected(f"{what}: {text or f'refused with status {status}'}", status=status)


def _forbidden(what: str, text: str) -> BackendError:
    match = _FORBIDDEN.search(text)
    if match:
        resource, verb, user = match["resource"], match["verb"], match["user"]
        remedy = f"A Role that allows {verb} on {resource} is missing; bind one to {user}"
        return Forbidden(f"not allowed: {what} as {user}", status=403, remedy=remedy)
    # Webhooks, quota and PodSecurity also answer 403: that is about the object, not about the user.
    if "denied the request" in text or "exceeded quota" in text or "violates PodSecurity" in text:
        return Rejected(f"{what}: {text}", status=403)
    return Forbidden(f"not allowed: {what}: {text or 'refused with status 403'}", status=403)


def _not_found(what: str, text: str, raw: Mapping[str, Any]) -> BackendError:
    # An API that does not exist answers with plain text, not with a Status that has details.
    if not raw.get("details"):
        remedy = "Install Kubeflow Trainer 2.2 or newer on this cluster, or name another target"
        return BackendError(f"{what}: the cluster does not serve this API", status=404, remedy=remedy)
    return NotFound(f"{what}: {text}", status=404)


def _conflict(what: str, text: str, raw: Mapping[str, Any]) -> BackendError:
    if raw.get("reason") == "AlreadyExists":
        return AlreadyExists(f"{what}: {text}", status=409)
    if "Precondition failed" in text or "the UID in the precondition" in text:
        return PreconditionFailed(f"{what}: {text}", status=409)
    # A quota or an object that somebody else changed at the same moment: the same call works a moment later.
    return Unreachable(f"{what}: 409 {text}", status=409)


def _status_object(body: bytes | str | None) -> Mapping[str, Any]:
    """The Status in a body. Client versions before 36 give bytes, later ones text; proxies give HTML."""
    if not body:
        return {}
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    try:
        parsed = json.loads(text)
    except ValueError:
        return {"message": " ".join(re.sub(r"<[^>]*>", " ", text).split())[:300]}
    return parsed if isinstance(parsed, Mapping) else {"message": text[:300]}


def retry_after(headers: Mapping[str, str] | None) -> float | None:
    """Seconds that the server asks to wait, at most 60; None when it does not say (a date is not read)."""
    value = next((v for k, v in (headers or {}).items() if k.lower() == "retry-after"), "")
    return min(60.0, float(value)) if value.strip().isdigit() else None
