"""What the processes of a TrainJob find on a cluster, held against what the engine's plan gives them.

One side is read from the pods that the real controllers made, and resolved as a kubelet does; the other is the plan.
Whatever differs must have a row in ``plan_differences.FOUND``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from tests.controlplane.kubelet_env import command, environment
from trainer_ops.local.plan_differences import FOUND, Difference
from trainer_ops.local.plan_values import ContainerPlan, JobPlan, Place, PodPlan

__all__ = ["NODE", "Ledger", "OnCluster", "compare"]

Raw = dict[str, Any]
IP = "10.1.2.3"
NODE: Raw = {
    "metadata": {"name": "worker-1"},
    "status": {"addresses": [{"address": "192.168.0.7"}], "allocatable": {"cpu": "8", "memory": "16Gi"}},
}


@dataclass(frozen=True)
class OnCluster:
    """What the controllers made of one TrainJob.

    Attributes:
        job: the TrainJob as it was created, with its uid.
        pods: all of them, as the API server has them.
        jobs: the child Jobs by the name of their step.
        hostfile: the text of MPI's ConfigMap.
        service: the Service ``kubernetes``, which a kubelet tells to every container.
    """

    job: Raw
    pods: Sequence[Raw]
    jobs: Mapping[str, Raw]
    hostfile: str | None
    service: Raw

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    def of(self, step: str) -> list[Raw]:
        """A step's pods, by completion index."""
        found = [p for p in self.pods if p["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] == step]
        return sorted(found, key=index_of)


def index_of(pod: Raw) -> int:
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


@dataclass
class Ledger:
    """Explains differences by rows, and keeps account.

    Attributes:
        used: the rows that were needed.
        unexplained: one line for each difference that has no row.
    """

    known: Mapping[str, str]
    hosts: Sequence[str]
    namespace: str
    used: set[Difference] = field(default_factory=set)
    unexplained: list[str] = field(default_factory=list)

    def check(self, where: str, subjects: Sequence[str], cluster: str | None, engine: str | None) -> None:
        """Nothing to explain, a row for one of the subjects, or the rows about text."""
        if cluster == engine:
            return
        for row in FOUND:
            if any(fnmatchcase(subject, row.what) for subject in subjects) and self._fits(row, cluster, engine):
                self.used.add(row)
                return
        if cluster is not None:
            text, rows = self._rewritten(cluster)
            if text == engine:
                self.used.update(rows)
                return
        self.unexplained.append(f"{where}: {', '.join(subjects)}: cluster {cluster!r}, engine {engine!r}")

    def _fits(self, row: Difference, cluster: str | None, engine: str | None) -> bool:
        return self._fit(row.cluster, cluster) and self._fit(row.engine, engine)

    def _fit(self, template: str | None, value: str | None) -> bool:
        if template is None or value is None:
            return template is value
        known = {**self.known, "{host}": next((h for h in self.hosts if h in value), "{host}")}
        for name, text in known.items():
            template = template.replace(name, text)
        return fnmatchcase(value, template.replace("[", "[[]"))

    def _rewritten(self, text: str) -> tuple[str, list[Difference]]:
        rows = []
        for row in (row for row in FOUND if row.what == "text"):
            assert row.cluster is not None
            assert row.engine is not None
            engine = row.engine
            for name, value in self.known.items():
                engine = engine.replace(name, value)
            pattern = re.escape(row.cluster)
            if row.cluster == "{host}":
                names = "|".join(map(re.escape, sorted(self.hosts, key=len, reverse=True)))
                pattern = rf"(?:{names})(?:\.{self.namespace}\.svc(?:\.cluster\.local)?)?"
            text, count = re.subn(pattern, lambda _, engine=engine: engine, text)  # type: ignore[misc]
            if count:
                rows.append(row)
        return text, rows


def compare(cluster: OnCluster, plan: JobPlan, place: Place) -> Ledger:
    """All steps, pods, containers, variables, arguments and labels of one TrainJob."""
    hosts = [f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}" for pod in cluster.pods]
    known = {"{job}": cluster.name, "{folder}": place.job_dir, "{port}": str(place.port)}
    ledger = Ledger(known, hosts, place.namespace)
    steps = {step.name: step for step in plan.steps}
    assert sorted(steps) == sorted(cluster.jobs)
    for name, step in steps.items():
        spec = cluster.jobs[name]["spec"]
        assert (spec["parallelism"], spec["completions"]) == (len(step.pods), len(step.pods)), name
        pods = cluster.of(name)
        assert [index_of(pod) for pod in pods] == [pod.index for pod in step.pods] == list(range(len(pods)))
        for there, here in zip(pods, step.pods, strict=True):
            _pod(ledger, cluster, there, here, place)
    _hostfile(ledger, cluster, plan)
    return ledger


def _pod(ledger: Ledger, cluster: OnCluster, there: Raw, here: PodPlan, place: Place) -> None:
    assert there["spec"]["hostname"] == here.hostname
    for kind, planned in (("label", here.labels), ("annotation", here.annotations)):
        for name, one, other in _pairs(there["metadata"].get(f"{kind}s") or {}, planned):
            ledger.check(here.hostname, [f"{kind} {name}"], one, other)
    containers = [*(there["spec"].get("initContainers") or ()), *there["spec"]["containers"]]
    assert [c["name"] for c in containers] == [c.name for c in here.containers]
    for raw, planned_container in zip(containers, here.containers, strict=True):
        _container(ledger, cluster, there, raw, planned_container, place)


def _container(ledger: Ledger, cluster: OnCluster, pod: Raw, raw: Raw, here: ContainerPlan, place: Place) -> None:
    where, step = pod["spec"]["hostname"], pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"]
    placed = {**pod, "spec": {**pod["spec"], "nodeName": NODE["metadata"]["name"]}}
    there = environment(placed, raw, lambda kind, name: None, ip=IP, node=NODE)
    argv = [str(word) for word in command(raw, there)]
    sources = {
        entry["name"]: f"fieldRef {entry['valueFrom']['fieldRef']['fieldPath']}"
        for entry in raw.get("env") or ()
        if "fieldRef" in (entry.get("valueFrom") or {})
    }
    below = {"HOSTNAME": pod["spec"]["hostname"], **service_variables(cluster.service)}
    for name, one, other in _pairs({**below, **there}, here.env):
        subjects = [f"env {name}", *([sources[name]] if name in sources else [])]
        if name in place.env and name not in there:
            subjects = [f"machine {name}"]
        ledger.check(where, subjects, one, other)
    # The order decides what $(NAME) can see.
    if not any(name.startswith("DMLC_") for name in there):
        assert [name for name in here.env if name in there] == list(there), where
    if here.role in ("sshd", "initializer"):
        ledger.check(where, [f"argv {step}"], " ".join(argv), " ".join(here.argv))
        return
    assert len(argv) == len(here.argv)
    for one, other in zip(argv, here.argv, strict=True):
        ledger.check(where, ["argv"], one, other)


def _hostfile(ledger: Ledger, cluster: OnCluster, plan: JobPlan) -> None:
    assert (cluster.hostfile is None) == (plan.hostfile is None)
    if cluster.hostfile is None or plan.hostfile is None:
        return
    there = cluster.hostfile.splitlines()
    comments = [line[2:] for line in plan.hostfile.splitlines()[1:] if line.startswith("# ")]
    assert comments == there
    [line] = [line for line in plan.hostfile.splitlines() if not line.startswith("#")]
    slots = [int(text.rpartition("slots=")[2]) for text in there]
    assert int(line.rpartition("slots=")[2]) == sum(slots)
    for text in there:
        ledger.check("hostfile", ["hostfile"], text, line)


def _pairs(there: Mapping[str, str], here: Mapping[str, str]) -> Iterator[tuple[str, str | None, str | None]]:
    for name in {**there, **here}:
        yield name, there.get(name), here.get(name)


def service_variables(service: Raw) -> dict[str, str]:
    """What a kubelet adds for the API server's Service; the jobs' own are headless and add nothing."""
    address, port = service["spec"]["clusterIP"], str(service["spec"]["ports"][0]["port"])
    link = f"tcp://{address}:{port}"
    return {
        "KUBERNETES_SERVICE_HOST": address,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
        "KUBERNETES_PORT": link,
        f"KUBERNETES_PORT_{port}_TCP": link,
        f"KUBERNETES_PORT_{port}_TCP_PROTO": "tcp",
        f"KUBERNETES_PORT_{port}_TCP_PORT": port,
        f"KUBERNETES_PORT_{port}_TCP_ADDR": address,
    }
