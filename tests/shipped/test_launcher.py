"""The launcher as a process: the code runs as if it had been started by hand, and its end is the launcher's end."""

from __future__ import annotations

import ast
import json
import signal
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from trainer_ops.model.request import FunctionCode

SHOW_PATH = "import sys; print(sys.path)"

# (script, exit code, what the log says)
ENDS: dict[str, tuple[str, int, list[str]]] = {
    "success": ("print('trained')", 0, []),
    "exit code": ("import sys; sys.exit(3)", 3, []),
    "exit with a text": ("import sys; sys.exit('no data')", 1, ["no data"]),
    "exception": (
        "def load():\n    raise FileNotFoundError('/data/train.csv')\n\n\nload()\n",
        1,
        [
            "Traceback (most recent call last)",
            'train.py", line 5, in <module>',
            'train.py", line 2, in load',
            "raise File",
        ],
    ),
    "syntax error": ("x = 1\nif x\n    pass\n", 1, ['train.py", line 2', "if x", "SyntaxError"]),
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, []),
    "segmentation fault": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139, []),
    "missing module": ("import torch_is_not_here", 1, ["ModuleNotFoundError: No module named 'torch_is_not_here'"]),
}


@pytest.mark.parametrize(("script", "code", "says"), ENDS.values(), ids=ENDS.keys())
def test_end(container: Any, script: str, code: int, says: list[str]) -> None:
    run = container.run(script)
    assert run.code == code
    assert [text for text in says if text not in run.err] == []
    assert "launch" not in run.err, "the user's traceback has a line of ours"
    assert container.leftovers() == []


def test_arguments(container: Any) -> None:
    run = container.run("import sys; print(sys.argv[1:])", args=["--lr", "0.1", "", "a b", "ü"])
    assert run.out == "['--lr', '0.1', '', 'a b', 'ü']\n"


def test_what_follows_the_arguments_is_the_runtimes_and_left_out(container: Any) -> None:
    run = container.run("import sys; print(sys.argv[1:])", "--left", "over", args=["mine"])
    assert run.out == "['mine']\n"


def test_it_is_a_program_like_any_other(container: Any) -> None:
    run = container.run("import os, sys; print(__name__, os.path.basename(__file__), os.path.basename(sys.argv[0]))")
    assert run.out == "__main__ train.py train.py\n"


def test_modules_in_the_working_folder_are_found(container: Any) -> None:
    container.write({"mine.py": "VALUE = 42"})
    assert container.run("import mine; print(mine.VALUE)").out == "42\n"


def test_output_is_not_held_back(container: Any) -> None:
    process = container.start("import time\nprint('up')\ntime.sleep(600)")
    assert process.stdout.readline() == "up\n"


def test_code_in_several_pieces(container: Any) -> None:
    import random

    noise = random.Random(1).randbytes(150_000).hex()
    run = container.run(f"DATA = '{noise}'\nprint(len(DATA))", args=["a"])
    assert (run.out, run.code) == ("300000\n", 0)


def test_text_beyond_ascii(container: Any) -> None:
    container.env["LC_ALL"] = "C"
    container.env["PYTHONIOENCODING"] = "utf-8"
    assert container.run("print('Grüße, 世界')").out == "Grüße, 世界\n"


def test_environment_reaches_the_code(container: Any) -> None:
    container.env["LR"] = "0.1"
    assert container.run("import os; print(os.environ['LR'])").out == "0.1\n"


BROKEN = {
    "no payload": [],
    "no number": ["hello"],
    "not base64": ["1:***"],
    "not compressed": ["1:aGVsbG8="],
    "cut": ["2:eJyrVg=="],
}


@pytest.mark.parametrize("argv", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_payload_is_one_line(container: Any, argv: list[str]) -> None:
    text = resources.files("trainer_ops.shipped").joinpath("launcher.py").read_text()
    run = container.finish(container.popen([str(container.python), "-u", "-c", text, *argv]))
    assert run.code == 1
    assert run.err.startswith("trainer_ops: the code that came with the TrainJob cannot be read: ")
    assert run.err.count("\n") == 1


def test_nowhere_to_write_is_one_line(container: Any) -> None:
    text = "import tempfile\n\ndef refuse(**_):\n    raise OSError('no temporary folder')\n\ntempfile.mkdtemp = refuse"
    container.write({"path/sitecustomize.py": text})
    container.env["PYTHONPATH"] = str(container.folder / "path")
    run = container.run("print('never')")
    assert (run.code, run.out, run.err) == (1, "", "trainer_ops: no temporary folder\n")


def function(source: str, **kwargs: Any) -> FunctionCode:
    return FunctionCode(name="fit", source=source, kwargs=kwargs)


# (body of the function, the result or None, what the log says)
RETURNED: dict[str, tuple[str, dict[str, Any] | None, str]] = {
    "metrics": ("return {'accuracy': 0.5, 'n': 3}", {"metrics": {"accuracy": 0.5, "n": 3}}, ""),
    "parts": (
        "return {'metrics': {'a': 1}, 'model_uri': 's3://m', 'artifacts': {'p': [1]}}",
        {"metrics": {"a": 1}, "model_uri": "s3://m", "artifacts": {"p": [1]}},
        "",
    ),
    "a model beside metrics": ("return {'a': 1, 'model_uri': 'm'}", {"metrics": {"a": 1}, "model_uri": "m"}, ""),
    "nothing": ("pass", None, ""),
    "what it reported stays": (
        "import trainer_ops; trainer_ops.report({'a': 1}); return {'b': 2}",
        {"metrics": {"a": 1, "b": 2}},
        "",
    ),
    "a number": ("return 0.5", {"artifacts": {"return_value": 0.5}}, ""),
    "a list": ("return [1, 'a', None]", {"artifacts": {"return_value": [1, "a", None]}}, ""),
    "metrics and more": (
        "return {'a': 1, 'classes': ['x', 'y'], 'best': None}",
        {"metrics": {"a": 1}, "artifacts": {"classes": ["x", "y"], "best": None}},
        "",
    ),
    "a thing": (
        "return object()",
        None,
        "what the function returned is not reported: artifacts['return_value'] is a object; give plain data",
    ),
    "no plain data": (
        "return {'model': object()}",
        None,
        "trainer_ops: what the function returned is not reported: metrics['model'] is a object; give a number or text",
    ),
    "too much": (
        "return {'artifacts': {'a': 'x' * 5000}}",
        None,
        "and at most 4096 fit; the biggest part is artifacts",
    ),
}


@pytest.mark.parametrize(("body", "result", "says"), RETURNED.values(), ids=RETURNED.keys())
def test_what_a_function_returns(container: Any, body: str, result: dict[str, Any] | None, says: str) -> None:
    run = container.run(function(f"def fit():\n    {body}\n"))
    assert run.code == 0, "the training is done, whatever it returned"
    assert says in run.err
    expected = None if result is None else {"metrics": {}, "model_uri": None, "artifacts": {}, **result}
    assert (json.loads(container.result.read_text()) if container.result.exists() else None) == expected


def test_a_function_gets_its_arguments(container: Any) -> None:
    code = function("def fit(lr, names):\n    print(lr, names)\n", lr=0.1, names=["a", "ü"])
    assert container.run(code).out == "0.1 ['a', 'ü']\n"


def test_a_function_that_fails_shows_its_own_lines(container: Any) -> None:
    run = container.run(function("def fit():\n    raise ValueError('bad')\n"))
    assert run.code == 1
    assert 'function_fit.py", line 2, in fit' in run.err


def test_a_function_does_not_hide_a_package_of_its_name(container: Any) -> None:
    code = FunctionCode(name="json", source="def json():\n    import json\n    print(json.dumps(1))\n")
    assert container.run(code).out == "1\n"


def test_only_rank_zero_reports_what_a_function_returns(container: Any) -> None:
    container.env["PET_NODE_RANK"] = "1"
    assert container.run(function("def fit():\n    return {'a': 1}\n")).code == 0
    assert not container.result.exists()


def test_processes_that_a_function_spawns_do_not_run_it_again(container: Any) -> None:
    source = (
        "def fit():\n"
        "    import multiprocessing, os\n"
        "    open('calls', 'a').write('x')\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    child = context.Process(target=print, args=('from the child',))\n"
        "    child.start(); child.join()\n"
    )
    run = container.run(function(source))
    assert (run.code, run.out, container.wait_for("calls")) == (0, "from the child\n", "x")


IMPORTS = {
    "module": "import trainer_ops\ntrainer_ops.report({'a': 1})",
    "name": "from trainer_ops import report\nreport({'a': 1})",
    "twice": "import trainer_ops\nimport trainer_ops\ntrainer_ops.report({'a': 1})",
}


@pytest.mark.parametrize("script", IMPORTS.values(), ids=IMPORTS.keys())
def test_the_stand_in_reports(container: Any, script: str) -> None:
    run = container.run(script)
    assert (run.code, run.err) == (0, "")
    assert json.loads(container.result.read_text())["metrics"] == {"a": 1}


def test_an_installed_package_comes_before_the_stand_in(container: Any, tmp_path: Path) -> None:
    # In site-packages, which come after PYTHONPATH and so after the stand-in.
    site = tmp_path / "site"
    container.write(
        {
            "site/trainer_ops/__init__.py": "from trainer_ops.inner import report",
            "site/trainer_ops/inner.py": "def report(*args):\n    print('the installed one')\n",
            "hook/sitecustomize.py": f"import sys; sys.path.append({str(site)!r})",
        }
    )
    container.env["PYTHONPATH"] = str(tmp_path / "hook")
    run = container.run("import trainer_ops\nfrom trainer_ops import report\nreport()\nprint(trainer_ops.__file__)")
    assert run.err == ""
    assert run.out.splitlines() == ["the installed one", str(site / "trainer_ops" / "__init__.py")]


@pytest.mark.parametrize("name", ["launcher.py", "reporting.py"])
def test_shipped_programs_are_python_3_8(name: str) -> None:
    text = resources.files("trainer_ops.shipped").joinpath(name).read_text()
    ast.parse(text, feature_version=(3, 8))
    assert text.isascii(), "an argument of a process that may run under LANG=C"


@pytest.mark.slow
def test_other_versions_of_python(container: Any, other_python: Path) -> None:
    container.python = other_python
    code = function(
        "def fit(lr: float):\n    import trainer_ops\n    trainer_ops.report({'lr': lr})\n    return {'b': 2}\n", lr=1
    )
    run = container.run(code)
    assert (run.code, run.err) == (0, "")
    assert json.loads(container.result.read_text())["metrics"] == {"lr": 1, "b": 2}
    process = container.start("import time\nprint('up')\ntime.sleep(600)")
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert container.finish(process).code == 143
