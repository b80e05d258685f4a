"""What a container finds: its environment, files, name and limits; and what becomes of a pod that cannot start."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.api import path_of
from tests.controlplane.fixtures import Cluster
from tests.controlplane.manual import Hand

pytestmark = pytest.mark.cluster


def pod(namespace: str, *command: str, spec: Any = None, **container: Any) -> dict[str, Any]:
    main = {"name": "node", "image": "registry.example/python:1", "command": list(command), **container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace, "labels": {"team": "blue"}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main], **(spec or {})},
    }


def end_of(cluster: Cluster, namespace: str) -> dict[str, Any]:
    done = cluster.wait("Pod", "p", namespace, lambda p: p["status"].get("phase") in ("Succeeded", "Failed"))
    return dict(done["status"]["containerStatuses"][0]["state"]["terminated"])


def output(cluster: Cluster, manifest: dict[str, Any]) -> str:
    cluster.api.create(manifest)
    end_of(cluster, manifest["metadata"]["namespace"])
    return str(cluster.api.call("GET", path_of("Pod", manifest["metadata"]["namespace"], "p", "log")))


def events(cluster: Cluster, namespace: str) -> list[tuple[str, str]]:
    return [(e["reason"], e["message"]) for e in cluster.api.list("Event", namespace=namespace)]


def make(cluster: Cluster, namespace: str, kind: str, name: str, data: Any) -> None:
    cluster.api.create(
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "data": data}
    )


def ref(field: str) -> dict[str, Any]:
    return {"valueFrom": {"fieldRef": {"fieldPath": field}}}


def test_the_environment(control_plane: Cluster, cluster_namespace: str) -> None:
    make(control_plane, cluster_namespace, "ConfigMap", "conf", {"A": "a", "B": "b"})
    make(control_plane, cluster_namespace, "Secret", "key", {"S": base64.b64encode(b"hush").decode()})
    env = [
        {"name": "ONE", "value": "1"},
        {"name": "TWO", "value": "$(ONE)-$$(ONE)-$(NONE)"},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "A"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "key", "key": "S"}}},
        {"name": "GONE", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "k", "optional": True}}},
        {"name": "NAME", **ref("metadata.name")},
        {"name": "TEAM", **ref("metadata.labels['team']")},
        {"name": "NODE", **ref("spec.nodeName")},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]
    manifest = pod(
        cluster_namespace,
        *("python3", "-c", "import json, os; print('ENV', json.dumps(dict(os.environ)))"),
        env=env,
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "conf"}}],
        resources={"limits": {"cpu": "1500m"}},
    )
    found = json.loads(output(control_plane, manifest).removeprefix("ENV"))
    wanted = {"ONE": "1", "TWO": "1-$(ONE)-$(NONE)", "B": "a", "S": "hush", "NAME": "p", "TEAM": "blue", "CPU": "2"}
    wanted |= {"P_A": "a", "P_B": "b", "HOSTNAME": "p"}
    assert {name: found.get(name) for name in wanted} == wanted
    assert found["NODE"] in ("node-a", "node-b")
    assert "GONE" not in found


def test_the_volumes(control_plane: Cluster, cluster_namespace: str) -> None:
    if control_plane.kubelet.mode != "contained":
        pytest.skip("plain processes have no mounts")
    make(control_plane, cluster_namespace, "ConfigMap", "conf", {"a.txt": "text", "b": "not asked for"})
    make(control_plane, cluster_namespace, "Secret", "key", {"id": base64.b64encode(b"hush").decode()})
    volumes = [
        {"name": "conf", "configMap": {"name": "conf", "items": [{"key": "a.txt", "path": "sub/a"}]}},
        {"name": "key", "secret": {"secretName": "key", "defaultMode": 0o400}},
        {"name": "none", "secret": {"secretName": "absent", "optional": True}},
        {"name": "info", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "tmp", "emptyDir": {}},
    ]
    mounts = [
        {"name": "conf", "mountPath": "/conf", "readOnly": True},
        {"name": "key", "mountPath": "/key"},
        {"name": "none", "mountPath": "/none"},
        {"name": "info", "mountPath": "/info"},
        {"name": "tmp", "mountPath": "/data", "subPath": "deep/er"},
    ]
    script = """
cat /conf/sub/a /key/id /info/labels; echo
ls /conf /none | wc -l; stat -c %a /key/id
touch /conf/x 2>&1 | grep -c Read-only
touch /data/x && ls /data; test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo token
touch /only-here; hostname; echo $BASHPID; ls /proc | grep -c '^[0-9]*$'
"""
    manifest = pod(cluster_namespace, "bash", "-c", script, spec={"volumes": volumes}, volumeMounts=mounts)
    lines = output(control_plane, manifest).splitlines()
    assert lines[0] == 'texthushteam="blue"'
    # "/conf:" and "/none:" head the listing of two folders
    assert lines[1:8] == ["4", "400", "1", "x", "token", "p", "1"]
    assert int(lines[8]) < 6
    assert [path for path in ("/only-here", "/conf", "/key", "/run/secrets/kubernetes.io") if Path(path).exists()] == []


def test_a_user_reads_what_belongs_to_the_group(control_plane: Cluster, cluster_namespace: str) -> None:
    if control_plane.kubelet.mode != "contained":
        pytest.skip("plain processes have no users")
    make(control_plane, cluster_namespace, "Secret", "key", {"id": base64.b64encode(b"hush").decode()})
    spec = {
        "securityContext": {"runAsUser": 1000, "fsGroup": 2000},
        "volumes": [{"name": "key", "secret": {"secretName": "key", "defaultMode": 0o600}}],
    }
    mounts = [{"name": "key", "mountPath": "/key"}]
    script = "id -u; stat -c '%a %g' /key/id; cat /key/id; python3 -c 'import os; print(os.getpid())'"
    manifest = pod(cluster_namespace, "bash", "-c", script, spec=spec, volumeMounts=mounts)
    lines = output(control_plane, manifest).splitlines()
    assert lines[:2] == ["1000", "640 2000"]
    assert lines[2].startswith("hush")


def test_init_containers_run_in_order_before_the_others(control_plane: Cluster, cluster_namespace: str) -> None:
    shared = {"volumeMounts": [{"name": "c", "mountPath": "/claim"}]}
    inits = [
        {"name": f"init-{i}", "image": "i", "command": ["sh", "-c", f"echo {i} >> /claim/order"], **shared}
        for i in (1, 2)
    ]
    spec = {"initContainers": inits, "volumes": [{"name": "c", "emptyDir": {}}]}
    assert output(control_plane, pod(cluster_namespace, "cat", "/claim/order", spec=spec, **shared)) == "1\n2\n"


def test_a_failing_init_container_fails_the_pod(control_plane: Cluster, cluster_namespace: str) -> None:
    spec = {"initContainers": [{"name": "first", "image": "i", "command": ["false"]}]}
    control_plane.api.create(pod(cluster_namespace, "true", spec=spec))
    done = control_plane.wait("Pod", "p", cluster_namespace, lambda p: p["status"].get("phase") == "Failed")
    condition = next(c for c in done["status"]["conditions"] if c["type"] == "Initialized")
    assert condition["message"] == "containers with incomplete status: [first]"
    assert done["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


# script -> exit code, reason
ENDS = {"exit 0": (0, "Completed"), "exit 3": (3, "Error"), "kill -SEGV $BASHPID": (139, "Error")}


@pytest.mark.parametrize("script", ENDS)
def test_how_it_ends(script: str, control_plane: Cluster, cluster_namespace: str) -> None:
    # Process 1 of a container is not hit by its own signals: it is a child of it that dies, and is told of.
    manifest = pod(cluster_namespace, "bash", "-c", f"bash -c '{script}'; exit $?")
    control_plane.api.create(manifest)
    end = end_of(control_plane, cluster_namespace)
    assert (end["exitCode"], end["reason"]) == ENDS[script]


def test_a_long_message_is_cut_from_the_front(control_plane: Cluster, cluster_namespace: str) -> None:
    path = "os.environ.get('TRAINER_OPS_RESULT_PATH', '/dev/termination-log')"
    code = f"import os; open({path}, 'w').write('x' * 5000 + 'end')"
    control_plane.api.create(pod(cluster_namespace, "python3", "-c", code))
    message = end_of(control_plane, cluster_namespace)["message"]
    assert (len(message), message[-4:]) == (4096, "xend")


def test_what_fits_no_node_is_told_and_starts_when_it_fits(control_plane: Cluster, cluster_namespace: str) -> None:
    manifest = pod(cluster_namespace, "true", spec={"nodeSelector": {"disk": cluster_namespace}})
    control_plane.api.create(manifest)
    stored = control_plane.wait("Pod", "p", cluster_namespace, lambda p: p["status"].get("conditions"))
    condition = stored["status"]["conditions"][0]
    text = (
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    assert [condition[k] for k in ("type", "status", "reason", "message")] == [
        "PodScheduled",
        "False",
        "Unschedulable",
        text,
    ]
    assert ("FailedScheduling", text) in events(control_plane, cluster_namespace)
    control_plane.api.patch("Node", "node-a", {"metadata": {"labels": {"disk": cluster_namespace}}}, namespace="")
    assert end_of(control_plane, cluster_namespace)["exitCode"] == 0


def test_a_gated_pod_waits(control_plane: Cluster, cluster_namespace: str) -> None:
    control_plane.api.create(pod(cluster_namespace, "true", spec={"schedulingGates": [{"name": "example.com/g"}]}))
    stored = control_plane.api.get("Pod", "p", namespace=cluster_namespace)
    assert [c["reason"] for c in stored["status"]["conditions"]] == ["SchedulingGated"]
    control_plane.api.patch("Pod", "p", {"spec": {"schedulingGates": []}}, namespace=cluster_namespace)
    assert end_of(control_plane, cluster_namespace)["exitCode"] == 0


def test_a_missing_config_map_appears_and_the_pod_runs(control_plane: Cluster, cluster_namespace: str) -> None:
    spec = {"volumes": [{"name": "c", "configMap": {"name": "late"}}]}
    control_plane.api.create(pod(cluster_namespace, "true", spec=spec))
    text = 'MountVolume.SetUp failed for volume "c" : configmap "late" not found'
    control_plane.wait(
        "Pod", "p", cluster_namespace, lambda _: ("FailedMount", text) in events(control_plane, cluster_namespace)
    )
    make(control_plane, cluster_namespace, "ConfigMap", "late", {"k": "v"})
    assert end_of(control_plane, cluster_namespace)["exitCode"] == 0


def test_evicted_by_its_node(control_plane: Cluster, cluster_namespace: str) -> None:
    control_plane.api.create(pod(cluster_namespace, "sleep", "60"))
    control_plane.wait("Pod", "p", cluster_namespace, lambda p: p["status"].get("phase") == "Running")
    control_plane.kubelet.evict(cluster_namespace, "p", "The node was low on resource: memory. ")
    done = control_plane.wait("Pod", "p", cluster_namespace, lambda p: p["status"].get("phase") == "Failed")
    assert done["status"]["reason"] == "Evicted"
    disruption = next(c for c in done["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert disruption["reason"] == "TerminationByKubelet"


def test_a_lost_node_and_its_return(control_plane: Cluster, cluster_namespace: str) -> None:
    control_plane.api.create(
        pod(cluster_namespace, "sleep", "60", spec={"nodeSelector": {"kubernetes.io/hostname": "node-b"}})
    )
    control_plane.wait("Pod", "p", cluster_namespace, lambda p: p["status"].get("phase") == "Running")
    hand = Hand(control_plane, cluster_namespace)
    hand.node_lost("node-b")
    try:
        lost = control_plane.api.get("Pod", "p", namespace=cluster_namespace)
        assert (lost["status"]["reason"], bool(lost["metadata"].get("deletionTimestamp"))) == ("NodeLost", True)
    finally:
        control_plane.kubelet.return_node("node-b")
    control_plane.wait("Pod", "p", cluster_namespace, lambda p: p is None)


def test_by_hand(control_plane: Cluster, cluster_namespace: str) -> None:
    hand = Hand(control_plane, cluster_namespace)
    control_plane.api.create(pod(cluster_namespace, "true", spec={"restartPolicy": "OnFailure"}))
    (mine,) = hand.pods()

    def state() -> Any:
        return control_plane.api.get("Pod", "p", namespace=cluster_namespace)["status"]["containerStatuses"][0]

    hand.image_error(mine, "no such host")
    assert state()["state"]["waiting"]["message"] == (
        'Back-off pulling image "registry.example/python:1": ErrImagePull: no such host'
    )
    hand.config_error(mine, 'secret "s" not found')
    assert state()["state"]["waiting"]["reason"] == "CreateContainerConfigError"
    hand.running(mine)
    hand.oom_killed(mine, final=False)
    hand.crash_loop(mine)
    assert state()["lastState"]["terminated"]["reason"] == "OOMKilled"
    hand.running(mine)
    assert (state()["restartCount"], state()["ready"]) == (1, True)
    hand.evicted(mine)
    stored = control_plane.api.get("Pod", "p", namespace=cluster_namespace)["status"]
    assert (stored["phase"], stored["reason"]) == ("Failed", "Evicted")
