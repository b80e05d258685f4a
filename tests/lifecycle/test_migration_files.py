"""Files of a migration: which are found, and that none is ever half written, lost or changed under somebody's hands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainer_ops.errors import InvalidRequest
from trainer_ops.lifecycle.migration import migrate_paths, write_into, write_over
from trainer_ops.lifecycle.migration_files import find
from trainer_ops.migrate.options import Options

JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: digits}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {name: pytorch, image: 'a/b:v1', command: [torchrun, train.py], resources: {requests: {cpu: 1}}}
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    files = {
        "b.yaml": JOB,
        "a/c.yml": JOB.replace("digits", "c"),
        "a/readme.md": f"```yaml\n{JOB}```\n",
        "a/other.yaml": "kind: Service\n",
        "a/data.bin": JOB,
        ".git/x.yaml": JOB,
        "node_modules/y.yaml": JOB,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.yaml").write_bytes(b"\0kind: PyTorchJob")
    return tmp_path


class TestFind:
    def test_a_folder_in_a_fixed_order(self, tree: Path) -> None:
        names = [str(one.below) for one in find([str(tree)])]
        assert names == ["b.yaml", "a/c.yml", "a/other.yaml", "a/readme.md"]

    def test_a_file_is_taken_as_it_is_given(self, tree: Path) -> None:
        (one,) = find([str(tree / "a/data.bin")])
        assert str(one.below) == "data.bin"

    def test_each_once(self, tree: Path) -> None:
        assert len(find([str(tree / "b.yaml"), str(tree), str(tree / "b.yaml")])) == 4

    def test_standard_input(self) -> None:
        (one,) = find(["-"], [b"a", b"b"])
        assert (one.name, one.data, one.path) == ("stdin", b"ab", None)

    def test_links_in_a_folder_are_not_followed(self, tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        elsewhere = tmp_path_factory.mktemp("elsewhere") / "z.yaml"
        elsewhere.write_text(JOB)
        (tree / "z.yaml").symlink_to(elsewhere)
        (tree / "around").symlink_to(tree)
        assert len(find([str(tree)])) == 4

    def test_a_path_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidRequest, match="there is no such file or folder"):
            find([str(tmp_path / "no")])


class TestWrite:
    def test_in_place_with_the_mode_kept(self, tree: Path) -> None:
        path = tree / "b.yaml"
        path.chmod(0o640)
        done = migrate_paths([str(tree)], Options())
        written = write_over(done)
        assert [one.name for one in written] == ["b.yaml", "c.yml", "readme.md"]
        assert "kind: TrainJob" in path.read_text()
        assert path.stat().st_mode & 0o777 == 0o640
        assert sorted(one.name for one in tree.iterdir() if one.is_file()) == ["b.yaml", "binary.yaml"]

    @pytest.mark.parametrize("allowed", [True, False])
    def test_the_owner_is_kept_where_one_may(self, allowed: bool, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        given = []

        def fchown(_: int, uid: int, gid: int) -> None:
            given.append((uid, gid))
            if not allowed:
                raise PermissionError

        monkeypatch.setattr(os, "fchown", fchown)
        write_over(migrate_paths([str(tree)], Options()))
        assert set(given) == {(tree.stat().st_uid, tree.stat().st_gid)}

    def test_again_nothing_is_written(self, tree: Path) -> None:
        write_over(migrate_paths([str(tree)], Options()))
        assert write_over(migrate_paths([str(tree)], Options())) == []

    def test_through_a_link_that_was_named(self, tree: Path) -> None:
        link = tree / "link.yaml"
        link.symlink_to(tree / "b.yaml")
        write_over(migrate_paths([str(link)], Options()))
        assert link.is_symlink()
        assert "kind: TrainJob" in (tree / "b.yaml").read_text()

    def test_a_file_that_was_changed_meanwhile_stays(self, tree: Path) -> None:
        path = tree / "b.yaml"
        done = migrate_paths([str(path)], Options())
        path.write_text("somebody else's\n")
        with pytest.raises(InvalidRequest, match="changed by somebody else since it was read"):
            write_over(done)
        assert path.read_text() == "somebody else's\n"

    @pytest.mark.parametrize("step", ["write", "fsync", "replace"])
    def test_a_full_disk_leaves_the_original(self, tree: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tree / "b.yaml"

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        if step == "write":
            monkeypatch.setattr("tempfile.mkstemp", full)
        else:
            monkeypatch.setattr(f"os.{step}", full)
        with pytest.raises(InvalidRequest, match="cannot be written"):
            write_over(migrate_paths([str(path)], Options()))
        monkeypatch.undo()
        assert path.read_text() == JOB
        assert not [one for one in tree.iterdir() if one.name.startswith(".b.yaml")]

    def test_into_a_folder(self, tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("out") / "new"
        places = write_into(folder, migrate_paths([str(tree)], Options()))
        assert sorted(str(path.relative_to(folder)) for path in places.values()) == ["a/c.yml", "a/readme.md", "b.yaml"]
        assert (tree / "b.yaml").read_text() == JOB

    def test_two_files_of_one_name(self, tree: Path, tmp_path: Path) -> None:
        (tree / "a/b.yaml").write_text(JOB)
        with pytest.raises(InvalidRequest, match="would both be written there"):
            write_into(tmp_path / "out", migrate_paths([str(tree / "b.yaml"), str(tree / "a/b.yaml")], Options()))
        assert not (tmp_path / "out").exists()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_a_folder_that_may_not_be_written(self, tree: Path) -> None:
        tree.chmod(0o500)
        try:
            with pytest.raises(InvalidRequest, match="cannot be written"):
                write_over(migrate_paths([str(tree / "b.yaml")], Options()))
        finally:
            tree.chmod(0o700)


class TestKustomize:
    def test_a_patch_is_told_and_the_base_converted(self, tmp_path: Path) -> None:
        (tmp_path / "base").mkdir()
        (tmp_path / "over").mkdir()
        (tmp_path / "base/job.yaml").write_text(JOB)
        (tmp_path / "base/kustomization.yaml").write_text("resources:\n- job.yaml\nimages: [{name: a/b, newTag: v2}]\n")
        (tmp_path / "over/kustomization.yaml").write_text("resources: [../base]\npatches: [{path: more.yaml}]\n")
        (tmp_path / "over/more.yaml").write_text(JOB)
        done = {str(one.found.below): one for one in migrate_paths([str(tmp_path)], Options()) if one.found}
        assert done["base/job.yaml"].migrated.changed
        assert not done["over/more.yaml"].migrated.changed
        assert [placed.finding.code for placed in done["over/more.yaml"].result.findings] == ["OVERLAY"]
        (told,) = done["base/kustomization.yaml"].result.findings
        assert (told.finding.code, told.line) == ("ALONGSIDE", 3)
        assert "spec/trainer/image" in told.finding.remedy


def test_files_of_a_folder_that_are_no_text_are_told_when_they_name_v1(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"caf\xe9\n")
    (tmp_path / "b.md").write_bytes(b"caf\xe9, kind: PyTorchJob\n")
    told = {
        one.name: [placed.finding.code for placed in one.result.findings]
        for one in migrate_paths([str(tmp_path)], Options())
    }
    assert told == {str(tmp_path / "a.md"): [], str(tmp_path / "b.md"): ["UNREADABLE"]}
    (named,) = migrate_paths([str(tmp_path / "a.md")], Options())
    assert [placed.finding.code for placed in named.result.findings] == ["UNREADABLE"]


def test_what_trainer_would_refuse_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("requests: {cpu: 1}", "requests: {cpu: 3}, limits: {cpu: 2}"))
    (done,) = migrate_paths([str(path)], Options())
    assert not done.migrated.changed
    (told,) = [one for one in done.result.jobs[0].converted.findings if one.severity == "refused"]
    assert told.code == "ADMISSION"
    assert told.v2_path.startswith("trainjob:spec.trainer.resourcesPerNode")


OPEN = {
    "an image": ("'a/b:v1'", "'${REGISTRY}/b:$TAG'"),
    "an image of an example": ("'a/b:v1'", "gcr.io/<your_project>/b:1"),
    "an amount": ("{cpu: 1}", "{cpu: $CPUS}"),
    "an amount of a resource with a slash": ("requests: {cpu: 1}", "limits: {nvidia.com/gpu: $GPUS}"),
    "part of an amount": ("{cpu: 1}", "{memory: '${GIB}Gi'}"),
}


@pytest.mark.parametrize(("old", "new"), OPEN.values(), ids=OPEN.keys())
def test_what_is_filled_in_later_is_not_refused_for_what_it_is_now(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace(old, new))
    (done,) = migrate_paths([str(path)], Options(allow_placeholders=True))
    assert [one.code for one in done.result.jobs[0].converted.findings if one.severity == "refused"] == []
    assert done.migrated.changed


def test_what_kubernetes_does_not_fill_in_is_refused(tmp_path: Path) -> None:
    """$(NAME) is replaced in commands and variables of a container, and in its image it is not."""
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("a/b:v1", "$(REGISTRY)/b:v1"))
    (done,) = migrate_paths([str(path)], Options(allow_placeholders=True))
    assert [one.code for one in done.result.jobs[0].converted.findings if one.severity == "refused"] == ["ADMISSION"]
