"""Runtimes that nobody ships, each with what the shipped ones leave out, and TrainJobs for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["ODD", "Odd"]

Raw = dict[str, Any]
IMAGE = "example.com/image"
PET = [{"name": "SEEN", "value": "$(PET_NNODES)/$(JOB_COMPLETION_INDEX)/$(A)"}]


@dataclass(frozen=True)
class Odd:
    """One runtime, one TrainJob.

    Attributes:
        runtime: ``spec`` of the runtime.
        spec: ``spec`` of the TrainJob, without its runtimeRef.
        sizes: pods of each step.
    """

    runtime: Raw
    spec: Raw
    sizes: dict[str, int]


def job(name: str, *, ancestor: str = "", pod: Raw | None = None, meta: Raw | None = None, **more: Any) -> Raw:
    """One replicatedJob whose container ``node`` has these fields beside the others of the pod."""
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor} if ancestor else {}
    group = more.pop("groupName", None)
    parallelism = more.pop("parallelism", None)
    depends = more.pop("dependsOn", None)
    node = {"name": "node", "image": IMAGE, **more}
    spec: Raw = {"template": {"metadata": meta or {}, "spec": {"containers": [node, *(pod or {}).pop("sidecars", [])]}}}
    spec["template"]["spec"].update(pod or {})
    if parallelism:
        spec.update({"parallelism": parallelism, "completions": parallelism})
    made: Raw = {"name": name, "template": {"metadata": {"labels": labels}, "spec": spec}}
    return {**made, **({"groupName": group} if group else {}), **({"dependsOn": depends} if depends else {})}


def runtime(policy: Raw | None, *jobs: Raw, **template: Any) -> Raw:
    """``spec`` of a runtime."""
    policy_part = {} if policy is None else {"mlPolicy": policy}
    return {**policy_part, "template": {"spec": {"replicatedJobs": list(jobs), **template}}}


def patch(step: str, pod: Raw) -> Raw:
    """``runtimePatches`` for the pods of one step."""
    jobs = [{"name": step, "template": {"spec": {"template": pod}}}]
    return {"manager": "test.example/odd", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


CPU: Raw = {"resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": "4"}}}
GPU: Raw = {"resources": {"requests": {"nvidia.com/gpu": 3}, "limits": {"nvidia.com/gpu": 3}}}
RUN = {"command": ["train"], "env": [{"name": "A", "value": "job"}, *PET]}
MPI = {"mpiImplementation": "OpenMPI", "sshAuthMountPath": "/root/.ssh"}

ODD: dict[str, Odd] = {
    "torch-defaults": Odd(
        runtime(
            {"numNodes": 3, "torch": {}},
            job(
                "node",
                ancestor="trainer",
                env=[{"name": "A", "value": "runtime"}, {"name": "B", "value": "$(A)"}],
                **CPU,
            ),
        ),
        {"trainer": RUN},
        {"node": 3},
    ),
    "torch-subdomain-and-groups": Odd(
        runtime(
            {"numNodes": 1, "torch": {}},
            job("helper", command=["help"], groupName="helpers", parallelism=2),
            job("node", ancestor="trainer", groupName="workers"),
            network={"subdomain": "other-name"},
        ),
        {"trainer": {**RUN, "numNodes": 2}},
        {"helper": 2, "node": 2},
    ),
    "torch-sidecar-and-init": Odd(
        runtime(
            {
                "numNodes": 2,
                "torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["check", "side"]}]}},
            },
            job(
                "node",
                ancestor="trainer",
                meta={"labels": {"team": "a"}, "annotations": {"note": "n"}},
                pod={
                    "initContainers": [{"name": "check", "image": IMAGE, "command": ["check", "$(PET_NODE_RANK)"]}],
                    "sidecars": [{"name": "side", "image": IMAGE, "command": ["side"], "env": PET}],
                },
            ),
        ),
        {
            "trainer": {"command": ["train", "$(TEAM)"], "env": [{"name": "TEAM", "value": "x"}]},
            "runtimePatches": [
                patch(
                    "node",
                    {
                        "metadata": {"labels": {"team": "b", "extra": "1"}},
                        "spec": {"containers": [{"name": "side", "env": [{"name": "P", "value": "$(SEEN)"}]}]},
                    },
                ),
                {
                    **patch(
                        "node",
                        {
                            "spec": {
                                "containers": [
                                    {
                                        "name": "side",
                                        "env": [{"name": "SEEN", "value": "1"}, {"name": "Q", "value": "$(P)"}],
                                    },
                                    {"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                                ],
                                "volumes": [{"name": "data", "emptyDir": {}}],
                            }
                        },
                    ),
                    "manager": "test.example/more",
                },
            ],
        },
        {"node": 2},
    ),
    "torch-without-spec-trainer": Odd(
        runtime({"numNodes": 2, "torch": {}}, job("node", ancestor="trainer", command=["train"], env=PET)),
        {},
        {"node": 2},
    ),
    "jax-own-env": Odd(
        runtime({"numNodes": 2, "jax": {}}, job("node", ancestor="trainer", env=PET)),
        {
            "trainer": {
                **RUN,
                "env": [{"name": "SEEN", "value": "$(JAX_PROCESS_ID)"}, {"name": "JAX_PROCESS_ID", "value": "9"}],
            }
        },
        {"node": 2},
    ),
    "xgboost-gpus-of-the-runtime": Odd(
        runtime({"numNodes": 2, "xgboost": {}}, job("node", ancestor="trainer", **GPU)),
        {"trainer": {"command": ["train"]}},
        {"node": 2},
    ),
    "torch-gpus-of-the-runtime": Odd(
        runtime({"numNodes": 1, "torch": {}}, job("node", ancestor="trainer", **GPU)),
        {"trainer": {"command": ["train"], "numNodes": 2}},
        {"node": 2},
    ),
    "torch-resources-merged": Odd(
        runtime({"numNodes": 1, "torch": {}}, job("node", ancestor="trainer", **CPU)),
        {
            "trainer": {
                "command": ["train"],
                "resourcesPerNode": {"limits": {"memory": "1Gi"}},
                "env": [{"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
            }
        },
        {"node": 1},
    ),
    "no-policy": Odd(
        runtime(None, job("node", ancestor="trainer", parallelism=2, env=PET)),
        # Trainer gives resources to the pods only where there is an mlPolicy.
        {
            "trainer": {
                "command": ["train"],
                "resourcesPerNode": {"limits": {"memory": "1Gi"}},
                "env": [{"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}}],
            }
        },
        {"node": 2},
    ),
    "no-policy-sized": Odd(
        runtime(None, job("node", ancestor="trainer", parallelism=2)), {"trainer": {**RUN, "numNodes": 3}}, {"node": 3}
    ),
    "empty-policy": Odd(
        runtime({}, job("node", ancestor="trainer", parallelism=2)),
        {"trainer": {**RUN, "resourcesPerNode": {"limits": {"cpu": "2"}}}},
        {"node": 1},
    ),
    "policy-without-source": Odd(
        runtime({"numNodes": 3}, job("node", ancestor="trainer")), {"trainer": RUN}, {"node": 3}
    ),
    "mpi-slots-of-the-runtime": Odd(
        runtime(
            {"numNodes": 1, "mpi": {**MPI, "numProcPerNode": 4, "runLauncherAsNode": False}},
            job("node", command=["/usr/sbin/sshd"], args=["-De"], parallelism=2, env=[{"name": "A", "value": "node"}]),
            job("launcher", ancestor="trainer", env=PET, dependsOn=[{"name": "node", "status": "Ready"}]),
            successPolicy={"operator": "All", "targetReplicatedJobs": ["launcher"]},
        ),
        {"trainer": {**RUN, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 2}}}},
        {"node": 2, "launcher": 1},
    ),
    "mpi-gpus-of-the-runtime": Odd(
        runtime(
            {"numNodes": 1, "mpi": {**MPI, "numProcPerNode": 1, "runLauncherAsNode": True}},
            job("launcher", ancestor="trainer", **CPU),
            job("node", command=["/usr/sbin/sshd"], args=["-De"], **GPU),
            network={"subdomain": "mpi-net"},
            successPolicy={"operator": "All", "targetReplicatedJobs": ["launcher"]},
        ),
        {"trainer": {**RUN, "numNodes": 3}},
        {"node": 2, "launcher": 1},
    ),
}
