"""``make demo``: one run of the example DAG, with a real training on two nodes of this machine.

Airflow runs ``dags/train_digits.py`` in a process of its own, with its log in a file; this process only looks on, as a
person in another terminal would: it waits for the training to appear on the engine and follows it with ``trainer-ops
wait``. Everything is written below ``.demo``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / ".demo"
HOME = DEMO / "airflow"
ENGINE = DEMO / "engine"
LOG = DEMO / "airflow.log"
RESULT = DEMO / "result.json"
START_SECONDS = 180.0

ENVIRONMENT = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}",
    # The connection decides where it trains: this one says "this machine". The DAG would not change for a cluster.
    "AIRFLOW_CONN_TRAINING": f"trainer-local://{ENGINE}",
}


def run_dag() -> int:
    """In the child: run the DAG in this process and write what its training step returned."""
    from airflow.dag_processing.dagbag import DagBag
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    bag = DagBag(ROOT / "dags", bundle_name="dags-folder")
    if bag.import_errors:
        raise SystemExit(f"the DAG cannot be imported: {bag.import_errors}")
    run = bag.dags["digits"].test(run_conf={"rounds": 40})
    with create_session() as session:
        value = select(XComModel.value).where(XComModel.run_id == run.run_id, XComModel.key == "return_value")
        told = {
            task: [XComModel.deserialize_value(row) for row in session.execute(value.where(XComModel.task_id == task))]
            for task in ("train", "report")
        }
        states = select(TaskInstance.task_id, TaskInstance.state).where(TaskInstance.run_id == run.run_id)
        states = states.order_by(TaskInstance.start_date)
        steps = {row.task_id: str(row.state) for row in session.execute(states)}
    RESULT.write_text(json.dumps({"state": str(run.state), "steps": steps, **told}))
    return 0 if str(run.state) == "success" else 1


def main() -> int:
    """Prepare, start the DAG, look on, say what came out."""
    env = {**os.environ, **ENVIRONMENT}
    shutil.rmtree(ENGINE, ignore_errors=True)
    RESULT.unlink(missing_ok=True)
    HOME.mkdir(parents=True, exist_ok=True)
    with LOG.open("ab") as log:
        if not (HOME / ".migrated").exists():
            say("preparing Airflow's database in .demo (once, about 20 s)")
            subprocess.run(
                [sys.executable, "-m", "airflow", "db", "migrate"], env=env, stdout=log, stderr=log, check=True
            )
            (HOME / ".migrated").touch()
        say("running the DAG dags/train_digits.py; its log: .demo/airflow.log")
        dag = subprocess.Popen([sys.executable, __file__, "--dag"], env=env, cwd=ROOT, stdout=log, stderr=log)
    try:
        name = _training(dag)
        if name:
            say(f"its step `train` became the TrainJob {name}; what follows is `trainer-ops wait {name}`")
            tool = Path(sys.executable).with_name("trainer-ops")
            subprocess.run([tool, "wait", name, "--target", f"local://{ENGINE}"], check=False)
        code = dag.wait()
    except KeyboardInterrupt:
        dag.terminate()
        dag.wait()
        return 130
    return _told(code)


def _training(dag: subprocess.Popen[bytes]) -> str:
    """The name of the TrainJob once the DAG has submitted it; "" when the DAG ends without one."""
    from trainer_ops.lifecycle.target import open_backend

    backend = open_backend(f"local://{ENGINE}")
    end = time.monotonic() + START_SECONDS
    try:
        while time.monotonic() < end:
            jobs = backend.list()
            if jobs:
                return str(jobs[-1]["metadata"]["name"])
            if dag.poll() is not None:
                return ""
            time.sleep(0.1)
    finally:
        backend.close()
    return ""


def _told(code: int) -> int:
    if code or not RESULT.exists():
        say(f"the DAG failed (exit code {code}); the end of {LOG.relative_to(ROOT)}:")
        print("\n".join(LOG.read_text(errors="replace").splitlines()[-15:]))
        return 1
    result = json.loads(RESULT.read_text())
    steps = "   ".join(f"{task} {state}" for task, state in result["steps"].items())
    say(f"the DAG run ended: {result['state']}   ({steps})")
    say(f"its step `report` was given by XCom: {result['report'][0]}")
    return 0


def say(text: str) -> None:
    """One line of ours among what the training prints."""
    print(f"· {text}", flush=True)


if __name__ == "__main__":
    sys.exit(run_dag() if sys.argv[1:] == ["--dag"] else main())
