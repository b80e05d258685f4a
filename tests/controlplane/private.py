"""Programs that insist on a fixed folder or port of the machine: each runs in namespaces of its own.

So several of them run side by side, and nothing has to be made, or removed, on this machine.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Literal

__all__ = ["END_WITH_US", "way"]

# In front of a program. Entering a user namespace has made the kernel forget what ended it with the test run.
END_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_PROBES = {"mount": ("mount", "-t", "tmpfs", "none", "/etc"), "net": ("true",)}


def way(kind: Literal["mount", "net"]) -> tuple[Sequence[str], str]:
    """How to be allowed a private namespace, or why that is not possible.

    Returns:
        The words in front of ``unshare --mount`` or ``unshare --net``: none for root, a user namespace for others; and
        "", or the reason.
    """
    missing = [name for name in ("unshare", "setpriv") if shutil.which(name) is None]
    if sys.platform != "linux" or missing:
        return (), f"needs Linux with {' and '.join(missing or ['unshare', 'setpriv'])} (util-linux)"
    error = ""
    for words in ((), ("unshare", "--map-root-user")):
        probe = [*words, "unshare", f"--{kind}", *_PROBES[kind]]
        tried = subprocess.run(probe, capture_output=True, text=True, check=False)
        if tried.returncode == 0:
            return words, ""
        error = tried.stderr.strip()
    return (), f"needs a private {kind} namespace, as root or with user namespaces: {error}"
