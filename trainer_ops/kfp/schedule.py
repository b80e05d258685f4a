"""A pipeline on a schedule: what KFP calls a recurring run, made so that applying it again is once.

KFP can neither change nor replace a recurring run, and its defaults are made for looking at pipelines, not for running
them every night. So a schedule here is known by its name; it is bound to the version of the pipeline that was given,
makes up for no missed rounds, runs one round at a time and uses no cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from trainer_ops.errors import BackendError, InvalidRequest
from trainer_ops.kfp.package import Package

__all__ = ["Schedule", "apply_schedule"]

T = TypeVar("T")

_PAGE: Final = 100
_CRON_FIELDS: Final = 6
# Ends the description of what was applied here: equal marks, equal schedules. KFP keeps a recurring run as it is.
_MARK: Final = "applied by trainer-ops "
_CONFLICT: Final = 409


@dataclass(frozen=True, slots=True)
class Schedule:
    """What became of a schedule.

    Attributes:
        how: ``created``, ``replaced``, ``unchanged``, or ``switched``: the same as before, but enabled or disabled.
        name: the recurring run's.
        recurring_run_id: KFP's.
        experiment_id: KFP's.
        pipeline_id: KFP's.
        version_id: of the pipeline's version that it is bound to.
        removed: ids of recurring runs of that name whose place it took.
    """

    how: Literal["created", "replaced", "unchanged", "switched"]
    name: str
    recurring_run_id: str
    experiment_id: str
    pipeline_id: str
    version_id: str
    removed: tuple[str, ...] = ()


def apply_schedule(
    client: Any,
    pipeline: Any,
    *,
    name: str,
    cron: str = "",
    interval_seconds: int = 0,
    params: Mapping[str, Any] | None = None,
    experiment: str = "Default",
    namespace: str | None = None,
    max_concurrency: int = 1,
    catchup: bool = False,
    caching: bool = False,
    enabled: bool = True,
    pipeline_root: str | None = None,
    service_account: str | None = None,
    start_time: str | None = None,
    end_time: str | None = None,
    description: str = "",
) -> Schedule:
    """Make a pipeline run on a schedule; again and again is once.

    A recurring run of that name in that experiment that differs is replaced, whoever made it: it is disabled, the new
    one is made, and then it is deleted, so that no moment has both. Its runs that are under way go on. Broken off
    anywhere, doing it again finishes it.

    Args:
        client: a ``kfp.Client``.
        pipeline: a compiled pipeline's file, or a function with ``@dsl.pipeline``.
        name: the recurring run's.
        cron: six fields, the seconds first: ``0 0 5 * * *`` is five in the morning. Or interval_seconds.
        interval_seconds: seconds between the starts of two rounds.
        params: the pipeline's parameters.
        experiment: made when it is not there.
        namespace: of a profile, where KFP has several users.
        max_concurrency: rounds at a time; a round that is due meanwhile waits.
        catchup: make up for rounds that were missed while KFP was away or the schedule was disabled.
        caching: as the pipeline was compiled; else no task of it uses KFP's cache, whatever it was compiled with.
        enabled: False makes it, or leaves it, without running.
        pipeline_root: where artifacts go; KFP's own when left out.
        service_account: of its pods; KFP's own when left out.
        start_time: RFC 3339; no round is due before.
        end_time: RFC 3339; no round is due after.
        description: for a person.

    Raises:
        InvalidRequest: names the field; nothing was changed.
        BackendError: KFP refused. What ran before runs on.
    """
    _check(name, cron, interval_seconds, max_concurrency)
    package = Package.of(pipeline, caching=caching)
    package.check(params or {})
    when = {
        "cron_expression": cron or None,
        "interval_second": int(interval_seconds) or None,
        "start_time": start_time,
        "end_time": end_time,
        "max_concurrency": max_concurrency,
        "no_catchup": not catchup,
        "params": dict(params or {}),
        "pipeline_root": pipeline_root,
        "service_account": service_account,
    }
    kfp = _Kfp(client, namespace)
    experiment_id = kfp.experiment(experiment)
    pipeline_id, version_id = kfp.version(package)
    mark = _MARK + _digest([version_id, when])
    found = kfp.schedules(name, experiment_id)
    ours = [run for run in found if str(run.description or "").endswith(mark)][:1]
    others = [run for run in found if run not in ours]
    how: Literal["created", "replaced", "unchanged", "switched"]
    if ours:
        how = "switched" if kfp.switch(ours[0], enabled) else "unchanged"
        made = str(ours[0].recurring_run_id)
    else:
        how = "replaced" if others else "created"
        with kfp.disabled(others):
            made = kfp.create(
                experiment_id=experiment_id,
                job_name=name,
                description=f"{description}\n{mark}".lstrip(),
                pipeline_id=pipeline_id,
                version_id=version_id,
                enabled=enabled,
                **when,
            )
    removed = tuple(kfp.delete(run) for run in others)
    return Schedule(how, name, made, experiment_id, pipeline_id, version_id, removed)


def _check(name: str, cron: str, interval_seconds: int, max_concurrency: int) -> None:
    if not name.strip():
        raise InvalidRequest("name", "is empty", "Give the schedule a name: it is known by it")
    if bool(cron) == bool(interval_seconds):
        raise InvalidRequest("cron", "one of cron and interval_seconds says when", "Give one of them")
    fields = len(cron.split())
    if cron and not cron.startswith("@") and fields != _CRON_FIELDS:
        reason = f'"{cron}" has {fields} fields, and KFP takes {_CRON_FIELDS}, the seconds first'
        raise InvalidRequest("cron", reason, f'Write "0 {cron}"' if fields == _CRON_FIELDS - 1 else "Write six fields")
    if not cron and interval_seconds < 1:
        raise InvalidRequest("interval_seconds", f"{interval_seconds} is not at least 1", "Give 1 or more")
    if max_concurrency < 1:
        raise InvalidRequest("max_concurrency", f"{max_concurrency} is not at least 1", "Give 1 or more")


def _digest(data: Any) -> str:
    try:
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise InvalidRequest("params", f"are no plain data: {exc}", "Give text, numbers, lists and mappings") from exc
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


class _Kfp:
    """The calls of KFP's client that are made, in our errors."""

    def __init__(self, client: Any, namespace: str | None) -> None:
        self._client = client
        self._namespace = namespace

    def experiment(self, name: str) -> str:
        made = _told("making the experiment", lambda: self._client.create_experiment(name, namespace=self._namespace))
        return str(made.experiment_id)

    def version(self, package: Package) -> tuple[str, str]:
        """The pipeline and its version with this content; both made when they are not there."""
        with tempfile.TemporaryDirectory(prefix="trainer-ops-") as folder:
            file = Path(folder, "pipeline.yaml")
            file.write_text(package.text, encoding="utf-8")
            pipeline_id = self._found_or(
                lambda: self._pipeline(package.name),
                lambda: (
                    self._client.upload_pipeline(
                        str(file), pipeline_name=package.name, namespace=self._namespace
                    ).pipeline_id
                ),
            )
            version_id = self._found_or(
                lambda: self._version(pipeline_id, package.version),
                lambda: (
                    self._client.upload_pipeline_version(
                        str(file), package.version, pipeline_id=pipeline_id
                    ).pipeline_version_id
                ),
            )
        return pipeline_id, version_id

    def _found_or(self, find: Callable[[], str | None], make: Callable[[], Any]) -> str:
        found = _told("looking for the pipeline", find)
        if found is None:
            try:
                return str(_told("uploading the pipeline", make))
            except BackendError as error:
                # Somebody else has just made it.
                found = find() if error.status == _CONFLICT else None
                if found is None:
                    raise
        return found

    def _pipeline(self, name: str) -> str | None:
        wanted = _named(name)
        listed = self._client.list_pipelines(page_size=_PAGE, namespace=self._namespace, filter=wanted)
        return next((str(one.pipeline_id) for one in listed.pipelines or () if one.display_name == name), None)

    def _version(self, pipeline_id: str, name: str) -> str | None:
        listed = self._client.list_pipeline_versions(pipeline_id, page_size=_PAGE, filter=_named(name))
        versions = listed.pipeline_versions or ()
        return next((str(one.pipeline_version_id) for one in versions if one.display_name == name), None)

    def schedules(self, name: str, experiment_id: str) -> list[Any]:
        """Recurring runs of that name, newest first."""
        found: list[Any] = []
        token = ""
        while True:
            page = _told(
                "listing recurring runs",
                lambda token=token: self._client.list_recurring_runs(  # type: ignore[misc]
                    page_token=token, page_size=_PAGE, experiment_id=experiment_id, filter=_named(name)
                ),
            )
            found += [one for one in page.recurring_runs or () if one.display_name == name]
            token = page.next_page_token or ""
            if not token:
                return sorted(found, key=lambda one: str(one.created_at or ""), reverse=True)

    def create(self, **asked: Any) -> str:
        made = _told("making the recurring run", lambda: self._client.create_recurring_run(**asked))
        return str(made.recurring_run_id)

    def switch(self, run: Any, on: bool) -> bool:
        """Whether that changed anything."""
        if _enabled(run) is on:
            return False
        call = self._client.enable_recurring_run if on else self._client.disable_recurring_run
        _told("switching the recurring run", lambda: call(run.recurring_run_id))
        return True

    @contextlib.contextmanager
    def disabled(self, runs: list[Any]) -> Iterator[None]:
        """None of these starts a round meanwhile; when it fails, those that did before do again."""
        paused = [run for run in runs if self.switch(run, False)]
        try:
            yield
        except BaseException:
            for run in paused:
                with contextlib.suppress(Exception):  # what failed first is what the caller is to hear of
                    self._client.enable_recurring_run(run.recurring_run_id)
            raise

    def delete(self, run: Any) -> str:
        try:
            _told("deleting the recurring run", lambda: self._client.delete_recurring_run(run.recurring_run_id))
        except BackendError as error:
            if error.status != 404:
                raise
        return str(run.recurring_run_id)


def _enabled(run: Any) -> bool:
    return str(run.status or "") == "ENABLED" or (not run.status and str(run.mode or "") == "ENABLE")


def _named(name: str) -> str:
    wanted = {"operation": "EQUALS", "key": "display_name", "stringValue": name}
    return json.dumps({"predicates": [wanted]})


def _told(what: str, call: Callable[[], T]) -> T:
    """The client's own error (kfp_server_api.ApiException, urllib3's) as one of ours."""
    try:
        return call()
    except (InvalidRequest, BackendError):
        raise
    except Exception as exc:
        status = getattr(exc, "status", None)
        said = f"HTTP {status}: {_body(exc)}" if status else f"{type(exc).__name__}: {exc}"
        raise BackendError(f"KFP: {what} failed: {said}"[:1000], status=status) from exc


def _body(exc: Exception) -> str:
    """What KFP's API says in an error, which is JSON."""
    body = getattr(exc, "body", None) or getattr(exc, "reason", None) or ""
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body)
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return str(found.get("message") or found.get("error") or text) if isinstance(found, dict) else text
