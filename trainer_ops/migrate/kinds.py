"""The v1 kinds and what their operators do with what a job leaves out.

Sources: training-operator v1.9.3 ``pkg/apis/kubeflow.org/v1/*_{types,defaults}.go``, mpi-operator v0.8.0
``pkg/apis/kubeflow/v2beta1/{types,default}.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["GROUP", "KINDS", "REMOVED", "Kind", "kind_of", "once_was", "served"]

GROUP: Final = "kubeflow.org"


@dataclass(frozen=True, slots=True)
class Kind:
    """One v1 kind in one served version.

    Attributes:
        name: ``PyTorchJob``.
        version: ``v1`` or ``v2beta1``.
        framework: a word for people and labels.
        replica_specs: the field of ``spec`` with the roles.
        roles: their canonical names, in the order in which they are told to people; the operator takes any spelling.
        container: the name that the container with the code must have; "" for the first one.
        port: (name, number) of the port that the operator adds to that container.
        restart_policies: the operator's default for each role.
        replicas: the operator's default for each role, where that is not 1.
        fields: what else ``spec`` may hold.
        plural: in URLs and RBAC.
    """

    name: str
    version: str
    framework: str
    replica_specs: str
    roles: tuple[str, ...]
    container: str
    port: tuple[str, int]
    restart_policies: Mapping[str, str]
    fields: tuple[str, ...] = ()
    replicas: Mapping[str, int] = field(default_factory=dict)

    @property
    def api_version(self) -> str:
        """``kubeflow.org/v1``."""
        return f"{GROUP}/{self.version}"

    @property
    def plural(self) -> str:
        """``pytorchjobs``."""
        return f"{self.name.lower()}s"


def _always(policy: str, roles: tuple[str, ...]) -> dict[str, str]:
    return dict.fromkeys(roles, policy)


_MASTER_WORKER = ("Master", "Worker")
_TF = ("Chief", "Master", "Worker", "PS", "Evaluator")
_MPI = ("Launcher", "Worker")

_ALL: Final = (
    Kind(
        "PyTorchJob",
        "v1",
        "torch",
        "pytorchReplicaSpecs",
        _MASTER_WORKER,
        "pytorch",
        ("pytorchjob-port", 23456),
        _always("OnFailure", _MASTER_WORKER),
        ("elasticPolicy", "nprocPerNode"),
    ),
    Kind(
        "TFJob",
        "v1",
        "tensorflow",
        "tfReplicaSpecs",
        _TF,
        "tensorflow",
        ("tfjob-port", 2222),
        _always("Never", _TF),
        ("successPolicy", "enableDynamicWorker"),
    ),
    Kind(
        "XGBoostJob",
        "v1",
        "xgboost",
        "xgbReplicaSpecs",
        _MASTER_WORKER,
        "xgboost",
        ("xgboostjob-port", 9999),
        _always("Never", _MASTER_WORKER),
    ),
    Kind(
        "PaddleJob",
        "v1",
        "paddle",
        "paddleReplicaSpecs",
        _MASTER_WORKER,
        "paddle",
        ("master", 36543),
        _always("OnFailure", _MASTER_WORKER),
        ("elasticPolicy",),
    ),
    Kind("JAXJob", "v1", "jax", "jaxReplicaSpecs", ("Worker",), "jax", ("jaxjob-port", 6666), {"Worker": "Never"}),
    Kind(
        "MPIJob",
        "v1",
        "mpi",
        "mpiReplicaSpecs",
        _MPI,
        # Its controller takes the first container, whatever it is called, and the workers' mainContainer.
        "",
        ("", 0),
        _always("Never", _MPI),
        ("slotsPerWorker", "mainContainer"),
        {"Worker": 0},
    ),
    Kind(
        "MPIJob",
        "v2beta1",
        "mpi",
        "mpiReplicaSpecs",
        _MPI,
        "",
        ("", 0),
        {"Launcher": "OnFailure", "Worker": "Never"},
        ("slotsPerWorker", "runLauncherAsWorker", "sshAuthMountPath", "launcherCreationPolicy", "mpiImplementation"),
        {"Worker": 0},
    ),
)
KINDS: Final[Mapping[tuple[str, str], Kind]] = {(kind.name, kind.version): kind for kind in _ALL}
# Kinds of this group that no operator serves any more, and what became of them.
REMOVED: Final[Mapping[str, str]] = {"MXJob": "training-operator 1.9 removed it, and MXNet has ended"}


def kind_of(api_version: object, name: object) -> Kind | None:
    """The kind that an object says it is; None for all that is no v1 training job."""
    group, _, version = str(api_version or "").partition("/")
    return KINDS.get((str(name), version)) if group == GROUP else None


def served(name: object) -> tuple[str, ...]:
    """The versions in which the operators serve a kind: () for all that is none of theirs."""
    return tuple(f"{GROUP}/{version}" for kind, version in KINDS if kind == name)


def once_was(api_version: object, name: object) -> bool:
    """A job of this group that no operator serves any more: a removed kind, or an early version."""
    ours = str(api_version or "").startswith(f"{GROUP}/") and kind_of(api_version, name) is None
    return ours and (str(name) in REMOVED or bool(served(name)))
