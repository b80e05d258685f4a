"""Lengths of time as people type them."""

from __future__ import annotations

import pytest

from trainer_ops.cli.durations import seconds
from trainer_ops.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("90", 90),
        ("1.5", 1.5),
        ("30s", 30),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("0.5h", 1800),
        (" 5M ", 300),
        ("0", 0),
    ],
)
def test_seconds(text: str, wanted: float) -> None:
    assert seconds(text, "--x") == wanted


def test_none_is_none() -> None:
    assert seconds(None, "--x") is None


@pytest.mark.parametrize("text", ["", "soon", "10 minutes", "5x", "-3", "1h 30m", "s", "1e3", "inf", "nan", "30s!"])
def test_no_length_of_time(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        seconds(text, "--x")
    assert str(refused.value).startswith(f'invalid request: --x: "{text}" is not a length of time. Write it like')
