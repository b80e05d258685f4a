"""The file that a download is written to, from its beginning to its end."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

__all__ = ["open_part", "restart", "write_all"]

# A large write makes Linux take page cache in large pieces (seen with ext4 on 6.18), which a virtual machine may have
# to be given by its host first: small ones are several times faster there, and no slower elsewhere.
_AT_ONCE: Final = 128 << 10


def open_part(part: Path) -> io.FileIO:
    """Open it at its end; made when it is not there. Unbuffered: what was written is what others see."""
    file = io.FileIO(os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b")
    file.seek(0, os.SEEK_END)
    return file


def write_all(file: io.FileIO, data: memoryview | bytes) -> None:
    """Every byte of it: the kernel may take less at once."""
    view = memoryview(data)
    while len(view):
        view = view[cast("int", file.write(view[:_AT_ONCE])) :]


def restart(file: io.FileIO, wrote: Callable[[int], None]) -> int:
    """Throw away what is there; 0, where the next byte goes."""
    have = file.tell()
    file.seek(0)
    file.truncate()
    if have:
        wrote(-have)
    return 0
