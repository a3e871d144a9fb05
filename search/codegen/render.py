"""One segment and one recipe make one kernel: in C++ for a CPU, in Python text for a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING

from kb.config import shipped_docs
from search.codegen.access_analysis import walk
from search.codegen.attention import scored
from search.codegen.backends.cpp import CppEmitter, RowWriter
from search.codegen.backends.gpu_render import context as gpu_context
from search.codegen.ir import SHORT
from search.codegen.iteration_space import Misfit
from search.codegen.library import RecipeCard, Value
from search.codegen.loop_layout import layout
from search.codegen.lower import LoweredProgram
from search.codegen.partition import plane_borders
from search.codegen.segments import ATTENTION, INNER, Segment, seen_as

if TYPE_CHECKING:
    from jinja2 import Environment, Template


class Unfit(Exception):
    """The recipe does not suit the segment's sizes; the message says why."""


def _unfit(reason: str) -> str:
    raise Unfit(reason)


@cache
def prelude() -> str:
    """Return the C++ that every kernel starts with."""
    return (shipped_docs() / "recipes" / "prelude.hpp").read_text(encoding="utf-8")


@cache
def _tiles() -> str:
    return (shipped_docs() / "recipes" / "tiles.hpp").read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, StrictUndefined  # imported when a kernel is first rendered

    # Nothing is escaped: the templates render C++, not a page.
    return Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701


@lru_cache(maxsize=512)
def _template(text: str) -> Template:
    # To compile one takes 30 ms, and a search renders each dozens of times.
    return _environment().from_string(text)


def render(
    program: LoweredProgram,
    part: Segment,
    card: RecipeCard,
    knobs: Mapping[str, Value],
    fn: str,
    units: int = 0,
) -> str:
    """Return the text of the kernel ``fn`` that computes `part`.

    Args:
        units: multiprocessors of the device, for recipes that choose by it.

    Raises:
        Unfit: the recipe does not suit the segment.
    """
    seen = seen_as(part, card.pattern)
    if seen is None or card.template is None:
        raise Unfit(f"{card.name} is for {card.pattern}, the segment is {part.pattern}")
    part = seen
    if program.symbolic == ("cpp" in (card.scope.language or ("cpp",))):
        raise Unfit(f"{card.name} is written for another kind of device")
    _check_types(program, part, card)
    chosen = {**knobs, **card.fixed}
    try:
        if program.symbolic:
            context, functions = gpu_context(program, part, card, chosen, fn)
        else:
            context, functions = _context(program, part, chosen, fn)
    except Misfit as error:
        raise Unfit(f"{card.name} cannot express what the segment computes") from error
    template = _template(card.template)
    given = {
        "fn": fn,
        "k": SimpleNamespace(**chosen),
        "unfit": _unfit,
        "units": units,
        "tiles": _tiles(),
    }
    kernel = template.render(**given, **context).strip()
    if program.symbolic:
        return "\n\n\n".join(text for text in (functions.strip(), kernel) if text) + "\n"
    return f"{functions}\n{kernel}\n"


def _check_types(program: LoweredProgram, part: Segment, card: RecipeCard) -> None:
    """See that a recipe of a product, a pooling, … reads and writes what the part has in memory.

    Raises:
        Unfit: it does not.
    """
    if part.anchor is None:
        return
    if (program.nodes[part.anchor].dtype in SHORT) != card.short:
        raise Unfit(f"{card.name} is for operands of another type")
    written = {program.nodes[name].dtype for name in part.outputs}
    if written & {*SHORT} and "triton" not in card.scope.language:
        raise Unfit(f"{card.name} writes float32")


def _context(
    program: LoweredProgram, part: Segment, knobs: Mapping[str, Value], fn: str
) -> tuple[dict[str, object], str]:
    if part.pattern in ("pointwise", "rows"):
        found = walk(program.nodes, part.nodes, part.outputs)
        shape = layout(found)
        emitter = CppEmitter(program.nodes, found, shape, part.inputs, part.outputs)
        functions = RowWriter(emitter, fn, keep=bool(knobs.get("keep", False))).build()
        sizes = {
            "outer": shape.size(shape.outer),
            "middle": shape.size(shape.middle),
            "cols": shape.size(shape.lanes),
            "columns": int(shape.columns),
        }
        return {"d": SimpleNamespace(**sizes), "p": functions}, functions.text
    dims = SimpleNamespace(**part.dims)
    assert part.anchor is not None
    if part.pattern == ATTENTION:
        first, own, taken = scored(program, part)
        scores, text = _tail(program, part, own, first, f"{fn}_scores", taken)
        epilogue, more = _tail(program, part, part.post, part.anchor, f"{fn}_epilogue")
        return {"d": dims, "scores": scores, "epilogue": epilogue}, text + more
    if part.pattern in INNER:
        source = program.nodes[part.anchor].operands[0]
        load, text = _load(program, part, source, fn)
        post, more = _tail(program, part, part.tail, part.anchor, f"{fn}_post")
        return {"d": dims, "load": load, "post": post}, text + more
    last = program.nodes[part.pool].operands[0] if part.pool else None
    epilogue, text = _tail(program, part, part.nodes, part.anchor, f"{fn}_epilogue", last)
    post, more = f"{fn}_post", ""
    post, more = _tail(program, part, part.post, part.pool or part.anchor, post)
    return {"d": dims, "epilogue": epilogue, "post": post}, text + more


def _load(program: LoweredProgram, part: Segment, source: str, fn: str) -> tuple[str, str]:
    """The function that reads, or computes, an element of what is pooled."""
    name = f"{fn}_load"
    (plane, *_) = plane_borders(part.pattern, program.nodes[source].shape, part.dims)
    if not part.nodes:
        place = f"in[{part.inputs.index(program.base(source))}] + row * {plane} + col"
        text = (
            f"template <class V> INL V {name}(const float* const* in, long row, long col)"
            f" {{ return ld<V>({place}); }}\n"
        )
        return name, text
    found = walk(program.nodes, part.nodes, [source], (plane,))
    emitter = CppEmitter(program.nodes, found, layout(found, plane), part.inputs)
    return name, emitter.epilogue(name, (source, found.space.full), {}, "")


def _tail(
    program: LoweredProgram,
    part: Segment,
    nodes: tuple[str, ...],
    tip: str,
    name: str,
    result: str | None = None,
) -> tuple[str, str]:
    """The function that a kernel applies to each value of `tip` before it stores it."""
    head = "V v, "
    if not nodes:
        empty = "const float* const*, long, long"
        return name, f"template <class V> INL V {name}({head}{empty}) {{ return v; }}\n"
    inner = set(nodes)
    result = result or next(
        n for n in reversed(nodes) if not set(program.users[n]) & inner or n in part.outputs
    )
    (plane, *_) = plane_borders(part.pattern, program.nodes[tip].shape, part.dims)
    found = walk(program.nodes, [*nodes, tip], [result], (plane,))
    emitter = CppEmitter(program.nodes, found, layout(found, plane), part.inputs)
    given = {(tip, found.space.full): "v"}
    return name, emitter.epilogue(name, (result, found.space.full), given, head)
