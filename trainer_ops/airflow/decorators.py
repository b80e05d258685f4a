"""``@task.trainjob``: a function of a DAG file that runs as a training.

Airflow finds it through the provider's ``task-decorators``; nothing needs to be imported for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory

from trainer_ops.airflow.compat import exception
from trainer_ops.airflow.operators import TrainJobOperator

if TYPE_CHECKING:
    from trainer_ops.model.outcome import Outcome

__all__ = ["trainjob_task"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
XCOM_OUTCOME = "outcome"


class _TrainJobDecoratedOperator(DecoratedOperator, TrainJobOperator):  # type: ignore[misc]  # Airflow is Any to mypy
    """A TrainJobOperator whose function is called with the arguments of the task's call.

    The return value is what the function returned on rank 0 (whole numbers as floats), and what it reported. The whole
    outcome is the XCom ``outcome``; the others are the operator's.
    """

    custom_operator_name = "@task.trainjob"
    template_fields: Sequence[str] = (*TrainJobOperator.template_fields, "op_args")
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **TrainJobOperator.template_fields_renderers,
        "op_args": "py",
        "op_kwargs": "py",
    }
    # A copy of the operator keeps the function itself: its source is looked up by it.
    shallow_copy_attrs: Sequence[str] = ("python_callable",)

    python_callable: Callable[..., Any]
    op_args: Sequence[Any]

    def __init__(self, *, python_callable: Callable[..., Any], op_kwargs: Any = None, **kwargs: Any) -> None:
        super().__init__(
            python_callable=python_callable,
            op_kwargs=op_kwargs,
            kwargs_to_upstream={"python_callable": python_callable, "op_kwargs": op_kwargs},
            **kwargs,
        )

    def execute(self, context: Mapping[str, Any]) -> Any:
        """Train with the arguments as they are now, rendered and resolved."""
        self.op_kwargs = _named(self.python_callable, self.op_args, self.op_kwargs or {}, context)
        self.op_args = ()
        return super().execute(context)

    def _finish(self, context: Mapping[str, Any], outcome: Outcome) -> Any:
        data = super()._finish(context, outcome)
        if self.do_xcom_push:
            context["ti"].xcom_push(key=XCOM_OUTCOME, value=data)
        return _returned(outcome)


def trainjob_task(
    python_callable: Callable[..., Any] | None = None, multiple_outputs: bool | None = None, **kwargs: Any
) -> Any:
    """Make a function a training; used as ``@task.trainjob(runtime="torch-distributed", num_nodes=2)``.

    The function runs alone, on every node: it imports what it needs inside, its arguments and what it returns are
    plain data. A parameter named like a variable of the task's context (``ds``, ``run_id``) is given its value.

    Args:
        python_callable: the function.
        multiple_outputs: push every key of a returned dict as an XCom of its own; metrics are pushed anyway.
        **kwargs: of ``TrainJobOperator``.
    """
    return task_decorator_factory(
        python_callable=python_callable,
        multiple_outputs=multiple_outputs,
        decorated_operator_class=_TrainJobDecoratedOperator,
        **kwargs,
    )


def _named(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], context: Mapping[str, Any]
) -> dict[str, Any]:
    """All arguments by name: only those travel."""
    parameters = inspect.signature(func).parameters
    places = [name for name, parameter in parameters.items() if parameter.kind in _POSITIONAL]
    if len(args) > len(places):
        raise exception("AirflowFailException")(
            f"invalid request: python_callable: {func.__name__}() takes *args, and arguments travel by name. "
            "Pass a list instead"
        )
    given = {**dict(zip(places, args, strict=False)), **kwargs}
    asked = {name: context[name] for name in parameters if name not in given and name in context}
    return {**asked, **given}


def _returned(outcome: Outcome) -> Any:
    """What the function returned: the launcher has put it into the parts of the result."""
    if "return_value" in outcome.artifacts:
        return outcome.artifacts["return_value"]
    model = {"model_uri": outcome.model_uri} if outcome.model_uri else {}
    return {**outcome.artifacts, **outcome.metrics, **model}
