"""One container of a pod: a process in a session of its own, its log file, its termination message, its status."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from typing import Any

from trainer_ops.local import processes
from trainer_ops.local.plan_values import ContainerPlan
from trainer_ops.local.processes import ENV_JOB, ENV_POD, Process
from trainer_ops.model import keys
from trainer_ops.model.times import rfc3339

__all__ = ["ContainerRun", "StartFailure"]

Raw = dict[str, Any]
START_ERROR = 128


class StartFailure(Exception):
    """The process could not be started; the text is what the kubelet would say."""


class ContainerRun:
    """A container and its runs, one after the other.

    Args:
        plan: what to run.
        status: its entry in the pod's ``containerStatuses``; changed in place.
        job_uid: the TrainJob's uid: the marker of everything it starts.
        pod_uid: the pod's uid.
        cwd: where it starts when the plan does not say.
    """

    def __init__(self, plan: ContainerPlan, status: Raw, *, job_uid: str, pod_uid: str, cwd: str) -> None:
        self.plan, self.status = plan, status
        self._job_uid, self._pod_uid = job_uid, pod_uid
        self._cwd = plan.working_dir or cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._started = ""
        self.exit_code: int | None = None

    @property
    def restarts(self) -> int:
        """How many runs came before this one."""
        return int(self.status["restartCount"])

    @property
    def pid(self) -> int:
        """Of the newest run; 0 before the first."""
        return self._process.pid if self._process else 0

    @property
    def running(self) -> bool:
        """Whether its first process has been started and was not seen to end."""
        return self._process is not None and self.exit_code is None

    @property
    def marker(self) -> str:
        """The value of the marker that tells this run's processes from all others."""
        return f"{self._pod_uid}/{self.plan.name}/{self.restarts}"

    def start(self, log: str) -> None:
        """Start the next run; its output goes straight to the file.

        Raises:
            StartFailure: no such program, folder or permission.
        """
        self.exit_code, self._process = None, None
        self._started = rfc3339(time.time(), micro=True)
        if self.plan.result_path:
            os.makedirs(os.path.dirname(self.plan.result_path), exist_ok=True)
            with open(self.plan.result_path, "wb"):
                pass
        env = {**self.plan.env, ENV_JOB: self._job_uid, ENV_POD: self.marker}
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if not os.path.isdir(self._cwd):
                raise StartFailure(f'chdir to cwd ("{self._cwd}") set in config.json failed: no such file or directory')
            self._process = subprocess.Popen(
                self.plan.argv,
                env=env,
                cwd=self._cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise StartFailure(_start_message(self.plan.argv[0] if self.plan.argv else "", error)) from error
        finally:
            os.close(output)
        self.status["state"] = {"running": {"startedAt": self._started}}
        self.status["started"] = True

    def poll(self) -> int | None:
        """The exit code as Kubernetes counts (128 + signal), once the process has ended."""
        if self._process is None or self.exit_code is not None:
            return None
        code = self._process.poll()
        if code is None:
            return None
        self.exit_code = code if code >= 0 else 128 - code
        return self.exit_code

    def terminate(self, number: int = signal.SIGTERM) -> None:
        """Signal the first process only, as the kubelet does: what is below it is told by it, once."""
        if self.running:
            processes.send(self.pid, number)

    def leftovers(self, among: list[Process]) -> list[Process]:
        """Those of these processes that belong to this run and are not its first."""
        pid, marker = self.pid, self.marker
        return [
            p for p in among if p.pid != pid and (p.session == pid or processes.marker_of(p.pid, ENV_POD) == marker)
        ]

    def set_ready(self, ready: bool) -> None:
        """Readiness, as a probe would tell."""
        self.status["ready"] = ready

    def set_terminated(self, code: int, *, reason: str = "", message: str | None = None) -> None:
        """The run is over and nothing of it is left."""
        terminated: Raw = {
            "exitCode": code,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "startedAt": self._started,
            "finishedAt": rfc3339(time.time(), micro=True),
        }
        text = self._result() if message is None else message
        if text:
            terminated["message"] = text
        self.exit_code = code
        self.status["state"] = {"terminated": terminated}
        self.status["ready"] = self.status["started"] = False

    def set_waiting(self, reason: str, message: str) -> None:
        """It waits for its next run; how the last one ended moves to ``lastState``."""
        state = self.status["state"]
        if "terminated" in state:
            self.status["lastState"] = state
        self.status["state"] = {"waiting": {"reason": reason, "message": message}}

    def next_run(self) -> None:
        """Count the restart."""
        if "terminated" in self.status["state"]:
            self.status["lastState"] = self.status["state"]
        self.status["restartCount"] = self.restarts + 1

    def settle(self) -> None:
        """It will not run again: one that waits for a restart shows how it ended instead."""
        last = self.status["lastState"]
        if "waiting" in self.status["state"] and last:
            self.status["state"], self.status["lastState"] = last, {}

    def _result(self) -> str:
        if not self.plan.result_path:
            return ""
        try:
            with open(self.plan.result_path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - keys.RESULT_LIMIT))  # its end, as the kubelet does
                return file.read(keys.RESULT_LIMIT).decode("utf-8", "replace")
        except OSError:
            return ""


def _start_message(program: str, error: Exception) -> str:
    head = "failed to create containerd task: unable to start container process"
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.ENOENT and "/" in program:
        return f'{head}: exec: "{program}": stat {program}: no such file or directory'
    if code == errno.ENOENT:
        return f'{head}: exec: "{program}": executable file not found in $PATH'
    if code is not None:
        return f'{head}: exec: "{program}": {os.strerror(code).lower()}'
    return f'{head}: exec: "{program}": {error}'
