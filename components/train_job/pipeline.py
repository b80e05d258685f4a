"""An example pipeline: train a digits classifier on two nodes, then use what came out.

Run it on this machine with ``.venv-kfp/bin/python -m components.train_job.pipeline``.
"""

from kfp import dsl, local

from trainer_ops.kfp import train_job


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def announce(accuracy_from: dsl.Input[dsl.Metrics], model: dsl.Input[dsl.Model]) -> str:
    """Say what was trained."""
    text = f"accuracy {accuracy_from.metadata['accuracy']:.3f}, model of {model.metadata['trainjob']}"
    print(text)
    return text


@dsl.pipeline(name="digits")
def digits(script_uri: str, rounds: int = 10, target: str = "") -> str:
    """Train on two nodes and announce the accuracy."""
    train = train_job(
        runtime="xgboost-distributed",
        script_uri=script_uri,
        num_nodes=2,
        args=["--rounds", rounds],
        max_restarts=0,
        target=target,
    )
    train.set_caching_options(False)
    said = announce(accuracy_from=train.outputs["metrics"], model=train.outputs["model"])
    said.set_caching_options(False)
    return said.output


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="local_outputs", raise_on_error=True)
    print(digits(script_uri="dags/scripts/train_digits.py", rounds=10).output)
