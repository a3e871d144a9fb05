"""A run's search tree, its candidates gathered by idea."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kb.web.sources import Sources
from kb.web.story import Brief, Candidate, Story
from search.graph import Slot

MANY = 800  # groups beyond which ideas that led to nothing are folded, those of one place into one


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A candidate in a tree."""

    number: int
    outcome: str
    ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The candidates of an idea, or of several that led to nothing.

    Attributes:
        ideas: how many there are; 1 unless they are folded.
        title: of the idea, of the best one where several are folded.
        above: place in the tree of what the idea was for; None: the reference.
        on_path: it holds a node on the way to the best.
        leads: something was built on it.
    """

    round: int
    ideas: int
    title: str
    leaves: tuple[Leaf, ...]
    above: int | None
    on_path: bool
    leads: bool

    @property
    def best(self) -> Leaf:
        """The fastest candidate, the first one where none passed."""
        return max(self.leaves, key=lambda one: (one.ratio or 0.0, -one.number))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The groups of a run by round, the way to the best first in each."""

    run: Brief
    groups: tuple[Group, ...]
    candidates: int
    most: float  # speed-up over eager of the fastest candidate, 0 where none passed
    folded: int  # ideas that do not stand alone


@dataclass(frozen=True, slots=True)
class _Place:
    """A request for ideas, and which of its ideas; -1 for those that are folded."""

    slot: Slot
    idea: int


def tree(sources: Sources, address: str, *, many: int = MANY) -> Tree:
    """Return the tree of a run.

    Raises:
        StoreError: there is no such run.
    """
    return tree_of(sources.stories.find(address), many=many)


def tree_of(story: Story, *, many: int = MANY) -> Tree:
    """Return the tree of a run that was read."""
    held: dict[_Place, list[Candidate]] = {}
    for one in story.candidates:
        held.setdefault(_Place(*one.group), []).append(one)
    best = story.best_number
    path = set() if best is None else {_Place(*one.group) for one in story.path(best)}
    leads = {_Place(*_parent(story, place).group) for place in held if _has_parent(story, place)}
    folds = len(held) > many
    members: dict[_Place, list[_Place]] = {}
    for place in held:
        alone = not folds or place in path or place in leads
        members.setdefault(place if alone else _Place(place.slot, -1), []).append(place)
    order = _order(story, members, path)
    index = {place: number for number, place in enumerate(order)}
    ratios = (one.ratio() for one in story.judged)
    return Tree(
        run=story.brief,
        groups=tuple(
            _group(
                story,
                place,
                (one for member in members[place] for one in held[member]),
                index.get(_Place(*_parent(story, place).group))
                if _has_parent(story, place)
                else None,
                (place in path, place in leads),
            )
            for place in order
        ),
        candidates=len(story.candidates),
        most=max((one.ratio for one in ratios if one is not None), default=0.0),
        folded=sum(len(found) for place, found in members.items() if place.idea < 0),
    )


def _has_parent(story: Story, place: _Place) -> bool:
    return story.proposals[place.slot].parent is not None


def _parent(story: Story, place: _Place) -> Candidate:
    number = story.proposals[place.slot].parent
    assert number is not None
    return story.candidates[number]


def _order(
    story: Story, members: Mapping[_Place, Sequence[_Place]], path: set[_Place]
) -> list[_Place]:
    """Return the groups by round; within one, the way to the best first, then as their parents stand."""
    rounds: dict[int, list[_Place]] = {}
    for place in members:
        rounds.setdefault(place.slot.round, []).append(place)
    row: dict[_Place, int] = {}
    order: list[_Place] = []
    for round in sorted(rounds):

        def key(place: _Place) -> tuple[bool, int, int, bool, int]:
            above = (
                row.get(_Place(*_parent(story, place).group), 0) if _has_parent(story, place) else 0
            )
            return (place not in path, above, place.slot.parent, place.idea < 0, place.idea)

        for number, place in enumerate(sorted(rounds[round], key=key)):
            row[place] = number
            order.append(place)
    return order


def _group(
    story: Story,
    place: _Place,
    held: Iterable[Candidate],
    above: int | None,
    marks: tuple[bool, bool],
) -> Group:
    """Return one group; `marks` say whether it is on the way to the best, and leads on."""
    candidates = list(held)
    leaves = tuple(
        Leaf(number=one.number, outcome=one.outcome, ratio=_ratio(one)) for one in candidates
    )
    first = max(leaves, key=lambda one: (one.ratio or 0.0, -one.number))
    return Group(
        round=place.slot.round,
        ideas=len({one.group for one in candidates}),
        title=story.idea(story.candidates[first.number]).title,
        leaves=leaves,
        above=above,
        on_path=marks[0],
        leads=marks[1],
    )


def _ratio(one: Candidate) -> float | None:
    ratio = one.ratio()
    return None if ratio is None else ratio.ratio


def tally(leaves: Iterable[Leaf]) -> dict[str, int]:
    """Return how many candidates came to what."""
    return dict(Counter(one.outcome for one in leaves))
