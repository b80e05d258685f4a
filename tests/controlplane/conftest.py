"""The control plane's own tests use its fixtures."""

from __future__ import annotations

from tests.controlplane.fixtures import cluster_namespace, control_plane, v1_operators
from tests.controlplane.trainings import cluster_target

__all__ = ["cluster_namespace", "cluster_target", "control_plane", "v1_operators"]
