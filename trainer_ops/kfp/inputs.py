"""What a component's inputs mean: KFP's values -> fields of a TrainRequest, and RunKey. Pure.

KFP carries every number of a struct as a float, every optional as a sentinel (``Optional[int]`` crashes its local
runner) and text where a pipeline joined parts, so each value is brought back here, once.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from trainer_ops.errors import InvalidRequest
from trainer_ops.model.identity import RunKey

__all__ = ["fields_from", "plain", "run_key", "spoiled_numbers"]

# Inputs that have another name in a request, because "model" is the component's output.
_RENAMED = {"script_uri": "script", "dataset_uri": "dataset", "base_model_uri": "model"}
# "Not given" is -1: 0 restarts mean something, and 0 nodes must be refused, not taken for the runtime's own number.
_NUMBERS = frozenset(
    {
        "num_nodes",
        "num_proc_per_node",
        "active_deadline_seconds",
        "queue_timeout",
        "startup_timeout",
        "wait_timeout",
        "unreachable_timeout",
        "max_restarts",
        "missing_grace",
        "older_than",
        "termination_grace_period_seconds",
    }
)


def fields_from(inputs: Mapping[str, Any], *, spoiled: Collection[str] = ()) -> dict[str, Any]:
    """The fields of ``TrainRequest`` that these inputs give.

    Args:
        inputs: the component's parameters by name, those that are not of the request left out.
        spoiled: texts that are whole numbers of the pipeline's, see ``spoiled_numbers``.

    Raises:
        InvalidRequest: names the input, the reason and the remedy.
    """
    fields: dict[str, Any] = {}
    for name, value in inputs.items():
        if not _given(name, value):
            continue
        fields[_RENAMED.get(name, name)] = _whole_number(name, value) if name in _NUMBERS else plain(value, spoiled)
    for name in ("command", "args", "packages", "names"):
        if name in fields:
            fields[name] = [_text(item) for item in _listed(name, fields[name])]
    if "manifest" in fields and "runtime" in fields:
        raise InvalidRequest("runtime", "manifest already names its runtime", "Leave runtime out")
    return fields


def _given(name: str, value: Any) -> bool:
    if value is None or value == "":
        return False
    if name in _NUMBERS:
        return value not in (-1, "-1")
    return not (isinstance(value, list | dict) and not value)


def _whole_number(name: str, value: Any) -> int:
    """An int from what KFP makes of one: 2, 2.0, "2", "2.0"."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.5
    if not number.is_integer():
        raise InvalidRequest(name, f"{value!r} is not a whole number", "Give a whole number")
    return int(number)


def plain(value: Any, spoiled: Collection[str] = ()) -> Any:
    """The same data with whole floats as ints, all the way down: a TrainJob's int32 does not take 2.0 everywhere."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value in spoiled:
        return value.removesuffix(".0")
    if isinstance(value, Mapping):
        return {key: plain(item, spoiled) for key, item in value.items()}
    return [plain(item, spoiled) for item in value] if isinstance(value, list) else value


def spoiled_numbers(channels: Mapping[str, Any]) -> frozenset[str]:
    """Texts such as "8.0" that an int of the pipeline became inside of a list or dict.

    ``args=["--rounds", rounds]`` reaches a step of KFP's local runner as "8.0" (seen in 2.17.3), and no script takes
    that for a whole number; the cluster's driver writes "8". Only what is the value of one of the pipeline's own
    numbers is meant, so that a version "2.0" stays what it is.

    Args:
        channels: the pipeline's values that went into this task's inputs.
    """
    return frozenset(str(value) for value in channels.values() if isinstance(value, float) and value.is_integer())


def _listed(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        # Text is a sequence too, of letters.
        raise InvalidRequest(name, f"{value!r} is no list"[:200], "Give a list of texts")
    return value


def _text(item: Any) -> str:
    """An argument as a command line has it; what is not text is written as JSON."""
    return item if isinstance(item, str) else json.dumps(item)


def run_key(output_uri: str, *, title: str) -> RunKey:
    """Who asks: the task, told by the URI that the driver provisions for its output once (``Task.identity``)."""
    return RunKey.of("kfp", {"output": output_uri}, slug=title)
