"""Starts a training from a function, and one from objects, by the old SDK."""

from kubeflow.training import (
    KubeflowOrgV1PyTorchJob,
    KubeflowOrgV1PyTorchJobSpec,
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    TrainingClient,
)
from kubeflow.training import constants
from kubernetes.client import V1Container, V1EnvVar, V1ObjectMeta, V1PodSpec, V1PodTemplateSpec

NAME = "digits"
IMAGE = "registry.example/digits:2"


def train(settings):
    import torch.distributed as dist

    dist.init_process_group("gloo")
    print(settings["rate"])


container = V1Container(
    name="pytorch",
    image=IMAGE,
    command=["torchrun", "train.py"],
    env=[V1EnvVar(name="RATE", value="0.1")],
)
template = V1PodTemplateSpec(spec=V1PodSpec(containers=[container]))
replicas = KubeflowOrgV1ReplicaSpec(replicas=2, restart_policy="OnFailure", template=template)
job = KubeflowOrgV1PyTorchJob(
    api_version=constants.API_VERSION,
    kind="PyTorchJob",
    metadata=V1ObjectMeta(name=NAME, namespace="research"),
    spec=KubeflowOrgV1PyTorchJobSpec(
        run_policy=KubeflowOrgV1RunPolicy(clean_pod_policy="None"),
        pytorch_replica_specs={"Worker": replicas},
    ),
)

client = TrainingClient(namespace="research")
client.create_job(job)
client.create_job(
    name="from-function",
    train_func=train,
    parameters={"rate": 0.1},
    num_workers=3,
    num_procs_per_worker=2,
    base_image=IMAGE,
    packages_to_install=["scikit-learn"],
    resources_per_worker={"cpu": 2, "gpu": 1},
    env_vars={"LOG": "debug"},
)
done = client.wait_for_job_conditions(NAME, expected_conditions={"Succeeded"}, wait_timeout=1200)
if client.is_job_succeeded(NAME):
    print(client.get_job_logs(NAME, follow=True))
print(client.get_job_pods(name=NAME, is_master=True))
client.delete_job(NAME)
other = TrainingClient(job_kind="TFJob")
print(other.list_jobs(), other.get_tfjob("old"), other.update_job(job, NAME))
