"""Kernels for an operator's other samples: the plan that won on the timed one, on their shapes and arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kb.errors import NoRecipe
from kb.records.schema import TargetRecord
from search.codegen.applicability import languages, make_shop, suiting
from search.codegen.inductor.process import device_of
from search.codegen.inductor.seed import CompilerSeed
from search.codegen.library import RecipeCard
from search.codegen.plan import Choice, Composer
from search.codegen.render import Unfit
from search.costs.trace import operator_graph
from search.reference import Problem


def write_kernel(
    problem: Problem,
    target: TargetRecord,
    cards: Mapping[str, RecipeCard],
    plan: Mapping[str, Any],
) -> str:
    """Return a candidate for a sample, written as `plan` has the operator's timed problem written.

    A part that computes by the same pattern is done by the plan's recipe where that suits it, else by the
    preferred one; where the plan is torch.compile's code, so is this.

    Args:
        cards: every recipe of the library.

    Raises:
        NoRecipe: nothing can be written for it: the library is to answer.
        TaskError: the sample's reference cannot be traced.
    """
    task = problem.task
    graph = operator_graph(problem)
    fitting = suiting(cards, target, languages("auto", target), task.settings.precision)
    shop = make_shop(task.source, target, graph, fitting)
    try:
        if plan.get("compiler") and not plan["segments"]:
            seed = CompilerSeed(shop, task.source, graph, device_of(target))
            if seed.refusal:
                raise NoRecipe(seed.refusal)
            return seed.source(seed.plan({}))
        return shop.source(_moved(shop, plan))
    except Unfit as error:
        raise NoRecipe(str(error)) from error


def _moved(shop: Composer, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan for another graph, its recipes found again by their patterns."""
    chosen = {one["pattern"]: one for one in plan["segments"].values()}
    base = shop.base()
    library = base if plan["library"] else frozenset[str]()
    choices: dict[str, Choice] = {}
    for part in shop.cut(library):
        one = chosen.get(part.pattern)
        card = shop.cards.get(one["recipe"]) if one else None
        if one is None or card is None or shop.knobs(part, card) is None:
            continue
        for knobs in (card.accept(one["knobs"]), shop.knobs(part, card)):
            if knobs is not None and shop.suits(part, card, knobs):
                choices[part.id] = Choice(recipe=card.name, knobs=knobs)
                break
    return shop.complete(library, choices)
