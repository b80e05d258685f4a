"""A whole Airflow on this machine: api-server, scheduler, dag-processor and triggerer as processes, SQLite, loopback.

``stop`` ends them and all their children, so nothing outlives the test.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import psutil

T = TypeVar("T")

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")


class Standalone:
    """One Airflow; ``start`` returns when all four components say that they are healthy.

    Args:
        home: AIRFLOW_HOME, with a migrated ``airflow.db``.
        dags: the folder of DAG files.
        env: more environment, such as connections.
    """

    def __init__(self, home: Path, dags: Path, env: Mapping[str, str]) -> None:
        self.home = home
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._token = ""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._outputs: list[IO[bytes]] = []
        key = secrets.token_hex(32)
        self.env = {
            # Nothing of an Airflow that this process may have run itself.
            **{name: value for name, value in os.environ.items() if "AIRFLOW" not in name},
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "2",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "true",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "false",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__INTERNAL_API_SECRET_KEY": key,
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__SECRET_KEY": key,
            "AIRFLOW__API_AUTH__JWT_SECRET": key,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
            # Only what a test triggers runs, whatever schedule a DAG has.
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "false",
            # A trigger of a triggerer that died is taken over after this many seconds.
            "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(_free_port()),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(_free_port()),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            **env,
        }

    def start(self, timeout: float = 240.0) -> Standalone:
        """Start all components and wait for them."""
        for component in COMPONENTS:
            self.spawn(component)
        until(self._healthy, timeout, "Airflow is not healthy", alive=self.check)
        self._token = self.get("/auth/token", token=False)["access_token"]
        return self

    def spawn(self, component: str, **env: str) -> None:
        """Start one component, with what is more in its environment."""
        output = (self.home / f"{component}.out").open("ab")
        self._outputs.append(output)
        self._processes[component] = subprocess.Popen(
            [sys.executable, "-m", "airflow", component],
            env={**self.env, **env},
            cwd=self.home,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def halt(self, *components: str, grace: float = 3.0) -> None:
        """Stop components, their children with them: SIGTERM, after ``grace`` seconds SIGKILL."""
        processes = [self._processes.pop(component) for component in components]
        # Children that lead groups of their own (running tasks) would be left over by killing ours.
        family = [found for process in processes for found in _family(process.pid)]
        for member in family if grace > 0 else ():
            _quietly(member.terminate)
        for member in psutil.wait_procs(family, timeout=grace)[1]:
            _quietly(member.kill)
        for process in processes:
            process.wait(30)

    def stop(self) -> None:
        """Stop everything; to be called whatever happened."""
        self.halt(*self._processes)
        for output in self._outputs:
            output.close()

    def check(self) -> None:
        """Fail when a component died, with what it said last."""
        for component, process in self._processes.items():
            if process.poll() is not None:
                tail = (self.home / f"{component}.out").read_text(errors="replace")[-3000:]
                raise AssertionError(f"{component} ended with {process.returncode}:\n{tail}")

    def call(self, method: str, path: str, body: Any = None, *, token: bool = True) -> Any:
        """One REST call; returns parsed JSON."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.url + path, data, headers, method=method), timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def get(self, path: str, *, token: bool = True) -> Any:
        """GET."""
        return self.call("GET", path, token=token)

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None, timeout: float = 90.0) -> str:
        """Start a run as soon as the DAG is known; returns its run_id."""
        body = {"logical_date": None, "conf": dict(conf or {})}

        def start() -> str | None:
            try:
                return str(self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])
            except HTTPError as exc:
                if exc.code != 404:
                    raise AssertionError(exc.read().decode()) from exc
                return None

        return until(start, timeout, f"there is no DAG {dag_id}", alive=self.check)

    def pause(self, dag_id: str, paused: bool = True, timeout: float = 90.0) -> None:
        """What a user does in the UI, as soon as the DAG is known."""

        def patch() -> Any:
            try:
                return self.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": paused})
            except HTTPError as exc:
                if exc.code != 404:
                    raise
                return None

        until(patch, timeout, f"there is no DAG {dag_id}", alive=self.check)

    def runs(self, dag_id: str) -> list[str]:
        """The run_ids of a DAG, oldest first."""
        found = self.get(f"/api/v2/dags/{dag_id}/dagRuns?limit=100&order_by=run_after")["dag_runs"]
        return [str(run["dag_run_id"]) for run in found]

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """A task instance."""
        task: dict[str, Any] = self.get(f"{_run(dag_id, run_id)}/taskInstances/{task_id}")
        return task

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """What a user does in the UI: mark a task failed or success."""
        self.call("PATCH", f"{_run(dag_id, run_id)}/taskInstances/{task_id}", {"new_state": state})

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """What a user does in the UI: clear one task, and nothing downstream."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        self.call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)

    def until(self, ask: Callable[[], T | None], timeout: float, what: str) -> T:
        """``until`` that also notices a component that died."""
        return until(ask, timeout, what, alive=self.check)

    def wait_run(self, dag_id: str, run_id: str, timeout: float = 180.0) -> str:
        """The state in which a run ends."""

        def ended() -> str | None:
            state = self.get(_run(dag_id, run_id))["state"]
            return state if state in ("success", "failed") else None

        return until(ended, timeout, f"{run_id} does not end", alive=self.check)

    def wait_task(self, dag_id: str, run_id: str, task_id: str, *states: str, timeout: float = 120.0) -> str:
        """The first of these states that a task instance is seen in."""

        def there() -> str | None:
            state = self.task(dag_id, run_id, task_id)["state"]
            return state if state in states else None

        return until(there, timeout, f"{task_id} is never {states}", alive=self.check)

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """An XCom's value."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{task_id}/xcomEntries/{key}?deserialize=false"
        value = self.get(path)["value"]
        return json.loads(value) if isinstance(value, str) and value[:1] in '{["' else value

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """What the task's log page shows; nothing before it has started."""
        path = f"{_run(dag_id, run_id)}/taskInstances/{task_id}/logs/{try_number}?full_content=true"
        try:
            content = self.get(path)["content"]
        except HTTPError as exc:
            if exc.code != 404:
                raise
            return ""
        return "\n".join(_line(entry) for entry in content)

    def _healthy(self) -> bool | None:
        try:
            health = self.get("/api/v2/monitor/health", token=False)
        except (URLError, OSError):
            return None
        parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        return all((health.get(part) or {}).get("status") == "healthy" for part in parts) or None


def until(ask: Callable[[], T | None], timeout: float, what: str, *, alive: Callable[[], None] = lambda: None) -> T:
    """Ask again until there is an answer."""
    deadline = time.monotonic() + timeout
    while True:
        alive()
        answer = ask()
        if answer is not None:
            return answer
        assert time.monotonic() < deadline, f"{what} after {timeout:.0f} s"
        time.sleep(0.25)


def _line(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    errors = [f"{error['exc_type']}: {error['exc_value']}" for error in entry.get("error_detail") or ()]
    return "\n".join([entry["event"], *errors])


def _run(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"


def _family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _quietly(act: Callable[[], None]) -> None:
    with suppress(psutil.NoSuchProcess):
        act()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
