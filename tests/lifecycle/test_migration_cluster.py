"""Live jobs as a person wanted them, running ones told, and the cluster's own word about results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from trainer_ops.backends.kubernetes.migration import ClusterMigration, V1Jobs
from trainer_ops.errors import Forbidden, InvalidRequest, Rejected
from trainer_ops.lifecycle.migration import migrate_sources
from trainer_ops.lifecycle.migration_cluster import cluster_of, dry_run, live_sources, state_of
from trainer_ops.migrate.files import Migrated
from trainer_ops.migrate.options import Options
from trainer_ops.testing.memory import MemoryBackend

Raw = dict[str, Any]


def live(name: str = "digits", **status: str) -> Raw:
    container = {"name": "pytorch", "image": "a/b:v1", "command": ["torchrun", "train.py"]}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": "1",
            "resourceVersion": "7",
            "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "yes"},
        },
        "spec": {
            "nprocPerNode": "1",
            "runPolicy": {"suspend": False},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}}},
        },
        "status": {"conditions": [{"type": kind, "status": value} for kind, value in status.items()]},
    }


@dataclass
class FakeCluster:
    """A cluster that holds v1 jobs and has an opinion about everything else."""

    jobs: tuple[Raw, ...] = ()
    hidden: tuple[str, ...] = ()
    taken: bool | Exception = True
    asked: list[str] = field(default_factory=list)

    def v1_jobs(self) -> V1Jobs:
        return V1Jobs(self.jobs, self.hidden)

    def would_take(self, manifest: Mapping[str, Any]) -> bool:
        self.asked.append(str(manifest["kind"]))
        if isinstance(self.taken, Exception):
            raise self.taken
        return self.taken

    @property
    def as_cluster(self) -> ClusterMigration:
        return cast("ClusterMigration", self)


def converted(cluster: FakeCluster, backend: MemoryBackend | None = None, **options: Any) -> list[Migrated]:
    sources, _ = live_sources(cluster.as_cluster)
    check = dry_run(backend, cluster.as_cluster) if backend is not None else None
    return migrate_sources(sources, Options(live=True, **options), check=check)


def codes(made: Migrated) -> list[tuple[str, str]]:
    return [(one.code, one.severity) for job in made.result.jobs for one in job.converted.findings]


class TestLive:
    def test_what_servers_wrote_is_left_out(self) -> None:
        (source,), _ = live_sources(FakeCluster((live(),)).as_cluster)
        assert source.name == "pytorchjob/digits"
        for word in ("uid", "resourceVersion", "managedFields", "creationTimestamp", "last-applied", "status"):
            assert word not in source.text
        assert "mine:" in source.text

    def test_it_becomes_a_trainjob(self) -> None:
        (made,) = converted(FakeCluster((live(Succeeded="True"),)))
        assert made.result.jobs[0].converted.ok
        assert "kind: TrainJob\n" in made.text
        assert not made.result.findings

    def test_a_running_one_is_told(self) -> None:
        (made,) = converted(FakeCluster((live(Created="True", Running="True"),)))
        (told,) = made.result.findings
        assert (told.finding.code, told.finding.message) == (
            "LIVE-RUNNING",
            "the job is running and is left alone",
        )
        assert made.result.jobs[0].converted.ok

    def test_what_may_not_be_listed(self) -> None:
        assert live_sources(FakeCluster(hidden=("mpijobs",)).as_cluster) == ([], ("mpijobs",))


STATES: dict[str, tuple[dict[str, str], bool, str]] = {
    "new": ({}, False, "waiting to run"),
    "created": ({"Created": "True"}, False, "waiting to run"),
    "running": ({"Created": "True", "Running": "True"}, False, "running"),
    "restarting": ({"Running": "False", "Restarting": "True"}, False, "running"),
    "over": ({"Running": "False", "Succeeded": "True"}, False, ""),
    "failed": ({"Failed": "True"}, False, ""),
    "suspended": ({"Suspended": "True", "Running": "False"}, True, ""),
    "to be suspended": ({}, True, ""),
}


@pytest.mark.parametrize(("status", "suspend", "state"), STATES.values(), ids=STATES.keys())
def test_states(status: dict[str, str], suspend: bool, state: str) -> None:
    raw = live(**status)
    raw["spec"]["runPolicy"]["suspend"] = suspend
    assert state_of(raw) == state


class TestDryRun:
    @pytest.fixture
    def backend(self, memory_backend: MemoryBackend) -> MemoryBackend:
        return memory_backend

    def job(self, backend: MemoryBackend) -> Raw:
        raw = live(Succeeded="True")
        raw["metadata"]["namespace"] = backend.namespace
        return raw

    def test_taken(self, backend: MemoryBackend) -> None:
        cluster = FakeCluster((self.job(backend),))
        (made,) = converted(cluster, backend)
        assert cluster.asked == ["TrainJob"]
        assert ("ADMISSION", "refused") not in codes(made)
        assert made.changed

    def test_refused_is_not_written(self, backend: MemoryBackend) -> None:
        (made,) = converted(FakeCluster((self.job(backend),), taken=Rejected("no such queue")), backend)
        assert not made.changed
        told = made.result.jobs[0].converted.findings[0]
        assert (told.code, told.severity, told.v2_path) == ("ADMISSION", "refused", "trainjob:")
        assert told.message == "the cluster refuses it: no such queue"

    def test_the_runtime_first_and_the_job_only_where_it_is_there(self, backend: MemoryBackend) -> None:
        cluster = FakeCluster((self.job(backend),))
        (made,) = converted(cluster, backend, runtime="generate")
        assert cluster.asked == ["TrainingRuntime"]
        told = [one.message for one in made.result.jobs[0].converted.findings if one.code == "ADMISSION"]
        assert told == ["not checked by the cluster: the cluster has no runtime digits-torch yet"]
        assert made.changed

    @pytest.mark.parametrize(
        ("taken", "reason"),
        [(False, "a TrainJob digits is there already"), (Forbidden("may not create"), "may not create")],
    )
    def test_what_could_not_be_asked_is_said(
        self, taken: bool | Exception, reason: str, backend: MemoryBackend
    ) -> None:
        (made,) = converted(FakeCluster((self.job(backend),), taken=taken), backend)
        told = [one for one in made.result.jobs[0].converted.findings if one.code == "ADMISSION"]
        assert [(one.severity, one.message) for one in told] == [("info", f"not checked by the cluster: {reason}")]
        assert made.changed

    def test_another_namespace_is_not_asked_about(self, backend: MemoryBackend) -> None:
        cluster = FakeCluster((live(Succeeded="True"),))
        (made,) = converted(cluster, backend)
        assert cluster.asked == []
        assert ("ADMISSION", "info") in codes(made)


def test_only_a_cluster_has_live_jobs(memory_backend: MemoryBackend) -> None:
    with pytest.raises(InvalidRequest, match=r"--live: memory://.* is no cluster"):
        cluster_of(memory_backend, "--live")
