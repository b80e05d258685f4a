"""WebhookNotifier: one line for a person, in the task's log and wherever a webhook leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseNotifier

from trainer_ops.lifecycle.webhook import MOST_CHARACTERS, post_text

__all__ = ["XCOM_TEXT", "WebhookNotifier"]

# A task that has something to say beside its return value pushes it as this, before it skips itself for instance:
# Airflow hands a callback the error of a failed task, but not the reason of one that was skipped.
XCOM_TEXT = "text"


class WebhookNotifier(BaseNotifier):  # type: ignore[misc]  # Airflow is Any to mypy
    """For ``on_success_callback``, ``on_failure_callback`` and ``on_skipped_callback``.

    Says the task's XCom ``text``, or ``text`` in its return value, or its error, which for a training is the diagnosis.

    Args:
        webhook: where ``{"text": …}`` is posted, as Slack, Mattermost and Teams take it; templated. Empty: only logged.
        text: what to say instead; templated.
    """

    template_fields: Sequence[str] = ("webhook", "text")

    def __init__(self, webhook: str = "", text: str = "") -> None:
        super().__init__()
        self.webhook = webhook
        self.text = text

    def notify(self, context: Mapping[str, Any]) -> None:
        """Say it.

        Raises:
            TrainerOpsError: the webhook did not take it. Airflow writes that to the log; the task ends as it did.
        """
        ti = context["ti"]
        line = f"{ti.dag_id}.{ti.task_id} of {ti.run_id}: {self.text or _said(context)}"[:MOST_CHARACTERS]
        self.log.info("%s", line)
        if self.webhook:
            post_text(self.webhook, line)


def _said(context: Mapping[str, Any]) -> str:
    ti, error = context["ti"], context.get("exception")
    if error is not None:
        return str(error) or type(error).__name__
    found = ti.xcom_pull(task_ids=ti.task_id, key=XCOM_TEXT, map_indexes=_map_index(ti))
    if found is None:
        value = ti.xcom_pull(task_ids=ti.task_id, map_indexes=_map_index(ti))
        found = value.get("text") if isinstance(value, Mapping) else value
    return str(getattr(ti, "state", "") or "done") if found is None else str(found)


def _map_index(ti: Any) -> Any:
    return None if ti.map_index in (None, -1) else ti.map_index
