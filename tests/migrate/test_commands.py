"""Finding and changing what a command line starts."""

from __future__ import annotations

import pytest

from trainer_ops.migrate.commands import Line, launches, mentions, option, options, shell_text

ARITY = {"--standalone": 0, "-m": 0, "--mca": 2}


def line(*argv: str, split: int | None = None) -> Line:
    return Line(argv, len(argv) if split is None else split)


@pytest.mark.parametrize(
    ("argv", "programs"),
    [
        pytest.param(["torchrun", "x.py"], ["torchrun"], id="torchrun"),
        pytest.param(["/opt/bin/torchrun", "x.py"], ["torchrun"], id="with its folder"),
        pytest.param(["python", "-m", "torch.distributed.run", "x"], ["torchrun"], id="as a module"),
        pytest.param(["python3.11", "-u", "-m", "torch.distributed.launch", "x"], ["launch"], id="with flags"),
        pytest.param(["tune", "run", "full"], ["torchrun"], id="torchtune"),
        pytest.param(["tune", "ls"], ["other"], id="torchtune otherwise"),
        pytest.param(["accelerate", "launch", "x.py"], ["accelerate"], id="accelerate"),
        pytest.param(["accelerate", "config"], ["other"], id="accelerate otherwise"),
        pytest.param(["python", "train.py"], ["python"], id="python"),
        pytest.param(["python", "-c", "x"], ["python"], id="python -c"),
        pytest.param(["python", "x.py", "-m", "torch.distributed.run"], ["python"], id="an argument of the script"),
        pytest.param(["numactl", "--cpunodebind=0", "torchrun", "x"], ["torchrun"], id="a wrapper"),
        pytest.param(["env", "A=1", "python", "x"], ["python"], id="env"),
        pytest.param(["mpiexec", "-n", "2", "x"], ["mpirun"], id="mpiexec"),
        pytest.param(["mpirun.openmpi", "x"], ["mpirun"], id="mpirun.openmpi"),
        pytest.param(["./torchrun-like", "x"], ["other"], id="another program"),
        pytest.param(["sh", "-c", "torchrun x"], ["torchrun"], id="sh -c"),
        pytest.param(["/bin/bash", "-lc", "cd x; A=1 exec torchrun x"], ["other", "torchrun"], id="bash -lc"),
        pytest.param(["bash", "-e", "-o", "pipefail", "-c", "a | b"], ["other", "other"], id="more options"),
        pytest.param(["bash", "run.sh"], ["other"], id="a script"),
        pytest.param(["bash", "-c"], ["other"], id="a shell without its text"),
        pytest.param(["sh", "-c", "if true; then\n  torchrun x\nfi"], ["other", "other", "torchrun", "other"], id="if"),
        pytest.param(["sh", "-c", "# torchrun y\npython x # torchrun z"], ["python"], id="comments"),
        pytest.param(["sh", "-c", "python 'a;b' \"c && torchrun d\""], ["python"], id="quotes"),
        pytest.param(["sh", "-c", "torchrun \\\n  --nnodes 2 \\\n  x.py"], ["torchrun"], id="continued lines"),
        pytest.param(["sh", "-c", "A=$(torchrun x) python y"], ["python"], id="a substitution is one word"),
        pytest.param(["sh", "-c", ""], [], id="nothing"),
        pytest.param([], [], id="no command"),
        pytest.param(["sh", "-c", "python 'open"], ["python"], id="an open quote"),
    ],
)
def test_programs(argv: list[str], programs: list[str]) -> None:
    assert [launch.program for launch in launches(line(*argv))] == programs


def test_words_in_a_shells_text_know_where_they_stand() -> None:
    text = "cd /w && torchrun --nnodes=\"$N\" 'my script.py' a\\ b"
    launch = launches(line("sh", "-c", text))[1]
    assert launch.texts == ("torchrun", "--nnodes=$N", "my script.py", "a b")
    assert [text[word.start : word.end] for word in launch.words] == [
        "torchrun", '--nnodes="$N"', "'my script.py'", "a\\ b",
    ]  # fmt: skip


def test_options_end_with_the_script() -> None:
    launch = launches(line("torchrun", "--nnodes", "2", "--standalone", "--rdzv-id=x", "-m", "pkg", "--nnodes", "9"))[0]
    found = options(launch, ARITY)
    assert [(one.name, one.value) for one in found] == [
        ("--nnodes", "2"), ("--standalone", ""), ("--rdzv-id", "x"), ("-m", ""),
    ]  # fmt: skip
    id_ = option(found, "--rdzv_id")
    assert id_ is not None
    assert id_.value == "x"
    assert option(found, "--max_restarts") is None


def test_options_with_two_values_and_beyond_the_first_word() -> None:
    launch = launches(line("mpirun", "--mca", "a", "b", "x", "-np", "2"))[0]
    assert [one.name for one in options(launch, ARITY)] == ["--mca"]
    assert [one.name for one in options(launch, ARITY, rest=True)] == ["--mca", "-np"]


def test_insert_put_and_remove_in_argv() -> None:
    at = line("mpirun", "-np", "2", "x", split=1)
    launch = launches(at)[0]
    more = at.insert(launch.words[0], ["--hostfile", "/etc/mpi/hostfile"])
    assert (more.command, more.args) == (["mpirun", "--hostfile", "/etc/mpi/hostfile"], ["-np", "2", "x"])
    assert at.put(launch.words[2], "4").argv == ("mpirun", "-np", "4", "x")
    less = at.remove(launch.words[1:3])
    assert (less.command, less.args) == (["mpirun"], ["x"])


def test_insert_put_and_remove_in_a_text() -> None:
    at = line("sh", "-c", "cd /w\nmpirun  -np 2 \\\n  x 'y z' # why")
    launch = launches(at)[1]
    assert at.insert(launch.words[0], ["--path", "a b", "$C"]).argv[2] == (
        "cd /w\nmpirun --path 'a b' $C  -np 2 \\\n  x 'y z' # why"
    )
    assert at.remove(launch.words[1:3]).argv[2] == "cd /w\nmpirun \\\n  x 'y z' # why"
    assert at.put(launch.words[4], "w").argv[2] == "cd /w\nmpirun  -np 2 \\\n  x w # why"


@pytest.mark.parametrize(
    ("text", "found"),
    [("$(RANK)", True), ("$RANK", True), ("${RANK}", True), ("${RANK:-0}", True), ("$RANKS", False), ("RANK", False)],
)
def test_mentions(text: str, found: bool) -> None:
    assert mentions(["a", f"x{text}y" if text.endswith((")", "}")) else text], "RANK") is found


def test_only_the_text_of_a_shell_is_one() -> None:
    assert shell_text(["sh", "-c", "x"]) == 2
    assert shell_text(["sh", "x", "-c"]) is None
    assert shell_text(["python", "-c", "x"]) is None
    assert shell_text(["bash", "--norc", "-c", "x"]) == 3
