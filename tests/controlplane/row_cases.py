"""How each row of the decision table is reached on the real control plane.

``CASES`` are played together by ``test_rows``; those of the rows for which a controller has to stand still are in
``test_rows_paused``. Row 0, the memory of a Wait, is ``test_rows``' own. "By hand" means that the test writes what a
kubelet, a scheduler or a person would have written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.controlplane.scene_runtimes import AGAIN, FETCHING
from tests.controlplane.scenes import Case, Ends, Scene, sh
from trainer_ops.model import keys
from trainer_ops.model.identity import JobRef
from trainer_ops.model.outcome import Category
from trainer_ops.model.phase import Phase

__all__ = ["CASES", "INSECURE", "STOCK", "TRAINED", "manifest", "stuck"]

STOCK = "torch-distributed"
LOG = "${TRAINER_OPS_RESULT_PATH:-/dev/termination-log}"
RESULT = {"metrics": {"accuracy": 0.5}, "model_uri": "s3://models/digits"}
TRAINED = Ends(Phase.SUCCEEDED)


def stuck(
    category: Category, *says: str, remedy: str = "", proof: tuple[str, ...] = (), phase: Phase = Phase.PENDING
) -> Ends:
    """A limit of the wait ended it; the training is left alone, and the summary says so."""
    return Ends(phase, category, (*says, "left alone"), proof, remedy)


# -- what befalls them ------------------------------------------------------------------------------------------------


def runs_and_ends(scene: Scene) -> None:
    pods = scene.pods(2)
    scene.now(Phase.PENDING)
    for pod in pods:
        scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    scene.hand.ended(pods[0], 0, message=json.dumps(RESULT))
    scene.hand.ended(pods[1], 0)


def flaky(scene: Scene) -> None:
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    scene.hand.ended(pod, 7, final=False)
    scene.now(Phase.FAILING, "exit code 7")
    scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    scene.hand.ended(pod, 7, final=False)
    scene.hand.crash_loop(pod)
    scene.now(Phase.RESTARTING, "exit code 7")
    scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    scene.hand.ended(pod, 0)


def unseen(scene: Scene) -> None:
    """The wait blocks before its second look, until all is over."""
    scene.story.until("a look", lambda story: story.looks > 0)
    scene.story.halt(scene.clock)
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.hand.ended(pod, 0)
    scene.wait_for("Complete", lambda: _condition(scene, "Complete"))
    scene.story.go_on()


def _condition(scene: Scene, type_: str) -> bool:
    job = scene.api.get("TrainJob", scene.job, namespace=scene.namespace) or {}
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(c["type"] == type_ and c["status"] == "True" for c in conditions)


def made_late(scene: Scene) -> None:
    scene.now(Phase.NOT_OBSERVED)
    scene.api.create(manifest(scene, "made-late"))
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.hand.ended(pod, 0)


def killed_for_memory(scene: Scene) -> None:
    scene.now(Phase.RUNNING)
    (pod,) = scene.pods()
    scene.wait_for("a kill", lambda: scene.cluster.kubelet.oom(scene.namespace, pod["metadata"]["name"]))


def evicted(scene: Scene) -> None:
    scene.now(Phase.RUNNING)
    (pod,) = scene.pods()
    scene.cluster.kubelet.evict(scene.namespace, pod["metadata"]["name"])


def evicted_and_replaced(scene: Scene) -> None:
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    scene.hand.evicted(pod)
    scene.now(Phase.FAILING, "evicted")
    (again,) = scene.pods()
    assert again["metadata"]["uid"] != pod["metadata"]["uid"]
    scene.hand.running(again)
    scene.now(Phase.RUNNING)
    scene.hand.ended(again, 0)


def image_by_hand(scene: Scene) -> None:
    (pod,) = scene.pods()
    scene.hand.image_error(pod, "dial tcp: lookup registry.example on 10.0.0.10:53: no such host", back_off=False)
    scene.now(Phase.PENDING, "ErrImagePull")
    scene.hand.image_error(pod, "dial tcp: lookup registry.example on 10.0.0.10:53: no such host")
    scene.outlast(Phase.PENDING, "no such host")


def waits_for(text: str, phase: Phase = Phase.PENDING) -> Any:
    """It waits, is shown why, and the limit that counts then runs out."""
    return lambda scene: scene.outlast(phase, text)


def restarted_by_jobset(scene: Scene) -> None:
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    scene.hand.ended(pod, 3)
    scene.now(Phase.RESTARTING, "restart 1 of 2")
    (again,) = scene.pods()
    scene.hand.running(again)
    scene.now(Phase.RUNNING)
    scene.hand.ended(again, 0)


def fetches_and_trains(scene: Scene) -> None:
    (dataset,), (model,) = scene.pods(step="dataset-initializer"), scene.pods(step="model-initializer")
    scene.hand.running(dataset)
    scene.hand.running(model)
    scene.now(Phase.INITIALIZING, "dataset-initializer and model-initializer")
    scene.hand.ended(dataset, 0)
    scene.now(Phase.INITIALIZING, "model-initializer: running")
    scene.hand.ended(model, 0)
    (pod,) = scene.pods(step="node")
    scene.now(Phase.PENDING)
    scene.hand.running(pod)
    scene.hand.ended(pod, 0)


def fetches_for_ever(scene: Scene) -> None:
    for step in ("dataset-initializer", "model-initializer"):
        (pod,) = scene.pods(step=step)
        scene.hand.running(pod)
    scene.outlast(Phase.INITIALIZING, "dataset-initializer and model-initializer")


def suspended_for_long(scene: Scene) -> None:
    (pod,) = scene.pods()
    scene.hand.running(pod)
    scene.now(Phase.RUNNING)
    scene.suspend(True)
    scene.outlast(Phase.SUSPENDED)


def deleted_in_the_foreground(scene: Scene) -> None:
    (pod,) = scene.pods()
    _hold_back(scene, pod, ["test.example/hold"])
    scene.delete(propagationPolicy="Foreground")
    scene.now(Phase.DELETING)
    _hold_back(scene, pod, [])


def _hold_back(scene: Scene, pod: Mapping[str, Any], finalizers: list[str]) -> None:
    """A pod with a finalizer stays, deleted, until it has none."""
    body = {"metadata": {"finalizers": finalizers}}
    scene.api.patch("Pod", pod["metadata"]["name"], body, namespace=scene.namespace)


def never_made(scene: Scene) -> None:
    scene.outlast(Phase.NOT_OBSERVED, seconds=31)


# -- what they are ----------------------------------------------------------------------------------------------------


def manifest(scene: Scene, name: str) -> dict[str, Any]:
    """A TrainJob that knows nothing of this tool."""
    return {
        "apiVersion": keys.API_VERSION,
        "kind": keys.KIND,
        "metadata": {"name": name, "namespace": scene.namespace},
        "spec": {"runtimeRef": {"name": STOCK}, "trainer": {"command": ["true"]}},
    }


def _made_by_others(scene: Scene) -> JobRef:
    """Not through ``submit``, whose own check would refuse the name."""
    made = scene.api.create(manifest(scene, "x".ljust(50, "y")))
    return JobRef(scene.backend.target, scene.namespace, made["metadata"]["name"], made["metadata"]["uid"])


def _node_patch(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    job = {"name": "node", "template": {"spec": {"template": {"spec": dict(pod)}}}}
    return [{"manager": "test.example/rows", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}]


_VOLUME = {
    "volumes": [{"name": "c", "configMap": {"name": "absent-cm"}}],
    "containers": [{"name": "node", "volumeMounts": [{"name": "c", "mountPath": "/c"}]}],
}
_CLAIM = {
    "volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "absent-claim"}}],
    "containers": [{"name": "node", "volumeMounts": [{"name": "c", "mountPath": "/c"}]}],
}
_SECRET = {"valueFrom": {"secretKeyRef": {"name": "absent-secret", "key": "k"}}}
_BOTH = {"dataset": "hf://some/data", "model": "hf://some/model"}
_CRASH = sh(f"echo starting; echo boom >&2; echo 'loss is nan' > {LOG}; exit 3")
_ONE_FAILS = sh("if [ $PET_NODE_RANK = 1 ]; then echo 'node one broke'; exit 3; fi; sleep 300")
_LIMIT = {"startup_timeout": 900}

CASES: dict[str, Case] = {
    # -- the good ends
    "trains": Case("two pods run and end", (17, 18, 4), TRAINED, runs_and_ends, {"num_nodes": 2}, held=True),
    "short": Case("ends between two looks", (4,), TRAINED, unseen, held=True, own_thread=True),
    "flaky": Case(
        "by hand: fails twice in its pod, then ends well",
        (16, 11, 18, 4),
        TRAINED,
        flaky,
        {"runtime": STOCK},
        held=True,
    ),
    "jobset-again": Case(
        "JobSet's failurePolicy makes all pods anew",
        (18, 11, 4),
        TRAINED,
        restarted_by_jobset,
        {"runtime": AGAIN},
        held=True,
    ),
    "fetch": Case(
        "both initializers run, one ends before the other",
        (14, 15, 17, 4),
        TRAINED,
        fetches_and_trains,
        {"runtime": FETCHING, **_BOTH},
        held=True,
    ),
    "replaced-pod": Case(
        "by hand: evicted, and the Job makes another pod",
        (18, 16, 4),
        TRAINED,
        evicted_and_replaced,
        {"runtime": STOCK},
        held=True,
    ),
    # -- it fails
    "crash-loop": Case(
        "a stock runtime restarts it in its pod, then deletes the pod with its log",
        (11, 5),
        Ends(Phase.FAILED, Category.EXIT_CODE, ("exit code 3", "node-0"), ("boom", "loss is nan", "after 6 restarts")),
        asks={"runtime": STOCK, "command": _CRASH},
        seen=((Phase.RESTARTING, "exit code 3"),),
    ),
    "one-of-two": Case(
        "one node fails, the other has its grace period",
        (16, 5),
        Ends(Phase.FAILED, Category.EXIT_CODE, ("exit code 3", "node-1"), ("node one broke", "node-1: exit code 3")),
        asks={"command": _ONE_FAILS, "num_nodes": 2},
        seen=((Phase.FAILING, "node-1"),),
    ),
    "no-command": Case(
        "the command does not exist",
        (5,),
        Ends(Phase.FAILED, Category.CONFIG, ("cannot be started", "/no/such/binary"), remedy="Check command and args"),
        asks={"command": ["/no/such/binary"]},
    ),
    "oom": Case(
        "killed as the kernel does that is out of memory",
        (18, 5),
        Ends(Phase.FAILED, Category.OUT_OF_MEMORY, ("OOMKilled", "node-0"), ("OOMKilled",), "more memory"),
        killed_for_memory,
    ),
    "evicted": Case(
        "the node evicts its pod",
        (18, 5),
        Ends(Phase.FAILED, Category.EVICTED, ("node-0 was evicted",), ("low on resource: memory",), "Start it again"),
        evicted,
    ),
    "used-up": Case(
        "JobSet's restarts are used up",
        (11, 5),
        Ends(Phase.FAILED, Category.EXIT_CODE, ("exit code 4",), ("gone wrong",)),
        asks={"runtime": AGAIN, "command": sh("echo gone wrong; exit 4")},
    ),
    "deadline": Case(
        "active_deadline_seconds",
        (5,),
        Ends(Phase.FAILED, Category.DEADLINE, ("active_deadline_seconds",), remedy="Raise active_deadline_seconds"),
        asks={"active_deadline_seconds": 3},
    ),
    "no-data": Case(
        "the dataset initializer fails",
        (5,),
        Ends(
            Phase.FAILED,
            Category.INITIALIZER,
            ("dataset-initializer failed",),
            ("hf://absent/data not found",),
            "storage_uri",
        ),
        asks={"runtime": FETCHING, **_BOTH, "dataset": "hf://absent/data"},
    ),
    # -- it does not start
    "image": Case(
        "the registry has no such image",
        (17,),
        stuck(Category.IMAGE, "absent.example/x", "not found", remedy="Correct image"),
        waits_for("cannot be pulled: not found"),
        {"runtime": STOCK, "image": "absent.example/x:1", **_LIMIT},
    ),
    "no-registry": Case(
        "by hand: the registry's name is not known, ErrImagePull and then ImagePullBackOff",
        (17,),
        stuck(Category.IMAGE, "no such host", remedy="Correct image"),
        image_by_hand,
        {"image": "registry.example/x", **_LIMIT},
        held=True,
    ),
    "too-big": Case(
        "no node has 1000 CPUs, the scheduler says",
        (17,),
        stuck(
            Category.UNSCHEDULABLE,
            "0/2 nodes are available: 2 Insufficient cpu",
            proof=("Preemption is not helpful",),
            remedy="Ask for less",
        ),
        waits_for("Insufficient cpu"),
        {"resources_per_node": {"cpu": 1000}, **_LIMIT},
    ),
    "no-configmap": Case(
        "a ConfigMap that is not there, only an event tells",
        (17,),
        stuck(Category.CONFIG, 'configmap "absent-cm" not found', remedy="Make what is missing"),
        waits_for("absent-cm"),
        {"runtime_patches": _node_patch(_VOLUME), **_LIMIT},
    ),
    "no-secret": Case(
        "a Secret that is not there",
        (17,),
        stuck(Category.CONFIG, 'secret "absent-secret" not found', remedy="Make what is missing"),
        waits_for("absent-secret"),
        {"env": {"TOKEN": _SECRET}, **_LIMIT},
    ),
    "no-claim": Case(
        "a PersistentVolumeClaim that is not there, the scheduler says",
        (17,),
        stuck(
            Category.CONFIG, 'persistentvolumeclaim "absent-claim" not found', remedy="Make the PersistentVolumeClaim"
        ),
        waits_for("absent-claim"),
        {"runtime_patches": _node_patch(_CLAIM), **_LIMIT},
    ),
    "gated": Case(
        "a scheduling gate that nobody removes",
        (17,),
        stuck(Category.UNSCHEDULABLE, "scheduling gate", remedy="scheduling gate"),
        waits_for("scheduling gate"),
        {"runtime_patches": _node_patch({"schedulingGates": [{"name": "test.example/wait"}]}), **_LIMIT},
    ),
    "no-account": Case(
        "a ServiceAccount that is not there: the Job cannot make pods",
        (20,),
        stuck(Category.CONFIG, "serviceaccount", phase=Phase.SUBMITTED, remedy="Make the ServiceAccount"),
        waits_for("serviceaccount", Phase.SUBMITTED),
        {"runtime_patches": _node_patch({"serviceAccountName": "absent"}), **_LIMIT},
    ),
    "quota": Case(
        "the namespace's ResourceQuota allows no GPU",
        (20,),
        stuck(Category.QUOTA, "exceeded quota: no-gpus", phase=Phase.SUBMITTED, remedy="quota raised"),
        waits_for("exceeded quota", Phase.SUBMITTED),
        {"resources_per_node": {"nvidia.com/gpu": 1}, **_LIMIT},
    ),
    "name": Case(
        "a name that is too long for JobSet's webhook: the controller cannot create the JobSet",
        (12,),
        stuck(Category.ADMISSION, "vjobset.kb.io", phase=Phase.BLOCKED, remedy="shorter name"),
        waits_for("the controller cannot create it", Phase.BLOCKED),
        dict(_LIMIT),
        begin=_made_by_others,
    ),
    "slow-fetch": Case(
        "by hand: an initializer runs and runs",
        (14, 15),
        stuck(Category.INITIALIZER, "dataset-initializer", phase=Phase.INITIALIZING, remedy="Raise startup_timeout"),
        fetches_for_ever,
        {"runtime": FETCHING, **_BOTH, **_LIMIT},
        held=True,
    ),
    # -- it is held back
    "queued": Case(
        "suspended with a queue's label; no Kueue is there",
        (8,),
        stuck(Category.QUEUED_TOO_LONG, "team-queue", phase=Phase.QUEUED, remedy="Raise queue_timeout"),
        waits_for("team-queue", Phase.QUEUED),
        {"queue": "team-queue", "suspend": True, "queue_timeout": 3600},
    ),
    "elsewhere": Case(
        "managedBy MultiKueue: no controller here takes it up",
        (7,),
        stuck(Category.QUEUED_TOO_LONG, "MultiKueue", phase=Phase.EXTERNAL),
        waits_for("MultiKueue", Phase.EXTERNAL),
        {"managed_by": keys.MULTIKUEUE, "queue_timeout": 3600},
    ),
    "suspended": Case(
        "suspended by hand for longer than queue_timeout",
        (18, 9),
        stuck(Category.QUEUED_TOO_LONG, "suspended for longer", phase=Phase.SUSPENDED, remedy="Resume it"),
        suspended_for_long,
        {"queue_timeout": 3600},
        held=True,
    ),
    # -- it is not there
    "made-late": Case(
        "the wait begins before the TrainJob can be seen",
        (1, 4),
        TRAINED,
        made_late,
        held=True,
        begin=lambda scene: JobRef(scene.backend.target, scene.namespace, "made-late", ""),
    ),
    "foreground": Case(
        "deleted with Foreground while a pod takes its time",
        (6, 2),
        Ends(Phase.DELETED, Category.DELETED, ("was deleted before it ended",), alive=False),
        deleted_in_the_foreground,
        held=True,
    ),
    "never-made": Case(
        "a TrainJob that never comes, for longer than missing_grace",
        (1, 2),
        Ends(Phase.DELETED, Category.DELETED, alive=False),
        never_made,
        begin=lambda scene: JobRef(scene.backend.target, scene.namespace, "never-made", "no-such-uid"),
    ),
}

# Alone in a namespace that enforces "restricted".
INSECURE = {
    "insecure": Case(
        "the namespace's PodSecurity level refuses the pods",
        (20,),
        stuck(Category.ADMISSION, "violates PodSecurity", phase=Phase.SUBMITTED, remedy="securityContext"),
        waits_for("violates PodSecurity", Phase.SUBMITTED),
        dict(_LIMIT),
    )
}
