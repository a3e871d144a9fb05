"""The search graph: what was proposed, written and judged, in order. Plain values, no I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from search.attempt import Attempt, Draft, Idea
from search.outcome import STANDING, Outcome
from search.standings import Past, Standings


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """The place of one request for ideas: the parent number `parent` of a round."""

    round: int
    parent: int  # rank among the round's parents, 0 is the best


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """The place of one draft: a branch of an idea, or the repair of one."""

    slot: Slot
    idea: int
    branch: int
    repair: int = 0

    @property
    def key(self) -> str:
        """Return a short text that sorts and reads well."""
        return f"{self.slot.round}.{self.slot.parent}.{self.idea}.{self.branch}.{self.repair}"

    @classmethod
    def parse(cls, key: str) -> Step:
        """Return the step that `key` names."""
        round, parent, idea, branch, repair = map(int, key.split("."))
        return cls(Slot(round, parent), idea, branch, repair)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The ideas of one slot and the node that they are for (None: the reference).

    Attributes:
        retrieved: the documents that retrieval returned while the ideas were written.
        subjects: what gains of the returned passages are credited to; the record keeps them apart
            and does not read them back.
    """

    slot: Slot
    parent: int | None
    ideas: tuple[Idea, ...]
    retrieved: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A candidate's place in the graph. Its outcome is None until it is judged."""

    number: int
    step: Step
    parent: int | None
    idea: Idea
    draft: Draft
    outcome: Outcome | None = None

    @property
    def source_hash(self) -> str:
        """Return the identity of the source."""
        return hash_source(self.draft.source)

    def attempt(self) -> Attempt:
        """Return what an author may know of this node, once it is judged."""
        assert self.outcome is not None
        return Attempt(
            number=self.number,
            parent=self.parent,
            round=self.step.slot.round,
            branch=self.step.branch,
            idea=self.idea,
            draft=self.draft,
            outcome=self.outcome,
        )


class Graph:
    """The whole state of a run.

    Only `Record` adds to it, after it has stored the addition. Look-ups cost the same however long
    the history is.
    """

    def __init__(self) -> None:
        self.proposals: dict[Slot, Proposal] = {}
        self.nodes: list[Node] = []
        self.dead_ends: set[Step] = set()  # steps for which the author had no draft
        self._attempts: list[Attempt] = []
        self._by_idea: dict[tuple[Slot, int], list[int]] = {}
        self._waiting: dict[int, list[tuple[Step, Attempt]]] = {}  # by round, for the standings
        self._standings = Standings()
        self._settled = 0  # rounds that the standings hold
        self.best_speedup = 0.0
        self.best_merit = 0.0
        self.best_roofline = 0.0

    def add(self, node: Node) -> None:
        """Append a node; its outcome may come later."""
        assert node.number == len(self.nodes)
        self.nodes.append(node)
        self._by_idea.setdefault((node.step.slot, node.step.idea), []).append(node.number)
        if node.outcome is not None:
            self._judged(node)

    def judge(self, number: int, outcome: Outcome) -> None:
        """Give a node its outcome, once."""
        assert self.nodes[number].outcome is None
        self.nodes[number] = replace(self.nodes[number], outcome=outcome)
        self._judged(self.nodes[number])

    def judged_again(self, outcomes: Mapping[int, Outcome]) -> Graph:
        """Return the graph with other outcomes of some of its nodes, by number."""
        graph = Graph()
        graph.proposals, graph.dead_ends = self.proposals, self.dead_ends
        for node in self.nodes:
            graph.add(replace(node, outcome=outcomes.get(node.number, node.outcome)))
        return graph

    def _judged(self, node: Node) -> None:
        attempt = node.attempt()
        self._attempts.append(attempt)
        self._waiting.setdefault(attempt.round, []).append((node.step, attempt))
        self.best_speedup = max(self.best_speedup, attempt.speedup)
        self.best_merit = max(self.best_merit, attempt.merit)
        if attempt.outcome.kind == "passed":
            fraction = attempt.outcome.profile.get("roofline", 0.0)
            self.best_roofline = max(self.best_roofline, fraction)

    @property
    def judged(self) -> int:
        """Number of nodes that have an outcome."""
        return len(self._attempts)

    def attempts(self) -> Sequence[Attempt]:
        """Return the judged nodes, oldest first."""
        return Past(self._attempts)

    def standings(self, round: int) -> Standings:
        """Return the attempts of the rounds before `round`, with their indexes."""
        if round < self._settled or any(late < self._settled for late in self._waiting):
            self._standings, self._settled, self._waiting = Standings(), 0, {}
            for node in self.nodes:
                if node.outcome is not None:
                    waiting = self._waiting.setdefault(node.step.slot.round, [])
                    waiting.append((node.step, node.attempt()))
        while self._settled < round:
            self._settle(self._settled)
            self._settled += 1
        return self._standings

    def _settle(self, round: int) -> None:
        slot = Slot(round, 0)
        while (proposal := self.proposals.get(slot)) is not None:
            self._standings.propose(proposal.parent, round)
            slot = Slot(round, slot.parent + 1)
        for _, attempt in sorted(self._waiting.pop(round, ()), key=lambda one: one[0]):
            self._standings.add(attempt)

    def branches(self, slot: Slot, idea: int) -> list[Node]:
        """Return the nodes of one idea, in the order of their steps."""
        return [self.nodes[number] for number in self._by_idea.get((slot, idea), ())]

    def ranked(self) -> list[Attempt]:
        """Return the attempts that stand, the best first, the older of equals first."""
        standing = [attempt for attempt in self._attempts if attempt.outcome.kind in STANDING]
        return sorted(standing, key=lambda attempt: (-attempt.merit, attempt.number))

    def path(self, number: int) -> list[Node]:
        """Return the nodes from the first ancestor down to `number`."""
        path = [self.nodes[number]]
        while path[-1].parent is not None:
            path.append(self.nodes[path[-1].parent])
        return path[::-1]


def hash_source(source: str) -> str:
    """Return the identity of a source: what was judged once is not judged again."""
    return hashlib.sha256(source.encode()).hexdigest()[:20]


def seed_of(seed: int, *place: object) -> int:
    """Return the seed of one step.

    Seeding by the step, not by the run, makes a resumed run choose as an unbroken one.
    """
    text = "/".join(map(str, (seed, *place)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & 0x7FFFFFFF
