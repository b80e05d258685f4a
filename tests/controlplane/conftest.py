"""The control plane's own tests use its fixtures."""

from __future__ import annotations

from tests.controlplane.fixtures import cluster_namespace, control_plane

__all__ = ["cluster_namespace", "control_plane"]
