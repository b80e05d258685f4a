from __future__ import annotations

from pathlib import Path

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.target import default_target, open_backend
from trainer_ops.model import keys
from trainer_ops.testing import MemoryBackend


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/home/me"}, "local:///home/me/.local/state/trainer-ops"),
        ({"HOME": "/home/me", "XDG_STATE_HOME": "/state"}, "local:///state/trainer-ops"),
        ({"HOME": "/home/me", "XDG_STATE_HOME": "", keys.ENV_TARGET: ""}, "local:///home/me/.local/state/trainer-ops"),
        ({"HOME": "/home/me", keys.ENV_TARGET: "local:///here"}, "local:///here"),
    ],
)
def test_the_default(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str) -> None:
    for name in ("XDG_STATE_HOME", keys.ENV_TARGET):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_target() == expected


def test_memory_is_found_again_in_its_process() -> None:
    memory = MemoryBackend(name="here")
    assert open_backend("memory://here") is memory
    del memory
    with pytest.raises(InvalidRequest, match="there is no memory://here"):
        open_backend("memory://here")


def test_this_machine(tmp_path: Path) -> None:
    backend = open_backend(f"local://{tmp_path}/engine")
    assert backend.target == f"local://{tmp_path}/engine"
    backend.close()


@pytest.mark.parametrize(
    "target",
    [
        *("nonsense", "ftp://x", "local:/relative", "local", "://", "local://relative"),
        *("kubernetes://prod/team-a", "kubernetes://", "kubernetes:prod", "kubernetes", "kubernetes://prod/"),
        *("kubernetes://prod/Team_A", "kubernetes://prod/a?color=red", "in-cluster", "kubernetes://in-cluster/a"),
        "kubernetes://prod/a?kubeconfig=inline",
    ],
)
def test_what_cannot_be_opened_says_so(target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(InvalidRequest) as caught:
        open_backend(target)
    assert caught.value.field == "target"
    assert caught.value.remedy
