"""The real control plane for the tests of this folder that need it."""

from __future__ import annotations

from tests.controlplane.fixtures import cluster_namespace, control_plane

__all__ = ["cluster_namespace", "control_plane"]
