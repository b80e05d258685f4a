"""An example pipeline: one snapshot of a dataset, read by a training, looked at by a step of one's own.

Run it on this machine with ``.venv-kfp/bin/python -m components.initialize_dataset.pipeline FOLDER``.
"""

import sys
from pathlib import Path

from kfp import dsl, local

from trainer_ops.kfp import initialize_dataset, train_job


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def describe(data: dsl.Input[dsl.Dataset]) -> str:
    """Say what was taken; on this machine the artifact's path is the folder of the files."""
    import os

    names = sorted(os.listdir(data.path))
    text = f"{data.metadata['files']:.0f} files, {data.metadata['digest'][:15]}, the first is {names[0]}"
    print(text)
    return text


@dsl.pipeline(name="digits-from-a-snapshot")
def from_a_snapshot(uri: str, revision: str = "", target: str = "") -> str:
    """Fetch once, train on it."""
    data = initialize_dataset(uri=uri, revision=revision, target=target)
    data.set_caching_options(False)
    train = train_job(
        runtime="plain",
        command=["sh", "-c", 'cat "$TRAINER_OPS_DATASET_DIR"/*.csv | wc -l'],
        dataset=data.outputs["dataset"],
        target=target,
    )
    train.set_caching_options(False)
    said = describe(data=data.outputs["dataset"])
    said.set_caching_options(False)
    return said.output


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="local_outputs", raise_on_error=True)
    print(from_a_snapshot(uri=Path(sys.argv[1]).absolute().as_uri()).output)
