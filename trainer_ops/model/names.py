"""Names of TrainJobs: a pure function of who asked and which attempt it is, and short enough for the pods that follow.

The API server allows 63 characters, but a TrainJob becomes a JobSet, and JobSet refuses a name from which the longest
pod name ``<name>-<step>-0-<index>-xxxxx`` would not fit (jobset v0.12, validating webhook). Trainer accepts such a
TrainJob and then never starts it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from trainer_ops.model.identity import RunKey

__all__ = ["MAX_NAME", "job_name", "manifest_job_name", "name_limit", "slug"]

MAX_NAME: Final = 32
"""What we make is never longer: it fits every step of every shipped runtime with up to 100 pods."""

_POD_NAME: Final = 63
_HASH: Final = 8
# Room for "-9999": all attempts that a person will ever see share one readable prefix.
_SLUG: Final = MAX_NAME - _HASH - len("-") - len("-9999")
# The letters of Kubernetes' own random suffixes: no vowels, so no words.
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def slug(text: str, limit: int) -> str:
    """The text as part of a name: ``[a-z0-9-]``, a letter first, no dash last, at most ``limit`` characters."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if not words:
        words = "train"
    elif not words[0].isalpha():
        words = f"t-{words}"
    return words[:limit].rstrip("-")


def name_limit(steps: Iterable[str], max_index: int) -> int:
    """The longest TrainJob name of which JobSet accepts all pods.

    Args:
        steps: names of the runtime's replicatedJobs.
        max_index: the highest completion index in any of them; its digits count.

    Returns:
        48 for ``node``, 44 for ``launcher``, 35 for ``model-initializer``, 33 for ``dataset-initializer``, each with
        indexes of one digit; 63 when there are no steps.
    """
    return _POD_NAME - max((len(f"-{step}-0-{max_index}-xxxxx") for step in steps), default=0)


def job_name(key: RunKey, attempt: int, title: str) -> str:
    """The TrainJob's name: ``<slug>-<hash>``, from the second attempt on ``<slug>-<hash>-<attempt>``."""
    tail = f"-{_hash(key.digest, _HASH)}" + (f"-{attempt}" if attempt > 1 else "")
    return slug(title, min(_SLUG, MAX_NAME - len(tail))) + tail


def manifest_job_name(name: str, attempt: int) -> str:
    """The name of a TrainJob that the user named: as it is, later attempts with ``-<attempt>``.

    A later name is never longer than the user's own or ``MAX_NAME``, whichever is more: where the number does not
    fit, the name is cut and told apart by a hash.
    """
    if attempt <= 1:
        return name
    tail = f"-{attempt}"
    limit = max(len(name), MAX_NAME)
    if len(name) + len(tail) <= limit:
        return name + tail
    tail = f"-{_hash(name, 6)}{tail}"
    return name[: limit - len(tail)].rstrip("-.") + tail


def _hash(text: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
    letters = []
    for _ in range(length):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)
