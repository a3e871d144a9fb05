"""Secret seeds, and generators that are worth them.

`torch.manual_seed` on a processor keeps 32 bits of a seed (a 40-bit seed and its lower 32 bits draw the
same), and a GPU tries 2^32 of them in a second. So the whole state of the generator, a Mersenne twister
of 624 words, is made from the seed: nothing shorter than the seed itself can be searched.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

_BITS = 63  # what torch takes for a device, too
_WORDS = 624
# The state of a processor's generator as torch keeps it (at::mt19937 behind THGeneratorState): seed,
# words left of this round, whether it was seeded, the next word, then 624 words of 64 bits.
_LEFT, _SEEDED, _NEXT, _STATE = 8, 12, 16, 24


def secret() -> int:
    """Return a seed that nobody can know or derive from another one."""
    return secrets.randbits(_BITS)


def generator(device: torch.device | str, seed: int) -> torch.Generator:
    """Return a generator on `device` whose whole state follows from `seed`."""
    made = torch.Generator(device).manual_seed(seed)
    if made.device.type == "cpu":
        made.set_state(_filled(made.get_state(), seed))
    return made


@contextmanager
def seeded(seed: int, device: str = "cpu") -> Iterator[None]:
    """Draw from torch's default generators under `seed`, and leave them as they were.

    Args:
        device: "cuda" for the generators of its devices besides the processor's.
    """
    if device != "cpu":
        with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
            torch.cuda.manual_seed_all(seed)
            with seeded(seed):
                yield
        return
    # `torch.manual_seed` takes 2 ms here: without a GPU it keeps the stack of each call for when one is found.
    ours = torch.default_generator
    before = ours.get_state()
    ours.manual_seed(seed)
    ours.set_state(_filled(ours.get_state(), seed))
    try:
        yield
    finally:
        ours.set_state(before)


def drawn_on(device: str, draw: Callable[[], Any]) -> Callable[[], Any]:
    """Return `draw` made to draw on the device, or `draw` itself where it cannot.

    A processor takes some ten seconds for the numbers of six gigabytes, and judging asks for them seven
    times. What has a generator of its own, takes numbers from elsewhere, or differs under one seed, stays
    on the processor.
    """
    if device == "cpu":
        return draw

    def there() -> Any:
        with torch.device(device):
            return draw()

    def kept() -> Any:
        try:
            return there()
        except torch.OutOfMemoryError:  # what is cached is not free
            torch.cuda.empty_cache()
            return there()

    try:
        same = _drawn_alike(there, device)
    except (Exception, SystemExit):  # noqa: BLE001 - if it fails on the processor too, the user is told then
        return draw
    return kept if same else draw


def _drawn_alike(draw: Callable[[], Any], device: str) -> bool:
    """Say whether two draws under one seed are the same."""
    pair = []
    for _ in range(2):
        with seeded(0, device):
            pair.append(draw())
    return all(
        torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
        for one, other in zip(*pair, strict=True)
    )


def _filled(state: torch.Tensor, seed: int) -> torch.Tensor:
    """Return a freshly seeded `state` with all of its words made from `seed`."""
    filled = state.clone()
    words = hashlib.shake_256(b"kb" + seed.to_bytes(16, "little")).digest(4 * _WORDS)
    values = torch.frombuffer(bytearray(words), dtype=torch.int32)
    wide = filled[_STATE : _STATE + 8 * _WORDS].view(torch.int64)
    wide.copy_(values.long() & 0xFFFFFFFF)
    return filled
