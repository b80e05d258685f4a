"""A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, JobSet and Trainer.

``ControlPlane`` starts the five programs on free ports, applies CRDs, webhooks and runtimes, and stops everything on
``close``. Several may run side by side. There is no kubelet here: ``kubelet.py`` is one.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import trustme
import yaml

from tests.controlplane.api import Api, ApiError, path_of
from tests.controlplane.build import Programs, programs

__all__ = ["ADMIN_TOKEN", "ControlPlane", "free_port", "wait_until"]

ADMIN_TOKEN = "admin-token"
CONTROLLERS = (
    "job-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "ttl-after-finished-controller",
    "persistentvolumeclaim-protection-controller",
    "root-ca-certificate-publisher-controller",
    "resourcequota-controller",
)


def free_port() -> int:
    """A port of loopback that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(what: str, done: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Ask again and again until it holds; a time-out names what was waited for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ApiError):
            if done():
                return
        time.sleep(0.05)
    raise TimeoutError(f"{what}: not within {seconds:g} s")


def _die_with_parent() -> None:
    """A test run that is killed leaves no control plane behind (Linux; elsewhere ``close`` must do)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class ControlPlane:
    """The running programs.

    Attributes:
        root: folder with certificates, kubeconfigs, data and one log file a program.
        port: the API server's port.
        kubeconfig: a kubeconfig with all rights.
        api: a client with all rights.
    """

    def __init__(
        self,
        root: Path,
        *,
        users: Mapping[str, str] | None = None,
        kueue_crds: Sequence[Path] = (),
        trainer: bool = True,
    ) -> None:
        """Start everything.

        Args:
            root: an empty folder.
            users: token -> user name, for users with no rights but those that a test gives them.
            kueue_crds: more CRDs to apply.
            trainer: with JobSet and Trainer; without them it is there in half the time.
        """
        self.root = root
        self.port = free_port()
        self._users = dict(users or {})
        self._programs: Programs = programs()
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        (root / "logs").mkdir(parents=True)
        self._certificates()
        self.kubeconfig = self.write_kubeconfig(ADMIN_TOKEN, "admin")
        self.api = Api(self.port, self.file("ca.crt"), ADMIN_TOKEN)
        try:
            self._start_kubernetes()
            self._apply_crds((*(self._programs.manifests("crds") if trainer else ()), *kueue_crds))
            self._start_controllers()
            if trainer:
                self._start_managers()
                self._apply_webhooks()
                self._apply_runtimes()
        except BaseException:
            self.close()
            raise

    def file(self, name: str) -> str:
        """A path inside the plane's folder."""
        return str(self.root / name)

    def write_kubeconfig(self, token: str, name: str, *, namespace: str = "default", server: str = "") -> Path:
        """A kubeconfig whose only context has that name and user."""
        path = self.root / f"kubeconfig-{name}"
        ca = base64.b64encode((self.root / "ca.crt").read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [
                {
                    "name": name,
                    "cluster": {
                        "server": server or f"https://127.0.0.1:{self.port}",
                        "certificate-authority-data": ca,
                    },
                }
            ],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path

    def close(self) -> None:
        """Stop all programs, the last one started first."""
        for _, process in reversed(self._running):
            process.terminate()
        for _, process in reversed(self._running):
            try:
                process.wait(timeout=1)  # there is nothing to save
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def pause(self, program: str) -> None:
        """Stop one program in its tracks (SIGSTOP), as a controller that is down."""
        self._signal(program, signal.SIGSTOP)

    def resume(self, program: str) -> None:
        """Let a paused program go on."""
        self._signal(program, signal.SIGCONT)

    def _signal(self, program: str, number: int) -> None:
        for name, process in self._running:
            if name == program:
                process.send_signal(number)

    # -- starting ---------------------------------------------------------------------------------------------------

    def _certificates(self) -> None:
        ca = trustme.CA()
        ca.cert_pem.write_to_path(self.file("ca.crt"))
        for name in ("server", "kubelet-client", "service-account"):
            cert = ca.issue_cert("127.0.0.1", "localhost", common_name=name)
            cert.private_key_pem.write_to_path(self.file(f"{name}.key"))
            Path(self.file(f"{name}.crt")).write_bytes(b"".join(blob.bytes() for blob in cert.cert_chain_pems))
        tokens = [f'{ADMIN_TOKEN},admin,admin,"system:masters"']
        tokens += [f"{token},{user},{user}" for token, user in self._users.items()]
        Path(self.file("tokens.csv")).write_text("\n".join(tokens) + "\n")

    def _spawn(self, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        log = (self.root / "logs" / f"{name}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [str(self._programs.binary(name)), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(self.root), **(env or {})},
                preexec_fn=_die_with_parent,
            )
        self._running.append((name, process))

    def _alive(self, name: str) -> None:
        for known, process in self._running:
            if known == name and process.poll() is not None:
                tail = (self.root / "logs" / f"{name}.log").read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{name} ended with exit code {process.returncode}:\n{tail}")

    def _start_kubernetes(self) -> None:
        client, peer = free_port(), free_port()
        etcd, own = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        self._spawn(
            "etcd",
            *("--data-dir", self.file("etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd),
            *("--listen-peer-urls", own, "--initial-advertise-peer-urls", own),
            *("--initial-cluster", f"default={own}", "--unsafe-no-fsync", "--log-level", "error"),
        )
        key = self.file("service-account.key")
        self._spawn(
            "kube-apiserver",
            *("--etcd-servers", etcd, "--secure-port", str(self.port), "--bind-address", "127.0.0.1"),
            *("--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none"),
            *("--tls-cert-file", self.file("server.crt"), "--tls-private-key-file", self.file("server.key")),
            *("--client-ca-file", self.file("ca.crt"), "--cert-dir", self.file("apiserver")),
            *("--service-account-key-file", key, "--service-account-signing-key-file", key),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--token-auth-file", self.file("tokens.csv"), "--authorization-mode", "RBAC"),
            *("--service-cluster-ip-range", "10.0.0.0/24", "--kubelet-preferred-address-types", "InternalIP"),
            *("--kubelet-certificate-authority", self.file("ca.crt")),
            *("--kubelet-client-certificate", self.file("kubelet-client.crt")),
            *("--kubelet-client-key", self.file("kubelet-client.key")),
            *("--max-requests-inflight", "2000", "--max-mutating-requests-inflight", "1000"),
        )

        def ready() -> bool:
            self._alive("etcd")
            self._alive("kube-apiserver")
            return bool(self.api.call("GET", "/readyz") == "ok")

        wait_until("kube-apiserver is ready", ready)

    def _start_controllers(self) -> None:
        """After the CRDs: the garbage collector looks for new kinds at its start, then every 30 seconds."""
        self._spawn(
            "kube-controller-manager",
            *("--kubeconfig", str(self.kubeconfig), "--controllers", ",".join(CONTROLLERS), "--leader-elect=false"),
            *(
                "--service-account-private-key-file",
                self.file("service-account.key"),
                "--root-ca-file",
                self.file("ca.crt"),
            ),
            *("--bind-address", "127.0.0.1", "--secure-port", str(free_port())),
            *("--cert-dir", self.file("kcm"), "--kube-api-qps", "500", "--kube-api-burst", "1000"),
        )

    def _apply_crds(self, files: Sequence[Path]) -> None:
        names = []
        for path in files:
            for obj in _documents(path):
                self.api.create(obj)
                names.append(obj["metadata"]["name"])

        def established() -> bool:
            found = [self.api.get("CustomResourceDefinition", name).get("status") or {} for name in names]
            return all(
                any(c["type"] == "Established" and c["status"] == "True" for c in status.get("conditions") or ())
                for status in found
            )

        wait_until("the CRDs are established", established)
        wait_until("the default namespace", lambda: self.api.get("Namespace", "default") is not None)

    def _start_managers(self) -> None:
        self._ports = {"jobset": (free_port(), free_port()), "trainer": (free_port(), free_port())}
        certs = self.root / "jobset-certs"
        private = self.root / "tmp" / "k8s-webhook-server" / "serving-certs"
        for folder in (certs, private):
            folder.mkdir(parents=True)
            for end in ("crt", "key"):
                (folder / f"tls.{end}").write_bytes(Path(self.file(f"server.{end}")).read_bytes())
        self._write_yaml(
            "jobset.yaml",
            {
                "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
                "kind": "Configuration",
                "webhook": {"port": self._ports["jobset"][0], "host": "127.0.0.1", "certDir": str(certs)},
                "metrics": {"bindAddress": "0"},
                "health": {"healthProbeBindAddress": f"127.0.0.1:{self._ports['jobset'][1]}"},
                "leaderElection": {"leaderElect": False},
                "internalCertManagement": {"enable": False},
                "clientConnection": {"qps": 500, "burst": 1000},
            },
        )
        self._write_yaml(
            "trainer.yaml",
            {
                "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
                "kind": "Configuration",
                "webhook": {"port": self._ports["trainer"][0], "host": "127.0.0.1"},
                "metrics": {"bindAddress": "0", "secureServing": False},
                "health": {"healthProbeBindAddress": f"127.0.0.1:{self._ports['trainer'][1]}"},
                "certManagement": {"enable": False},
                "clientConnection": {"qps": 500, "burst": 1000},
            },
        )
        env = {"KUBECONFIG": str(self.kubeconfig)}
        self._spawn("jobset", "--config", self.file("jobset.yaml"), env=env)
        # Trainer reads its certificate from $TMPDIR/k8s-webhook-server: a private TMPDIR keeps planes apart.
        self._spawn("trainer", "--config", self.file("trainer.yaml"), env={**env, "TMPDIR": self.file("tmp")})
        for name, (_, health) in self._ports.items():
            wait_until(f"{name} is ready", lambda name=name, health=health: self._healthy(name, health))  # type: ignore[misc]

    def _healthy(self, name: str, port: int) -> bool:
        self._alive(name)
        with socket.create_connection(("127.0.0.1", port), timeout=1) as peer:
            peer.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            return b" 200 " in peer.recv(200)

    def _write_yaml(self, name: str, content: Mapping[str, Any]) -> None:
        (self.root / name).write_text(yaml.safe_dump(dict(content)))

    def _apply_webhooks(self) -> None:
        bundle = base64.b64encode((self.root / "ca.crt").read_bytes()).decode()
        for name, (port, _) in self._ports.items():
            for obj in (d for path in self._programs.manifests(f"webhooks/{name}") for d in _documents(path)):
                obj["metadata"]["name"] = f"{name}-{obj['metadata']['name']}"
                # JobSet's two pod hooks serve exclusive placement, which needs real nodes.
                obj["webhooks"] = [hook for hook in obj["webhooks"] if not hook["name"].endswith("pod.kb.io")]
                for hook in obj["webhooks"]:
                    path = hook["clientConfig"]["service"]["path"]
                    hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}
                self.api.create(obj)

    def _apply_runtimes(self) -> None:
        for path in self._programs.manifests("runtimes"):
            for obj in _documents(path):
                # The webhooks need a moment to be seen by the API server.
                wait_until(f"runtime {obj['metadata']['name']}", lambda obj=obj: self._apply(obj))  # type: ignore[misc]

    def _apply(self, obj: dict[str, Any]) -> bool:
        self.api.create(obj)
        return True

    def namespace(self, name: str) -> str:
        """Make a namespace with its default service account."""
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        wait_until(
            f"the service account of {name}",
            lambda: self.api.call("GET", path_of("ServiceAccount", name, "default")) is not None,
        )
        return name


def _documents(path: Path) -> list[dict[str, Any]]:
    return [obj for obj in yaml.safe_load_all(path.read_text()) if obj]
