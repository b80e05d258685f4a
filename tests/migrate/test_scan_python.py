"""Python that uses the v1 SDK and the Kubernetes API: where, what it does, and what does the same here."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan.any import scan, wants
from trainer_ops.migrate.scan.python import scan_python

SOURCES = Path(__file__).parent / "sources"


def found(name: str) -> list[Placed]:
    return list(scan(name, (SOURCES / f"{name}.txt").read_text(encoding="utf-8")))


def told(text: str) -> list[Placed]:
    return list(scan_python(dedent(text)))


def told_codes(text: str) -> list[tuple[int, str]]:
    return [(one.line, one.finding.code) for one in told(text)]


def test_a_module_of_the_sdk() -> None:
    lines = [(one.line, one.finding.code, one.finding.message.split(",")[0]) for one in found("sdk_job.py")]
    assert lines == [
        (32, "SDK-MODEL", "a PyTorchJob made of the SDK's classes"),
        (43, "SDK-CALL", "creates a v1 job"),
        (44, "SDK-CALL", "ships a function to the workers of a v1 job"),
        (55, "SDK-CALL", "waits for conditions of a v1 job"),
        (56, "SDK-CALL", "reads conditions of a v1 job"),
        (57, "SDK-CALL", "reads logs of v1's pods"),
        (58, "SDK-CALL", "looks for v1's pods by their role"),
        (59, "SDK-CALL", "deletes a v1 job"),
        (61, "SDK-CALL", "lists v1 jobs"),
        (61, "SDK-CALL", "reads a v1 job"),
        (61, "SDK-CALL", "changes a v1 job; what a TrainJob trains cannot be changed"),
    ]


def test_replacements_are_python_with_the_names_filled_in() -> None:
    model, _, shipped, waited, *_ = found("sdk_job.py")
    job = yaml.safe_load(model.replacement)
    assert job["metadata"] == {"name": "digits", "namespace": "research"}
    assert job["spec"]["trainer"]["numNodes"] == 2
    assert job["spec"]["trainer"]["env"][0] == {"name": "RATE", "value": "0.1"}
    call = ast.parse(shipped.replacement).body[0]
    assert isinstance(call, ast.Assign)
    assert isinstance(call.value, ast.Call)
    given = {word.arg: ast.unparse(word.value) for word in call.value.keywords}
    assert given == {
        "python_callable": "train",
        "python_kwargs": "{'settings': {'rate': 0.1}}",  # v1 gave all parameters as the first argument
        "runtime": "'torch-distributed'",
        "name": "'from-function'",
        "num_nodes": "3",
        "num_proc_per_node": "2",
        "image": "IMAGE",
        "resources_per_node": "{'cpu': 2, 'nvidia.com/gpu': 1}",
        "packages": "['scikit-learn']",
        "env": "{'LOG': 'debug'}",
    }
    assert waited.replacement.startswith(
        "outcome = trainer_ops.wait(NAME, limits=trainer_ops.Limits(wait_timeout=1200))"
    )


CALLS = {
    "positional": (
        "api.create_namespaced_custom_object('kubeflow.org', 'v1', 'ns', 'pytorchjobs', body)",
        "trainer_ops.submit(manifest=trainjob)",
    ),
    "by name": (
        "api.delete_namespaced_custom_object(group='kubeflow.org', version='v1', namespace=a, plural='tfjobs', name=n)",
        "trainer_ops.cancel(n)",
    ),
    "constants": (
        "G, P = 1, 2\nGROUP = 'kubeflow.org'\nPL = 'mpijobs'\napi.list_cluster_custom_object(GROUP, 'v2beta1', PL)",
        "trainer-ops list",
    ),
    "options in a dict": (
        "W = {'group': 'kubeflow.org', 'plural': 'jaxjobs'}\napi.get_namespaced_custom_object(name='b', **W)",
        "trainer_ops.wait('b')",
    ),
    "dynamic client": ("dyn.resources.get(api_version='kubeflow.org/v1', kind='PyTorchJob')", "trainer_ops.wait"),
    "watch": ("w.stream(api.x, 'kubeflow.org', 'v1', 'a', 'paddlejobs')", "trainer_ops.wait"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "instead"), CALLS.values(), ids=CALLS.keys())
def test_calls_of_the_api(text: str, instead: str) -> None:
    (one,) = told(text)
    assert one.finding.code == "API-CALL"
    assert instead in one.replacement


SILENT = {
    "another group": "api.get_namespaced_custom_object('example.com', 'v1', 'ns', 'pytorchjobs', 'x')",
    "a word in a text": "print('pytorchjobs are gone')",
    "v2": "from kubeflow.trainer import TrainerClient\nTrainerClient().get_job('a')  # not pytorchjobs",
    "a pod's phase": "PLURAL = 'pytorchjobs'\nif pod.status.phase == 'Succeeded':\n    pass",
    "another TrainingClient": "from ours import TrainingClient\nTrainingClient().create_job('pytorchjob')",
    "a comment": "x = 1  # PyTorchJob",
    "a docstring of a selector": '"""Pods have training.kubeflow.org/job-name"""',
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT.keys())
def test_what_is_none_of_it(text: str) -> None:
    assert told(text) == []


def test_a_body_that_is_seen_is_converted() -> None:
    (one,) = told("""
        from kubernetes import client

        def submit(name, image):
            body = {
                "apiVersion": "kubeflow.org/v1",
                "kind": "PyTorchJob",
                "metadata": {"name": name},
                "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": [
                    {"name": "pytorch", "image": f"{image}:1", "command": ["torchrun", "train.py"]}]}}}}},
            }
            client.CustomObjectsApi().create_namespaced_custom_object("kubeflow.org", "v1", "a", "pytorchjobs", body)
    """)
    assert one.finding.code == "API-CALL"
    assert one.converted is not None
    assert one.converted.ok
    _, _, text = one.replacement.partition("\n")
    job = yaml.safe_load(text)
    assert job["metadata"]["name"] == "<name>"
    assert job["spec"]["trainer"]["image"] == "<image>:1"


EMBEDDED = '''
JOB = f"""
apiVersion: kubeflow.org/v1
kind: {kind}
---
# another
apiVersion: kubeflow.org/v1
kind: JAXJob
metadata: {{name: "spmd-{run}"}}
spec:
  jaxReplicaSpecs:
    Worker:
      replicas: {nodes}
      template:
        spec:
          containers:
            - name: jax
              image: registry.example/spmd:1
              command: [python, "train.py", "--note={note}"]
"""
'''


def test_holes_of_a_text_are_carried() -> None:
    (one,) = told(EMBEDDED)
    assert (one.finding.code, one.line) == ("JOB-IN-CODE", 7)
    assert 'name: "spmd-<run>"' in one.replacement
    assert '- "--note=<note>"' in one.replacement
    # WORLD_SIZE and the like would have to be calculated with what only running tells.
    assert one.converted is not None
    assert one.converted.raw["spec"]["jaxReplicaSpecs"]["Worker"]["replicas"] == "<nodes>"


def test_a_text_that_is_refused_says_why() -> None:
    text = EMBEDDED.replace("{nodes}", "-1").replace("{kind}", "ConfigMap")
    (one,) = told(text)
    assert one.replacement == ""
    assert "which is refused (" in one.finding.message
    assert one.finding.severity == "info"


def test_status_and_labels() -> None:
    text = """
        PLURAL = "pytorchjobs"
        done = any(c["type"] == "Succeeded" for c in conditions)
        last = job.status.conditions[-1].type in ("Succeeded", "Failed")
        ready = status["replicaStatuses"]["Worker"]
        pods = core.list_namespaced_pod("a", label_selector=f"training.kubeflow.org/job-name={name},training.kubeflow.org/job-role=master")
    """  # noqa: E501
    assert told_codes(text) == [(3, "STATUS-READ"), (4, "STATUS-READ"), (5, "STATUS-READ"), (6, "LABEL-SELECTOR")]
    selector = told(text)[-1].replacement
    assert selector == (
        "jobset.sigs.k8s.io/jobset-name=<name>,"
        "jobset.sigs.k8s.io/replicatedjob-name=node,batch.kubernetes.io/job-completion-index=0"
    )


def test_conditions_of_argo_and_names_that_are_given_together() -> None:
    text = """
        GROUP, (VERSION, PLURAL) = "kubeflow.org", ("v1", "pytorchjobs")
        KIND, OTHER = pair
        Resource(name="r", success_condition="status.replicaStatuses.Worker.succeeded > 0")
        client.CustomObjectsApi().delete_namespaced_custom_object(GROUP, "v1", "x", PLURAL, "a")
        g, p = "kubeflow.org", "tfjobs"
        client.CustomObjectsApi().get_namespaced_custom_object(g, "v1", "x", p, "a")
    """
    assert told_codes(text) == [(4, "STATUS-READ"), (7, "API-CALL")]


def test_older_sdks_and_other_ways_to_hold_a_client() -> None:
    text = """
        from kubeflow.pytorchjob import PyTorchJobClient
        from kubeflow import training
        import kubeflow.training as kt

        class Runner:
            def __init__(self):
                self.client = training.TrainingClient()

            def run(self, other: kt.TrainingClient):
                self.client.create_pytorchjob(job)
                other.wait_for_job_conditions(name="a")

        PyTorchJobClient().create(job)
        kt.TrainingClient().get_job_logs("x", follow=True)
    """
    assert told_codes(text) == [(11, "SDK-CALL"), (12, "SDK-CALL"), (14, "SDK-CALL"), (15, "SDK-CALL")]


def test_fine_tuning() -> None:
    (one,) = told("""
        from kubeflow.training import TrainingClient
        from kubeflow.storage_initializer.hugging_face import HuggingFaceModelParams
        TrainingClient().train(
            name="tune", num_workers=2,
            model_provider_parameters={"modelUri": "hf://google-bert/bert-base-cased"},
        )
    """)
    assert one.finding.code == "SDK-TRAIN"
    assert 'model="hf://google-bert/bert-base-cased"' in one.replacement
    assert "num_nodes=2" in one.replacement


@pytest.mark.parametrize(
    ("text", "line"),
    [("print 'pytorchjobs'\n", 1), ("x = 'pytorchjobs'\ny = (\n", 2), ("pytorchjobs\0", 1)],
    ids=["Python 2", "cut off", "null byte"],
)
def test_what_is_no_python(text: str, line: int) -> None:
    (one,) = scan_python(text)
    assert (one.finding.code, one.finding.severity, one.line) == ("UNREADABLE", "warning", line)


def test_deep_and_odd_python_does_no_harm() -> None:
    deep = "x = 'pytorchjobs'\ny = " + "(" * 150 + "1" + ")" * 150 + "\nz = " + "+".join(["1"] * 3000)
    assert [one.finding.code for one in scan_python(deep)] in ([], ["UNREADABLE"])
    endless = "f('pytorchjobs', " + "+".join(["'a'"] * 3000) + ")"
    assert [one.finding.code for one in scan_python(endless)] in ([], ["UNREADABLE"])
    loops = "a = b\nb = a\nf(a, 'kubeflow.org', 'pytorchjobs')\nself.x = self.x\nc = c.e()\nc.d('kubeflow.org/v1')"
    assert [one.finding.code for one in scan_python(loops)] == ["API-CALL"]


@pytest.mark.parametrize("name", ["a.py", "x/b.ipynb", "run.sh", "Makefile", "Dockerfile.gpu", "ci.yaml"])
def test_files_that_are_looked_into(name: str) -> None:
    assert wants(name)


@pytest.mark.parametrize("name", ["a.txt", "py", "b.pyc", "Makefiles", ".py.swp"])
def test_files_that_are_not(name: str) -> None:
    assert not wants(name)
    assert scan(name, "kubectl get pytorchjobs") == ()
