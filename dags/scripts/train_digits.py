"""Distributed XGBoost on scikit-learn's digits. Shipped to every node; needs xgboost, scikit-learn and trainer_ops.

Kubeflow Trainer's XGBoost runtime says who is who in DMLC_*; the node with task id 0 also runs the tracker through
which all find one another.
"""

import argparse
import os
from pathlib import Path

import xgboost as xgb
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from xgboost import collective
from xgboost.tracker import RabitTracker

import trainer_ops

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS", "20")))
ROUNDS = parser.parse_args().rounds
DEPTH, ETA = int(os.environ.get("DEPTH", "4")), float(os.environ.get("ETA", "0.3"))
NODES = int(os.environ.get("DMLC_NUM_WORKER", "1"))
TASK = int(os.environ.get("DMLC_TASK_ID", "0"))


class Report(xgb.callback.TrainingCallback):
    """Tells after every round how far it is."""

    def after_iteration(self, model, epoch, evals_log):
        """Called by XGBoost; False means go on."""
        loss = evals_log["test"]["mlogloss"][-1]
        print(f"round {epoch + 1:2d}  mlogloss {loss:.3f}", flush=True)
        trainer_ops.report(metrics={"mlogloss": round(float(loss), 4)}, progress=100 * (epoch + 1) // ROUNDS)
        return False


def train() -> None:
    data, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(data, labels, test_size=0.25, random_state=0, stratify=labels)
    mine = xgb.DMatrix(train_x[TASK::NODES], train_y[TASK::NODES])  # each node learns from its own shard
    test = xgb.DMatrix(test_x, test_y)
    settings = {"objective": "multi:softprob", "num_class": 10, "max_depth": DEPTH, "eta": ETA, "nthread": 1}
    model = xgb.train(settings, mine, ROUNDS, evals=[(test, "test")], callbacks=[Report()], verbose_eval=False)
    if collective.get_rank() == 0:
        accuracy = float((model.predict(test).argmax(axis=1) == test_y).mean())
        file = Path(os.environ.get("TRAINER_OPS_CHECKPOINT_DIR", ".")).absolute() / "digits.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        model.save_model(file)
        print(f"accuracy {accuracy:.3f}", flush=True)
        settings = {"depth": DEPTH, "eta": ETA}
        trainer_ops.report({"accuracy": round(accuracy, 4)}, model_uri=file.as_uri(), artifacts=settings, progress=100)


def main() -> None:
    if NODES == 1:
        train()
        return
    host, port = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])
    tracker = RabitTracker(n_workers=NODES, host_ip=host, port=port, sortby="task") if TASK == 0 else None
    if tracker:
        tracker.start()
    # The others may be up before the tracker is: they try again.
    with collective.CommunicatorContext(
        dmlc_tracker_uri=host, dmlc_tracker_port=port, dmlc_task_id=str(TASK), dmlc_retry=60
    ):
        train()
    if tracker:
        tracker.wait_for()


if __name__ == "__main__":
    main()
