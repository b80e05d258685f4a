"""The operators that Trainer replaces, beside it on a control plane: training-operator 1.9 and mpi-operator 0.8.

Both run unchanged, with their own CRDs and training-operator's admission webhooks. What a cluster gives them and
loopback does not: a certificate that is valid for an address, the fixed folder where training-operator looks for it,
and the fixed port of mpi-operator's health check, which several planes could not share.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trustme
import yaml

from tests.controlplane.api import ApiError, path_of
from tests.controlplane.build import old_mpi_crds, v1_operators
from tests.controlplane.kueue import apply_crds, healthy
from tests.controlplane.plane import ControlPlane, free_port, wait_until
from tests.controlplane.private import END_WITH_US, way

__all__ = ["V1Operators", "unavailable"]

NAMESPACE = "kubeflow"
# Without training-operator's MPIJob, whose CRD cannot lie beside mpi-operator's: it takes a plane of its own
# (``old_mpi``). Kind -> the field with its roles.
KINDS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}
_SECRET = "training-operator-webhook-cert"
_WEBHOOKS = "validator.training-operator.kubeflow.org"
# Both names must be in the certificate for training-operator to leave it as it is.
_NAMES = ("training-operator-ca", "training-operator.kubeflow.svc")
_CERTS = "/tmp/k8s-webhook-server/serving-certs"
_RELAY = Path(__file__).with_name("relay.py")
# $0: the plane's folder; $1: that of the program. Both may be in /tmp, which is covered.
_INSIDE = (
    "mount -t tmpfs none /mnt && mkdir /mnt/plane /mnt/bin"
    ' && mount --bind "$0" /mnt/plane && mount --bind "$1" /mnt/bin'
    f' && mount -t tmpfs none /tmp && mkdir -p "$0" "$1" {_CERTS} && mount --bind /mnt/plane "$0"'
    f' && mount --bind /mnt/bin "$1" && cp "$0"/v1-certs/tls.* {_CERTS} && shift && exec "$@"'
)


def unavailable() -> str:
    """Why they cannot run on this machine; "" when they can."""
    return way("mount")[1] or way("net")[1]


class V1Operators:
    """The two, running.

    Attributes:
        plane: the control plane that they work on; stop them before it.
    """

    def __init__(self, plane: ControlPlane, *, old_mpi: bool = False) -> None:
        """Start them and wait until jobs are taken.

        Args:
            plane: on which they are to work.
            old_mpi: training-operator alone, and with no kind but its own MPIJob, of kubeflow.org/v1.

        Raises:
            RuntimeError: one does not start, or cannot run on this machine.
        """
        why = unavailable()
        if why:
            raise RuntimeError(f"the v1 operators: {why}")
        self.plane = plane
        self._training, self._mpi = v1_operators()
        self._webhook, self._health = free_port(), free_port()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        files = [*self._training.manifests("crds"), *self._mpi.manifests("crds")]
        apply_crds(plane, old_mpi_crds() if old_mpi else files)
        plane.namespace(NAMESPACE)
        self._certificate()
        try:
            self._apply_webhooks()
            self._start_training(["MPIJob"] if old_mpi else list(KINDS))
            if not old_mpi:
                self._start_mpi()
            wait_until("training-operator is ready", self._training_ready, seconds=120)
            if not old_mpi:
                # Its MPIJob has none.
                wait_until("training-operator's webhooks are in force", self._admits)
                wait_until("mpi-operator is ready", self._mpi_ready, seconds=120)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop them; idempotent."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    # -- starting ---------------------------------------------------------------------------------------------------

    def _certificate(self) -> None:
        """In the Secret and as files, so that training-operator finds nothing to renew (RSA, or it does not).

        It is its own authority.
        """
        made = trustme.CA().issue_cert(*_NAMES, "127.0.0.1", key_type=trustme.KeyType.RSA)
        cert, key = made.cert_chain_pems[0].bytes(), made.private_key_pem.bytes()
        folder = self.plane.root / "v1-certs"
        folder.mkdir()
        (folder / "tls.crt").write_bytes(cert)
        (folder / "tls.key").write_bytes(key)
        data = {
            name: base64.b64encode(cert if name.endswith("crt") else key).decode()
            for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")
        }
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET}, "data": data}
        self.plane.api.create(secret, namespace=NAMESPACE)

    def _apply_webhooks(self) -> None:
        """Training-operator's own: it fills in the authority."""
        (path,) = self._training.manifests("webhooks")
        (obj,) = (obj for obj in yaml.safe_load_all(path.read_text()) if obj)
        obj["metadata"]["name"] = _WEBHOOKS
        for hook in obj["webhooks"]:
            where = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{self._webhook}{where}"}
        self.plane.api.create(obj)

    def _start_training(self, kinds: Sequence[str]) -> None:
        program = self._training.binary("training-operator")
        schemes = [word for kind in kinds for word in ("--enable-scheme", kind.lower())]
        self._spawn(
            "training-operator",
            [*way("mount")[0], "unshare", "--mount", "sh", "-c", _INSIDE, str(self.plane.root), str(program.parent)],
            [str(program), "--kubeconfig", str(self.plane.kubeconfig), *schemes],
            *("--metrics-bind-address", "0", "--health-probe-bind-address", f"127.0.0.1:{self._health}"),
            *("--webhook-server-port", str(self._webhook), "--kube-api-qps", "500", "--kube-api-burst", "1000"),
        )

    def _start_mpi(self) -> None:
        program = self._mpi.binary("mpi-operator")
        self._spawn(
            "mpi-operator",
            [*way("net")[0]],
            [sys.executable, "-I", "-S", str(_RELAY), str(self.plane.port), str(program)],
            *("-kubeConfig", str(self.plane.kubeconfig), "-monitoring-port", "0", "-lock-namespace", NAMESPACE),
            *("-kube-api-qps", "500", "-kube-api-burst", "1000"),
        )

    def _spawn(self, name: str, prefix: Sequence[str], program: Sequence[str], *arguments: str) -> None:
        with (self.plane.root / "logs" / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                [*prefix, *END_WITH_US, *program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(self.plane.root)},
            )

    # -- are they ready ---------------------------------------------------------------------------------------------

    def _alive(self, name: str) -> None:
        process = self._running[name]
        if process.poll() is not None:
            tail = (self.plane.root / "logs" / f"{name}.log").read_text(errors="replace")[-3000:]
            raise RuntimeError(f"{name} ended with exit code {process.returncode}:\n{tail}")

    def _training_ready(self) -> bool:
        self._alive("training-operator")
        return healthy(self._health)

    def _admits(self) -> bool:
        """All its webhooks answer: an empty job of each kind is refused by them, and not because they are not there."""
        self._alive("training-operator")
        return all(self._refused(kind) for kind in KINDS)

    def _refused(self, kind: str) -> bool:
        empty: dict[str, Any] = {
            "apiVersion": "kubeflow.org/v1",
            "kind": kind,
            "metadata": {"name": "probe"},
            "spec": {KINDS[kind]: {"Worker": {"template": {"spec": {"containers": []}}}}},
        }
        try:
            self.plane.api.call("POST", f"{path_of(kind)}?dryRun=All", empty)
        except ApiError as error:
            return "must be specified" in error.body
        return False

    def _mpi_ready(self) -> bool:
        self._alive("mpi-operator")
        lease = self.plane.api.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/mpi-operator")
        return bool(lease["spec"].get("holderIdentity"))
