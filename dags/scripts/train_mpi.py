"""Softmax regression on scikit-learn's digits over MPI: each rank has a shard, gradients are averaged. Needs mpi4py."""

import os

import numpy as np
from mpi4py import MPI
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import trainer_ops

WORLD = MPI.COMM_WORLD
STEPS = int(os.environ.get("STEPS", "200"))


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def main() -> None:
    data, labels = load_digits(return_X_y=True)
    split = train_test_split(data / 16, labels, test_size=0.25, random_state=0, stratify=labels)
    train_x, test_x, train_y, test_y = split
    mine_x, mine_y = train_x[WORLD.rank :: WORLD.size], np.eye(10)[train_y[WORLD.rank :: WORLD.size]]
    weights, gradient = np.zeros((64, 10)), np.zeros((64, 10))
    for step in range(1, STEPS + 1):
        WORLD.Allreduce(mine_x.T @ (softmax(mine_x @ weights) - mine_y) / len(mine_x), gradient)
        weights -= gradient / WORLD.size
        if step % 50 == 0 and WORLD.rank == 0:
            print(f"step {step}  gradient {np.abs(gradient).max():.4f}", flush=True)
            trainer_ops.report(progress=100 * step // STEPS)
    print(f"rank {WORLD.rank} of {WORLD.size} on {os.environ.get('HOSTNAME', '?')} is done", flush=True)
    accuracy = float(((test_x @ weights).argmax(axis=1) == test_y).mean())
    # Every rank has the same weights; only rank 0's report counts.
    trainer_ops.report(metrics={"accuracy": round(accuracy, 4), "ranks": WORLD.size}, progress=100)


if __name__ == "__main__":
    main()
