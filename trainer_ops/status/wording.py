"""From Kubernetes' long messages to what a person needs; the original goes to the evidence."""

from __future__ import annotations

import re

__all__ = ["clip", "image_trouble", "last_part", "mount_trouble", "quota_trouble", "scheduling_trouble"]

_LONGEST = 200


def clip(text: str, limit: int = _LONGEST) -> str:
    """One line, at most ``limit`` characters, with an ellipsis where it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def last_part(text: str) -> str:
    """What stands after the last ``": "``: Go wraps errors outside in, so the cause comes last."""
    return clip(text.rsplit(": ", 1)[-1])


# First match wins. Texts of containerd and of registries; containerd 2.4 seen.
_PULL = (
    (r"no such host", "the registry's host name is not known (no such host)"),
    (r"authorization failed|unauthorized|no basic auth|access denied|denied:|403 Forbidden|401 Unauthorized",
     "the registry refuses it (no such repository, or no credentials)"),
    (r"toomanyrequests|429|rate limit", "the registry's rate limit is reached"),
    (r"no match for platform|exec format", "it does not exist for this machine's platform"),
    (r"x509|certificate", "the registry's certificate is not trusted"),
    (r"connection refused", "the registry refuses the connection"),
    (r"i/o timeout|deadline exceeded|TLS handshake timeout", "the registry does not answer"),
    (r"no space left", "the node's disk is full"),
    (r"not present with pull policy", "it is not on the node, and the pull policy is Never"),
    (r"not found|manifest unknown|does not exist", "not found"),
)  # fmt: skip
_IMAGE = re.compile(r'[Ii]mage (?:name )?"([^"]+)"')


def image_trouble(message: str) -> str:
    """``image "x" cannot be pulled: not found``."""
    found = _IMAGE.search(message)
    name = f'image "{found[1]}"' if found else "the image"
    if "couldn't parse image name" in message or "invalid reference format" in message:
        return f"{name} is not a valid image name: {last_part(message)}"
    for pattern, words in _PULL:
        if re.search(pattern, message):
            return f"{name} cannot be pulled: {words}"
    cause = message.partition("ErrImagePull: ")[2] or message
    known = not cause or cause.startswith("Back-off pulling image")
    return f"{name} cannot be pulled" if known else f"{name} cannot be pulled: {last_part(cause)}"


def scheduling_trouble(message: str) -> str:
    """``0/3 nodes are available: 3 Insufficient cpu``: without the text about preemption."""
    return clip(re.split(r"\. (?:no new claims|preemption:)", message)[0].rstrip(". "))


def mount_trouble(message: str) -> str:
    """``configmap "absent-cm" not found``, of ``MountVolume.SetUp failed for volume "c" : configmap …``."""
    _, separator, cause = message.partition(" : ")
    return clip(cause if separator else message)


_MORE = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_NEVER = re.compile(
    r"insufficient quota for (\S+) in flavor (\S+),.*podset request \((\S+)\) > maximum capacity \((\S+)\)"
)
_NONE = re.compile(r"resource (\S+) unavailable in ClusterQueue")
_CLOSED = re.compile(r"(LocalQueue|ClusterQueue) (\S+) (doesn't exist|not found|is inactive|is stopped)")
_STATE = {"doesn't exist": "does not exist", "not found": "does not exist"}
_ROOM = re.compile(r"Pending the preemption of (\d+) workload")
_PREFIX = re.compile(r"^couldn't assign flavors to pod set \S+: ")


def quota_trouble(message: str) -> str:
    """Kueue's reason for not admitting a workload, as one clause."""
    if found := _MORE.search(message):
        room = _ROOM.search(message)
        after = (
            f", {room[1]} of lower priority {'is' if room[1] == '1' else 'are'} being stopped for it" if room else ""
        )
        return f"waiting for quota: {found[3]} {found[1]} more needed in flavor {found[2]}{after}"
    if found := _NEVER.search(message):
        return f"can never be admitted: asks for {found[3]} {found[1]}, flavor {found[2]} has at most {found[4]}"
    if found := _NONE.search(message):
        return f"can never be admitted: the ClusterQueue has no quota for {found[1]}"
    if found := _CLOSED.search(message):
        return f"{found[1]} {found[2]} {_STATE.get(found[3], found[3])}"
    return clip(_PREFIX.sub("", message))
