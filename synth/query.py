"""What to ask the knowledge base before a prompt: one plain sentence for each thing that is known.

A question names a pattern of the task, what the module says of itself, a measured bottleneck, an
idea that is to be written, or a fault. What a step is for decides which of them count, and which
kinds of documents may answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kb.records.patterns import Area, Recognised
from kb.records.schema import TargetRecord
from kb.records.types import Kind, Scope
from kb.retrieval.multi_query import Expected, Inquiry, Question
from synth.quoting import one_line

Stage = Literal["ideas", "plateau", "draft", "repair"]
DTYPES: Mapping[str, tuple[str, ...]] = {
    "strict": ("float32",),
    "kernelbench": ("float32",),
    "tf32": ("float32", "tf32"),
    "half": ("float32", "float16", "bfloat16"),
}
TOLD = 300  # characters of what a module says of itself
SYMPTOMS = 3  # of a diagnosis that are asked about


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """What a step asks for, and how much.

    Attributes:
        areas: factor of the questions of patterns, by their area.
        own: factor of the question in the step's own words: an idea, a message; of what the module says
            of itself where ideas are asked for.
        kinds: factor of the answers, by kind; no other kind is given.
        later: factor of what usually helps (areas `family` and `overview`) where a program was measured:
            it has been done by then.
        limit: documents at most.
        whole: of these, how many at most are quoted whole; the others in brief.
    """

    areas: Mapping[Area, float]
    own: float
    kinds: Mapping[Kind, float]
    limit: int
    later: float = 1.0
    whole: int = 16


PLANS: Mapping[Stage, QueryPlan] = {
    "ideas": QueryPlan(
        areas={
            "computation": 0.8,
            "family": 0.48,
            "overview": 0.25,
            "symptom": 0.95,
            "setting": 0.2,
        },
        own=0.35,
        kinds={"idea": 1.0, "kernel": 0.75, "guide": 0.85, "lesson": 0.7, "document": 0.6},
        limit=28,
        later=0.15,
        whole=6,
    ),
    "plateau": QueryPlan(
        areas={"computation": 0.6, "family": 0.2, "overview": 0.3, "symptom": 0.9, "setting": 0.7},
        own=0.3,
        kinds={"idea": 1.3, "kernel": 0.9, "guide": 0.4, "lesson": 0.7, "document": 0.6},
        limit=18,
        later=0.3,
        whole=5,
    ),
    "draft": QueryPlan(
        areas={"computation": 0.25, "setting": 0.7},
        own=1.4,
        kinds={"idea": 1.4, "kernel": 2.0, "guide": 1.4, "lesson": 0.5, "document": 0.7},
        limit=16,
        whole=4,
    ),
    "repair": QueryPlan(
        areas={"computation": 0.15, "setting": 0.3, "fault": 1.9},
        own=0.6,
        kinds={"guide": 0.7, "idea": 0.8, "kernel": 0.5, "lesson": 0.5, "document": 0.8},
        limit=9,
        whole=3,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a run is about.

    Attributes:
        told: what the reference says of itself, in its names and docstrings.
        families: operator families of the reference.
        precision: the task's policy; one that has no name counts as float32.
        formats: of numbers that operands have beside it.
        narrow: they have none but these: what is written for the task's own precision does not apply.
        library: whether candidates may call the framework's library, as the task says.
    """

    target: TargetRecord
    language: str
    told: str = ""
    families: tuple[str, ...] = ()
    precision: str = "strict"
    formats: tuple[str, ...] = ()
    narrow: bool = False
    library: str = "allowed"

    @property
    def scope(self) -> Scope:
        """Where knowledge must apply to serve this run; operators are no part of it."""
        return Scope(
            vendor=(self.target.vendor,),
            architecture=(self.target.architecture,),
            language=(self.language,),
            dtype=(
                *(() if self.narrow else DTYPES.get(self.precision, ("float32",))),
                *self.formats,
            ),
            library=(self.library,),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What is to be written next.

    Attributes:
        patterns: what the task, the diagnosis and a failure show.
        elsewhere: names of records that patterns of computations name, none of which is there.
        expected: records that tasks like this one were helped by.
        judged: names of the records that these tasks speak of.
        symptoms: of the diagnosis, the worst first.
        measured: the diagnosis is of a program that was measured, not a guess from the reference.
        text: an idea, or what was reported of a failure; "" for new ideas.
        record: of the library, that the idea comes from.
        tried: names of records that the search has tried.
        asked: what a model asks; the questions of templates are not asked then, and only the records that
            they name count.
        tokens: room for the passages, counted by `encoding`.
    """

    stage: Stage
    patterns: Sequence[Recognised] = ()
    elsewhere: frozenset[str] = frozenset()
    expected: tuple[Expected, ...] = ()
    judged: frozenset[str] = frozenset()
    symptoms: Sequence[str] = ()
    measured: bool = False
    text: str = ""
    record: str | None = None
    tried: Sequence[str] = ()
    asked: Sequence[str] = ()
    tokens: int = 8000
    encoding: str = "cl100k_base"
    plans: Mapping[Stage, QueryPlan] = field(default_factory=lambda: PLANS)


def build_inquiry(subject: Subject, need: Need) -> Inquiry:
    """Return what to ask the knowledge base before a prompt is written."""
    plan = need.plans[need.stage]
    computations = [one for one in need.patterns if one.pattern.area == "computation"]
    families = dict.fromkeys(
        (*subject.families, *(name for one in computations for name in one.pattern.families))
    )
    return Inquiry(
        questions=tuple(_questions(subject, need, plan)),
        scope=subject.scope,
        stage="ideas" if need.stage == "plateau" else need.stage,
        operators=subject.families,
        families=tuple(families),
        symptoms=tuple(need.symptoms) if need.stage != "repair" else (),
        kinds=tuple(plan.kinds.items()),
        tried=tuple(f"ideas/{name}" for name in need.tried) if need.stage != "repair" else (),
        elsewhere=need.elsewhere if need.stage != "repair" else frozenset(),
        expected=need.expected,
        judged=need.judged,
        device=subject.target.device,
        target=subject.target.name,
        menu=need.stage in ("ideas", "plateau"),
        limit=plan.limit,
        whole=plan.whole,
        tokens=need.tokens,
        encoding=need.encoding,
    )


def _questions(subject: Subject, need: Need, plan: QueryPlan) -> Iterator[Question]:
    if need.text:
        see = (f"ideas/{need.record}",) if need.record else ()
        what = "what was reported" if need.stage == "repair" else "the idea"
        yield Question(
            text=one_line(need.text, 600),
            reason=f"it answers {what}",
            weight=plan.own,
            see=see,
            anywhere=True,
        )
    for one in need.asked:
        yield Question(
            text=one, reason=f"a model asks: {one_line(one, 120)}", weight=plan.own, anywhere=True
        )
    if subject.told and not need.text and not need.asked:
        yield Question(
            text=one_line(subject.told, TOLD),
            reason="it is about what the module says of itself",
            weight=plan.own,
        )
    asked = 0
    for found in need.patterns:
        weight = plan.areas.get(found.pattern.area, 0.0) * found.pattern.weight
        if found.pattern.area == "symptom":
            asked += 1
            if not need.measured or asked > SYMPTOMS:
                continue
        if found.pattern.area == "computation":
            weight *= 0.5 + 0.5 * found.share
        if found.pattern.area == "family":
            weight *= found.share**0.5
        if need.measured and found.pattern.area in ("family", "overview"):
            weight *= plan.later
        if weight:
            yield from _of_pattern(found, weight, worded=not need.asked)


def _of_pattern(one: Recognised, weight: float, *, worded: bool) -> Iterator[Question]:
    """Yield the questions of a pattern; the first one carries the records that it names.

    Args:
        worded: False for these records alone, and nothing that is searched for.
    """
    pattern = one.pattern
    reason = f"{pattern.title} (pattern {pattern.name}: {one_line(one.shown, 120)})"
    asked = pattern.questions or (("",) if pattern.area == "family" else (pattern.title,))
    if not worded:
        asked = ("",)
    for place, text in enumerate(asked):
        yield Question(
            text=text,
            reason=reason,
            weight=weight,
            see=pattern.see if place == 0 else (),
            anywhere=pattern.area in ("symptom", "fault"),
        )
