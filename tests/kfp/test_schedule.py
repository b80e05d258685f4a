"""apply_schedule against a stand-in for KFP's client: again is once, replacing by name, broken off anywhere."""

from __future__ import annotations

import importlib.util
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from trainer_ops.errors import BackendError, InvalidRequest
from trainer_ops.kfp.package import Package
from trainer_ops.kfp.schedule import Schedule, apply_schedule

pytestmark = pytest.mark.kfp

PIPELINE = Path(__file__).parents[2] / "components" / "scheduled_retraining" / "pipeline.yaml"
PARAMS = {"data": "s3://b/d", "script_uri": "s3://b/s.py", "registry": "s3://b/c"}
DAILY = "0 0 5 * * *"


class Refused(Exception):
    """As kfp_server_api.ApiException."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"({status})")
        self.status = status
        self.body = json.dumps({"error": message, "message": message}).encode()


class StandIn:
    """KFP with experiments, pipelines and recurring runs in memory, three to a page.

    ``fail`` names the call that fails from then on, and with what.
    """

    def __init__(self) -> None:
        self.pipelines: dict[str, str] = {}
        self.versions: dict[str, list[tuple[str, str]]] = {}
        self.runs: list[SimpleNamespace] = []
        self.asked: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.fail: tuple[str, Exception] | None = None
        self.uploaded: list[str] = []

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.fail is not None and self.fail[0] == name:
            raise self.fail[1]

    def create_experiment(self, name: str, description: Any = None, namespace: Any = None) -> Any:
        self._called("create_experiment")
        return SimpleNamespace(experiment_id=f"experiment-{name}")

    def list_pipelines(
        self, page_token: str = "", page_size: int = 10, sort_by: str = "", filter: Any = None, namespace: Any = None
    ) -> Any:
        self._called("list_pipelines")
        found = [SimpleNamespace(pipeline_id=i, display_name=name) for name, i in self.pipelines.items()]
        return SimpleNamespace(pipelines=found or None)

    def upload_pipeline(
        self, pipeline_package_path: str, pipeline_name: Any = None, description: Any = None, namespace: Any = None
    ) -> Any:
        self._called("upload_pipeline")
        self.uploaded.append(Path(pipeline_package_path).read_text())
        self.pipelines[pipeline_name] = "pipeline-1"
        self.versions["pipeline-1"] = [(pipeline_name, "version-0")]
        return SimpleNamespace(pipeline_id="pipeline-1")

    def list_pipeline_versions(
        self, pipeline_id: str, page_token: str = "", page_size: int = 10, sort_by: str = "", filter: Any = None
    ) -> Any:
        self._called("list_pipeline_versions")
        found = [SimpleNamespace(display_name=n, pipeline_version_id=i) for n, i in self.versions[pipeline_id]]
        return SimpleNamespace(pipeline_versions=found)

    def upload_pipeline_version(
        self,
        pipeline_package_path: str,
        pipeline_version_name: str,
        pipeline_id: Any = None,
        pipeline_name: Any = None,
        description: Any = None,
    ) -> Any:
        self._called("upload_pipeline_version")
        self.uploaded.append(Path(pipeline_package_path).read_text())
        made = f"version-{len(self.versions[pipeline_id])}"
        self.versions[pipeline_id].append((pipeline_version_name, made))
        return SimpleNamespace(pipeline_version_id=made)

    def list_recurring_runs(
        self,
        page_token: str = "",
        page_size: int = 10,
        sort_by: str = "",
        experiment_id: Any = None,
        namespace: Any = None,
        filter: Any = None,
    ) -> Any:
        self._called("list_recurring_runs")
        at = int(page_token or 0)
        page = [run for run in self.runs if run.experiment_id == experiment_id][at : at + 3]
        return SimpleNamespace(recurring_runs=page or None, next_page_token=str(at + 3) if len(page) == 3 else None)

    def create_recurring_run(
        self,
        experiment_id: str,
        job_name: str,
        description: Any = None,
        start_time: Any = None,
        end_time: Any = None,
        interval_second: Any = None,
        cron_expression: Any = None,
        max_concurrency: Any = 1,
        no_catchup: Any = None,
        params: Any = None,
        pipeline_package_path: Any = None,
        pipeline_id: Any = None,
        version_id: Any = None,
        enabled: bool = True,
        pipeline_root: Any = None,
        enable_caching: Any = None,
        cache_key: Any = None,
        service_account: Any = None,
    ) -> Any:
        self._called("create_recurring_run")
        self.asked.append({name: value for name, value in locals().items() if name != "self"})
        return self.add(job_name, experiment_id, description, enabled)

    def add(self, name: str, experiment_id: str, description: Any = None, enabled: bool = True) -> Any:
        run = SimpleNamespace(
            recurring_run_id=f"run-{len(self.calls)}-{len(self.runs)}",
            display_name=name,
            experiment_id=experiment_id,
            description=description,
            created_at=f"2026-01-{len(self.calls) + 1:02d}",
            status="ENABLED" if enabled else "DISABLED",
            mode=None,
        )
        self.runs.append(run)
        return run

    def _run(self, run_id: str) -> SimpleNamespace:
        return next(run for run in self.runs if run.recurring_run_id == run_id)

    def enable_recurring_run(self, recurring_run_id: str) -> Any:
        self._called("enable_recurring_run")
        self._run(recurring_run_id).status = "ENABLED"
        return {}

    def disable_recurring_run(self, recurring_run_id: str) -> Any:
        self._called("disable_recurring_run")
        self._run(recurring_run_id).status = "DISABLED"
        return {}

    def delete_recurring_run(self, recurring_run_id: str) -> Any:
        self._called("delete_recurring_run")
        self.runs.remove(self._run(recurring_run_id))
        return {}

    @property
    def states(self) -> list[tuple[str, str]]:
        return [(run.display_name, run.status) for run in self.runs]


@pytest.fixture
def kfp() -> StandIn:
    return StandIn()


@pytest.fixture
def apply(kfp: StandIn) -> Callable[..., Schedule]:
    def apply(pipeline: Any = PIPELINE, **more: Any) -> Schedule:
        given = {"name": "nightly", "cron": DAILY, "params": PARAMS, **more}
        return apply_schedule(kfp, pipeline, **given)

    return apply


@pytest.mark.skipif(importlib.util.find_spec("kfp") is None, reason="kfp is not here")
def test_the_stand_in_is_called_as_the_client_is() -> None:
    from kfp import Client

    for name in dir(StandIn):
        if hasattr(Client, name) and not name.startswith("_"):
            ours = list(inspect.signature(getattr(StandIn, name)).parameters)
            assert ours == list(inspect.signature(getattr(Client, name)).parameters), name


def test_safe_defaults(kfp: StandIn, apply: Callable[..., Schedule]) -> None:
    made = apply()
    (asked,) = kfp.asked
    assert made.how == "created"
    assert (asked["no_catchup"], asked["max_concurrency"], asked["enabled"]) == (True, 1, True)
    assert (asked["cron_expression"], asked["interval_second"]) == (DAILY, None)
    assert (asked["pipeline_id"], asked["version_id"]) == ("pipeline-1", made.version_id)
    assert asked["params"] == PARAMS
    # Of the client's arguments that one is for packages: of a version it is ignored, so it is in what was uploaded.
    assert asked["enable_caching"] is None
    for text in kfp.uploaded:
        assert "enableCache" not in text


def test_again_is_once(kfp: StandIn, apply: Callable[..., Schedule]) -> None:
    first = apply(description="for the team")
    calls = len(kfp.calls)
    again = apply(description="for the team")
    assert (again.how, again.recurring_run_id) == ("unchanged", first.recurring_run_id)
    assert {name.partition("_")[0] for name in kfp.calls[calls:]} == {"list", "create"}
    assert kfp.calls[calls:].count("create_experiment") == 1
    assert len(kfp.runs) == 1
    assert kfp.runs[0].description.startswith("for the team\napplied by trainer-ops sha256:")


@pytest.mark.parametrize(
    "change",
    [
        {"cron": "0 0 6 * * *"},
        {"cron": "", "interval_seconds": 3600},
        {"params": {**PARAMS, "rounds": 30}},
        {"max_concurrency": 2},
        {"catchup": True},
        {"service_account": "other"},
        {"pipeline_root": "s3://b/root"},
    ],
    ids=str,
)
def test_what_differs_is_replaced(kfp: StandIn, apply: Callable[..., Schedule], change: dict[str, Any]) -> None:
    first = apply()
    second = apply(**change)
    assert second.how == "replaced"
    assert second.removed == (first.recurring_run_id,)
    assert kfp.states == [("nightly", "ENABLED")]
    assert kfp.calls.index("disable_recurring_run") < len(kfp.calls) - kfp.calls[::-1].index("create_recurring_run")
    assert kfp.calls[-1] == "delete_recurring_run"


def test_a_changed_pipeline_is_a_new_version(kfp: StandIn, apply: Callable[..., Schedule], tmp_path: Path) -> None:
    first = apply()
    changed = tmp_path / "pipeline.yaml"
    changed.write_text(PIPELINE.read_text().replace("Trains when", "Learns when"))
    second = apply(changed)
    assert (second.how, second.pipeline_id) == ("replaced", first.pipeline_id)
    assert second.version_id != first.version_id
    assert apply().version_id == first.version_id


def test_others_are_left_alone(kfp: StandIn, apply: Callable[..., Schedule]) -> None:
    for number in range(5):
        kfp.add(f"other-{number}", "experiment-Default")
    kfp.add("nightly", "experiment-elsewhere")
    apply()
    apply(cron="0 0 6 * * *")
    assert len(kfp.runs) == 7


def test_one_made_by_hand_is_replaced(kfp: StandIn, apply: Callable[..., Schedule]) -> None:
    for number in range(4):
        kfp.add("nightly" if number == 3 else f"other-{number}", "experiment-Default", "by hand")
    assert apply().how == "replaced"
    assert [run.display_name for run in kfp.runs].count("nightly") == 1


def test_switched_off_and_on(kfp: StandIn, apply: Callable[..., Schedule]) -> None:
    first = apply()
    assert apply(enabled=False).how == "switched"
    assert kfp.states == [("nightly", "DISABLED")]
    assert apply(enabled=False).how == "unchanged"
    on = apply()
    assert (on.how, on.recurring_run_id) == ("switched", first.recurring_run_id)


def test_refused_when_making_it_what_ran_before_runs_on(kfp: StandIn, apply: Callable[..., Schedule]) -> None:
    apply()
    kfp.fail = ("create_recurring_run", Refused(400, "invalid cron"))
    with pytest.raises(BackendError, match="making the recurring run failed: HTTP 400: invalid cron") as caught:
        apply(cron="0 0 99 * * *")
    assert caught.value.status == 400
    assert kfp.states == [("nightly", "ENABLED")]


@pytest.mark.parametrize("call", ["disable_recurring_run", "create_recurring_run", "delete_recurring_run"])
def test_killed_anywhere_doing_it_again_finishes_it(kfp: StandIn, apply: Callable[..., Schedule], call: str) -> None:
    apply()
    made = getattr(StandIn, call)

    def killed(self: StandIn, *args: Any, **kwargs: Any) -> Any:
        made(self, *args, **kwargs)
        # As a kill leaves it: nothing after it is done.
        kfp.enable_recurring_run = lambda run_id: {}  # type: ignore[method-assign, assignment]
        raise KeyboardInterrupt

    setattr(kfp, call, killed.__get__(kfp))
    with pytest.raises(KeyboardInterrupt):
        apply(cron="0 0 6 * * *")
    for name in (call, "enable_recurring_run"):
        delattr(kfp, name)
    apply(cron="0 0 6 * * *")
    assert kfp.states == [("nightly", "ENABLED")]
    assert kfp.asked[-1]["cron_expression"] == "0 0 6 * * *"


def test_two_at_once_upload_one_pipeline(kfp: StandIn, apply: Callable[..., Schedule]) -> None:
    upload = kfp.upload_pipeline

    def second(path: str, pipeline_name: Any = None, namespace: Any = None) -> Any:
        upload(path, pipeline_name)
        raise Refused(409, "already exists")

    kfp.upload_pipeline = second  # type: ignore[method-assign, assignment]
    assert apply().pipeline_id == "pipeline-1"


def test_a_server_that_is_away(kfp: StandIn, apply: Callable[..., Schedule]) -> None:
    kfp.fail = ("list_pipelines", ConnectionError("refused"))
    with pytest.raises(BackendError, match="looking for the pipeline failed: ConnectionError: refused"):
        apply()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cron": "0 5 * * *"}, r'cron: "0 5 \* \* \*" has 5 fields, and KFP takes 6'),
        ({"cron": ""}, "one of cron and interval_seconds"),
        ({"interval_seconds": 60}, "one of cron and interval_seconds"),
        ({"cron": "", "interval_seconds": -1}, "-1 is not at least 1"),
        ({"max_concurrency": 0}, "max_concurrency: 0 is not at least 1"),
        ({"name": " "}, "name: is empty"),
        ({"params": {"data": "x"}}, "params.registry: the pipeline scheduled-retraining needs it"),
        ({"params": {**PARAMS, "round": 1}}, "params.round: .*no such parameter. Did you mean rounds?"),
        ({"params": {**PARAMS, "rounds": object()}}, "params: are no plain data"),
        ({"pipeline": 7}, "pipeline: is a int"),
        ({"pipeline": "/no/such.yaml"}, "cannot be read"),
    ],
    ids=str,
)
def test_refused_before_anything_is_asked(
    kfp: StandIn, apply: Callable[..., Schedule], change: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidRequest, match=says):
        apply(**change)
    assert kfp.calls == []


@pytest.mark.parametrize("text", ["", "a: [", "kind: Pod", "7"])
def test_what_is_no_pipeline(tmp_path: Path, text: str) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match=r"^invalid request: pipeline: is no"):
        Package.of(file, caching=False)


def test_caching_is_switched_off_in_every_task_and_nothing_else_changes() -> None:
    compiled = yaml.safe_load(PIPELINE.read_text())
    for component in compiled["components"].values():
        for task in ((component.get("dag") or {}).get("tasks") or {}).values():
            task["cachingOptions"] = {"enableCache": True}
    file = yaml.safe_dump(compiled)
    assert file.count("enableCache: true") >= 4
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.yaml"
        path.write_text(file)
        off, on = Package.of(path, caching=False), Package.of(path, caching=True)
    assert "enableCache" not in off.text
    assert on.text == file
    assert off.version != on.version
    assert off.inputs == on.inputs


@pytest.mark.skipif(importlib.util.find_spec("kfp") is None, reason="kfp is not here")
def test_a_function_is_compiled(kfp: StandIn, apply: Callable[..., Schedule], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PIPELINE.parents[2]))
    from components.scheduled_retraining.pipeline import scheduled_retraining

    first = apply()
    assert apply(scheduled_retraining).recurring_run_id == first.recurring_run_id
