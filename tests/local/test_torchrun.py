"""A real torchrun on the engine, where PyTorch is: two nodes of two processes, one all-reduce.

Debian's python3-torch will do (``apt-get install python3-torch``). Its torchrun 1.13 needs PET_REDIRECTS and PET_TEE on
Python 3.11; newer ones do not mind them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import trainer_ops
from trainer_ops.local.engine import LocalBackend

pytestmark = pytest.mark.slow

CODE = """
import os
import torch
import torch.distributed as dist
from trainer_ops import report

dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
rank, world, node = dist.get_rank(), dist.get_world_size(), os.environ["GROUP_RANK"]
print(f"rank {rank} of {world} on node {node} sum {value.item():g}", flush=True)
report({"sum": value.item(), "world": world})
dist.destroy_process_group()
"""


def torchrun() -> str:
    found = shutil.which("torchrun", path=f"{Path(sys.executable).parent}:/usr/bin:/usr/local/bin")
    if found is None:
        pytest.skip("PyTorch is not installed on this machine")
    return found


def test_two_nodes_of_two_processes(local_trainer: LocalBackend, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(CODE)
    outcome = trainer_ops.run(
        runtime="torch-distributed",
        command=[torchrun(), str(script)],
        num_nodes=2,
        num_proc_per_node=2,
        env={"PET_REDIRECTS": 1, "PET_TEE": 1, "PYTHONPATH": str(Path(__file__).parents[2])},
        target=local_trainer.target,
    )
    text = "\n".join(line for _, line in trainer_ops.logs(outcome.name, target=local_trainer.target))
    assert outcome.succeeded, f"{outcome.diagnosis}\n{text}"
    assert outcome.metrics == {"sum": 10.0, "world": 4.0}
    for rank in range(4):
        assert f"rank {rank} of 4 on node {rank // 2} sum 10" in text


def test_shipped_code_is_started_by_torchrun(local_trainer: LocalBackend, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(CODE)
    folder = Path(torchrun()).parent
    python = folder / "python3"
    if subprocess.run([str(python), "-c", "import torch"], capture_output=True, check=False).returncode:
        pytest.skip("torchrun's own interpreter is not beside it")
    outcome = trainer_ops.run(
        runtime="torch-distributed",
        script=str(script),
        num_nodes=2,
        num_proc_per_node=2,
        env={"PET_REDIRECTS": 1, "PET_TEE": 1, "PATH": f"{folder}:/usr/bin:/bin"},
        target=local_trainer.target,
    )
    assert outcome.succeeded, str(outcome.diagnosis)
    assert outcome.metrics == {"sum": 10.0, "world": 4.0}
