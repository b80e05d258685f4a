"""v1 jobs for hypothesis: a kind, a seed, and a set of features, each of which adds one thing that its schema has.

A feature is a function of a source of numbers and the whole job, registered with ``@feature(...)``: for all kinds, or
for those it names. Hypothesis chooses the set, so that a failure shrinks to the features that matter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from trainer_ops.migrate.kinds import KINDS, Kind

__all__ = ["FEATURES", "feature", "jobs", "mains", "mangled", "pods"]

Job = dict[str, Any]
Feature = Callable[[random.Random, Job], None]

FEATURES: dict[str, tuple[Feature, frozenset[str]]] = {}
_ALL = frozenset(kind.name for kind in KINDS.values())
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("python", "train.py"),
    ("python3", "-u", "-m", "pkg.train"),
    ("torchrun", "train.py"),
    ("torchrun", "--nnodes=$(WORLD_SIZE)", "--node_rank", "$(RANK)", "t.py"),
    ("python", "-m", "torch.distributed.launch", "--nproc_per_node=2", "t.py"),
    ("accelerate", "launch", "--machine_rank", "$(RANK)", "t.py"),
    ("deepspeed", "t.py"),
    ("sh", "-c", "cd /w && torchrun --master_addr=$MASTER_ADDR t.py"),
    ("bash", "-c", "set -e\npip install x\nexec python t.py --init tcp://job-master-0:23456 # why"),
    ("bash", "run.sh"),
    ("mpirun", "-np", "2", "--allow-run-as-root", "python", "t.py"),
    ("sleep", "infinity"),
    (),
)


def feature(*kinds: str) -> Callable[[Feature], Feature]:
    """Register a feature: of these kinds, of all when none is named."""

    def register(function: Feature) -> Feature:
        FEATURES[function.__name__.lstrip("_")] = (function, frozenset(kinds) or _ALL)
        return function

    return register


def jobs(kind: Kind, *, most: int = 8) -> st.SearchStrategy[Job]:
    """Jobs of a kind with up to so many features."""
    names = sorted(name for name, (_, kinds) in FEATURES.items() if kind.name in kinds)
    return st.builds(_make, st.just(kind), st.integers(0, 2**32), st.frozensets(st.sampled_from(names), max_size=most))


def mangled(kind: Kind) -> st.SearchStrategy[Job]:
    """Jobs of which something is of a type that no schema has there."""
    return st.builds(_mangle, jobs(kind, most=4), st.integers(0, 2**32))


def pods(job: Job) -> Iterator[dict[str, Any]]:
    """The pod specs of all roles."""
    for role in roles(job).values():
        yield role["template"]["spec"]


def mains(job: Job) -> Iterator[dict[str, Any]]:
    """The containers with the code of all roles."""
    for pod in pods(job):
        yield pod["containers"][0]


def roles(job: Job) -> dict[str, Any]:
    """The replica specs."""
    found: dict[str, Any] = next(held for name, held in job["spec"].items() if name.endswith("ReplicaSpecs"))
    return found


def _make(kind: Kind, seed: int, names: frozenset[str]) -> Job:
    rng = random.Random(seed)
    names_of_roles = [name for name in kind.roles if rng.random() < 0.75] or [kind.roles[-1]]
    command = list(rng.choice(_COMMANDS))
    held = {}
    for name in names_of_roles:
        container: dict[str, Any] = {"name": kind.container or "main", "image": "example.com/train:1"}
        if command:
            container["command"] = command
        replicas = 1 if name in ("Master", "Chief", "Launcher") else rng.randint(1, 4)
        held[name] = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
    job: Job = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": "job"},
        "spec": {kind.replica_specs: held},
    }
    for name in sorted(names):
        FEATURES[name][0](rng, job)
    return job


def _mangle(job: Job, seed: int) -> Job:
    rng = random.Random(seed)
    holders = list(_holders(job))
    for _ in range(rng.randint(1, 3)):
        holder, key = rng.choice(holders)
        holder[key] = rng.choice([None, "", "x", 0, -1, 1.5, True, [], {}, [None], {"a": None}, [1, "a"], [{}], "$(A)"])
    return job


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(item, dict | list):
            yield from _holders(item)


def _some(rng: random.Random, job: Job) -> list[dict[str, Any]]:
    """The pods of all roles, or of one."""
    found = list(pods(job))
    return found if rng.random() < 0.7 else [rng.choice(found)]


def _some_mains(rng: random.Random, job: Job) -> list[dict[str, Any]]:
    return [pod["containers"][0] for pod in _some(rng, job)]


@feature()
def _roles_in_other_spelling(rng: random.Random, job: Job) -> None:
    held = roles(job)
    for name in list(held):
        held[rng.choice([name.lower(), name.upper(), name])] = held.pop(name)


@feature()
def _replicas_left_out(rng: random.Random, job: Job) -> None:
    rng.choice(list(roles(job).values())).pop("replicas")


@feature()
def _no_replicas(rng: random.Random, job: Job) -> None:
    rng.choice(list(roles(job).values()))["replicas"] = 0


@feature()
def _restart_policy(rng: random.Random, job: Job) -> None:
    policy = rng.choice(["OnFailure", "Never", "Always", "ExitCode"])
    for role in roles(job).values():
        role["restartPolicy"] = policy


@feature()
def _run_policy(rng: random.Random, job: Job) -> None:
    values: dict[str, Any] = {
        "cleanPodPolicy": rng.choice(["None", "Running", "All"]),
        "ttlSecondsAfterFinished": rng.choice([0, 60]),
        "activeDeadlineSeconds": rng.choice([1, 3600]),
        "backoffLimit": rng.choice([0, 1, 6]),
        "suspend": rng.choice([True, False]),
        "managedBy": rng.choice(["kubeflow.org/training-operator", "example.com/x"]),
    }
    chosen = {name: values[name] for name in rng.sample(sorted(values), rng.randint(0, 3))}
    flat = {name: value for name, value in chosen.items() if name not in ("suspend", "managedBy")}
    if rng.random() < 0.3:
        job["spec"].update(flat)
    job["spec"]["runPolicy"] = chosen


@feature()
def _scheduling_policy(rng: random.Random, job: Job) -> None:
    values: dict[str, Any] = {
        "minAvailable": rng.randint(1, 6),
        "queue": "q",
        "priorityClass": "high",
        "minResources": {"cpu": "2"},
        "scheduleTimeoutSeconds": rng.choice([0, 30]),
    }
    chosen = {name: values[name] for name in rng.sample(sorted(values), rng.randint(0, 4))}
    job["spec"].setdefault("runPolicy", {})["schedulingPolicy"] = chosen


@feature()
def _metadata(rng: random.Random, job: Job) -> None:
    values: dict[str, Any] = {
        "labels": {
            "kueue.x-k8s.io/queue-name": "q",
            "app.kubernetes.io/name": "x",
            "training.kubeflow.org/job-name": "j",
        },
        "annotations": {"scheduling.volcano.sh/queue-name": "q", "note": "a: b\n# c"},
        "namespace": "team",
        "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}],
        "finalizers": ["a/b"],
        "uid": "u",
        "creationTimestamp": None,
    }
    job["metadata"].update({name: values[name] for name in rng.sample(sorted(values), rng.randint(1, 4))})


@feature()
def _name(rng: random.Random, job: Job) -> None:
    if rng.random() < 0.3:
        job["metadata"].pop("name")
        job["metadata"]["generateName"] = "job-"
    else:
        job["metadata"]["name"] = rng.choice(["a" * 63, "9x", "x" * 47, "a-b-c", "UPPER.case"])


@feature()
def _status(rng: random.Random, job: Job) -> None:
    job["status"] = {"conditions": [{"type": "Created", "status": "True"}], "replicaStatuses": {}}


@feature()
def _pod_metadata(rng: random.Random, job: Job) -> None:
    for role in roles(job).values():
        labels = {"app": rng.choice(["a", "b"]), "training.kubeflow.org/replica-type": "worker"}
        role["template"]["metadata"] = {"labels": labels, "annotations": {"sidecar.istio.io/inject": "false"}}


@feature()
def _fields_of_patches(rng: random.Random, job: Job) -> None:
    values: dict[str, Any] = {
        "serviceAccountName": "trainer",
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "imagePullSecrets": [{"name": "a"}, {"name": "b"}],
        "securityContext": {"runAsUser": 1000, "fsGroup": 1000},
        "terminationGracePeriodSeconds": rng.choice([30, 60]),
        "serviceAccount": "old",
    }
    for pod in _some(rng, job):
        pod.update({name: values[name] for name in rng.sample(sorted(values), 3)})


@feature()
def _fields_of_runtimes(rng: random.Random, job: Job) -> None:
    values: dict[str, Any] = {
        "schedulerName": rng.choice(["default-scheduler", "volcano", "mine"]),
        "priorityClassName": "high",
        "hostNetwork": rng.choice([True, False]),
        "dnsPolicy": rng.choice(["ClusterFirst", "Default"]),
        "shareProcessNamespace": True,
        "runtimeClassName": "nvidia",
        "automountServiceAccountToken": False,
        "hostname": "h",
        "restartPolicy": "Never",
        "nodeName": "n",
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"training.kubeflow.org/job-name": "job"}},
            }
        ],
    }
    for pod in _some(rng, job):
        pod.update({name: values[name] for name in rng.sample(sorted(values), 3)})


@feature()
def _affinity(rng: random.Random, job: Job) -> None:
    key = rng.choice(["job-name", "replica-type"])
    selector = {"matchExpressions": [{"key": f"training.kubeflow.org/{key}", "operator": "In", "values": ["job"]}]}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    for pod in _some(rng, job):
        pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [dict(term)]}}


@feature()
def _empty_fields(rng: random.Random, job: Job) -> None:
    for pod in _some(rng, job):
        pod.update(nodeSelector={}, tolerations=[], affinity=None, initContainers=[])
        pod["containers"][0].update(args=[], env=[], resources={}, livenessProbe=None)


@feature()
def _volumes(rng: random.Random, job: Job) -> None:
    twice = rng.random() < 0.3
    for pod in _some(rng, job):
        pod["volumes"] = [{"name": "d", "emptyDir": {}}, {"name": "p", "persistentVolumeClaim": {"claimName": "c"}}]
        mounts = [{"name": "d", "mountPath": "/d"}, {"name": "p", "mountPath": "/p", "readOnly": True}]
        if twice:
            mounts.append({"name": "d", "mountPath": "/e", "subPath": "e"})
        pod["containers"][0]["volumeMounts"] = mounts


@feature()
def _sidecar(rng: random.Random, job: Job) -> None:
    name = rng.choice(["node", "logs"])
    for pod in _some(rng, job):
        pod["containers"].append({"name": name, "image": "example.com/side:1", "command": ["tail", "-f", "/x"]})


@feature()
def _init_container(rng: random.Random, job: Job) -> None:
    native = {"restartPolicy": "Always"} if rng.random() < 0.5 else {}
    for pod in _some(rng, job):
        command = ["sh", "-c", "until nslookup job-master-0; do sleep 1; done"]
        pod["initContainers"] = [{"name": "wait", "image": "example.com/w:1", "command": command, **native}]


@feature()
def _env(rng: random.Random, job: Job) -> None:
    values: list[dict[str, Any]] = [
        {"name": "A", "value": rng.choice(["1", "", "true", "$(RANK)", "$$(B)", "job-worker-0.team.svc"])},
        {"name": "A", "value": "again"},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {
            "name": rng.choice(["RANK", "MASTER_PORT", "PYTHONUNBUFFERED", "PET_NNODES", "PET_MASTER_PORT"]),
            "value": "3",
        },
        {"name": "EMPTY"},
    ]
    chosen = rng.sample(values, rng.randint(1, 5))
    for main in _some_mains(rng, job):
        main["env"] = [dict(item) for item in chosen]


@feature()
def _many_items(rng: random.Random, job: Job) -> None:
    for main in _some_mains(rng, job):
        if rng.random() < 0.5:
            main["args"] = [f"--n={i}" for i in range(rng.choice([2, 130]))]
        else:
            main["env"] = [{"name": f"V{i}", "value": str(i)} for i in range(rng.choice([126, 130]))]


@feature()
def _resources(rng: random.Random, job: Job) -> None:
    device = rng.choice(["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb", "aws.amazon.com/neuron"])
    held: dict[str, Any] = {"limits": {device: rng.choice([1, "2"]), "memory": "1Gi"}}
    if rng.random() < 0.5:
        held["requests"] = {"cpu": "500m", "memory": "1Gi"}
    for main in _some_mains(rng, job):
        main["resources"] = held


@feature()
def _container_fields(rng: random.Random, job: Job) -> None:
    values: dict[str, Any] = {
        "imagePullPolicy": rng.choice(["Always", "IfNotPresent", "Never"]),
        "workingDir": "/w",
        "tty": rng.choice([True, False]),
        "terminationMessagePolicy": rng.choice(["File", "FallbackToLogsOnError"]),
        "securityContext": {"privileged": True},
        "ports": [{"name": "web", "containerPort": 80}, {"name": "pytorchjob-port", "containerPort": 23456}],
        "envFrom": [{"configMapRef": {"name": "c"}}],
        "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 5},
        "args": ["--a", "b c", "$(RANK)"],
    }
    for main in _some_mains(rng, job):
        main.update({name: values[name] for name in rng.sample(sorted(values), 3)})


@feature()
def _other_container_name(rng: random.Random, job: Job) -> None:
    for main in _some_mains(rng, job):
        main["name"] = "trainer"


@feature()
def _unknown_fields(rng: random.Random, job: Job) -> None:
    rng.choice([job["spec"], *pods(job), *mains(job)])["surprise"] = {"deep": [1, {"x": None}]}


@feature("PyTorchJob")
def _nproc(rng: random.Random, job: Job) -> None:
    job["spec"]["nprocPerNode"] = rng.choice(["auto", "gpu", "cpu", "2", "1", "0", "$N", "x"])


@feature("PyTorchJob")
def _elastic(rng: random.Random, job: Job) -> None:
    values: dict[str, Any] = {
        "minReplicas": rng.randint(1, 3),
        "maxReplicas": rng.randint(1, 3),
        "maxRestarts": 3,
        "rdzvBackend": rng.choice(["c10d", "etcd"]),
        "rdzvHost": rng.choice(["job-worker-0", "etcd"]),
        "rdzvPort": 2379,
        "rdzvId": "i",
        "rdzvConf": [{"key": "a", "value": "b"}],
        "standalone": rng.choice([True, False]),
        "nProcPerNode": 2,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}],
    }
    job["spec"]["elasticPolicy"] = {name: values[name] for name in rng.sample(sorted(values), rng.randint(0, 5))}
