"""Stands in for Trainer's dataset and model initializer images: copies a folder to where they put what they download.

A program: ``python initializer.py dataset|model TARGET``, run by the test kubelet. ``STORAGE_URI`` ``file:///folder``
is copied; ``hf://org/repo`` and ``s3://bucket/prefix`` are copied from ``$TRAINER_OPS_TEST_HUB/org/repo``: nothing is
downloaded. Any other scheme ends with exit code 1, as the real ones do.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit


def source(uri: str) -> Path:
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(parts.path)
    if parts.scheme in ("hf", "s3"):
        hub = os.environ.get("TRAINER_OPS_TEST_HUB", "")
        return Path(hub or "/nonexistent") / parts.netloc / parts.path.lstrip("/")
    raise SystemExit(f"Exception: Invalid storage URI: {uri}")


def main() -> None:
    uri = os.environ.get("STORAGE_URI", "")
    target = Path(sys.argv[2])
    print(f"Downloading {sys.argv[1]} from {uri} to {target}", flush=True)
    found = source(uri)
    if not found.is_dir():
        raise SystemExit(f"Exception: {uri} not found (no folder {found})")
    shutil.copytree(found, target, dirs_exist_ok=True)
    count = sum(path.is_file() for path in target.rglob("*"))
    print(f"{sys.argv[1].capitalize()} has been downloaded: {count} files", flush=True)


if __name__ == "__main__":
    main()
