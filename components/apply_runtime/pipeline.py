"""An example pipeline: the runtime comes with the pipeline that needs it.

Run it on this machine with ``.venv-kfp/bin/python -m components.apply_runtime.pipeline``.
"""

from kfp import dsl, local

from trainer_ops.kfp import apply_runtime, train_job

_POD = {"containers": [{"name": "node", "image": "python:3.11", "command": ["echo", "of the runtime"]}]}
_LABELS = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
_NODE = {"name": "node", "template": {"metadata": {"labels": _LABELS}, "spec": {"template": {"spec": _POD}}}}
RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "teams-own", "labels": {"trainer.kubeflow.org/framework": "plain"}},
    "spec": {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [_NODE]}}},
}


@dsl.pipeline(name="with-its-runtime")
def with_its_runtime(target: str = "") -> str:
    """Apply the runtime, then train on it; gives what was done to the runtime."""
    ready = apply_runtime(runtime=RUNTIME, target=target)
    ready.set_caching_options(False)
    train = train_job(runtime=ready.outputs["name"], target=target)
    train.set_caching_options(False)
    return ready.outputs["how"]


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False), pipeline_root="local_outputs", raise_on_error=True)
    print(with_its_runtime().output)
