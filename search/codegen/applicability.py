"""Which recipes suit a device and a task, and the workshop that renders them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kb.errors import NoRecipe
from kb.records.schema import TargetRecord
from search.codegen.library import RecipeCard
from search.codegen.lower import lower, own_masks
from search.codegen.plan import Composer
from search.costs.graph import OperatorGraph

# By device, the languages in which recipes are written, and by vendor what a GPU's are limited to.
_LANGUAGES = {"cpu": ("cpp",), "gpu": ("triton", "cuda")}
_VENDORS = {"cuda": "nvidia"}
_SHORTER = {
    "tf32": ("tf32",),
    "half": ("tf32", "float16", "bfloat16"),
    "framework": ("tf32",),  # in convolutions
}


def languages(wanted: str, target: TargetRecord) -> tuple[str, ...]:
    """Return the languages in which recipes for `target` are written, as far as they are wanted.

    Args:
        wanted: a language, or ``auto`` for any.

    Raises:
        NoRecipe: there is none.
    """
    found = tuple(
        language
        for language in _LANGUAGES.get(target.device, ())
        if wanted in ("auto", language) and _VENDORS.get(language, target.vendor) == target.vendor
    )
    if not found:
        raise NoRecipe(
            "the offline author writes C++ for CPUs, Triton for GPUs and CUDA C++ for NVIDIA's, found"
            f" target {target.name} and language {wanted}: configure a model (model: in the task file)"
        )
    return found


def suiting(
    cards: Mapping[str, RecipeCard],
    target: TargetRecord,
    languages: tuple[str, ...],
    precision: object = "strict",
    known: Iterable[object] = (),
) -> dict[str, RecipeCard]:
    """Return the cards that suit, those in the language that is best on `target` first.

    Args:
        precision: of the task.
        known: records of targets: where nothing was measured on `target` of any card for a pattern, what was
            measured on others of its architecture counts.
    """
    listed = (*target.languages, *languages)

    def order(name: str) -> tuple[int, str]:
        return min(listed.index(lang) for lang in _written(cards[name]) if lang in listed), name

    found = [
        name
        for name, card in cards.items()
        if suits(card, target, languages) and exact(card, precision)
    ]
    alike = [
        one.name
        for one in known
        if isinstance(one, TargetRecord) and one.architecture == target.architecture
    ]
    here = {cards[name].pattern for name in found if target.name in cards[name].measured}
    shorter = {cards[name].pattern for name in found if cards[name].shorter}
    suited = {}
    for name in sorted(found, key=order):
        card = cards[name]
        if card.pattern in shorter and not card.shorter:
            card = replace(card, measured={})  # beside baselines of another precision
        elif card.pattern not in here:  # figures of two devices do not compare
            card = _measured_alike(card, target, alike)
        suited[name] = card
    return suited


def _measured_alike(card: RecipeCard, target: TargetRecord, alike: Sequence[str]) -> RecipeCard:
    found = tuple(one for name in alike for one in card.measured.get(name, ()))
    return replace(card, measured={**card.measured, target.name: found}) if found else card


def suits(card: RecipeCard, target: TargetRecord, languages: tuple[str, ...]) -> bool:
    """Say whether the record's scope allows `card` here; what a scope leaves out is no limit."""
    scope = card.scope
    return (
        bool(set(_written(card)) & set(languages))
        and (not scope.vendor or target.vendor in scope.vendor)
        and (not scope.architecture or target.architecture in scope.architecture)
        and set(card.needs) <= set(target.limits)
    )


def exact(card: RecipeCard, precision: object) -> bool:
    """Say whether a precision allows a card: one that names only shorter types needs leave.

    Not so where the tensors have such a type already.
    """
    if not card.shorter:
        return True
    if precision == "framework" and "convolution" not in card.scope.operator:
        return False
    allowed = _SHORTER.get(precision, ()) if isinstance(precision, str) else ()
    return bool(set(card.scope.dtype) & set(allowed))


def make_shop(
    source: str,
    target: TargetRecord,
    graph: OperatorGraph,
    cards: Mapping[str, RecipeCard],
    *,
    library: bool = True,
) -> Composer:
    """Return the workshop of a task; what no recipe computes is left to the library where it may be.

    So are layers that recipes are expected to do more slowly, where there is something else to gain.

    Args:
        source: text of the reference.
        library: whether a candidate may call the library.
    """
    shop, whole = _covered(source, target, graph, cards, frozenset(), library=library)
    outdone = shop.outdone() - whole if library else frozenset()
    if not outdone:
        return shop
    other, _ = _covered(source, target, graph, cards, whole | outdone, library=library)
    try:
        other.base()
    except NoRecipe:
        return shop
    return other


def _covered(
    source: str,
    target: TargetRecord,
    graph: OperatorGraph,
    cards: Mapping[str, RecipeCard],
    whole: frozenset[str],
    *,
    library: bool,
) -> tuple[Composer, frozenset[str]]:
    """Return the workshop in which every part has a recipe or a call of the library, and what stays whole for it."""
    gpu = target.device == "gpu"
    while True:
        program = lower(graph, symbolic=gpu, whole=whole)
        shop = Composer(
            source, program, cards, library=library, units=target.units, target=target.name
        )
        uncovered = shop.uncovered()
        if not uncovered <= whole and (copied := own_masks(program)) is not program:
            apart = shop.over(copied)
            if len(fewer := apart.uncovered()) < len(uncovered):
                shop, uncovered = apart, fewer
        if uncovered <= whole or not library:
            return shop, whole
        whole |= uncovered


def _written(card: RecipeCard) -> tuple[str, ...]:
    """Return the languages that `card` is written in; a template that names none is C++."""
    return card.scope.language or _LANGUAGES["cpu"]
