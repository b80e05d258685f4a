"""Hands reach into a training that is waited for: each ends as the table says (``hand_cases``)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.fixtures import Cluster, unused_name
from tests.controlplane.hand_cases import CASES, HOMELESS
from tests.controlplane.scene_runtimes import make_runtimes
from tests.controlplane.scenes import Scene, check, play

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def played(control_plane: Cluster) -> Iterator[dict[str, Scene]]:
    namespace = control_plane.plane.namespace(unused_name("hands"))
    make_runtimes(control_plane, namespace)
    yield play(control_plane, namespace, CASES)
    control_plane.api.delete("Namespace", namespace)


@pytest.mark.parametrize("case", CASES)
def test_case(played: dict[str, Scene], case: str) -> None:
    check(played[case])


def test_namespace_is_deleted(control_plane: Cluster, cluster_namespace: str) -> None:
    make_runtimes(control_plane, cluster_namespace)
    check(play(control_plane, cluster_namespace, HOMELESS)["homeless"])
