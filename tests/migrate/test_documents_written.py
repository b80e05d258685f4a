"""Results in their places: other documents byte for byte, comments where their fields went, again changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_ops.migrate.documents import read
from trainer_ops.migrate.files import migrate, read_source
from trainer_ops.migrate.options import Options

POD = """\
        spec:
          containers:
          - name: pytorch
            image: a/b:v1
            command: [torchrun, train.py]
            resources: {requests: {cpu: 1}}
"""
JOB = f"""apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: digits
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
{POD}"""
OTHERS = [
    "apiVersion: v1\nkind:   ConfigMap\nmetadata: {name:   x}   # so\n",
    "# a comment\n\n\nkind: Service\nspec: {a:  1,\n   b: 2}\n# end\n",
    "kind: Secret\ndata:\n  a: |\n    ---\n    # no comment\n  b: 'x'\n\n",
    "\n# nothing but comments\n",
    "",
    '{"kind":  "ConfigMap"}\n',
    "this: is\n\t- not YAML\n",
    "kind: ClusterRole\nrules:\n- {apiGroups: [kubeflow.org], resources: [pytorchjobs], verbs: ['*']}\n",
    "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: old}\n",
    "a: é ü 漢字 😀\n",
]


def converted(text: str, name: str = "job.yaml", **options: Any) -> str:
    return migrate([read_source(name, text.encode())], Options(**options))[0].text


RESULT = converted(JOB)


def test_a_job_alone() -> None:
    job = yaml.safe_load(RESULT)
    assert job["kind"] == "TrainJob"
    assert job["spec"]["trainer"]["numNodes"] == 2
    assert RESULT.startswith("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata:\n  name: digits\n")


@settings(max_examples=200, deadline=None)
@given(
    before=st.lists(st.sampled_from(OTHERS), max_size=4),
    after=st.lists(st.sampled_from(OTHERS), max_size=4),
    windows=st.booleans(),
    mark=st.booleans(),
    end=st.sampled_from(["\n", "", "\n\n# the end\n"]),
)
def test_others_stay_byte_for_byte(before: list[str], after: list[str], windows: bool, mark: bool, end: str) -> None:
    head = "".join(f"{other}---\n" for other in before)
    tail = "".join(f"---\n{other}" for other in after)
    head = f"---\n{head}" if mark and not before else head
    body = JOB.rstrip("\n") + (end if not after else "\n")
    text, wanted = head + body + tail, head + RESULT.rstrip("\n") + body[len(JOB.rstrip("\n")) :] + tail
    if windows:
        text, wanted = text.replace("\n", "\r\n"), wanted.replace("\n", "\r\n")
    made = converted(text)
    assert made == wanted
    assert converted(made) == made


COMMENTED = """# Licence

# About the job
apiVersion: kubeflow.org/v1 # group
kind: PyTorchJob
metadata:
  name: digits # its name
spec:
  # delete them
  runPolicy:
    cleanPodPolicy: Running # all
  pytorchReplicaSpecs:
    # those who work
    Worker:
      replicas: 2 # two
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          # the one
          - name: pytorch
            image: a/b:v1   # built daily
            # started by
            # torchrun
            command: [torchrun, train.py] # c
            args:
            - --epochs=1
            # - --lr=0.1
            - --batch=2
            env:
            - name: A # first
              value: "#no comment"
            resources: # r
              requests:
                cpu: 1 # one
          nodeSelector:
            # the pool
            pool: a
# after it
"""


def test_comments_go_where_their_fields_went() -> None:
    made = converted(COMMENTED)
    rows = made.split("\n")

    def above(row: str) -> str:
        return rows[[line.strip() for line in rows].index(row) - 1].strip()

    assert made.startswith("# Licence\n\n# About the job\n")
    assert made.endswith("# after it\n")
    assert "apiVersion: trainer.kubeflow.org/v1alpha1  # group\n" in made
    assert "  name: digits  # its name\n" in made
    assert "numNodes: 2  # two" in made
    assert above("numNodes: 2  # two") == "# those who work"
    assert "image: a/b:v1  # built daily" in made
    assert above("command:  # c") == "# torchrun"
    assert above("- --batch=2") == "# - --lr=0.1"
    assert "- name: A  # first" in made
    assert "resourcesPerNode:  # r" in made
    assert "cpu: 1  # one" in made
    assert above("pool: a") == "# the pool"
    assert '"#no comment"' in made


def test_comments_without_a_place_stand_above() -> None:
    made = converted(COMMENTED)
    head = made[: made.index("apiVersion:")]
    assert "# Comments of the v1 job on what has no place here:\n" in head
    assert "#   spec.runPolicy: delete them\n" in head
    assert "#   spec.runPolicy.cleanPodPolicy: all\n" in head


def test_every_comment_is_kept() -> None:
    made = converted(COMMENTED)
    for line in COMMENTED.split("\n"):
        if "#" in line and "no comment" not in line:
            assert line[line.index("#") :].lstrip("# ") in made


def test_a_changed_comment_does_not_change_the_job() -> None:
    assert yaml.safe_load(converted(COMMENTED)) == yaml.safe_load(converted(COMMENTED.replace("# ", "#")))


ANCHORED = f"""x-pod: &pod
{POD.replace("        spec:", "  spec:").replace("          ", "    ")}
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: digits}}
spec:
  pytorchReplicaSpecs:
    Master: &role
      replicas: 1
      template: *pod # the same
    Worker:
      <<: *role
      replicas: 3
"""


def test_anchors_are_written_out_and_told() -> None:
    source = read_source("job.yaml", ANCHORED.encode())
    made = migrate([source], Options(drop=frozenset({"UNKNOWN-FIELD"})))[0]
    (job,) = made.result.jobs
    assert "ANCHORS" in [one.code for one in job.converted.findings]
    if job.converted.ok:
        assert "*pod" not in made.text
        assert yaml.safe_load(made.text)["spec"]["trainer"]["numNodes"] == 4


def test_flow_and_json() -> None:
    value = yaml.safe_load(JOB)
    flow = json.dumps(value)
    assert yaml.safe_load(converted(f"--- # x\n{flow}\n"))["kind"] == "TrainJob"
    assert converted(f"# c\n{{kind: PyTorchJob, {flow[1:]}".replace('"kind": "PyTorchJob", ', "")).startswith(
        "# c\napiV"
    )
    pretty = json.dumps(value, indent=4) + "\n"
    made = converted(pretty, "job.json")
    assert json.loads(made)["kind"] == "TrainJob"
    assert made == json.dumps(json.loads(made), indent=4) + "\n"
    assert converted(made, "job.json") == made


def test_json_with_a_runtime_becomes_a_list() -> None:
    made = converted(json.dumps(yaml.safe_load(JOB), indent=2), "job.json", runtime="generate")
    held = json.loads(made)
    assert [one["kind"] for one in held["items"]] == ["TrainingRuntime", "TrainJob"]


def test_a_runtime_stands_before_its_job() -> None:
    made = converted(f"# c\n{JOB}---\n{OTHERS[0]}", runtime="generate")
    assert [one.kind for one in read(made)] == ["TrainingRuntime", "TrainJob", "ConfigMap"]
    assert made.endswith(f"---\n{OTHERS[0]}")


def test_equal_runtimes_are_written_once_over_all_files() -> None:
    sources = [read_source(f"{name}.yaml", JOB.replace("digits", name).encode()) for name in ("a", "b")]
    first, second = (list(yaml.safe_load_all(one.text)) for one in migrate(sources, Options(runtime="generate")))
    assert [one["kind"] for one in first] == ["TrainingRuntime", "TrainJob"]
    assert [one["kind"] for one in second] == ["TrainJob"]
    assert first[1]["spec"]["runtimeRef"] == second[0]["spec"]["runtimeRef"]
    assert first[1]["spec"]["runtimeRef"]["name"] == first[0]["metadata"]["name"]


def test_jobs_of_one_name_keep_their_own_runtimes() -> None:
    """As in folders for stages: the second must not train in the first one's runtime."""
    texts = [
        JOB.replace("image: a/b:v1", f"image: a/b:v1\n            workingDir: /{stage}") for stage in ("dev", "prod")
    ]
    sources = [read_source(f"{i}.yaml", text.encode()) for i, text in enumerate(texts)]
    for made, stage in zip(migrate(sources, Options()), ("dev", "prod"), strict=True):
        runtime, job = yaml.safe_load_all(made.text)
        assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
        (held,) = runtime["spec"]["template"]["spec"]["replicatedJobs"]
        assert held["template"]["spec"]["template"]["spec"]["containers"][0]["workingDir"] == f"/{stage}"


PLACEHOLDERS = ["$NODES", "${NODES}"]


@pytest.mark.parametrize("text", PLACEHOLDERS)
def test_placeholders_of_numbers(text: str) -> None:
    job = JOB.replace("replicas: 2", f"replicas: {text}").replace("name: digits", "name: $NAME")
    source = read_source("job.yaml", job.encode())
    refused = migrate([source], Options())[0]
    assert refused.text == job
    assert [one.code for one in refused.result.jobs[0].converted.findings if one.severity == "refused"] == [
        "PLACEHOLDER"
    ]
    made = migrate([source], Options(allow_placeholders=True))[0]
    assert f"numNodes: {text}\n" in made.text
    assert "name: $NAME\n" in made.text


FILLED_IN: dict[str, tuple[str, str, str]] = {
    "Jinja in a name": ("name: digits", 'name: "digits-{{ ds_nodash }}"', "digits-{{ ds_nodash }}"),
    "a name alone": ("name: digits", "name: {{ params.name }}", "{{ params.name }}"),
    "a variable in a name": ("name: digits", "name: digits-${RUN_ID} # c", "digits-${RUN_ID}"),
    "a variable alone": ("name: digits", "name: $JOB_NAME", "$JOB_NAME"),
    "Jinja in an argument": ("train.py]", 'train.py, "--day={{ ds }}"]', "--day={{ ds }}"),
    "an image": ("image: a/b:v1", "image: {{ image }}", "image: {{ image }}"),
    "an image in quotes": ("image: a/b:v1", 'image: "{{ image }}"', 'image: "{{ image }}"'),
    "an image of two variables": ("image: a/b:v1", "image: ${REGISTRY}/b:$TAG", "image: ${REGISTRY}/b:$TAG"),
    "an amount": (
        "{requests: {cpu: 1}}",
        "{limits: {nvidia.com/gpu: $GPUS}}",
        "nvidia.com/gpu: $GPUS",
    ),
    "part of an amount": ("{requests: {cpu: 1}}", "{limits: {memory: '${GIB}Gi'}}", "memory: ${GIB}Gi"),
    # A number that is filled in must not become one: the variables of a container are texts.
    "the value of a variable": (
        "image: a/b:v1",
        "image: a/b:v1\n            env: [{name: SEED, value: '$SEED'}]",
        'value: "$SEED"',
    ),
    "a number": ("replicas: 2", "replicas: {{ nodes }}", "numNodes: {{ nodes }}"),
}


@pytest.mark.parametrize(("old", "new", "kept"), FILLED_IN.values(), ids=FILLED_IN.keys())
@pytest.mark.parametrize("runtime", ["auto", "generate"])
def test_what_is_filled_in_later_stays(old: str, new: str, kept: str, runtime: str) -> None:
    text = f"{OTHERS[0]}---\n{JOB.replace(old, new)}---\na: {{{{ b }}}}\nname: $X\n"
    made = migrate([read_source("job.yaml", text.encode())], Options(allow_placeholders=True, runtime=runtime))[0]
    assert kept in made.text
    assert "trainerops" not in made.text
    assert "TRAINER_OPS" not in made.text
    assert made.text.startswith(f"{OTHERS[0]}---\n")
    assert made.text.endswith("---\na: {{ b }}\nname: $X\n")
    (job,) = made.result.jobs
    assert job.converted.ok
    assert "NAME-LEN" not in [one.code for one in job.converted.findings]
    if "name: " in new:
        assert f"{kept}-node-0-0.{kept}" in made.text or "MASTER_ADDR" not in made.text


def test_a_refused_job_stays_as_it_is() -> None:
    text = f"{JOB.replace('template:', 'templat:')}---\n{JOB}"
    made = converted(text)
    assert made == f"{JOB.replace('template:', 'templat:')}---\n{RESULT}"


def test_a_byte_order_mark_stays() -> None:
    assert converted(f"\ufeff{JOB}") == f"\ufeff{RESULT}"


@settings(max_examples=150, deadline=None)
@given(
    above=st.sets(st.integers(0, COMMENTED.count("\n") - 1)),
    behind=st.sets(st.integers(0, COMMENTED.count("\n") - 1)),
    windows=st.booleans(),
)
def test_comments_anywhere_are_kept_and_change_nothing(above: set[int], behind: set[int], windows: bool) -> None:
    rows = []
    for number, row in enumerate(COMMENTED.split("\n")):
        margin = row[: len(row) - len(row.lstrip())]
        if number in above:
            rows.append(f"{margin}# above {number}.")
        rows.append(f"{row} # behind {number}." if number in behind and row and "#" not in row else row)
    text = "\n".join(rows)
    made = converted(text.replace("\n", "\r\n") if windows else text).replace("\r\n", "\n")
    assert yaml.safe_load(made) == yaml.safe_load(converted(COMMENTED))
    for row in rows:
        comment = row[row.index("#") :] if "#" in row and '"#' not in row else ""
        assert comment.lstrip("# ") in made
