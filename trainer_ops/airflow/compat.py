"""The names of Airflow that moved between 3.0 and 3.3, each imported from where the installed one has it.

Functions, so that a DAG file pays for none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainer_ops.errors import InvalidRequest

__all__ = ["exception", "no_retry", "settings"]


def settings() -> Any:
    """Airflow's configuration: the task SDK's own since 3.2, the core's before."""
    try:
        from airflow.sdk.configuration import conf
    except ImportError:
        from airflow.configuration import conf
    return conf


def exception(name: str) -> Any:
    """One of Airflow's exceptions by its name: in the task SDK since 3.2, in the core before."""
    from airflow.sdk import exceptions

    found = getattr(exceptions, name, None)
    if found is None:
        from airflow import exceptions as core

        found = getattr(core, name)
    return found


@contextmanager
def no_retry() -> Iterator[None]:
    """A mistake in what was asked for fails the task for good: tried again, it would be the same.

    Raises:
        AirflowFailException: in place of an ``InvalidRequest``.
    """
    try:
        yield
    except InvalidRequest as exc:
        raise exception("AirflowFailException")(str(exc)) from exc
