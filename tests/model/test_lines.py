"""What may be shown of a log line, case by case."""

from __future__ import annotations

import pytest

from trainer_ops.model.lines import clean


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("plain", "plain"),
        ("a\tb", "a       b"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("10%\r50%\r100%", "100%"),
        ("done\r", "done"),
        ("\x1b[2K\r 50%|###", " 50%|###"),
        ("bell\x07 nul\x00 del\x7f csi\x9b", "bell� nul� del� csi�"),
        ("[node] [bold]x[/bold] :smile:", "[node] [bold]x[/bold] :smile:"),
        ("", ""),
    ],
)
def test_a_log_line_is_harmless(line: str, wanted: str) -> None:
    assert clean(line) == wanted
