"""MPIJobs of kubeflow.org/v1, which reach their workers by kubectl exec, and the TrainJobs that they become.

Training-operator serves them on a plane of its own: its CRD has the name of mpi-operator's, which the session's plane
has. No pod runs on either.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.fixtures import Cluster, second_plane, unused_name
from tests.controlplane.migration_compare import Unlike, unfaithful, unlike
from tests.controlplane.migration_create import Bench
from tests.controlplane.migration_pods import v1_fleet
from tests.controlplane.migration_rows import ROWS, SEEN, Row, sorted_out
from tests.controlplane.plane import ControlPlane, wait_until
from tests.controlplane.v1ops import unavailable
from tests.migrate.outcomes import OUTCOMES
from trainer_ops.migrate.convert import Converted, convert
from trainer_ops.migrate.ledger import Ledger
from trainer_ops.migrate.normalise import V1Job, normalise
from trainer_ops.migrate.options import Options
from trainer_ops.migrate.simulate.fleet import Fleet
from trainer_ops.migrate.simulate.v1 import simulate_v1
from trainer_ops.migrate.simulate.v2 import simulate_v2

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

Raw = dict[str, Any]
CORPUS = Path(__file__).parents[1] / "migrate" / "corpus"
_READ = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(CORPUS.rglob("mpi-*.yaml"))}
JOBS: Mapping[str, Raw] = {name: raw for name, raw in _READ.items() if raw["apiVersion"] == "kubeflow.org/v1"}
OPTIONS = Options(image_has_sshd=True)
REFUSED = frozenset({"mpi-horovod-elastic", "mpi-v1-intel"})
CONVERTED = sorted(JOBS.keys() - REFUSED)
NAMESPACE = "before"
PLACE = f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/mpijobs"

MERGE = "application/merge-patch+json"

TRANSPORT = ("MPI-TRANSPORT", "MPI-LAUNCHER-ONLY")
_SSHD = '[[]"/usr/sbin/sshd", "-De", "-o", "AuthorizedKeysFile=/mnt/ssh/authorized_keys"]'


@dataclass(frozen=True)
class Line(Row):
    """Of a command line that has lost words.

    Attributes:
        gone: these.
    """

    gone: tuple[str, ...] = ()

    def _holds(self, found: Unlike) -> bool:
        rest = iter(json.loads(found.other))
        return all(word in rest for word in json.loads(found.one) if word not in self.gone)


OWN_ROWS = (
    # -- kubectl exec goes --
    Row(("init kubectl-delivery",), "brought kubectl", TRANSPORT, "there", "", seat="launcher"),
    Row(("volume mpi-job-kubectl *", "mount /opt/kube"), "kubectl's place", TRANSPORT, other="", seat="launcher"),
    Row(("pod serviceAccountName",), "who might run commands", TRANSPORT, "{launcher}", "", seat="launcher"),
    Row(("env OMPI_MCA_plm_rsh_agent", "env I_MPI_*"), "kubectl for ssh", TRANSPORT, other="", seat="launcher"),
    Row(
        ("volume mpi-hostfile *", "mount /etc/mpi", "sidecar * mount /etc/mpi"),
        "kubexec.sh has to be where it is on the launcher",
        ("MPI-TRANSPORT",),
        other="",
        seat="host *",
    ),
    Row(
        ("volume mpi-hostfile configMap.items",),
        "the hostfile alone",
        ("MPI-TRANSPORT",),
        "*kubexec.sh*hostfile*discover_hosts.sh*",
        '[[]{"key": "hostfile", "mode": 292, "path": "hostfile"}]',
        seat="launcher",
    ),
    Line(("argv",), "no agent", TRANSPORT, gone=("-mca", "plm_rsh_agent", "/etc/mpi/kubexec.sh"), seat="launcher"),
    Row(("env OMPI_MCA_*", "volume mpi-hostfile *", "mount /etc/mpi"), "no hosts", ("MPI-LAUNCHER-ONLY",), other=""),
    Line(("argv",), "so no hostfile", ("MPI-LAUNCHER-ONLY",), gone=("--hostfile", "/etc/mpi/hostfile")),
    # -- ssh comes --
    Row(("volume mpi-ssh-auth secret.*", "mount /mnt/ssh"), "its keys", ("MPI-KEYMODE",), ""),
    Row(("env OMPI_MCA_orte_*", "env OMPI_MCA_plm_rsh_args"), "Trainer's for ssh", ("MPI-TRANSPORT",), "", "?*"),
    Line(
        ("argv",),
        "workers slept until they were called",
        ("MPI-SSHD-CMD",),
        other=_SSHD,
        seat="host *",
        gone=("sleep", "365d", "infinity"),
    ),
)


@dataclass
class Old:
    """What training-operator made of one job, read before anything ran."""

    plane: ControlPlane
    raw: Raw
    fleet: Fleet
    config: Mapping[str, str]

    @property
    def name(self) -> str:
        return str(self.raw["metadata"]["name"])

    @cached_property
    def simulated(self) -> Fleet:
        found = normalise(self.raw, Ledger(self.raw))
        assert isinstance(found, V1Job)
        return simulate_v1(found)

    def get(self, kind: str, name: str) -> Raw:
        found: Raw = self.plane.api.get(kind, name, namespace=NAMESPACE)
        return found

    def scripts(self) -> Mapping[str, str]:
        data: Mapping[str, str] = self.get("ConfigMap", f"{self.name}-config")["data"]
        return data

    def condition(self, kind: str) -> bool:
        status: Raw = self.plane.api.call("GET", f"{PLACE}/{self.name}").get("status") or {}
        return any(c["type"] == kind and c["status"] == "True" for c in status.get("conditions") or ())

    def say(self, pod: str, **status: Any) -> None:
        """As a kubelet says it."""
        self.plane.api.patch("Pod", pod, {"status": status}, namespace=NAMESPACE, sub="status")


@pytest.fixture(scope="module")
def before() -> Iterator[dict[str, Old]]:
    why = unavailable()
    if why:
        pytest.skip(f"the v1 operators: {why}")
    with second_plane("old-mpi-", trainer=False, old_mpi=True) as plane:
        plane.namespace(NAMESPACE)
        for raw in JOBS.values():
            plane.api.call("POST", PLACE, raw)
        yield {name: _old(plane, raw) for name, raw in JOBS.items()}


def _old(plane: ControlPlane, raw: Raw) -> Old:
    raw = copy.deepcopy(raw)
    raw["metadata"]["namespace"] = NAMESPACE
    roles = raw["spec"]["mpiReplicaSpecs"]
    count = 1 + int(roles.get("Worker", {}).get("replicas", 0))
    found: list[Fleet] = []

    def whole() -> bool:
        found[:] = [v1_fleet(plane, NAMESPACE, raw)]
        return len(found[0].pods) == count

    wait_until(f"{count} pods of {raw['metadata']['name']}", whole)
    made = Old(plane, raw, found[0], {})
    return replace(made, config=made.scripts())


@dataclass
class New:
    """What a job has become."""

    bench: Bench
    made: Converted
    used: set[Row] = field(default_factory=set)

    @cached_property
    def fleet(self) -> Fleet:
        assert self.made.trainjob is not None
        return self.bench.v2(self.made.trainjob)


@pytest.fixture(scope="module")
def after(control_plane: Cluster) -> Iterator[dict[str, New]]:
    space = control_plane.plane.namespace(unused_name("after"))
    control_plane.api.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}, namespace=space
    )
    bench = Bench(control_plane, space, space)
    found = {}
    for name in CONVERTED:
        raw = copy.deepcopy(JOBS[name])
        raw["metadata"]["namespace"] = space
        found[name] = New(bench, convert(raw, replace(OPTIONS, **OUTCOMES[name].flags)))
        trainjob = found[name].made.trainjob
        assert trainjob is not None, [str(one) for one in found[name].made.findings]
        bench.create_v2(trainjob, found[name].made.runtime)
    yield found
    control_plane.kubelet.release(space)
    control_plane.api.delete("Namespace", space)


def test_the_shapes_are_there() -> None:
    assert {"mpi-horovod-elastic", "mpi-kubectl", "mpi-v1-horovod"} <= JOBS.keys()
    assert {name for name in JOBS if OUTCOMES[name].refused and not OUTCOMES[name].flags} == REFUSED


@pytest.mark.parametrize("name", JOBS)
def test_v1_is_simulated_as_it_is(name: str, before: dict[str, Old]) -> None:
    old = before[name]
    found = unfaithful(old.simulated, old.fleet)
    assert not found, "\n".join(map(str, found))
    # unfaithful() forgives controllers' labels that are left out.
    assert [dict(pod.labels) for pod in old.simulated.pods] == [dict(pod.labels) for pod in old.fleet.pods]


@pytest.mark.parametrize("name", JOBS)
def test_who_may_run_commands_where(name: str, before: dict[str, Old]) -> None:
    old = before[name]
    made = f"{old.name}-launcher"
    binding, role = old.get("RoleBinding", made), old.get("Role", made)
    (account,) = (subject["name"] for subject in binding["subjects"])
    assert binding["roleRef"]["name"] == made
    (rule,) = (rule for rule in role["rules"] if rule["resources"] == ["pods/exec"])
    assert old.simulated.rights == {account: tuple(rule.get("resourceNames") or ())}
    # Also the one that the job names is made with it, and goes with it.
    (owner,) = old.get("ServiceAccount", account)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("MPIJob", old.name)


@pytest.mark.parametrize("name", JOBS)
def test_scripts_of_the_launcher(name: str, before: dict[str, Old]) -> None:
    """``discover_hosts.sh`` is kept up to date: the reason for which elastic Horovod is refused."""
    old = before[name]
    (simulated,) = old.simulated.config_maps.values()
    moving = "discover_hosts.sh"
    assert {**old.config, moving: ""} == {**simulated, moving: ""}
    workers = [pod.name for pod in old.fleet.pods if pod.role == "worker"]
    assert not any(worker in old.config[moving] for worker in workers)
    for worker in workers:
        old.say(worker, phase="Running")
    wait_until(f"{workers} in {moving}", lambda: all(worker in old.scripts()[moving] for worker in workers))
    assert old.scripts() == simulated


@pytest.mark.parametrize("name", CONVERTED)
def test_v2_is_simulated_as_it_is(name: str, after: dict[str, New]) -> None:
    made = after[name].made
    assert made.trainjob is not None
    found = unfaithful(simulate_v2(made.trainjob, made.runtime), after[name].fleet)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("name", CONVERTED)
def test_the_same_pods(name: str, before: dict[str, Old], after: dict[str, New]) -> None:
    old, new = before[name], after[name]
    codes = {found.code for found in new.made.findings}
    first = old.fleet.first
    assert first is not None
    command, rows = " ".join(first.code.argv), (*OWN_ROWS, *ROWS)
    new.used, unexplained = sorted_out(unlike(old.fleet, new.fleet), codes, command, rows)
    assert not unexplained, "\n".join(unexplained)
    told = {code for row in new.used for code in row.codes}
    assert [code for code in SEEN if code in codes and code not in told] == []


def test_every_row_is_needed(after: dict[str, New]) -> None:
    if not all(new.used for new in after.values()):
        pytest.skip("only with the tests of all jobs before it")
    used = {row for new in after.values() for row in new.used}
    assert [row for row in OWN_ROWS if row not in used] == []


def test_the_reasons_of_the_refusals_are_true(
    control_plane: Cluster, before: dict[str, Old], after: dict[str, New]
) -> None:
    """MPI-TRANSPORT: kubectl exec there, ssh here. MPI-HOROVOD-ELASTIC: nobody says which hosts there are now.

    MPI-IMPL: v1 gave what Intel's mpirun reads, and Trainer does not.
    """
    secrets = before["mpi-kubectl"].plane.api.list("Secret", namespace=NAMESPACE)
    assert not [secret for secret in secrets if "ssh-privatekey" in secret["data"]]
    for name in REFUSED:
        launcher = before[name].fleet.first
        assert launcher is not None
        assert launcher.code.env["OMPI_MCA_plm_rsh_agent"] == "/etc/mpi/kubexec.sh"
        assert launcher.code.env["I_MPI_HYDRA_BOOTSTRAP_EXEC"] == "/etc/mpi/kubexec.sh"
        done = convert(JOBS[name], OPTIONS)
        refused = {found.code for found in done.findings if found.severity == "refused"}
        assert {*refused, "MPI-TRANSPORT"} == set(OUTCOMES[name].refused)
    new = after["mpi-kubectl"]
    host = new.fleet.seat("host 0")
    assert host is not None
    assert host.code.argv[0] == "/usr/sbin/sshd"
    space = new.fleet.namespace
    head = new.fleet.seat("launcher")
    assert head is not None
    assert not [variable for variable in head.code.env if variable.startswith("I_MPI_")]
    held = control_plane.api.get("ConfigMap", f"{new.fleet.name}-mpi-hostfile", namespace=space)
    assert list(held["data"]) == ["hostfile"]


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        pytest.param("mpi-kubectl", "Failed", id="Never"),
        pytest.param("mpi-v1-gpu-launcher", "Restarting", id="ExitCode"),
    ],
)
def test_a_launcher_that_fails_stays_as_it_is(name: str, condition: str, before: dict[str, Old]) -> None:
    """Last of all, for workers go with a failed job. With ExitCode the job never ends: EXITCODE says it."""
    old = before[name]
    launcher = f"{old.name}-launcher"
    uid = old.get("Pod", launcher)["metadata"]["uid"]
    ended = {"name": "mpi", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    # Of a signal: other kinds of jobs get a new pod then.
    old.say(launcher, phase="Failed", containerStatuses=[{**ended, "state": {"terminated": {"exitCode": 137}}}])
    wait_until(f"{old.name} is {condition}", lambda: old.condition(condition))
    # It looks at the job again when it is changed.
    old.plane.api.call("PATCH", f"{PLACE}/{old.name}", {"metadata": {"labels": {"again": "x"}}}, kind=MERGE)
    other = f"{old.name}-again"
    spec = {"mpiReplicaSpecs": {"Launcher": copy.deepcopy(old.raw["spec"]["mpiReplicaSpecs"]["Launcher"])}}
    later = {"apiVersion": "kubeflow.org/v1", "kind": "MPIJob", "metadata": {"name": other}, "spec": spec}
    old.plane.api.call("POST", PLACE, later)
    wait_until(f"{other} has its turn after it", lambda: old.get("Pod", f"{other}-launcher") is not None)
    assert old.get("Pod", launcher)["metadata"]["uid"] == uid
    assert old.condition("Failed") == (condition == "Failed")
    assert old.simulated.behaviour.restart["launcher"] == "never"
