"""``python -m tests.controlplane``: a control plane with two nodes, for a person to try things on. Ctrl-C stops it."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path

from tests.controlplane.fixtures import NODES, leftovers
from tests.controlplane.kubelet import Kubelet, Mode
from tests.controlplane.plane import ControlPlane

_TRY = """
The control plane is up: Kubernetes 1.36, JobSet 0.12, Trainer 2.3. Nodes {nodes}; containers run {mode}.

  export KUBECONFIG={kubeconfig}

  trainer-ops runtimes --target kubernetes://admin/default
  trainer-ops run --target kubernetes://admin/default --runtime xgboost-distributed --nodes 2 -- train.py
  kubectl get trainjobs,jobsets,pods       (if you have kubectl)

Logs of the programs are in {logs}. Ctrl-C stops everything and removes it."""


def main() -> int:
    """Start, wait for Ctrl-C or SIGTERM, stop; the exit code is 1 when something was left behind."""
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description=__doc__)
    parser.add_argument("--speed", type=float, default=1.0, help="divide the kubelet's back-offs by this (default 1)")
    parser.add_argument("--mode", choices=("auto", "contained", "plain"), default="auto", help="how containers run")
    chosen = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    root = Path(tempfile.mkdtemp(prefix="control-plane-"))
    print("· starting etcd, kube-apiserver, kube-controller-manager, JobSet and Trainer …", file=sys.stderr, flush=True)
    try:
        return _serve(root, stop, chosen.speed, chosen.mode)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _serve(root: Path, stop: threading.Event, speed: float, mode: Mode) -> int:
    plane = ControlPlane(root / "plane")
    try:
        kubelet = Kubelet(plane, NODES, speed=speed, mode=mode)
        nodes = ", ".join(node.name for node in NODES)
        logs = plane.root / "logs"
        print(_TRY.format(nodes=nodes, mode=kubelet.mode, kubeconfig=plane.kubeconfig, logs=logs), flush=True)
        stop.wait()
        kubelet.close()
    finally:
        plane.close()
    left = leftovers(root, kubelet.network)
    print("\n".join(left) or "· stopped", file=sys.stderr)
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(main())
