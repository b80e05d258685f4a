"""Fields of pods and containers: where each ends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.checked import checked, codes, env_of, fates, pytorch, trainer_of
from tests.migrate.kinds import job, mpi

RUN = {"command": ["torchrun", "x.py"]}
DIGEST = f"a@sha256:{'0' * 64}"
PATCH = (
    "trainjob:spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec"
)
POD = "runtime:spec.template.spec.replicatedJobs[0].template.spec.template.spec"
HERE = "spec.pytorchReplicaSpecs.Worker.template.spec"


def one(container: dict[str, Any] | None = None, **pod: Any) -> dict[str, Any]:
    return pytorch({**RUN, **(container or {})}, master=False, pod=pod)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("serviceAccountName", "trainer"),
        ("nodeSelector", {"pool": "gpu"}),
        ("tolerations", [{"key": "gpu", "operator": "Exists"}]),
        ("affinity", {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
        ("imagePullSecrets", [{"name": "registry"}]),
        ("securityContext", {"runAsUser": 1000}),
        ("terminationGracePeriodSeconds", 60),
        ("schedulingGates", [{"name": "example.com/wait"}]),
    ],
)
def test_what_a_patch_can_say(field: str, value: Any) -> None:
    done = checked(one(**{field: value}))
    assert done.runtime is None
    assert all(
        to.startswith(f"{PATCH}.{field}") for path, to in fates(done).items() if path.startswith(f"{HERE}.{field}")
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("schedulerName", "my-scheduler"),
        ("priorityClassName", "high"),
        ("priority", 5),
        ("hostNetwork", True),
        ("hostPID", True),
        ("hostIPC", True),
        ("dnsPolicy", "ClusterFirstWithHostNet"),
        ("dnsConfig", {"searches": ["x"]}),
        ("runtimeClassName", "nvidia"),
        ("topologySpreadConstraints", [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]),
        ("shareProcessNamespace", True),
        ("hostAliases", [{"ip": "10.0.0.1", "hostnames": ["a"]}]),
        ("automountServiceAccountToken", False),
        ("enableServiceLinks", False),
        ("nodeName", "n1"),
        ("activeDeadlineSeconds", 5),
        ("initContainers", [{"name": "fetch", "image": "i", "command": ["sh", "-c", "x"]}]),
    ],
)
def test_what_only_a_runtime_can_say(field: str, value: Any) -> None:
    done = checked(one(**{field: value}))
    assert done.runtime is not None
    assert all(
        to.startswith(f"{POD}.{field}") for path, to in fates(done).items() if path.startswith(f"{HERE}.{field}")
    )
    done = checked(one(**{field: value}), runtime="torch-distributed")
    assert codes(done, "refused") == ["RUNTIME-FIELD"]


@pytest.mark.parametrize(
    ("pod", "code"),
    [
        pytest.param({"restartPolicy": "Never"}, None, id="the role's own wins"),
        pytest.param({"hostname": "h"}, "POD-NAME", id="hostname"),
        pytest.param({"subdomain": "h"}, "POD-NAME", id="subdomain"),
        pytest.param({"ephemeralContainers": [{"name": "d"}]}, None, id="ephemeralContainers"),
        pytest.param({"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}, None, id="defaults"),
        pytest.param({"hostNetwork": False, "terminationGracePeriodSeconds": 30}, None, id="more defaults"),
        pytest.param({"nodeSelector": {}, "tolerations": [], "affinity": None}, None, id="empty"),
    ],
)
def test_what_is_dropped(pod: dict[str, Any], code: str | None) -> None:
    done = checked(one(**pod))
    assert done.runtime is None
    assert {fates(done)[path] for path in fates(done) if path.split(".")[5:6] == [next(iter(pod))]} <= {"dropped"}
    assert [c for c in codes(done) if c == "POD-NAME"] == ([code] if code else [])


def test_the_old_name_of_the_service_account() -> None:
    done = checked(one(serviceAccount="old"))
    assert fates(done)[f"{HERE}.serviceAccount"] == f"{PATCH}.serviceAccountName"
    done = checked(one(serviceAccount="old", serviceAccountName="new"))
    assert fates(done)[f"{HERE}.serviceAccount"] == "dropped"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("workingDir", "/w"),
        ("envFrom", [{"configMapRef": {"name": "c"}}]),
        ("imagePullPolicy", "Always"),
        ("livenessProbe", {"exec": {"command": ["x"]}}),
        ("lifecycle", {"preStop": {"exec": {"command": ["x"]}}}),
        ("tty", True),
        ("ports", [{"name": "web", "containerPort": 80}]),
        ("terminationMessagePath", "/tmp/end"),
    ],
)
def test_fields_of_the_container_that_only_a_runtime_has(field: str, value: Any) -> None:
    done = checked(one({field: value}))
    assert done.runtime is not None
    found = {to for path, to in fates(done).items() if path.startswith(f"{HERE}.containers[0].{field}")}
    assert all(to.startswith(f"{POD}.containers[0].{field}") for to in found)


@pytest.mark.parametrize(
    ("container", "path"),
    [
        pytest.param({"imagePullPolicy": "IfNotPresent"}, "imagePullPolicy", id="pull policy of a tag"),
        pytest.param({"image": "a/b", "imagePullPolicy": "Always"}, "imagePullPolicy", id="pull policy of no tag"),
        pytest.param({"image": "h:5000/b", "imagePullPolicy": "Always"}, "imagePullPolicy", id="a port is no tag"),
        pytest.param({"image": DIGEST, "imagePullPolicy": "IfNotPresent"}, "imagePullPolicy", id="of a digest"),
        pytest.param({"ports": [{"name": "pytorchjob-port", "containerPort": 1}]}, "ports[0].name", id="v1's port"),
        pytest.param({"ports": [{"containerPort": 23456}]}, "ports[0].containerPort", id="v1's port without name"),
        pytest.param({"stdin": False}, "stdin", id="a default"),
        pytest.param({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "env[0].value", id="twice"),
    ],
)
def test_what_of_a_container_is_dropped(container: dict[str, Any], path: str) -> None:
    done = checked(one(container))
    assert done.runtime is None
    assert fates(done)[f"{HERE}.containers[0].{path}"] == "dropped"


def test_sidecars_stay_beside_the_container_that_trains() -> None:
    side = [{"name": "node", "image": "s:1", "env": [{"name": "X", "value": "1"}]}]
    job = pytorch(pod={"containers": side})
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["containers"].reverse()
    done = checked(job)
    assert done.runtime is not None
    pod = done.runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert [container["name"] for container in pod["containers"]] == ["node", "node-sidecar"]
    assert "RANK" in {item["name"] for item in pod["containers"][1]["env"]}
    assert fates(done)[f"{HERE}.containers[0].name"] == f"{POD}.containers[1].name"
    assert "SIDECAR" in codes(done, "warning")


SIDE = {"containers": [{"name": "side", "image": "s:1"}]}
ENDS: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "Master and Workers become one Job": (pytorch(pod=SIDE), {}, "warning"),
    "and only the first node has to end": (pytorch(pod=SIDE), {"preserve_success": True}, "info"),
    "a Master alone": (pytorch(pod=SIDE, workers=None), {}, "info"),
    "Workers alone": (pytorch(pod=SIDE, master=False, workers=2), {}, "info"),
    "one of the Workers was enough": (
        pytorch(pod=SIDE, master=False, workers=2, elasticPolicy={"minReplicas": 2, "maxReplicas": 2}),
        {},
        "warning",
    ),
    "XGBoost": (job("XGBoostJob", {"Master": 1, "Worker": 1}, pod=SIDE), {}, "warning"),
    "JAX": (job("JAXJob", {"Worker": 2}, pod=SIDE), {}, "info"),
    "TensorFlow waits for worker 0": (job("TFJob", {"Worker": 2}, pod=SIDE), {}, "info"),
    "MPI waits for the launcher": (mpi(pod=SIDE), {}, None),
}


@pytest.mark.parametrize(("raw", "options", "severity"), ENDS.values(), ids=ENDS.keys())
def test_what_a_sidecar_keeps_waiting(raw: dict[str, Any], options: dict[str, Any], severity: str | None) -> None:
    done = checked(raw, **options)
    told = [found.severity for found in done.findings if found.code == "SIDECAR"]
    assert told == ([severity] if severity else [])


def test_a_sidecar_of_pods_that_nothing_waits_for() -> None:
    """Parameter servers are ended with the training, whatever runs in them."""
    raw = job("TFJob", {"Chief": 1, "PS": 1, "Worker": 1})
    raw["spec"]["tfReplicaSpecs"]["PS"]["template"]["spec"]["containers"].append(SIDE["containers"][0])
    assert "SIDECAR" not in codes(checked(raw))


@pytest.mark.parametrize(
    ("raw", "port"),
    [
        pytest.param(pytorch(pod={"hostNetwork": True}), "port 29500", id="torch"),
        pytest.param(mpi(pod={"hostNetwork": True}), "sshd's port", id="MPI"),
        pytest.param(job("TFJob", {"Worker": 2}, pod={"hostNetwork": True}), "TensorFlow's port", id="TensorFlow"),
    ],
)
def test_the_port_that_two_pods_of_a_host_would_want(raw: dict[str, Any], port: str) -> None:
    told = {found.message for found in checked(raw).findings if found.code == "HOST-NETWORK"}
    assert told == {f"two pods of one host would both listen on {port}"}


@pytest.mark.parametrize(
    ("init", "side", "expected"),
    [
        pytest.param(["node"], [], ["node-init", "node"], id="an init container"),
        pytest.param(["node", "node-init"], [], ["node-init-0", "node-init", "node"], id="taken by an init container"),
        pytest.param(["node-sidecar"], ["node"], ["node-sidecar", "node", "node-sidecar-0"], id="taken by the other"),
        pytest.param([], ["pytorch-node"], ["node", "pytorch-node"], id="no such name"),
    ],
)
def test_no_two_containers_of_one_name(init: list[str], side: list[str], expected: list[str]) -> None:
    named = {
        kind: [{"name": name, "image": "s:1"} for name in names]
        for kind, names in (("initContainers", init), ("containers", side))
    }
    done = checked(pytorch(pod=named))
    assert done.runtime is not None
    pod = done.runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    made = [container["name"] for kind in named for container in pod.get(kind) or ()]
    assert made == expected
    told = [found.v1_path for found in done.findings if found.code == "SIDECAR-NAME"]
    assert len(told) == ("node" in (*init, *side))


def test_a_volume_mounted_twice_needs_a_runtime() -> None:
    mounts = [{"name": "d", "mountPath": "/a", "subPath": "a"}, {"name": "d", "mountPath": "/b", "subPath": "b"}]
    done = checked(one({"volumeMounts": mounts}, volumes=[{"name": "d", "emptyDir": {}}]))
    assert done.runtime is not None
    assert checked(one({"volumeMounts": mounts[:1]}, volumes=[{"name": "d", "emptyDir": {}}])).runtime is None


@pytest.mark.parametrize(
    ("container", "field"),
    [
        pytest.param({"args": [str(i) for i in range(129)]}, "args", id="args"),
        pytest.param({"env": [{"name": f"V{i}", "value": ""} for i in range(128)]}, "env", id="env"),
        pytest.param({"resources": {"claims": [{"name": "gpu"}]}}, "resources", id="claims"),
    ],
)
def test_what_is_too_much_for_the_trainer_stays_in_the_runtime(container: dict[str, Any], field: str) -> None:
    more = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]} if field == "resources" else {}
    done = checked(one(container, **more))
    assert done.runtime is not None
    pod = done.runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert field in pod["containers"][0]
    assert field not in trainer_of(done)


def test_labels_of_pods() -> None:
    labels = {"team": "a", "training.kubeflow.org/job-name": "x", "kueue.x-k8s.io/queue-name": "q"}
    done = checked(one(metadata={"name": "x", "labels": labels, "annotations": {"sidecar.istio.io/inject": "true"}}))
    meta = "spec.pytorchReplicaSpecs.Worker.template.metadata"
    where = fates(done)
    assert where[f"{meta}.labels.team"] == f"{PATCH.removesuffix('.spec')}.metadata.labels.team"
    assert where[f'{meta}.labels["training.kubeflow.org/job-name"]'] == "dropped"
    assert where[f'{meta}.labels["kueue.x-k8s.io/queue-name"]'] == "dropped"
    assert where[f"{meta}.name"] == "dropped"
    assert "MESH" in codes(done, "warning")


@pytest.mark.parametrize(
    ("selector", "made", "told"),
    [
        pytest.param(
            {"matchLabels": {"training.kubeflow.org/job-name": "mnist"}},
            {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "mnist"}},
            False,
            id="the job's own",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "training.kubeflow.org/job-name", "operator": "In", "values": ["mnist"]}]},
            {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "In", "values": ["mnist"]}]},
            False,
            id="as an expression",
        ),
        pytest.param(
            {"matchLabels": {"training.kubeflow.org/replica-type": "worker"}},
            {"matchLabels": {"training.kubeflow.org/replica-type": "worker"}},
            True,
            id="a label that v2 has not",
        ),
    ],
)
def test_selectors(selector: dict[str, Any], made: dict[str, Any], told: bool) -> None:
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    done = checked(one(affinity=rule))
    assert done.trainjob is not None
    pod = done.trainjob["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    found = pod["template"]["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    assert found["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"] == made
    told_of = [found.severity for found in done.findings if found.code == "LABEL-SELECTOR"]
    assert told_of == (["warning"] if told else ["info"])


def test_trainer_22_cannot_patch_the_grace_period() -> None:
    job = one(terminationGracePeriodSeconds=60)
    assert checked(job).runtime is None
    assert checked(job, trainer_version="2.2").runtime is not None


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"env": {"A": "1"}}, id="env as a mapping"),
        pytest.param({"env": [{"name": "A", "value": 1}]}, id="a number in env"),
        pytest.param({"env": [{"value": "1"}]}, id="a variable without a name"),
        pytest.param({"command": "python x.py"}, id="a command as text"),
        pytest.param({"args": ["--n", 3]}, id="a number in args"),
        pytest.param({"image": None}, id="no image"),
        pytest.param({"resources": []}, id="resources as a list"),
        pytest.param({"volumeMounts": [{"name": "x"}]}, id="a mount without a path"),
        {"ports": [{"name": "pytorchjob-port", "containerPort": [None]}]},
    ],
)
def test_what_the_api_server_refuses(wrong: dict[str, Any]) -> None:
    assert codes(checked(one(wrong)), "refused") == ["NOT-A-JOB"]


def test_an_unknown_field_is_refused_or_left_out_when_asked() -> None:
    job = one({"surprise": {"deep": [1]}})
    done = checked(job)
    assert codes(done, "refused") == ["UNKNOWN-FIELD"]
    done = checked(job, drop=frozenset({"UNKNOWN-FIELD"}))
    assert fates(done)[f"{HERE}.containers[0].surprise.deep[0]"] == "dropped"
    assert "UNKNOWN-FIELD" in codes(done, "warning")


def test_variables_keep_their_order() -> None:
    env = [{"name": n, "value": v} for n, v in (("B", "1"), ("A", "$(B)"), ("C", "x"))]
    assert list(env_of(checked(one({"env": env}))))[:3] == ["B", "A", "C"]
