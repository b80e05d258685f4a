"""Flags to a request and a key: every refusal names the flag that was typed."""

from __future__ import annotations

from typing import Any

import pytest

from trainer_ops.cli.flags import LimitFlags, TrainFlags
from trainer_ops.cli.inputs import key_of, limits_over, pairs, request_of
from trainer_ops.errors import InvalidRequest
from trainer_ops.model.limits import Limits
from trainer_ops.model.request import TrainRequest

MANIFEST = {"metadata": {"name": "digits"}, "spec": {"runtimeRef": {"name": "torch-distributed"}}}


def ask(manifest: dict[str, Any] | None = None, limits: LimitFlags | None = None, **flags: Any) -> TrainRequest:
    return request_of(
        TrainFlags(**flags),
        limits or LimitFlags(),
        manifest,
        is_file=lambda path: path in ("train.py", "src/train.py"),
        environ={"HOME": "/home/me"},
    )


ACCEPTED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a script that exists is shipped, the rest are its arguments": (
        {"argv": ["src/train.py", "--rounds", "20"]},
        {"script": "src/train.py", "args": ["--rounds", "20"], "command": None},
    ),
    "a script without arguments": ({"argv": ["train.py"]}, {"script": "train.py", "args": None}),
    "anything else is the argv": (
        {"argv": ["python", "train.py", "-v"]},
        {"command": ["python", "train.py", "-v"], "script": None, "args": None},
    ),
    "no words leave the command to the runtime": ({}, {"command": None, "script": None}),
    "resources by their short names and any other": (
        {"cpu": "2", "memory": "4Gi", "gpu": "1", "resource": ["vendor.example/npu=4"]},
        {"resources_per_node": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1", "vendor.example/npu": "4"}},
    ),
    "no resources are none, not an empty mapping": ({}, {"resources_per_node": None}),
    "environment: given, empty, with an equals sign, and as it is here": (
        {"env": ["A=1", "B=", "C=x=y", "HOME"]},
        {"env": {"A": "1", "B": "", "C": "x=y", "HOME": "/home/me"}},
    ),
    "numbers of nodes and processes": ({"nodes": 2, "procs_per_node": 4}, {"num_nodes": 2, "num_proc_per_node": 4}),
    "deadlines are lengths of time too": (
        {"active_deadline_seconds": "2h", "grace_period": "90"},
        {"active_deadline_seconds": 7200, "termination_grace_period_seconds": 90},
    ),
    "queue, priority, folders, initializers": (
        {"queue": "team-a", "priority_class": "high", "checkpoint_dir": "/ckpt", "dataset": "hf://a/b"},
        {"queue": "team-a", "priority_class": "high", "checkpoint_dir": "/ckpt"},
    ),
    "suspended, labels, annotations": (
        {"suspend": True, "label": ["team=a"], "annotation": ["why=retrain"]},
        {"suspend": True, "labels": {"team": "a"}, "annotations": {"why": "retrain"}},
    ),
    "packages come with a script": (
        {"argv": ["train.py"], "package": ["numpy>=2", "rich"], "pip_index_url": "https://pypi.example"},
        {"packages": ["numpy>=2", "rich"], "pip_index_url": "https://pypi.example"},
    ),
}


@pytest.mark.parametrize(("flags", "wanted"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_flags_become_a_request(flags: dict[str, Any], wanted: dict[str, Any]) -> None:
    request = ask(runtime="torch-distributed", **flags)
    assert {name: getattr(request, name) for name in wanted} == wanted


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "neither runtime nor file": (
        {"runtime": None},
        (
            "invalid request: --runtime: is missing, and there is no --file. Name a runtime such as --runtime "
            "torch-distributed (all: trainer-ops runtimes), or give -f TRAINJOB.yaml"
        ),
    ),
    "no nodes": ({"nodes": 0}, "invalid request: --nodes: 0 is not at least 1. Give 1 or more"),
    "no processes": ({"procs_per_node": 0}, "invalid request: --procs-per-node: 0 is not at least 1. Give 1 or more"),
    "a script that is not there": (
        {"argv": ["trian.py"]},
        (
            "invalid request: -- trian.py: there is no such file here. Check the path; for a file in the image: "
            "-- python trian.py"
        ),
    ),
    "packages without a script": (
        {"argv": ["sleep", "1"], "package": ["numpy"]},
        (
            "invalid request: --package: is installed before a script of yours, and there is none. Give -- SCRIPT.py, "
            "or put the packages into the image"
        ),
    ),
    "env without a name": (
        {"env": ["=1"]},
        'invalid request: --env: "=1" has no name before the "=". Write --env NAME=VALUE',
    ),
    "env that is not set here": (
        {"env": ["NOT_HERE"]},
        "invalid request: --env: NOT_HERE is not set here. Write --env NOT_HERE=VALUE, or export NOT_HERE",
    ),
    "env twice": ({"env": ["A=1", "A=2"]}, "invalid request: --env: A is given twice. Give it once"),
    "label without value": (
        {"label": ["team"]},
        'invalid request: --label: "team" has no value. Write --label team=VALUE',
    ),
    "cpu twice": (
        {"cpu": "1", "resource": ["cpu=2"]},
        "invalid request: --resource: --cpu says the same. Give one of them",
    ),
    "gpu twice": (
        {"gpu": "1", "resource": ["nvidia.com/gpu=2"]},
        "invalid request: --gpu: --resource nvidia.com/gpu says the same. Give one of them",
    ),
    "an unknown runner": (
        {"argv": ["train.py"], "runner": "perl"},
        (
            "invalid request: --runner: 'perl' is none of 'auto', 'python', 'torchrun' or 'mpirun'. "
            "Give 'auto', 'python', 'torchrun' or 'mpirun'"
        ),
    ),
    "a deadline that is no time": (
        {"active_deadline_seconds": "soon"},
        (
            'invalid request: --active-deadline-seconds: "soon" is not a length of time. Write it like 90, 30s, 10m or '
            "1h30m"
        ),
    ),
    "a deadline of part of a second": (
        {"grace_period": "0.5s"},
        'invalid request: --grace-period: "0.5s" is not a whole number of seconds from 1. Write it like 90 or 10m',
    ),
    "a queue timeout of nothing": (
        {"limits": LimitFlags(queue_timeout="0")},
        "invalid request: --queue-timeout: 0 is no time to wait. Leave it out for no limit",
    ),
    "restarts below none": (
        {"limits": LimitFlags(max_restarts=-1)},
        "invalid request: --max-restarts: -1 is not at least 0. Give 0 or more",
    ),
}


@pytest.mark.parametrize(("flags", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_names_the_flag(flags: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ask(**{"runtime": "torch-distributed", **flags})
    assert str(refused.value) == text


def test_limits_are_lengths_of_time() -> None:
    limits = LimitFlags(2, "10m", "1h30m", "2d", "45", "0")
    assert ask(runtime="x", limits=limits).limits == Limits(600, 5400, 172800, 45, 0, 2)


def test_limits_left_out_keep_their_defaults() -> None:
    assert ask(runtime="x").limits == Limits()


def test_limits_typed_now_win_over_stored_ones() -> None:
    stored = Limits(queue_timeout=60, wait_timeout=10, max_restarts=1)
    wanted = Limits(queue_timeout=60, wait_timeout=5, max_restarts=1)
    assert limits_over(LimitFlags(wait_timeout="5s"), stored) == wanted


def test_a_manifest_is_kept_and_takes_limits() -> None:
    request = ask(MANIFEST, LimitFlags(max_restarts=3), checkpoint_dir="/ckpt")
    assert request.manifest == MANIFEST
    assert (request.limits.max_restarts, request.checkpoint_dir) == (3, "/ckpt")


@pytest.mark.parametrize(
    ("flags", "flag"),
    [({"nodes": 2}, "--nodes"), ({"env": ["A=1"]}, "--env"), ({"argv": ["sleep"]}, "--"), ({"name": "x"}, "--name")],
)
def test_a_manifest_takes_no_second_description(flags: dict[str, Any], flag: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        ask(MANIFEST, **flags)
    text = f"manifest already describes the whole TrainJob. Write it into the manifest, or leave {flag} out"
    assert str(refused.value) == f"invalid request: {flag}: {text}"


KEYS: dict[str, tuple[str | None, dict[str, Any] | None, str]] = {
    "the flag": ("mine", None, "mine"),
    "the flag before the manifest's name": ("mine", MANIFEST, "mine"),
    "the manifest's name": (None, MANIFEST, "digits"),
    "neither: fresh": (None, None, "fresh"),
    "a manifest without a name: fresh": (None, {"metadata": {"generateName": "x-"}}, "fresh"),
    "a manifest whose metadata is no mapping: fresh, and refused later": (None, {"metadata": "x"}, "fresh"),
}


@pytest.mark.parametrize(("key", "manifest", "wanted"), KEYS.values(), ids=KEYS.keys())
def test_what_identifies_a_run(key: str | None, manifest: dict[str, Any] | None, wanted: str) -> None:
    assert key_of(key, manifest, fresh=lambda: "fresh").parts == (("key", wanted),)


def test_fresh_keys_differ() -> None:
    assert key_of(None, None).digest != key_of(None, None).digest


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="--key: is empty"):
        key_of(" ", None)


def test_pairs_of_nothing_are_nothing() -> None:
    assert pairs(None, "--env") == {}
