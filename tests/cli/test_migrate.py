"""``trainer-ops migrate``: what goes to stdout, to files and to a person, and the exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainer_ops.cli.app import run
from trainer_ops.cli.text import wide

JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: digits, namespace: team-a}
spec:
  nprocPerNode: "1"
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
REFUSED = JOB.replace("template:", "nothing:")
WARNED = JOB.replace('  nprocPerNode: "1"\n', "")
BROKEN = "kind: PyTorchJob\n\tx: 1\n"


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "jobs"
    top.mkdir()
    (top / "a.yaml").write_text(JOB)
    (top / "b.yaml").write_text(REFUSED)
    (top / "c.yaml").write_text(WARNED.replace("digits", "warned"))
    (top / "d.yaml").write_text(BROKEN)
    return top


class TestStdout:
    def test_of_one_file_the_result(self, job: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        assert run(["migrate", str(job)]) == 0
        said = capfdbinary.readouterr()
        assert yaml.safe_load(said.out)["kind"] == "TrainJob"
        assert b"PyTorchJob team-a/digits (line 1): 2 nodes, torch-distributed" in said.err
        assert said.err.endswith(
            b"1 job in 1 file: 1 converted\nmore about a code: trainer-ops migrate --explain CODE\n"
        )
        assert job.read_text() == JOB

    def test_of_standard_input(
        self, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(JOB.replace("\n", "\r\n").encode())))
        assert run(["migrate", "-"]) == 0
        out = capfdbinary.readouterr().out
        assert out.count(b"\r\n") == out.count(b"\n") > 10

    def test_what_was_migrated_comes_out_as_it_is(self, job: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        run(["migrate", str(job)])
        made = capfdbinary.readouterr().out
        job.write_bytes(made)
        assert run(["migrate", str(job)]) == 0
        said = capfdbinary.readouterr()
        assert said.out == made
        assert said.err == b"no v1 jobs in 1 file\n"

    def test_of_code_only_what_is_found(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "job.py"
        path.write_text("from kubeflow.training import TrainingClient\n\nTrainingClient().delete_job('digits')\n")
        assert run(["migrate", str(path), "--strict"]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert "line 3: deletes a v1 job" in said.err

    def test_a_diff(self, job: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        assert run(["migrate", "--diff", str(job)]) == 0
        out = capfdbinary.readouterr().out.decode()
        assert out.startswith(f"--- a{job}\n+++ b{job}\n@@ -1,")
        assert "-kind: PyTorchJob\n" in out
        assert "+kind: TrainJob\n" in out

    @pytest.mark.parametrize("name", ["a b.yaml", 'q"\tx.yaml', "plain.yaml"])
    def test_a_diff_is_what_patch_takes(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        # Line ends to YAML and to Python, and none to patch.
        Path(name).write_bytes(f"a: 1 # x\x0c\u2028y\n---\n{JOB}".encode())
        run(["migrate", name])
        wanted = capfdbinary.readouterr().out
        run(["migrate", name, "--diff"])
        patch = capfdbinary.readouterr().out
        subprocess.run(["git", "apply", "-"], input=patch, check=True, env={"GIT_CEILING_DIRECTORIES": str(tmp_path)})
        assert Path(name).read_bytes() == wanted

    def test_a_diff_has_no_name_above_the_folder(
        self, job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (job.parent / "below").mkdir()
        monkeypatch.chdir(job.parent / "below")
        run(["migrate", "../job.yaml", "--diff"])
        assert capsys.readouterr().out.startswith(f"--- a{job}\n+++ b{job}\n")

    def test_the_same_bytes_again(self, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        outs = []
        for _ in range(2):
            run(["migrate", str(folder), "--report", "json"])
            outs.append(capfdbinary.readouterr())
        assert outs[0] == outs[1]


class TestFiles:
    def test_in_place(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["migrate", "--in-place", str(folder)]) == 2
        assert "2 files written" in capsys.readouterr().out
        assert "kind: TrainJob" in (folder / "a.yaml").read_text()
        assert (folder / "b.yaml").read_text() == REFUSED
        assert (folder / "d.yaml").read_text() == BROKEN

    def test_into_a_folder(self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = tmp_path / "out"
        assert run(["migrate", "-o", str(out), str(folder)]) == 2
        assert sorted(path.name for path in out.iterdir()) == ["a.yaml", "c.yaml"]
        assert f"written to {out / 'a.yaml'}" in capsys.readouterr().out
        assert (folder / "a.yaml").read_text() == JOB

    def test_what_is_read_is_changed_by_nothing_but_in_place(
        self, job: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["migrate", "-o", str(job.parent), str(job)]) == 2
        assert f"{job}: it is what is migrated itself. Give another folder, or --in-place" in capsys.readouterr().err
        assert job.read_text() == JOB

    def test_of_a_folder_nothing_is_written_unasked(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["migrate", str(folder)]) == 2
        out = capsys.readouterr().out
        assert "nothing was written: -o DIR writes the results there, --in-place into the files" in out
        assert "kind: TrainJob" not in out


class TestText:
    def test_a_block_a_file_and_a_table(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        run(["migrate", str(folder)])
        out = capsys.readouterr().out
        rows = out.split("\n")
        assert all(wide(row) <= 100 for row in rows if str(folder) not in row)
        assert f"✔ {folder / 'a.yaml'}" in rows
        assert f"✘ {folder / 'd.yaml'}" in rows
        assert "    refused  UNREADABLE       line 2: document 1, column 1: a tab where YAML wants spaces" in rows
        assert "                              → Indent with spaces" in rows
        table = rows[rows.index("KIND        JOB            RESULT                        FILE") :]
        assert [row.split() for row in table[1:4]] == [
            ["PyTorchJob", "team-a/digits", "torch-distributed", "a.yaml:1"],
            ["PyTorchJob", "team-a/digits", "refused:", "NOT-A-JOB", "b.yaml:1"],
            ["PyTorchJob", "team-a/warned", "torch-distributed,", "1", "warning", "c.yaml:1"],
        ]
        assert "3 jobs in 4 files: 2 converted, 1 refused; 1 refusal beside them, 1 warning" in rows

    def test_quiet(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        run(["migrate", "-q", str(folder)])
        out = capsys.readouterr().out
        assert "UNREADABLE" not in out
        assert "3 jobs in 4 files" in out

    def test_nothing_there(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["migrate", str(tmp_path)]) == 0
        assert capsys.readouterr().out == "no v1 jobs in 0 files\n"

    def test_control_characters_of_a_file_reach_no_terminal(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "x.yaml"
        path.write_text(JOB.replace("name: digits", 'name: "a\\e[2Jb"').replace("template:", "nothing:"))
        run(["migrate", str(path), "--report", "json"])
        said = capsys.readouterr()
        assert "\x1b" not in said.out + said.err


EXITS: dict[str, tuple[str, tuple[str, ...], int]] = {
    "clean": (JOB, (), 0),
    "clean under --strict": (JOB, ("--strict",), 0),
    "warnings": (WARNED, (), 0),
    "warnings under --strict": (WARNED, ("--strict",), 1),
    "refused": (REFUSED, (), 2),
    "refused under --strict": (REFUSED, ("--strict",), 2),
    "unreadable": (BROKEN, (), 2),
    "nothing of ours": ("a: 1\n", ("--strict",), 0),
}


@pytest.mark.parametrize(("text", "flags", "code"), EXITS.values(), ids=EXITS.keys())
def test_exit_codes(text: str, flags: tuple[str, ...], code: int, job: Path) -> None:
    job.write_text(text)
    assert run(["migrate", str(job), *flags]) == code


class TestReport:
    def test_json_to_stdout(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["migrate", str(folder), "--report", "json", "--pin-elastic", "3"]) == 2
        said = capsys.readouterr()
        report = json.loads(said.out)
        assert report["counts"]["jobs"] == 3
        assert report["options"] == {"pin_elastic": 3}
        assert "3 jobs in 4 files" in said.err

    @pytest.mark.parametrize("form", ["md", "html", "json"])
    def test_to_a_file(self, form: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        place = tmp_path / f"report.{form}"
        run(["migrate", str(folder), "--report", f"{form}={place}"])
        assert "digits" in place.read_text()
        assert "3 jobs in 4 files" in capsys.readouterr().out

    def test_it_says_where_results_are(self, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        out = tmp_path / "out"
        run(["migrate", str(folder), "-o", str(out), "--report", "json"])
        jobs = [job for file in json.loads(capsys.readouterr().out)["files"] for job in file["jobs"]]
        assert [job["written"] for job in jobs] == [str(out / "a.yaml"), "", str(out / "c.yaml")]
        assert jobs[0]["use"]["files"] == {"trainjob": str(out / "a.yaml")}


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "no path": ((), "PATH: is missing. Give files or folders"),
    "no such path": (("/nowhere/x.yaml",), "/nowhere/x.yaml: there is no such file or folder"),
    "two ways to write": (("JOB", "-o", "x", "--in-place"), "--in-place: does not go with -o"),
    "in place from stdin": (("-", "--in-place"), "--in-place: there is no file to change"),
    "paths and live": (("JOB", "--live"), "--live: reads a cluster, and paths are given too"),
    "another report": (("JOB", "--report", "pdf"), '--report: "pdf" is none of md, json, html'),
    "a report nowhere": (("JOB", "--report", "md=/nowhere/x.md"), "--report: there is no folder /nowhere"),
    "another version": (("JOB", "--trainer-version", "1.9"), '--trainer-version: "1.9" is none of 2.2, 2.3'),
    "another gang": (("JOB", "--gang", "x"), '--gang: "x" is none of none, coscheduling, volcano'),
    "another role": (("JOB", "--template-from", "chief"), '--template-from: "chief" is none of master, worker'),
    "another pin": (("JOB", "--pin-elastic", "0"), '--pin-elastic: "0" is none of min, max, replicas or a number'),
    "another code": (("JOB", "--drop", "gang-mini"), 'there is no code "gang-mini". Did you mean GANG-MIN?'),
    "a report on a full disk": (("JOB", "--report", "md=/dev/full"), "--report: /dev/full cannot be written (No space"),
    "no such code": (("--explain", "XYZ"), 'there is no code "XYZ". All: trainer-ops migrate --explain all'),
}


@pytest.mark.parametrize(("flags", "text"), WRONG.values(), ids=WRONG.keys())
def test_wrong_use(flags: tuple[str, ...], text: str, job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["migrate", *(str(job) if flag == "JOB" else flag for flag in flags)]) == 2
    assert text in capsys.readouterr().err
    assert job.read_text() == JOB


class TestExplain:
    def test_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["migrate", "--explain", "env-shim"]) == 0
        out = capsys.readouterr().out
        assert out.startswith("ENV-SHIM  variables of v1 given by the TrainJob  note\n")
        assert "  What to do: " in out
        assert all(wide(row) <= 100 for row in out.split("\n"))

    def test_all(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["migrate", "--explain", "all"]) == 0
        rows = capsys.readouterr().out.splitlines()
        assert rows == sorted(rows)
        assert all(wide(row) <= 100 for row in rows)


def test_every_flag_reaches_its_option(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainer_ops.lifecycle import migration
    from trainer_ops.migrate.options import Options

    seen: list[Any] = []

    def kept(paths: Any, options: Any, **_: Any) -> list[Any]:
        seen.append(options)
        return []

    monkeypatch.setattr(migration, "migrate_paths", kept)
    flags = "--trainer-version 2.2 --runtime generate --gang volcano --role-branch --template-from worker"
    flags += " --pin-elastic min --to-torchrun --no-env-shim --preserve-success --image-has-sshd --drop-np"
    flags += " --allow-placeholders --drop GANG-MIN --drop unknown-field --keep-ttl"
    run(["migrate", str(job), *flags.split()])
    plain = Options()
    assert len(seen) == 1
    same = [name for name in Options.__dataclass_fields__ if getattr(seen[0], name) == getattr(plain, name)]
    assert same == ["live"]
    assert seen[0].drop == {"GANG-MIN", "UNKNOWN-FIELD"}


@pytest.mark.parametrize("flag", ["--live", "--apply-check"])
def test_a_target_that_is_no_cluster(flag: str, job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [] if flag == "--live" else [str(job)]
    assert run(["migrate", *paths, flag, "--target", f"local://{tmp_path}"]) == 2
    assert f"{flag}: local://{tmp_path} is no cluster. Give --target kubernetes://" in capsys.readouterr().err
