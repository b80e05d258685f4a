"""Jobs inside other things: found, converted in their place, with what around them knows their kind."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest
import yaml

from tests.migrate.checked import paths_exist
from trainer_ops.migrate.files import Migrated, migrate, read_source
from trainer_ops.migrate.options import Options

JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: digits
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: pytorch
            image: a/b:v1
            command: [torchrun, train.py]
            resources: {requests: {cpu: 1}}
"""
PARAMETERS = JOB.replace("digits", "train-{{workflow.name}}").replace(": 2", ": {{inputs.parameters.nodes}}")
NAMELESS = JOB.replace("metadata:\n  name: digits\n", "")


def indented(text: str, columns: int) -> str:
    return textwrap.indent(text, " " * columns)


def done(text: str, name: str = "job.yaml", **options: Any) -> Migrated:
    return migrate([read_source(name, text.encode())], Options(**options))[0]


def codes(made: Migrated, severity: str = "") -> list[str]:
    return [one.code for job in made.result.jobs for one in job.converted.findings if severity in ("", one.severity)]


KATIB = f"""\
apiVersion: kubeflow.org/v1beta1
kind: Experiment
metadata: {{name: tune}} # keep   this
spec:
  trialTemplate:
    primaryContainerName: pytorch # main
    primaryPodLabels:
      training.kubeflow.org/job-role: master
    successCondition: status.conditions.#(type=="Succeeded")#|#(status=="True")#
    trialSpec:
{indented(NAMELESS, 6)}    trialParameters: []
  maxTrialCount:   3
"""


class TestKatib:
    def test_the_trial_and_what_knows_its_kind(self) -> None:
        made = done(KATIB)
        template = yaml.safe_load(made.text)["spec"]["trialTemplate"]
        assert template["trialSpec"]["kind"] == "TrainJob"
        assert "metadata" not in template["trialSpec"]
        assert template["primaryContainerName"] == "node"
        assert template["primaryPodLabels"] == {
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "batch.kubernetes.io/job-completion-index": "0",
        }
        assert template["successCondition"] == 'status.conditions.#(type=="Complete")#|#(status=="True")#'
        assert template["failureCondition"] == 'status.conditions.#(type=="Failed")#|#(status=="True")#'
        assert codes(made).count("WRAPPER-COND") == 4
        assert "GENERATE-NAME" not in codes(made)

    def test_the_rest_is_as_it_was(self) -> None:
        made = done(KATIB).text
        assert made.startswith(KATIB[: KATIB.index("    primaryContainerName")])
        assert "    primaryContainerName: node # main\n" in made
        assert made.endswith("    trialParameters: []\n  maxTrialCount:   3\n")

    def test_a_runtime_stands_before_the_experiment(self) -> None:
        made = done(KATIB, runtime="generate")
        runtime, experiment = yaml.safe_load_all(made.text)
        assert runtime["kind"] == "TrainingRuntime"
        spec = experiment["spec"]["trialTemplate"]["trialSpec"]["spec"]
        assert spec["runtimeRef"]["name"] == runtime["metadata"]["name"] == "tune-torch"
        told = [one for one in made.result.jobs[0].converted.findings if one.code == "WRAPPER"]
        assert told[0].message == "it stands in Katib Experiment tune; apply the runtime tune-torch before it"

    def test_again_changes_nothing(self) -> None:
        made = done(KATIB).text
        assert done(made).text == made

    def test_placeholders_of_katib_stay(self) -> None:
        text = KATIB.replace("train.py]", 'train.py, "--lr=${trialParameters.lr}"]')
        assert "--lr=${trialParameters.lr}" in done(text).text

    def test_in_json(self) -> None:
        made = done(json.dumps(yaml.safe_load(KATIB), indent=2), "e.json", runtime="generate")
        runtime, experiment = json.loads(made.text)["items"]
        assert runtime["kind"] == "TrainingRuntime"
        assert experiment["spec"]["trialTemplate"]["trialSpec"]["kind"] == "TrainJob"
        assert experiment["spec"]["trialTemplate"]["primaryContainerName"] == "node"


ARGO = f"""\
apiVersion: argoproj.io/v1alpha1
kind: WorkflowTemplate
metadata: {{name: flow}}
spec:
  templates:
  - name: train
    inputs: {{parameters: [{{name: nodes}}]}}
    resource:
      action: create
      successCondition: status.replicaStatuses.Worker.succeeded > 1
      failureCondition: status.replicaStatuses.Worker.failed > 0
      manifest: | # the job
{indented(PARAMETERS, 8)}\
  - name: other
"""


TF = "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: digits}\nspec:\n  tfReplicaSpecs:\n" + "".join(
    f"    {role}: {{template: {{spec: {{containers: [{{name: tensorflow, image: a/b:v1, args: [{role}]}}]}}}}}}\n"
    for role in ("Chief", "PS", "Worker")
)


class TestArgo:
    def test_the_manifest_and_its_conditions(self) -> None:
        made = done(ARGO, allow_placeholders=True)
        resource = yaml.safe_load(made.text)["spec"]["templates"][0]["resource"]
        assert resource["successCondition"] == "status.jobsStatus.0.succeeded > 0"
        assert resource["failureCondition"] == "status.jobsStatus.0.failed > 0"
        assert "kind: TrainJob\n" in resource["manifest"]
        assert "name: train-{{workflow.name}}\n" in resource["manifest"]
        assert "numNodes: {{inputs.parameters.nodes}}\n" in resource["manifest"]
        assert codes(made, "warning").count("WRAPPER-COND") == 2
        assert made.text.endswith("  - name: other\n")
        assert done(made.text).text == made.text

    def test_the_replicated_job_that_decides_is_found_where_jobset_puts_it(self) -> None:
        """JobSet sorts its replicatedJobsStatus by name, from z to a: ps, node, chief."""
        text = ARGO.replace(indented(PARAMETERS, 8), indented(TF, 8))
        made = done(text, allow_placeholders=True)
        runtime, workflow = yaml.safe_load_all(made.text)
        names = [one["name"] for one in runtime["spec"]["template"]["spec"]["replicatedJobs"]]
        assert names == ["node", "chief", "ps"]
        resource = workflow["spec"]["templates"][0]["resource"]
        assert resource["successCondition"] == "status.jobsStatus.2.succeeded > 0"
        # Whichever fails: each condition counts alone.
        failed = [f"status.jobsStatus.{i}.failed > 0" for i in range(3)]
        assert resource["failureCondition"].split(", ") == failed

    @pytest.mark.parametrize("action", ["get", "patch", "delete"])
    def test_of_a_job_that_something_else_makes_the_manifest_is_no_job(self, action: str) -> None:
        name = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: {suspend: true}\n"
        text = ARGO.replace(indented(PARAMETERS, 8), indented(name, 8)).replace("action: create", f"action: {action}")
        # Also beside a script that holds a job, which the scanner tells.
        text += "  - script:\n      source: |\n" + indented(f"kubectl apply -f - <<EOF\n{JOB}EOF\n", 8)
        made = done(text)
        assert made.result.jobs == ()
        (told,) = (placed for placed in made.result.findings if placed.finding.code == "WRAPPER")
        assert told.finding.severity == "refused"
        assert f"Argo WorkflowTemplate flow, template train: {action} is of a job" in told.finding.message
        assert text.split("\n")[told.line - 1].strip() == "apiVersion: kubeflow.org/v1"
        assert made.text == text

    def test_a_number_that_is_not_known_is_refused_without_the_flag(self) -> None:
        made = done(ARGO)
        assert made.text == ARGO
        told = next(one for one in made.result.jobs[0].converted.findings if one.severity == "refused")
        assert told.code == "PLACEHOLDER"
        assert "{{inputs.parameters.nodes}}" in told.message

    def test_the_line_is_the_file_s(self) -> None:
        (job,) = done(ARGO, allow_placeholders=True).result.jobs
        assert ARGO.split("\n")[job.line - 1].strip() == "apiVersion: kubeflow.org/v1"
        assert (job.wrapper, job.within) == ("Argo WorkflowTemplate", "Argo WorkflowTemplate flow, template train")

    def test_a_runtime_is_applied_once_before(self) -> None:
        text = ARGO.replace("a/b:v1", '"{{workflow.parameters.image}}"')
        made = done(text, runtime="generate", allow_placeholders=True)
        runtime, workflow = yaml.safe_load_all(made.text)
        assert "{{" not in json.dumps(runtime)
        assert "TRAINER_OPS" not in made.text
        assert "trainerops" not in made.text
        manifest = workflow["spec"]["templates"][0]["resource"]["manifest"]
        assert f"name: {runtime['metadata']['name']}\n" in manifest
        assert 'image: "{{workflow.parameters.image}}"\n' in manifest

    def test_labels_that_argo_fills_in_are_the_trainjob_s(self) -> None:
        """Argo's own example: the label by which argo logs finds the pods is not known when the runtime is applied."""
        label = 'metadata: {labels: {keep: x, workflow: "{{workflow.name}}"}}, spec: {nodeSelector: {a: "{{b}}"}, '
        text = ARGO.replace(
            indented(PARAMETERS, 8), indented(TF.replace("template: {spec: {", f"template: {{{label}"), 8)
        )
        made = done(text)
        runtime, workflow = yaml.safe_load_all(made.text)
        assert "{{" not in json.dumps(runtime)
        assert json.dumps(runtime).count('{"keep": "x"}') == 3
        job = yaml.safe_load(workflow["spec"]["templates"][0]["resource"]["manifest"])
        (patch,) = job["spec"]["runtimePatches"]
        patched = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        assert [one["name"] for one in patched] == ["node", "chief", "ps"]
        for one in patched:
            assert one["template"]["spec"]["template"] == {
                "metadata": {"labels": {"workflow": "{{workflow.name}}"}},
                "spec": {"nodeSelector": {"a": "{{b}}"}},
            }
        paths_exist(made.result.jobs[0].converted)
        alone = yaml.safe_load_all(done(text.replace("keep: x, ", "")).text)
        assert (
            "metadata"
            not in next(iter(alone))["spec"]["template"]["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]
        )

    def test_a_runtime_that_hangs_on_a_parameter_is_refused(self) -> None:
        text = ARGO.replace(
            "          spec:\n", "          spec:\n                  nodeName: '{{workflow.name}}'\n", 1
        )
        text = ARGO.replace(
            "                  containers:",
            "                  nodeName: '{{workflow.parameters.host}}'\n                  containers:",
        )
        made = done(text, allow_placeholders=True)
        assert "TEMPLATE" in codes(made, "refused")
        assert made.text == text


class TestKatibTemplates:
    """Katib's trial templates in a ConfigMap: jobs without metadata, which Katib writes."""

    TEXT = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm\n"
        "  labels: {katib.kubeflow.org/component: trial-templates}\ndata:\n"
        f"  more:   x\n  torch: |\n{indented(NAMELESS, 4)}"
    )

    @pytest.mark.parametrize("runtime", ["auto", "generate"])
    def test_a_template(self, runtime: str) -> None:
        text = self.TEXT.replace("train.py]", 'train.py, "--lr=${trialParameters.lr}"]')
        made = done(text, runtime=runtime)
        *before, config = yaml.safe_load_all(made.text)
        template = yaml.safe_load(config["data"]["torch"])
        assert template["kind"] == "TrainJob"
        assert "metadata" not in template
        assert template["spec"]["trainer"]["command"][-1] == "--lr=${trialParameters.lr}"
        # A template is one object, so a runtime stands before the ConfigMap.
        assert [one["metadata"]["name"] for one in before] == (["trial-torch"] if runtime == "generate" else [])
        assert "  more:   x\n" in made.text
        assert done(made.text).text == made.text

    def test_each_of_two_templates_has_its_own_runtime(self) -> None:
        """Both are called trial: the runtime that has to be applied is told by the name that it has in the end."""
        other = NAMELESS.replace("a/b:v1", "a/b:v1\n            workingDir: /w")
        made = done(f"{self.TEXT}  other: |\n{indented(other, 4)}", runtime="generate")
        *runtimes, config = yaml.safe_load_all(made.text)
        names = [one["metadata"]["name"] for one in runtimes]
        assert len(set(names)) == 2
        used = [yaml.safe_load(config["data"][key])["spec"]["runtimeRef"]["name"] for key in ("torch", "other")]
        assert sorted(used) == sorted(names)
        told = [one.message for job in made.result.jobs for one in job.converted.findings if one.code == "WRAPPER"]
        assert [message.partition("the runtime ")[2].partition(" ")[0] for message in told] == used

    def test_what_experiments_have_to_say_now(self) -> None:
        (told,) = (one for one in done(self.TEXT).result.jobs[0].converted.findings if one.code == "WRAPPER-COND")
        assert told.severity == "warning"
        assert 'primaryContainerName "node", primaryPodLabels {"jobset.sigs.k8s.io/replicatedjob-name"' in told.message

    def test_without_the_label_it_is_a_job_without_a_name(self) -> None:
        made = done(self.TEXT.replace("katib.kubeflow.org/component", "app"))
        assert codes(made, "refused") == ["NOT-A-JOB"]


APP_WRAPPER = (
    "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: aw}\nspec:\n  components:\n"
)
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\n"
POLICY = "apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: p}\n"
WRAPPED: dict[str, tuple[str, str, str, str]] = {
    "a List": (
        "list.yaml",
        f"apiVersion: v1\nkind: List\nitems:\n- kind: ConfigMap   # so\n-\n{indented(JOB, 2)}- a:   1\n",
        "List",
        "List, item 2",
    ),
    "a List of jobs": (
        "list.yaml",
        f"apiVersion: kubeflow.org/v1\nkind: PyTorchJobList\nitems:\n  - {indented(JOB, 4).lstrip()}",
        "PyTorchJobList",
        "PyTorchJobList, item 1",
    ),
    "an AppWrapper": (
        "aw.yaml",
        f"{APP_WRAPPER}  - template:\n{indented(JOB, 6)}    podSets:   [{{path: x}}]\n",
        "AppWrapper",
        "AppWrapper aw",
    ),
    "a ConfigMap": (
        "cm.yaml",
        f"{CONFIG_MAP}data:\n  a: |\n    x\n  job.yaml: |\n{indented(JOB, 4)}  z:   y\n",
        "ConfigMap",
        "ConfigMap cm, job.yaml",
    ),
    "a ConfigMap with a text in quotes": (
        "cm.yaml",
        f"{CONFIG_MAP}data: {{a: {json.dumps(JOB)}}}\n",
        "ConfigMap",
        "ConfigMap cm, a",
    ),
    "Markdown": ("doc.md", f"# A\n\n```yaml\n{JOB}```\n\n`x`  \n", "Markdown", "Markdown"),
    "Markdown in a list": ("doc.md", f"- A\n\n  ```yaml\n{indented(JOB, 2)}  ```\n\n", "Markdown", "Markdown"),
    "a quote in Markdown": (
        "doc.md",
        f"> ~~~yml title=x\n{textwrap.indent(JOB, '> ')}> ~~~\nend\n",
        "Markdown",
        "Markdown",
    ),
    "anything else": (
        "x.yaml",
        f"{POLICY}spec:\n  generate:\n    data:\n{indented(JOB, 6)}",
        "Policy",
        "Policy p, spec.generate.data",
    ),
}


@pytest.mark.parametrize(("name", "text", "wrapper", "within"), WRAPPED.values(), ids=WRAPPED.keys())
@pytest.mark.parametrize("runtime", ["auto", "generate"])
def test_found_and_put_back(name: str, text: str, wrapper: str, within: str, runtime: str) -> None:
    made = done(text, name, runtime=runtime)
    (job,) = made.result.jobs
    assert (job.wrapper, job.within) == (wrapper, within)
    assert job.converted.ok
    assert "kind: PyTorchJob\n" not in made.text
    assert made.text.count("TrainJob") == 1 or "ConfigMap" in wrapper
    assert ("TrainingRuntime" in made.text.replace("ClusterTrainingRuntime", "")) == (runtime == "generate")
    if not name.endswith(".md"):
        assert all(document is not None for document in yaml.safe_load_all(made.text))
    assert done(made.text, name).text == made.text
    # What stands before and behind the job is as it was.
    end = text[text.rindex("cpu: 1") + 9 :].lstrip("\n") if '"' not in text else ""
    assert made.text.endswith(end)


def test_a_list_keeps_its_other_items() -> None:
    name, text, *_ = WRAPPED["a List"]
    made = done(text, name, runtime="generate").text
    items = yaml.safe_load(made)["items"]
    assert [item.get("kind") for item in items] == ["ConfigMap", "TrainingRuntime", "TrainJob", None]
    assert made.startswith("apiVersion: v1\nkind: List\nitems:\n- kind: ConfigMap   # so\n")
    assert made.endswith("- a:   1\n")


def test_an_app_wrapper_is_told_that_it_cannot_count() -> None:
    name, text, *_ = WRAPPED["an AppWrapper"]
    told = [one for one in done(text, name).result.jobs[0].converted.findings if one.code == "WRAPPER-COND"]
    assert "podSets name paths that are not there any more" in told[0].message
    assert "kueue.x-k8s.io/queue-name" in told[0].remedy


def test_text_around_a_job_that_is_no_yaml_is_told_and_left() -> None:
    text = f"kind: Pod\napiVersion: v1\nspec:\n  args:\n  - |\n    send <<EOF\n{indented(JOB, 4)}    EOF\n"
    made = done(text)
    assert made.text == text
    (told,) = made.result.findings
    assert (told.finding.severity, told.line >= 6) == ("warning", True) or told.finding.code == "JOB-IN-CODE"


def test_where_a_runtime_has_no_place_the_job_is_refused() -> None:
    text = f"- hosts: all\n  tasks:\n  - k8s:\n      definition:\n{indented(JOB, 8)}"
    assert "kind: TrainJob" in done(text).text
    made = done(text, runtime="generate")
    assert made.text == text
    assert "WRAPPER" in codes(made, "refused")


def test_anchors_that_others_use_keep_the_job_from_being_replaced() -> None:
    lent = JOB.replace("metadata:\n  name: digits", "metadata: &m\n    name: digits")
    text = f"apiVersion: v1\nkind: List\nitems:\n- {indented(lent, 2).lstrip()}- {{kind: X, metadata: *m}}\n"
    made = done(text)
    assert made.text == text
    assert codes(made, "refused") == ["ANCHORS"]


def test_anchors_of_others_are_written_out() -> None:
    borrowed = JOB.replace("metadata:\n  name: digits", "metadata: *m")
    items = f"- {{kind: X, metadata: &m {{name: x}}}}\n- {indented(borrowed, 2).lstrip()}"
    text = f"apiVersion: v1\nkind: List\nitems:\n{items}"
    made = done(text)
    assert yaml.safe_load(made.text)["items"][1]["metadata"] == {"name": "x"}
    assert "ANCHORS" in codes(made, "info")


def test_a_reference_to_a_job_is_no_job() -> None:
    text = "kind: X\napiVersion: v1\nref: {apiVersion: kubeflow.org/v1, kind: PyTorchJob, name: a}\n"
    assert not done(text).result.jobs


def test_what_is_filled_in_later_stays_in_inner_texts_and_in_what_is_told() -> None:
    name, text, *_ = WRAPPED["a ConfigMap"]
    made = done(text.replace("digits", "digits-{{ ds }}"), name)
    assert "name: digits-{{ ds }}\n" in made.text
    (job,) = made.result.jobs
    assert job.converted.raw["metadata"]["name"] == "digits-{{ ds }}"
    assert job.converted.trainjob is not None
    assert job.converted.trainjob["metadata"]["name"] == "digits-{{ ds }}"
    assert not [one for one in job.converted.findings if "trainerops" in str(one)]
    assert not [one for one in job.converted.ledger if "trainerops" in str(one.value)]


def test_windows_line_ends_in_markdown_and_texts() -> None:
    for key in ("Markdown in a list", "a ConfigMap", "a List"):
        name, text, *_ = WRAPPED[key]
        made = done(text.replace("\n", "\r\n"), name).text
        assert made == done(text, name).text.replace("\n", "\r\n")
