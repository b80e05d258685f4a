"""What holds for all tests.

A test on the real control plane is tried once more when it fails: it compares what six programs and many processes did
within seconds, and a machine that stands still for a moment can merge two states that it waits to see apart. The
summary names what was tried again; a rule that is wrong fails twice.
"""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.flaky(reruns=1))
