"""Jobs of the old operators and the TrainJobs that they become: the same training, pod by pod.

Each job of the corpus is given to its real v1 operator, what ``convert`` makes of it to the real Trainer, and the pods
of both are read; none runs. They differ in nothing but what ``migration_rows`` explains, and the simulators make up the
same pods.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.api import ApiError
from tests.controlplane.fixtures import Cluster, unused_name
from tests.controlplane.migration_compare import Unlike, unfaithful, unlike
from tests.controlplane.migration_create import Bench
from tests.controlplane.migration_rows import ROWS, SEEN, UNSEEN, Row, sorted_out
from tests.controlplane.v1ops import V1Operators
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
OPTIONS = Options(pin_elastic="replicas")
# Of a version that is not served here.
UNSERVED: Mapping[str, str] = {
    "mpi-horovod-elastic": "mpi-operator serves v2beta1, and both CRDs of MPIJob have one name",
    "mpi-kubectl": "mpi-operator serves v2beta1, and both CRDs of MPIJob have one name",
    "mxnet": "training-operator 1.9 has no MXJob",
}
# What v1 says of jobs that it does not admit.
NOT_ADMITTED: Mapping[str, str] = {
    "pytorch-legacy": "pytorchReplicaSpecs[WORKER]: Unsupported value",
    "pytorch-other-container": "must have at least one container with name pytorch",
    "pytorch-placeholder": "replicas in body must be of type integer",
}
REFUSED = {name for name, outcome in OUTCOMES.items() if outcome.refused and not outcome.flags}
NO_V2: Mapping[str, str] = {
    **dict.fromkeys(REFUSED, "it is refused with whatever options"),
    "pytorch-placeholder": "numNodes is no number",
}
# The API server makes their name, which the simulators do not know.
NAMELESS = frozenset({"pytorch-generate-name"})

NAMES = {path.stem for path in CORPUS.glob("*.yaml")} - UNSERVED.keys()
V1_NAMES = sorted(NAMES - NOT_ADMITTED.keys())
V2_NAMES = sorted(NAMES - NO_V2.keys())
BOTH = sorted(set(V1_NAMES) & set(V2_NAMES))


@dataclass
class Migration:
    """One job on its way; it is created at once, its pods are waited for when they are asked for."""

    bench: Bench
    raw: Raw
    flags: Mapping[str, Any]
    names: dict[str, str] = field(default_factory=dict)
    used: set[Row] = field(default_factory=set)

    def _in(self, namespace: str) -> Raw:
        raw = copy.deepcopy(self.raw)
        raw["metadata"]["namespace"] = namespace
        return raw

    @cached_property
    def made(self) -> Converted:
        return convert(self._in(self.bench.after), replace(OPTIONS, **self.flags))

    @cached_property
    def job(self) -> V1Job:
        raw = self._in(self.bench.before)
        found = normalise(raw, Ledger(raw))
        assert isinstance(found, V1Job)
        return found

    def create_v1(self) -> None:
        self.names["v1"] = self.bench.create_v1(self._in(self.bench.before))

    def create_v2(self) -> None:
        assert self.made.trainjob is not None, [str(found) for found in self.made.findings]
        self.names["v2"] = self.bench.create_v2(self.made.trainjob, self.made.runtime)

    @cached_property
    def before(self) -> Fleet:
        raw = _called(self._in(self.bench.before), self.names["v1"])
        return self.bench.v1(raw, sum(int(role.replicas) for role in self.job.roles))

    @cached_property
    def after(self) -> Fleet:
        assert self.made.trainjob is not None
        return self.bench.v2(_called(self.made.trainjob, self.names["v2"]))

    @cached_property
    def differences(self) -> list[Unlike]:
        return unlike(self.before, self.after)


def _called(raw: Raw, name: str) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "name": name}}


@pytest.fixture(scope="module")
def migrations(control_plane: Cluster, v1_operators: V1Operators) -> Iterator[dict[str, Migration]]:
    spaces = [control_plane.plane.namespace(unused_name(prefix)) for prefix in ("before", "after")]
    bench = Bench(control_plane, *spaces)
    bench.account("trainer")
    bench.priority("high")
    bench.volcano()
    made = {
        name: Migration(bench, yaml.safe_load((CORPUS / f"{name}.yaml").read_text()), OUTCOMES[name].flags)
        for name in sorted({*V1_NAMES, *V2_NAMES})
    }
    for name, migration in made.items():
        if name in V1_NAMES:
            migration.create_v1()
        if name in V2_NAMES:
            migration.create_v2()
    yield made
    for space in spaces:
        control_plane.kubelet.release(space)
        control_plane.api.delete("Namespace", space)
    control_plane.api.delete("PriorityClass", "high")


@pytest.mark.parametrize("name", BOTH)
def test_the_same_pods(name: str, migrations: dict[str, Migration]) -> None:
    migration = migrations[name]
    assert migration.made.ok, [str(found) for found in migration.made.findings]
    codes = {found.code for found in migration.made.findings}
    first = migration.before.first
    assert first is not None
    migration.used, unexplained = sorted_out(migration.differences, codes, " ".join(first.code.argv))
    assert not unexplained, "\n".join(unexplained)
    told = {code for row in migration.used for code in row.codes}
    unseen = {code for code in SEEN if code in codes and code not in told}
    assert unseen == {code for job, code in UNSEEN if job == name}


@pytest.mark.parametrize("name", NOT_ADMITTED)
def test_v1_does_not_admit(name: str, migrations: dict[str, Migration]) -> None:
    raw = yaml.safe_load((CORPUS / f"{name}.yaml").read_text())
    raw["metadata"].pop("namespace", None)
    bench = next(iter(migrations.values())).bench
    with pytest.raises(ApiError) as caught:
        bench.create_v1(raw)
    assert NOT_ADMITTED[name] in caught.value.body


@pytest.mark.parametrize("name", sorted(set(V1_NAMES) - NAMELESS))
def test_v1_is_simulated_as_it_is(name: str, migrations: dict[str, Migration]) -> None:
    migration = migrations[name]
    found = unfaithful(simulate_v1(migration.job), migration.before)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("name", sorted(set(V2_NAMES) - NAMELESS))
def test_v2_is_simulated_as_it_is(name: str, migrations: dict[str, Migration]) -> None:
    migration = migrations[name]
    assert migration.made.trainjob is not None
    simulated = simulate_v2(migration.made.trainjob, migration.made.runtime)
    found = unfaithful(simulated, migration.after)
    assert not found, "\n".join(map(str, found))


def test_every_row_is_needed(migrations: dict[str, Migration]) -> None:
    if not all(migrations[name].used for name in BOTH):
        pytest.skip("only with the tests of all jobs before it")
    used = {row for migration in migrations.values() for row in migration.used}
    assert [row for row in ROWS if row not in used] == []
