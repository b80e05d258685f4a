"""Text rules of the kubelet and of the API machinery: ``$(NAME)``, quantities; and paths that mean another one here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil

__all__ = ["Rewrite", "count_of", "expand", "gpus", "quantity"]

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([KMGTPE]i|[numkMGTPE]?))")


def expand(text: str, known: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by a known variable, as the kubelet does.

    ``$$`` is one ``$`` (so ``$$(NAME)`` comes out as ``$(NAME)``); an unknown name stays as it is written.
    """

    def one(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else known.get(name, match.group(0))

    return _REFERENCE.sub(one, text)


def quantity(value: object) -> Fraction | None:
    """A Kubernetes quantity (``500m``, ``1.5``, ``4Gi``, ``1e3``) as a number; None where it is none."""
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    base = Fraction(number)
    if exponent is not None:
        return base * Fraction(10) ** int(exponent)
    if suffix in _BINARY:
        return base * Fraction(1024) ** _BINARY[suffix]
    return base * Fraction(10) ** _DECIMAL[suffix or ""]


def count_of(value: object) -> int:
    """A quantity rounded up to a whole number, as ``Quantity.Value()`` does; 0 for what is absent or no quantity."""
    found = None if value is None else quantity(value)
    return 0 if found is None else ceil(found)


def gpus(resources: Mapping[str, Mapping[str, object]]) -> int:
    """GPUs asked for: the first resource whose name contains ``gpu``, in the requests, else in the limits."""
    for kind in ("requests", "limits"):
        named = [value for name, value in (resources.get(kind) or {}).items() if "gpu" in name.lower()]
        if named and count_of(named[0]):
            return count_of(named[0])
    return 0


class Rewrite:
    """Says for paths and host names of the cluster what they are on this machine.

    Args:
        paths: (path on the cluster, path here) pairs; what lies below a path goes with it.
        hosts: DNS names of pods, without the namespace part.
        address: what these names become.
    """

    def __init__(self, paths: Iterable[tuple[str, str]], hosts: Sequence[str], address: str) -> None:
        # The longest first, so that /workspace/dataset wins over a mount at /workspace.
        self._paths = sorted({p for p in paths if p[0] != p[1]}, key=lambda p: -len(p[0]))
        self._hosts = hosts
        self._address = address
        self._here = dict(self._paths)
        self._path = _path_pattern([source for source, _ in self._paths])
        self._host = _host_pattern(hosts)
        self.used: set[str] = set()

    def __call__(self, text: str) -> str:
        """The text with every such path and name replaced; remembers which in ``used``."""
        if self._path is not None:
            text = self._path.sub(lambda m: self._found(m.group(1), self._here[m.group(1)]), text)
        if self._host is not None:
            text = self._host.sub(lambda m: self._found(m.group(1), self._address), text)
        return text

    def _found(self, source: str, here: str) -> str:
        self.used.add(source)
        return here

    def notes(self) -> list[str]:
        """One sentence for each path that was replaced, and one for the host names."""
        said = [f"{there} is {here} on this machine" for there, here in self._paths if there in self.used]
        if any(name in self.used for name in self._hosts):
            said.append(f"the pods' host names are {self._address} on this machine")
        return said


def _path_pattern(paths: Sequence[str]) -> re.Pattern[str] | None:
    if not paths:
        return None
    # A whole path: not the tail of a longer one (but file:///x is), and not the head of another name.
    names = "|".join(re.escape(p) for p in paths)
    return re.compile(rf"(?:(?<=://)|(?<![\w./-]))({names})(?![\w.-])")


def _host_pattern(hosts: Sequence[str]) -> re.Pattern[str] | None:
    if not hosts:
        return None
    names = "|".join(re.escape(h) for h in sorted(hosts, key=len, reverse=True))
    return re.compile(rf"(?<![\w.-])({names})(?:\.[a-z0-9-]+\.svc(?:\.cluster\.local)?\.?)?(?![\w-]|\.\w)")
