"""Recorded last states: what somebody who looks only once, or late, is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from trainer_ops.model.identity import JobRef
from trainer_ops.model.limits import Limits
from trainer_ops.model.observed import Observation
from trainer_ops.model.outcome import Category
from trainer_ops.model.phase import Phase
from trainer_ops.status.wait import Wait

NOW = Limits(queue_timeout=60, startup_timeout=60)
FIRST = Limits(max_restarts=0)


@dataclass(frozen=True)
class Case:
    """What a last state says, and why it is given up or failed.

    ``limits`` are those that end the wait where the case itself never ends.
    """

    phase: Phase
    detail: str
    category: Category | None = None
    text: str = ""
    limits: Limits | None = None
    job: str | None = None


P, Q, R = Phase.PENDING, Phase.QUEUED, Phase.RUNNING
OK, BAD = Phase.SUCCEEDED, Phase.FAILED
LOST = "how its nodes ended was not seen"
NOHOST = "the registry's host name is not known (no such host)"
REFUSED = "the registry refuses it (no such repository, or no credentials)"

CASES: dict[str, Case] = {
    "hello": Case(OK, "jobset completed successfully"),
    "two": Case(OK, "jobset completed successfully"),
    "gpu": Case(OK, "jobset completed successfully"),
    "flaky": Case(OK, "jobset completed successfully"),
    "sigkill": Case(OK, "jobset completed successfully"),
    # Stock runtime: the pods are gone, and with them the cause. Who looks late can only be told so.
    "exit3": Case(BAD, "first failed job: exit3-node-0", Category.UNKNOWN, LOST),
    "exit3-later": Case(BAD, "first failed job: exit3-node-0", Category.UNKNOWN, LOST),
    "slowfail": Case(BAD, "first failed job: slowfail-node-0", Category.UNKNOWN, LOST),
    "never": Case(BAD, "never-node-0", Category.EXIT_CODE, '{"error": "boom", "step": 1}'),
    "never-later": Case(BAD, "never-node-0", Category.EXIT_CODE, "exit code 3 on node-0"),
    "never-one": Case(BAD, "never-one-node-0", Category.EXIT_CODE, "exit code 3 on node-1"),
    "never-one-later": Case(BAD, "never-one-node-0", Category.EXIT_CODE, "\n  failing\n"),
    "never-oom": Case(BAD, "never-oom-node-0", Category.OUT_OF_MEMORY, "node-0 ran out of memory"),
    "never-oom-later": Case(BAD, "never-oom-node-0", Category.OUT_OF_MEMORY, "OOMKilled, exit code 137"),
    "never-badcmd": Case(BAD, "never-badcmd-node-0", Category.CONFIG, 'exec: "/no/such/binary"'),
    "segv": Case(BAD, "segv-node-0", Category.EXIT_CODE, "SIGSEGV (exit code 139) on node-0"),
    "deadline": Case(BAD, "TrainJob exceeded its active deadline", Category.DEADLINE, "active_deadline_seconds"),
    "oom": Case(Phase.RESTARTING, "node-0: out of memory (OOMKilled, exit code 137), restart 4, next try after",
                Category.OUT_OF_MEMORY, "node-0 ran out of memory", FIRST),
    "oomchild": Case(Phase.RESTARTING, "out of memory (OOMKilled, exit code 1)", Category.OUT_OF_MEMORY, "", FIRST),
    "badcmd": Case(Phase.RESTARTING, "cannot be started", Category.CONFIG, "no such file or directory", FIRST),
    "noimage-15": Case(P, f'node-0: image "registry.example/none/such:1" cannot be pulled: {NOHOST}',
                       Category.IMAGE, "dial tcp: lookup registry.example", NOW),
    "noimage-30": Case(P, NOHOST, Category.IMAGE, "left alone", NOW),
    "noimage-45": Case(P, NOHOST, Category.IMAGE, "left alone", NOW),
    "noimage2": Case(P, NOHOST, Category.IMAGE, "left alone", NOW),
    "img404": Case(P, 'node-0: image "registry.example/none/such:1" cannot be pulled: not found', Category.IMAGE,
                   "rpc error: code = NotFound", NOW),
    "img401": Case(P, f'node-0: image "registry.example/secret/such:1" cannot be pulled: {REFUSED}', Category.IMAGE,
                   "no basic auth credentials", NOW),
    "imgbad": Case(P, 'node-0: image "UPPER/Case:1" is not a valid image name: repository name (Case) must be',
                   Category.IMAGE, "left alone", NOW),
    "unsched": Case(P, "node-0: 0/1 nodes are available: 1 Insufficient cpu", Category.UNSCHEDULABLE,
                    "Preemption is not helpful", NOW),
    "gpu9": Case(P, "node-0: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu", Category.UNSCHEDULABLE, "", NOW),
    "nocm": Case(P, 'node-0: configmap "absent-cm" not found', Category.CONFIG, "MountVolume.SetUp failed", NOW),
    "nosecret": Case(P, 'node-0: secret "absent-secret" not found', Category.CONFIG, "left alone", NOW),
    "suspended": Case(Phase.SUSPENDED, "suspended by hand", Category.QUEUED_TOO_LONG, "Resume it", NOW),
    "resumed": Case(R, ""),
    # These hold logs and events only.
    "del-background": Case(Phase.DELETED, "there is no such TrainJob", Category.DELETED),
    "del-foreground": Case(Phase.DELETED, "there is no such TrainJob", Category.DELETED),
    "del-plain": Case(Phase.DELETED, "there is no such TrainJob", Category.DELETED),
    "kueue-queued:k1": Case(R, ""),
    "kueue-queued:k2": Case(Q, "waiting for quota: 200m cpu more needed in flavor default-flavor (Kueue, queue lq)",
                            Category.QUEUED_TOO_LONG, "insufficient unused quota", NOW),
    "kueue-admitted:k2": Case(R, ""),
    "kueue-preempting:k2": Case(Q, "preempted; waiting for quota: 200m cpu more needed", Category.QUEUED_TOO_LONG,
                                "Preempted to accommodate a workload", NOW),
    "kueue-preempting:k3": Case(R, ""),
    "kueue-preempted:k2": Case(Q, "preempted; waiting for quota", Category.QUEUED_TOO_LONG, "", NOW),
    "kueue-preempted:k3": Case(R, ""),
    "kueue-readmitted:k2": Case(R, ""),
    "kueue-readmitted:k3": Case(OK, "jobset completed successfully"),
    "kueue-failed:kfail": Case(BAD, "kfail-node-0", Category.EXIT_CODE, "on node-0"),
    "kueue-failed:kfree": Case(OK, "jobset completed successfully"),
    "kueue-deactivated:kact": Case(Q, "paused: its workload is deactivated (Kueue, queue lq)",
                                   Category.QUEUED_TOO_LONG, "spec.active", NOW),
    "kueue-hand-suspended:kpause": Case(R, ""),
    "kueue-hand-unsuspended:kman": Case(Q, "can never be admitted: asks for 2 cpu, flavor default-flavor has at most 1",
                                        Category.QUOTA, "Ask for less", NOW),
    "kueue-others:kbig": Case(Q, "asks for 2 cpu, flavor default-flavor has at most 1", Category.QUOTA, "", NOW),
    "kueue-others:knoq": Case(Q, "LocalQueue absent does not exist (Kueue, queue absent)", Category.QUEUED_TOO_LONG,
                              "LocalQueue that exists", NOW),
    "kueue-others:kzero": Case(OK, "jobset completed successfully"),
    "kueue-others:kmem": Case(Q, "the ClusterQueue has no quota for memory", Category.QUOTA, "", NOW),
}  # fmt: skip


def split(name: str) -> tuple[str, str | None]:
    case, _, job = name.partition(":")
    return case, job or None


@pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES.keys())
def test_last_state(
    last: Callable[..., Observation],
    recorded_logs: Callable[[str], dict[str, list[str]]],
    name: str,
    case: Case,
) -> None:
    obs = last(*split(name))
    uid = obs.job.uid if obs.job else "u"
    begin = obs.at - 100
    wait = Wait.begin(JobRef("memory://t", "default", name, uid), case.limits or Limits(), now=begin)
    wait, _ = wait.see(obs, begin)
    if not wait.ended:
        wait, _ = wait.see(obs, obs.at)
    assert wait.state.phase is case.phase
    assert case.detail in wait.state.detail
    if case.phase is R:
        assert not wait.ended
        return
    outcome = wait.hear(recorded_logs(split(name)[0])).outcome()
    assert (outcome.diagnosis.category if outcome.diagnosis else None) is case.category
    assert case.text in str(outcome.diagnosis)


def test_every_recorded_last_state_is_in_the_table(evidence_cases: set[str]) -> None:
    assert {split(name)[0] for name in CASES} == {c for c in evidence_cases if not c.endswith(".watch")}


def test_every_recorded_training_of_a_file_is_in_the_table(trainings: Callable[[str], set[str]]) -> None:
    for file in {split(name)[0] for name in CASES if ":" in name}:
        assert {split(name)[1] for name in CASES if split(name)[0] == file} == trainings(file)
