"""An example pipeline: one snapshot of a model, which two trainings start from.

Run it on this machine with ``.venv-kfp/bin/python -m components.initialize_model.pipeline FOLDER``.
"""

import sys
from pathlib import Path

from kfp import dsl, local

from trainer_ops.kfp import initialize_model, train_from_function


def tune(factor: float) -> dict:  # type: ignore[type-arg]
    """Go on from the model's weight."""
    import os
    from pathlib import Path

    weight = float((Path(os.environ["TRAINER_OPS_MODEL_DIR"]) / "weight.txt").read_text())
    return {"weight": weight * factor}


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def best(first: dsl.Input[dsl.Metrics], second: dsl.Input[dsl.Metrics]) -> float:
    """The larger weight."""
    return max(first.metadata["weight"], second.metadata["weight"])


@dsl.pipeline(name="two-from-one-model")
def two_from_one_model(uri: str, target: str = "") -> float:
    """Fetch once, start twice: once by artifact, once by parameter."""
    base = initialize_model(uri=uri, target=target)
    base.set_caching_options(False)
    half = train_from_function(
        tune, kwargs={"factor": 0.5}, runtime="plain", base_model=base.outputs["model"], target=target
    )
    twice = train_from_function(
        tune, kwargs={"factor": 2.0}, runtime="plain", base_model_snapshot=base.outputs["snapshot"], target=target
    )
    half.set_caching_options(False)
    twice.set_caching_options(False)
    found = best(first=half.outputs["metrics"], second=twice.outputs["metrics"])
    found.set_caching_options(False)
    return found.output


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="local_outputs", raise_on_error=True)
    print(two_from_one_model(uri=Path(sys.argv[1]).absolute().as_uri()).output)
