"""Which changes of a command line a finding tells."""

from __future__ import annotations

import json

import pytest

from trainer_ops.migrate.simulate.argv import told

COPY = 'mkdir -p /root/.ssh && install -m 600 /mnt/ssh/id_rsa /root/.ssh/id_rsa || exit\nexec "$@"'


@pytest.mark.parametrize(
    ("before", "after", "codes", "code"),
    [
        pytest.param(["python", "a.py"], ["python", "b.py"], ["TORCHRUN-FLAGS"], "", id="another script"),
        pytest.param(
            ["python", "-u", "a.py"], ["torchrun", "a.py"], ["TORCHRUN-FLAGS"], "TORCHRUN-FLAGS", id="by torchrun"
        ),
        pytest.param(["python", "a.py"], ["torchrun", "a.py"], ["CPU-AUTO"], "", id="without its finding"),
        pytest.param(
            ["mpirun", "a"],
            ["mpirun", "--hostfile", "/etc/mpi/hostfile", "a"],
            ["MPI-OMPI5"],
            "MPI-OMPI5",
            id="a hostfile",
        ),
        pytest.param(
            ["mpirun", "a"], ["mpirun", "--hostfile", "/tmp/hosts", "a"], ["MPI-OMPI5"], "", id="another hostfile"
        ),
        pytest.param(
            ["mpirun", "a"], ["sh", "-c", COPY, "sh", "mpirun", "a"], ["MPI-KEYMODE"], "MPI-KEYMODE", id="a copied key"
        ),
        pytest.param(["mpirun", "a"], ["sh", "-c", COPY, "sh", "mpirun"], ["MPI-KEYMODE"], "", id="and a lost word"),
        pytest.param(
            ["mpirun", "a"],
            ["sh", "-c", COPY, "sh", "mpirun", "--hostfile", "/etc/mpi/hostfile", "a"],
            ["MPI-KEYMODE", "MPI-OMPI5"],
            "MPI-OMPI5",
            id="two findings",
        ),
        pytest.param(
            ["sleep", "365d"],
            ["/usr/sbin/sshd", "-De", "-o", "AuthorizedKeysFile=/mnt/ssh/authorized_keys"],
            ["MPI-KEYMODE", "MPI-SSHD-CMD"],
            "MPI-SSHD-CMD",
            id="two findings in one place",
        ),
        pytest.param(["mpirun", "-np", "2", "a"], ["mpirun", "a"], ["MPI-NP"], "MPI-NP", id="a number"),
        pytest.param(["mpirun", "-np", "2", "a"], ["mpirun"], ["MPI-NP"], "", id="more than the number"),
        pytest.param([], ["x"], [], "", id="an entry point"),
    ],
)
def test_told(before: list[str], after: list[str], codes: list[str], code: str) -> None:
    assert told(json.dumps(before), json.dumps(after), codes, env_shim=True) == code


@pytest.mark.parametrize(
    ("after", "env_shim", "code"),
    [
        pytest.param(["a", "$(RANK)"], False, "ENV-SHIM", id="not filled in"),
        pytest.param(["a", "$(RANK)"], True, "", id="should be filled in"),
        pytest.param(["a", "1"], False, "", id="another number"),
    ],
)
def test_references_without_the_variables(after: list[str], env_shim: bool, code: str) -> None:
    assert told(json.dumps(["a", "0"]), json.dumps(after), [], env_shim=env_shim) == code
