"""What a session prints for a person to type again."""

from __future__ import annotations

import pytest

from trainer_ops.cli.session import notes, typed_line
from trainer_ops.lifecycle.submit import Submitted
from trainer_ops.model.identity import JobRef

TYPED = {
    "as it was": (["run", "-f", "job.yaml"], "trainer-ops run -f job.yaml"),
    "quoted where a shell wants it": (["run", "--", "sh", "-c", "a && b"], "trainer-ops run -- sh -c 'a && b'"),
    "an ordinary variable": (["run", "--env", "A=1"], "trainer-ops run --env A=1"),
    "a secret": (["run", "--env", "HF_TOKEN=abc"], "trainer-ops run --env HF_TOKEN"),
    "a secret with an equals sign": (["run", "--env=DB_PASSWORD=abc"], "trainer-ops run --env=DB_PASSWORD"),
    "a secret in short": (["run", "-e", "API_KEY=abc", "-eMY_SECRET=x"], "trainer-ops run -e API_KEY -eMY_SECRET"),
    "the key of an account": (
        ["init", "-e", "AZURE_STORAGE_ACCOUNT_KEY=abc", "-e", "AZURE_STORAGE_CONNECTION_STRING=AccountKey=abc"],
        "trainer-ops init -e AZURE_STORAGE_ACCOUNT_KEY -e AZURE_STORAGE_CONNECTION_STRING",
    ),
}


@pytest.mark.parametrize(("argv", "wanted"), TYPED.values(), ids=TYPED.keys())
def test_the_line_that_can_be_typed_again(argv: list[str], wanted: str) -> None:
    assert " ".join(typed_line(argv)) == wanted


REF = JobRef("memory://m", "default", "digits-2", "u")
NOTES = {
    "a first attempt needs no words": (Submitted(REF, 1, "created"), []),
    "a second one": (Submitted(REF, 2, "created"), ["attempt 2: the one before did not end well"]),
    "adopted": (Submitted(REF, 2, "adopted"), ["digits-2 is this run and is training already (attempt 2)"]),
    "warnings and what was replaced": (
        Submitted(REF, 1, "created", ("old",), ("warning: x: odd.", "y")),
        ["warning: x: odd.", "warning: y", "old was stopped: this run takes its place"],
    ),
}


@pytest.mark.parametrize(("submitted", "wanted"), NOTES.values(), ids=NOTES.keys())
def test_what_a_person_should_know_of_a_submission(submitted: Submitted, wanted: list[str]) -> None:
    assert notes(submitted) == wanted
