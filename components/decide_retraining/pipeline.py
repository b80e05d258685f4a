"""An example pipeline: is there anything new to learn?

Run it on this machine with ``.venv-kfp/bin/python -m components.decide_retraining.pipeline DATA CHAMPIONS``.
"""

import sys
from pathlib import Path

from kfp import dsl, local

from trainer_ops.kfp import decide_retraining, initialize_dataset


@dsl.pipeline(name="anything-new")
def anything_new(uri: str, registry: str, rounds: int = 20, target: str = "") -> str:
    """Say whether a training on these data, with these settings, would be another one than the champion's."""
    data = initialize_dataset(uri=uri, target=target)
    data.set_caching_options(False)
    plan = decide_retraining(registry=registry, snapshot=data.outputs["snapshot"], settings={"rounds": rounds})
    plan.set_caching_options(False)
    return plan.outputs["reason"]


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="local_outputs", raise_on_error=True)
    data, champions = (Path(given).absolute().as_uri() for given in sys.argv[1:])
    print(anything_new(uri=data, registry=champions).output)
