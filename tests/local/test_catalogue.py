from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.local.catalogue import builtin, catalogue, load_runtimes
from trainer_ops.model.runtime import TrainingRuntime

RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: {kind}
metadata: {{name: {name}}}
spec: {{template: {{spec: {{replicatedJobs: [{{name: node}}]}}}}}}
"""


def text(name: str, kind: str = "ClusterTrainingRuntime") -> str:
    return RUNTIME.format(name=name, kind=kind)


# ------------------------------------------------------------------------------------------------------------ built in


def test_the_names_are_trainers_and_two_of_ours() -> None:
    assert catalogue().names == (
        "deepspeed-distributed",
        "jax-distributed",
        "mlx-distributed",
        "mpi-distributed",
        "plain",
        "torch-distributed",
        "xgboost-distributed",
    )


@pytest.mark.parametrize("name", catalogue().names)
def test_every_builtin_runtime_restarts_nothing_and_can_fetch(name: str) -> None:
    raw = catalogue().get(name)
    assert raw is not None
    runtime = TrainingRuntime.from_raw(raw)
    assert runtime.name == name
    assert runtime.trainer_job is not None
    assert runtime.max_restarts == 0
    assert {job.restart_policy for job in runtime.jobs} == {"Never"}
    assert {job.backoff_limit for job in runtime.jobs} == {0}
    ancestors = {job.ancestor for job in runtime.jobs}
    assert {"trainer", "dataset-initializer", "model-initializer"} <= ancestors
    # Trainer 2.3 admits an initializer only with a volume of this name in its container.
    assert all("initializer" in c.mounts for j in runtime.jobs if "-initializer" in j.ancestor for c in j.containers)


@pytest.mark.parametrize(
    ("name", "policy", "launcher_is_node"),
    [
        ("torch-distributed", "torch", False),
        ("jax-distributed", "jax", False),
        ("xgboost-distributed", "xgboost", False),
        ("plain", "plain", False),
        ("deepspeed-distributed", "mpi", True),
        ("mlx-distributed", "mpi", True),
        ("mpi-distributed", "mpi", False),
    ],
)
def test_policies(name: str, policy: str, launcher_is_node: bool) -> None:
    runtime = TrainingRuntime.from_raw(builtin()["ClusterTrainingRuntime", name])
    assert (runtime.policy, runtime.run_launcher_as_node) == (policy, launcher_is_node)
    assert runtime.success_targets == (("launcher",) if policy == "mpi" else ())


def test_builtins_are_parsed_once() -> None:
    assert builtin() is builtin()


def test_importing_the_catalogue_does_not_import_yaml() -> None:
    code = "import sys, trainer_ops.local.catalogue; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --------------------------------------------------------------------------------------------------------- users' files


def test_files_folders_documents_and_lists(tmp_path: Path) -> None:
    folder = tmp_path / "runtimes"
    folder.mkdir()
    (folder / "two.yaml").write_text(f"---\n{text('a')}---\n{text('b', 'TrainingRuntime')}---\n")
    (folder / "one.json").write_text(
        '{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "metadata": {"name": "j"}}'
    )
    (folder / "other.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")
    (folder / "notes.txt").write_text("not: [yaml")
    listed = "".join(f"  {line}\n" for line in text("l").splitlines()).replace("  api", "- api", 1)
    file = tmp_path / "list.yml"
    file.write_text(f"apiVersion: v1\nkind: List\nitems:\n{listed}")
    found = load_runtimes([folder, file])
    assert set(found) == {
        ("ClusterTrainingRuntime", "a"),
        ("TrainingRuntime", "b"),
        ("TrainingRuntime", "j"),
        ("ClusterTrainingRuntime", "l"),
    }


def test_a_users_runtime_wins_and_a_note_says_so(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"{text('torch-distributed')}---\n{text('new')}")
    made = catalogue([file])
    assert made.get("torch-distributed") == load_runtimes([file])["ClusterTrainingRuntime", "torch-distributed"]
    assert made.notes == (f"the built-in runtime torch-distributed is replaced by the one in {file}",)
    assert "new" in made.names
    assert "jax-distributed" in made.names
    assert made.get("new", "TrainingRuntime") is None


@pytest.mark.parametrize(
    ("content", "where", "reason"),
    [
        pytest.param("a: [1\nb: 2\n", ", document 1, line 2", "expected", id="syntax"),
        pytest.param(
            f"{text('a')}---\nx: }}\n",
            ", document 2, line 6",
            "expected the node content",
            id="syntax, second document",
        ),
        pytest.param("- 1\n", ", document 1, line 1", "no Kubernetes object", id="a list"),
        pytest.param("just words\n", ", document 1, line 1", "no Kubernetes object", id="text"),
        pytest.param(
            f"{text('a')}---\napiVersion: kubeflow.org/v1\nkind: PyTorchJob\n",
            ", document 2, line 6",
            r"PyTorchJob \(kubeflow.org/v1\) is a v1 job",
            id="v1",
        ),
        pytest.param("apiVersion: v1\nkind: Pod\n", ", document 1, line 1", "Pod is no runtime", id="another kind"),
        pytest.param(
            "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n",
            ", document 1, line 1",
            "TrainJob is no runtime",
            id="TrainJob",
        ),
        pytest.param(text("a").replace("v1alpha1", "v2"), ", document 1, line 1", "apiVersion is", id="version"),
        pytest.param(
            text("a").replace("name: a", "labels: {}"), ", document 1, line 1", "metadata.name is missing", id="no name"
        ),
        pytest.param(
            f"{text('a')}---\n{text('a')}", ", document 2, line 6", "is in .*document 1, line 1 too", id="twice"
        ),
        pytest.param(f"{text('a')}kind: X\n", ", document 1, line 5", "kind is given twice", id="a key twice"),
    ],
)
def test_errors_name_file_document_and_line(tmp_path: Path, content: str, where: str, reason: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    with pytest.raises(InvalidRequest, match=reason) as caught:
        load_runtimes([file])
    assert caught.value.field == f"{file}{where}"
    assert str(caught.value).startswith("invalid runtime file: ")
    assert caught.value.remedy


def test_a_v1_job_is_refused_in_a_folder_too(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\n")
    with pytest.raises(InvalidRequest, match="Write it as a TrainJob"):
        load_runtimes([tmp_path])


@pytest.mark.parametrize(("name", "data"), [("absent.yaml", None), ("latin.yaml", b"name: \xe9\xff\n")])
def test_files_that_cannot_be_read(tmp_path: Path, name: str, data: bytes | None) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidRequest) as caught:
        load_runtimes([tmp_path / name])
    assert caught.value.field == str(tmp_path / name)
