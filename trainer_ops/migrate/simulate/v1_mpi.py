"""The pods of an MPIJob, of either version.

Those of ``kubeflow.org/v2beta1`` are mpi-operator 0.8.0's; those of ``kubeflow.org/v1`` training-operator 1.9.3's,
which reaches its workers by kubectl exec.

Sources: mpi-operator v0.8.0 ``pkg/controller/mpi_job_controller.go``, training-operator v1.9.3
``pkg/controller.v1/mpi/mpijob{,_controller}.go``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainer_ops.migrate.normalise import Role, V1Job
from trainer_ops.migrate.simulate.fleet import Behaviour, Fleet, SimPod
from trainer_ops.migrate.simulate.kubelet import pod
from trainer_ops.migrate.simulate.v1_template import pruned

__all__ = ["simulate_mpi"]

Raw = dict[str, Any]
Env = list[dict[str, Any]]

_LABEL: Final = "training.kubeflow.org/"
_CONFIG: Final = "/etc/mpi"
_HOSTFILE: Final = f"{_CONFIG}/hostfile"
_ROOT_SSH: Final = "/root/.ssh"
_NO_GPU: Final = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
_JOB_BACKOFF: Final = 6
_KUBECTL_IMAGE: Final = "ghcr.io/kubeflow/training-v1/kubectl-delivery:latest"
_ENTRIES: Final = {"Intel": "{}:{}", "MPICH": "{}:{}"}
_KEY_FILES: Final = (
    ("ssh-privatekey", "id_rsa"),
    ("ssh-publickey", "id_rsa.pub"),
    ("ssh-publickey", "authorized_keys"),
)
_RESTART: Final = {"OnFailure": "in-place", "Always": "always", "ExitCode": "exit-code", "Never": "never"}
# Training-operator's MPIJob says Restarting of a failed pod and leaves it as it is, whatever its exit code.
_OLD_RESTART: Final = {**_RESTART, "ExitCode": "never"}


def simulate_mpi(job: V1Job, *, suspended: bool) -> Fleet:
    """Play an MPIJob of either version; ``suspended``: it is made so."""
    name, namespace = job.name or f"{job.generate_name}xxxxx", job.namespace or "default"
    launcher = job.role("Launcher")
    worker = next((role for role in job.roles if role.name == "Worker"), None)
    workers = int(worker.replicas) if worker is not None else 0
    modern = job.kind.version == "v2beta1"
    joins = bool(job.spec.get("runLauncherAsWorker")) if modern else launcher is not None and _has_gpu(launcher)
    hosts = [*([f"{name}-launcher"] if joins else []), *(f"{name}-worker-{i}" for i in range(workers))]
    suffix = f".{name}.{namespace}.svc" if modern else ""
    slots = job.spec.get("slotsPerWorker")
    slots = 1 if slots is None else slots
    form = _ENTRIES.get(str(job.spec.get("mpiImplementation") or ""), "{} slots={}")
    hostfile = tuple(form.format(f"{host}{suffix}", slots) for host in hosts)
    scripts = {} if modern else _old_scripts(job, name, workers, joins, slots)
    pods: list[SimPod] = []
    make_launcher, make_worker = (_launcher, _worker) if modern else (_old_launcher, _old_worker)
    if launcher is not None:
        pods.append(_read(make_launcher(job, launcher, name, joins, namespace), launcher, 0, name, namespace))
    for index in range(workers if worker is not None else 0):
        assert worker is not None
        raw = make_worker(job, worker, name, index, joins, namespace)
        pods.append(_read(raw, worker, index, name, namespace))
    return Fleet(
        name,
        namespace,
        "v1",
        tuple(pods),
        nodes=len(hosts),
        processes=str(slots),
        hostfile=hostfile,
        services=(name,) if modern else (),
        config_maps={f"{name}-config": {"hostfile": "".join(f"{line}\n" for line in hostfile), **scripts}},
        secrets=(f"{name}-ssh",) if modern else (),
        rights={} if modern or launcher is None else _rights(launcher, name, workers),
        behaviour=_behaviour(job, tuple(pods), modern, suspended),
    )


def _read(raw: Raw, role: Role, index: int, name: str, namespace: str) -> SimPod:
    tail = "launcher" if role.name == "Launcher" else f"worker-{index}"
    seat = "launcher" if role.name == "Launcher" else f"host {index}"
    main = str(raw["spec"]["containers"][role.main].get("name") or "")
    return pod(raw, role=role.name, index=index, seat=seat, host=f"{name}-{tail}", main=main, namespace=namespace)


def _start(role: Role, name: str, labels: Mapping[str, str]) -> tuple[Raw, Raw]:
    """A pod of the role with the operator's labels and restart policy; its main container, the first one."""
    template: Raw = pruned(role.template)
    held = template.get("metadata") or {}
    given = {key: value for key, value in (held.get("labels") or {}).items() if value is not None}
    metadata: Raw = {"name": name, "labels": {**given, **labels}}
    if held.get("annotations"):
        metadata["annotations"] = dict(held["annotations"])
    spec: Raw = template.get("spec") or {}
    spec["restartPolicy"] = "Never" if role.restart_policy == "ExitCode" else role.restart_policy
    return {"metadata": metadata, "spec": spec}, spec["containers"][0]


def _append(held: Raw, field: str, *items: Raw) -> None:
    held[field] = [*(held.get(field) or ()), *items]


def _env(**values: str) -> Env:
    return [{"name": name, "value": value} if value else {"name": name} for name, value in values.items()]


# mpi-operator


def _modern_labels(name: str, role: str) -> dict[str, str]:
    return {f"{_LABEL}operator-name": "mpi-operator", f"{_LABEL}job-name": name, f"{_LABEL}job-role": role}


def _placed(spec: Raw, host: str, name: str) -> None:
    spec["hostname"], spec["subdomain"] = host, name
    if spec.get("hostNetwork"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"


def _launcher(job: V1Job, role: Role, name: str, joins: bool, namespace: str) -> Raw:
    labels = _modern_labels(name, "launcher")
    if joins:
        labels[f"{_LABEL}replica-index"] = "0"
    raw, container = _start(role, f"{name}-launcher", labels)
    spec: Raw = raw["spec"]
    _placed(spec, f"{name}-launcher", name)
    env = [*_env(K_MPI_JOB_ROLE="launcher"), *_implementation(job)]
    if not joins:
        env += [{"name": variable} for variable in _NO_GPU]
    _append(container, "env", *env)
    _ssh(job, spec, container, name)
    items = [
        {"key": "hostfile", "path": "hostfile", "mode": 0o444},
        {"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555},
    ]
    _append(spec, "volumes", {"name": "mpi-job-config", "configMap": {"name": f"{name}-config", "items": items}})
    _append(container, "volumeMounts", {"name": "mpi-job-config", "mountPath": _CONFIG})
    return raw


def _implementation(job: V1Job) -> Env:
    slots = job.spec.get("slotsPerWorker")
    text = str(1 if slots is None else slots)
    kind = job.spec.get("mpiImplementation") or "OpenMPI"
    attempts = "-o ConnectionAttempts=10"
    if kind == "Intel":
        return _env(I_MPI_HYDRA_HOST_FILE=_HOSTFILE, I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=attempts, I_MPI_PERHOST=text)
    if kind == "MPICH":
        return _env(HYDRA_HOST_FILE=_HOSTFILE, HYDRA_LAUNCH_EXTRA_ARGS=attempts)
    return _env(
        OMPI_MCA_orte_keep_fqdn_hostnames="true",
        OMPI_MCA_orte_default_hostfile=_HOSTFILE,
        OMPI_MCA_plm_rsh_args=attempts,
        OMPI_MCA_orte_set_default_slots=text,
    )


def _worker(job: V1Job, role: Role, name: str, index: int, joins: bool, namespace: str) -> Raw:
    host = f"{name}-worker-{index}"
    labels = {**_modern_labels(name, "worker"), f"{_LABEL}replica-index": str(index + joins)}
    raw, container = _start(role, host, labels)
    spec: Raw = raw["spec"]
    _placed(spec, host, name)
    dns: Raw = dict(spec.get("dnsConfig") or {})
    dns["searches"] = [*(dns.get("searches") or ()), f"{name}.{namespace}.svc.cluster.local"]
    spec["dnsConfig"] = dns
    if not container.get("command") and not container.get("args"):
        container["command"] = ["/usr/sbin/sshd", "-De"]
    _append(container, "env", *_env(K_MPI_JOB_ROLE="worker"))
    _ssh(job, spec, container, name)
    return raw


def _ssh(job: V1Job, spec: Raw, container: Raw, name: str) -> None:
    path = job.spec.get("sshAuthMountPath") or _ROOT_SSH
    items = [{"key": key, "path": file} for key, file in _KEY_FILES]
    secret: Raw = {"secretName": f"{name}-ssh", "items": items}
    if path == _ROOT_SSH:
        secret["defaultMode"] = 0o600
    _append(spec, "volumes", {"name": "ssh-auth", "secret": secret})
    _append(container, "volumeMounts", {"name": "ssh-auth", "mountPath": path})


# training-operator


def _old_labels(name: str, role: str) -> dict[str, str]:
    return {f"{_LABEL}operator-name": "mpijob-controller", f"{_LABEL}job-name": name, f"{_LABEL}replica-type": role}


def _has_gpu(role: Role) -> bool:
    containers = role.pod.get("containers") or ()
    return any("gpu" in key for one in containers for key in ((one.get("resources") or {}).get("limits") or {}))


def _script(key: str, mode: int) -> Raw:
    return {"key": key, "path": key, "mode": mode}


def _old_launcher(job: V1Job, role: Role, name: str, joins: bool, namespace: str) -> Raw:
    labels = {**_old_labels(name, "launcher"), f"{_LABEL}job-role": "master"}
    raw, container = _start(role, f"{name}-launcher", labels)
    spec: Raw = raw["spec"]
    if not role.pod.get("serviceAccountName"):
        spec["serviceAccountName"] = f"{name}-launcher"
    kubectl = {"name": "mpi-job-kubectl", "mountPath": "/opt/kube"}
    config = {"name": "mpi-job-config", "mountPath": _CONFIG}
    small = {"cpu": "100m", "ephemeral-storage": "5Gi", "memory": "512Mi"}
    delivery: Raw = {
        "name": "kubectl-delivery",
        "image": _KUBECTL_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "env": _env(TARGET_DIR="/opt/kube", NAMESPACE=namespace),
        "volumeMounts": [kubectl, config],
        "resources": {"limits": dict(small), "requests": dict(small)},
    }
    _append(spec, "initContainers", delivery)
    env = _env(OMPI_MCA_plm_rsh_agent=f"{_CONFIG}/kubexec.sh", OMPI_MCA_orte_default_hostfile=_HOSTFILE)
    if not joins:
        env += _env(**dict.fromkeys(_NO_GPU, ""))
    held = {item.get("name") for item in container.get("env") or ()}
    if "I_MPI_HYDRA_BOOTSTRAP" not in held:
        env += _env(I_MPI_HYDRA_BOOTSTRAP="rsh")
    if "I_MPI_HYDRA_BOOTSTRAP_EXEC" not in held:
        env += _env(I_MPI_HYDRA_BOOTSTRAP_EXEC=f"{_CONFIG}/kubexec.sh")
    _append(container, "env", *env)
    _append(container, "volumeMounts", dict(kubectl), dict(config))
    items = [_script("kubexec.sh", 0o555), _script("hostfile", 0o444), _script("discover_hosts.sh", 0o555)]
    volume = {"name": "mpi-job-config", "configMap": {"name": f"{name}-config", "items": items}}
    _append(spec, "volumes", {"name": "mpi-job-kubectl", "emptyDir": {}}, volume)
    return raw


def _old_worker(job: V1Job, role: Role, name: str, index: int, joins: bool, namespace: str) -> Raw:
    labels = {**_old_labels(name, "worker"), f"{_LABEL}replica-index": str(index)}
    raw, container = _start(role, f"{name}-worker-{index}", labels)
    if not container.get("command"):
        container["command"], container["args"] = ["sleep"], ["365d"]
    _append(container, "volumeMounts", {"name": "mpi-job-config", "mountPath": _CONFIG})
    items = [_script("kubexec.sh", 0o555)]
    volume = {"name": "mpi-job-config", "configMap": {"name": f"{name}-config", "items": items}}
    _append(raw["spec"], "volumes", volume)
    return raw


def _old_scripts(job: V1Job, name: str, workers: int, joins: bool, slots: Any) -> dict[str, str]:
    """What mpirun runs in place of rsh, and what elastic Horovod asks once all workers run: those that do, by name."""
    container = f" --container {job.spec['mainContainer']}" if job.spec.get("mainContainer") else ""
    execute = f'/opt/kube/kubectl exec ${{POD_NAME}}{container} -- /bin/sh -c "$*"'
    # With a line end of its own, after which an empty line comes.
    first = f"\necho {name}-launcher:{slots}\n" if joins else ""
    hosts = sorted(f"{name}-worker-{index}" for index in range(workers))
    return {
        "kubexec.sh": f"#!/bin/sh\nset -x\nPOD_NAME=$1\nshift\n{execute}",
        "discover_hosts.sh": "#!/bin/sh" + first + "".join(f"\necho {host}:{slots}" for host in hosts),
    }


def _rights(launcher: Role, name: str, workers: int) -> dict[str, tuple[str, ...]]:
    account = str(launcher.pod.get("serviceAccountName") or f"{name}-launcher")
    return {account: tuple(f"{name}-worker-{index}" for index in range(workers))}


def _behaviour(job: V1Job, pods: tuple[SimPod, ...], modern: bool, suspended: bool) -> Behaviour:
    policy = job.run_policy
    policies = {role.name: role.restart_policy for role in job.roles}
    known = _RESTART if modern else _OLD_RESTART
    restart = {one.seat: known.get(policies[one.role], "in-place") for one in pods}
    limit = policy.get("backoffLimit")
    retries: dict[str, int | None] = {}
    for seat, how in list(restart.items()):
        if seat == "launcher" and modern:
            # A Job of Kubernetes makes it, with that one's default; it tries new pods where containers stay ended.
            retries[seat] = _JOB_BACKOFF if limit is None else limit
            if how in ("never", "exit-code"):
                restart[seat] = "new-pod" if retries[seat] else "never"
        elif modern:
            # Workers are pods of their own, which no limit counts.
            retries[seat] = 0 if how == "never" else None
        else:
            retries[seat] = 0 if how == "never" else limit
    clean = policy.get("cleanPodPolicy") or "None"
    ready = bool(modern and job.spec.get("launcherCreationPolicy") == "WaitForWorkersReady")
    return Behaviour(
        restart,
        retries,
        shared_retries=not modern and limit is not None,
        success=("launcher",),
        outlive="left" if clean == "None" else "ended",
        cleanup="deleted" if clean == "All" else "kept",
        deadline=policy.get("activeDeadlineSeconds"),
        ttl=policy.get("ttlSecondsAfterFinished"),
        suspended=suspended,
        gang=next((g for one in pods if (g := _gang(one))), ""),
        start={"launcher": ("host",)} if ready else {},
    )


def _gang(one: SimPod) -> str:
    return {"volcano": "volcano", "scheduler-plugins-scheduler": "coscheduling"}.get(
        str(one.spec.get("schedulerName") or ""), ""
    )
