"""One line to a chat."""

from __future__ import annotations

import json
import urllib.request
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError

from trainer_ops.errors import TrainerOpsError

__all__ = ["MOST_CHARACTERS", "post_text"]

# What chats cut or refuse.
MOST_CHARACTERS: Final = 3000
_TIMEOUT_SECONDS: Final = 15.0


def post_text(url: str, text: str) -> None:
    """Post ``{"text": …}``, as Slack, Mattermost and Teams take it.

    Raises:
        TrainerOpsError: it was not taken. The URL, which is a secret, is not in the message.
    """
    # urllib opens file:// and ftp:// too: nobody would be told, and nobody would hear of it.
    if not str(url).lower().startswith(("https://", "http://")):
        raise TrainerOpsError("the webhook is no URL that can be posted to", remedy="Write https://host/path")
    data, headers = json.dumps({"text": text[:MOST_CHARACTERS]}).encode(), {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(url, data=data, headers=headers, method="POST")
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):
            return
    # Some of these errors quote the URL.
    except HTTPError as exc:
        reason = str(exc.code)
        exc.close()
    except (OSError, ValueError, HTTPException) as exc:
        reason = type(getattr(exc, "reason", exc)).__name__
    raise TrainerOpsError(f"the webhook did not take the message ({reason})", remedy="Check its URL")
