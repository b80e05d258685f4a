"""Jobs of every kind with all that their schemas have: no crash, nothing lost, admitted or refused with a code."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.migrate import features_kinds  # noqa: F401  # registers what the other kinds have
from tests.migrate.checked import checked
from tests.migrate.strategies import jobs, mangled
from trainer_ops.migrate.codes import CODES
from trainer_ops.migrate.convert import Converted, convert
from trainer_ops.migrate.kinds import KINDS, Kind
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.paths import leaves, text_of

# 7 kinds; 7 x (650 + 70) jobs are 5,000 in one run.
_KINDS = [pytest.param(kind, id=f"{kind.name}-{kind.version}") for kind in KINDS.values()]
_COMMON: dict[str, Any] = {
    # The same jobs in every run, so that a change is what breaks it; TRAINER_OPS_FUZZ=random looks for new ones.
    "derandomize": os.environ.get("TRAINER_OPS_FUZZ") != "random",
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.generate, Phase.shrink),
}
CHOICES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"runtime": "generate"},
        {"runtime": "torch-distributed"},
        {"trainer_version": "2.2"},
        {"gang": "volcano"},
        {"gang": "coscheduling", "drop": frozenset({"GANG-MIN", "UNKNOWN-FIELD"})},
        {"role_branch": True},
        {"template_from": "worker", "pin_elastic": "max"},
        {"template_from": "master", "pin_elastic": 2, "preserve_success": True},
        {"to_torchrun": True, "pin_elastic": "min"},
        {"env_shim": False},
        {"keep_ttl": True, "image_has_sshd": True},
        {"allow_placeholders": True, "drop_np": True},
    ]
)


@pytest.mark.parametrize("kind", _KINDS)
def test_whole_jobs(kind: Kind) -> None:
    @settings(max_examples=650, **_COMMON)
    @given(jobs(kind), CHOICES)
    def run(job: dict[str, Any], choices: dict[str, Any]) -> None:
        _said(checked(job, **choices))

    run()


@pytest.mark.parametrize("kind", _KINDS)
def test_mangled_jobs(kind: Kind) -> None:
    @settings(max_examples=70, **_COMMON)
    @given(mangled(kind), CHOICES)
    def run(job: dict[str, Any], choices: dict[str, Any]) -> None:
        done = convert(job, Options(**choices))
        assert [entry.path for entry in done.ledger] == [text_of(path) for path, _ in leaves(job)]
        _said(done)

    run()


@pytest.mark.parametrize("kind", _KINDS)
def test_what_is_converted_is_left_alone(kind: Kind) -> None:
    @settings(max_examples=20, **_COMMON)
    @given(jobs(kind, most=2))
    def run(job: dict[str, Any]) -> None:
        done = convert(job)
        for made in (done.trainjob, done.runtime):
            if made is not None:
                again = convert(made)
                assert not again.ok
                assert [found.code for found in again.findings] == ["NOT-V1"]

    run()


def _said(done: Converted) -> None:
    for found in done.findings:
        assert found.code in CODES
        assert found.message
    assert done.ok is not any(found.severity == "refused" for found in done.findings)
