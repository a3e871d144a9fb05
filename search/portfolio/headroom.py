"""What the next round of a task is expected to gain, from its roofline and from what it gained so far.

Gains are logs of speed-ups, so that the sum over tasks is the log of their geometric mean times their
number: the round with the largest gain a cost raises the mean most. NVIDIA's speed-of-light guidance
(arXiv 2603.29010) stops problems near their bound, and those that gain no more; this one orders them
as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CLOSED = (
    0.1  # of the log way to the roofline: what a round closes before anything is known of a task
)
_FADES = 0.5  # what a round counts beside the one after it
_NOWHERE = 1e-3  # fraction of the roofline that is taken where none is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How the search of one task went so far.

    Attributes:
        best: the best speed-up over eager after each round, at least 1: eager itself is there to use.
        cost: of all rounds together, in the unit of the budget.
        roofline: the largest fraction of the roofline that was reached; 0 where none is known.
        ended: it has no further round, for a reason of its own.
    """

    best: tuple[float, ...]
    cost: float
    roofline: float
    ended: bool = False


def headroom(course: Course) -> float:
    """Return the log of what is left to the roofline."""
    return max(0.0, -math.log(max(course.roofline or 0.0, _NOWHERE)))


def expected_gain(course: Course) -> float:
    """Return the log of the speed-up that the next round is expected to bring over the best so far.

    A mean of the gains of all rounds but the first, each counting half of the one after it. The first
    tells what a task's baseline leaves undone, not what is to gain upon a candidate: in its place
    stands a tenth of the headroom.
    """
    room = headroom(course)
    if not course.best:
        return room
    total, weight = CLOSED * room, 1.0
    for before, after in zip(course.best, course.best[1:], strict=False):
        total, weight = _FADES * total + math.log(after / before), _FADES * weight + 1.0
    return min(room, total / weight)


def choose(courses: Sequence[Course]) -> int | None:
    """Return the place of the task whose next round gains most for its cost, None where all have ended.

    Every task gets a first round, in their order, before any gets a second.
    """
    open_ = [place for place, course in enumerate(courses) if not course.ended]
    for place in open_:
        if not courses[place].best:
            return place

    def worth(place: int) -> tuple[float, int]:
        course = courses[place]
        round = max(course.cost, 1e-9) / len(course.best)
        return expected_gain(course) / round, -place

    return max(open_, key=worth, default=None)
