"""Starting the guard and supervisor of one TrainJob, detached from whoever asks for it."""

from __future__ import annotations

import os
import subprocess
import sys

from trainer_ops.local.processes import ENV_JOB, ENV_POD, ON_LINUX
from trainer_ops.local.store import Store

__all__ = ["PACKAGE_ROOT", "isolated", "start_supervisor"]

# The folder that ``import trainer_ops`` finds the package in.
PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
_START_SECONDS = 30


def isolated(module: str, *, paths: tuple[str, ...] = ()) -> str:
    """A program for ``python -c`` that runs ``main(*sys.argv[1:])`` of a module of this package, installed or not."""
    folders = [PACKAGE_ROOT, *(p for p in paths if p != PACKAGE_ROOT)]
    return f"import sys; sys.path[:0] = {folders!r}; from {module} import main; sys.exit(main(*sys.argv[1:]))"


def start_supervisor(store: Store, uid: str, python: str) -> bool:
    """Start the supervisor of a TrainJob; whether that worked. It claims the TrainJob itself.

    It gets this process' environment (what the training inherits), a session of its own, and no file of ours.
    """
    program = isolated("trainer_ops.local.guard", paths=_psutil_folder())
    # -I -S: neither the user's PYTHON* variables nor site-packages' .pth files are for the engine, and each costs time.
    interpreter = python if os.access(python, os.X_OK) else sys.executable
    env = {name: value for name, value in os.environ.items() if name != ENV_POD}
    try:
        with open(f"{store.folder(uid)}/supervisor.log", "ab") as log:
            done = subprocess.run(
                [interpreter, "-I", "-S", "-c", program, store.root, uid],
                env={**env, ENV_JOB: uid},
                cwd=store.root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                timeout=_START_SECONDS,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _psutil_folder() -> tuple[str, ...]:
    if ON_LINUX:
        return ()
    import importlib.util

    spec = importlib.util.find_spec("psutil")
    return (os.path.dirname(os.path.dirname(spec.origin)),) if spec and spec.origin else ()
