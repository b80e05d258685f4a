"""``train_from_function``: a Python function of the pipeline's author, on every node. Signature, see ``definition``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from kfp import dsl
from kfp.dsl import pipeline_channel

from trainer_ops.errors import InvalidRequest
from trainer_ops.kfp.arguments import noted, places
from trainer_ops.kfp.define import IMAGE, component, with_inputs_of
from trainer_ops.kfp.definition import declared_train_job
from trainer_ops.lifecycle.code import function_code

__all__ = ["train_from_function", "train_from_function_component"]

# ruff: noqa: UP045 - Optional is kfp's own spelling
# mypy: disable-error-code="type-arg, no-untyped-def, valid-type"


# Types of values that KFP writes into a mapping without escaping them.
_WHOLE = frozenset({"List", "Dict", "list", "dict"})


@with_inputs_of(declared_train_job, without={"script_uri", "command", "args", "manifest"})
def _declared(
    model: dsl.Output[dsl.Model],
    metrics: dsl.Output[dsl.Metrics],
    report: dsl.Output[dsl.HTML],
    outcome: dsl.OutputPath(dict),
    model_uri: dsl.OutputPath(str),
    function_source: str = "",
    function_name: str = "",
    function_kwargs: Optional[dict] = None,
    function_arguments: str = "",
):
    """Call a Python function on every node of a training, and wait for the end.

    From Python: trainer_ops.kfp.train_from_function(function, kwargs=…, runtime=…), which reads the function's source.

    Args:
        model: where the model is; its metadata has the URI, the TrainJob and the metrics.
        metrics: what the function returned on rank 0, or reported.
        report: the run on one page.
        outcome: the JSON outcome.
        model_uri: where the training says that the model is, "" when it did not say.
        function_source: the function's source; it imports what it needs inside.
        function_name: its name in there.
        function_kwargs: keyword arguments.
        function_arguments: more of them, and types, as trainer_ops.kfp.train_from_function writes it.
    """


_declared.__name__ = "train_from_function"


def train_from_function_component(*, base_image: str = IMAGE, packages_to_install: Sequence[str] = ()) -> Any:
    """The component behind ``train_from_function``, on another image; see ``train_job_component``."""
    return component(_declared, image=base_image, packages=packages_to_install)


_component = train_from_function_component()


def train_from_function(
    function: Callable[..., Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    component: Any = None,
    **inputs: Any,
) -> Any:
    """A pipeline task that calls a function on every node of a training.

    Only the function's source travels: it imports what it needs inside. What would fail for that reason on a node is
    refused here, where the pipeline is written.

    Args:
        function: made with ``def``. What it returns on rank 0 is the result: numbers by name, or ``metrics``,
            ``model_uri`` and ``artifacts``.
        kwargs: its keyword arguments: plain data, and values of the pipeline (parameters, outputs of tasks).
        component: what ``train_from_function_component`` gave, for another image.
        inputs: those of ``train_job`` but script_uri, command, args and manifest.

    Raises:
        InvalidRequest: the function cannot stand alone, or an argument cannot travel.
    """
    given = dict(kwargs or {})
    late = {path: leaf for path, leaf in places(given) if isinstance(leaf, pipeline_channel.PipelineChannel)}
    holding = {str(path[0]) for path in late}
    # The pipeline's values are not known yet: the names are checked now, the values when they are there.
    code = function_code(function, {name: None if name in holding else value for name, value in given.items()})
    for path, leaf in places({name: given[name] for name in holding}):
        if leaf is None:
            where = "python_callable.kwargs." + ".".join(map(str, path))
            raise InvalidRequest(where, "is None beside a value of the pipeline", "Leave it out, or pass it apart")
    for path, leaf in late.items():
        if str(leaf.channel_type) in _WHOLE:
            where = "python_callable.kwargs." + ".".join(map(str, path))
            reason = "is a list or a mapping of the pipeline, which KFP cannot put inside of another (2.17.3)"
            raise InvalidRequest(where, reason, "Pass what it holds one by one, or train_job(script_uri=…, args=…)")
    return (component or _component)(
        function_source=code.source,
        function_name=code.name,
        function_kwargs={name: given[name] for name in sorted(holding)},
        function_arguments=noted(
            {name: value for name, value in code.kwargs.items() if name not in holding},
            {path: (leaf.full_name, str(leaf.channel_type)) for path, leaf in late.items()},
        ),
        **inputs,
    )
