"""Train with a function of this file: ``@task.trainjob``.

The function runs alone, on every node: it imports what it needs inside, its arguments and what it returns are plain
data. Called like any task, it takes other tasks' results, and ``expand`` maps it. On this machine:

    export AIRFLOW_CONN_TRAINING='trainer-local:///tmp/trainings'
    airflow dags test train_function

On a cluster the runtime's image must have what the function imports, or ``packages=["scikit-learn"]`` brings it.
"""

from datetime import datetime, timezone

from airflow.sdk import dag, task


@task
def seeds(params=None) -> list[int]:
    return list(range(params["trials"]))


@task.trainjob(conn_id="training", runtime="torch-distributed", runner="python", num_nodes=1, deferrable=True)
def fit(seed: int, trees: int) -> dict[str, float]:
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    data, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(data, labels, random_state=seed, stratify=labels)
    forest = RandomForestClassifier(trees, random_state=seed).fit(train_x, train_y)
    accuracy = forest.score(test_x, test_y)
    print(f"seed {seed}: {trees} trees, accuracy {accuracy:.3f}", flush=True)
    return {"accuracy": round(float(accuracy), 4), "seed": seed}


@task
def summary(trained: list[dict[str, float]]) -> str:
    scores = [one["accuracy"] for one in trained]
    line = f"accuracy {sum(scores) / len(scores):.3f} on average of {len(scores)}, {min(scores):.3f} at worst"
    print(line)
    return line


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    params={"trials": 3, "trees": 50},
    render_template_as_native_obj=True,  # so that "{{ params.trees }}" arrives as a number
    tags=["trainer-ops"],
)
def train_function() -> None:
    summary(fit.partial(trees="{{ params.trees }}").expand(seed=seeds()))


train_function()
