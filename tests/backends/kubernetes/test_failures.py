from __future__ import annotations

import json
from typing import Any

import pytest

from trainer_ops.backends.kubernetes.failures import Gone, NotServed, failure, missing_runtime, retry_after
from trainer_ops.errors import (
    AlreadyExists,
    BackendError,
    Forbidden,
    NotFound,
    PreconditionFailed,
    Rejected,
    Unreachable,
)

WHAT = "creating trainjob team-a/x"
WORKER = "system:serviceaccount:airflow:worker"


def status(message: str, **fields: Any) -> bytes:
    return json.dumps({"kind": "Status", "message": message, **fields}).encode()


RBAC = (
    f'trainjobs.trainer.kubeflow.org is forbidden: User "{WORKER}" cannot create resource "trainjobs" in API group '
    '"trainer.kubeflow.org" in the namespace "team-a"'
)
LOGS = (
    f'pods "x" is forbidden: User "{WORKER}" cannot get resource "pods/log" in API group "" in the namespace "team-a"'
)
CLUSTER = (
    f'clustertrainingruntimes.trainer.kubeflow.org is forbidden: User "{WORKER}" cannot list resource '
    '"clustertrainingruntimes" in API group "trainer.kubeflow.org" at the cluster scope'
)
NOBODY = 'trainjobs is forbidden: User "system:anonymous" cannot list resource "trainjobs" in API group "x"'
HOOK = (
    'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: spec.RuntimeRef: Invalid value: '
    '{"name":"nope"}: ClusterTrainingRuntime.trainer.kubeflow.org "nope" not found: specified clusterTrainingRuntime '
    "must be created before the TrainJob is created"
)
RESERVED = 'admission webhook "v" denied the request: spec.trainer.env: must not have reserved envs'
QUOTA = 'trainjobs.trainer.kubeflow.org "x" is forbidden: exceeded quota: few, requested: count=1'
TERMINATING = 'trainjobs "x" is forbidden: unable to create new content in namespace a because it is being terminated'
DETAILS = {"name": "x", "kind": "trainjobs"}
UID = "Precondition failed: UID in precondition: a, UID in object meta: b"


@pytest.mark.parametrize(
    ("code", "body", "kind", "says"),
    [
        pytest.param(401, status("Unauthorized"), Forbidden, "does not accept the credentials", id="401"),
        pytest.param(
            403, status(RBAC), Forbidden, f"not allowed: creating trainjobs in namespace team-a as {WORKER}", id="rbac"
        ),
        pytest.param(
            403, status(LOGS), Forbidden, f"not allowed: reading pods/log in namespace team-a as {WORKER}", id="logs"
        ),
        pytest.param(
            403,
            status(CLUSTER),
            Forbidden,
            f"not allowed: listing clustertrainingruntimes in the whole cluster as {WORKER}",
            id="cluster scope",
        ),
        pytest.param(403, status(NOBODY), Forbidden, "does not accept the credentials", id="credentials left out"),
        pytest.param(403, b"<html>no</html>", Forbidden, f"not allowed: {WHAT}: no", id="403 of a proxy"),
        pytest.param(403, status(HOOK), Rejected, "must be created before", id="webhook"),
        pytest.param(403, status(QUOTA), Rejected, "exceeded quota", id="quota"),
        pytest.param(403, status('pods "x" violates PodSecurity "restricted"'), Rejected, "violates", id="podsecurity"),
        pytest.param(403, status(TERMINATING), Rejected, "being terminated", id="namespace is being deleted"),
        pytest.param(404, status('"x" not found', details=DETAILS), NotFound, '"x" not found', id="404"),
        pytest.param(404, "404 page not found", NotServed, "does not serve this API", id="no CRD"),
        pytest.param(404, status("no", details={}), NotServed, "does not serve this API", id="no CRD, as a Status"),
        pytest.param(
            404,
            status('namespaces "z" not found', details={"kind": "namespaces", "name": "z"}),
            Rejected,
            'namespaces "z" not found',
            id="no namespace",
        ),
        pytest.param(409, status("exists", reason="AlreadyExists"), AlreadyExists, "exists", id="exists"),
        pytest.param(409, status(UID, reason="Conflict"), PreconditionFailed, "UID in object meta", id="uid"),
        pytest.param(409, status("modified", reason="Conflict"), Unreachable, "modified", id="conflict"),
        pytest.param(410, status("too old"), Gone, "too old", id="410"),
        pytest.param(400, status('unknown field "spec.foo"'), Rejected, "spec.foo", id="strict"),
        pytest.param(422, status("invalid", reason="Invalid"), Rejected, "invalid", id="422"),
        pytest.param(429, b"", Unreachable, "429 without a reason", id="429"),
        pytest.param(500, status('failed calling webhook "v"'), Unreachable, "failed calling", id="webhook is away"),
        pytest.param(503, b"<h1>Bad <b>day</b></h1>", Unreachable, "503 Bad day", id="503 of a proxy"),
        pytest.param(504, b"\xff\xfe", Unreachable, "504", id="no text"),
        pytest.param(500, b'"text"', Unreachable, '500 "text"', id="no object"),
        pytest.param(0, None, Unreachable, "no answer: certificate verify failed", id="no status"),
        pytest.param(None, b"", Unreachable, "no answer", id="None"),
    ],
)
def test_an_answer_is_one_of_our_errors(
    code: int | None, body: bytes | str | None, kind: type[BackendError], says: str
) -> None:
    error = failure(WHAT, code, body, "certificate verify failed")
    assert type(error) is kind
    assert says in str(error)
    assert error.status == (code or None) or code == 403
    assert error.retryable is issubclass(kind, Unreachable | Gone)


def test_bytes_and_text_are_the_same() -> None:
    assert str(failure(WHAT, 403, status(RBAC))) == str(failure(WHAT, 403, status(RBAC).decode()))


def test_what_is_missing_is_named() -> None:
    assert failure(WHAT, 403, status(RBAC)).remedy == (
        "Missing is a Role in namespace team-a that allows create on trainjobs.trainer.kubeflow.org, "
        "bound to system:serviceaccount:airflow:worker: "
        "trainer-ops rbac --namespace team-a --service-account airflow:worker | kubectl apply -f -"
    )
    assert "ClusterRole in the whole cluster that allows list" in failure(WHAT, 403, status(CLUSTER)).remedy
    assert "Kubeflow Trainer" in failure(WHAT, 404, b"404 page not found").remedy


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (HOOK, True),
        ('admission webhook "v" denied the request: TrainingRuntime.trainer.kubeflow.org "nope" not found', True),
        (RESERVED, False),
        (QUOTA, False),
    ],
)
def test_a_missing_runtime_is_told_from_other_refusals(text: str, missing: bool) -> None:
    assert missing_runtime(failure(WHAT, 403, status(text))) is missing


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (None, None),
        ({}, None),
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after": " 7 "}, 7.0),
        ({"Retry-After": "3600"}, 30.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"Retry-After": "-1"}, None),
    ],
)
def test_retry_after(headers: dict[str, str] | None, seconds: float | None) -> None:
    assert retry_after(headers) == seconds
