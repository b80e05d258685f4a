"""Code: what Python, pipelines and scripts do with v1 jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trainer_ops.migrate.explain.entry import Explained

__all__ = ["IN_CODE"]

IN_CODE: Final[Mapping[str, Explained]] = {
    "AIRFLOW-CREATE": Explained(
        "KubernetesCreateResourceOperator, or an operator of one's own, makes the job and is done when it exists.",
        "TrainJobOperator makes the TrainJob and waits for it, in the triggerer when deferrable.",
        "A failed training is a green task; a task that is killed leaves its training behind.",
        "Take the operator that the report prints, with the names filled in, and leave the sensor behind it out.",
        'TrainJobOperator(task_id="train", manifest="digits.yaml", deferrable=True)',
    ),
    "AIRFLOW-POD": Explained(
        "A pod with kubectl or a launcher made the job and waited in a loop.",
        "No pod is needed: the operator speaks with the API server itself.",
        "The pod needs an image and rights of its own, holds resources while it waits, and its kubectl names kinds "
        "that are gone.",
        "TrainJobOperator in its place; TrainJobSensor or DeleteTrainJobsOperator where it only waited or deleted.",
    ),
    "AIRFLOW-WAIT": Explained(
        "A sensor looked for a condition of type Succeeded.",
        "A TrainJob has Complete and Failed, with status True when it holds.",
        "The sensor waits until its time-out, and does not see failures.",
        "Leave it out behind TrainJobOperator. TrainJobSensor waits for what something else started, and says why it "
        "failed.",
        'TrainJobSensor(task_id="wait", name="digits", deferrable=True)',
    ),
    "API-CALL": Explained(
        "CustomObjectsApi with the group kubeflow.org, version v1 and a plural such as pytorchjobs.",
        "The group is trainer.kubeflow.org, the version v1alpha1, the plural trainjobs; the object has other fields.",
        "404 when the old CRDs are gone; before that, jobs that nothing runs any more.",
        "trainer_ops.submit, wait, logs and cancel do the whole, with retries, results and reasons.",
        """
        import trainer_ops

        outcome = trainer_ops.run(manifest=trainjob, key="digits")
        print(outcome.succeeded, outcome.diagnosis)
        """,
    ),
    "JOB-IN-CODE": Explained(
        "The job stands in a string or a dict, often with holes that the code fills in.",
        "It is converted with what is known without running the code. Holes are carried to where their values go.",
        "A hole in a number that the result needs to calculate with cannot be carried: PLACEHOLDER.",
        "Write the converted text in its place. <name> in it is an expression of the code around.",
    ),
    "KFP-LAUNCHER": Explained(
        "The components pytorch-launcher and launcher took the roles of a job as JSON, made the job, waited and "
        "deleted it.",
        "They were removed from kubeflow/pipelines. trainer_ops.kfp.train_job takes a whole TrainJob, gives the "
        "result, the metrics and the model, and is cancelled with its run.",
        "Pipelines that load them by URL do not compile any more; compiled ones make jobs that nothing runs.",
        "Take the steps that the report prints. delete_after_done is cleanup_train_jobs; job_timeout_minutes is "
        "activeDeadlineSeconds of the TrainJob.",
        issues=("pipelines #13481",),
    ),
    "KFP-RESOURCE": Explained(
        "dsl.ResourceOp of KFP 1 created an object and waited for an expression over its status.",
        "KFP 2 has no such step. train_job does it, and knows what the status means.",
        "The pipeline cannot be compiled by KFP 2.",
        "Take the steps that the report prints.",
    ),
    "KUBECTL": Explained(
        "Scripts create, wait for, read and delete pytorchjobs by kubectl.",
        "The resource is trainjobs.trainer.kubeflow.org, and the condition Complete.",
        "kubectl wait --for=condition=Succeeded never returns; get and delete find nothing.",
        "trainer-ops run, wait, logs, status and cancel, with exit codes that tell how it ended.",
        "kubectl wait trainjob/digits --for=condition=Complete --timeout=2h",
    ),
    "SDK-CALL": Explained(
        "TrainingClient of kubeflow.training, with a method for each thing to do with a job.",
        "Trainer's own SDK has another client with other methods; this project has run, submit, wait, logs and cancel.",
        "The calls fail, or make jobs that nothing runs any more.",
        "Take the call that the report prints. v1 gave a shipped function all parameters as one mapping; here they are "
        "keyword arguments.",
        """
        outcome = trainer_ops.run(python_callable=train, python_kwargs={"rate": 0.1},
                                  runtime="torch-distributed", num_nodes=4)
        """,
    ),
    "SDK-MODEL": Explained(
        "KubeflowOrgV1PyTorchJob and its like say a job in Python.",
        "Where all of it can be seen in the file it is converted; else the finished object has to be.",
        "The classes are gone with the package.",
        "Print the object once as YAML and migrate that.",
        "print(json.dumps(ApiClient().sanitize_for_serialization(job)))",
    ),
    "SDK-TRAIN": Explained(
        "TrainingClient.train fetched a model and a dataset from Hugging Face and trained with a container of its own, "
        "made of transformers' Trainer and LoRA settings.",
        "Trainer's counterpart is torchtune: other settings, other defaults, other results.",
        "There is no conversion that would train the same.",
        "Ship the training script yourself; model= and dataset= fetch, or initializer steps do it once for many.",
        """
        trainer_ops.run(script="fine_tune.py", runtime="torch-distributed", num_nodes=2,
                        model="hf://google-bert/bert-base-cased", dataset="hf://datasets/org/reviews")
        """,
    ),
    "STATUS-READ": Explained(
        "Conditions were Created, Running, Restarting, Succeeded and Failed; replicaStatuses counted pods by role.",
        "Conditions are Suspended, Complete and Failed, each of which may be there with status False. jobsStatus "
        "counts pods by replicated job. There is no Running.",
        "Code that looks for Succeeded never sees the end; code that takes any condition for the truth sees failures "
        "that are none.",
        "trainer_ops.wait knows all of it. By hand, look for the type and for status True.",
        'any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)',
    ),
}
