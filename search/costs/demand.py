"""Which share of a value is asked for, by uses of the whole and of parts of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from search.costs.graph import Operator
from search.costs.trace import operator_name


@dataclass(slots=True)
class Demand:
    """What is asked of a value.

    Attributes:
        whole: the greatest share that a use of the whole asks for.
        pieces: shares of the whole that are asked of results of one split, by their numbers.
        cuts: by dimension and its size, the share that is asked of each cut along it.
    """

    whole: float = 0.0
    pieces: dict[int, float] = field(default_factory=dict)
    cuts: dict[tuple[int, int], dict[range, float]] = field(default_factory=dict)

    def cut(self, dim: int, size: int, places: range, share: float) -> None:
        """Ask for a share of what lies at `places` along dimension `dim`."""
        asked = self.cuts.setdefault((dim, size), {})
        asked[places] = max(asked.get(places, 0.0), share)

    @property
    def share(self) -> float:
        """The share that is sure, however the parts overlap."""
        along = (_sure_places(cuts) / max(size, 1) for (_, size), cuts in self.cuts.items())
        return min(1.0, max(self.whole, sum(self.pieces.values()), *along, 0.0))


def places_of(operator: Operator, size: int) -> range | None:
    """Return where a slice or a selection lies along its dimension, None where the graph does not tell."""
    name, given = operator_name(operator), operator.args[2:]
    if not all(one is None or isinstance(one, int) for one in given) or operator.kwargs:
        return None
    if name == "select":
        return range(size)[given[0] :][:1]
    if name == "narrow":
        return range(size)[given[0] :][: given[1]]
    start, end, step = (*given, None, None, None)[:3]
    return range(size)[start:end:step]


def _sure_places(cuts: Mapping[range, float]) -> float:
    """Return how many places are asked for at least; cuts with different steps count apart."""
    found: dict[int, dict[int, list[tuple[int, int, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for places, share in cuts.items():
        if places:
            first, rest = divmod(places.start, places.step)
            found[places.step][rest].append((first, first + len(places), share))
    return max((sum(map(swept, rests.values())) for rests in found.values()), default=0.0)


def swept(spans: Iterable[tuple[int, int, float]]) -> float:
    """Return of how many places a share is asked for at least.

    What one span asks for may all lie where others asked before it.

    Args:
        spans: first place, the one after the last, and the share that is asked for.
    """
    total, end = 0.0, 0
    for first, last, share in sorted(spans):
        common = max(0, min(end, last) - first)
        total += max(0.0, share * (last - first) - common)
        end = max(end, last)
    return total
