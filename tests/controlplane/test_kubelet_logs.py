"""Container logs through the API server, as a kubelet of 1.36 serves them."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest

from tests.controlplane.api import ApiError, path_of
from tests.controlplane.fixtures import Cluster
from tests.controlplane.plane import wait_until

pytestmark = pytest.mark.cluster


def pod(namespace: str, script: str, *, policy: str = "Never", **more: Any) -> dict[str, Any]:
    container = {"name": "node", "image": "registry.example/python:1", "command": ["sh", "-c", script], **more}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 1, "containers": [container]},
    }


def in_phase(cluster: Cluster, namespace: str, phase: str) -> Any:
    return cluster.wait("Pod", "p", namespace, lambda p: p["status"].get("phase") == phase)


def log(cluster: Cluster, namespace: str, query: str = "") -> str:
    return str(cluster.api.call("GET", path_of("Pod", namespace, "p", f"log?{query}")))


def test_all_of_it_and_parts_of_it(control_plane: Cluster, cluster_namespace: str) -> None:
    control_plane.api.create(pod(cluster_namespace, "echo one; echo two >&2; printf three"))
    in_phase(control_plane, cluster_namespace, "Succeeded")

    def read(query: str = "") -> str:
        return log(control_plane, cluster_namespace, query)

    assert read() == "one\ntwo\nthree\n"
    assert read("tailLines=1") == "three\n"
    assert read("tailLines=0") == ""
    assert read("limitBytes=5") == "one\nt"
    assert read("sinceSeconds=3600") == read()
    assert read("sinceTime=2100-01-01T00:00:00Z") == ""
    assert read("follow=true") == read()
    stamped = read("timestamps=true").splitlines()
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (one|two|three)", line) for line in stamped)


def test_followed_to_the_end_of_the_run(control_plane: Cluster, cluster_namespace: str) -> None:
    script = "echo first; while [ ! -e /claim/go ]; do sleep 0.05; done; echo last"
    manifest = pod(cluster_namespace, script, volumeMounts=[{"name": "c", "mountPath": "/claim"}])
    manifest["spec"]["volumes"] = [{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}]
    control_plane.api.create(claim(cluster_namespace, "c"))
    control_plane.api.create(manifest)
    in_phase(control_plane, cluster_namespace, "Running")
    path = path_of("Pod", cluster_namespace, "p", "log?follow=true")
    connection, answer = control_plane.api.stream(path, timeout=60)
    try:
        assert answer.readline() == b"first\n"
        threading.Thread(target=(control_plane.kubelet.claim(cluster_namespace, "c") / "go").touch).start()
        assert answer.read() == b"last\n"
    finally:
        connection.close()


def claim(namespace: str, name: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def test_the_run_before_is_kept_while_the_next_runs(control_plane: Cluster, cluster_namespace: str) -> None:
    script = (
        "n=$(cat /claim/n 2>/dev/null || echo 0); echo $((n+1)) > /claim/n; echo run $n; [ $n = 1 ] && sleep 60; exit 3"
    )
    manifest = pod(cluster_namespace, script, policy="OnFailure", volumeMounts=[{"name": "c", "mountPath": "/claim"}])
    manifest["spec"]["volumes"] = [{"name": "c", "emptyDir": {}}]
    control_plane.api.create(manifest)

    def second(obj: Any) -> bool:
        status = (obj["status"].get("containerStatuses") or [{}])[0]
        return status.get("restartCount") == 1 and "running" in status["state"]

    control_plane.wait("Pod", "p", cluster_namespace, second)
    assert log(control_plane, cluster_namespace, "previous=true") == "run 0\n"
    wait_until("it prints", lambda: log(control_plane, cluster_namespace) == "run 1\n")
    control_plane.kubelet.oom(cluster_namespace, "p")

    def ended(obj: Any) -> bool:
        return "terminated" in obj["status"]["containerStatuses"][0]["state"]

    control_plane.wait("Pod", "p", cluster_namespace, ended)
    collected = log(control_plane, cluster_namespace, "previous=true")
    assert collected.startswith("unable to retrieve container logs for containerd://")


def refused(cluster: Cluster, namespace: str, query: str = "") -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        log(cluster, namespace, query)
    return caught.value.status, caught.value.body


WAITING: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "ContainerCreating": ({"volumes": [{"name": "c", "configMap": {"name": "absent"}}]}, {}, "ContainerCreating"),
    "image": ({}, {"image": "absent.example/a:1"}, "trying and failing to pull image"),
    "config": (
        {},
        {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "k"}}}]},
        "CreateContainerConfigError",
    ),
    "image name": ({}, {"image": "example.com/UPPER:1"}, "InvalidImageName"),
}


@pytest.mark.parametrize("case", WAITING)
def test_a_container_that_waits_has_no_log_and_says_why(
    case: str, control_plane: Cluster, cluster_namespace: str
) -> None:
    spec, container, words = WAITING[case]
    manifest = pod(cluster_namespace, "true", **container)
    manifest["spec"].update(spec)
    control_plane.api.create(manifest)
    reason = {"image": "ImagePullBackOff"}.get(case, words)

    def waits(obj: Any) -> bool:
        states = [c["state"].get("waiting", {}).get("reason") for c in obj["status"].get("containerStatuses") or ()]
        return states == [reason]

    control_plane.wait("Pod", "p", cluster_namespace, waits)
    status, body = refused(control_plane, cluster_namespace)
    assert status == 400
    assert f'container \\"node\\" in pod \\"p\\" is waiting to start: {words}' in body


def test_no_node_no_log_and_no_error(control_plane: Cluster, cluster_namespace: str) -> None:
    big: dict[str, Any] = {"resources": {"requests": {"cpu": "1000"}}}
    control_plane.api.create(pod(cluster_namespace, "true", **big))
    control_plane.wait("Pod", "p", cluster_namespace, lambda p: p["status"].get("conditions"))
    assert log(control_plane, cluster_namespace) == ""


def test_no_earlier_run_no_container_no_pod(control_plane: Cluster, cluster_namespace: str) -> None:
    control_plane.api.create(pod(cluster_namespace, "sleep 60"))
    in_phase(control_plane, cluster_namespace, "Running")
    status, body = refused(control_plane, cluster_namespace, "previous=true")
    assert (status, 'previous terminated container \\"node\\" in pod \\"p\\" not found' in body) == (400, True)
    assert refused(control_plane, cluster_namespace, "container=other")[0] == 400
    control_plane.api.delete("Pod", "p", namespace=cluster_namespace)
    control_plane.wait("Pod", "p", cluster_namespace, lambda p: p is None)
    assert refused(control_plane, cluster_namespace)[0] == 404
