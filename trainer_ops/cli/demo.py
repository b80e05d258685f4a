"""What ``trainer-ops demo`` trains."""

from __future__ import annotations

import os
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer_ops.model.request import TrainRequest

__all__ = ["demo_request"]

_NODES = 2


def demo_request(*, plain: bool, rounds: int | None = None) -> TrainRequest:
    """A training on two nodes: with xgboost and scikit-learn where they are installed, else in plain Python."""
    from trainer_ops.model.request import ScriptCode, TrainRequest

    rich = not plain and all(find_spec(name) is not None for name in ("xgboost", "sklearn"))
    script = "digits_xgboost.py" if rich else "digits_plain.py"
    source = files("trainer_ops.cli.demos").joinpath(script).read_text(encoding="utf-8")
    state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return TrainRequest(
        name="demo",
        # The runtime that tells each node, in plain variables, where the others are.
        runtime="xgboost-distributed",
        num_nodes=_NODES,
        code=ScriptCode(filename=script, source=source),
        env={} if rounds is None else {"ROUNDS": rounds},
        checkpoint_dir=str(state / "trainer-ops" / "demo"),
    )
