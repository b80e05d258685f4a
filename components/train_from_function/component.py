"""The component ``train_from_function`` for people who load components from files.

``python component.py`` compiles it to component.yaml beside this file; a test holds the two together. From Python,
``trainer_ops.kfp.train_from_function(function, …)`` is the same component with the function's source filled in.
"""

from __future__ import annotations

from pathlib import Path

from kfp import compiler

from trainer_ops.kfp import train_from_function_component

__all__ = ["compile_to", "component"]

component = train_from_function_component()


def compile_to(path: Path) -> None:
    """Write the compiled component."""
    compiler.Compiler().compile(component, str(path))


if __name__ == "__main__":
    compile_to(Path(__file__).with_name("component.yaml"))
