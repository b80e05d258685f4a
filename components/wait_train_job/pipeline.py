"""An example pipeline: wait for a training that somebody else has submitted, by its name.

Run it on this machine with ``.venv-kfp/bin/python -m components.wait_train_job.pipeline NAME``.
"""

import sys

from kfp import dsl, local

from trainer_ops.kfp import wait_train_job


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def announce(outcome: dict) -> str:  # type: ignore[type-arg]
    """Say how it ended."""
    text = f"{outcome['name']}: {outcome['phase']}"
    print(text)
    return text


@dsl.pipeline(name="follow")
def follow(name: str, target: str = "") -> str:
    """Wait, then say how it ended."""
    ended = wait_train_job(name=name, target=target, wait_timeout=7200)
    ended.set_caching_options(False)
    said = announce(outcome=ended.outputs["outcome"])
    said.set_caching_options(False)
    return said.output


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="local_outputs", raise_on_error=True)
    print(follow(name=sys.argv[1]).output)
