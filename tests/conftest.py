"""What holds for all tests.

A test of many real processes (the control plane, the engine, a whole Airflow) is tried once more when it fails: it
compares what they did within seconds, and a machine that stands still for a moment can merge two states that it waits
to see apart. The summary names what was tried again; a rule that is wrong fails twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

PROCESSES = ("cluster", "slow")
ENGINE = Path(__file__).parent / "local"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(map(item.get_closest_marker, PROCESSES)) or ENGINE in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=1))
