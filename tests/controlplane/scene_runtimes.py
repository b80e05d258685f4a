"""TrainingRuntimes that the scenes train with, beside the shipped ones: restart nothing, or all, or fetch first."""

from __future__ import annotations

from typing import Any

from tests.controlplane.fixtures import Cluster

__all__ = ["AGAIN", "FETCHING", "NEVER", "make_runtimes"]

NEVER = "never"
"""What fails stays failed: restartPolicy Never, no back-off."""
AGAIN = "again"
"""JobSet makes all pods anew, twice."""
FETCHING = "fetching"
"""A dataset and a model initializer, then the nodes."""


def _job(name: str, ancestor: str, script: str = "", **more: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": "example.com/image"}
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if script:
        # Trainer 2.3 refuses an initializer without a volume of this name.
        container |= {
            "command": ["sh", "-c", script],
            "volumeMounts": [{"name": "initializer", "mountPath": "/workspace"}],
        }
        pod["volumes"] = [{"name": "initializer", "emptyDir": {}}]
    return {
        "name": name,
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor}},
            "spec": {"backoffLimit": 0, "template": {"spec": pod}},
        },
        **more,
    }


def _runtime(name: str, namespace: str, *jobs: dict[str, Any], **template: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "namespace": namespace, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": list(jobs), **template}},
        },
    }


def make_runtimes(cluster: Cluster, namespace: str) -> None:
    """Make them in a namespace; they go with it."""
    node = _job("node", "trainer")
    fetch = 'case "$STORAGE_URI" in *absent*) echo "Exception: $STORAGE_URI not found" >&2; exit 1;; esac'
    first = [{"name": f"{kind}-initializer", "status": "Complete"} for kind in ("dataset", "model")]
    for runtime in (
        _runtime(NEVER, namespace, node),
        _runtime(AGAIN, namespace, node, failurePolicy={"maxRestarts": 2}),
        _runtime(
            FETCHING,
            namespace,
            _job("dataset-initializer", "dataset-initializer", fetch),
            _job("model-initializer", "model-initializer", fetch),
            {**node, "dependsOn": first},
        ),
    ):
        cluster.api.create(runtime)
