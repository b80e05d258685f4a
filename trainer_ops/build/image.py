"""The one image of this project: Python, trainer-ops and what reads every kind of source."""

from __future__ import annotations

__all__ = ["default_image"]


def default_image(version: str) -> str:
    """What KFP's steps and the Jobs of snapshots run in, unless they are told another one; built by whoever uses it.

    Its recipe is ``components/Containerfile``. The tag is the version it holds, never "latest": a compiled pipeline
    must run the code that it was tested with.

    Args:
        version: of this package; a local part (``+…``), which no tag can have, is left out.
    """
    # KFP's local runner warns of images without "python" in their name (kfp/local/subprocess_task_handler.py).
    return f"ghcr.io/trainer-ops/trainer-ops:{version.partition('+')[0]}-python3.11"
