"""The bytes of an exec connection, without a connection."""

from __future__ import annotations

import json

import pytest

from trainer_ops.backends.kubernetes import channels
from trainer_ops.backends.kubernetes.channels import Ending, Inbox, ending
from trainer_ops.errors import BackendError, Forbidden, NotFound, Unreachable

MASK = b"\x01\x02\x03\x04"
WHAT = "running a command in pod team-a/x-node-0-0-abcde"


def said(channel: int, data: bytes, *, opcode: int = 2, final: bool = True) -> bytes:
    """A message of a server."""
    payload = bytes([channel]) + data
    size = len(payload)
    length = bytes([size]) if size < 126 else b"\x7f" + size.to_bytes(8, "big")
    if 126 <= size < 1 << 16:
        length = b"\x7e" + size.to_bytes(2, "big")
    return bytes([(0x80 if final else 0) | opcode]) + length + payload


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536], ids=lambda size: f"{size} bytes")
def test_a_frame_is_masked_and_can_be_read(size: int) -> None:
    payload = bytes(i % 251 for i in range(size))
    made = channels.frame(2, payload, MASK)
    head = {0: 2, 1: 4, 2: 10}[(size >= 126) + (size >= 1 << 16)]
    assert made[0] == 0x82
    assert made[1] & 0x80
    assert made[head : head + 4] == MASK
    assert bytes(byte ^ MASK[i % 4] for i, byte in enumerate(made[head + 4 :])) == payload


def test_what_is_sent() -> None:
    def payload(made: bytes) -> bytes:
        return bytes(byte ^ MASK[i % 4] for i, byte in enumerate(made[6:]))

    assert payload(channels.typed(b"ls\n", MASK)) == b"\x00ls\n"
    assert payload(channels.close_stdin(MASK)) == b"\xff\x00"
    assert payload(channels.resize(100, 40, MASK)) == b'\x04{"Width": 100, "Height": 40}'


@pytest.mark.parametrize("size", [5, 200, 70_000])
@pytest.mark.parametrize("step", [1, 7, 1 << 20], ids=lambda step: f"pieces of {step}")
def test_messages_are_put_together_however_they_come(size: int, step: int) -> None:
    stream = said(1, b"") + said(1, b"o" * size) + said(2, b"\xc3") + said(1, b"x", opcode=1) + b"\x88\x02\x03\xe8"
    inbox = Inbox()
    found = [piece for at in range(0, len(stream), step) for piece in inbox.feed(stream[at : at + step])]
    assert found == [(1, b"o" * size), (2, b"\xc3"), (1, b"x")]
    assert inbox.closed


def test_a_message_in_several_frames_with_a_ping_between() -> None:
    inbox = Inbox()
    stream = said(1, b"one ", final=False) + b"\x89\x02hi" + b"\x80\x03two"
    assert list(inbox.feed(stream)) == [(1, b"one two")]
    assert (inbox.pings, inbox.closed) == ([b"hi"], False)


def test_how_it_ended_is_no_output() -> None:
    inbox = Inbox()
    assert list(inbox.feed(said(3, b'{"status":"Success"}'))) == []
    assert ending(WHAT, inbox.status) == Ending(0)


def failed(message: str, **more: object) -> bytes:
    return json.dumps({"metadata": {}, "status": "Failure", "message": message, **more}).encode()


RUNC = (
    "Internal error occurred: error executing command in container: failed to exec in container: failed to start exec "
    '"0f": OCI runtime exec failed: exec failed: unable to start container process: exec: '
)

ENDINGS = {
    "an exit code": (
        failed(
            "command terminated with non-zero exit code: exit status 3",
            reason="NonZeroExitCode",
            details={"causes": [{"reason": "ExitCode", "message": "3"}]},
        ),
        3,
    ),
    "not in PATH": (failed(RUNC + '"nope": executable file not found in $PATH', reason="InternalError", code=500), 127),
    "no such file": (failed(RUNC + '"/x": stat /x: no such file or directory', reason="InternalError", code=500), 127),
    "not executable": (failed(RUNC + '"/etc/passwd": permission denied', reason="InternalError", code=500), 126),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_endings(case: str) -> None:
    status, code = ENDINGS[case]
    found = ending(WHAT, status)
    assert found.code == code
    assert found.text.startswith("exec: ") == (code in (126, 127))


NOT_RUN: dict[str, tuple[bytes, type[BackendError]]] = {
    "the container has ended": (
        failed(
            "Internal error occurred: error executing command in container: container is in CONTAINER_EXITED state",
            reason="InternalError",
            code=500,
        ),
        NotFound,
    ),
    "the kubelet knows no such container": (failed('container not found ("node")', code=500), NotFound),
    "the node is away": (
        failed("error dialing backend: dial tcp 10.0.0.1:10250: connect: connection refused", code=500),
        Unreachable,
    ),
    "no JSON": (b"upstream connect error", Unreachable),
}


@pytest.mark.parametrize("case", NOT_RUN)
def test_a_command_that_was_not_run_is_an_error(case: str) -> None:
    status, kind = NOT_RUN[case]
    with pytest.raises(kind) as caught:
        ending(WHAT, status)
    assert WHAT in str(caught.value)


def test_a_user_who_may_not() -> None:
    text = (
        'pods "x" is forbidden: User "ann" cannot create resource "pods/exec" in API group "" in the namespace "team-a"'
    )
    error = channels.refusal(WHAT, 403, failed(text, reason="Forbidden", code=403))
    assert isinstance(error, Forbidden)
    assert "creating pods/exec in namespace team-a as ann" in str(error)
