"""What the ``snapshots`` commands hand on of a store, and how its errors name what was typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.initializers.manifest import Manifest
from trainer_ops.initializers.provider import SnapshotError
from trainer_ops.initializers.store import Freed
from trainer_ops.lifecycle import snapshot_store, snapshots

Cli = Callable[..., Any]
KEY = "4f2a0c1b2d3e4f5a6b7c8d9e0f1a2b3c"
AT = (
    "--to",
    "s3://kept/team",
    "--secret",
    "aws",
    "--image",
    "img:1",
    "-e",
    "AWS_ENDPOINT_URL=http://minio:9000",
    "-e",
    "R",
)
GIVEN = {
    "to": "s3://kept/team",
    "secret_ref": "aws",
    "image": "img:1",
    "env": {"AWS_ENDPOINT_URL": "http://minio:9000", "R": "eu"},
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the use cases were given."""
    seen: list[dict[str, Any]] = []

    def noted(answer: Any) -> Callable[..., Any]:
        def call(_backend: Any, *_: Any, **given: Any) -> Any:
            seen.append({name: given[name] for name in GIVEN})
            return answer

        return call

    monkeypatch.setenv("R", "eu")
    monkeypatch.setattr(snapshot_store, "list_snapshots", noted((Manifest(KEY, "s3://b/x", "r"),)))
    monkeypatch.setattr(snapshot_store, "broken_snapshots", lambda *_, **__: ())
    monkeypatch.setattr(snapshot_store, "verify_snapshot", noted(()))
    monkeypatch.setattr(snapshot_store, "gc_snapshots", noted(Freed((), (), 0, ())))
    return seen


@pytest.mark.parametrize(("verb", "calls"), [("list", 1), ("verify", 2), ("gc", 1)])
def test_where_and_how_to_look(verb: str, calls: int, cli: Cli, asked: list[dict[str, Any]]) -> None:
    ran = cli("snapshots", verb, *AT)
    assert ran.code == 0, ran.err
    assert asked == [GIVEN] * calls


@pytest.mark.parametrize("verb", ["list", "verify", "gc"])
def test_a_secret_variable_is_not_put_into_a_job(
    verb: str, cli: Cli, asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "made_here", lambda _backend: False)
    ran = cli("snapshots", verb, "--env", "AWS_SECRET_ACCESS_KEY=abc")
    assert (ran.code, asked) == (2, [])
    assert "--env: AWS_SECRET_ACCESS_KEY would stand readable in the Job" in ran.err
    assert "abc" not in ran.out + ran.err


ERRORS: dict[str, tuple[Exception, int, str]] = {
    "of the input": (InvalidRequest("to", "there is no bucket kept", "Check it"), 2, "--to: there is no bucket kept"),
    "of a Job": (SnapshotError("refused", remedy="Correct secret_ref"), 1, "refused. Correct --secret"),
}


@pytest.mark.parametrize(("error", "code", "text"), ERRORS.values(), ids=ERRORS.keys())
@pytest.mark.parametrize("verb", ["list", "verify", "gc"])
def test_errors_name_flags(
    verb: str, error: Exception, code: int, text: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    for name in ("list_snapshots", "gc_snapshots"):
        monkeypatch.setattr(snapshot_store, name, fail)
    ran = cli("snapshots", verb)
    assert ran.code == code
    assert text in ran.err
