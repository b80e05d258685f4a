"""One image for all steps, of this version, with everything that they import."""

from __future__ import annotations

import re
from pathlib import Path

from trainer_ops.build.image import default_image
from trainer_ops.lifecycle.version import tool_version

ROOT = Path(__file__).parents[2]


def test_its_tag_is_the_version_without_what_a_tag_cannot_hold() -> None:
    assert default_image("0.1.0") == "ghcr.io/trainer-ops/trainer-ops:0.1.0-python3.11"
    assert default_image("0.2.0+local.1") == default_image("0.2.0")


def test_the_recipe_builds_what_is_asked_for() -> None:
    """From files that are there, under the name that the steps ask for, with the extras of every source."""
    recipe = (ROOT / "components" / "Containerfile").read_text()
    assert f" -t {default_image(tool_version())} ." in recipe
    for copied in re.findall(r"^COPY (.+) \S+$", recipe, re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split())
    assert re.search(r"pip install .*'/src\[initializers,gcs,azure\]'", recipe)
    assert "\nUSER 65532:65532\n" in recipe
