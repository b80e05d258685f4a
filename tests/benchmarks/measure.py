"""Measuring: a child process a sample, the median of several, so that one slow start decides nothing."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Row", "child", "median_of", "wall"]


@dataclass(frozen=True)
class Row:
    """One line of the table: ours, the other, and whether a stated goal is met."""

    what: str
    ours: str
    other: str
    ratio: str
    goal: str
    met: bool | None


# Installed packages are compiled: a machine that forbids it would have us measure the compiler, with every child anew.
_ENV = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

# Runs in a fresh interpreter: seconds and resident bytes that one import adds on top of another.
_IMPORT = """
import importlib, json, os, time
import psutil
process = psutil.Process()
{before}
time.sleep(0.05)
memory, begun = process.memory_info().rss, time.perf_counter()
{statement}
print(json.dumps([time.perf_counter() - begun, process.memory_info().rss - memory]))
"""


def child(before: str, statement: str) -> tuple[float, float]:
    """(seconds, bytes) that ``statement`` costs in a new interpreter after ``before``."""
    code = _IMPORT.format(before=before, statement=statement)
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=_ENV)
    seconds, memory = json.loads(done.stdout.splitlines()[-1])
    return float(seconds), float(memory)


def median_of(sample: Callable[[], tuple[float, ...]], times: int) -> tuple[float, ...]:
    """The median of each figure over several samples."""
    samples = [sample() for _ in range(times)]
    return tuple(statistics.median(column) for column in zip(*samples, strict=True))


def wall(command: Sequence[str], *, env: dict[str, str] | None = None) -> float:
    """Wall seconds of a whole command."""
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env=env or _ENV)
    return time.perf_counter() - begun
