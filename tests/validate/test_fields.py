"""The table of fields is that of the models, and is all that a check needs."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.validate.fields import TARGET, table, written

HINT = "fields.json is not that of the installed kubeflow_trainer_api: write it with `python -m tests.validate.fields`"
EXPRESSION = re.compile(r"(\w[\w-]*|\[(\w[\w-]*)\]|\{(\w[\w-]*)\})!?")
SCALARS = {"text", "int", "number", "bool", "time", "quantity", "int-or-text", "any"}


def test_the_table_is_the_one_of_the_models() -> None:
    assert TARGET.read_text() == written(table()), HINT


def test_every_expression_names_what_is_there() -> None:
    made = table()
    for name, fields in made.items():
        assert name[0].isupper()
        for field, held in fields.items():
            match = EXPRESSION.fullmatch(held)
            assert match, f"{name}.{field}: {held}"
            assert (match[2] or match[3] or match[1]) in made.keys() | SCALARS


def test_a_check_loads_no_models() -> None:
    code = (
        "import sys; from trainer_ops.validate.trainjob import check; from trainer_ops.validate.runtime import "
        "check_runtime; check({'spec': {}}, None); check_runtime({'spec': {}}); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "kubernetes", "yaml", "kubeflow_trainer_api"} & set(loaded)
