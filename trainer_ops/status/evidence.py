"""What was seen in flight, kept because it will be gone: a stock runtime deletes failing pods before it says Failed.

Bounded on purpose: it crosses processes inside a ``Wait``. Only nodes with something to tell are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from trainer_ops.model import keys
from trainer_ops.model.observed import Observation, ObservedPod, Terminated
from trainer_ops.status.nodes import current_pods, disruption, down, ended_well, is_final, older_pods, restarts

__all__ = ["MESSAGE_LIMIT", "NODE_LIMIT", "POD_DELETED", "Evidence", "Failure", "NodeEvidence", "collect"]

NODE_LIMIT = 16
MESSAGE_LIMIT = 1000
# A node that ran again for this long has recovered: what happens later has another cause.
_RECOVERED = 60.0
_STOPPED = (137, 143)
# Ours: nothing in the pod says why it was deleted.
POD_DELETED = "PodDeleted"


@dataclass(frozen=True, slots=True)
class Failure:
    """One end of one program that was not asked for.

    Attributes:
        code: the exit code.
        reason: the container's (``Error``, ``OOMKilled``, ``StartError``), or the pod's (``Evicted``).
        message: the container's termination message or the pod's message; clipped.
        at: when it ended (seconds since the epoch), or when it was seen if the target does not say.
        seen_at: when it was first seen.
        run: which run of the node this was, counted from 0.
        outside: ended from outside (eviction, preemption, a lost machine), not by itself.
        doubtful: seen only while the pod was being deleted: it may have been told to stop.
    """

    code: int
    reason: str = ""
    message: str = ""
    at: float = 0.0
    seen_at: float = 0.0
    run: int = 0
    outside: bool = False
    doubtful: bool = False

    @property
    def blame(self) -> tuple[bool, float, bool, float]:
        """Sorts the culprit before those it took down: the earliest, and of the same second the one not by a signal."""
        by_signal = self.code in _STOPPED and self.reason != "OOMKilled"
        return (self.doubtful, self.at, by_signal, self.seen_at)


@dataclass(frozen=True, slots=True)
class NodeEvidence:
    """What is known of one node.

    Attributes:
        node: the name a person sees.
        step: its replicatedJob.
        uid: of its newest pod.
        attempt: JobSet's restart attempt of that pod.
        before: restarts before that pod was made: JobSet's, and pods made anew by the Job after a failure.
        inside: restarts of the container inside that pod.
        failure: the latest one.
        recovered: it has run again for a minute since.
    """

    node: str
    step: str
    uid: str = ""
    attempt: int = 0
    before: int = 0
    inside: int = 0
    failure: Failure | None = None
    recovered: bool = False

    @property
    def restarts(self) -> int:
        """How often it was started again: in its pod, by a new pod, or by the JobSet with all the others."""
        return self.before + self.inside


@dataclass(frozen=True, slots=True)
class Evidence:
    """All nodes with something to tell, and whether one has used up its restarts.

    Attributes:
        nodes: by node name.
        started_at: when the first program of a training node started; None when none did yet.
        exhausted: the node that fails beyond the given limit of restarts, "" when none does.
    """

    nodes: Mapping[str, NodeEvidence] = field(default_factory=dict)
    started_at: float | None = None
    exhausted: str = ""

    @property
    def culprit(self) -> NodeEvidence | None:
        """The node that failed first, of those that have not recovered; with none of those, the latest to fail."""
        failed = [n for n in self.nodes.values() if n.failure is not None]
        standing = [n for n in failed if not n.recovered]
        if standing:
            return min(standing, key=_blame)
        return max(failed, key=_blame, default=None)

    def worn_out(self, limit: int) -> NodeEvidence | None:
        """The first node to fail after ``limit`` restarts: that ended the training, whichever failed first of all.

        None when no node did, and for a limit of 0: then every failure is one too many.
        """
        ends = [n for n in self.nodes.values() if n.failure and not n.failure.doubtful and not n.recovered]
        over = [n for n in ends if limit and n.failure and not n.failure.outside and n.failure.run >= limit]
        return min(over, key=_blame, default=None)

    def to_json(self) -> dict[str, Any]:
        """Plain data; ``from_json`` gives an equal value."""
        return {
            "nodes": [asdict(node) for node in self.nodes.values()],
            "started_at": self.started_at,
            "exhausted": self.exhausted,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evidence:
        """The inverse of ``to_json``."""
        nodes = {}
        for raw in data["nodes"]:
            failure = raw["failure"]
            nodes[raw["node"]] = NodeEvidence(**{**raw, "failure": Failure(**failure) if failure else None})
        return cls(nodes, data["started_at"], data["exhausted"])


def _blame(node: NodeEvidence) -> tuple[bool, float, bool, float]:
    return node.failure.blame if node.failure else (True, 0.0, True, 0.0)


def collect(evidence: Evidence, obs: Observation, max_restarts: int | None) -> Evidence:
    """Add what an observation shows.

    Args:
        evidence: what is known so far.
        obs: what was read; its pods belong to the TrainJob that is meant.
        max_restarts: restarts after which a further failure of a node is one too many; None is no limit.
    """
    nodes = dict(evidence.nodes)
    exhausted = evidence.exhausted
    for pod in current_pods(obs.pods):
        node = _update(nodes.get(pod.node), pod, obs)
        nodes[pod.node] = node
        if not exhausted and max_restarts is not None and _is_exhausted(node, pod, max_restarts):
            exhausted = pod.node
    if not any(n.failure is not None and not n.failure.doubtful for n in nodes.values()) and _is_wanted(obs):
        # With a failure before it, this is how its siblings are stopped.
        nodes.update((n.node, n) for n in _deleted(nodes, obs))
    return Evidence(_bounded(nodes.values()), _first_start(evidence.started_at, obs.pods), exhausted)


def _is_exhausted(node: NodeEvidence, pod: ObservedPod, limit: int) -> bool:
    """A restart too many, or about to come. Being evicted is not held against a node, nor is being told to stop."""
    if pod.deleting or disruption(pod) is not None:
        return False
    # A pod that is final is not restarted in place: whether another is made is the Job's decision, and if it is not,
    # the TrainJob fails by itself in a moment and stays there to be looked at.
    about_to_restart = down(pod) is not None and not is_final(pod)
    return node.restarts > limit or (about_to_restart and node.restarts >= limit)


def _update(old: NodeEvidence | None, pod: ObservedPod, obs: Observation) -> NodeEvidence:
    if old is None:
        node = _first_sight(pod, obs)
    elif old.uid != pod.uid:
        again = pod.attempt - old.attempt if pod.attempt > old.attempt else int(_failed_in(old))
        node = replace(old, uid=pod.uid, attempt=pod.attempt, before=old.restarts + again, inside=restarts(pod))
    else:
        node = replace(old, inside=max(old.inside, restarts(pod)))
    failure = _failure(pod, node, obs.at)
    if failure is not None and (node.failure is None or _is_new(failure, node.failure)):
        node = replace(node, failure=failure, recovered=False)
    return replace(node, recovered=node.recovered or _has_recovered(pod, obs.at)) if node.failure else node


def _deleted(nodes: Mapping[str, NodeEvidence], obs: Observation) -> Iterator[NodeEvidence]:
    """Nodes whose pods are deleted while they run: by a person, a drained machine, or with their namespace."""
    for pod in current_pods(obs.pods):
        node = nodes[pod.node]
        if pod.deleting and node.failure is None and not ended_well(pod):
            failure = Failure(0, POD_DELETED, "", obs.at, obs.at, node.restarts, outside=True, doubtful=True)
            yield replace(node, failure=failure)


def _is_wanted(obs: Observation) -> bool:
    """Whether nobody has asked the training as a whole to stop, so that its pods should run."""
    job = obs.job
    if job is None or job.deleting or job.suspend or obs.workload is not None:
        return False
    return not any(job.holds(type_) for type_ in ("Suspended", "Complete", "Failed"))


def _first_sight(pod: ObservedPod, obs: Observation) -> NodeEvidence:
    """A wait that begins late finds earlier pods of the node beside the newest, where the Job keeps failed ones."""
    node = NodeEvidence(pod.node, pod.step, pod.uid, pod.attempt, pod.attempt, restarts(pod))
    for earlier in older_pods(pod, obs.pods):
        failure = _failure(earlier, node, obs.at)
        made_anew = earlier.attempt == pod.attempt and failure is not None and not failure.outside
        node = replace(node, before=node.before + restarts(earlier) + int(made_anew), failure=failure or node.failure)
    return node


def _failed_in(node: NodeEvidence) -> bool:
    """Whether the node's last pod ended by a failure of its own, so that its successor counts as a restart."""
    failure = node.failure
    return failure is not None and failure.run == node.restarts and not failure.outside and not failure.doubtful


def _is_new(failure: Failure, known: Failure) -> bool:
    if failure.run == known.run:
        # The pod's deletion adds nothing to what its program did before.
        return known.doubtful and not failure.doubtful
    return failure.run > known.run


def _failure(pod: ObservedPod, node: NodeEvidence, now: float) -> Failure | None:
    """The latest failure that the pod shows: of the run that is over now, else of the one before."""
    outside, end, main = disruption(pod), down(pod), pod.main
    if outside is not None and (end is None or end.exit_code in _STOPPED):
        reason, message = outside
        return Failure(end.exit_code if end else 0, reason, message[:MESSAGE_LIMIT], now, now, node.restarts, True)
    # A pod in back-off that is then deleted failed before; one that ran was told to stop, and mostly says so.
    told = pod.deleting and not (main is not None and main.state == "waiting")
    if end is not None and not (told and _stopped(end)):
        return _of(end, node.restarts, now, doubtful=told)
    earlier = main.last if main is not None and main.state != "waiting" else None
    if earlier is None or earlier.exit_code == 0 or node.restarts == 0:
        return None
    return _of(earlier, node.restarts - 1, now)


def _stopped(end: Terminated) -> bool:
    return end.exit_code in _STOPPED and end.reason != "OOMKilled"


def _of(end: Terminated, run: int, now: float, *, doubtful: bool = False) -> Failure:
    # containerd writes 1970 for what never started.
    at = end.finished_at if end.finished_at else now
    return Failure(end.exit_code, end.reason, end.message[-MESSAGE_LIMIT:], at, now, run, False, doubtful)


def _has_recovered(pod: ObservedPod, now: float) -> bool:
    main = pod.main
    if pod.deleting or main is None:
        return False
    if main.state == "running":
        return main.started_at is not None and now - main.started_at >= _RECOVERED
    return ended_well(pod)


def _first_start(known: float | None, pods: Iterable[ObservedPod]) -> float | None:
    starts = [known] if known is not None else []
    for pod in pods:
        main = pod.main
        if main is None or pod.step in keys.INITIALIZERS:
            continue
        ends = (end.started_at for end in (main.terminated, main.last) if end is not None)
        starts += [s for s in (main.started_at, *ends) if s is not None and s > 0]
    return min(starts, default=None)


def _bounded(nodes: Iterable[NodeEvidence]) -> dict[str, NodeEvidence]:
    """The nodes that failed (the first to fail before the others) or were restarted; at most 16."""
    # What a JobSet restart adds to all nodes can be read from their pods again.
    telling = [n for n in nodes if n.failure is not None or n.inside or n.before != n.attempt]
    if len(telling) > NODE_LIMIT:
        telling = sorted(telling, key=lambda n: (n.failure is None, n.recovered, _blame(n), -n.restarts))[:NODE_LIMIT]
    return {n.node: n for n in telling}
