"""An example pipeline: train, and put the model into use if it is better than the one in use.

Run it on this machine with ``.venv-kfp/bin/python -m components.promote_model.pipeline CHAMPIONS``.
"""

import sys
from pathlib import Path

from kfp import dsl, local

from trainer_ops.kfp import decide_retraining, promote_model, train_from_function


def guess(quality: float) -> dict:  # type: ignore[type-arg]
    """A training whose result is known before; an evaluation is a step of its own otherwise."""
    import tempfile
    from pathlib import Path

    file = Path(tempfile.mkdtemp()) / "model.txt"
    file.write_text(str(quality))
    return {"metrics": {"accuracy": quality}, "model_uri": file.as_uri()}


@dsl.pipeline(name="better-or-not")
def better_or_not(registry: str, quality: float = 0.9, target: str = "") -> str:
    """Train and compare; gives one line for a person."""
    plan = decide_retraining(registry=registry, settings={"quality": quality})
    plan.set_caching_options(False)
    train = train_from_function(guess, kwargs={"quality": quality}, runtime="plain", target=target)
    train.set_caching_options(False)
    promote = promote_model(
        registry=registry,
        plan=plan.outputs["plan"],
        model_uri=train.outputs["model_uri"],
        outcome=train.outputs["outcome"],
        margin=0.01,
    )
    promote.set_caching_options(False)
    return promote.outputs["text"]


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="local_outputs", raise_on_error=True)
    print(better_or_not(registry=Path(sys.argv[1]).absolute().as_uri()).output)
