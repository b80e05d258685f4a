"""The names of Airflow that moved between 3.0 and 3.3, each imported from where the installed one has it.

Functions, so that a DAG file pays for none of them.
"""

from __future__ import annotations

from typing import Any

__all__ = ["exception", "settings"]


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
