"""The supervisor: one detached process per TrainJob, from its claim to the end of its last process.

It waits for a place on the machine, runs the plan, follows what its users want (suspend, resume, delete), keeps the
deadline, serves progress and writes all of it down. It is woken by its children, its users (a FIFO in the job's
folder), its guard's death and timers. Only light modules: every start of a training pays for them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from trainer_ops.errors import InvalidRequest
from trainer_ops.local import processes, reaper, records
from trainer_ops.local.guard import become_subreaper
from trainer_ops.local.jobrun import JobRun
from trainer_ops.local.loop import Loop, Timer
from trainer_ops.local.objects import COMPLETED, FAILED_JOBS, LOST, new_jobset, queued_workload, set_condition
from trainer_ops.local.pods import PodHost
from trainer_ops.local.processes import Process
from trainer_ops.local.progress_server import ProgressServer
from trainer_ops.local.recorder import Recorder
from trainer_ops.local.store import Store, decode, encode

__all__ = ["Supervisor", "main"]

Raw = dict[str, Any]
QUEUE_SECONDS = 1.0


def main(root: str, uid: str, guard_pipe: int) -> None:
    """Run this TrainJob, unless another supervisor does or it is not to run; returns when it is done with."""
    become_subreaper()
    store = Store(root, make=False)
    supervisor = Supervisor(store, uid, guard_pipe)
    if supervisor.claim():
        supervisor.run()
    store.close()


class Supervisor:
    """Runs one TrainJob.

    Args:
        guard_pipe: a file that ends when the guard dies.
    """

    def __init__(self, store: Store, uid: str, guard_pipe: int) -> None:
        self.store, self.uid = store, uid
        self._guard_pipe, self._guard = guard_pipe, os.getppid()
        self._folder = store.folder(uid)
        self._run: JobRun | None = None
        self._attempt = 0
        self._ended = False  # nothing that its users want can change how it ends, except that it be deleted
        self._leaving = False  # it is being stopped for suspension or deletion
        self._progress: ProgressServer | None = None
        self._queue_text: str | None = None
        self._queue_timer: Timer | None = None

    # -- claim and queue ---------------------------------------------------------------------------------------

    def claim(self) -> bool:
        """Become the only supervisor of this TrainJob; False when it has one, or is not to run (any more)."""
        # Both ends, so that it never ends and a wake-up is never lost; opened before the first look at what is wanted.
        try:
            self._fifo = os.open(f"{self._folder}/wake", os.O_RDWR | os.O_NONBLOCK)
        except FileNotFoundError:
            return False  # deleted before it began
        me = os.getpid()
        holder = (
            processes.place(),
            me,
            processes.start_mark(me),
            self._guard,
            processes.start_mark(self._guard),
        )
        self._beat()
        with self.store.write() as connection:
            mine = records.claim(connection, self.uid, holder)
            row = records.job_by_uid(connection, self.uid)
        if not mine or row is None:
            return False
        self._row = row
        self._job: Raw = decode(row["object"])
        self.name: str = row["name"]
        return True

    def run(self) -> None:
        """Queue, run, end."""
        self._loop = Loop(on_child=self._on_child, on_terminate=self._on_terminate)
        self._recorder = Recorder(
            self.store, self._loop, self.uid, self.name, status=lambda: self._run.status() if self._run else []
        )
        self._loop.add_reader(self._guard_pipe, self._on_guard_lost)
        self._loop.add_reader(self._fifo, self._on_wake)
        self._loop.later(reaper.HEARTBEAT_SECONDS, self._on_heartbeat)
        self._set_deadline()
        self._queue()
        self._loop.run()

    def _queue(self) -> None:
        if self._run is not None or self._ended or self._leaving:
            return
        with self.store.write() as connection:
            row = records.job_by_uid(connection, self.uid)
            if row is None or row["want"] != "run":
                taken, text = False, None
            else:
                taken, text = records.take_slot(connection, self.uid)
                self._show_queue(connection, taken, text)
        if text is None:
            self._follow()
            return
        if taken:
            self._start()
            return
        reaper.heal(self.store)  # whoever has a place may be dead
        if self._queue_timer is not None:
            self._queue_timer.cancel()
        self._queue_timer = self._loop.later(QUEUE_SECONDS, self._queue)

    def _show_queue(self, connection: sqlite3.Connection, taken: bool, text: str) -> None:
        before, self._queue_text = self._queue_text, text
        if text == before or (taken and before is None):
            return
        workload = queued_workload(self._job, None if taken else text, time.time())
        connection.execute("UPDATE jobs SET workload = ? WHERE uid = ?", (encode(workload), self.uid))
        self.store.touch(self.uid)

    # -- running -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        from trainer_ops.local.plan import plan
        from trainer_ops.local.surroundings import make_place
        from trainer_ops.model.runtime import TrainingRuntime

        namespace = self._job["metadata"]["namespace"]
        if self._progress is None:
            self._progress = ProgressServer(self.store, self.uid, self.name, namespace, self._folder)
            self._loop.add_reader(self._progress.socket, self._progress.accept)
        place = make_place(
            self._job,
            self._folder,
            python=self._row["python"],
            attempt=self._attempt,
            namespace=namespace,
            progress=self._progress,
            checkpoints=f"{self.store.root}/checkpoints",
        )
        runtime = TrainingRuntime.from_raw(decode(self._row["runtime"]))
        host = PodHost(
            loop=self._loop,
            recorder=self._recorder,
            job_uid=self.uid,
            cwd=self._row["cwd"],
            hostname=place.host,
            namespace=namespace,
            log_path=lambda pod, container, run: self.store.log_path(self.uid, pod, container, run),
            own=self._own,
            may_restart=lambda _pod: False,
            moved=lambda: None,
        )
        try:
            planned = plan(self._job, runtime, place=place)
        except InvalidRequest as error:  # it could be planned when it was created: the machine has changed
            self._finish(("Failed", "PlanRefused", str(error)))
            return
        self._run = JobRun(planned, host, on_complete=self._on_complete, on_failed=self._on_failed)
        for note in self._run.plan.notes:
            self._recorder.event("TrainJob", self.name, "RunsLocally", note)
        self._run.begin()

    def _own(self) -> list[Process]:
        """What descends from this process; without a subreaper a daemon does not: then all, told apart by marker."""
        everything = processes.snapshot()
        if processes.ON_LINUX:
            return processes.descendants(os.getpid(), everything)
        return [p for p in everything.values() if p.pid not in (os.getpid(), self._guard)]

    def _on_child(self) -> None:
        if self._run is not None:
            self._run.look()
        self._reap_orphans()

    def _reap_orphans(self) -> None:
        """Processes of the training whose parents died became our children: reap them when they end."""
        if not hasattr(os, "waitid"):
            return
        mine = self._run.containers() if self._run is not None else {}
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid in mine:
                return  # one of our own that has ended since: its signal is on the way
            os.waitpid(ended.si_pid, os.WNOHANG)

    # -- what users want ---------------------------------------------------------------------------------------

    def _on_wake(self) -> None:
        try:
            os.read(self._fifo, 4096)
        except BlockingIOError:
            return
        self._follow()
        if not self._loop.stopped:
            self._queue()

    def _follow(self) -> None:
        """Do what is wanted now."""
        with self.store.read() as connection:
            row = records.job_by_uid(connection, self.uid)
        want = "delete" if row is None else row["want"]
        if want == "delete":
            self._ended = self._leaving = True
            self._stop(self._remove)
        elif want == "suspend" and not self._ended and not self._leaving:
            self._leaving = True
            if self._run is not None:
                self._run.suspended = True
            self._stop(self._suspended)
        elif row is not None and row["resumed"] != self._row["resumed"] and not self._leaving:
            self._row = row  # suspended and resumed before anybody could stop it: only its deadline is another
            self._set_deadline()

    def _stop(self, then: Callable[[], None]) -> None:
        if self._run is not None:
            self._run.stop(then)
        else:
            then()

    def _suspended(self) -> None:
        """Nothing runs any more. Leave, unless it was resumed meanwhile: then begin anew in the same place."""
        self._sweep()
        self._recorder.forget_pods()
        with self.store.write() as connection:
            row = records.job_by_uid(connection, self.uid)
            records.drop_pods(connection, self.uid)
            if row is not None and row["want"] == "suspend":
                connection.execute("UPDATE jobs SET workload = NULL WHERE uid = ?", (self.uid,))
                records.release(connection, self.uid, "suspended")
        if row is None or row["want"] == "delete":
            self._remove()
            return
        if row["want"] == "suspend":
            self._leave()
            return
        self._leaving, self._run = False, None
        self._job, self._row = decode(row["object"]), row
        self._set_deadline()
        if row["slot"]:
            self._start()
        else:
            self._queue()

    def _remove(self) -> None:
        self._sweep()
        reaper.remove(self.store, self.uid)
        self._leave()

    # -- how it ends -------------------------------------------------------------------------------------------

    def _on_complete(self) -> None:
        self._ended = True
        type_, reason, message = COMPLETED
        self._recorder.event("JobSet", self.name, reason, message)
        self._end_with(type_, reason, message)
        self._stop(self._finish)

    def _on_failed(self, step: str) -> None:
        assert self._run is not None
        job = f"{self.name}-{step}-0"
        self._recorder.event(
            "Job", job, "BackoffLimitExceeded", "Job has reached the specified backoff limit", warning=True
        )
        if self._attempt < self._run.plan.max_restarts:
            self._stop(self._start_anew)
            return
        # As on a cluster, where the Job waits for its pods: Failed is said when nothing runs any more.
        self._ended = True
        message = FAILED_JOBS.format(job=self.name, step=step)
        self._recorder.event("JobSet", self.name, "FailedJobs", message, warning=True)
        self._stop(lambda: self._finish(("Failed", "FailedJobs", message)))

    def _start_anew(self) -> None:
        """JobSet's failurePolicy: everything again, in new pods."""
        assert self._run is not None
        self._attempt += 1
        jobset = encode(new_jobset(self.name, self._attempt, self._run.plan.max_restarts))
        self._sweep()
        self._recorder.forget_pods()
        with self.store.write() as connection:
            records.drop_pods(connection, self.uid)
            connection.execute("UPDATE jobs SET jobset = ? WHERE uid = ?", (jobset, self.uid))
        self._start()

    def _set_deadline(self) -> None:
        seconds = self._job["spec"].get("activeDeadlineSeconds")
        if seconds:
            began = self._row["resumed"] or self._row["created"]
            self._loop.later(began + seconds - time.time(), lambda: self._on_deadline(began))

    def _on_deadline(self, began: float) -> None:
        # The clock stands while it is suspended, and starts anew when it is resumed.
        if self._ended or self._leaving or began != (self._row["resumed"] or self._row["created"]):
            return
        self._ended = True
        self._end_with("Failed", "DeadlineExceeded", "TrainJob exceeded its active deadline")
        self._stop(self._finish)

    def _on_terminate(self) -> None:
        """SIGTERM: the machine shuts down, or somebody wants this process gone: let the training save its work."""
        if self._ended or self._leaving:
            return
        self._ended = True
        message = "the engine was told to stop (SIGTERM to its supervisor); the training was stopped"
        self._recorder.event("TrainJob", self.name, LOST, message, warning=True)
        self._stop(lambda: self._finish(("Failed", LOST, message)))

    def _on_guard_lost(self) -> None:
        self._loop.stop()
        why = reaper.GUARD_KILLED.format(pid=self._guard)
        self._recorder.flush()
        reaper.reap(self.store, self.uid, why, claim=os.getpid(), below=os.getpid())

    def _end_with(self, type_: str, reason: str, message: str) -> None:
        now = time.time()
        self._recorder.flush(lambda _connection, job: set_condition(job, type_, True, reason, message, now))

    def _finish(self, condition: tuple[str, str, str] | None = None) -> None:
        """Nothing is to run any more: make sure, say so, give the place to the next."""
        self._sweep()
        now = time.time()

        def change(connection: sqlite3.Connection, job: Raw) -> None:
            if condition is not None:
                type_, reason, message = condition
                set_condition(job, type_, True, reason, message, now)
            row = records.job_by_uid(connection, self.uid)
            if row is not None and row["want"] != "delete":
                records.release(connection, self.uid, "finished")

        self._recorder.flush(change)
        self._after_finish()

    def _after_finish(self) -> None:
        if self._recorder.pending:
            self._loop.later(0.5, self._after_finish)  # a full disk is no reason to lose the result
            return
        with self.store.read() as connection:
            row = records.job_by_uid(connection, self.uid)
        if row is not None and row["want"] == "delete":
            self._remove()
        else:
            self._leave()

    def _sweep(self) -> None:
        """End whatever is left of this TrainJob, daemons included."""
        reaper.kill_job(self.store, self.uid, below=os.getpid(), spare=(self._guard,))

    def _leave(self) -> None:
        """Stop this process and wake those that wait for a place."""
        self._loop.stop()
        if self._progress is not None:
            self._progress.close()
        self.store.touch(self.uid)
        with self.store.read() as connection:
            waiting = connection.execute(
                "SELECT uid FROM jobs WHERE stage = 'waiting' AND want = 'run' ORDER BY queued"
            )
            uids = [row["uid"] for row in waiting]
        for uid in uids:
            self.store.wake(uid)

    def _beat(self) -> None:
        with open(f"{self._folder}/alive", "wb"):
            pass

    def _on_heartbeat(self) -> None:
        self._beat()
        self._loop.later(reaper.HEARTBEAT_SECONDS, self._on_heartbeat)
        self._follow()
