"""Which patterns a task shows: its operators, its text, the device, and what became of a candidate."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kb.records.patterns import Pattern, Recognised
from kb.words import split_words
from search.costs.graph import Operator, OperatorGraph, Value
from search.costs.trace import flops_of, nbytes, operator_name
from search.patterns.families import topic, topic_of
from search.patterns.flow import Flow
from search.patterns.source import ReferenceText, read_text
from search.patterns.traits import find_traits

_BYTE = 8.0  # operations that a byte from memory costs a core


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceTraits:
    """What a reference computes, in the terms that patterns ask about.

    Attributes:
        operators: plain ATen names.
        shares: of the reference's estimated cost, by operator family.
        paths: steps that follow one another, as ``matmul>softmax>matmul``.
        traits: what is true of it, each with what shows it.
    """

    text: ReferenceText
    operators: frozenset[str] = frozenset()
    shares: Mapping[str, float] = field(default_factory=dict)
    paths: frozenset[str] = frozenset()
    traits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is known beside the reference: the device, and what became of a program.

    Attributes:
        outcome: kind of the outcome that is to be mended, "" where none is.
        message: what was reported of it.
        idea: the idea that is to be written, or whose candidate failed.
        shares: of a measured program's time, by operator family; empty for the reference's estimate.
    """

    device: str = ""
    language: str = ""
    symptoms: tuple[str, ...] = ()
    outcome: str = ""
    message: str = ""
    idea: str = ""
    shares: Mapping[str, float] = field(default_factory=dict)


def read_program(name: str, source: str, graph: OperatorGraph | None) -> ReferenceTraits:
    """Describe a reference; without its operators, the text alone tells what it calls."""
    text = read_text(name, source)
    if graph is None:
        families = {found for name in text.calls if (found := topic_of(name))}
        shares = dict.fromkeys(sorted(families), 1 / max(1, len(families)))
        return ReferenceTraits(
            text=text, operators=text.calls, shares=shares, paths=frozenset(families)
        )
    flow = Flow(graph)
    return ReferenceTraits(
        text=text,
        operators=frozenset(map(operator_name, graph.operators)),
        shares=_shares(graph),
        paths=flow.paths,
        traits=find_traits(flow, text),
    )


def recognise(
    patterns: Sequence[Pattern], program: ReferenceTraits, state: State
) -> tuple[Recognised, ...]:
    """Return the patterns that are there, the costliest first; special ones stand for general ones."""
    found = [
        Recognised(
            pattern=one,
            shown="; ".join(dict.fromkeys(shown)),
            share=_share(one, state.shares or program.shares),
        )
        for one in patterns
        if (shown := _shown(one, program, state)) is not None
    ]
    replaced = {name for one in found for name in one.pattern.instead}
    kept = [one for one in found if one.pattern.name not in replaced]
    return tuple(sorted(kept, key=lambda one: -one.share))


def _shown(pattern: Pattern, program: ReferenceTraits, state: State) -> list[str] | None:
    """Return what shows a pattern, None where it is not there."""
    when = pattern.when
    if any(_holds(one, program, state) is not None for one in when.none):
        return None
    every = [_holds(one, program, state) for one in when.all]
    some = [shown for one in when.any if (shown := _holds(one, program, state)) is not None]
    if None in every or (when.any and not some):
        return None
    return [*(shown for shown in every if shown is not None), *some[:2]]


def _holds(condition: str, program: ReferenceTraits, state: State) -> str | None:
    """Return what shows that a condition holds, None where it does not."""
    subject, _, wanted = (part.strip() for part in condition.partition(":"))
    if subject == "is":
        shown = program.traits.get(wanted)
        return None if shown is None else f"{wanted.replace('-', ' ')} ({shown})"
    if subject == "word":
        stems = split_words(wanted)
        return f"it says {wanted!r}" if set(stems) <= program.text.words else None
    if subject in ("message", "idea"):
        told = state.message if subject == "message" else state.idea
        met = re.search(wanted, told, re.IGNORECASE)
        said = "reported" if subject == "message" else "the idea says"
        return f"{said}: {met.group()[:60]!r}" if met else None
    having: Mapping[str, Sequence[str] | frozenset[str]] = {
        "operator": program.operators,
        "family": tuple(program.shares),
        "path": program.paths,
        "outcome": (state.outcome,),
        "symptom": state.symptoms,
        "device": (state.device,),
        "language": (state.language,),
    }
    met_name = next((one for one in sorted(having[subject]) if fnmatchcase(one, wanted)), None)
    return None if met_name is None else f"{subject} {met_name}"


def _share(pattern: Pattern, shares: Mapping[str, float]) -> float:
    if not shares or not pattern.families:
        return 1.0
    return min(1.0, sum(shares.get(one, 0.0) for one in pattern.families))


def _shares(graph: OperatorGraph) -> dict[str, float]:
    """Return what part of the reference's cost each operator family is."""
    entries: tuple[Value | Operator, ...] = (*graph.values, *graph.operators)
    sizes = {one.name: nbytes(one) for one in entries}
    costs: dict[str, float] = {}
    for one in graph.operators:
        kind = topic(one)
        if kind is None:
            continue
        taken = {arg.name for arg in one.args if hasattr(arg, "name")}
        moved = sizes[one.name] + sum(sizes.get(name, 0) for name in taken)
        costs[kind] = costs.get(kind, 0.0) + max(flops_of(one, graph), _BYTE * moved)
    total = sum(costs.values())
    return {kind: cost / total for kind, cost in costs.items()} if total else {}
