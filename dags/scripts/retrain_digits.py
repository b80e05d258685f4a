"""What dags/scheduled_retraining.py runs: training and evaluation of a classifier of digits. Needs xgboost and numpy.

    python retrain_digits.py data FOLDER [ROWS]     scikit-learn's digits as a CSV file, to have something to train on
    python retrain_digits.py train                  from $TRAINER_OPS_DATASET_DIR
    python retrain_digits.py evaluate               $MODEL_URI, and $CHAMPION_URI if there is one, on the same rows

Every fifth row is held out, told by its content: the same row is held out from every training, so no champion has seen
what it is judged by, however the data grow.
"""

import os
import sys
import zlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import xgboost as xgb

import trainer_ops


def data(folder: str, rows: int = 1797) -> None:
    from sklearn.datasets import load_digits

    values, labels = load_digits(return_X_y=True)
    Path(folder).mkdir(parents=True, exist_ok=True)
    np.savetxt(Path(folder) / "digits.csv", np.column_stack([labels, values])[:rows], fmt="%d", delimiter=",")


def load(*, held_out: bool) -> xgb.DMatrix:
    lines = [
        line for file in sorted(Path(os.environ["TRAINER_OPS_DATASET_DIR"]).rglob("*.csv")) for line in file.open()
    ]
    chosen = [line for line in lines if (zlib.crc32(line.strip().encode()) % 5 == 0) is held_out]
    table = np.array([line.split(",") for line in chosen], dtype=float)
    return xgb.DMatrix(table[:, 1:], table[:, 0])


def train() -> None:
    rows, rounds = load(held_out=False), int(os.environ.get("ROUNDS", "20"))
    settings = {"objective": "multi:softprob", "num_class": 10, "max_depth": 4, "eta": 0.3, "nthread": 1, "seed": 0}
    model = xgb.train(settings, rows, rounds)
    file = Path(os.environ.get("TRAINER_OPS_CHECKPOINT_DIR", ".")).absolute() / "digits.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    model.save_model(file)
    print(f"trained on {rows.num_row()} rows", flush=True)
    trainer_ops.report(metrics={"rows": rows.num_row()}, model_uri=file.as_uri(), progress=100)


def evaluate() -> None:
    rows = load(held_out=True)
    metrics = {"accuracy": accuracy(os.environ["MODEL_URI"], rows), "held_out": rows.num_row()}
    if os.environ.get("CHAMPION_URI"):
        metrics["champion_accuracy"] = accuracy(os.environ["CHAMPION_URI"], rows)
    print(metrics, flush=True)
    trainer_ops.report(metrics=metrics, progress=100)


def accuracy(uri: str, rows: xgb.DMatrix) -> float:
    if urlsplit(uri).scheme in ("", "file"):
        content = Path(unquote(urlsplit(uri).path)).read_bytes()
    else:
        import fsspec

        with fsspec.open(uri, "rb") as file:
            content = file.read()
    model = xgb.Booster({"nthread": 1}, model_file=bytearray(content))
    return round(float((model.predict(rows).argmax(axis=1) == rows.get_label()).mean()), 4)


if __name__ == "__main__":
    {"data": data, "train": train, "evaluate": evaluate}[sys.argv[1]](*sys.argv[2:3], *map(int, sys.argv[3:]))
