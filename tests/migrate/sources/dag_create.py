"""Trains a language model every night."""

from datetime import datetime

from airflow import DAG
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.operators.resource import KubernetesCreateResourceOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sensors.base import BaseSensorOperator
from airflow.sensors.python import PythonSensor
from kubernetes import client, config

IMAGE = "registry.example/language:3"

JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: language-{{ ds_nodash }}
  namespace: research
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              image: registry.example/language:3
              command: [python, train.py, --day, "{{ ds }}"]
    Worker:
      replicas: 3
      template:
        spec:
          containers:
            - name: pytorch
              image: registry.example/language:3
              command: [python, train.py, --day, "{{ ds }}"]
"""


class PyTorchJobSensor(BaseSensorOperator):
    def __init__(self, name, **kwargs):
        super().__init__(**kwargs)
        self.name = name

    def poke(self, context):
        config.load_incluster_config()
        job = client.CustomObjectsApi().get_namespaced_custom_object(
            "kubeflow.org", "v1", "research", "pytorchjobs", self.name
        )
        conditions = job.get("status", {}).get("conditions", [])
        return any(c["type"] == "Succeeded" and c["status"] == "True" for c in conditions)


def finished():
    job = client.CustomObjectsApi().get_namespaced_custom_object(
        group="kubeflow.org", version="v1", namespace="research", plural="tfjobs", name="digits"
    )
    return job["status"]["replicaStatuses"]["Worker"].get("succeeded")


with DAG("language", start_date=datetime(2026, 1, 1)) as dag:
    create = KubernetesCreateResourceOperator(
        task_id="create", yaml_conf=JOB, custom_resource_definition=True, retries=2
    )
    wait = PyTorchJobSensor(task_id="wait", name="language-{{ ds_nodash }}", timeout=3600)
    digits = KubernetesCreateResourceOperator(
        task_id="digits", yaml_conf_file="jobs/digits-tfjob.yaml", custom_resource_definition=True
    )
    digits_done = PythonSensor(task_id="digits_done", python_callable=finished, poke_interval=30)
    launcher = KubernetesPodOperator(
        task_id="launcher",
        image="bitnami/kubectl:1.30",
        cmds=["sh", "-c"],
        arguments=["kubectl apply -f /jobs/mpijob.yaml && kubectl wait mpijob/sim --for=condition=Succeeded"],
    )
    clean = BashOperator(task_id="clean", bash_command="kubectl delete pytorchjob language -n research")
    unrelated = BashOperator(task_id="unrelated", bash_command="echo pytorchjobs are gone")
    create >> wait >> clean
