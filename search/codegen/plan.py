"""Plans: which part of the graph the library does, and which recipe with which knobs does the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, log
from typing import Any

from kb.errors import NoRecipe
from search.codegen.attention import apart, joined, operators, replaced
from search.codegen.backends.gpu_module import assemble as assemble_gpu
from search.codegen.library import RecipeCard, Value, size_of
from search.codegen.lower import LoweredProgram, is_view
from search.codegen.module_writer import RenderedSegment, assemble
from search.codegen.operator_sizes import anchor_dims
from search.codegen.partition import segment
from search.codegen.render import Unfit, prelude, render
from search.codegen.segments import ATTENTION, Segment, seen_as
from search.costs.graph import OperatorGraph
from search.costs.trace import family
from search.costs.work import operator_costs

Plan = Mapping[str, Any]  # {"library": [...], "segments": {id: {recipe, knobs, pattern, dims}}}
# Of the work by count. A GPU's judge wants 1 % of the time: 1.2 % of the work came out as less, 1.6 % as more.
LEAST_OWN = 0.015
# Elementwise operators count one by one and cost one pass when they are fused: 2.5 % by count came out as 1 %.
DOUBTFUL = 0.03
# Seconds for each kernel of little work after another: assumed, since only the order of ideas depends on it.
_LAUNCHING = 2e-6
_LIBRARY = ("matmul", "convolution")  # families that Inductor leaves to the library
_WIDER = 0.99  # speed over torch.compile that is expected of a recipe for a wider pattern than the part's


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A recipe and its knobs for one segment."""

    recipe: str
    knobs: Mapping[str, Value]


class Composer:
    """Cuts one task's graph, chooses recipes for the parts and renders candidates.

    Args:
        source: text of the reference.
        cards: recipes by name, the preferred first.
        library: whether a candidate may call the library.
        units: multiprocessors of the device.
        target: name of the device, whose measurements order the recipes.
    """

    def __init__(
        self,
        source: str,
        program: LoweredProgram,
        cards: Mapping[str, RecipeCard],
        *,
        library: bool,
        units: int = 0,
        target: str = "",
    ) -> None:
        self._source = source
        self.program = program
        self.cards = cards
        self.library = library
        self._units = units
        self.target = target
        self._cuts: dict[frozenset[str], tuple[Segment, ...]] = {}
        self._recipes: dict[str, list[RecipeCard]] = {}
        self._fits: dict[tuple[str, str], dict[str, Value] | None] = {}

    def narrowed(self, cards: Mapping[str, RecipeCard]) -> Composer:
        """Return the workshop of the same task with other recipes."""
        return self._like(self.program, cards)

    def over(self, program: LoweredProgram) -> Composer:
        """Return the workshop of the same task whose operators are expressed in another way."""
        return self._like(program, self.cards)

    def _like(self, program: LoweredProgram, cards: Mapping[str, RecipeCard]) -> Composer:
        given = {"library": self.library, "units": self._units, "target": self.target}
        return Composer(self._source, program, cards, **given)  # type: ignore[arg-type]  # by name

    @cached_property
    def anchors(self) -> tuple[str, ...]:
        """Operators that either a recipe or the library can do."""
        return tuple(
            name
            for name, node in self.program.nodes.items()
            if node.kind == "opaque"
            and anchor_dims(self.program, self.program.operators[name]) is not None
        )

    def cut(self, library: Iterable[str]) -> tuple[Segment, ...]:
        """Return the segments when the library does the anchors named."""
        key = frozenset(library)
        if key not in self._cuts:
            parts = segment(self.program, key)
            for whole, inside in joined(self.program, parts) if self._has(ATTENTION) else ():
                if apart(whole) not in key and self.recipes(whole):
                    parts = replaced(parts, whole, inside)
            self._cuts[key] = parts
        return self._cuts[key]

    def _has(self, pattern: str) -> bool:
        return any(card.pattern == pattern for card in self.cards.values())

    def recipes(self, part: Segment) -> list[RecipeCard]:
        """Return the recipes that suit `part`, the preferred first: what is expected to be fastest."""
        if part.id not in self._recipes:
            found = [card for card in self.cards.values() if self.knobs(part, card) is not None]
            found.sort(key=lambda card: -self.expected(part, card))
            self._recipes[part.id] = found
        return self._recipes[part.id]

    def expected(self, part: Segment, card: RecipeCard) -> float:
        """Return the speed over torch.compile that is expected of `card` on `part`.

        Of a recipe for a wider pattern nothing was measured on such parts: a little less than the compiler's.
        """
        if card.pattern != part.pattern:
            return _WIDER
        return card.expected(self.target, _size(self.program, part))

    def knobs(self, part: Segment, card: RecipeCard) -> dict[str, Value] | None:
        """Return the knobs with which `card` is first tried on `part`: its defaults if they fit.

        Otherwise one knob is off its default, None where that does not help either.
        """
        if card.template is None or seen_as(part, card.pattern) is None:
            return None
        if card.pattern != part.pattern and self._has_own(part):
            return None
        key = (part.id, card.name)
        if key not in self._fits:
            self._fits[key] = next((s for s in card.settings() if self.suits(part, card, s)), None)
        return self._fits[key]

    def _has_own(self, part: Segment) -> bool:
        """Say whether a recipe of the part's own pattern fits it: then those of a wider one are not tried."""
        own = (card for card in self.cards.values() if card.pattern == part.pattern)
        return any(self.knobs(part, card) is not None for card in own)

    def suits(self, part: Segment, card: RecipeCard, knobs: Mapping[str, Value]) -> bool:
        """Say whether `card` renders `part` with these knobs."""
        try:
            render(self.program, part, card, knobs, "probe", self._units)
        except Unfit:
            return False
        return True

    def complete(self, library: Iterable[str], choices: Mapping[str, Choice]) -> dict[str, Any]:
        """Return the plan with `choices` where they hold and the preferred recipe elsewhere.

        Raises:
            NoRecipe: a part has no recipe.
        """
        names = sorted(set(library))
        segments: dict[str, Any] = {}
        for part in self.cut(names):
            if part.pattern == "library":
                continue
            choice = choices.get(part.id)
            card = self.cards.get(choice.recipe) if choice else None
            if choice is None or card is None or self.knobs(part, card) is None:
                card = self._preferred(part)
                knobs = self.knobs(part, card) or {}
            else:
                knobs = dict(choice.knobs)
            segments[part.id] = {
                "pattern": part.pattern,
                "dims": sizes(self.program, part),
                "recipe": card.name,
                "knobs": card.accept(knobs),
            }
        return {"library": names, "segments": segments}

    def _preferred(self, part: Segment) -> RecipeCard:
        found = self.recipes(part)
        if not found:
            raise NoRecipe(_missing(self._operators([part])))
        return found[0]

    def uncovered(self) -> frozenset[str]:
        """Return the operators of the parts that no recipe computes, the anchors left to the library."""
        parts = (
            p for p in self.cut(self.anchors) if p.pattern != "library" and not self.recipes(p)
        )
        lacking = list(parts)
        nodes = (self.program.nodes[name] for part in lacking for name in (*part.nodes, *part.post))
        # What a rewritten operator became has no call in the library: it stays whole.
        made = (self.program.operators[part.anchor] for part in lacking if part.anchor)
        wholes = (dict(operator.kwargs).get("whole") for operator in made)
        return frozenset((*(node.operator for node in nodes), *filter(None, wholes)))

    def outdone(self) -> frozenset[str]:
        """Return the rewritten operators of whose recipes less is expected than of the library's own, which is whole."""
        parts = [part for part in self.cut(self.anchors) if part.anchor and self.recipes(part)]
        slower = (part for part in parts if self.expected(part, self.recipes(part)[0]) < 1)
        made = (self.program.operators[part.anchor] for part in slower if part.anchor)
        wholes = (dict(operator.kwargs).get("whole") for operator in made)
        return frozenset(filter(None, wholes))

    def base(self) -> frozenset[str]:
        """Return the anchors that the first plan leaves to the library: all, where it is allowed.

        Raises:
            NoRecipe: nothing can be gained, or something must be done that no recipe does.
        """
        parts = self.cut(())
        fused = [p for p in parts if p.pattern != "library" and self.recipes(p)]
        rest = [p for p in parts if p not in fused and not self._is_view(p)]
        lacking = self._operators(rest)
        if self.library and not fused:
            # What no recipe computes whole the library may begin.
            begun = self.cut(self.anchors)
            fused = [p for p in begun if p.pattern != "library" and self.recipes(p)]
        if rest and (not self.library or not fused):
            raise NoRecipe(_missing(lacking))
        if not fused:
            raise NoRecipe("the reference computes nothing that a recipe could make faster")
        return frozenset(self.anchors) if self.library else frozenset()

    def _is_view(self, part: Segment) -> bool:
        if part.pattern != "library" or part.anchor is None:
            return False
        return is_view(self.program.operators[part.anchor])

    def of(self, part: Segment) -> frozenset[str]:
        """Return the operators of the reference that `part` computes, or some of."""
        names = (name for name in (part.anchor, part.pool, *part.nodes, *part.post) if name)
        return frozenset(self.program.nodes[name].operator for name in names)

    def _operators(self, parts: Iterable[Segment]) -> list[str]:
        names: dict[str, None] = {}
        for part in parts:
            for name in (part.anchor, *part.nodes, *part.post):
                if name:
                    operator = self.program.operators[self.program.nodes[name].operator]
                    names.setdefault(operator.target.split(".")[0])
        return list(names)

    def source(self, plan: Plan) -> str:
        """Return the candidate that `plan` describes.

        Raises:
            Unfit: a recipe does not suit its segment with these knobs.
        """
        parts = self.cut(plan["library"])
        kernels, flags = self.rendered(plan)
        if self.program.symbolic:
            return assemble_gpu(self._source, self.program, parts, kernels)
        return assemble(self._source, self.program, parts, kernels, flags, prelude())

    def rendered(self, plan: Plan) -> tuple[dict[str, RenderedSegment], tuple[str, ...]]:
        """Return the kernels of `plan` by segment, and the compiler's flags for them.

        Raises:
            Unfit: a recipe does not suit its segment with these knobs.
        """
        parts = self.cut(plan["library"])
        kernels: dict[str, RenderedSegment] = {}
        flags: dict[str, None] = {}
        written: dict[str, str] = {}
        for number, part in enumerate(part for part in parts if part.pattern != "library"):
            chosen = plan["segments"][part.id]
            card = self.cards[chosen["recipe"]]
            name = f"kernel{number}"
            text = render(self.program, part, card, chosen["knobs"], name, self._units)
            if self.program.symbolic:
                # Kernels that read their sizes are often the same: compiled once, called by several names.
                bare = re.sub(rf"\b{name}(?=_|\b)", "kernel", text)
                if written.setdefault(bare, name) != name:
                    text = f"{name} = {written[bare]}\n"
            knobs = ", ".join(f"{key}={value}" for key, value in sorted(chosen["knobs"].items()))
            note = f"{', '.join(self._operators([part]))}: {card.name}({knobs})"
            kernels[part.id] = RenderedSegment(name=name, text=text, note=note)
            flags.update(dict.fromkeys(card.flags))
        return kernels, tuple(flags)


def _missing(operators: list[str]) -> str:
    listed = ", ".join(operators)
    return f"no recipe computes {listed}: configure a model (model: in the task file) to write it"


def launching(launches: int) -> float:
    """Return the seconds that a GPU takes for so many kernels of little work."""
    return launches * _LAUNCHING


def launches(plan: Plan) -> int:
    """Return how many kernels and calls of the library a plan without a compiler's code has."""
    return len(plan["segments"]) + len(operators(plan["library"]))


def own_share(graph: OperatorGraph, plan: Plan) -> float:
    """Return the share of what the reference costs, by count, that no library does in `plan`."""
    costs = operator_costs(graph)
    handed = _handed(graph, plan)
    return 1 - sum(costs.get(name, 0.0) for name in handed) / (sum(costs.values()) or 1.0)


def only_elementwise(graph: OperatorGraph, plan: Plan) -> bool:
    """Say whether all that no library does in `plan` is elementwise."""
    handed = _handed(graph, plan)
    own = (one for one in graph.operators if one.name not in handed)
    return all(family(one) in ("elementwise", None) for one in own)  # None is a view


def _handed(graph: OperatorGraph, plan: Plan) -> set[str]:
    """Return the operators that a library does in `plan`."""
    handed = set(plan["library"])
    if plan.get("compiler"):
        every = {one.name for one in graph.operators}
        whole = set(plan["whole"]) if plan["segments"] else every
        handed |= {
            one.name for one in graph.operators if one.name in whole and family(one) in _LIBRARY
        }
    return handed


def sizes(program: LoweredProgram, part: Segment) -> dict[str, int | str]:
    """Return what makes two segments comparable: their patterns' sizes and operators."""
    if part.dims:
        return dict(part.dims)
    nodes = [program.nodes[name] for name in part.nodes]
    width = max(*(node.numel for node in nodes), *(program.nodes[n].numel for n in part.inputs), 1)
    reduced = [node for node in nodes if node.kind == "reduce"]
    depth = 1
    for node in reduced:
        source = program.nodes[node.operands[0]]
        depth = max(depth, source.numel // max(1, node.numel))
    kinds = ",".join(sorted({str(node.reduction) for node in reduced}))
    return {"elements": width, "depth": depth, "reducers": kinds, "steps": len(nodes)}


_WORK = {
    "matmul": ("batch", "m", "n", "k"),
    ATTENTION: ("batch", "m", "n", "k"),
    "conv": ("n", "c", "oc", "h", "w"),
}


def _size(program: LoweredProgram, part: Segment) -> int | None:
    """Return the size by which measurements of recipes are likened to `part`, None where none decides."""
    if part.pattern == "rows":
        depth = sizes(program, part)["depth"]
        return depth if isinstance(depth, int) else None
    if part.pattern not in _WORK or not part.dims:
        return None
    return size_of(part.pattern, [int(part.dims[name]) for name in _WORK[part.pattern]])


def distance(one: Mapping[str, int | str], other: Mapping[str, int | str]) -> float:
    """Return how far two segments' sizes are apart: the sum of logarithmic differences.

    Infinite where what is no size differs (the kind of pooling, the reducers, a choice that has the number -1).
    """
    total = 0.0
    for key in set(one) | set(other):
        a, b = one.get(key), other.get(key)
        if isinstance(a, int) and isinstance(b, int) and min(a, b) >= 0:
            total += abs(log(a + 1) - log(b + 1))
        elif a != b:
            return inf
    return total
