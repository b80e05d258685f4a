"""DAGs, pipelines, compiled workflows, notebooks and scripts that know v1."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from textwrap import dedent, indent

import pytest
import yaml

from trainer_ops.migrate.report.results import Placed
from trainer_ops.migrate.scan.any import scan
from trainer_ops.migrate.scan.python import scan_python
from trainer_ops.migrate.scan.shell import scan_shell

SOURCES = Path(__file__).parent / "sources"


def found(name: str) -> list[Placed]:
    return list(scan(name, (SOURCES / f"{name}.txt").read_text(encoding="utf-8")))


def codes(placed: list[Placed]) -> list[tuple[int, str]]:
    return [(one.line, one.finding.code) for one in placed]


def arguments(text: str, name: str) -> dict[str, object]:
    """The keywords of the call of that name."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    (call,) = (node for node in calls if ast.unparse(node.func) == name)
    return {word.arg or "": ast.literal_eval(word.value) for word in call.keywords}


class TestAirflow:
    def test_a_dag(self) -> None:
        assert codes(found("dag_create.py")) == [
            (42, "AIRFLOW-WAIT"),
            (49, "API-CALL"),
            (53, "STATUS-READ"),
            (57, "API-CALL"),
            (60, "STATUS-READ"),
            (64, "AIRFLOW-CREATE"),
            (67, "AIRFLOW-WAIT"),
            (68, "AIRFLOW-CREATE"),
            (71, "AIRFLOW-WAIT"),
            (72, "AIRFLOW-POD"),
            (78, "AIRFLOW-POD"),
        ]

    def test_the_job_is_converted_into_the_operator(self) -> None:
        (one,) = [one for one in found("dag_create.py") if one.line == 64]
        given = arguments(one.replacement, "TrainJobOperator")
        assert (given["task_id"], given["namespace"], given["retries"], given["deferrable"]) == (
            "create", "research", 2, True,
        )  # fmt: skip
        text = str(given["manifest"])
        assert 'name: "language-{{ ds_nodash }}"' in text
        # What Airflow fills in makes YAML that means a text.
        job = yaml.safe_load(text.replace("{{ ds_nodash }}", "20260101").replace("{{ ds }}", "2026-01-01"))
        assert job["spec"]["trainer"]["command"] == ["python", "train.py", "--day", "2026-01-01"]
        assert job["spec"]["trainer"]["numNodes"] == 4
        assert {"name": "MASTER_ADDR", "value": "language-20260101-node-0-0.language-20260101"} in job["spec"][
            "trainer"
        ]["env"]

    def test_waits_and_files(self) -> None:
        held = {one.line: one.replacement for one in found("dag_create.py")}
        assert arguments(held[67], "TrainJobSensor") == {
            "task_id": "wait", "name": "language-{{ ds_nodash }}", "timeout": 3600, "deferrable": True,
        }  # fmt: skip
        assert arguments(held[68], "TrainJobOperator")["manifest"] == "jobs/digits-tfjob.yaml"
        assert arguments(held[72], "TrainJobOperator")["manifest"] == "/jobs/mpijob.yaml"
        assert arguments(held[78], "DeleteTrainJobsOperator") == {"task_id": "clean", "name": "language"}

    def test_a_runtime_comes_first(self) -> None:
        (one,) = scan_python(
            dedent("""
            from airflow.providers.cncf.kubernetes.operators.resource import KubernetesCreateResourceOperator
            JOB = dict(
                apiVersion="kubeflow.org/v1", kind="TFJob", metadata={"name": "digits"},
                spec={"tfReplicaSpecs": {"Worker": {"template": {"spec": {"containers": [
                    {"name": "tensorflow", "image": "registry.example/tf:1", "command": ["python", "t.py"]}]}}}}},
            )
            KubernetesCreateResourceOperator(
                task_id="make", yaml_conf=JOB, namespace="ml", kubernetes_conn_id="prod"
            )
        """)
        )
        runtime = arguments(one.replacement, "TrainingRuntimeOperator")
        train = arguments(one.replacement, "TrainJobOperator")
        assert runtime["task_id"] == "make_runtime"
        assert (runtime["conn_id"], train["conn_id"], train["namespace"]) == ("prod", "prod", "ml")
        assert yaml.safe_load(str(runtime["runtime"]))["kind"] == "TrainingRuntime"
        assert one.replacement.rstrip().endswith("runtime >> train")

    def test_what_is_refused_has_no_operator(self) -> None:
        text = (SOURCES / "dag_create.py.txt").read_text().replace("replicas: 3", "replicas: {{ params.workers }}")
        (one,) = [one for one in scan_python(text) if one.line == 64]
        assert one.replacement == ""
        assert "which is refused (PLACEHOLDER" in one.finding.message

    def test_launchers_and_waits_in_pods(self) -> None:
        told = scan_python(
            dedent("""
            from airflow.decorators import task
            from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator as Pod
            Pod(task_id="a", image="registry.example/pytorchjob-launcher:1", arguments=["--name", "x"])
            Pod(task_id="b", image="k", arguments=["kubectl wait tfjob/digits --for=condition=Succeeded"])
            Pod(task_id="c", image="k", arguments=["kubectl get pods"], labels={"of": "tfjobs"})
            Pod(task_id="d", image="python", arguments=["pytorchjob"])

            @task.sensor(poke_interval=30)
            def finished():
                return api.get_namespaced_custom_object("kubeflow.org", "v1", "a", "tfjobs", "x")
        """)
        )
        assert codes(list(told)) == [
            (4, "AIRFLOW-POD"), (5, "AIRFLOW-WAIT"), (6, "AIRFLOW-POD"), (10, "AIRFLOW-WAIT"), (11, "API-CALL"),
        ]  # fmt: skip
        assert arguments(told[1].replacement, "TrainJobSensor")["name"] == "digits"

    def test_a_function_of_a_dag_becomes_an_operator(self) -> None:
        (one,) = scan_python(
            dedent("""
            from airflow.decorators import task
            from kubeflow.training import TrainingClient

            def train(parameters): ...

            @task
            def start():
                TrainingClient().create_job(name="digits", train_func=train, parameters={"a": 1}, num_workers=2)
        """)
        )
        assert "TrainJobOperator(" in one.replacement
        assert "op_kwargs={\"parameters\": {'a': 1}}" in one.replacement


class TestPipelines:
    def test_a_pipeline(self) -> None:
        told = found("pipeline_launcher.py")
        assert codes(told) == [
            (8, "KFP-LAUNCHER"), (11, "KFP-LAUNCHER"), (24, "KFP-LAUNCHER"), (32, "KFP-LAUNCHER"), (34, "KFP-RESOURCE"),
            (43, "STATUS-READ"),
        ]  # fmt: skip
        ast.parse(told[2].replacement)
        assert 'target=f"kubernetes://in-cluster/{namespace}"' in told[2].replacement
        # delete_after_done=False: nothing is cleaned up.
        assert "cleanup_train_jobs" not in told[2].replacement
        assert told[2].converted is not None
        job = told[2].converted.trainjob
        assert job is not None
        assert job["spec"]["activeDeadlineSeconds"] == 7200
        assert job["spec"]["trainer"]["numNodes"] == 3

    def test_the_tf_launcher_and_its_spelling(self) -> None:
        container = {"name": "tensorflow", "image": "registry.example/tf:1", "command": ["python", "t.py"]}
        role = json.dumps({"template": {"spec": {"containers": [container]}}})
        words = ["--name", "digits", "--workerSpec", role, "--activeDeadlineSeconds=-1"]
        image = "liuhougangxa/kubeflow-tfjob-launcher:latest"
        (one,) = scan_python(f"from kfp import dsl\ndsl.ContainerOp(name='t', image={image!r}, arguments={words!r})\n")
        assert one.converted is not None
        assert one.converted.ok
        assert one.converted.raw["spec"].keys() == {"tfReplicaSpecs"}
        assert "cleanup_train_jobs" in one.replacement

    @pytest.mark.parametrize("where", ["components/kubeflow/katib-launcher/component.yaml", "katib_launcher.yaml"])
    def test_launchers_of_other_things(self, where: str) -> None:
        load = f"kfp.components.load_component_from_url('https://x/{where}')"
        assert scan_python(f"import kfp\n# for a PyTorchJob\nop = {load}\n") == ()

    def test_a_compiled_workflow(self) -> None:
        (one,) = found("workflow.yaml")
        assert (one.line, one.finding.code) == (10, "KFP-LAUNCHER")
        job = yaml.safe_load(one.replacement)
        assert job["metadata"] == {"name": "language", "namespace": "research"}
        assert job["spec"]["activeDeadlineSeconds"] == 3600

    @pytest.mark.parametrize("text", ["image: pytorchjob-launcher\n\t- x", "image: [pytorchjob-launcher", "{{ a }}"])
    def test_what_is_no_yaml(self, text: str) -> None:
        assert scan("a.yaml", text) == ()


_JOBSET = "jobset.sigs.k8s.io/jobset"
_REPLICATED = "jobset.sigs.k8s.io/replicatedjob-name"
_INDEX = "batch.kubernetes.io/job-completion-index"
LINES = {
    "apply": ("kubectl apply -f pytorchjob.yaml", "trainer-ops run -f pytorchjob.yaml"),
    "logs": ("kubectl logs tfjob/digits", "trainer-ops logs digits -f"),
    "describe": ("oc describe mpijobs sim -n ml", "trainer-ops status sim --target kubernetes:///ml"),
    "all of a kind": ("kubectl get pytorchjobs", "trainer-ops list"),
    "in an expression": ("STATE=$(kubectl get jaxjob $NAME -o json | jq .)", 'trainer-ops status "$NAME"'),
    "full name": ("kubectl delete xgboostjobs.v1.kubeflow.org trees", "trainer-ops cancel trees"),
    "a word of GitHub's": ("kubectl delete tfjob ${{ env.JOB }} || true", 'trainer-ops cancel "${{env.JOB}}"'),
    "a word of Jinja's": ("kubectl delete tfjob/{{ ds }}", "trainer-ops cancel '{{ds}}'"),
    "another verb": ("kubectl annotate tfjob x a=b", "kubectl … trainjobs.trainer.kubeflow.org"),
}


class TestShell:
    def test_a_script(self) -> None:
        told = found("submit.sh")
        assert [(one.line, one.finding.code, one.replacement.split("\n")[0]) for one in told][:4] == [
            (5, "KUBECTL", "trainer-ops wait language --target kubernetes:///research"),
            (7, "LABEL-SELECTOR", f"{_JOBSET}-name=language,{_REPLICATED}=node,{_INDEX}=0"),
            (8, "KUBECTL", "trainer-ops list"),
            (9, "KUBECTL", 'trainer-ops cancel "$OLD"'),
        ]
        assert (told[4].line, told[4].finding.code) == (11, "JOB-IN-CODE")
        runtime, job = yaml.safe_load_all(told[4].replacement)
        assert runtime["metadata"]["name"] == "digits-${RUN}-tensorflow"
        assert job["spec"]["trainer"]["command"][-1] == "--run=${RUN}"

    @pytest.mark.parametrize(("line", "instead"), LINES.values(), ids=LINES.keys())
    def test_a_line(self, line: str, instead: str) -> None:
        (one,) = scan_shell(line)
        assert one.replacement == f"{instead}\n"

    @pytest.mark.parametrize(
        "line",
        ["# kubectl get pytorchjobs", "echo pytorchjob", "kubectl get pods pytorchjob-x", "mykubectl get tfjobs"],
    )
    def test_none(self, line: str) -> None:
        assert scan_shell(line) == ()

    def test_a_job_that_something_in_a_here_document_carries(self) -> None:
        job = "apiVersion: kubeflow.org/v1\nkind: JAXJob\nspec:\n  jaxReplicaSpecs:\n    Worker:\n      template:\n"
        job += "        spec: {containers: [{name: jax, image: a/b:v1, args: [--day={{workflow.name}}]}]}\n"
        argo = "kind: Workflow\nspec:\n  templates:\n  - resource:\n      manifest: |\n" + indent(job, " " * 8)
        katib = "kind: Experiment\nspec:\n  trialTemplate:\n    trialSpec:\n" + indent(job, " " * 6)
        for text in (argo, katib):
            (one,) = scan_shell(f"kubectl create -f - <<EOF\n{text}EOF\n")
            assert (one.line, one.finding.code) == (2, "JOB-IN-CODE")
            made = list(yaml.safe_load_all(one.replacement))[-1]
            assert made["metadata"] == {"generateName": "train-"}
            assert made["spec"]["trainer"]["args"] == ["--day={{workflow.name}}"]

    def test_a_workflow_of_a_ci_system(self) -> None:
        text = "jobs:\n  train:\n    steps:\n      - run: |\n          kubectl delete pytorchjob digits\n"
        assert codes(list(scan(".github/workflows/train.yaml", text))) == [(5, "KUBECTL")]


class TestNotebooks:
    def test_cells(self) -> None:
        told = found("train.ipynb")
        assert [(one.document, one.line, one.finding.code) for one in told] == [
            (2, 1, "SDK-CALL"), (4, 2, "KUBECTL"), (5, 2, "KUBECTL"),
        ]  # fmt: skip
        assert told[0].finding.message.endswith("(cell 2)")
        assert 'runtime="torch-distributed"' in told[0].replacement

    @pytest.mark.parametrize("text", ["pytorchjobs", '{"cells": 1, "a": "pytorchjobs"}', '["pytorchjobs"]'])
    def test_no_notebook(self, text: str) -> None:
        (one,) = scan("a.ipynb", text)
        assert (one.finding.code, one.finding.severity) == ("UNREADABLE", "warning")

    def test_an_empty_one(self) -> None:
        assert scan("a.ipynb", json.dumps({"cells": [], "metadata": {"of": "pytorchjobs"}})) == ()
