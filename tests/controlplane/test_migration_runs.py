"""Real runs before and after: a training under its old operator and as TrainJob ends the same and says the same.

What is printed names host names; those of both generations are read as the pods that they mean.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.controlplane.api import path_of
from tests.controlplane.fixtures import Cluster, unused_name
from tests.controlplane.migration_compare import Names
from tests.controlplane.migration_create import Bench
from tests.controlplane.migration_scripts import GATE, JOBS, NEEDS_TORCH, OUTLIVED
from tests.controlplane.plane import wait_until
from tests.controlplane.v1ops import V1Operators
from trainer_ops.migrate.convert import convert
from trainer_ops.migrate.simulate.fleet import Fleet
from trainer_ops.migrate.wrappers import deciding

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

Raw = dict[str, Any]
PATIENCE = 150.0
# Their ends are not the training's; what they say is cut off.
SERVANTS = ("ps", "host")


@pytest.fixture(scope="module")
def bench(control_plane: Cluster, v1_operators: V1Operators) -> Iterator[Bench]:
    if control_plane.kubelet.mode == "plain":
        pytest.skip("host names of v1 are no names where all pods are one machine")
    spaces = [control_plane.plane.namespace(unused_name(prefix)) for prefix in ("before", "after")]
    yield Bench(control_plane, *spaces, held=False)
    for space in spaces:
        control_plane.api.delete("Namespace", space)


def has_torch() -> bool:
    if not Path("/usr/bin/torchrun").exists():
        return False
    tried = subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True, check=False)
    return tried.returncode == 0


def said(cluster: Cluster, fleet: Fleet, pods: list[Raw]) -> dict[str, list[str]]:
    """What each pod has printed, by its place in the training."""
    names = Names(fleet)
    by_host = {host_of(pod): pod for pod in pods}
    found = {}
    for pod in fleet.pods:
        if pod.seat.partition(" ")[0] in SERVANTS:
            continue
        meta = by_host[pod.host.partition(".")[0]]["metadata"]
        log = cluster.api.call("GET", path_of("Pod", meta["namespace"], meta["name"], "log") + f"?container={pod.main}")
        lines = (line.partition("> ") for line in str(log).splitlines())
        found[pod.seat] = sorted(names(text) for _, mark, text in lines if mark)
    return found


class Gate:
    """Holds a chief until its workers have ended: after it nothing of theirs can be read.

    Args:
        cluster: where.
        folder: a folder that the chief sees.
        shut: whether this training has such a chief.
    """

    def __init__(self, cluster: Cluster, folder: Path, *, shut: bool) -> None:
        self._cluster, self._folder, self._shut = cluster, folder, shut

    def at(self, raw: Raw) -> Raw:
        """The job with the folder's path in it."""
        return cast("Raw", json.loads(json.dumps(raw).replace(GATE, str(self._folder))))

    def pass_through(self, space: str, fleet: Fleet) -> None:
        """Wait for the workers of a fleet, and let its chief go."""
        if not self._shut:
            return
        workers, chief = (
            {pod.host.partition(".")[0] for pod in fleet.pods if pod.seat.startswith(role)}
            for role in ("worker", "chief")
        )
        wait_until("the ends of all workers", lambda: workers <= self._ended(space), seconds=PATIENCE)
        opened = self._folder / "open"
        opened.touch()
        wait_until("the end of the chief", lambda: chief <= self._ended(space), seconds=PATIENCE)
        opened.unlink()

    def _ended(self, space: str) -> set[str]:
        pods = self._cluster.api.list("Pod", namespace=space)
        return {host_of(pod) for pod in pods if pod["status"]["phase"] == "Succeeded"}


def host_of(pod: Raw) -> str:
    """A pod's own host name, the first part of the name that others use."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])


@pytest.mark.parametrize("name", JOBS)
def test_before_and_after(name: str, bench: Bench, control_plane: Cluster, tmp_path: Path) -> None:
    if name in NEEDS_TORCH and not has_torch():
        pytest.skip("PyTorch is not installed on this machine (Debian: python3-torch)")
    gate = Gate(control_plane, tmp_path, shut=name in OUTLIVED)
    raw = gate.at(JOBS[name])
    raw["metadata"]["name"] = name = unused_name(name)
    roles = next(v for k, v in raw["spec"].items() if k.endswith("ReplicaSpecs"))
    bench.create_v1(raw)
    before = bench.v1(raw, sum(role["replicas"] for role in roles.values()))
    old = control_plane.api.list("Pod", namespace=bench.before)
    gate.pass_through(bench.before, before)
    control_plane.wait(raw["kind"], name, bench.before, lambda job: ended(job) != "", seconds=PATIENCE)
    was = said(control_plane, before, old)
    assert ended(control_plane.api.get(raw["kind"], name, namespace=bench.before)) == "Succeeded", was

    made = convert(raw)
    assert made.trainjob is not None, [str(found) for found in made.findings]
    bench.create_v2(made.trainjob, made.runtime)
    after = bench.v2(made.trainjob)
    new = control_plane.pods(bench.after, name)
    gate.pass_through(bench.after, after)
    end = control_plane.ended(name, bench.after, seconds=PATIENCE)
    now = said(control_plane, after, new)
    assert end == "Complete", now

    assert now == was
    assert all(was.values()), was
    # Argo is told to look at an index of this list, and JobSet's own order is none of the runtime's.
    index, count = deciding(made)
    rows = control_plane.api.get("TrainJob", name, namespace=bench.after)["status"]["jobsStatus"]
    assert [row["name"] for row in rows] == sorted((row["name"] for row in rows), reverse=True)
    assert len(rows) == count, rows
    assert rows[index]["succeeded"] == 1, rows


def ended(job: Raw) -> str:
    """The v1 job's final condition, "" while there is none."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((c["type"] for c in conditions if c["type"] in ("Succeeded", "Failed") and c["status"] == "True"), "")
