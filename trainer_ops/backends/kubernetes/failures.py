"""What an answer of the API server means, as one of our errors. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from trainer_ops.build.rbac import command_for
from trainer_ops.errors import (
    AlreadyExists,
    BackendError,
    Forbidden,
    NotFound,
    PreconditionFailed,
    Rejected,
    Unreachable,
)

__all__ = ["Gone", "NotServed", "failure", "missing_runtime", "retry_after"]

# Statuses that say nothing about the request: asking again may help.
_PASSING = frozenset({408, 425, 429})

_FORBIDDEN = re.compile(
    r'User "(?P<user>[^"]+)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_DOING = {
    "create": "creating",
    "get": "reading",
    "list": "listing",
    "watch": "watching",
    "delete": "deleting",
    "patch": "changing",
    "update": "changing",
}
# Who a request comes from when its credentials were left out or not understood: an exec plugin that failed, a proxy.
_NOBODY = "system:anonymous"

_OBJECT_REFUSED = ("denied the request", "exceeded quota", "violates PodSecurity", "because it is being terminated")

_MISSING_RUNTIME = re.compile(r'must be created before the TrainJob is created|TrainingRuntime\S* "[^"]+" not found')

_MOST_RETRY_AFTER = 30.0


class Gone(BackendError):
    """A resource version or a continue token is too old (HTTP 410, or inside a watch's stream): list again."""

    retryable = True


class NotServed(BackendError):
    """The cluster does not serve this API: its CRD is not installed."""


def failure(what: str, status: int | None, body: bytes | str | None, reason: str = "") -> BackendError:
    """The error for one answer.

    Args:
        what: what was asked, for the message: ``creating trainjob team-a/x``.
        status: the HTTP status; None and 0 mean that there was no answer.
        body: the answer's body: a Status object, or anything else.
        reason: the client's own words, for when there is no body.
    """
    raw = _status_object(body)
    text = str(raw.get("message") or "").strip()
    if not status:
        return Unreachable(f"{what}: no answer: {text or reason.strip()[:300] or 'connection failed'}")
    known = {401: _unauthorized, 403: _forbidden, 404: _not_found, 409: _conflict, 410: _gone}.get(status)
    if known is not None:
        return known(what, text, raw)
    if status in _PASSING or status >= 500:
        return Unreachable(f"{what}: {status} {text or 'without a reason'}", status=status)
    return Rejected(f"{what}: {text or f'refused with status {status}'}", status=status)


def _unauthorized(what: str, text: str, raw: Mapping[str, Any]) -> BackendError:
    return Forbidden(
        f"{what}: the API server does not accept the credentials ({text or '401'})",
        status=401,
        remedy="Log in again, or check the token or the exec plugin in the kubeconfig",
    )


def _forbidden(what: str, text: str, raw: Mapping[str, Any]) -> BackendError:
    match = _FORBIDDEN.search(text)
    if match and match["user"] == _NOBODY:
        return _unauthorized(what, text, raw)
    if match:
        resource, verb, user, space = match["resource"], match["verb"], match["user"], match["namespace"]
        where = f"in namespace {space}" if space else "in the whole cluster"
        role = "Role" if space else "ClusterRole"
        named = f"{resource}.{match['group']}" if match["group"] else resource
        command = command_for(user, space or "", verb, resource, match["group"] or "")
        return Forbidden(
            f"not allowed: {_DOING.get(verb, verb)} {resource} {where} as {user}",
            status=403,
            remedy=f"Missing is a {role} {where} that allows {verb} on {named}, bound to {user}"
            + (f": {command} | kubectl apply -f -" if command else ""),
            user=user,
            namespace=space or "",
        )
    # Webhooks, quota and PodSecurity also answer 403: that is about the object, not about the user.
    if any(words in text for words in _OBJECT_REFUSED):
        return Rejected(f"{what}: {text}", status=403)
    return Forbidden(f"not allowed: {what}: {text or 'refused with status 403'}", status=403)


def _not_found(what: str, text: str, raw: Mapping[str, Any]) -> BackendError:
    details = raw.get("details")
    # An API that does not exist answers with plain text ("404 page not found"), not with a Status that has details.
    if not isinstance(details, Mapping) or not details:
        remedy = "Install Kubeflow Trainer 2.2 or newer on this cluster, or name another target"
        return NotServed(f"{what}: the cluster does not serve this API", status=404, remedy=remedy)
    if details.get("kind") == "namespaces":
        return Rejected(f"{what}: {text}", status=404, remedy="Name a namespace that exists in the target")
    return NotFound(f"{what}: {text}", status=404)


def _conflict(what: str, text: str, raw: Mapping[str, Any]) -> BackendError:
    if raw.get("reason") == "AlreadyExists":
        return AlreadyExists(f"{what}: {text}", status=409)
    if "Precondition failed" in text or "the UID in the precondition" in text:
        return PreconditionFailed(f"{what}: {text}", status=409)
    # A quota or an object that somebody else changed at the same moment: the same call works a moment later.
    return Unreachable(f"{what}: 409 {text}", status=409)


def _gone(what: str, text: str, raw: Mapping[str, Any]) -> BackendError:
    return Gone(f"{what}: {text or '410'}", status=410)


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


def missing_runtime(error: BackendError) -> bool:
    """Whether Trainer's webhook refused a TrainJob because there is no such runtime."""
    return isinstance(error, Rejected) and _MISSING_RUNTIME.search(error.message) is not None


def retry_after(headers: Mapping[str, str] | None) -> float | None:
    """Seconds that the server asks to wait, at most 30; None when it does not say (a date is not read)."""
    value = next((v for k, v in (headers or {}).items() if k.lower() == "retry-after"), "").strip()
    return min(_MOST_RETRY_AFTER, float(value)) if value.isdigit() else None
