"""UCT: descends the tree of what was made upon what, where gain or ignorance is largest."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from random import Random

from search.attempt import Attempt
from search.outcome import STANDING
from search.standings import Standings

_ROOT = 0  # the reference


class Uct:
    """Upper confidence bounds applied to trees of standing attempts.

    A visit of a node is its own judgement, or a round of ideas upon it or below it. Its reward is the best
    merit that it led to, scaled from the worst to the best that stands in the run; a round in which
    everything failed has reward 0. A node on which nothing was tried is taken when the descent comes to
    it, and again when the rounds below it reach the next square: the tree grows in width, too.

    Sources: Kocsis, Szepesvári, "Bandit based Monte-Carlo planning" (ECML 2006), with the exploration
    constant sqrt(2) of Auer, Cesa-Bianchi, Fischer (2002); Coulom, "Computing Elo ratings of move
    patterns" (2007) for progressive widening. KernelEvolve (arXiv 2512.23236) searches kernels by UCT.

    Args:
        exploration: how much ignorance counts against gain; 0 goes for gain alone.
    """

    def __init__(self, exploration: float = 1.4) -> None:
        self._exploration = exploration

    def select(self, standings: Standings, round: int, rng: Random) -> tuple[Attempt, ...]:  # noqa: ARG002 - the bounds decide
        """Return one parent; none where the reference is due another round."""
        found = standings.index(SelectionTree).descend(self._exploration)
        return () if found is None else (found,)


@dataclass(slots=True)
class _TreeNode:
    above: int
    attempt: Attempt | None = None
    visits: int = 1
    rewards: float = 0.0  # of all visits, in units of merit
    rounds: int = 0  # of ideas upon it
    last: int = -1  # the latest of them
    reached: float = 0.0  # the best merit of that one
    # By visits, as heaps; an entry that is no longer true is dropped when it comes to the top.
    children: dict[int, list[tuple[float, int]]] = field(default_factory=dict)


class SelectionTree:
    """The tree of standing attempts with visits and rewards; a step costs what the tree is deep."""

    def __init__(self) -> None:
        self._nodes = [_TreeNode(_ROOT)]
        self._hosts: dict[int, int] = {}  # by an attempt's number: where what is made of it hangs
        self._rounds: dict[int, int] = {}
        self._worst = math.inf
        self._best = 0.0

    def proposed(self, parent: int | None, round: int) -> None:
        """Count a round of ideas."""
        self._visit(_ROOT if parent is None else self._hosts.get(parent, _ROOT), round)

    def judged(self, attempt: Attempt) -> None:
        """Hang an attempt below what its idea was for, and credit the round that made it."""
        above = self._above(attempt)
        self._visit(above, attempt.round)
        self._rounds[attempt.number] = attempt.round
        self._hosts[attempt.number] = above
        if attempt.outcome.kind not in STANDING:
            return
        self._worst = min(self._worst, attempt.merit)
        self._best = max(self._best, attempt.merit)
        place = self._hosts[attempt.number] = len(self._nodes)
        self._nodes.append(_TreeNode(above, attempt, rewards=attempt.merit))
        self._enter(place)
        node = self._nodes[above]
        if attempt.merit > node.reached:
            self._credit(above, 0, attempt.merit - node.reached)
            node.reached = attempt.merit

    def descend(self, exploration: float) -> Attempt | None:
        """Return the attempt to go on from, None for the reference."""
        node = self._nodes[_ROOT]
        while True:
            due = max(1, math.isqrt(node.visits - 1))
            chosen = None if node.rounds < due else self._choose(node, exploration)
            if chosen is None:
                return node.attempt
            node = chosen

    def _choose(self, node: _TreeNode, exploration: float) -> _TreeNode | None:
        """Return the child of the largest bound: of as many visits only the most rewarded can have it."""
        found: list[tuple[float, int]] = []
        scale = self._best - self._worst or 1.0
        for visits in tuple(node.children):
            heap = node.children[visits]
            while heap and not self._is_true(visits, *heap[0]):
                heapq.heappop(heap)
            if not heap:
                del node.children[visits]
                continue
            minus, place = heap[0]
            reward = (-minus / visits - self._worst) / scale
            ignorance = math.sqrt(math.log(node.visits) / visits)
            found.append((reward + exploration * ignorance, -place))
        return self._nodes[-max(found)[1]] if found else None

    def _is_true(self, visits: int, minus: float, place: int) -> bool:
        node = self._nodes[place]
        return node.visits == visits and node.rewards == -minus

    def _above(self, attempt: Attempt) -> int:
        """Return the node that an attempt's idea was for; repairs and tuned settings are of their idea."""
        parent = attempt.parent
        if parent is None or parent not in self._hosts:
            return _ROOT
        host = self._hosts[parent]
        known = self._nodes[host].attempt
        tuned = known is not None and known.number == parent
        return self._nodes[host].above if tuned and self._rounds[parent] == attempt.round else host

    def _visit(self, place: int, round: int) -> None:
        node = self._nodes[place]
        if round > node.last:
            least = min(self._worst, self._best)  # 0 where nothing stands
            node.rounds, node.last, node.reached = node.rounds + 1, round, least
            self._credit(place, 1, least)

    def _credit(self, place: int, visits: int, reward: float) -> None:
        """Add to a node and to all above it."""
        while True:
            node = self._nodes[place]
            node.visits += visits
            node.rewards += reward
            if place == _ROOT:
                return
            self._enter(place)
            place = node.above

    def _enter(self, place: int) -> None:
        node = self._nodes[place]
        heap = self._nodes[node.above].children.setdefault(node.visits, [])
        heapq.heappush(heap, (-node.rewards, place))
