"""What Airflow is told about this package when it looks for providers. Stdlib only: it runs before Airflow is ready.

Airflow calls ``get_provider_info`` in every one of its processes, through the entry point of the same name, and
checks the answer against its ``provider_info.schema.json``.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CONN_TYPE", "get_provider_info"]

PACKAGE = "trainer-ops"
INTEGRATION = "Kubeflow Trainer"
CONN_TYPE = "trainer-local"
# The fields of Airflow's own connection form that mean nothing for a folder on this machine.
_HIDDEN = ["host", "schema", "login", "password", "port", "extra"]


def get_provider_info() -> dict[str, Any]:
    """The provider's description; the connection form is declared here, without a form library (Airflow 3.2)."""
    return {
        "package-name": PACKAGE,
        "name": "Kubeflow Trainer (trainer-ops)",
        "description": "Kubeflow Trainer v2 TrainJobs as tasks, on a cluster or on this machine.",
        "integrations": [
            {
                "integration-name": INTEGRATION,
                "external-doc-url": "https://www.kubeflow.org/docs/components/trainer/",
                "tags": ["software"],
            }
        ],
        "operators": [
            {
                "integration-name": INTEGRATION,
                "python-modules": [
                    "trainer_ops.airflow.operators",
                    "trainer_ops.airflow.initializers",
                    "trainer_ops.airflow.actions",
                    "trainer_ops.airflow.retraining",
                ],
            }
        ],
        "sensors": [{"integration-name": INTEGRATION, "python-modules": ["trainer_ops.airflow.sensors"]}],
        "hooks": [{"integration-name": INTEGRATION, "python-modules": ["trainer_ops.airflow.hook"]}],
        "triggers": [
            {
                "integration-name": INTEGRATION,
                "python-modules": [
                    "trainer_ops.airflow.triggers",
                    "trainer_ops.airflow.snapshot_trigger",
                    "trainer_ops.airflow.waits",
                    "trainer_ops.airflow.events",
                ],
            }
        ],
        "notifications": ["trainer_ops.airflow.notifier.WebhookNotifier"],
        "task-decorators": [{"name": "trainjob", "class-name": "trainer_ops.airflow.decorators.trainjob_task"}],
        "connection-types": [
            {
                "connection-type": CONN_TYPE,
                "hook-class-name": "trainer_ops.airflow.hook.TrainerHook",
                "hook-name": "Trainer on this machine",
                "conn-fields": {
                    "root": {
                        "label": "Root folder",
                        "schema": {"type": ["string", "null"]},
                        "description": "Where trainings are kept. The same folder for worker, triggerer and terminal. "
                        "A relative one is under AIRFLOW_HOME; empty means the user's own state folder.",
                    },
                    "max_jobs": {
                        "label": "Trainings at once",
                        "schema": {"type": ["integer", "null"], "minimum": 1},
                        "description": "More wait in a queue. Empty means as many as the engine thinks right.",
                    },
                },
                "ui-field-behaviour": {
                    "hidden-fields": _HIDDEN,
                    "relabeling": {},
                    "placeholders": {"root": "/var/lib/trainer-ops", "max_jobs": "2"},
                },
            }
        ],
    }
