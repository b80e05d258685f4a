"""Why a run did not succeed, for a tired person at three in the night: category, one sentence, proof, what to do.

A failure of the training itself is judged here; a wait that was given up in ``gaveup``. The categories are a contract
(``model.outcome.Category``); the sentences are not.
"""

from __future__ import annotations

from dataclasses import replace

from trainer_ops.model import keys
from trainer_ops.model.observed import Terminated
from trainer_ops.model.outcome import Category, Diagnosis
from trainer_ops.model.phase import Phase
from trainer_ops.model.result import parse_result
from trainer_ops.status.clocks import RESTARTS
from trainer_ops.status.evidence import POD_DELETED, Failure, NodeEvidence
from trainer_ops.status.exits import START_ERRORS, ending, exit_text, signal_name
from trainer_ops.status.facts import Facts
from trainer_ops.status.gaveup import given_up
from trainer_ops.status.remedies import from_log, out_of_gpu_memory

__all__ = ["diagnose"]

# The machine went away, or is about to ("Terminated" is what a kubelet that shuts down writes).
_LOST = frozenset(
    {
        "ContainerStatusUnknown",
        "DeletionByPodGC",
        "DeletionByTaintManager",
        "NodeLost",
        "NodeShutdown",
        "Shutdown",
        "Terminated",
    }
)
# Reasons of JobSet and Job: they tell that a Job failed, never why. "First failed job: x-node-0" names a Job, and reads
# like a node.
_SILENT = frozenset(
    {
        "",
        "BackoffLimitExceeded",
        "FailedJobs",
        "ReachedMaxRestarts",
        "FailJobSetFailurePolicyAction",
        "PodFailurePolicy",
    }
)


def diagnose(facts: Facts) -> Diagnosis:
    """Why the run did not succeed."""
    if facts.limit and facts.limit != RESTARTS:
        return given_up(facts)
    if facts.limit != RESTARTS and facts.state.phase in (Phase.DELETED, Phase.REPLACED):
        return _deleted(facts)
    if facts.state.phase is Phase.FAILED and facts.state.reason in _BY_REASON:
        return _by_reason(facts)
    culprit = facts.evidence.worn_out(facts.limits.max_restarts or 0) or facts.evidence.culprit
    if culprit is None or culprit.failure is None:
        return _unknown(facts)
    return _by_node(facts, culprit, culprit.failure)


def _deleted(facts: Facts) -> Diagnosis:
    if facts.superseded_by:
        summary = (
            f"{facts.name} was deleted because {facts.superseded_by}, a newer training of the same task, took its place"
        )
        return Diagnosis(Category.SUPERSEDED, summary, facts.clues, f"Wait for {facts.superseded_by} instead.")
    if facts.state.phase is Phase.REPLACED:
        summary = f"{facts.name} is gone: {facts.state.detail}"
        remedy = "The other one was not touched; look at who made it, and start this run again under a name of its own."
        return Diagnosis(Category.SUPERSEDED, summary, facts.clues, remedy)
    summary = f"{facts.name} was deleted before it ended"
    remedy = "If nobody meant to cancel it, look for who deletes TrainJobs in this namespace; then start it again."
    return Diagnosis(Category.DELETED, summary, facts.clues, remedy)


_BY_REASON = {
    "DeadlineExceeded": (
        Category.DEADLINE,
        "ran into its active_deadline_seconds and was stopped",
        (
            "Raise active_deadline_seconds (it counts from the creation: waiting for machines, pulling images and "
            "initializers included), or train less."
        ),
    ),
    "TrainingRuntimeNotSupported": (
        Category.RUNTIME_MISSING,
        "names a runtime that the controller does not support",
        "Name a ClusterTrainingRuntime or TrainingRuntime that exists.",
    ),
    # The embedded engine's: the process that ran it on this machine is gone.
    "SupervisorLost": (
        Category.NODE_LOST,
        "lost what ran it",
        "Start it again; with checkpoint_dir it resumes.",
    ),
}


def _by_reason(facts: Facts) -> Diagnosis:
    category, words, remedy = _BY_REASON[facts.state.reason]
    why = f": {facts.state.detail}" if facts.state.detail else ""
    return Diagnosis(category, f"{facts.name} {words}{why}", _proof(facts, None), remedy)


def _unknown(facts: Facts) -> Diagnosis:
    said = ": ".join(part for part in (facts.state.reason, facts.state.detail) if part)
    summary = f"{facts.name} failed" + (f" ({said})" if said else "")
    if facts.state.reason not in _SILENT:
        remedy = "What ended it is said above; if it was not the code, start it again."
        return Diagnosis(Category.UNKNOWN, summary, _proof(facts, None), remedy)
    if "pods" in facts.unreadable:
        summary += "; how its nodes ended is not known here"
        remedy = "This user may not read pods: have get, list and watch on pods and get on pods/log granted."
        return Diagnosis(Category.UNKNOWN, summary, _proof(facts, None), remedy)
    summary += "; how its nodes ended was not seen, their pods were gone"
    remedy = (
        "Look for the log where the cluster keeps logs. Next time wait for it while it runs, or use a runtime with "
        "restartPolicy Never: such pods stay."
    )
    return Diagnosis(Category.UNKNOWN, summary, _proof(facts, None), remedy)


def _by_node(facts: Facts, node: NodeEvidence, failure: Failure) -> Diagnosis:
    found = _own_cause(facts, node, failure)
    if node.step in keys.INITIALIZERS:
        found = _initializer(facts, node, failure, found)
    elif _restarts_used(facts, node, failure):
        summary = f"{found.summary}; max_restarts={facts.limits.max_restarts} was reached and {_stop(facts)}"
        found = replace(found, category=Category.RESTARTS_EXHAUSTED, summary=summary)
    elif facts.limit == RESTARTS:
        found = replace(found, summary=f"{found.summary}; max_restarts=0: {_stop(facts)}")
    return replace(found, evidence=_proof(facts, node))


def _stop(facts: Facts) -> str:
    """What became of a training that failed once too often."""
    if facts.limit != RESTARTS:
        return "the training failed"
    if facts.error:
        return f"the training could not be cancelled and may go on ({facts.error})"
    return "the training was cancelled"


def _restarts_used(facts: Facts, node: NodeEvidence, failure: Failure) -> bool:
    """Whether ``max_restarts``, which counts each node by itself, had its say.

    With 0 of them the first failure itself is the better word.
    """
    limit = facts.limits.max_restarts
    if not limit or failure.outside:
        return False
    return facts.limit == RESTARTS or node.restarts >= limit


def _own_cause(facts: Facts, node: NodeEvidence, failure: Failure) -> Diagnosis:
    """The node's failure by itself, whatever limits there are."""
    if failure.reason in _LOST:
        summary = f"{node.node} was lost with its machine{_because(failure)}"
        return Diagnosis(Category.NODE_LOST, summary, (), "Start it again; with checkpoint_dir it resumes.")
    if failure.reason == POD_DELETED:
        summary = f"the pod of {node.node} was deleted before it ended"
        remedy = (
            "Find out who deletes pods here (a person, a drained machine); start it again, checkpoint_dir resumes it."
        )
        return Diagnosis(Category.EVICTED, summary, (), remedy)
    if failure.outside:
        summary = f"{node.node} was evicted{_because(failure)}"
        remedy = "Start it again; if it happens often, give requests equal to limits, or a higher priority_class."
        return Diagnosis(Category.EVICTED, summary, (), remedy)
    tail = facts.tail(node.node)
    if failure.reason == "OOMKilled" or out_of_gpu_memory(tail):
        return _memory(node, failure)
    if failure.reason in START_ERRORS:
        summary = f"the command of {node.node} {ending(_end(failure))}"
        remedy = "Check command and args: the program must exist in the image, at that path, and be executable."
        return Diagnosis(Category.CONFIG, summary, (), remedy)
    summary = f"{_what(node)} ended with {exit_text(failure.code)} on {node.node}{_hint(failure)}"
    return Diagnosis(Category.EXIT_CODE, summary, (), from_log(tail) or _remedy(failure, node, heard=bool(tail)))


def _because(failure: Failure) -> str:
    return f" ({failure.reason}: {failure.message})" if failure.message else f" ({failure.reason})"


def _end(failure: Failure) -> Terminated:
    return Terminated(failure.code, failure.reason, failure.message)


def _what(node: NodeEvidence) -> str:
    return "the initializer" if node.step in keys.INITIALIZERS else "the training script"


def _memory(node: NodeEvidence, failure: Failure) -> Diagnosis:
    if failure.reason == "OOMKilled":
        summary = f"{node.node} ran out of memory and was killed (OOMKilled, exit code {failure.code})"
        remedy = "Give more memory in resources_per_node, or use a smaller batch or fewer data-loading workers."
    else:
        summary = f"{node.node} ran out of GPU memory ({exit_text(failure.code)})"
        remedy = "Use a smaller batch or more memory-saving settings, or a GPU with more memory."
    return Diagnosis(Category.OUT_OF_MEMORY, summary, (), remedy)


def _hint(failure: Failure) -> str:
    if signal_name(failure.code) == "SIGKILL":
        return ": it was killed, which may be memory or an eviction that was not reported as such"
    return {126: ": the command was found but cannot be run", 127: ": a command was not found"}.get(failure.code, "")


_BY_SIGNAL = {
    "SIGKILL": "Look at the node's memory at that time; if nothing speaks for memory, ask who stopped the pod.",
    "SIGTERM": "Somebody or something asked it to stop: a drained machine, a preemption, or a person.",
    "SIGSEGV": "A native library crashed: use matching versions of the framework and its extensions "
    "(PYTHONFAULTHANDLER=1 in env shows where).",
    "SIGBUS": "Give the pod more shared memory (mount an emptyDir of medium Memory at /dev/shm).",
    "SIGILL": "The image's binaries need a newer processor than this node has.",
}
_BY_CODE = {
    126: "Check that the program is executable and made for the machine's platform.",
    127: "Check command and args: the program is not in the image's PATH.",
}


def _remedy(failure: Failure, node: NodeEvidence, *, heard: bool) -> str:
    known = _BY_SIGNAL.get(signal_name(failure.code) or "") or _BY_CODE.get(failure.code)
    if known:
        return known
    where = "The last lines of its log say" if heard else f"The log of {node.node} says"
    return f"{where} what went wrong in the code: correct it and start it again."


def _initializer(facts: Facts, node: NodeEvidence, failure: Failure, found: Diagnosis) -> Diagnosis:
    kind = node.step.removesuffix("-initializer")
    summary = f"the {node.step} failed ({ending(_end(failure)) if not failure.outside else failure.reason})"
    if facts.limit == RESTARTS:
        summary += f"; max_restarts={facts.limits.max_restarts} was reached and {_stop(facts)}"
    known = from_log(facts.tail(node.node))
    remedy = known or (
        f"Check the {kind}'s storage_uri, that it exists, and the credentials in its secret_ref; "
        f"or fetch it once, beforehand: trainer-ops init {kind} --help"
    )
    if found.category is not Category.EXIT_CODE and not known:
        remedy = found.remedy
    return Diagnosis(Category.INITIALIZER, summary, (), remedy)


def _proof(facts: Facts, node: NodeEvidence | None) -> tuple[str, ...]:
    """The original words: last log lines of the node, how its container ended, conditions and events."""
    lines = list(facts.tail(node.node)) if node else []
    if node is not None and node.failure is not None:
        lines.append(_container_line(node, node.failure))
        # A report of metrics is no cause; it goes where results go.
        message = "" if parse_result(node.failure.message) else node.failure.message
        lines += [f"{node.node}: {line}" for line in message.splitlines() if line.strip()]
    told = node is not None and node.failure is not None
    if facts.state.phase is Phase.FAILED and facts.state.detail and not (told and facts.state.reason in _SILENT):
        lines.append(f"{facts.state.reason}: {facts.state.detail}")
    for clue in facts.clues:
        again = node is not None and clue.startswith(f"{node.node}: ")
        follows = told and clue.partition(":")[0] in _SILENT
        if not (again or follows or any(clue in line for line in lines)):
            lines.append(clue)
    return tuple(dict.fromkeys(lines))


def _container_line(node: NodeEvidence, failure: Failure) -> str:
    end = failure.reason if failure.outside else ending(_end(failure))
    after = f", after {node.restarts} restart{'s' if node.restarts > 1 else ''}" if node.restarts else ""
    return f"{node.node}: {end}{after}"
