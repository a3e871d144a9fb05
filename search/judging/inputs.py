"""Distributions of inputs: where a kernel that only looks right goes wrong."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch

from search import seeds
from search.reference import Problem

_STRUCTURED = (
    0.25  # fraction of exact zeros from which they are a pattern, e.g. a triangular matrix
)

_BYTES = (torch.int8, torch.uint8)
_PIECE = 1 << 26  # elements that are counted in one go
_PARTS = 16  # of a draw, whose kinds are put in one after the other
_PERMUTED = 1 << 16  # elements; of more, one in a thousand is drawn without a permutation


def _normal(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=generator, device=generator.device)


# In place, here and below: where there are gigabytes, each copy counts.
def _negative(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return _normal(shape, generator).mul_(2).sub_(3)


def _offset(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return _normal(shape, generator).mul_(0.1).add_(1000)


def _negative_offset(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    # A maximum that begins with zero, or with the least positive number, is right wherever a row has a positive element.
    return _offset(shape, generator).neg_()


def _kinds(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Return values of which each part along the first dimension is normal, negative or zero."""
    values = _normal(shape, generator)
    first = shape[0] if shape else 1
    kinds = torch.randint(3, (first,), generator=generator, device=generator.device)
    kinds = kinds.reshape(-1, *(1,) * (len(shape) - 1)) if shape else kinds[0]
    if not shape:
        return torch.where(kinds == 0, values, torch.where(kinds == 1, -values.abs(), 0.0))
    parts = (torch.split(x, max(first // _PARTS, 1)) for x in (values, kinds))
    for part, kind in zip(*parts, strict=True):
        part.copy_(torch.where(kind == 0, part, torch.where(kind == 1, -part.abs(), 0.0)))
    return values


def _tiny(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return _normal(shape, generator).mul_(1e-4)


def _huge(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return _normal(shape, generator).mul_(1e4)


def _near_one(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    # Long products and high powers neither vanish nor overflow.
    return _normal(shape, generator).mul_(1e-3).add_(1)


def _wide(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    return _normal(shape, generator).mul_(1e6)


def _sparse(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    kept = torch.rand(shape, generator=generator, device=generator.device) < 0.2
    return _normal(shape, generator).mul_(kept)


def _special(shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    values = _normal(shape, generator).flatten()
    count = max(1, values.numel() // 1000)
    places = torch.randint(values.numel(), (3, count), generator=generator, device=generator.device)
    for row, value in zip(places, (float("inf"), float("-inf"), float("nan")), strict=True):
        values[row] = value
    return values.reshape(shape)


def spiked(
    base: torch.Tensor, generator: torch.Generator, *, far: bool, own: bool = False
) -> torch.Tensor:
    """Return `base` with a few elements, at most one in a thousand, replaced by values of other distributions.

    A program that looks at some elements to see which range it may assume finds the task's own; which
    elements differ, it learns only by looking at all of them. Where one in a thousand always was, 20,000 elements
    of any tensor told.

    Args:
        base: the task's own draw.
        far: the replaced ones are around 1,000 and 10,000, else around zero and below.
        own: nobody else needs `base`, which may be changed.
    """
    values = base.flatten() if own else base.flatten().clone()
    kinds = (_offset, _huge) if far else (_normal, _negative, _tiny)
    most = max(len(kinds), values.numel() // 1000)
    share = float(torch.rand((), generator=generator, device=generator.device))
    count = min(values.numel(), round(len(kinds) * (most / len(kinds)) ** share))
    places = _places(values.numel(), count, generator)
    for at, kind in enumerate(kinds):
        chosen = places[at :: len(kinds)]
        values[chosen] = kind(chosen.shape, generator).to(values.dtype)
    return values.reshape(base.shape)


def _places(among: int, count: int, generator: torch.Generator) -> torch.Tensor:
    """Return `count` different places in random order, or a few less where there are many.

    A permutation of all places has not ended after eight minutes for 1.6 billion of them on an H200, and took
    50 bytes for each. Two of one place would make the draw another one when it is made again.
    """
    device = generator.device
    if among > _PERMUTED:
        drawn = torch.randint(among, (count,), generator=generator, device=device)
        places: torch.Tensor = drawn.unique()  # type: ignore[no-untyped-call]
        return places[torch.randperm(len(places), generator=generator, device=device)]
    return torch.randperm(among, generator=generator, device=device)[:count]


# "task" is get_inputs() itself, with another seed.
DISTRIBUTIONS: dict[str, Callable[[torch.Size, torch.Generator], torch.Tensor] | None] = {
    "task": None,
    "normal": _normal,
    "negative": _negative,
    "large mean": _offset,
    "large negative mean": _negative_offset,
    "parts of a kind": _kinds,
    "tiny": _tiny,
    "huge": _huge,
    "sparse": _sparse,
    "near one": _near_one,
    "spiked": None,
    "spiked far": None,
}
# Made from a draw of the task's own: those of `spiked`, by whether they are far.
SPIKED = {"spiked": False, "spiked far": True}
WIDE = "beyond float16"  # asked where tf32 may be used, which has float32's range
SPECIAL = "special values"
FEW_LARGE = "spiked far"  # a few elements decide what is rounded away in a sum
# The roundings of a sum go one way: its terms are nearly the same, or lost beside a few large ones.
ONE_SIDED = frozenset(
    {"large mean", "large negative mean", "sparse", "near one", "tiny", FEW_LARGE}
)
# Elements are scaled apart by factors from the first to 1; from the second where a reference refuses that, as a
# factorization does whose matrix is then not positive.
FACTORS = (0.8, 0.999)
POSITIVE = (
    ", positive"  # of a reference that takes no other: the same draw, each element's absolute value
)
_ONE_SIGN = frozenset(
    {"task", "negative", "large mean", "large negative mean", "near one", SPECIAL}
)
_NAMED = {**DISTRIBUTIONS, WIDE: _wide, SPECIAL: _special}


def plain_name(distribution: str) -> str:
    """Return the distribution whose absolute values a draw may be of."""
    return distribution.removesuffix(POSITIVE)


def is_spiked(distribution: str) -> bool:
    """Say whether a draw is the task's own but for a few elements."""
    return plain_name(distribution) in SPIKED


def may_be_positive(distribution: str) -> bool:
    """Say whether its absolute values are worth asking, where the reference takes nothing below zero."""
    return not distribution.endswith(POSITIVE) and distribution not in _ONE_SIGN


def draw(problem: Problem, distribution: str, seed: int) -> tuple[Any, ...]:
    """Return a fresh set of inputs.

    Tensors of integers or booleans, and scalars, always come from ``get_inputs()``, for only it knows
    which are valid; where its tensors have a pattern of zeros, every distribution keeps that.
    """
    refilled = all(isinstance(x, torch.Tensor) and x.is_floating_point() for x in problem.inputs)
    made = distribution != "task" and not is_spiked(distribution)
    # Drawing a gibibyte takes seconds: where every value is replaced, any draw does.
    base = problem.inputs if made and refilled else problem.draw(seed)
    if distribution == "task":
        return base
    return redrawn(base, distribution, seed, own=_apart(base, problem.inputs))


def _apart(base: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Say whether no tensor of a draw shares memory with another one, or with the problem's own: a program may keep some."""
    places = [
        x.untyped_storage().data_ptr() for x in (*base, *others) if isinstance(x, torch.Tensor)
    ]
    return len({*places}) == len(places)


def redrawn(
    base: tuple[Any, ...], distribution: str, seed: int, *, own: bool = False
) -> tuple[Any, ...]:
    """Return `base` with its floating-point elements drawn from `distribution`, all of them or spikes.

    Args:
        own: nobody else needs `base`, which may be changed.
    """
    name = plain_name(distribution)
    if name != distribution:
        made = redrawn(base, name, seed, own=own)
        return tuple(
            value.abs_() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
            for value in made
        )
    if name in SPIKED:
        return _spiked(base, seed, far=SPIKED[name], own=own)
    fill = _NAMED[name]
    assert fill is not None
    device = next(value.device for value in base if isinstance(value, torch.Tensor))
    generator = seeds.generator(device, seed)
    return tuple(
        _refilled(value, fill, generator)
        if isinstance(value, torch.Tensor) and value.is_floating_point()
        else value
        for value in base
    )


def scaled_apart(
    base: tuple[Any, ...], seed: int, least: float, places: Sequence[Any] = ()
) -> tuple[Any, ...]:
    """Return `base` with each floating-point element times its own factor, from `least` to 1.

    Signs, zeros and bounds stay, the values do not, and no error can be greater than on the values given.

    Args:
        places: memory for them, laid out as `base`; none: new memory.
    """
    generator: torch.Generator | None = None
    made = []
    for value, place in zip_longest(base, places):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            generator = generator or seeds.generator(value.device, seed)
            like = torch.empty_like(value, device="meta")
            # The same numbers in either: they go by the order of the elements in memory.
            fits = place is not None and place.stride() == like.stride()
            factor = place if fits else torch.empty_like(value)
            made.append(factor.uniform_(least, 1.0, generator=generator).mul_(value))
        else:
            made.append(value)
    return tuple(made)


def _spiked(base: tuple[Any, ...], seed: int, *, far: bool, own: bool) -> tuple[Any, ...]:
    device = next(value.device for value in base if isinstance(value, torch.Tensor))
    generator = seeds.generator(device, seed ^ 1)  # not the draw's own numbers again
    made = []
    for value in base:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            zeros = _pattern(value)  # before spikes stand in it
            made.append(_structured(value, zeros, spiked(value, generator, far=far, own=own)))
        else:
            made.append(value)
    return tuple(made)


def _refilled(
    template: torch.Tensor,
    fill: Callable[[torch.Size, torch.Generator], torch.Tensor],
    generator: torch.Generator,
) -> torch.Tensor:
    filled = fill(template.shape, generator).to(template.dtype)
    return _structured(template, _pattern(template), filled)


def _pattern(template: torch.Tensor) -> torch.Tensor | None:
    """Return where a tensor is zero, None where too few elements are for a pattern."""
    # Piece by piece: to count, booleans are made whole numbers of eight bytes.
    parts = torch.split(template.reshape(-1), _PIECE) if template.numel() else ()
    count = sum(int((part == 0).count_nonzero()) for part in parts)
    return template == 0 if count >= _STRUCTURED * template.numel() else None


def _structured(
    template: torch.Tensor, zeros: torch.Tensor | None, values: torch.Tensor
) -> torch.Tensor:
    """Return `values` laid out as `template`, with its pattern of zeros where it has one."""
    if zeros is not None:
        values.masked_fill_(zeros, 0)
    if values.stride() == template.stride():
        return values
    return torch.empty_like(template).copy_(values)


def input_notes(problem: Problem, other: Sequence[Any]) -> list[str]:
    """Say what the user should know of a task's inputs, given another draw of them."""
    notes = [
        f"input {number} is the same in every draw of get_inputs(): a candidate need not read it"
        for number, (a, b) in enumerate(zip(problem.inputs, other, strict=True))
        if isinstance(a, torch.Tensor) and torch.equal(a, b)
    ]
    notes += [
        f"forward changes its buffer {name}: what it leaves there is not compared"
        for name in problem.writes
    ]
    if problem.countable and problem.state and not problem.packs:
        notes.append(
            "no input is a floating-point tensor: weights change from call to call, for a table of the answers to all "
            "possible inputs would fold the network away (packing: tables allows that)"
        )
    return notes


def scaled(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return parameters that are others, and valid: each element times its own secret factor from 0.8 to 1.

    No error can be greater than with the parameters given. Bytes, which may be quantised weights, change places every
    second time: they may be a mask as well, without which a reference answers nothing that can be compared. Other
    whole numbers stay, for they may be places themselves.
    """
    made = {}
    for name, value in state.items():
        if value.dtype in _BYTES and value.numel() > 1 and secrets.randbits(1):
            places = 1 + secrets.randbelow(value.numel() - 1)
            made[name] = value.reshape(-1).roll(places).reshape(value.shape)
            continue
        if not value.is_floating_point():
            made[name] = value
            continue
        generator = seeds.generator(value.device, seeds.secret())
        factor = torch.empty_like(value).uniform_(0.8, 1.0, generator=generator)
        made[name] = factor.mul_(value)
    return made
