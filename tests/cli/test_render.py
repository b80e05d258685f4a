"""The pictures: a status line at every width, the ends, the tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trainer_ops.cli.glance import Glance, NodeRow
from trainer_ops.cli.render import Signs, best_metric, ended, failure, one_training, status_line, trainings_table
from trainer_ops.cli.text import cut, fold, number_text, plain, roughly, wide, wrap
from trainer_ops.model.outcome import Category, Diagnosis, Outcome
from trainer_ops.model.phase import Phase, State

T0 = 1_800_000_000.0
RUNNING = Glance(
    "digits-4f2a",
    State(Phase.RUNNING),
    at=T0 + 42,
    created_at=T0,
    started_at=T0 + 2,
    percentage=71,
    eta=17.0,
    reported_at=T0 + 42,
    metrics={"lr": 0.1, "loss": 0.1134},
    num_nodes=2,
    runtime="xgboost-distributed",
)
QUEUED = Glance(
    "digits-4f2a",
    State(Phase.QUEUED, "Pending", "waiting for quota: 200m cpu more needed in default (Kueue, queue team-a)"),
    at=T0 + 3,
    created_at=T0,
)

LINES = {
    "100 has room for all": (
        RUNNING, 100,
        "digits-4f2a  running     0:42  ━━━━━━━━━━━━━━━━━━━━━╸────────   71 %  about 17 s left   loss 0.1134",
    ),
    "80 has a shorter bar": (
        RUNNING, 80, "digits-4f2a  running     0:42  ━━━━━━━━───   71 %  about 17 s left   loss 0.1134",
    ),
    "70 has no metric": (RUNNING, 70, "digits-4f2a  running     0:42  ━━━━━━━━━━╸────   71 %  about 17 s left"),
    "60 has the shorter of both": (RUNNING, 60, "digits-4f2a  running     0:42  ━━━━━╸──   71 %   loss 0.1134"),
    "40 has the percentage": (RUNNING, 40, "digits-4f2a  running     0:42   71 %"),
    "a detail in full": (
        QUEUED, 120,
        "digits-4f2a  queued      0:03  waiting for quota: 200m cpu more needed in default (Kueue, queue team-a)",
    ),
    "a detail cut": (QUEUED, 60, "digits-4f2a  queued      0:03  waiting for quota: 200m cpu…"),
    "no room for a detail": (QUEUED, 33, "digits-4f2a  queued      0:03"),
    "running without progress": (replace(RUNNING, percentage=None), 80, "digits-4f2a  running     0:42  2 nodes"),
    "one node": (replace(RUNNING, percentage=None, num_nodes=1), 80, "digits-4f2a  running     0:42  1 node"),
    "an old estimate shrinks": (
        replace(RUNNING, at=T0 + 52), 80,
        "digits-4f2a  running     0:52  ━━━━━━━━╸───   71 %  about 7 s left   loss 0.1134",
    ),
    "restarting keeps the bar": (
        replace(RUNNING, state=State(Phase.RESTARTING)), 60,
        "digits-4f2a  restarting  0:42  ━━━━━╸──   71 %   loss 0.1134",
    ),
    "a long name is cut": (
        replace(RUNNING, name="a-very-long-name-of-a-training-job"), 60,
        "a-very-long-name-of-a-t…  running     0:42  ━━━━━━╸──   71 %",
    ),
    "hours": (replace(RUNNING, percentage=None, at=T0 + 7325), 80, "digits-4f2a  running     2:02:05  2 nodes"),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "width", "wanted"), LINES.values(), ids=LINES.keys())
def test_a_status_line(seen: Glance, width: int, wanted: str) -> None:
    line = plain(status_line(seen, width, Signs()))
    assert line == wanted
    assert wide(line) <= width


@pytest.mark.parametrize("percentage", [None, 0, 1, 50, 99, 100, 250])
def test_a_status_line_never_takes_more_than_its_width(percentage: int | None) -> None:
    seen = replace(RUNNING, percentage=percentage)
    too_wide = [w for w in range(36, 160) if wide(plain(status_line(seen, w, Signs()))) > w]
    assert not too_wide


def test_a_terminal_without_utf8_gets_ascii() -> None:
    line = plain(status_line(RUNNING, 100, Signs.of("ascii"))) + plain(status_line(QUEUED, 50, Signs.of("latin-1")))
    assert line.isascii()


OUTCOME = Outcome(
    "digits-4f2a",
    "default",
    "u",
    "local:///x",
    Phase.SUCCEEDED,
    started_at="2027-01-15T08:00:02Z",
    finished_at="2027-01-15T08:01:01Z",
    metrics={"loss": 0.1, "accuracy": 0.9512},
    model_uri="file:///models/model.json",
)


def test_a_success_is_one_line() -> None:
    (line,) = map(plain, ended(OUTCOME, RUNNING, 59.0, 99, Signs()))
    assert line == "✔ digits-4f2a trained in 0:59 on 2 nodes   accuracy 0.9512   model file:///models/model.json"


def test_a_success_that_reported_nothing() -> None:
    (line,) = map(plain, ended(replace(OUTCOME, metrics={}, model_uri=None), None, None, 99, Signs()))
    assert line == "✔ digits-4f2a trained"


def test_a_model_that_has_no_room_gets_a_line_of_its_own() -> None:
    assert list(map(plain, ended(OUTCOME, RUNNING, 59.0, 79, Signs()))) == [
        "✔ digits-4f2a trained in 0:59 on 2 nodes   accuracy 0.9512",
        "  model file:///models/model.json",
    ]


def block(**changes: Any) -> str:
    steps = [("again", "trainer-ops run --runtime torch-distributed -- train.py"), ("logs", "trainer-ops logs x")]
    outcome = replace(OUTCOME, **{"phase": Phase.FAILED, "metrics": {}, "model_uri": None, **changes})
    return "\n".join(plain(line).rstrip() for line in failure(outcome, 21.0, 79, Signs(), steps))


def test_a_failure_says_what_why_and_what_to_do() -> None:
    diagnosis = Diagnosis(
        Category.RESTARTS_EXHAUSTED,
        "the training script ended with exit code 3 on node-1; max_restarts=2 was reached and it was cancelled",
        (
            "last lines of node-1:",
            "  Traceback (most recent call last): \x1b[31m…",
            "  FileNotFoundError: /data/train.csv",
        ),
        "Check the path in --data; nothing is mounted at /data.",
    )
    assert (
        block(diagnosis=diagnosis)
        == """\
✘ digits-4f2a failed after 0:21 (restarts_exhausted)
  what    the training script ended with exit code 3 on node-1; max_restarts=2
          was reached and it was cancelled
  why     last lines of node-1:
            Traceback (most recent call last): …
            FileNotFoundError: /data/train.csv
  do      Check the path in --data; nothing is mounted at /data.
  again   trainer-ops run --runtime torch-distributed -- train.py
  logs    trainer-ops logs x"""
    )


HEADS = {
    "cancelled": (Phase.DELETED, Category.DELETED, "✘ digits-4f2a was cancelled after 0:21 (deleted)"),
    "superseded": (
        Phase.DELETED,
        Category.SUPERSEDED,
        "✘ digits-4f2a was replaced by a newer run after 0:21 (superseded)",
    ),
    "gave up": (Phase.RUNNING, Category.DEADLINE, "■ gave up waiting for digits-4f2a after 0:21 (deadline)"),
    "unreachable": (Phase.RUNNING, Category.UNREACHABLE, "■ lost sight of digits-4f2a after 0:21 (unreachable)"),
}


@pytest.mark.parametrize(("phase", "category", "wanted"), HEADS.values(), ids=HEADS.keys())
def test_each_ending_has_its_head(phase: Phase, category: Category, wanted: str) -> None:
    assert block(phase=phase, diagnosis=Diagnosis(category, "x")).split("\n")[0] == wanted


def test_a_failure_nobody_diagnosed() -> None:
    assert block().split("\n")[0] == "✘ digits-4f2a failed after 0:21"


FAILED = Glance(
    "retrain-recommender-embeddings-nightly-7c1d",
    State(Phase.FAILED, "FailedJobs", "jobset failed"),
    at=T0 + 9000,
    created_at=T0,
    started_at=T0 + 2,
    finished_at=T0 + 4000,
    num_nodes=16,
    runtime="torch-distributed",
    nodes=(NodeRow("node-0", "done", 0, 0), NodeRow("node-1", "failed", 2, 137, "OOMKilled")),
)


def test_the_table_fits_a_hundred_columns() -> None:
    rows = [replace(RUNNING, at=T0 + 42), replace(QUEUED, name="q"), FAILED]
    lines = [plain(line).rstrip() for line in trainings_table(rows, now=T0 + 9000, width=100, full=False)]
    assert lines == [
        "NAME                                         STATE    NODES    AGE     TOOK",
        "digits-4f2a                                  running      2  2.5 h  2:29:58  71 %  about 17 s left…",
        "q                                            queued          2.5 h           waiting for quota: 200…",
        "retrain-recommender-embeddings-nightly-7c1d  failed      16  2.5 h  1:06:38  exit code 137 on node-…",
    ]
    assert max(map(wide, lines)) <= 100


def test_a_narrow_table_cuts_the_name() -> None:
    lines = [plain(line).rstrip() for line in trainings_table([FAILED], now=T0 + 9000, width=60, full=False)]
    assert lines[1] == "retrain-recomm…  failed     16  2.5 h  1:06:38  exit code 1…"


def test_a_wide_table_cuts_nothing() -> None:
    lines = [plain(line) for line in trainings_table([QUEUED, FAILED], now=T0 + 9000, width=100, full=True)]
    assert QUEUED.state.detail in lines[1]
    assert "torch-distributed" in lines[2]


def test_one_training_shows_its_nodes() -> None:
    seen = replace(FAILED, identity="cli: key=nightly", uid="u-1", attempt=2, metrics={"loss": 0.5})
    lines = [plain(line).rstrip() for line in one_training(seen, "local:///x", 99, Signs())]
    assert lines == [
        "retrain-recommender-embeddings-nightly-7c1d  failed      1:06:40  jobset failed",
        "  run      cli: key=nightly   attempt 2",
        "  runtime  torch-distributed   16 nodes",
        "  where    local:///x   uid u-1",
        "  metrics  loss 0.5",
        "  NODE    STATE   RESTARTS  EXIT",
        "  node-0  done           0     0",
        "  node-1  failed         2   137  OOMKilled",
    ]


METRICS = {
    "a loss while it trains": ({"lr": 0.1, "val_loss": 0.5, "accuracy": 0.9}, True, "val_loss 0.5"),
    "an accuracy when it has": ({"loss": 0.5, "val_accuracy": 0.9}, False, "val_accuracy 0.9"),
    "else the first": ({"bleu": 31.25, "lr": 0.1}, False, "bleu 31.25"),
    "none": ({}, True, ""),
    "text": ({"note": "a\x1b[2Jb"}, True, "note ab"),
}


@pytest.mark.parametrize(("metrics", "running", "wanted"), METRICS.values(), ids=METRICS.keys())
def test_the_metric_there_is_room_for(metrics: dict[str, float | str], running: bool, wanted: str) -> None:
    assert best_metric(metrics, running=running) == wanted


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (3.0, "3"),
        (0.951234, "0.9512"),
        (123456.789, "123457"),
        (1.5e12, "1500000000000"),
        (1.5e20, "1.5e+20"),
        (1e-7, "1e-07"),
        ("NaN", "NaN"),
    ],
)
def test_numbers_for_people(value: float | str, wanted: str) -> None:
    assert number_text(value) == wanted


@pytest.mark.parametrize(
    ("seconds", "wanted"), [(0.2, "0 s"), (17.4, "17 s"), (200, "3 min"), (9000, "2.5 h"), (400000, "4.6 d")]
)
def test_estimates(seconds: float, wanted: str) -> None:
    assert roughly(seconds) == wanted


def test_wide_characters_take_two_columns() -> None:
    assert (wide("学習"), cut("学習データ", 5)) == (4, "学習…")


def test_a_word_longer_than_the_line_stays_whole() -> None:
    assert wrap("see /a/very/long/path/of/a/file now", 12, "  ") == ["see", "  /a/very/long/path/of/a/file", "  now"]


def test_a_long_line_of_evidence_is_folded_under_itself() -> None:
    assert fold("  FileNotFoundError: /data/train.csv", 20) == ["  FileNotFoundError:", "    /data/train.csv"]
    assert fold("short", 20) == ["short"]
    assert "".join(fold("x" * 50, 20)).replace(" ", "") == "x" * 50
