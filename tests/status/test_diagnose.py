"""Why a training failed: the category is a contract, the sentence names the node, the remedy is concrete."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from trainer_ops.model.limits import Limits
from trainer_ops.model.outcome import Category, Diagnosis
from trainer_ops.model.phase import Phase

if TYPE_CHECKING:
    from tests.status.conftest import Scene

Pod = Callable[["Scene"], dict[str, Any]]
ACTIVE = {"node": "active=1"}


def diagnosis(
    scene: Scene,
    pod: Pod | None,
    *,
    tail: list[str] | None = None,
    node: str = "node-1",
    limits: Limits | None = None,
    reason: str = "FailedJobs",
) -> Diagnosis:
    """Of a training whose node was seen like this before it failed."""
    seen = scene.look(scene.job(rows=ACTIVE), *([pod(scene)] if pod else []))
    failed = scene.look(scene.job(scene.condition("Failed", reason=reason, message="first failed job: x")), at=99)
    wait, _ = scene.see(scene.begin(limits), seen, failed)
    found = wait.hear({node: tail or []}).outcome().diagnosis
    assert found is not None
    return found


def ends(code: int, reason: str = "", message: str = "", **more: Any) -> Pod:
    return lambda s: s.pod("node-1", s.ended(code, reason, message), **{"phase": "Failed", **more})


def disrupted(reason: str) -> Pod:
    return lambda s: s.pod(
        "node-1", s.ended(137), phase="Failed", conditions=[s.condition("DisruptionTarget", "True", reason, "moved")]
    )


START = "failed to create containerd task: runc create failed: unable to start container process: exec: no such file"

CASES: dict[str, tuple[Pod | None, Category, str, str]] = {
    "exit code": (ends(3), Category.EXIT_CODE, "the training script ended with exit code 3 on node-1", "log of node-1"),
    "not found (127)": (ends(127), Category.EXIT_CODE, "a command was not found", "command and args"),
    "not executable (126)": (ends(126), Category.EXIT_CODE, "cannot be run", "executable"),
    "signal by name": (ends(139), Category.EXIT_CODE, "SIGSEGV (exit code 139) on node-1", "native library"),
    "a negative code is a signal too": (ends(-11), Category.EXIT_CODE, "SIGSEGV (exit code -11)", "native library"),
    "a signal that has no name": (ends(-99), Category.EXIT_CODE, "signal 99 (exit code -99)", "log of node-1"),
    "255 is no signal": (ends(255), Category.EXIT_CODE, "exit code 255", "log of node-1"),
    "killed, nobody says why": (ends(137), Category.EXIT_CODE,
                                "SIGKILL (exit code 137) on node-1: it was killed, which may be memory", "memory"),
    "stopped from outside": (ends(143), Category.EXIT_CODE, "SIGTERM", "asked it to stop"),
    "out of memory": (ends(137, "OOMKilled"), Category.OUT_OF_MEMORY, "node-1 ran out of memory", "resources_per_node"),
    "out of memory in a child, cgroup v1": (ends(1, "OOMKilled"), Category.OUT_OF_MEMORY, "exit code 1", "more memory"),
    "command": (ends(128, "StartError", START), Category.CONFIG,
                "the command of node-1 cannot be started: exec: no such file", "command and args"),
    "evicted": (lambda s: s.pod("node-1", phase="Failed", reason="Evicted", message="low on resource: memory"),
                Category.EVICTED, "node-1 was evicted (Evicted: low on resource: memory)", "again"),
    "preempted by the scheduler": (disrupted("PreemptionByScheduler"), Category.EVICTED, "evicted", "priority_class"),
    "drained": (disrupted("EvictionByEvictionAPI"), Category.EVICTED, "evicted", "again"),
    "its machine did not answer": (disrupted("DeletionByTaintManager"), Category.NODE_LOST, "was lost", "again"),
    "its machine is gone": (disrupted("DeletionByPodGC"), Category.NODE_LOST, "was lost with its machine", "again"),
    "its machine shuts down": (lambda s: s.pod("node-1", s.ended(143), phase="Failed", reason="Terminated"),
                               Category.NODE_LOST, "was lost", "again"),
    "node lost": (lambda s: s.pod("node-1", phase="Failed", reason="NodeLost"), Category.NODE_LOST, "lost", "again"),
    "the machine forgot the container": (ends(137, "ContainerStatusUnknown"), Category.NODE_LOST, "was lost", "again"),
    "evicted, but it had failed by itself": (
        lambda s: s.pod("node-1", s.ended(3), phase="Failed", reason="Evicted"),
        Category.EXIT_CODE, "exit code 3", "log",
    ),
    "dataset": (
        lambda s: s.pod("dataset-initializer", s.ended(1), phase="Failed", container="dataset-initializer"),
        Category.INITIALIZER, "the dataset-initializer failed (exit code 1)", "the dataset's storage_uri",
    ),
    "model, out of memory": (
        lambda s: s.pod("model-initializer", s.ended(137, "OOMKilled"), phase="Failed"),
        Category.INITIALIZER, "the model-initializer failed (out of memory", "more memory",
    ),
    "launcher": (lambda s: s.pod("launcher", s.ended(5), phase="Failed"), Category.EXIT_CODE, "on launcher", "log"),
    "nothing was seen": (None, Category.UNKNOWN, "FailedJobs: first failed job: x", "restartPolicy Never"),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "category", "summary", "remedy"), CASES.values(), ids=CASES.keys())
def test_failure(scene: Scene, pod: Pod | None, category: Category, summary: str, remedy: str) -> None:
    found = diagnosis(scene, pod)
    assert found.category is category
    assert summary in found.summary
    assert remedy in found.remedy
    # JobSet's words are worth reading only where nothing better was seen.
    assert ("FailedJobs: first failed job: x" in found.evidence) == (pod is None)


LOGS: dict[str, tuple[list[str], Category, str]] = {
    "module": (["ModuleNotFoundError: No module named 'xgboost'"], Category.EXIT_CODE, "Add xgboost to packages"),
    "file": (
        ["FileNotFoundError: [Errno 2] No such file or directory: '/data/train.csv'"],
        Category.EXIT_CODE,
        "Check the path /data/train.csv:",
    ),
    "no pip": (
        ["trainer_ops: packages cannot be installed (a): this image has neither pip nor uv"],
        Category.EXIT_CODE,
        "Put pip (or uv) beside its python",
    ),
    "file, bare": (["FileNotFoundError: /data/train.csv"], Category.EXIT_CODE, "Check the path /data/train.csv:"),
    "GPU memory": (
        ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "E0000 agent failed"],
        Category.OUT_OF_MEMORY,
        "smaller batch",
    ),
    "rendezvous": (["RendezvousTimeoutError"], Category.EXIT_CODE, "did not find each other"),
    "store": (
        ["torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined."],
        Category.EXIT_CODE,
        "did not find each other",
    ),
    "NCCL": (
        ["[rank0]: ncclSystemError: System call (e.g. socket, malloc) failed"],
        Category.EXIT_CODE,
        "NCCL_DEBUG",
    ),
    "shared memory": (
        ["RuntimeError: DataLoader worker is killed by signal: Bus error."],
        Category.EXIT_CODE,
        "/dev/shm",
    ),
    "no GPU": (["RuntimeError: Found no NVIDIA driver on your system."], Category.EXIT_CODE, "Ask for GPUs"),
    "slots": (["There are not enough slots available in the system"], Category.EXIT_CODE, "mpirun"),
    "ssh as root": (["Permissions 0640 for '/root/.ssh/id_rsa' are too open."], Category.EXIT_CODE, "mode 0600"),
    "disk": (["OSError: [Errno 28] No space left on device"], Category.EXIT_CODE, "disk"),
    "gated": (["huggingface_hub.errors.GatedRepoError: 401 Client Error."], Category.EXIT_CODE, "token"),
    "environment": (["KeyError: 'WANDB_API_KEY'"], Category.EXIT_CODE, "Set WANDB_API_KEY in env"),
    "arguments": (["train.py: error: unrecognized arguments: --epoch 3"], Category.EXIT_CODE, "--epoch 3"),
    "syntax": (["SyntaxError: invalid syntax"], Category.EXIT_CODE, "Correct the code"),
    "the last known line decides": (
        ["ModuleNotFoundError: No module named 'a'", "ModuleNotFoundError: No module named 'b'", "bye"],
        Category.EXIT_CODE,
        "Add b to packages",
    ),
    "braces in a path": (["FileNotFoundError: '/data/{0}.csv'"], Category.EXIT_CODE, "/data/{0}.csv"),
    "unknown": (["ValueError: no"], Category.EXIT_CODE, "The last lines of its log say"),
}


@pytest.mark.parametrize(("tail", "category", "remedy"), LOGS.values(), ids=LOGS.keys())
def test_the_log_gives_a_better_remedy(scene: Scene, tail: list[str], category: Category, remedy: str) -> None:
    found = diagnosis(scene, ends(1), tail=tail)
    assert found.category is category
    assert remedy in found.remedy
    assert found.evidence[: len(tail)] == tuple(tail)


def test_by_the_condition_whatever_the_nodes_say(scene: Scene) -> None:
    found = diagnosis(scene, ends(3), reason="DeadlineExceeded")
    assert found.category is Category.DEADLINE
    assert "active_deadline_seconds" in found.summary
    assert diagnosis(scene, None, reason="TrainingRuntimeNotSupported").category is Category.RUNTIME_MISSING
    assert diagnosis(scene, ends(137, "ContainerStatusUnknown"), reason="SupervisorLost").category is Category.NODE_LOST


def test_a_reason_that_no_version_knew_is_told_as_it_is(scene: Scene) -> None:
    found = diagnosis(scene, None, reason="SomethingNew")
    assert (found.category, found.summary) == (Category.UNKNOWN, "train failed (SomethingNew: first failed job: x)")


USED_UP: dict[str, tuple[int | None, int, Category]] = {
    "no limit was set": (None, 6, Category.EXIT_CODE),
    "no restarts allowed": (0, 0, Category.EXIT_CODE),
    "not used up": (3, 2, Category.EXIT_CODE),
    "used up": (2, 2, Category.RESTARTS_EXHAUSTED),
}


@pytest.mark.parametrize(("limit", "restarts", "category"), USED_UP.values(), ids=USED_UP.keys())
def test_restarts_of_a_training_that_failed_by_itself(
    scene: Scene, limit: int | None, restarts: int, category: Category
) -> None:
    """As the embedded engine ends it: the node's pod is final, and the TrainJob is Failed."""
    found = diagnosis(scene, ends(3, restarts=restarts), limits=Limits(max_restarts=limit))
    assert found.category is category
    assert "exit code 3 on node-1" in found.summary


def test_restarts_of_siblings_are_not_counted_together(scene: Scene) -> None:
    pods = [scene.pod(f"node-{i}", scene.ended(3), phase="Failed", restarts=1) for i in range(2)]
    wait, _ = scene.see(
        scene.begin(Limits(max_restarts=2)),
        scene.look(scene.job(rows=ACTIVE), *pods),
        scene.look(scene.job(scene.condition("Failed", reason="FailedJobs")), at=99),
    )
    found = wait.outcome().diagnosis
    assert found is not None
    assert found.category is Category.EXIT_CODE
    assert "max_restarts" not in found.summary


def stopped(scene: Scene, limit: int, state: dict[str, Any], node: str = "node-1") -> Diagnosis:
    pod = scene.pod(node, state, restarts=limit, phase="Running")
    wait, _ = scene.see(scene.begin(Limits(max_restarts=limit)), scene.look(scene.job(rows=ACTIVE), pod))
    assert wait.outcome().phase is Phase.FAILED
    found = wait.outcome().diagnosis
    assert found is not None
    return found


def test_stopped_for_its_restarts(scene: Scene) -> None:
    found = stopped(scene, 2, scene.ended(3))
    assert found.category is Category.RESTARTS_EXHAUSTED
    assert found.summary == (
        "the training script ended with exit code 3 on node-1; "
        "max_restarts=2 was reached and the training was cancelled"
    )
    assert found.evidence == ("node-1: exit code 3, after 2 restarts",)


def test_stopped_at_the_first_failure_is_that_failure(scene: Scene) -> None:
    found = stopped(scene, 0, scene.ended(3))
    assert found.category is Category.EXIT_CODE
    assert found.summary.endswith("max_restarts=0: the training was cancelled")
    assert stopped(scene, 0, scene.ended(137, "OOMKilled")).category is Category.OUT_OF_MEMORY


def test_stopped_with_a_remedy_for_what_failed(scene: Scene) -> None:
    found = stopped(scene, 1, scene.ended(137, "OOMKilled"))
    assert found.category is Category.RESTARTS_EXHAUSTED
    assert "memory" in found.remedy


def test_an_initializer_that_was_stopped_is_named(scene: Scene) -> None:
    found = stopped(scene, 1, scene.ended(1), "dataset-initializer")
    assert found.category is Category.INITIALIZER
    assert "max_restarts=1 was reached" in found.summary


def test_a_report_of_metrics_is_no_evidence(scene: Scene) -> None:
    found = diagnosis(scene, ends(3, message='{"metrics": {"loss": 1}}'))
    assert not any("loss" in line for line in found.evidence)


def test_evidence_is_in_order_and_leaves_out_what_only_follows_from_it(scene: Scene) -> None:
    pod = scene.pod("node-1", scene.ended(3, message="boom"), phase="Failed")
    events = [scene.event("Job/train-node-0", "BackoffLimitExceeded", "Job has reached the specified backoff limit")]
    failed = scene.job(scene.condition("Failed", reason="FailedJobs", message="x"), rows={"node": "failed=1"})
    wait, _ = scene.see(scene.begin(), scene.look(failed, pod, events=events))
    found = wait.hear({"node-0": ["fine"], "node-1": ["Traceback", "", "ValueError: no"]}).outcome().diagnosis
    assert found is not None
    assert found.evidence == (
        "Traceback",
        "ValueError: no",
        "node-1: exit code 3",
        "node-1: boom",
    )


def test_who_may_not_read_pods_is_told(scene: Scene) -> None:
    look = scene.look(
        scene.job(scene.condition("Failed", reason="FailedJobs", message="first failed job: x")),
        at=99,
        unreadable=frozenset({"events", "pods"}),
    )
    wait, _ = scene.see(scene.begin(), look)
    assert type(wait).from_json(wait.to_json()) == wait
    found = wait.outcome().diagnosis
    assert found is not None
    assert found.summary == "train failed (FailedJobs: first failed job: x); how its nodes ended is not known here"
    assert "may not read pods" in found.remedy
