"""What this machine and the engine are like, told to the plan as a ``Place``."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

from trainer_ops.local.jobrun import random_suffix
from trainer_ops.local.plan_values import Place
from trainer_ops.local.processes import ENV_JOB
from trainer_ops.local.progress_server import ProgressServer
from trainer_ops.local.spawn import isolated
from trainer_ops.model import keys

__all__ = ["base_environment", "make_place", "trial_place"]

# What a container of a cluster would not see either: another training's place in the world, and Airflow's secrets.
_DROPPED = (
    "AIRFLOW__",
    "_AIRFLOW_",
    "AIRFLOW_CONN_",
    "AIRFLOW_VAR_",
    "AIRFLOW_CTX_",
    "PET_",
    "DMLC_",
    "JAX_COORDINATOR_",
    "JAX_PROCESS_",
    "JAX_NUM_PROCESSES",
    "OMPI_",
    "PRTE_",
    "PMIX_",
    "PMI_",
    "TORCHELASTIC_",
    "KUBEFLOW_TRAINER_",
    "TRAINER_OPS_",
)
_DROPPED_NAMES = frozenset({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
_DROPPED_NAMES |= {"JOB_COMPLETION_INDEX", "OLDPWD", "_"}


def base_environment(environ: Mapping[str, str], python: str) -> dict[str, str]:
    """What every process of a training starts from: the submitter's environment, cleaned, our interpreter's PATH."""
    env = {
        name: value for name, value in environ.items() if not name.startswith(_DROPPED) and name not in _DROPPED_NAMES
    }
    if keys.ENV_TARGET in environ:
        env[keys.ENV_TARGET] = environ[keys.ENV_TARGET]
    folder, path = os.path.dirname(python), env.get("PATH") or os.defpath
    if path.split(os.pathsep)[0] != folder:
        path = os.pathsep.join((folder, path))
    env["PATH"] = path
    return env


def make_place(
    job: Mapping[str, Any],
    folder: str,
    *,
    python: str,
    attempt: int,
    namespace: str,
    progress: ProgressServer | None,
    checkpoints: str,
) -> Place:
    """The place for one start of this TrainJob: a fresh port and suffix each time."""
    meta = job["metadata"]
    run_key = (meta.get("labels") or {}).get(keys.LABEL_RUN_KEY)
    env = base_environment(os.environ, python)
    env[ENV_JOB] = meta["uid"]
    return Place(
        job_dir=folder,
        env=env,
        python=python,
        port=_free_port(),
        dataset_dir=f"{folder}/workspace/dataset",
        model_dir=f"{folder}/workspace/model",
        checkpoint_dir=f"{checkpoints}/{run_key}" if run_key else None,
        initializer=(python, "-c", isolated("trainer_ops.local.initialize")),
        suffix=random_suffix(),
        attempt=attempt,
        namespace=namespace,
        host=os.uname().nodename,
        cpu_count=_cpus(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        progress_url=progress.url if progress else None,
        progress_token=progress.token_path if progress else "",
        progress_ca=_ca_certificates(),
    )


def trial_place(folder: str, *, python: str, namespace: str) -> Place:
    """A place to plan for without running: what the plan refuses, it refuses before anything is stored."""
    return Place(
        job_dir=folder,
        env={"PATH": os.defpath},
        python=python,
        port=29500,
        dataset_dir=f"{folder}/workspace/dataset",
        model_dir=f"{folder}/workspace/model",
        initializer=(python,),
        namespace=namespace,
        cpu_count=_cpus(),
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _ca_certificates() -> str:
    """A PEM file that exists, for clients that load it whatever the URL's scheme; found without importing certifi."""
    candidates = [f"{folder}/certifi/cacert.pem" for folder in _library_folders()]
    candidates += ["/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem", "/etc/pki/tls/certs/ca-bundle.crt"]
    return next((path for path in candidates if os.path.isfile(path)), "")


def _library_folders() -> list[str]:
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return [*sys.path, os.path.join(os.path.dirname(os.path.dirname(sys.executable)), "lib", version, "site-packages")]
