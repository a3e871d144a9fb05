"""Looks at a few places of an answer the moment its program says that it is done, while it still runs.

A call of the system that copies an answer is ended by no signal. Whoever has it write DONE first stands still
with a whole answer, whenever it is stopped. What lies at secret places when DONE is seen shows that.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

from search.sandbox.ptrace import SpotReader

_SPOTS = 6  # each read costs the judge some tenths of a microsecond, in which the program runs on
_BYTES = 8
_SHARE = 0.5  # of the calls: a program never knows which
_chance = secrets.SystemRandom()


class Glance:
    """What lay at secret places of an answer.

    Args:
        sizes: bytes of each output.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        room = [(number, size) for number, size in enumerate(sizes) if size >= _BYTES]
        self._sizes = dict(room)
        self._numbers = [number for number, _ in room]
        self._reader = SpotReader(_SPOTS, _BYTES)
        self._places: list[tuple[int, int]] = []
        self._seen = False

    def plan(self) -> None:
        """Choose the places of the next call, or none, before it begins."""
        self._seen, self._places = False, []
        if self._numbers and _chance.random() < _SHARE:
            numbers = _chance.choices(self._numbers, k=_SPOTS)
            self._places = [(n, _chance.randrange(self._sizes[n] - _BYTES + 1)) for n in numbers]

    def take(self, pid: int, addresses: Sequence[int]) -> None:
        """Read the places; `addresses` are those of the outputs."""
        if self._places:
            spots = [addresses[number] + offset for number, offset in self._places]
            self._seen = self._reader.read(pid, spots)

    def differs(self, pieces: Sequence[torch.Tensor]) -> bool:
        """Say whether the answer, as bytes, is not what was seen of it, or was nowhere."""
        if not self._places or not pieces:
            return False
        return not self._seen or any(
            bytes(pieces[number][offset : offset + _BYTES].numpy()) != found
            for (number, offset), found in zip(self._places, self._reader.found(), strict=True)
        )
