"""A pipeline of KFP that launches a PyTorchJob by the component of old."""

import json

import kfp
from kfp import components, dsl

launch = components.load_component_from_url(
    "https://raw.githubusercontent.com/kubeflow/pipelines/1.8.0/components/kubeflow/pytorch-launcher/component.yaml"
)
launch_tf = kfp.components.load_component_from_file("components/kubeflow/launcher/component.yaml")


@dsl.pipeline(name="language")
def language(workers: int = 3, namespace: str = "research"):
    pod = {
        "metadata": {"annotations": {"sidecar.istio.io/inject": "false"}},
        "spec": {
            "containers": [
                {"name": "pytorch", "image": "registry.example/language:3", "command": ["torchrun", "train.py"]}
            ]
        },
    }
    launch(
        name="language",
        namespace=namespace,
        master_spec=json.dumps({"replicas": 1, "restartPolicy": "OnFailure", "template": pod}),
        worker_spec={"replicas": 2, "restartPolicy": "OnFailure", "template": pod},
        job_timeout_minutes=120,
        delete_after_done=False,
    )
    launch_tf(name="tf", worker_spec={"replicas": workers, "template": {"spec": {"containers": [
        {"name": "tensorflow", "image": "registry.example/tf:1", "command": ["python", "t.py"]}]}}})
    dsl.ResourceOp(
        name="direct",
        k8s_resource={
            "apiVersion": "kubeflow.org/v1",
            "kind": "XGBoostJob",
            "metadata": {"name": "trees"},
            "spec": {"xgbReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": {"containers": [
                {"name": "xgboost", "image": "registry.example/trees:1", "args": ["--job_type=Train"]}]}}}}},
        },
        success_condition="status.replicaStatuses.Master.succeeded == 1",
    )
