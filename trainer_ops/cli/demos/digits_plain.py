"""Two nodes learn to read noisy digits together, with nothing but Python.

Each node draws digits of its own, works out how its answers should change, and the nodes add those changes up over a
socket before each step (an all-reduce), so that they always hold the same model. Rank 0 listens where the runtime says.
"""

from __future__ import annotations

import json
import math
import os
import random
import socket
import struct
import time
from operator import add, mul
from pathlib import Path

import trainer_ops

# 0 to 9, five pixels wide and seven high.
GLYPHS = """
01110 00100 01110 11110 00010 11111 00110 11111 01110 01110
10001 01100 10001 00001 00110 10000 01000 00001 10001 10001
10011 00100 00001 00001 01010 11110 10000 00010 10001 10001
10101 00100 00010 01110 10010 00001 11110 00100 01110 01111
11001 00100 00100 00001 11111 00001 10001 01000 10001 00001
10001 00100 01000 00001 00010 10001 10001 01000 10001 00010
01110 01110 11111 11110 00010 01110 01110 01000 01110 01100
"""
ROWS = [line.split() for line in GLYPHS.split("\n") if line]
DIGITS = [[float(pixel) for row in ROWS for pixel in row[digit]] for digit in range(10)]
NOISE = 0.15
RATE = 1.5


class AllReduce:
    """Adds up lists of numbers over all nodes: rank 0 gathers, adds and sends the sum back."""

    def __init__(self, host: str, port: int, rank: int, nodes: int) -> None:
        self.peers: list[socket.socket] = []
        if rank == 0:
            with socket.create_server((host, port)) as server:
                server.settimeout(120)
                self.peers = [server.accept()[0] for _ in range(nodes - 1)]
        else:
            self.peers = [self._connect(host, port)]
        self.rank = rank

    @staticmethod
    def _connect(host: str, port: int) -> socket.socket:
        give_up = time.monotonic() + 120
        while True:
            try:
                peer = socket.create_connection((host, port), timeout=5)
            except OSError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)
            else:
                peer.settimeout(120)
                return peer

    def add(self, numbers: list[float]) -> list[float]:
        """The sum of these numbers over all nodes, the same on each."""
        code = struct.Struct(f"{len(numbers)}d")
        if self.rank:
            self.peers[0].sendall(code.pack(*numbers))
            return list(code.unpack(self._read(self.peers[0], code.size)))
        for peer in self.peers:
            numbers = list(map(add, numbers, code.unpack(self._read(peer, code.size))))
        for peer in self.peers:
            peer.sendall(code.pack(*numbers))
        return numbers

    @staticmethod
    def _read(peer: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = peer.recv(size - len(data))
            if not part:
                raise ConnectionError("another node went away")
            data += part
        return data


def draw(count: int, seed: int) -> list[tuple[list[float], int]]:
    """So many digits with flipped pixels, and which they are; the last pixel is always on, for the bias."""
    chance = random.Random(seed)
    labels = [chance.randrange(10) for _ in range(count)]
    return [([abs(p - (chance.random() < NOISE)) for p in DIGITS[k]] + [1.0], k) for k in labels]


def guess(model: list[list[float]], pixels: list[float]) -> list[float]:
    """How probable each digit is."""
    scores = [sum(map(mul, weights, pixels)) for weights in model]
    top = max(scores)
    powers = [math.exp(score - top) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def slopes(model: list[list[float]], samples: list[tuple[list[float], int]]) -> list[float]:
    """The loss and how it changes with each weight, added up over the samples: one flat list."""
    loss, grads = 0.0, [[0.0] * 36 for _ in range(10)]
    for pixels, label in samples:
        chances = guess(model, pixels)
        loss -= math.log(max(chances[label], 1e-12))
        for digit, chance in enumerate(chances):
            off = chance - (digit == label)
            grads[digit] = [g + off * p for g, p in zip(grads[digit], pixels, strict=True)]
    return [loss, float(len(samples)), *(g for row in grads for g in row)]


def main() -> None:
    """One node of the training."""
    rank, nodes = int(os.environ["DMLC_TASK_ID"]), int(os.environ["DMLC_NUM_WORKER"])
    nodes_together = AllReduce(os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"]), rank, nodes)
    rounds = int(os.environ.get("ROUNDS", "450"))
    samples = draw(800, seed=rank)
    print(f"node {rank} of {nodes}: {len(samples)} digits of its own", flush=True)
    model = [[0.0] * 36 for _ in range(10)]
    began = time.monotonic()
    for done in range(1, rounds + 1):
        loss, count, *flat = nodes_together.add(slopes(model, samples))
        model = [
            [w - RATE * g / count for w, g in zip(weights, flat[digit * 36 : digit * 36 + 36], strict=True)]
            for digit, weights in enumerate(model)
        ]
        if done % max(1, rounds // 12) == 0:
            print(f"round {done:>3}  loss {loss / count:.3f}", flush=True)
        left = (time.monotonic() - began) / done * (rounds - done)
        if done > rounds // 20:  # before, an estimate would be a guess, and stay on the screen for a while
            trainer_ops.report({"loss": loss / count}, progress=100 * done // rounds, eta_seconds=left)
    tests = draw(300, seed=1000 + rank)
    correct = sum(max(range(10), key=guess(model, pixels).__getitem__) == label for pixels, label in tests)
    right, total = nodes_together.add([float(correct), float(len(tests))])
    if rank == 0:
        path = Path(os.environ.get("TRAINER_OPS_CHECKPOINT_DIR", ".")) / "model.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(model))
        trainer_ops.report({"accuracy": right / total}, model_uri=path.resolve().as_uri(), progress=100)
    print(f"read {right:.0f} of {total:.0f} new digits", flush=True)


main()
