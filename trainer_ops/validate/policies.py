"""Rules that depend on the runtime's policy: torchtune, MPI, Flux."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from trainer_ops.model import keys
from trainer_ops.validate.findings import Finding, error, warning
from trainer_ops.validate.peek import at, items, mapping, number, show, text, texts
from trainer_ops.validate.subject import Subject
from trainer_ops.validate.values import amount

__all__ = ["flux", "mpi", "torchtune"]

_MODELS = ("llama3_2/1B", "llama3_2/3B", "llama3_3/70B", "qwen2_5/1.5B")
_MANY_NODES = "llama3_3/70B"
_NO_QLORA = "qwen2_5/1.5B"
_ONE_DEVICE_QLORA = ("llama3_2/1B", "llama3_2/3B")
_OWNED_ARGS = ("output_dir", "tokenizer.path", "checkpointer.checkpoint_dir", "tokenizer.merges_file")


def torchtune(subject: Subject) -> Iterator[Finding]:
    """The command ``tune run``, which Trainer completes with a recipe for the model in the runtime's name."""
    trainer = mapping(subject.trainer)
    if subject.policy != "torch" or items(trainer.get("command")) != ["tune", "run"]:
        return
    name = text(at(subject.spec, "runtimeRef.name"))
    model, args, nodes = _model(name), texts(trainer.get("args")), subject.nodes or 1
    if model not in _MODELS:
        reason = f"{show(name)} names no model that tune run is known for"
        remedy = "Use a runtime such as torchtune-llama3.2-1b, or another command than tune run"
        yield error("torchtune-model", "spec.runtimeRef.name", reason, remedy)
    if nodes > 1 and model != _MANY_NODES:
        reason = f"{nodes} nodes, but {model or 'this model'} is tuned on one"
        yield error("torchtune-nodes", "spec.trainer.numNodes", reason, "Give --nodes 1")
    if nodes > 1 and (_lora(args) or _qlora(args)):
        reason = f"{nodes} nodes, but torchtune has LoRA for one only"
        yield error("torchtune-nodes", "spec.trainer.numNodes", reason, "Give --nodes 1")
    if nodes == 1 and _qlora(args) and not _one_device(subject):
        yield from _many_devices(model)
    for i, arg in enumerate(items(trainer.get("args"))):
        key = text(arg).partition("=")[0]
        if key in _OWNED_ARGS:
            yield error("torchtune-args", f"spec.trainer.args[{i}]", f"{key} is set by the runtime", "Leave it out")


def _model(runtime: str) -> str:
    """Trainer reads the model from the runtime's name: torchtune-llama3.2-1b is llama3_2/1B."""
    parts = runtime.split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""


def _lora(args: list[str]) -> bool:
    return any("model.lora_attn_modules" in arg for arg in args)


def _qlora(args: list[str]) -> bool:
    return _true(args, "model.quantize_base") and not _true(args, "model.use_dora")


def _true(args: list[str], name: str) -> bool:
    pairs = (arg.partition("=") for arg in args)
    return any(name in key and value.strip().lower() == "true" for key, sign, value in pairs if sign)


def _one_device(subject: Subject) -> bool:
    trainer = mapping(subject.trainer)
    if number(trainer.get("numProcPerNode")) == 1:
        return True
    given = trainer.get("resourcesPerNode")
    resources = mapping(given if given is not None else subject.node_container.get("resources"))
    gpus = (
        amount(value)
        for kind in ("limits", "requests")
        for name, value in mapping(resources.get(kind)).items()
        if isinstance(name, str) and "gpu" in name.lower()
    )
    return next((much for much in gpus if much is not None), Decimal(0)) == 1


def _many_devices(model: str) -> Iterator[Finding]:
    if model == _NO_QLORA:
        reason = f"torchtune has no QLoRA for {model}"
        yield error("torchtune-qlora", "spec.runtimeRef.name", reason, "Leave model.quantize_base out")
    elif model in _ONE_DEVICE_QLORA:
        reason = f"torchtune has QLoRA for {model} on one device only"
        remedy = "Give numProcPerNode 1, or one GPU in resourcesPerNode"
        yield error("torchtune-qlora", "spec.trainer.numProcPerNode", reason, remedy)


def mpi(subject: Subject) -> Iterator[Finding]:
    """Where nodes and resources go when rank 0 runs in the launcher, and when it does not."""
    runtime = subject.runtime
    if runtime is None or runtime.policy != "mpi" or subject.trainer is None:
        return
    nodes, as_node = subject.nodes, runtime.run_launcher_as_node
    path = "spec.trainer.numNodes"
    missing = [name for name in (keys.STEP_LAUNCHER, keys.STEP_NODE) if runtime.job(name) is None]
    if as_node and nodes is not None and nodes >= 2 and missing:
        reason = f"{nodes} nodes need the jobs launcher and node; the runtime lacks {' and '.join(missing)}"
        yield error("mpi-jobs", path, reason, "Name another runtime, or give --nodes 1")
    if as_node and nodes == 1 and not missing:
        reason = "1 node still makes two pods, launcher and node, of one process set each (trainer #3954)"
        yield warning("mpi-one-node", path, reason, "Start mpirun with -np for the processes of one pod")
    if not as_node and mapping(subject.trainer.get("resourcesPerNode")):
        reason = "goes to the launcher alone; the workers have what the runtime gives them"
        yield warning("mpi-resources", "spec.trainer.resourcesPerNode", reason, "Set the workers' in the runtime")


def flux(subject: Subject) -> Iterator[Finding]:
    """Flux reads ``spec.trainer.numNodes`` without looking whether it is there."""
    if subject.policy == "flux" and subject.nodes is None:
        reason = "is missing, which Trainer's Flux plugin does not survive: nothing would be created"
        yield error("flux-nodes", "spec.trainer.numNodes", reason, "Give --nodes")
