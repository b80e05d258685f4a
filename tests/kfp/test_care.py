"""cleanup_train_jobs and apply_runtime as whole steps, in a stand-in for a cluster and on the engine."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kfp.apiserver import ApiServer, Request
from tests.kfp.conftest import RUN
from trainer_ops.lifecycle.target import open_backend
from trainer_ops.model import keys

pytestmark = [pytest.mark.kfp, pytest.mark.slow]

PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
OTHER = "9d2a1c44-1f7b-4a6e-8f0e-0c9b8a7d6e5f"
RUNTIME: dict[str, Any] = {
    "metadata": {"name": "own"},
    "spec": {
        "mlPolicy": {"numNodes": 1.0},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "x"}]}}},
                        },
                    }
                ]
            }
        },
    },
}


def trainjob(name: str, run: str = RUN, team: str = "a") -> dict[str, Any]:
    labels = {keys.LABEL_PIPELINE_RUN: run, "team": team}
    meta = {"name": name, "uid": f"uid-{name}", "namespace": "team-a", "labels": labels}
    return {"metadata": {**meta, "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"runtimeRef": {"name": "x"}}}


def cleaned(cluster: ApiServer, step: Callable[..., Any], **inputs: Any) -> tuple[Any, str, str]:
    one = step("cleanup_train_jobs", **inputs)
    process = one.start_in(cluster, **PIPES)
    out, err = process.communicate(timeout=60)
    return (one if process.returncode == 0 else None), out, err


def names(one: Any) -> list[str]:
    return sorted(row["name"] for row in one.written["cleaned"])


def test_of_this_run_what_has_not_ended(cluster: ApiServer, step: Callable[..., Any]) -> None:
    cluster.jobs.update({name: trainjob(name) for name in ("active", "queued", "ended")})
    cluster.jobs["of-another-run"] = trainjob("of-another-run", OTHER)
    cluster.jobs["queued"]["spec"]["suspend"] = True
    cluster.finish("ended")
    one, out, err = cleaned(cluster, step)
    assert one is not None, err
    assert names(one) == ["active", "queued"]
    assert sorted(cluster.jobs) == ["ended", "of-another-run"]
    assert "active  was " in out
    assert out.endswith("trainings cleaned up: 2\n")
    assert "| team-a/active |" in Path(one.folder / "report").read_text()
    again, out, _ = cleaned(cluster, step)
    assert names(again) == []
    assert out == f"nothing to clean up of {keys.LABEL_PIPELINE_RUN}={RUN}\n"


@pytest.mark.parametrize(
    ("inputs", "gone"),
    [
        pytest.param({"names": ["b"]}, ["b"], id="of them by name"),
        pytest.param({"names": ["c"]}, [], id="a name of another run"),
        pytest.param({"labels": {"team": "b"}}, ["b"], id="of them by label"),
        pytest.param({"run": OTHER}, ["c"], id="another run's"),
        pytest.param({"run": "any", "labels": {"team": "b"}}, ["b", "c"], id="of any run"),
        pytest.param({"only": "finished"}, ["d"], id="those that have ended"),
        pytest.param({"only": "all", "older_than": 60.0}, ["a", "b", "d"], id="old ones"),
        pytest.param({"only": "failed"}, [], id="failed ones"),
    ],
)
def test_which(cluster: ApiServer, step: Callable[..., Any], inputs: dict[str, Any], gone: list[str]) -> None:
    cluster.jobs.update(a=trainjob("a"), b=trainjob("b", team="b"), c=trainjob("c", OTHER, "b"), d=trainjob("d"))
    cluster.finish("d")
    one, _, err = cleaned(cluster, step, **inputs)
    assert one is not None, err
    assert names(one) == gone
    assert sorted(cluster.deleted) == gone


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        pytest.param({"run": "any"}, "labels: neither labels nor names are given", id="everything"),
        pytest.param({"policy": "stop"}, "neither delete nor suspend", id="policy"),
        pytest.param({"only": "running"}, "none of active, failed, finished, all", id="only"),
        pytest.param({"older_than": -5}, "older_than: -5 is not at least 0", id="older_than"),
    ],
)
def test_which_cannot_be(cluster: ApiServer, step: Callable[..., Any], inputs: dict[str, Any], says: str) -> None:
    cluster.jobs["a"] = trainjob("a")
    one, _, err = cleaned(cluster, step, **inputs)
    assert one is None
    assert says in err
    assert "Traceback" not in err
    assert cluster.deleted == []


def test_a_task_whose_run_is_not_known_deletes_nothing(cluster: ApiServer, step: Callable[..., Any]) -> None:
    cluster.jobs["a"] = trainjob("a")
    one = step("cleanup_train_jobs")
    # As an older driver makes URIs: without the task's own part, what stands in the run's place is the pipeline.
    strange = [part.replace(f"/{RUN}/", "/") for part in one.argv]
    process = subprocess.run(strange, capture_output=True, text=True, env={"PATH": "/bin"}, timeout=60, check=False)
    assert strange != one.argv
    assert process.returncode == 1
    assert "run: is not told by this step's outputs" in process.stderr


def test_a_refused_deletion_of_one_keeps_no_other(cluster: ApiServer, step: Callable[..., Any]) -> None:
    cluster.jobs.update(a=trainjob("a"), b=trainjob("b"))

    def refuse(request: Request) -> tuple[int, str] | None:
        refused = request.verb == "DELETE" and request.path.endswith("/a")
        return (403, 'trainjobs is forbidden: User "jane" cannot delete resource "trainjobs"') if refused else None

    cluster.refuse = refuse
    one, _, err = cleaned(cluster, step)
    assert one is None
    assert cluster.deleted == ["b"]
    assert err.strip().splitlines()[-1].startswith("not allowed: deleting trainjob")


def test_suspended_on_the_engine(engine: str, step: Callable[..., Any]) -> None:
    submit = step("submit_train_job", task="a", runtime="plain", command=["sleep", "60"], target=engine)
    assert submit.start(stdout=subprocess.DEVNULL).wait(timeout=60) == 0
    one = step("cleanup_train_jobs", task="b", policy="suspend", target=engine)
    assert one.start(stdout=subprocess.DEVNULL).wait(timeout=60) == 0
    assert [row["how"] for row in one.written["cleaned"]] == ["suspended"]
    backend = open_backend(engine)
    (job,) = backend.list({keys.LABEL_PIPELINE_RUN: RUN})
    backend.close()
    assert job["spec"]["suspend"] is True


class TestApplyRuntime:
    def applied(self, step: Callable[..., Any], engine: str, **inputs: Any) -> tuple[int, Any, str]:
        one = step("apply_runtime", target=engine, **inputs)
        process = one.start(**PIPES)
        _, err = process.communicate(timeout=60)
        return process.returncode, one, err

    def test_again_is_once_and_numbers_are_whole(self, step: Callable[..., Any], engine: str) -> None:
        hows = []
        for manifest in (RUNTIME, RUNTIME, {**RUNTIME, "spec": {**RUNTIME["spec"], "mlPolicy": {"numNodes": 2.0}}}):
            code, one, err = self.applied(step, engine, runtime=manifest)
            assert code == 0, err
            hows.append(one.written["how"])
        assert hows == ["created", "unchanged", "changed"]
        assert (one.written["name"], one.written["kind"]) == ("own", "ClusterTrainingRuntime")
        backend = open_backend(engine)
        stored = backend.runtime("own", "ClusterTrainingRuntime")
        backend.close()
        assert stored is not None
        assert repr(stored["spec"]["mlPolicy"]["numNodes"]) == "2"

    def test_from_a_file(self, step: Callable[..., Any], engine: str, tmp_path: Path) -> None:
        import yaml

        file = tmp_path / "runtime.yaml"
        file.write_text(yaml.safe_dump(RUNTIME))
        for uri in (str(file), file.as_uri()):
            assert self.applied(step, engine, runtime_uri=uri)[0] == 0

    @pytest.mark.parametrize(
        ("inputs", "says"),
        [
            pytest.param({}, "runtime: one of runtime and runtime_uri", id="neither"),
            pytest.param({"runtime_uri": "/no/such.yaml"}, "runtime_uri: /no/such.yaml cannot be read", id="no file"),
            pytest.param({"runtime": {"kind": "Pod"}}, "'Pod' is no runtime", id="no runtime"),
            pytest.param({"runtime": {"metadata": {"name": "x"}, "spec": {}}}, "invalid", id="a wrong one"),
        ],
    )
    def test_refused(self, step: Callable[..., Any], engine: str, inputs: dict[str, Any], says: str) -> None:
        code, _, err = self.applied(step, engine, **inputs)
        assert code == 1
        assert says in err
        assert "Traceback" not in err


def test_who_may_not_write_runtimes_gets_the_roles_that_may(cluster: ApiServer, step: Callable[..., Any]) -> None:
    account = "system:serviceaccount:kubeflow:pipeline-runner"
    group, resource = keys.GROUP, "clustertrainingruntimes"

    def refuse(request: Request) -> tuple[int, str] | None:
        what = f'{resource} is forbidden: User "{account}" cannot create resource "{resource}" in API group "{group}"'
        return None if request.verb == "GET" else (403, f"{what} at the cluster scope")

    cluster.refuse = refuse
    one = step("apply_runtime", runtime=RUNTIME)
    process = one.start_in(cluster, **PIPES)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "# applying them" in err
    assert "namespace: kubeflow" in err
    assert "--runtimes" in err.strip().splitlines()[-1]
