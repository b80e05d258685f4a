"""``make bench``: every claim about speed and memory, measured in one run and printed as a table."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.kfp_launcher import launcher
from tests.benchmarks.measure import Row, child, median_of, wall
from tests.benchmarks.snapshots import snapshots

PEER = "from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator"


def importing() -> Iterator[Row]:
    """What parsing a DAG file pays for the operator, over ``airflow.sdk`` alone."""
    before = "import airflow.sdk"
    ours, ours_bytes = median_of(lambda: child(before, "from trainer_ops.airflow import TrainJobOperator"), 7)
    peer, peer_bytes = median_of(lambda: child(before, PEER), 7)
    yield Row(
        "import the operator, time",
        f"{ours * 1000:.0f} ms",
        f"KubernetesJobOperator {peer * 1000:.0f} ms",
        f"{ours / peer:.2f} x",
        "< 50 ms",
        ours < 0.05,
    )
    yield Row(
        "import the operator, memory",
        f"{ours_bytes / 1e6:.1f} MB",
        f"KubernetesJobOperator {peer_bytes / 1e6:.1f} MB",
        f"{ours_bytes / peer_bytes:.2f} x",
        "< 5 MB",
        ours_bytes < 5e6,
    )


def starting() -> Iterator[Row]:
    """How long a person waits for ``--help``."""
    folder = Path(sys.executable).parent
    (ours,) = median_of(lambda: (wall([str(folder / "trainer-ops"), "--help"]),), 7)
    (python,) = median_of(lambda: (wall([sys.executable, "-c", "pass"]),), 7)
    (peer,) = median_of(lambda: (wall([sys.executable, "-c", "import kubernetes"]),), 3)
    yield Row(
        "trainer-ops --help",
        f"{ours:.2f} s",
        f"bare python {python:.2f} s",
        f"{ours / python:.1f} x",
        "< 0.3 s",
        ours < 0.3,
    )
    yield Row(
        "trainer-ops --help", f"{ours:.2f} s", f"import kubernetes alone {peer:.2f} s", f"{ours / peer:.2f} x", "", None
    )


WORK = "import sys, time; end = time.perf_counter() + {seconds}\nwhile time.perf_counter() < end: sum(range(1000))"


def engine() -> Iterator[Row]:
    """One training of two nodes on the engine, beside the same two processes started by a shell."""
    import trainer_ops

    for seconds, times in ((0.2, 5), (10.0, 2)):
        code = WORK.format(seconds=seconds)
        with tempfile.TemporaryDirectory() as folder:

            def ours(code: str = code, folder: str = folder) -> tuple[float]:
                begun = time.perf_counter()
                outcome = trainer_ops.run(
                    runtime="plain", command=[sys.executable, "-c", code], num_nodes=2, target=f"local://{folder}"
                )
                assert outcome.succeeded, outcome
                return (time.perf_counter() - begun,)

            ours()
            (mine,) = median_of(ours, times)
            script = Path(folder) / "work.py"
            script.write_text(code)
            both = f'"{sys.executable}" "{script}" & "{sys.executable}" "{script}" & wait'
            (shell,) = median_of(lambda both=both: (wall(["sh", "-c", both]),), times)  # type: ignore[misc]
        more = mine - shell
        met = more < 0.3 if seconds < 1 else more / shell < 0.03
        yield Row(
            f"two nodes of {seconds:g} s on the engine",
            f"{mine:.2f} s",
            f"the shell {shell:.2f} s",
            f"+{more:.2f} s, {mine / shell:.3f} x",
            "< 0.3 s more" if seconds < 1 else "< 3 % more",
            met,
        )


def main() -> int:
    """Print a table for each part as soon as it is measured; 1 when a goal is missed."""
    console = Console(width=int(os.environ.get("COLUMNS", "130")))
    console.print("trainer_ops beside what one would use instead (medians, one run)")
    missed = 0
    for part in (importing, starting, engine, launcher, snapshots):
        # Whoever ends it early has what was measured until then.
        table = Table(title=(part.__doc__ or "").splitlines()[0], title_justify="left")
        for name in ("what", "ours", "other", "ratio", "goal", ""):
            table.add_column(name)
        for row in part():
            mark = "" if row.met is None else "✔" if row.met else "✘"
            missed += row.met is False
            table.add_row(row.what, row.ours, row.other, row.ratio, row.goal, mark)
            console.print(f"· {row.what}: {row.ours} {mark}", style="dim")
        console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
