"""Two nodes grow boosted trees together on scikit-learn's handwritten digits: XGBoost's own all-reduce between them."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy
import xgboost
from sklearn.datasets import load_digits
from xgboost.tracker import RabitTracker

import trainer_ops


class Report(xgboost.callback.TrainingCallback):  # type: ignore[misc]
    """Says how far it is after each round."""

    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.rounds, self.began = rounds, time.monotonic()

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        """Called by XGBoost; False goes on."""
        done = epoch + 1
        loss = evals_log["test"]["mlogloss"][-1]
        if done % max(1, self.rounds // 12) == 0:
            print(f"round {done:>3}  mlogloss {loss:.3f}", flush=True)
        left = (time.monotonic() - self.began) / done * (self.rounds - done)
        if done > self.rounds // 20:  # before, an estimate would be a guess, and stay on the screen for a while
            trainer_ops.report({"mlogloss": loss}, progress=100 * done // self.rounds, eta_seconds=left)
        return False


def train(rank: int, nodes: int, rounds: int) -> None:
    """Train on this node's part of the digits; rank 0 keeps the model, which is the same on all."""
    digits = load_digits()
    test = numpy.arange(len(digits.target)) % 5 == 0
    mine = ~test & (numpy.arange(len(digits.target)) % nodes == rank)
    print(f"node {rank} of {nodes}: {mine.sum()} digits of its own", flush=True)
    train_set = xgboost.DMatrix(digits.data[mine], digits.target[mine], nthread=1)
    test_set = xgboost.DMatrix(digits.data[test], digits.target[test], nthread=1)
    params = {"objective": "multi:softprob", "num_class": 10, "max_depth": 4, "eta": 0.05, "nthread": 1}
    model = xgboost.train(
        params, train_set, rounds, evals=[(test_set, "test")], callbacks=[Report(rounds)], verbose_eval=False
    )
    right = (model.predict(test_set).argmax(axis=1) == digits.target[test]).mean()
    if rank == 0:
        path = Path(os.environ.get("TRAINER_OPS_CHECKPOINT_DIR", ".")) / "model.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save_model(path)
        trainer_ops.report({"accuracy": float(right)}, model_uri=path.resolve().as_uri(), progress=100)
    print(f"reads {100 * right:.1f} % of new digits", flush=True)


def join(rank: int, host: str, port: int) -> None:
    """Join the other nodes; rank 0's tracker may not listen yet, and XGBoost's own patience waits in long steps."""
    warnings.filterwarnings("ignore", module="xgboost.collective")
    give_up = time.monotonic() + 120
    while True:
        try:
            xgboost.collective.init(dmlc_tracker_uri=host, dmlc_tracker_port=port, dmlc_task_id=str(rank), dmlc_retry=1)
        except xgboost.core.XGBoostError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)
        else:
            return


def main() -> None:
    """One node of the training; rank 0 also runs the tracker at which the nodes find each other."""
    rank, nodes = int(os.environ["DMLC_TASK_ID"]), int(os.environ["DMLC_NUM_WORKER"])
    host, port = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])
    tracker = RabitTracker(n_workers=nodes, host_ip=host, port=port) if rank == 0 else None
    if tracker is not None:
        tracker.start()
    join(rank, host, port)
    train(rank, nodes, int(os.environ.get("ROUNDS", "480")))
    xgboost.collective.finalize()
    if tracker is not None:
        tracker.wait_for()


main()
