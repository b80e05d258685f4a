"""One container of a pod from its first start to its end: image, configuration, runs, restarts with back-off."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.controlplane.kubelet_clock import back_off
from tests.controlplane.kubelet_env import ConfigError, command, decoded, environment
from tests.controlplane.kubelet_host import Host, image_problem
from tests.controlplane.kubelet_logs import LogFile, LogQuery
from tests.controlplane.kubelet_run import ContainerSpec, Process, StartError
from tests.controlplane.kubelet_status import (
    ContainerView,
    PodView,
    back_off_text,
    container_id,
    running,
    terminated,
    waiting,
)
from tests.controlplane.kubelet_volumes import Mount, Volumes

__all__ = ["Container"]

_MESSAGE_LIMIT = 4096
# Trainer writes what Open MPI 4 of its images reads; PyPI's Open MPI 5 has other names for the same.
_OPEN_MPI_5 = {
    "OMPI_MCA_orte_default_hostfile": "PRTE_MCA_prte_default_hostfile",
    "OMPI_MCA_plm_rsh_args": "PRTE_MCA_plm_ssh_args",
}
_INITIALIZERS = {"dataset-initializer": "dataset", "model-initializer": "model"}


class Container:
    """Runs one container; ``run`` blocks until it will not be started again.

    Args:
        host: what all pods share.
        pod: the pod's view, shared with its worker.
        view: this container's part of it.
        volumes: the pod's, mounted.
        folder: for runs of this container.
        stop: set when the pod is to end.
        post: sends the pod's status.
        restarts: whether an exit code makes it start again.
    """

    def __init__(
        self,
        host: Host,
        pod: PodView,
        view: ContainerView,
        volumes: Volumes,
        folder: Path,
        stop: threading.Event,
        post: Callable[[], None],
        restarts: Callable[[int], bool],
    ) -> None:
        self.view = view
        self.logs: dict[str, LogFile] = {}
        self._host = host
        self._pod = pod
        self._volumes = volumes
        self._folder = folder
        self._stop = stop
        self._post = post
        self._restarts = restarts
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._out_of_memory = False

    # -- told from outside ------------------------------------------------------------------------------------------

    def terminate(self, grace: float) -> None:
        """SIGTERM now, SIGKILL after the grace period (real seconds)."""
        process = self._process
        if process is None:
            return
        self._event("Killing", f"Stopping container {self.view.name}")
        process.signal(signal.SIGTERM)
        self._host.timers.after(grace, lambda: process.signal(signal.SIGKILL))

    def kill(self, *, out_of_memory: bool = False) -> bool:
        """SIGKILL at once, as the kernel's OOM killer does when asked for; False when nothing runs."""
        process = self._process
        if process is None:
            return False
        self._out_of_memory = out_of_memory
        process.signal(signal.SIGKILL)
        return True

    @property
    def process(self) -> Process | None:
        """The run that runs; for commands that are to run beside it."""
        return self._process

    # -- the life ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Start it, and again, until it is done or the pod is to end."""
        attempt = 0
        while not self._stop.is_set():
            env = self._prepare()
            if env is None:
                return
            code = self._once(attempt, env)
            if self._stop.is_set() or not self._restarts(code):
                return
            attempt += 1
            if not self._wait_to_restart(attempt):
                return

    def _prepare(self) -> dict[str, str] | None:
        """Wait for the image and the configuration; None when the pod is to end first."""
        if not self._wait_for_image():
            return None
        while True:
            try:
                env = self._environment()
                self._volumes.mounts(self.view.spec, env)
                return env
            except ConfigError as exc:
                self.view.state = waiting("CreateContainerConfigError", str(exc))
                self._event("Failed", f"Error: {exc}", kind="Warning")
                self._post()
            if self._stop.wait(self._host.clock.short(10)):
                return None

    def _wait_for_image(self) -> bool:
        image, pause = str(self.view.spec.get("image", "")), 10.0
        while problem := image_problem(image, self._host.missing):
            reason, text = problem
            self._tell_image(image, reason, text)
            if self._stop.wait(self._host.clock.short(pause * 0.3)):
                return False
            if reason == "ErrImagePull":
                self._event("BackOff", f'Back-off pulling image "{image}"')
                self._event("Failed", "Error: ImagePullBackOff", kind="Warning")
                self.view.state = waiting("ImagePullBackOff", f'Back-off pulling image "{image}": {reason}: {text}')
                self._post()
            if self._stop.wait(self._host.clock.short(pause * 0.7)):
                return False
            pause = min(pause * 2, 300.0)
        return True

    def _tell_image(self, image: str, reason: str, text: str) -> None:
        if reason == "InvalidImageName":
            self._event("InspectFailed", text, kind="Warning")
        else:
            self._event("Pulling", f'Pulling image "{image}"')
            self._event("Failed", f'Failed to pull image "{image}": {text}', kind="Warning")
        self._event("Failed", f"Error: {reason}", kind="Warning")
        self.view.state = waiting(reason, text)
        self._post()

    def _once(self, attempt: int, env: dict[str, str]) -> int:
        """One run; its exit code."""
        clock, view = self._host.clock, self.view
        ended_before = view.state if "terminated" in view.state else view.last
        ident = container_id(str(self._pod.pod["metadata"]["uid"]), view.name, attempt)
        folder = self._folder / str(attempt)
        folder.mkdir(parents=True)
        log = LogFile(folder / "log")
        spec = self._spec(env, folder)
        image = str(view.spec.get("image", ""))
        self._event("Pulled", f'Container image "{image}" already present on machine and can be accessed by the pod')
        self._event("Created", "Container created")
        view.ident, view.restarts, self._out_of_memory = ident, attempt, False
        self._keep(ident, log)
        try:
            process = self._start(spec)
        except StartError as exc:
            log.end()
            return self._not_started(ident, str(exc))
        if self._stop.is_set():
            process.signal(signal.SIGKILL)  # it was not there yet when the pod was told to end
        started = clock.now()
        view.state, view.last, view.ready = running(started), ended_before, "readinessProbe" not in view.spec
        collector = threading.Thread(target=log.collect, args=(process.output,), daemon=True)
        collector.start()
        self._event("Started", "Container started")
        self._post()
        if not view.ready:
            threading.Thread(target=self._probe, args=(process,), daemon=True).start()
        code = process.wait()
        with self._lock:
            self._process = None
        collector.join(timeout=5)
        log.end()
        return self._ended(code, ident, started, spec.termination, log)

    def _start(self, spec: ContainerSpec) -> Process:
        with self._lock:
            if not spec.argv:
                raise StartError("no command specified")
            self._process = self._host.start(spec)
            return self._process

    def _not_started(self, ident: str, message: str) -> int:
        view, code = self.view, 128
        end = terminated(code, "StartError", message=message, finished=self._host.clock.now(), ident=ident)
        self._event("Failed", f"Error: {message}", kind="Warning")
        if self._restarts(code):
            view.state, view.last = waiting("RunContainerError", message), end
        else:
            view.state = end
        view.ready = False
        self._post()
        return code

    def _ended(self, code: int, ident: str, started: float, file: Path, log: LogFile) -> int:
        view = self.view
        reason = "OOMKilled" if self._out_of_memory else "Completed" if code == 0 else "Error"
        message = self._message(file, code, log)
        finished = self._host.clock.now()
        view.state = terminated(code, reason, message=message, started=started, finished=finished, ident=ident)
        view.ready = False
        for other in [key for key in self.logs if key != ident]:
            del self.logs[other]  # one dead container is kept
        if not self._stop.is_set():  # else the pod's last status tells it, with its phase
            self._post()
        return code

    def _keep(self, ident: str, log: LogFile) -> None:
        """The new run's log, and that of the run before it."""
        newest = list(self.logs)[-1:]
        self.logs = {key: self.logs[key] for key in newest} | {ident: log}

    def _message(self, file: Path, code: int, log: LogFile) -> str:
        with file.open("rb") as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - _MESSAGE_LIMIT))
            text = handle.read().decode("utf-8", "replace")
        if not text and code and self.view.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = b"".join(log.read(LogQuery(tail=80)))[-2048:].decode("utf-8", "replace")
        return text

    def _wait_to_restart(self, attempt: int) -> bool:
        seconds, view, meta = back_off(attempt), self.view, self._pod.pod["metadata"]
        if not seconds:
            return True
        full = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
        self._event("BackOff", f"Back-off restarting failed container {view.name} in pod {full}", kind="Warning")
        # A kubelet shows the end of the run for most of the wait, and CrashLoopBackOff from its next look on.
        ended = "terminated" in view.state
        if self._stop.wait(self._host.clock.short(seconds * (0.7 if ended else 0.1))):
            return False
        if ended:
            view.last = view.state
        text = f"back-off {back_off_text(seconds)} restarting failed container={view.name} pod={full}"
        view.state = waiting("CrashLoopBackOff", text)
        self._post()
        return not self._stop.wait(self._host.clock.short(seconds * (0.3 if ended else 0.9)))

    def _probe(self, process: Process) -> None:
        """Ready when the probed port is listened on; an exec probe is taken as passed."""
        probe = self.view.spec["readinessProbe"]
        port = (probe.get("tcpSocket") or probe.get("httpGet") or {}).get("port")
        while self._process is process and not self._stop.is_set():
            if not isinstance(port, int) or process.listens(port):
                self.view.ready = True
                self._post()
                return
            self._stop.wait(0.1)

    # -- what it runs -----------------------------------------------------------------------------------------------

    def _lookup(self, kind: str, name: str) -> Mapping[str, str] | None:
        obj = self._host.api.get(kind, name, namespace=self._pod.pod["metadata"]["namespace"])
        if obj is None:
            return None
        return decoded(obj.get("data")) if kind == "Secret" else dict(obj.get("data") or {})

    def _environment(self) -> dict[str, str]:
        pod = self._pod.pod
        node = self._host.nodes.get(pod["spec"].get("nodeName", ""))
        own = environment(pod, self.view.spec, self._lookup, ip=self._pod.ip, node=node)
        network = self._host.network
        own = {name: network.localise(network.port(name, value, pod), pod) for name, value in own.items()}
        hostname = pod["spec"].get("hostname") or pod["metadata"]["name"]
        base = self._host.base_env(hostname)
        if self._host.contained and self._security().get("runAsUser"):
            base["HOME"] = "/"
        for theirs, ours in _OPEN_MPI_5.items():
            if theirs in own and self._host.contained:
                base[ours] = own[theirs]
        return {**base, **own}

    def _security(self) -> dict[str, Any]:
        whole = self._pod.pod["spec"].get("securityContext") or {}
        return {**whole, **(self.view.spec.get("securityContext") or {})}

    def _spec(self, env: dict[str, str], folder: Path) -> ContainerSpec:
        pod, spec, network = self._pod.pod, self.view.spec, self._host.network
        argv = [network.localise(word, pod) for word in command(spec, env)] or self._entrypoint()
        mounts = [*self._stand_ins(argv), *self._volumes.mounts(spec, env)]
        termination = folder / "termination-log"
        termination.touch()
        termination.chmod(0o666)
        if not self._host.contained:
            argv, env = _rewritten(argv, {**env, "TRAINER_OPS_RESULT_PATH": str(termination)}, mounts)
        netns, hosts = network.place(pod)
        security = self._security()
        groups = [security[key] for key in ("runAsGroup", "fsGroup") if key in security]
        return ContainerSpec(
            argv=argv,
            env=env,
            cwd=spec.get("workingDir") or "/",
            hostname=str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63],
            folder=folder,
            stage=self._host.stage,
            termination=termination,
            termination_path=spec.get("terminationMessagePath") or "/dev/termination-log",
            hosts=hosts,
            netns=netns,
            mounts=mounts,
            user=security.get("runAsUser"),
            groups=groups + list(security.get("supplementalGroups") or ()),
        )

    def _stand_ins(self, argv: list[str]) -> list[Mount]:
        """In pods of MPI trainings ssh and sshd (see ``rshd``); nslookup for training-operator's init container."""
        if self._host.contained and self.view.name == "init-pytorch":
            return [Mount(source, target) for target, source in self._host.resolver.items()]
        targets = [mount["mountPath"] for mount in self.view.spec.get("volumeMounts") or ()]
        if not self._host.contained or not ("/etc/mpi" in targets or argv[:1] == ["/usr/sbin/sshd"]):
            return []
        return [Mount(source, target) for target, source in self._host.stand_ins.items()]

    def _entrypoint(self) -> list[str]:
        """Stands in for the images of Trainer's initializers, whose entry point cannot run here."""
        what = _INITIALIZERS.get(self.view.name)
        program = str(Path(__file__).with_name("initializer.py"))
        return [sys.executable, program, what, f"/workspace/{what}"] if what else []

    def _event(self, reason: str, message: str, *, kind: str = "Normal") -> None:
        self._host.recorder.kubelet(self._pod.pod, reason, message, kind=kind, at=self.view.name)


def _rewritten(argv: list[str], env: dict[str, str], mounts: list[Mount]) -> tuple[list[str], dict[str, str]]:
    """Paths of mounts as the folders that they are, for a process that sees the machine's own file system."""
    for mount in sorted(mounts, key=lambda mount: -len(mount.target)):
        argv = [word.replace(mount.target, str(mount.source)) for word in argv]
        env = {name: value.replace(mount.target, str(mount.source)) for name, value in env.items()}
    return argv, env
