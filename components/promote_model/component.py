"""The component ``promote_model`` for people who load components from files.

``python component.py`` compiles it to component.yaml beside this file; a test holds the two together. From Python,
``from trainer_ops.kfp import promote_model`` is the same component.
"""

from __future__ import annotations

from pathlib import Path

from kfp import compiler

from trainer_ops.kfp import promote_model as component

__all__ = ["compile_to", "component"]


def compile_to(path: Path) -> None:
    """Write the compiled component."""
    compiler.Compiler().compile(component, str(path))


if __name__ == "__main__":
    compile_to(Path(__file__).with_name("component.yaml"))
