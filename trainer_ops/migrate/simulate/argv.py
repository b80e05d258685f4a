"""Which findings tell that a command line differs: of each the words that it takes away, and those that it puts in.

Every other word is a fault of the rules, whatever findings a job has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Final

__all__ = ["told"]

_HOSTFILE: Final = "--hostfile /etc/mpi/hostfile"
_SSHD: Final = "/usr/sbin/sshd -De"
# A line of shell before the command, whose words follow as they were.
_SHELL: Final = 'sh -c {} exec "\\$@" sh'
_COPY: Final = r"mkdir -p /root/\.ssh && install -m 600 \S+ /root/\.ssh/\w+ \|\| exit"
_OWN_MASTER: Final = r'if \[ "\$JOB_COMPLETION_INDEX" = 0 \]; then export PADDLE_MASTER="\$POD_IP_DUMMY:\d+"; fi'
_OPTION: Final = (
    r"--(?:nnodes|nproc[_-]per[_-]node|node[_-]rank|master[_-](?:addr|port)|rdzv[_-]\w+|standalone)(?:=\S+)?"
)
# Options of torchrun, their values behind a blank, and options of the python that it takes the place of.
_LAUNCHED: Final = rf'{_OPTION}|"?\$[({{]?\w+[)}}]?"?|\d+(?::\d+)?|torchrun|\S*python[\d.]*|-[A-Za-z]+'
_NOTHING: Final = "(?!)"
# code -> (what it takes away, what it puts in); words are parted by one blank.
_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "TORCHRUN-FLAGS": (_LAUNCHED, _LAUNCHED),
    "NPROC-TEXT": (_NOTHING, "--nproc_per_node=(?:cpu|gpu)"),
    "PADDLE-MASTER": (_NOTHING, _SHELL.format(_OWN_MASTER)),
    "MPI-OMPI5": (_NOTHING, _HOSTFILE),
    "MPI-KEYMODE": (_NOTHING, rf"{_SHELL.format(_COPY)}|-o AuthorizedKeysFile=\S+"),
    # Of workers that slept until kubectl exec came.
    "MPI-SSHD-CMD": (r"(?:\S+ )*?\S*(?:sleep|tail)(?: \S+)*", _SSHD),
    "MPI-NP": (r"--?n(?:p)? \d+|-c \d+", _NOTHING),
    "MPI-TRANSPORT": (r"--?mca plm_rsh_agent \S+", _NOTHING),
    "MPI-LAUNCHER-ONLY": (_HOSTFILE, _NOTHING),
}
_REFERENCE: Final = re.compile(r"\$\(\w+\)")


def told(before: str, after: str, codes: Collection[str], *, env_shim: bool) -> str:
    """The code that tells what is changed in a command line; "" when one of its changes is told by none.

    Of several it is the first of the table.

    Args:
        before: the words in v1, as JSON.
        after: in v2.
        codes: of the findings that there are.
        env_shim: v1's variables are given; else references to them stay as they are written.
    """
    known = {code: words for code, words in _WORDS.items() if code in codes}
    found = []
    for lost, gained in _changes(before, after):
        if not env_shim and _unfilled(lost, gained):
            found.append("ENV-SHIM")
        elif all(_made_of(text, [words[side] for words in known.values()]) for side, text in enumerate((lost, gained))):
            found += [one for one, words in known.items() if _begins(lost, words[0]) or _begins(gained, words[1])]
        else:
            return ""
    return min(found, key=[*_WORDS, "ENV-SHIM"].index, default="")


def _changes(before: str, after: str) -> Iterator[tuple[str, str]]:
    """What is taken away and what stands there instead."""
    old, new = ([word for text in json.loads(side or "[]") for word in text.split()] for side in (before, after))
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield " ".join(old[i1:i2]), " ".join(new[j1:j2])


def _made_of(text: str, patterns: Collection[str]) -> bool:
    one = "|".join(patterns) or _NOTHING
    return not text or re.fullmatch(rf"(?:{one})(?: (?:{one}))*", text) is not None


def _begins(text: str, pattern: str) -> bool:
    return bool(text) and re.match(rf"(?:{pattern})(?: |$)", text) is not None


def _unfilled(lost: str, gained: str) -> bool:
    """References to variables that v1 gave, where v1 had their values."""
    words = gained.split()
    return len(words) == len(lost.split()) and all(_REFERENCE.search(word) for word in words)
