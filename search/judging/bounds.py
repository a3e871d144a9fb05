"""How far from the truth an answer may be, element by element."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

UNITS = {"strict": 2.0**-23, "tf32": 2.0**-11, "half": 2.0**-11}  # by precision: of one rounding
# Of the framework's own error. bfloat16 has three bits less than tf32, so that eight would let it pass.
_FACTORS = {"strict": 8.0, "tf32": 3.0, "half": 8.0}
# Of answers in a type with less than float32's digits: their last rounding is most of any error, and an answer that is
# rounded twice is off by two.
_SHORT, _SHORT_FACTOR = (torch.float16, torch.bfloat16), 3.0
_TINY = 2.0**-113  # what lies far below may be flushed to zero, and what grew from there be inexact
_GROUP = 64  # elements whose errors together say what is usual: a single one may be small by luck
_NEIGHBOURS = 64  # elements that lie beside one another, among which absolute errors compare
_BINS = 256  # exponents of float32
_TABLES = 1024  # partial tables: atomic maxima of one address would wait for each other
# Elements whose errors are looked at by size: of more, one in so many says the same.
_COUNTED = 1 << 28
_PIECE = 1 << 22  # elements that are looked at in one go
_ROWS = 1 << 25  # elements of an answer whose bounds are found in one go
_UNUSUAL = 16.0  # an error beyond so many of the greatest in its row or column is none of rounding
_UNSETTLED = 16.0  # an error that is allowed, of the distance of the extremes
_LONGEST, _LEAST_SHARE, _MOST_GROWTH = 16.0, 16.0, 16.0
_ONE_SIDED_SHARE = 10.0  # with a little more than six deviations
_ONE_SIDED = 64.0  # measured: n equal terms, added in order, are off by up to n / 10 units


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack:
    """The error that an answer may have, by the size of the element.

    An element's bound is the widest of these: `told`; a multiple of its own size; a multiple of the
    greatest of the 64 elements around it, since a table or a polynomial has an absolute error; and what
    elements of its size were seen to be off by.

    Attributes:
        told: absolute and relative tolerance that the task gives, None where it gives none.
        relative: of the element's own size.
        beside: of the greatest of its neighbours.
        least: what any element may be off by, however small it is.
        seen: by the exponent of float32, the error that elements of such a size may have.
    """

    told: tuple[float, float] | None = None
    relative: float = 0.0
    beside: float = 0.0
    least: float = 0.0
    seen: torch.Tensor | None = None

    def margin(self, value: torch.Tensor, *limits: torch.Tensor) -> torch.Tensor:
        """Return the error that is allowed at each element of `value`.

        Args:
            limits: greatest errors in some slice of the output, one for each of its elements, broadcast
                along the others: none may be off by more than what is usual there.
        """
        size = value.abs().nan_to_num_(0.0, 0.0, 0.0)
        wide = None
        if self.told is not None:
            wide = size * self.told[1] + self.told[0]
        if self.seen is None:
            assert wide is not None
            return wide
        allowed = self.seen.to(size.dtype)[_bins(size)]
        for limit in limits:
            torch.minimum(allowed, limit.to(size.dtype), out=allowed)
        allowed.clamp_(min=self.least)
        torch.maximum(allowed, size * self.relative, out=allowed)
        torch.maximum(allowed, _greatest_beside(size).mul_(self.beside), out=allowed)
        return allowed if wide is None else torch.maximum(allowed, wide, out=allowed)


def pieces(value: torch.Tensor) -> Iterator[slice]:
    """Yield slices of the first dimension that together are all of it; one, where there are few elements.

    Elements that `Slack.margin` compares with one another stay together, so that bounds are the same.
    """
    rows = value.shape[0] if value.dim() else 1
    each = value.numel() // max(rows, 1)
    least = 1 if each % _NEIGHBOURS == 0 else _NEIGHBOURS  # rows, for groups that are whole
    if value.numel() <= _ROWS or rows < 2 * least:
        yield slice(None)
        return
    count = max(_ROWS // each // least, 1) * least
    ends = [*range(count, rows, count), rows]
    if len(ends) > 1 and (ends[-1] - ends[-2]) * each < _NEIGHBOURS:
        del ends[-2]  # the last group would be without those before it
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        yield slice(begin, end)


def finite(values: Iterable[torch.Tensor]) -> bool:
    """Say whether every element is finite, and would be as float32, which the least and the greatest say of all."""
    return all(
        bool(torch.isfinite(torch.stack(torch.aminmax(value)).float()).all())
        for value in values
        if value.numel() and value.is_floating_point()
    )


def widest(each: Sequence[Slack]) -> Slack:
    """Return the slack that allows what any of these does, which were seen of parts of one answer."""
    seen = [one.seen for one in each if one.seen is not None]
    told = [one.told for one in each if one.told is not None]
    return Slack(
        told=(max(one[0] for one in told), max(one[1] for one in told)) if told else None,
        relative=max(one.relative for one in each),
        beside=max(one.beside for one in each),
        least=max(one.least for one in each),
        seen=torch.stack(seen).amax(0) if seen else None,
    )


def told_slack(absolute: float, relative: float) -> Slack:
    """Return the slack of tolerances that a task gives."""
    return Slack(told=(absolute, relative))


def measured_slack(  # noqa: PLR0913 - all that a bound follows from
    exact: torch.Tensor,
    errors: torch.Tensor,
    terms: int,
    precision: str,
    *,
    one_sided: bool,
    moved: Sequence[torch.Tensor] | None = None,
    dtype: torch.dtype = torch.float32,
) -> tuple[Slack, tuple[torch.Tensor, ...]]:
    """Return the slack that follows from errors which right answers were seen to have.

    Args:
        exact: the truth.
        errors: of each element, the greatest that was seen.
        moved: from `count_moved`; None: the limit of every index holds.
        terms: of the longest sum that the output comes from.
        precision: strict, tf32 or half.
        one_sided: the roundings of a sum do not cancel on these inputs.
        dtype: of the answer.

    Returns:
        The slack, which holds for other inputs of the same kind, and limits for these inputs alone:
        the greatest error of each index of each dimension that has enough others.
    """
    short = dtype in _SHORT
    factor = min(_FACTORS[precision], _SHORT_FACTOR) if short else _FACTORS[precision]
    seen = _by_size(exact, errors).mul_(factor)
    limits = tuple(limit.mul_(factor * _UNUSUAL) for limit in _by_index(errors))
    if moved is not None:
        limits = tuple(
            limit.masked_fill(count < _GROUP, math.inf)
            for limit, count in zip(limits, moved, strict=True)
        )
    unit = UNITS[precision]
    # Sums of n terms differ by about log n roundings in a tree, by sqrt n one after the other.
    own = max(2.0, math.log2(terms) / 2, min(math.sqrt(terms) / 2, _LONGEST))
    if one_sided:
        own = max(own, terms / _ONE_SIDED)
    relative = unit * (own if precision == "strict" else 1.0)
    half, least = _last_rounding(dtype) if short else (0.0, 0.0)
    slack = Slack(
        relative=factor * max(relative, half),
        beside=factor * unit / 2,
        least=factor * max(_TINY, least),
        seen=seen,
    )
    return slack, limits


def _last_rounding(dtype: torch.dtype) -> tuple[float, float]:
    """Return what rounding to a type changes at most: of a normal number by its size, and of a subnormal one."""
    figures = torch.finfo(dtype)
    return figures.eps / 2, figures.smallest_normal * figures.eps / 2


def unsettled(slack: Slack, exact: torch.Tensor) -> Slack:
    """Return the slack in which sizes that are off by much of all there is may be anything between its extremes.

    Args:
        exact: the truth.
    """
    if slack.seen is None or not exact.numel():
        return slack
    span = float(exact.max() - exact.min())
    wide = slack.seen.clamp(min=2 * span)
    return replace(slack, seen=torch.where(slack.seen > span / _UNSETTLED, wide, slack.seen))


def growth(terms: int, *, one_sided: bool = False) -> float:
    """Return how much more than a half-unit change of its inputs a sum of `terms` may be off by.

    Rounding `terms` partial sums of random signs, one after the other, is off by sqrt(terms / 6) times
    what a change of every term by half a unit is (variances of the roundings add up: Higham, Accuracy and
    Stability of Numerical Algorithms, 2002, section 4.2, with errors that are independent). The bound's
    own factor covers the first of it.

    Terms of one sign make partial sums that grow as their number does. Their mean, added in order or as
    Welford updates it, is then off by sqrt(terms / 3) times 0.42 half units (partial sum k is rounded to
    0.72 units of its size, evenly). Sixteen half units, which the bound allows beside, hold six standard
    deviations of that where they grow by sqrt(terms) / 11.

    Args:
        one_sided: the terms are of one sign.
    """
    share = _ONE_SIDED_SHARE if one_sided else _LEAST_SHARE
    return max(1.0, min(math.sqrt(terms) / share, _MOST_GROWTH))


def _bins(size: torch.Tensor) -> torch.Tensor:
    """Return the exponent of each element as float32 has it; zero and subnormal numbers are one."""
    bits = size.to(torch.float32).contiguous().view(torch.int32)
    return (bits >> 23).clamp_(0, _BINS - 1)


def _greatest_beside(size: torch.Tensor) -> torch.Tensor:
    """Return for each element the greatest of the 64 that it lies among in memory's order."""
    flat = size.reshape(-1)
    whole = flat.numel() // _NEIGHBOURS * _NEIGHBOURS
    found = torch.empty_like(flat)
    if whole:
        rows = flat[:whole].view(-1, _NEIGHBOURS)
        found[:whole].view(-1, _NEIGHBOURS).copy_(rows.amax(1, keepdim=True))
    if whole < flat.numel():
        # The last few go with those before them.
        found[whole:] = flat[max(0, flat.numel() - _NEIGHBOURS) :].max()
    return found.view(size.shape)


def _by_size(exact: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
    """Return the greatest error by exponent, each with those of at least 64 elements that are greater.

    What is greater is seldom more exact: so few elements of a size borrow from there, the greatest from
    those below.
    """
    tables = torch.zeros(_TABLES * _BINS, dtype=errors.dtype, device=errors.device)
    count = torch.zeros(_BINS, dtype=torch.int64, device=errors.device)
    step = max(exact.numel() // _COUNTED, 1)
    while math.gcd(step, exact.numel()) > 1:  # so that all columns are among them
        step += 1
    looked_at = (torch.split(x.reshape(-1)[::step], _PIECE) for x in (exact, errors))
    for size, error in zip(*looked_at, strict=True):
        bins = _bins(size.abs()).long()
        count += torch.bincount(bins, minlength=_BINS)
        places = torch.arange(bins.numel(), device=bins.device).remainder_(_TABLES).mul_(_BINS)
        tables.scatter_reduce_(0, places.add_(bins), error, "amax")
    counts, greatest = count.tolist(), tables.view(_TABLES, _BINS).amax(0).tolist()
    met = [at for at, found in enumerate(counts) if found]
    seen = [0.0] * _BINS
    for place, at in enumerate(met):
        worst, borrowed = greatest[at], 0
        for other in (*met[place + 1 :], *reversed(met[:place])):
            if borrowed >= _GROUP:
                break
            worst, borrowed = max(worst, greatest[other]), borrowed + counts[other]
        seen[at] = worst
    return torch.tensor(_filled(seen, met), dtype=torch.float64, device=exact.device)


def _filled(seen: Sequence[float], met: Sequence[int]) -> list[float]:
    """Give sizes that were not met the error of the next greater one; beyond all, errors grow alike."""
    filled, last = list(seen), met[-1]
    for at in range(last - 1, -1, -1):
        if at not in met:
            filled[at] = filled[at + 1]
    for at in range(last + 1, len(filled)):
        filled[at] = min(filled[last] * 2.0 ** (at - last), 1e300)
    return filled


def _by_index(errors: torch.Tensor) -> list[torch.Tensor]:
    """Return for each dimension the greatest error at each of its indices, shaped to broadcast."""
    return [errors.amax(rest, keepdim=True) for rest in _others(errors.shape)]


def _others(shape: Sequence[int]) -> list[list[int]]:
    """Return for each dimension whose indices have enough elements all other dimensions."""
    count, dimensions = math.prod(shape), range(len(shape))
    return [
        [other for other in dimensions if other != dimension]
        for dimension, size in enumerate(shape)
        if size > 1 and count // size >= _GROUP
    ]


def count_moved(changed: torch.Tensor, exact: torch.Tensor) -> list[torch.Tensor]:
    """Return how many elements of each index differ from the truth once the inputs have moved.

    Behind a clamp, a mask or a saturated function nearly all elements of a row may stay what they are, however
    inexact the sum before was. The few that do not say nothing of how inexact the row's others can be.
    """
    found = [
        torch.zeros(
            [1 if at in rest else size for at, size in enumerate(exact.shape)],
            dtype=torch.int64,
            device=exact.device,
        )
        for rest in _others(exact.shape)
    ]
    for piece in pieces(exact) if found else ():
        differs = (changed[piece] != exact[piece]) & ~exact[piece].isnan()
        for count, rest in zip(found, _others(exact.shape), strict=True):
            part = count if 0 in rest else count[piece]
            part += differs.sum(rest, keepdim=True)
    return found


def edges(
    exact: Sequence[torch.Tensor],
    slack: Sequence[Slack],
    limits: Sequence[tuple[torch.Tensor, ...]],
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Return the least and the greatest that each element may be, rounded outwards to float32."""
    low, high = [], []
    least = torch.tensor(-math.inf, device=exact[0].device)
    for value, allowed, usual in zip(exact, slack, limits, strict=True):
        below, above = (torch.empty_like(value, dtype=torch.float32) for _ in range(2))
        for piece in pieces(value):
            part = piece if value.dim() else ...
            own = (x[piece] if x.shape[0] == value.shape[0] else x for x in usual)
            margin = allowed.margin(value[part].double(), *own)
            below[part] = torch.nextafter((value[part] - margin).float(), least)
            above[part] = torch.nextafter((value[part] + margin).float(), -least)
        low.append(below)
        high.append(above)
    return tuple(low), tuple(high)
