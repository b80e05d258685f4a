"""Retrain on a schedule, and put the model into use only when it is better than the one in use.

snapshot → decide (skip when data and code are what the champion was made from) → train → evaluate on held-out rows, the
champion too → promote by a margin, keep N; the exit handler leaves no training behind. The same as the DAG
``dags/scheduled_retraining.py``, with the same script and by the same rules. On this machine:

    python dags/scripts/retrain_digits.py data /tmp/digits                # data to train on
    .venv-kfp/bin/python -m components.scheduled_retraining.pipeline /tmp/digits /tmp/champions
    cat /tmp/champions/champion.json

``python -m components.scheduled_retraining.pipeline`` without arguments compiles it to pipeline.yaml.
"""

import sys
from pathlib import Path

from kfp import compiler, dsl, local

from trainer_ops.kfp import cleanup_train_jobs, decide_retraining, initialize_dataset, promote_model, train_job

HERE = Path(__file__).parent
SCRIPT = HERE.parents[1] / "dags" / "scripts" / "retrain_digits.py"


# A pipeline of its own: KFP's local runner takes a condition on a pipeline's input, but not on a task's output by name.
@dsl.pipeline(name="when-there-is-something-new")
def when_new(
    new: bool,
    plan: dict,  # type: ignore[type-arg]
    champion_uri: str,
    snapshot: dict,  # type: ignore[type-arg]
    script_uri: str,
    registry: str,
    runtime: str,
    models: str,
    rounds: int,
    metric: str,
    margin: float,
    keep: int,
    copy: bool,
    target: str,
):
    """Train, evaluate, promote; or nothing."""
    job = {"runtime": runtime, "script_uri": script_uri, "num_nodes": 1, "target": target, "dataset_snapshot": snapshot}
    with dsl.If(new == True, name="something-new"):  # noqa: E712 - it is the pipeline's own ==
        train = train_job(args=["train"], env={"ROUNDS": rounds}, checkpoint_dir=models, **job)
        train.set_display_name("train").set_caching_options(False)
        measured = {"MODEL_URI": train.outputs["model_uri"], "CHAMPION_URI": champion_uri}
        evaluate = train_job(args=["evaluate"], env=measured, **job)
        evaluate.set_display_name("evaluate").set_caching_options(False)
        found = {"model_uri": train.outputs["model_uri"], "outcome": evaluate.outputs["outcome"], "note": snapshot}
        rule = {"metric": metric, "margin": margin, "keep": keep, "copy": copy}
        promote_model(registry=registry, plan=plan, **found, **rule).set_caching_options(False)


@dsl.pipeline(name="scheduled-retraining", description="Trains when there is something new, promotes what is better.")
def scheduled_retraining(
    data: str,
    script_uri: str,
    registry: str,
    store: str = "",
    secret_ref: str = "",
    runtime: str = "xgboost-distributed",
    models: str = "",
    rounds: int = 20,
    metric: str = "accuracy",
    margin: float = 0.005,
    keep: int = 5,
    copy: bool = True,
    force: bool = False,
    target: str = "",
):
    """One round; a recurring run makes it a schedule (trainer_ops.kfp.schedule)."""
    cleanup = cleanup_train_jobs(target=target)
    cleanup.set_caching_options(False)
    with dsl.ExitHandler(cleanup, name="retraining"):
        taken = initialize_dataset(uri=data, to=store, secret_ref=secret_ref, target=target)
        taken.set_caching_options(False)
        snapshot = taken.outputs["snapshot"]
        made_from = {"snapshot": snapshot, "script_uri": script_uri}
        plan = decide_retraining(registry=registry, settings={"rounds": rounds}, force=force, **made_from)
        plan.set_caching_options(False)
        job = {"runtime": runtime, "models": models, "rounds": rounds, "target": target}
        rule = {"metric": metric, "margin": margin, "keep": keep, "copy": copy}
        decided = {name: plan.outputs[name] for name in ("plan", "champion_uri")}
        when_new(new=plan.outputs["train"], registry=registry, **decided, **made_from, **job, **rule)


def compile_to(path: Path) -> None:
    """Write the compiled pipeline."""
    compiler.Compiler().compile(scheduled_retraining, str(path))


if __name__ == "__main__":
    if len(sys.argv) == 1:
        compile_to(HERE / "pipeline.yaml")
    else:
        local.init(local.SubprocessRunner(use_venv=False), pipeline_root="local_outputs", raise_on_error=True)
        folder, champions = (Path(given).absolute().as_uri() for given in sys.argv[1:])
        scheduled_retraining(data=folder, script_uri=str(SCRIPT), registry=champions)
