"""``--env`` of the commands that a Job may have to do on a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence

from trainer_ops.backends.base import Backend
from trainer_ops.errors import InvalidRequest

__all__ = ["step_env"]


def step_env(items: Sequence[str] | None, backend: Backend) -> dict[str, str]:
    """The variables that were typed; ``K`` alone takes the value that K has here.

    Raises:
        InvalidRequest: field ``--env``: no name, no value, or a secret, where a Job would show it.
    """
    from trainer_ops.cli.inputs import pairs
    from trainer_ops.cli.session import SECRET
    from trainer_ops.lifecycle.snapshots import made_here

    env = pairs(items, "--env", environ=os.environ)
    secret = next((name for name in env if SECRET.search(name)), None)
    if secret is not None and not made_here(backend):
        raise InvalidRequest(
            "--env",
            f"{secret} would stand readable in the Job",
            f"kubectl create secret generic NAME -n {backend.namespace} --from-literal={secret}=…, "
            "and give --secret NAME",
        )
    return env
