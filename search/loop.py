"""The evolution: asked for work, told results. All that it knows is in the record.

The search owns no thread, no device and no model. A driver calls `Search.ask`, has the work done
wherever it likes, and calls `Search.tell`. What is asked for follows from the record alone, so a
search that is made anew over the record of a killed one goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from search.attempt import Attempt, Diagnosis, Draft, Idea, Memory, Moment
from search.graph import Graph, Node, Proposal, Slot, Step, seed_of
from search.outcome import STANDING
from search.pieces import (
    Ideas,
    JudgeNode,
    MendDraft,
    Result,
    TuneKnobs,
    Work,
    WriteDraft,
    WriteIdeas,
)
from search.policies import Policy
from search.policies.stop import stalled, stop_reason
from search.prompting.history import Choice, choose_memory
from search.runs.storage import Record
from search.runs.verdicts import counting_key
from search.standings import Past
from search.task import TaskFile
from search.tunables import promising

MAX_REPAIRS = 2


class Search:
    """One run.

    Where the settings say `overlap`, two rounds are open at once: the parents of a round are chosen from
    the rounds that had ended when the one before it began, and whoever writes is told of those rounds
    and of the attempts at the same idea. So what is asked for at a step follows from the step, whatever
    else is at work and whoever is done first.

    Args:
        record: the run's record; read at the start, added to by `tell`.
        policy: chooses the parents of a round.
        settings: how to search and when to stop.
        diagnose: the bottleneck of a parent (None: of the reference).
        elapsed: seconds that the run has taken so far, those before a resume included.
        context: what an outcome depends on besides the source: task, target, judge.
        memory: how much of the search the author is told; None where it asks for nothing, and no
            parent is exchanged for a clean slate.
    """

    def __init__(  # noqa: PLR0913 - five parts, and two of its terms
        self,
        record: Record,
        policy: Policy,
        settings: TaskFile,
        diagnose: Callable[[Attempt | None], Diagnosis],
        elapsed: Callable[[], float],
        *,
        context: str,
        memory: Choice | None = None,
    ) -> None:
        self._memory = memory
        self._alone = memory is not None and getattr(policy, "samples_alone", False)
        self._record = record
        self._policy = policy
        self._settings = settings.search
        self._stop = settings.stop
        self._diagnose = diagnose
        self._elapsed = elapsed
        self._context = context
        self._asked: set[object] = set()
        self._round = 0  # the first that has not ended
        self._pause = settings.search.rounds  # before this one
        self._open: dict[int, _Open] = {}
        self._keys: dict[int, str] = {}  # of outcomes, by node

    @property
    def graph(self) -> Graph:
        """The state of the run."""
        return self._record.graph

    @property
    def ended(self) -> bool:
        """Say whether it has decided to end."""
        return self._record.stop_reason is not None

    @property
    def paused(self) -> bool:
        """Say whether it has come to the round before which it pauses."""
        return not self.ended and self._round >= self._pause

    def pause_after(self, rounds: int) -> None:
        """Ask for nothing more once so many rounds beyond those that have begun are done.

        The run does not end: a search over the same record goes on.
        """
        begun = max((slot.round + 1 for slot in self.graph.proposals), default=0)
        self._pause = min(self._settings.rounds, begun + rounds)

    @property
    def room(self) -> int | None:
        """How many candidates may still be judged, None where nobody limits them."""
        most = self._stop.candidates
        return None if most is None else max(0, most - self.graph.judged)

    def ask(self, kinds: tuple[type[Work], ...] | None = None) -> Work | None:
        """Return the next piece of work, None when the run is done or waits for results.

        When it is done, `Record.stop_reason` says why.

        Args:
            kinds: of work, where only some can be done now.
        """
        if self._record.stop_reason is not None:
            return None
        graph = self.graph
        reason = stop_reason(self._stop, graph, elapsed_seconds=self._elapsed())
        while reason is None:
            round = self._round
            if round >= self._settings.rounds:
                reason = f"{round} rounds done"
                break
            if round >= self._pause:
                return None
            for work in self._open_work():
                place = _place(work)
                if place not in self._asked and (kinds is None or isinstance(work, kinds)):
                    self._asked.add(place)
                    return work
            if next(self._round_work(round), None) is not None:
                return None
            if self._settings.overlap and round and round + 1 < self._settings.rounds:
                # From what it knows while this round is open, whoever was done first.
                self._opened(round + 1)
            reason = stalled(self._stop, graph.standings(round + 1), round)
            del self._open[round]
            self._round += 1
        self._record.finish_search(reason)
        return None

    def tell(self, work: Work, result: Result) -> None:
        """Record the result of a piece of work that `ask` handed out."""
        match work, result:
            case WriteIdeas(), Ideas():
                parent = work.moment.parent
                self._record.add_proposal(
                    Proposal(
                        slot=work.slot,
                        parent=parent.number if parent else None,
                        ideas=result.ideas,
                        retrieved=result.retrieved,
                        subjects=result.subjects,
                    )
                )
            case ((WriteDraft() | MendDraft() | TuneKnobs()), None):
                self._record.add_dead_end(work.step)
            case WriteDraft(), Draft():
                parent = work.moment.parent
                self._add_node(work.step, parent.number if parent else None, work.idea, result)
            case MendDraft(), Draft():
                self._add_node(work.step, work.failed.number, work.failed.idea, result)
            case TuneKnobs(), Draft():
                self._add_node(work.step, work.base.number, work.base.idea, result)
            case JudgeNode(), _ if result is not None and not isinstance(result, Ideas | Draft):
                elapsed = self._elapsed()
                self._record.add_outcome(work.node, result, key=work.key, elapsed=elapsed)
            case _:
                raise TypeError(f"{type(result).__name__} is no result of {type(work).__name__}")
        self._asked.discard(_place(work))

    def put_back(self, work: Work) -> None:
        """Take back a piece of work that was not begun: `ask` hands it out again, as things are then."""
        self._asked.discard(_place(work))

    def _add_node(self, step: Step, parent: int | None, idea: Idea, draft: Draft) -> None:
        number = len(self.graph.nodes)
        self._record.add_node(Node(number=number, step=step, parent=parent, idea=idea, draft=draft))

    def _open_work(self) -> Iterator[Work]:
        """Yield every piece of work that can be done now, in a fixed order."""
        yield from self._round_work(self._round)
        # The second round waits for the first one: without any attempt there is nothing to choose from.
        if self._settings.overlap and 0 < self._round < self._pause - 1:
            slots = range(len(self._open[self._round].starts))
            if all(Slot(self._round, rank) in self.graph.proposals for rank in slots):
                yield from self._round_work(self._round + 1)

    def _round_work(self, round: int) -> Iterator[Work]:
        """Yield every piece of work of a round that can be done now, in a fixed order."""
        here = self._opened(round)
        shares = _shares(self._settings.ideas, len(here.starts))
        for rank, (start, share) in enumerate(zip(here.starts, shares, strict=True)):
            slot = Slot(round, rank)
            proposal = self.graph.proposals.get(slot)
            if proposal is None:
                yield WriteIdeas(slot=slot, moment=self._moment(start, "ideas", slot), count=share)
                # Later slots must know these ideas, or they would propose them again.
                return
            for number, idea in enumerate(proposal.ideas):
                if (rank, number) in here.done:
                    continue
                work = self._next_of_idea(slot, number, idea, start)
                if work is None:
                    here.done.add((rank, number))
                else:
                    yield work

    def _opened(self, round: int) -> _Open:
        if round not in self._open:
            self._open[round] = self._begin(round)
        return self._open[round]

    def _begin(self, round: int) -> _Open:
        """Choose the parents of a round, each with what is told of the search; a clean slate has none."""
        known = round - 1 if self._settings.overlap and round > 1 else round  # rounds
        earlier = self.graph.standings(known)
        rng = Random(self._seed("select", round))
        parents = self._policy.select(earlier, round, rng) or (None,)
        starts: list[tuple[Attempt | None, Memory]] = []
        for rank, parent in enumerate(parents):
            memory: Memory = "both"
            if self._alone:
                memory = "clean"
            elif self._memory is not None:
                last = rank == len(parents) - 1
                memory = choose_memory(self._memory, parent, earlier, known, last=last)
            starts.append((None if memory == "clean" else parent, memory))
        past = Past(earlier.attempts)
        return _Open(starts=tuple(starts), past=past, best=earlier.best)

    def _next_of_idea(
        self, slot: Slot, number: int, idea: Idea, start: tuple[Attempt | None, Memory]
    ) -> Work | None:
        """Return what one idea waits for: a verdict, a repair, or its next branch."""
        nodes = self.graph.branches(slot, number)
        for node in nodes:
            if node.outcome is None:
                return JudgeNode(node=node, key=self._key(node))
        for branch in range(self._settings.branches):
            step = Step(slot, number, branch)
            if step in self.graph.dead_ends:
                break
            chain = [node for node in nodes if node.step.branch == branch]
            if not chain:
                siblings = tuple(node.attempt() for node in nodes)
                moment = self._moment(start, "draft", step, siblings)
                return WriteDraft(step=step, moment=moment, idea=idea, siblings=siblings)
            mend = Step(slot, number, branch, repair=len(chain))
            if (
                _mendable(chain[-1])
                and mend.repair <= MAX_REPAIRS
                and mend not in self.graph.dead_ends
            ):
                mates = tuple(node.attempt() for node in nodes)
                moment = self._moment(start, "repair", mend, mates)
                return MendDraft(step=mend, moment=moment, failed=chain[-1].attempt())
        return self._tuning(slot, number, nodes)

    def _key(self, node: Node) -> str:
        if node.number not in self._keys:
            key = counting_key(self._record.engine, node.draft.source, self._context)
            self._keys[node.number] = key
        return self._keys[node.number]

    def _tuning(self, slot: Slot, number: int, nodes: list[Node]) -> TuneKnobs | None:
        """Return the next setting to try of an idea that is written, None where there is none."""
        tried = sum(node.step.branch >= self._settings.branches for node in nodes)
        step = Step(slot, number, self._settings.branches + tried)
        if tried >= self._settings.knob_trials or step in self.graph.dead_ends:
            return None
        attempts = tuple(node.attempt() for node in nodes)
        best = self._open[slot.round].best if self._settings.overlap else self.graph.best_merit
        found = promising(attempts, best)
        if found is None:
            return None
        base, tunable = found
        seed = self._seed("knobs", step)
        return TuneKnobs(step=step, base=base, tunable=tunable, nodes=attempts, seed=seed)

    def _moment(
        self,
        start: tuple[Attempt | None, Memory],
        what: str,
        place: Slot | Step,
        mates: tuple[Attempt, ...] = (),
    ) -> Moment:
        """Return the state of the search at a step; `mates` are the attempts at the same idea."""
        parent, memory = start
        slot = place if isinstance(place, Slot) else place.slot
        history: Sequence[Attempt] = self.graph.attempts()
        pending: tuple[Idea, ...] = ()
        if self._settings.overlap:
            history = Past(self._open[slot.round].past, mates)
            pending = self._pending(slot)
        return Moment(
            round=slot.round,
            seed=self._seed(what, place),
            parent=parent,
            history=history,
            diagnosis=self._diagnose(parent),
            memory=memory,
            pending=pending,
        )

    def _pending(self, slot: Slot) -> tuple[Idea, ...]:
        """Return the ideas of open rounds that were proposed before those of a slot."""
        first = slot.round - 1 if slot.round > 1 else slot.round
        listed = (self.graph.proposals[one] for one in self._slots_before(first, slot))
        return tuple(idea for proposal in listed for idea in proposal.ideas)

    def _slots_before(self, first: int, slot: Slot) -> Iterator[Slot]:
        for round in range(first, slot.round + 1):
            one = Slot(round, 0)
            while one < slot and one in self.graph.proposals:
                yield one
                one = Slot(round, one.parent + 1)

    def _seed(self, *place: object) -> int:
        return seed_of(self._settings.seed, *place)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A round that is worked on.

    Attributes:
        past, best: the attempts that its parents were chosen from, and the best merit among them.
        done: parents by rank, and ideas by number, with nothing left to do.
    """

    starts: tuple[tuple[Attempt | None, Memory], ...]
    past: Past
    best: float
    done: set[tuple[int, int]] = field(default_factory=set)


def _mendable(node: Node) -> bool:
    return node.outcome is not None and node.outcome.kind not in (*STANDING, "refused")


def _shares(total: int, parts: int) -> list[int]:
    """Deal `total` ideas to `parts` parents, at least one each, more to the better ones."""
    return [max(1, total // parts + (rank < total % parts)) for rank in range(parts)]


def _place(work: Work) -> object:
    if isinstance(work, JudgeNode):
        return work.node.number
    return work.slot if isinstance(work, WriteIdeas) else work.step
