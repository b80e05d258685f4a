"""The example DAG in a real Airflow: scheduler, worker and triggerer are processes, everything is asked by REST."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_digits_dag_trains_deferred_on_two_nodes(airflow: Any) -> None:
    run_id = airflow.trigger("digits", {"rounds": 12})
    assert airflow.wait_run("digits", run_id) == "success", airflow.log("digits", run_id, "train")

    outcome = airflow.xcom("digits", run_id, "train")
    assert outcome["phase"] == "succeeded"
    assert outcome["metrics"]["accuracy"] > 0.85
    assert airflow.xcom("digits", run_id, "train", "accuracy") == outcome["metrics"]["accuracy"]
    assert airflow.xcom("digits", run_id, "train", "model_uri") == outcome["model_uri"]
    assert airflow.xcom("digits", run_id, "report").startswith(f"accuracy {outcome['metrics']['accuracy']:.3f}")

    log = airflow.log("digits", run_id, "train")
    assert "Pausing task as DEFERRED" in log
    assert "[node-0] round 12  mlogloss" in log  # written by the triggerer, shown on the task's page
    assert "[node-1] round 12  mlogloss" in log
    assert log.count("[node-1] round 12  mlogloss") == 1
