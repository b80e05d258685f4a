"""For your own tests: a target in memory, a clock that does not wait, and a pytest plugin.

Public. What is here obeys the same contract as a cluster (``tests/backends`` proves it), so a DAG, a component or a
front end can be tested without one and without sleeping. Nothing of the package itself may import it. May import:
``lifecycle`` and everything below it; pytest only in ``plugin``.
"""

from trainer_ops.testing.clock import VirtualClock
from trainer_ops.testing.memory import MemoryBackend
from trainer_ops.testing.training import Training

__all__ = ["MemoryBackend", "Training", "VirtualClock"]
