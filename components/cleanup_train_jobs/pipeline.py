"""An example pipeline: whatever becomes of it, no training of it goes on afterwards.

Run it on this machine with ``.venv-kfp/bin/python -m components.cleanup_train_jobs.pipeline``.
"""

from kfp import dsl, local

from trainer_ops.kfp import cleanup_train_jobs, submit_train_job


@dsl.component(base_image="python:3.11", install_kfp_package=False)
def meanwhile(fails: bool):
    """Something that is done while the training runs, and may fail."""
    if fails:
        raise ValueError("something else went wrong")


@dsl.pipeline(name="tidy")
def tidy(fails: bool = False, target: str = ""):
    """Submit a training that nobody waits for."""
    cleanup = cleanup_train_jobs(target=target)
    cleanup.set_caching_options(False)
    with dsl.ExitHandler(cleanup):
        begun = submit_train_job(runtime="plain", command=["sleep", "600"], target=target)
        begun.set_caching_options(False)
        meanwhile(fails=fails).after(begun).set_caching_options(False)


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="local_outputs", raise_on_error=True)
    tidy()
