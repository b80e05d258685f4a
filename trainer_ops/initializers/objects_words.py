"""What the drivers of object stores raise, in words a user can act on. Pure."""

from __future__ import annotations

from typing import Any, Final

from trainer_ops.errors import InvalidRequest, TrainerOpsError
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.initializers.source import Source

__all__ = ["bucket_of", "code_of", "explain", "is_absent", "lacks_bucket", "lacks_credentials", "no_bucket"]

# The name of an S3 error, the number of HTTP, or the name of an exception's class, whichever the driver has.
_WRONG: Final = frozenset(
    [
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "InvalidToken",
        "ExpiredToken",
        "TokenRefreshRequired",
        "InvalidSecurity",
        "401",
        "AuthFailure",
        "RefreshError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
        "SSOTokenLoadError",
    ]
)
_HALF: Final = "PartialCredentialsError"
_MISSING: Final = frozenset(
    [
        "NoCredentialsError",
        "DefaultCredentialsError",
        "CredentialUnavailableError",
        "CredentialRetrievalError",
    ]
)
_REFUSED: Final = frozenset({"AccessDenied", "AllAccessDisabled", "AccountProblem", "403"})
_REGION: Final = frozenset(
    [
        "PermanentRedirect",
        "TemporaryRedirect",
        "AuthorizationHeaderMalformed",
        "IllegalLocationConstraintException",
        "301",
        "307",
    ]
)
# botocore's words for an endpoint that it cannot ask: a ValueError, or one of its own without a code.
_NO_URL: Final = ("Invalid endpoint: ", "was not a valid URI")
_NO_BUCKET: Final = frozenset({"NoSuchBucket", "InvalidBucketName", "ContainerNotFound"})
_ABSENT: Final = frozenset({"NoSuchKey", "NoSuchVersion", "404"})
_KEYS: Final = {
    "s3": "Give key and secret (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, a Secret with those, or the connection).",
    "gs": "Set GOOGLE_APPLICATION_CREDENTIALS to a key file or its content, or give the pod's service account an"
    " identity.",
    "az": "Set AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or an identity.",
}


def bucket_of(source: Source) -> str:
    """The bucket, or container."""
    return source.uri.partition("://")[2].partition("/")[0]


def code_of(error: BaseException) -> str:
    """What a driver's error calls itself."""
    seen: BaseException | None = error
    while seen is not None:
        response: Any = getattr(seen, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code") or "")
        for name in ("status_code", "code", "status"):
            number = getattr(seen, name, None)
            if isinstance(number, int) and 400 <= number < 600:
                return str(number)
        seen = seen.__cause__
    if isinstance(error, FileNotFoundError):
        return "404"
    if isinstance(error, PermissionError):
        return "403"
    return type(error).__name__


def lacks_credentials(error: BaseException) -> bool:
    """Whether the driver found nothing to sign with."""
    return code_of(error) in _MISSING


def lacks_bucket(error: BaseException) -> bool:
    """Whether it is the bucket that is not there, as far as the driver says which."""
    return code_of(error) in _NO_BUCKET


def is_absent(error: BaseException) -> bool:
    """Whether the object is not there (any more)."""
    return code_of(error) in _ABSENT


def explain(error: BaseException, source: Source, *, anonymous: bool, server: str = "") -> TrainerOpsError | None:
    """The error to tell; None where it may be the network.

    Args:
        error: what the driver raised.
        source: what was asked for.
        anonymous: whether nothing was signed.
        server: who was asked, where there are many: who forgets the endpoint asks Amazon.
    """
    code = code_of(error)
    place = f"the {_kind(source)} {_at(source, server)}"
    if lacks_bucket(error):
        return no_bucket(source, server)
    if code in _WRONG:
        return SnapshotError(
            f"{source.uri}: credentials wrong: {place} does not take them ({code})",
            remedy="They may have expired, be of another account or of another endpoint: give valid ones.",
            credentials="refused",
        )
    if code == _HALF:
        return _half(error, source)
    if code in _MISSING or (code in _REFUSED and anonymous):
        return SnapshotError(
            f"{source.uri}: credentials missing: {place} is not open to everybody ({code})",
            remedy=_KEYS[source.scheme],
            credentials="missing",
        )
    if code in _REFUSED:
        return SnapshotError(
            f"{source.uri}: the credentials are not allowed to read {place} ({code})",
            remedy="Let them list the bucket and get its objects (s3:ListBucket, s3:GetObject, or their like).",
            credentials="refused",
        )
    if code in _REGION:
        return SnapshotError(
            f"{source.uri}: {place} is in another region ({code})",
            remedy="Give the region of the bucket: AWS_REGION, or region_name in the connection.",
        )
    return _odd(error, source, place)


def no_bucket(source: Source, server: str = "") -> InvalidRequest:
    """There is no such bucket (on that server)."""
    return InvalidRequest(
        "uri",
        f"there is no {_kind(source)} {_at(source, server)}",
        "Check the name, and the endpoint and account that are asked.",
    )


def _kind(source: Source) -> str:
    return "container" if source.scheme == "az" else "bucket"


def _at(source: Source, server: str) -> str:
    return f"{bucket_of(source)} at {server}" if server else bucket_of(source)


def _half(error: BaseException, source: Source) -> SnapshotError:
    """A key without its secret: to ask as everybody then would hide that one was forgotten."""
    lacking = str(getattr(error, "kwargs", {}).get("cred_var") or "").upper() or "key or secret"
    return SnapshotError(
        f"{source.uri}: credentials incomplete: {lacking} is missing",
        remedy="Give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither where anybody may read it.",
        credentials="missing",
    )


def _odd(error: BaseException, source: Source, place: str) -> TrainerOpsError | None:
    code = code_of(error)
    if code == "RequestTimeTooSkewed":
        return SnapshotError(
            f"{source.uri}: the clock of this machine is wrong, so {place} takes no signature ({code})",
            remedy="Set the clock.",
        )
    if code == "InvalidObjectState":
        return SnapshotError(
            f"{source.uri}: it holds archived objects, which cannot be read as they are ({code})",
            remedy="Restore them from the archive first, or leave them out with an ignore pattern.",
        )
    if any(words in str(error) for words in _NO_URL):
        # Not the endpoint itself: what stands in its place may be the secret of another key.
        return InvalidRequest(
            "credentials",
            f"the endpoint of {source.scheme}:// is not a URL",
            "Write it whole, as in AWS_ENDPOINT_URL=http://minio:9000.",
        )
    if code == "ProfileNotFound":
        return InvalidRequest("credentials", "there is no AWS profile of that name here", "Check AWS_PROFILE.")
    return None
