"""How a component is declared: a function with a signature, a docstring and no body.

The only module besides the definitions that imports kfp.
"""

from __future__ import annotations

import functools
import inspect
import re
import shlex
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final

from kfp import components, dsl

from trainer_ops.build.image import default_image
from trainer_ops.lifecycle.version import tool_version

__all__ = ["IMAGE", "component", "load", "with_inputs_of"]

# Built from components/Containerfile: Python and trainer-ops, so that a step installs nothing when it starts.
IMAGE: Final = default_image(tool_version())

# KFP's SubprocessRunner takes what names its executor (kfp/local/subprocess_task_handler.py); ours stands in its place.
_IN_PLACE_OF: Final = ("--in_place_of", "kfp.dsl.executor_main")
_INSTALL: Final = "python3 -m pip install --quiet --no-input --disable-pip-version-check --root-user-action=ignore"
# The fields of a task's own configuration that a training takes over, and whether the waiting pod gets them too; one
# that is not listed raises when compiling. The environment goes to both: a script's URI may need its credentials.
_PASSED: Final = {
    "RESOURCES": False,
    "ENV": True,
    "KUBERNETES_AFFINITY": False,
    "KUBERNETES_TOLERATIONS": False,
    "KUBERNETES_NODE_SELECTOR": False,
    "KUBERNETES_VOLUMES": False,
}


def component(function: Callable[..., Any], *, image: str = IMAGE, packages: Sequence[str] = ()) -> Any:
    """The kfp component that a function's signature and docstring declare; its body is never run.

    The process behind it is ``trainer_ops.kfp.executor``, which finds what to do by the function's name. With a
    parameter of type ``dsl.TaskConfig`` all that KFP can hand on of a task's configuration is handed on.

    Args:
        function: what declares it. Outputs are ``dsl.Output[…]`` and ``dsl.OutputPath(…)``.
        image: an image with Python and trainer-ops; kfp is not needed in it.
        packages: requirements installed when the step starts (needs pip and a package index at run time).
    """
    run = ["python3", "-m", "trainer_ops.kfp.executor"]
    args = ["--executor_input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER]
    args += ["--function_to_execute", function.__name__, *_IN_PLACE_OF]
    if packages:
        run = ["sh", "-ec", f'{_INSTALL} {shlex.join(packages)} && exec {shlex.join(run)} "$@"', "sh"]

    @functools.wraps(function)
    def container(*_: Any) -> dsl.ContainerSpec:
        return dsl.ContainerSpec(image=image, command=run, args=args)

    return _passing(dsl.container_component(container))


_INPUT: Final = re.compile(r"^ +(\w+): (.+)$", re.MULTILINE)


def with_inputs_of(other: Callable[..., Any], *, without: Collection[str]) -> Callable[..., Any]:
    """A decorator: the declaring function has the inputs of another one after its own, and their descriptions.

    Args:
        other: a declaring function; its inputs are the parameters that have a default, and ``task_config``.
        without: which of them are left out.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(function).parameters
        taken = {*own, *without}
        more = {
            name: p for name, p in inspect.signature(other).parameters.items() if _is_input(p) and name not in taken
        }
        described = dict(_INPUT.findall(other.__doc__ or ""))
        # A parameter without a default comes before those with one.
        ordered = sorted((*own.values(), *more.values()), key=lambda p: p.default is not inspect.Parameter.empty)
        function.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
        lines = [f"        {name}: {described[name]}" for name in more]
        function.__doc__ = "\n".join(((function.__doc__ or "").rstrip(), *lines))
        return function

    return decorate


def _is_input(parameter: inspect.Parameter) -> bool:
    return parameter.default is not inspect.Parameter.empty or parameter.annotation is dsl.TaskConfig


def load(path: str | Path) -> Any:
    """A component from its compiled ``component.yaml``, or from its text.

    As ``kfp.components.load_component_from_file``, which forgets that a task's configuration is to be handed on (kfp
    2.17.3): a node selector that is set on the task would stay with the waiting pod.

    Args:
        path: of the file.
    """
    return _passing(components.load_component_from_file(str(path)))


def _passing(made: Any) -> Any:
    """Hand all of a task's configuration on to a component that takes it."""
    inputs = made.component_spec.inputs or {}
    if any(spec.type == "TaskConfig" for spec in inputs.values()):
        made.component_spec.task_config_passthroughs = [
            dsl.TaskConfigPassthrough(field=dsl.TaskConfigField[name], apply_to_task=both)
            for name, both in _PASSED.items()
        ]
    return made
