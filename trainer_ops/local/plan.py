"""TrainJob + runtime -> processes. Pure.

What Trainer's plugins, JobSet, the Job controller and the kubelet would make of a TrainJob, with loopback addresses
and a free port in place of pod names and 29500. ``plan_differences`` lists what is not as on a cluster, and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from trainer_ops.local import plan_env, plan_fetch
from trainer_ops.local.plan_env import Entry, PodFacts, entries, upsert
from trainer_ops.local.plan_labels import labels_of
from trainer_ops.local.plan_mpi import Mpi, differing, mpi_of, per_host_option
from trainer_ops.local.plan_notes import notes
from trainer_ops.local.plan_template import (
    TRAINER,
    Raw,
    Template,
    has_policy,
    proc_resources,
    refuse,
    slots_per_node,
    templates,
)
from trainer_ops.local.plan_text import Rewrite, expand
from trainer_ops.local.plan_values import LOOPBACK, ContainerPlan, JobPlan, Place, PodPlan, Role, StepPlan
from trainer_ops.model import keys
from trainer_ops.model.runtime import TrainingRuntime

__all__ = ["LOOPBACK", "ContainerPlan", "JobPlan", "Place", "PodPlan", "Role", "StepPlan", "plan"]


def plan(trainjob: Mapping[str, Any], runtime: TrainingRuntime, *, place: Place) -> JobPlan:
    """What to run for this TrainJob on this machine.

    Args:
        trainjob: the object as stored; admitted already, so only what this machine needs is checked.
        runtime: parsed from the raw object (``TrainingRuntime.from_raw``): its raw form is read too.
        place: this machine.

    Raises:
        InvalidRequest: this machine cannot run it; names the path in the TrainJob or in the runtime.
    """
    _supported(trainjob, runtime)
    every, ignored = templates(trainjob, runtime)
    chosen = plan_fetch.wanted(trainjob, every, runtime.name)
    planner = _planner(trainjob, runtime, chosen, proc_resources(trainjob, every), place)
    steps = planner.steps()
    names = [step.name for step in steps]
    mpi = planner.mpi
    return JobPlan(
        name=planner.name,
        steps=_in_order(steps),
        success_steps=tuple(n for n in runtime.success_targets if n in names) or tuple(names),
        success_any=runtime.success_operator == "Any",
        max_restarts=runtime.max_restarts,
        files=() if mpi is None else ((mpi.hostfile_path, mpi.hostfile),),
        folders=tuple(dict.fromkeys(_folders(steps, mpi, place))),
        notes=(*notes(trainjob, runtime, chosen, ignored), *planner.said, *planner.rewrite.notes()),
        deadline_seconds=(trainjob.get("spec") or {}).get("activeDeadlineSeconds"),
    )


def _supported(trainjob: Raw, runtime: TrainingRuntime) -> None:
    command = ((trainjob.get("spec") or {}).get("trainer") or {}).get("command") or ()
    if runtime.policy == "flux":
        raise refuse(f'runtime "{runtime.name}": spec.mlPolicy.flux', "Flux needs a cluster", "Take an MPI runtime.")
    if runtime.policy == "torch" and list(command) == ["tune", "run"]:
        raise refuse(
            "spec.trainer.command",
            "Trainer itself completes `tune run` with a recipe, from its own images",
            "Write the whole command (tune run RECIPE --config CONFIG), or run it on a cluster.",
        )


def _folders(steps: Iterable[StepPlan], mpi: Mpi | None, place: Place) -> Iterable[str]:
    yield f"{place.job_dir}/results"
    if mpi is not None:
        yield mpi.folder
    yield from (step.target_dir for step in steps if step.target_dir is not None)


def _in_order(steps: Iterable[StepPlan]) -> tuple[StepPlan, ...]:
    """Each after those it depends on, else in the runtime's order."""
    waiting, done = list(steps), list[StepPlan]()
    while waiting:
        known = {step.name for step in done}
        free = next((s for s in waiting if all(name in known for name, _ in s.depends_on)), None)
        if free is None:
            names = ", ".join(step.name for step in waiting)
            raise refuse("runtime: dependsOn", f"{names} wait for each other", "Remove one of the dependsOn.")
        waiting.remove(free)
        done.append(free)
    return tuple(done)


def _planner(
    trainjob: Raw, runtime: TrainingRuntime, chosen: tuple[Template, ...], resources: Raw, place: Place
) -> _Planner:
    name = (trainjob.get("metadata") or {}).get("name") or ""
    if not name:
        raise refuse("metadata.name", "it is missing", "Give the TrainJob a name.")
    jobset = ((runtime.raw.get("spec") or {}).get("template") or {}).get("spec") or {}
    domain = (jobset.get("network") or {}).get("subdomain") or name
    slots = slots_per_node(trainjob, runtime, resources) if runtime.policy == "mpi" else 1
    mpi = mpi_of(name, domain, chosen, runtime, slots, place)
    paths = [(kind.path, kind.folder(place)) for t in chosen if (kind := plan_fetch.kind_of(t)) is not None]
    paths += plan_fetch.given_folders(trainjob, chosen)
    paths += [pair for t in chosen for pair in _host_paths(t)]
    if mpi is not None:
        paths.append((keys.HOSTFILE_PATH, mpi.hostfile_path))
    hosts = [f"{name}-{t.name}-0-{i}.{domain}" for t in chosen for i in range(t.count)]
    in_order = (jobset.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    return _Planner(
        name, trainjob, runtime, chosen, resources, place, mpi, Rewrite(paths, hosts, LOOPBACK), in_order, []
    )


def _host_paths(template: Template) -> Iterable[tuple[str, str]]:
    """(mount path, path on the host) of the hostPath volumes."""
    volumes = {
        v.get("name"): v["hostPath"].get("path") for v in template.spec.get("volumes") or () if v.get("hostPath")
    }
    for container in (*template.init_containers, *template.containers):
        for mount in container.get("volumeMounts") or ():
            if mount.get("name") in volumes:
                below = f"/{mount['subPath']}" if mount.get("subPath") else ""
                yield mount["mountPath"].rstrip("/"), f"{volumes[mount['name']]}".rstrip("/") + below


@dataclass(frozen=True, slots=True)
class _Planner:
    """What every container of the job is made from. ``said`` collects notes on the way."""

    name: str
    trainjob: Raw
    runtime: TrainingRuntime
    templates: tuple[Template, ...]
    resources: Raw
    place: Place
    mpi: Mpi | None
    rewrite: Rewrite
    in_order: bool
    said: list[str]

    @property
    def trainer(self) -> Raw | None:
        found: Raw | None = (self.trainjob.get("spec") or {}).get("trainer")
        return found

    def steps(self) -> tuple[StepPlan, ...]:
        names = {t.name for t in self.templates}
        made: dict[str, StepPlan] = {}
        # The launcher first: a node's agent must know which variables the two do not share.
        for template in sorted(self.templates, key=lambda t: t.name != keys.STEP_LAUNCHER):
            made[template.name] = self._step(template, names, made)
        return tuple(made[t.name] for t in self.templates)

    # ----------------------------------------------------------------------------------------------------- a step

    def _step(self, template: Template, names: set[str], made: Mapping[str, StepPlan]) -> StepPlan:
        job = template.job
        pods = tuple(self._pod(template, index) for index in range(template.count))
        if self.mpi is not None and template.name == keys.STEP_NODE:
            pods = tuple(self._with_sshd(pod, made.get(keys.STEP_LAUNCHER)) for pod in pods)
        kind = plan_fetch.kind_of(template)
        limit = None if kind is not None else _max_restarts(self.trainjob)
        return StepPlan(
            name=template.name,
            ancestor=job.ancestor,
            pods=pods,
            depends_on=self._depends_on(template, names),
            restart_policy=job.restart_policy if limit is None else "OnFailure",
            backoff_limit=job.backoff_limit,
            restarts_per_pod=limit,
            grace_seconds=template.grace_seconds,
            storage_uri=pods[0].main.argv[-2] if pods[0].main.role == "initializer" else None,
            target_dir=None if kind is None else kind.folder(self.place),
        )

    def _depends_on(self, template: Template, names: set[str]) -> tuple[tuple[str, Literal["Ready", "Complete"]], ...]:
        found: dict[str, Literal["Ready", "Complete"]] = {}
        before = self.templates.index(template)
        if self.in_order and before:
            found[self.templates[before - 1].name] = "Ready"
        for name, status in template.job.depends_on:
            if name in names:
                found[name] = "Complete" if status == "Complete" else "Ready"
        return tuple(found.items())

    # ------------------------------------------------------------------------------------------------------ a pod

    def _pod(self, template: Template, index: int) -> PodPlan:
        hostname = f"{self.name}-{template.name}-0-{index}"
        facts = self._facts(template, index, f"{hostname}-{self.place.suffix}")
        made = [self._container(template, raw, facts, hostname, init=True) for raw in template.init_containers]
        made += [self._container(template, raw, facts, hostname, init=False) for raw in template.containers]
        containers = tuple(c for c in made if c is not None)
        return PodPlan(template.name, index, facts.name, hostname, containers, facts.labels, facts.annotations)

    def _facts(self, template: Template, index: int, name: str) -> PodFacts:
        labels, annotations = labels_of(self.name, self.templates, template, index, self.place)
        resources = {
            str(c.get("name")): self._asked(template, c) for c in (*template.init_containers, *template.containers)
        }
        return PodFacts(name, labels, annotations, resources, self.place)

    def _asked(self, template: Template, container: Raw) -> Raw:
        """A container's resources, the TrainJob's merged in where Trainer does: not without an mlPolicy."""
        base = container.get("resources") or {}
        own = (self.trainer or {}).get("resourcesPerNode")
        if own and self._is_node(template, container) and has_policy(self.runtime):
            return {part: {**(base.get(part) or {}), **(own.get(part) or {})} for part in ("requests", "limits")}
        return dict(base)

    def _is_trainer(self, template: Template, container: Raw) -> bool:
        return template.job.ancestor == TRAINER and container.get("name") == keys.STEP_NODE

    def _is_node(self, template: Template, container: Raw) -> bool:
        """Whether env and resources of ``spec.trainer`` reach it: the trainer, and MPI's nodes beside the launcher."""
        mpi_node = template.name == keys.STEP_NODE and self.runtime.run_launcher_as_node
        return self._is_trainer(template, container) or (mpi_node and container.get("name") == keys.STEP_NODE)

    def _with_sshd(self, pod: PodPlan, launcher: StepPlan | None) -> PodPlan:
        """The pod with the stand-in for sshd in place of its main container's program."""
        assert self.mpi is not None
        main = pod.main
        shared = launcher.pods[0].main.env if launcher is not None else {}
        argv = self.mpi.node_argv(pod.hostname, differing(main.env, shared))
        sshd = replace(main, argv=argv, role="sshd", ready_path=self.mpi.socket(pod.hostname))
        return replace(pod, containers=tuple(sshd if c is main else c for c in pod.containers))

    # ------------------------------------------------------------------------------------------------ a container

    def _container(
        self, template: Template, raw: Raw, facts: PodFacts, hostname: str, *, init: bool
    ) -> ContainerPlan | None:
        name, main = str(raw.get("name") or ""), not init and raw is template.main
        path = f"{template.path}, container {name}"
        known = plan_env.resolve(self._env(template, raw, path), raw.get("envFrom") or (), name, facts, path)
        role = self._role(template, raw, init=init, main=main)
        argv = self._argv(template, raw, known, role, path, main=main)
        if not argv:
            self._say(f"container {name} of {template.name} is not started: its image's own program is unknown here")
            return None
        result = f"{self.place.job_dir}/results/{facts.name}.{name}"
        own = {key: self.rewrite(value) for key, value in known.items()}
        below = {key: value for key, value in self._base(template, hostname).items() if key not in own}
        env = {**below, **own, keys.ENV_RESULT_PATH: result}
        where = raw.get("workingDir")
        return ContainerPlan(name, argv, env, where and self.rewrite(where), init, role, result)

    def _role(self, template: Template, raw: Raw, *, init: bool, main: bool) -> Role:
        if init:
            return "sidecar" if raw.get("restartPolicy") == "Always" else "init"
        if not main:
            return "sidecar"
        return "initializer" if plan_fetch.kind_of(template) is not None and not raw.get("command") else "main"

    def _argv(
        self, template: Template, raw: Raw, known: dict[str, str], role: Role, path: str, *, main: bool
    ) -> tuple[str, ...]:
        if role == "initializer":
            kind = plan_fetch.kind_of(template)
            assert kind is not None
            return (*self.place.initializer, kind.name, plan_fetch.check_uri(known, kind), kind.folder(self.place))
        if main and self.mpi is not None and template.name == keys.STEP_NODE:
            return ("sshd",)
        command, args = raw.get("command"), raw.get("args")
        trainer = self.trainer if main and self._is_trainer(template, raw) else None
        if trainer is not None:
            command = command if trainer.get("command") is None else trainer["command"]
            args = args if trainer.get("args") is None else trainer["args"]
        words = [*(command or ()), *(args or ())]
        if main and (not words or (not command and str(words[0]).startswith("-"))):
            raise refuse(
                "spec.trainer.command" if template.job.ancestor == TRAINER else f"{path}: command",
                "nothing to run on this machine: an image's own entrypoint is unknown",
                "Give the command, with the program as its first word.",
            )
        self._refuse_per_host(words)
        return tuple(self.rewrite(expand(str(word), known)) for word in words)

    def _refuse_per_host(self, words: list[Any]) -> None:
        option = per_host_option([str(word) for word in words]) if self.mpi is not None else None
        if option is not None:
            raise refuse(
                "spec.trainer.command",
                f'mpirun\'s "{option}" counts ranks by host, and on this machine all nodes are one host',
                "Leave it out: spec.trainer.numProcPerNode says how many ranks a node has.",
            )

    def _env(self, template: Template, raw: Raw, path: str) -> list[Entry]:
        """The container's entries in the order in which Trainer's plugins leave them."""
        env = entries(raw.get("env"), f"{path}: env")
        kind = plan_fetch.kind_of(template)
        if kind is not None:
            return plan_fetch.initializer_env(self.trainjob, kind, env)
        own = self._trainer_env(template, raw)
        trains = self._is_trainer(template, raw) and self.trainer is not None
        added = self._injected(template) if trains or self._is_target(template, raw) else []
        reports = plan_env.progress(self.place) if template.job.ancestor == TRAINER else []
        first, then = ([*added, *reports], own) if self.runtime.policy in ("jax", "mpi") else (own, [*added, *reports])
        return upsert(upsert(env, first), then)

    def _trainer_env(self, template: Template, raw: Raw) -> list[Entry]:
        given = (self.trainer or {}).get("env") if self._is_node(template, raw) else None
        return entries(given, "spec.trainer.env")

    def _is_target(self, template: Template, raw: Raw) -> bool:
        """Whether torch's ``envInjection`` names it, or it is MPI's launcher: these get it without spec.trainer too."""
        if self.mpi is not None:
            return template.name == keys.STEP_LAUNCHER and raw.get("name") == keys.STEP_NODE
        policy = ((self.runtime.raw.get("spec") or {}).get("mlPolicy") or {}).get("torch") or {}
        targets = (policy.get("envInjection") or {}).get("targets") or ()
        return any(
            t.get("jobName") == template.name and raw.get("name") in t.get("containerNames", ()) for t in targets
        )

    def _injected(self, template: Template) -> list[Entry]:
        if self.mpi is not None:
            launcher = template.name == keys.STEP_LAUNCHER
            return [Entry({"name": k, "value": v}, "") for k, v in self.mpi.trainer_env().items()] if launcher else []
        nodes = next((t.count for t in self.templates if t.job.ancestor == TRAINER), 1)
        procs = (self.trainer or {}).get("numProcPerNode")
        return plan_env.injected(
            self.runtime.policy, nodes=nodes, procs=procs, resources=self.resources, place=self.place
        )

    def _base(self, template: Template, hostname: str) -> dict[str, str]:
        """What lies below the container's own variables."""
        base = {**self.place.env, "HOSTNAME": hostname}
        for t in self.templates:
            kind = plan_fetch.kind_of(t)
            if kind is not None:
                base[kind.env] = kind.folder(self.place)
        if self.place.checkpoint_dir is not None:
            base[keys.ENV_CHECKPOINT_DIR] = self.place.checkpoint_dir
        if self.mpi is not None and template.name == keys.STEP_LAUNCHER:
            base.update(self.mpi.engine_env())
        return base

    def _say(self, text: str) -> None:
        if text not in self.said:
            self.said.append(text)


def _max_restarts(trainjob: Raw) -> int | None:
    """The limit that came with the request; see ``model.limits``."""
    text = ((trainjob.get("metadata") or {}).get("annotations") or {}).get(keys.ANNOTATION_LIMITS)
    if not text:
        return None
    try:
        value = json.loads(text).get("max_restarts")
        return None if value is None else max(0, int(value))
    except (AttributeError, TypeError, ValueError):
        raise refuse(
            f"metadata.annotations[{keys.ANNOTATION_LIMITS}]", f"{text!r} is not what trainer-ops writes", "Remove it."
        ) from None
