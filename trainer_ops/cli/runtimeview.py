"""One runtime for a person who is about to use it: what it runs, what it needs, what the code finds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainer_ops.cli.text import Spans, cut, roughly, wrap
from trainer_ops.model import keys
from trainer_ops.model.runtime import ReplicatedJob, RuntimeContainer, TrainingRuntime

__all__ = ["ENVIRONMENT", "SUPPORT", "describe", "image_of", "restarts_of", "runtime_lines"]

SUPPORT = "trainer.kubeflow.org/support"

# What Trainer's plugins put into the containers that train (v2.3.0); of MPI what mpirun gives each rank.
ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    "torch": ("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    "jax": ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JAX_COORDINATOR_ADDRESS"),
    "xgboost": ("DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"),
    "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
}
_MEANING = {
    "torch": "torchrun reads them",
    "jax": "for jax.distributed.initialize",
    "xgboost": "for the collective of all nodes",
    "mpi": "of each rank; /etc/mpi/hostfile in the launcher",
}
_LABEL = 10
# What a kubelet waits before it starts a container again: 10 s, doubled each time up to 5 min.
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 300.0


def image_of(runtime: TrainingRuntime) -> str:
    """The image that trains; "" where the runtime names none."""
    main = _main(runtime.trainer_job)
    return main.image if main is not None else ""


def _main(job: ReplicatedJob | None) -> RuntimeContainer | None:
    if job is None or not job.containers:
        return None
    return job.container(keys.STEP_NODE) or job.container(job.name) or job.containers[0]


def describe(runtime: TrainingRuntime) -> dict[str, Any]:
    """One runtime as documented JSON: fields are added, none is renamed or removed."""
    main = _main(runtime.trainer_job)
    return {
        "name": runtime.name,
        "kind": runtime.kind,
        "policy": runtime.policy,
        "framework": runtime.framework,
        "deprecated": runtime.labels.get(SUPPORT) == "deprecated",
        "num_nodes": runtime.num_nodes,
        "image": image_of(runtime),
        "command": [*main.command, *main.args] if main is not None else [],
        "resources": _resources(main),
        "dataset": _initializer(runtime, "dataset"),
        "model": _initializer(runtime, "model"),
        "environment": list(ENVIRONMENT.get(runtime.policy, ())),
        "restarts": restarts_of(runtime),
        "steps": [
            {
                "name": job.name,
                "controlled_by": job.ancestor,
                "after": dict(job.depends_on),
                "containers": [{"name": c.name, "image": c.image} for c in (*job.init_containers, *job.containers)],
                "restart_policy": job.restart_policy,
                "backoff_limit": job.backoff_limit,
            }
            for job in runtime.jobs
        ],
    }


def _resources(container: RuntimeContainer | None) -> dict[str, str]:
    """What a node asks for; limits where there are some."""
    raw = container.resources if container is not None else {}
    return {str(k): str(v) for k, v in {**(raw.get("requests") or {}), **(raw.get("limits") or {})}.items()}


def _initializer(runtime: TrainingRuntime, what: str) -> bool:
    return any(job.ancestor == f"{what}-initializer" for job in runtime.jobs)


def restarts_of(runtime: TrainingRuntime) -> str:
    """How long a script that always fails goes on, in plain words."""
    job = runtime.trainer_job
    if job is None:
        return ""
    again = f"; then all nodes begin anew, {_times(runtime.max_restarts)}" if runtime.max_restarts else ""
    return f"{_restarts(job)}{again}"


def _restarts(job: ReplicatedJob) -> str:
    limit = job.backoff_limit
    if job.restart_policy == "Never":
        if not limit:
            return "none: the first node that fails ends the training, and its pod and log stay"
        return (
            f"a node that fails gets a new pod, {_times(limit)} over all nodes together, after pauses of 10 s, 20 s …; "
            "the failed pods and their logs stay meanwhile"
        )
    if not limit:
        return "none wanted, but a failed container may begin once more before its pod is deleted, with its log"
    pauses = sum(min(_FIRST_PAUSE * 2**i, _LONGEST_PAUSE) for i in range(limit - 1))
    long = f"; on one node that takes {roughly(pauses)} in pauses alone" if pauses else ""
    return (
        f"a script that fails is started again in its pod, {_times(limit)} over all nodes together{long}. "
        "Then its pods are deleted, with their logs"
    )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def runtime_lines(runtime: TrainingRuntime, *, local: bool, width: int) -> list[Spans]:
    """``runtimes NAME``.

    Args:
        runtime: which.
        local: the target is this machine, which ignores images.
        width: columns.
    """
    seen = describe(runtime)
    kind = "for the whole cluster" if runtime.kind == keys.CLUSTER_RUNTIME else "of this namespace"
    head = f"   {kind}" if not local else ""
    lines: list[Spans] = [[(runtime.name, "bold"), (head, "dim")]]
    if seen["deprecated"]:
        lines.append([("  deprecated: a coming release of Trainer removes it", "yellow")])
    for label, text in _facts(runtime, seen, local):
        first, *more = wrap(text, width - _LABEL - 2, "")
        lines.append([(f"  {label:<{_LABEL}}", "bold"), (first, "")])
        lines += [[(" " * (_LABEL + 2), ""), (line, "")] for line in more]
    lines.append([("  steps", "bold")])
    lines += [[(cut(f"    {line}", width), "")] for line in _steps(runtime)]
    return lines


def _facts(runtime: TrainingRuntime, seen: Mapping[str, Any], local: bool) -> Iterator[tuple[str, str]]:
    yield "policy", _policy(runtime)
    yield "nodes", f"{runtime.num_nodes} unless the TrainJob says otherwise: --nodes"
    if runtime.policy == "mpi":
        yield "launcher", _launcher(runtime)
    yield "image", _image(seen["image"], local)
    yield "command", _command(seen, local)
    yield "resources", _wanted(seen["resources"])
    for what in ("dataset", "model"):
        yield what, _fetched(what, local) if seen[what] else "no initializer in this runtime"
    names = ", ".join(seen["environment"])
    yield "env", f"{names}: {_MEANING[runtime.policy]}" if names else "JOB_COMPLETION_INDEX: the node's number"
    yield "restarts", f"{seen['restarts']}. {_limit(seen['restarts'], local)}"
    if runtime.pod_group:
        yield "scheduling", f"all nodes at once or none ({', '.join(runtime.pod_group)})"


def _fetched(what: str, local: bool) -> str:
    paths = {"dataset": (keys.DATASET_PATH, keys.ENV_DATASET_DIR), "model": (keys.MODEL_PATH, keys.ENV_MODEL_DIR)}
    cluster, variable = paths[what]
    return f"--{what} URI is fetched before the nodes begin, to {f'${variable}' if local else cluster}"


def _policy(runtime: TrainingRuntime) -> str:
    framework = f", framework {runtime.framework}" if runtime.framework else ""
    return f"{runtime.policy}{framework}"


def _launcher(runtime: TrainingRuntime) -> str:
    each = f"mpirun starts {runtime.mpi.get('numProcPerNode') or 1} on each node unless --procs-per-node says otherwise"
    if runtime.run_launcher_as_node:
        return f"is one of the nodes (of 1, a second one is made). {each}"
    return f"runs mpirun and no rank. {each}"


def _image(image: str, local: bool) -> str:
    if local:
        return f"{image or 'none'} (this machine ignores images)"
    return image or "none: the TrainJob must give one: --image"


def _command(seen: Mapping[str, Any], local: bool) -> str:
    own = " ".join(seen["command"])
    if own:
        return f"the runtime's own unless the TrainJob gives one: {cut(own, 200)}"
    give = "a script or command after --, or spec.trainer.command"
    return f"to be given: {give}" if local else f"the entry point of the image unless the TrainJob gives {give}"


def _wanted(resources: Mapping[str, str]) -> str:
    have = ", ".join(f"{name} {amount}" for name, amount in resources.items())
    gpu = any("gpu" in name for name in resources)
    ask = "--cpu, --memory, --gpu" if not gpu else "--gpu and the like replace them all"
    return f"of a node: {have}; {ask}" if have else f"none asked for, and no GPU: {ask}"


def _limit(restarts: str, local: bool) -> str:
    if local:
        return "With --max-restarts N a failed node is started again, up to N times."
    return "" if restarts.startswith("none") else "--max-restarts N ends it sooner, with exit code and log."


def _steps(runtime: TrainingRuntime) -> Sequence[str]:
    size = max((len(job.name) for job in runtime.jobs), default=0)
    return [f"{job.name:<{size}}  {_step(job)}".rstrip() for job in runtime.jobs]


def _step(job: ReplicatedJob) -> str:
    after = ", ".join(f"{name} is {status.lower()}" for name, status in job.depends_on)
    containers = ", ".join(c.name for c in (*job.init_containers, *job.containers))
    parts = [f"after {after}" if after else "", f"containers {containers}" if containers != job.name else ""]
    return "   ".join(part for part in parts if part)
