"""The author that needs no model: ideas that retrieval proposes, rendered by their recipes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress, islice
from operator import not_
from typing import Any, Protocol, Self

from kb.errors import NoRecipe
from kb.records.schema import Document, LessonRecord, TargetRecord
from kb.records.types import Hit, Kind, Query, Scope
from search.attempt import Attempt, Draft, Idea, Moment
from search.authors import AuthorParts
from search.codegen.applicability import languages, make_shop, suiting
from search.codegen.backends.replay import launch_bound, replayed
from search.codegen.inductor.process import begin_capture, device_of
from search.codegen.inductor.proposals import (
    between,
    captured,
    in_turns,
    openings,
    replacements,
    second,
    waiting,
    whole,
)
from search.codegen.inductor.seed import CompilerSeed
from search.codegen.library import REPLAY, RecipeCard, make_cards
from search.codegen.next_recipes import (
    RecipeProposal,
    combine,
    from_lessons,
    learned,
    proposals,
    start,
    whole_program,
)
from search.codegen.operators.recurrent import recurrent_layers
from search.codegen.plan import DOUBTFUL, Plan, only_elementwise, own_share
from search.codegen.render import Unfit
from search.codegen.tuner import JudgedSetting, suggestions
from search.costs.graph import OperatorGraph
from search.costs.work import least_seconds
from search.targets.cuda import read_device
from search.task import Task

_REPLAYS = 2  # plans that a run begins with captured, where launches dominate
_FAMILIES = {
    "pointwise": ("elementwise",),
    "rows": ("normalization", "softmax", "reduction"),
    "pool": ("pooling",),
    "select": ("sort",),
    **dict.fromkeys(("scan", "recurrence"), ("scan",)),
    **dict.fromkeys(("place", "pairs"), ("reduction",)),
    **dict.fromkeys(("histogram", "sample"), ("gather-scatter",)),
    **dict.fromkeys(("conv", "ndconv"), ("convolution",)),
    **dict.fromkeys(("matmul", "factor"), ("matmul",)),
}


class RecipeRetriever(Protocol):
    """Answers queries."""

    def search(self, query: Query) -> list[Hit]:
        """Return the passages that answer `query`, best first."""
        ...


class RecipeStore(Protocol):
    """Holds records."""

    def documents(self, kind: Kind) -> list[Document]:
        """Return every record of `kind`."""
        ...


class RecipeKnowledge(Protocol):
    """The knowledge base as this author sees it."""

    @property
    def retriever(self) -> RecipeRetriever:
        """What answers queries."""
        ...

    @property
    def store(self) -> RecipeStore:
        """What holds records."""
        ...


class Recipes:
    """Ideas and sources from the knowledge base alone.

    Args:
        target: the device: its kind decides the language, its vendor and architecture the recipes.
        graph: what the reference computes.
        say: takes what the user should know; where it is given, torch.compile's code for the reference
            is a candidate too, and what recipes replace parts of.

    Raises:
        NoRecipe: the target has no recipes, or an operator has none and nothing else is to gain.
    """

    def __init__(
        self,
        task: Task,
        target: TargetRecord,
        graph: OperatorGraph,
        knowledge: RecipeKnowledge,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._languages = languages(task.settings.language, target)
        self._target, self._graph = target, graph
        self._knowledge = knowledge
        listed = make_cards(knowledge.store.documents("idea"))
        known = [one.record for one in knowledge.store.documents("target")]
        cards = suiting(listed, target, self._languages, task.settings.precision, known)
        library = task.settings.library == "allowed"
        self._shop = make_shop(task.source, target, graph, cards, library=library)
        self._seed: CompilerSeed | None = None
        self._say, self._told = say, set[str]()
        wanted = say is not None and task.settings.compiler
        here, device = task.settings.evaluator == "local", device_of(target)
        if wanted and device is not None and recurrent_layers(graph):
            self._tell(
                "torch.compile's code is no candidate here: it is the library's recurrent layers"
            )
        elif wanted and {"cpp", "triton"} & set(self._languages):
            self._seed = CompilerSeed(self._shop, task.source, graph, device, here=here)
            if device is not None and read_device(0) is not None:
                # The judge's preparation leaves cores idle. On a processor it would be disturbed.
                begin_capture(task.source, device)
        self._base: frozenset[str] | None = None
        try:
            self._base = self._shop.base()
        except NoRecipe:
            if self._seed is None or self._seed.refusal:
                raise

    @classmethod
    def of(cls, parts: AuthorParts) -> Self:
        """Return the author of a run that has these parts."""
        return cls(parts.task, parts.target, parts.graph, parts.memory, parts.say)

    def ideas(self, moment: Moment, count: int) -> tuple[Idea, ...]:
        """Return at most `count` new ideas for `moment.parent`, the most promising first."""
        hits = self._search(moment)
        passages: dict[str, tuple[str, ...]] = {}
        for hit in hits:
            # "kb:ideas/cpu-rows.md" and "lessons:softmax-won.md" are records by their stems.
            name = re.split(r"[/:]", hit.passage.document)[-1].removesuffix(".md")
            passages[name] = (*passages.get(name, ()), hit.passage.id)
        seen = {attempt.draft.source for attempt in moment.history}
        seen |= {source for idea in moment.pending if (source := self._source(idea.plan["plan"]))}
        found: list[Idea] = []
        for proposal in self._replaying(
            moment, self._worthwhile(self._proposals(moment, tuple(passages)))
        ):
            if len(found) == count:
                break
            first = self._first(proposal, moment, seen)
            if first is None:
                continue
            plan, source = first
            seen.add(source)
            quoted = passages.get(proposal.lesson or "", ()) + passages.get(proposal.card.name, ())
            found.append(_idea(proposal, plan, quoted))
        return tuple(found)

    def draft(
        self, moment: Moment, idea: Idea, branch: int, siblings: tuple[Attempt, ...]
    ) -> Draft | None:
        """Return implementation number `branch` of `idea`: its defaults, then what Optuna asks for."""
        history = {attempt.number: attempt for attempt in (*moment.history, *siblings)}
        attempts = tuple(history[number] for number in sorted(history))
        seen = {attempt.draft.source for attempt in attempts}
        plan = idea.plan["plan"]
        if branch == 0:
            source = self._source(plan)
            if source is not None and source not in seen:
                return Draft(source=source, plan=plan, passages=idea.passages)
        elif idea.plan.get("lesson"):
            return None  # it was tuned where it won: other settings would come before other ideas
        focus = idea.plan["focus"] or _widest(plan, branch)
        for varied in self._vary(plan, focus, attempts, moment.seed + 7919 * branch):
            source = self._source(varied)
            if source is not None and source not in seen:
                return Draft(source=source, plan=varied, passages=idea.passages)
        return None

    def repair(self, moment: Moment, failed: Attempt) -> Draft | None:  # noqa: ARG002
        """Return None: a recipe that failed is not mended, another is tried."""
        return None

    def _search(self, moment: Moment) -> list[Hit]:
        patterns = [part.pattern for part in self._shop.cut(())]
        families = tuple(dict.fromkeys(name for p in patterns for name in _FAMILIES.get(p, ())))
        operators = dict.fromkeys(
            operator.target.split(".")[0] for operator in self._shop.program.graph.operators
        )
        words = (*families, *operators, *self._languages, self._target.architecture)
        scope = Scope(
            vendor=(self._target.vendor,),
            architecture=(self._target.architecture,),
            language=self._languages,
            operator=families,
        )
        query = Query(
            text=" ".join([*words, *moment.diagnosis.symptoms]),
            scope=scope,
            symptoms=moment.diagnosis.symptoms,
            kinds=("idea",),
            limit=24,
        )
        # Lessons have places of their own: they are few, and a library of ideas is large.
        lessons = replace(query, kinds=("lesson",), limit=8)
        retriever = self._knowledge.retriever
        return [*retriever.search(query), *retriever.search(lessons)]

    def _proposals(self, moment: Moment, retrieved: Sequence[str]) -> Iterator[RecipeProposal]:
        lessons = [
            (document.name, document.record)
            for document in self._knowledge.store.documents("lesson")
            if isinstance(document.record, LessonRecord)
        ]
        own, seed, parent = self._own(moment, lessons, retrieved), self._seed, moment.parent
        if parent is None:
            own = iter(own)
            yield from second(self._ahead(own, lessons), self._compiled())
            yield from in_turns(own, openings(seed) if seed else ())
        elif seed is not None and parent.draft.plan.get("compiler"):
            yield from replacements(seed, moment)
            yield from own
        else:
            yield from in_turns(own, replacements(seed, moment) if seed else ())

    def _worthwhile(self, found: Iterable[RecipeProposal]) -> Iterator[RecipeProposal]:
        """Yield those last in which the library does next to all of the work: a GPU's judge takes such for decoys.

        Such plans are left out where there are other ideas and their own work is only elementwise: fused, it is less still.
        """
        if self._target.device != "gpu":
            yield from found
            return
        later = []
        others = False
        for proposal in found:
            if own_share(self._graph, proposal.plan) < DOUBTFUL:
                later.append(proposal)
            else:
                others = True
                yield proposal
        for proposal in later:
            if not (others and only_elementwise(self._graph, proposal.plan)):
                yield proposal

    def _replaying(
        self, moment: Moment, found: Iterator[RecipeProposal]
    ) -> Iterator[RecipeProposal]:
        """Yield plans with their launches captured where the parent's are; where launches dominate, such come first."""
        card = next((card for card in self._shop.cards.values() if card.pattern == REPLAY), None)
        parent = moment.parent
        if parent is not None and parent.draft.plan.get("replayed"):
            yield from (replace(one, plan={**one.plan, "replayed": True}) for one in found)
            return
        first: list[RecipeProposal] = []
        if card is not None and parent is None and launch_bound(self._graph, self._target):
            first = list(islice(found, _REPLAYS))
            yield from (captured(card, one.title, one.note, one.plan) for one in first)
        elif card is not None and parent is not None:
            yield from waiting(card, parent, moment.diagnosis.symptoms)
        yield from first
        yield from found

    def _own(
        self,
        moment: Moment,
        lessons: Sequence[tuple[str, LessonRecord]],
        retrieved: Sequence[str],
    ) -> Iterator[RecipeProposal]:
        """Yield what recipes and the library do without a compiler's code."""
        if self._base is None:
            return
        plan = start(self._shop, self._base, moment.parent)
        if moment.parent is not None:
            yield from combine(self._shop, moment.parent, plan, moment.history)
        expected = learned(lessons, self._target.architecture, self._languages)
        target, least = self._target, 0.0
        if target.device == "gpu":
            least = least_seconds(self._graph, target.peak, target.bandwidth)
        yield from proposals(self._shop, plan, moment, retrieved, expected, least)

    def _ahead(
        self, own: Iterator[RecipeProposal], lessons: Sequence[tuple[str, LessonRecord]]
    ) -> Iterator[RecipeProposal]:
        """Yield what is expected to be faster than torch.compile's code: a run may have few candidates."""
        if self._base is not None:
            yield from from_lessons(self._shop, self._base, lessons, self._target.architecture)
        if self._target.device != "gpu":
            return
        ahead = list(between(self._seed)) if self._seed is not None else []
        several = list(whole_program(self._shop)) if self._base is not None else []
        # One part each comes after the compiler's whole: to list these takes long where parts are many.
        ahead += several or islice(own, 1)
        if (seed := self._seed) is not None:
            faster = [seed.expected(one.plan, one.speed, self._target) > 1 for one in ahead]
            ahead = [*compress(ahead, faster), *compress(ahead, map(not_, faster))]
            yield from self._compiled() if ahead and not any(faster) else ()
        yield from ahead

    def _compiled(self) -> Iterator[RecipeProposal]:
        """Yield torch.compile's code, or say why it is no candidate."""
        if self._seed is None:
            return
        why = self._seed.refusal or self._seed.beside
        if why:
            self._tell(f"torch.compile's code is no candidate here: {why}")
        yield from whole(self._seed)

    def _first(
        self, proposal: RecipeProposal, moment: Moment, seen: set[str]
    ) -> tuple[Plan, str] | None:
        """Return the first plan of `proposal` that makes a new source."""
        source = self._source(proposal.plan)
        if source is not None and source not in seen:
            return proposal.plan, source
        if proposal.focus is None:
            return None
        for plan in self._vary(proposal.plan, proposal.focus, moment.history, moment.seed):
            source = self._source(plan)
            if source is not None and source not in seen:
                return plan, source
        return None

    def _vary(
        self, plan: Plan, focus: str, history: Sequence[Attempt], seed: int
    ) -> Iterator[dict[str, Any]]:
        """Yield `plan` with other knobs for the segment `focus`."""
        chosen = plan["segments"].get(focus)
        if chosen is None:
            return
        card: RecipeCard = self._shop.cards[chosen["recipe"]]
        trials = list(_trials(history, focus, card.name))
        for knobs in suggestions(card.knobs, trials, seed):
            segments = {**plan["segments"], focus: {**chosen, "knobs": knobs}}
            yield {**plan, "segments": segments}

    def _source(self, plan: Plan) -> str | None:
        try:
            source = None
            if not plan.get("compiler"):
                source = self._shop.source(plan)
            elif self._seed is not None:
                source = self._seed.source(plan)
            return replayed(source) if source is not None and plan.get("replayed") else source
        except Unfit as error:
            if plan.get("compiler"):
                self._tell(f"a part of torch.compile's code cannot be replaced: {error}")
            return None

    def _tell(self, line: str) -> None:
        """Say something once."""
        if self._say is not None and line not in self._told:
            self._told.add(line)
            self._say(line)


def _idea(proposal: RecipeProposal, plan: Plan, passages: tuple[str, ...]) -> Idea:
    card = proposal.card
    return Idea(
        title=proposal.title,
        text=f"{card.text}\n\n{proposal.note}".strip(),
        category=card.category,
        record=card.name or None,
        passages=passages,
        plan={
            "plan": plan,
            "focus": proposal.focus,
            **({"lesson": proposal.lesson} if proposal.lesson else {}),
        },
    )


def _widest(plan: Plan, branch: int) -> str:
    """Return the segment whose knobs an idea without a focus varies: each in turn."""
    names = sorted(plan["segments"])
    return names[branch % len(names)] if names else ""


def _trials(history: Sequence[Attempt], focus: str, recipe: str) -> Iterator[JudgedSetting]:
    for attempt in history:
        segments: Mapping[str, Any] = attempt.draft.plan.get("segments", {})
        chosen = segments.get(focus)
        if chosen and chosen["recipe"] == recipe:
            cost = 1 / attempt.merit if attempt.merit else None
            yield JudgedSetting(knobs=chosen["knobs"], cost=cost)
