"""An example pipeline: submit, do something else meanwhile, wait.

Run it on this machine with ``.venv-kfp/bin/python -m components.submit_train_job.pipeline``.
"""

from kfp import dsl, local

from trainer_ops.kfp import submit_train_job, wait_train_job


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def prepare(seconds: int) -> str:
    """Something else that takes its time."""
    import time

    time.sleep(seconds)
    return "prepared"


@dsl.pipeline(name="meanwhile")
def meanwhile(target: str = "") -> str:
    """Train while something else is prepared; gives the TrainJob's model URI."""
    begun = submit_train_job(
        runtime="plain", command=["sh", "-c", "sleep 1; echo trained"], num_nodes=1, wait_timeout=600, target=target
    )
    begun.set_caching_options(False)
    prepare(seconds=0).after(begun).set_caching_options(False)
    ended = wait_train_job(ref=begun.outputs["ref"])
    ended.set_caching_options(False)
    return ended.outputs["model_uri"]


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="local_outputs", raise_on_error=True)
    meanwhile()
