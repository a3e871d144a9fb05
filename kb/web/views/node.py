"""One node: its idea, what the author was told, the source, what changed, and what became of it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from kb.database import reading
from kb.web.notes import Annotation, on_node
from kb.web.sources import NotFound, Sources
from kb.web.story import Brief, Candidate, Story
from kb.web.text import address as address_of
from kb.web.trials import key_of
from kb.web.views.measures import Measures, measures
from kb.web.views.passages import Quoted, quoted
from search.outcome import Outcome, Passed, Ratio, from_json

REFERENCE = "reference"
NEAREST = 8  # ancestors that a node's page names to be compared with, beside the reference
CONTEXT = 4  # unchanged lines around a change


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A node that stands near another.

    Attributes:
        name: ``reference`` or a number, as addresses have it.
    """

    name: str
    idea: str
    outcome: str
    ratio: Ratio | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """A line of a difference.

    Attributes:
        mark: ``+``, ``-``, a space, or ``@`` for lines that are left out.
        old, new: its numbers, None where it is not there.
    """

    mark: str
    old: int | None
    new: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What changed from an ancestor to a node."""

    run: Brief
    number: int
    ancestor: str
    ancestors: tuple[Relative, ...]
    lines: tuple[DiffLine, ...]
    added: int
    removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request to a model, and its reply.

    Attributes:
        wrote: what the reply became: ideas or source.
        messages: role and text.
    """

    wrote: str
    model: str
    messages: tuple[tuple[str, str], ...]
    reply: str
    tokens_in: int
    tokens_out: int
    seconds: float
    finish: str
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """Everything about a node that its page shows.

    Attributes:
        history: address of the idea's page.
        ancestors: the parent first, the reference last.
        siblings: other implementations of the same idea.
        outcome: what the second look said where it looked; None before it is judged.
        diagnosis: what holds it back, as the run had it told, a line each.
        passages: that its idea names and its prompt quoted.
        forgotten: passages besides that neither the run nor the knowledge base has any more.
        measures: None where it was not timed.
        first_calls: its calls and kernels are those of the first judge, its figures those of the second.
        earlier, later: numbers of the nodes before and after it in the run.
    """

    run: Brief
    one: Candidate
    idea: str
    text: str
    category: str
    record: str | None
    history: str
    plan: Mapping[str, Any]
    ancestors: tuple[Relative, ...]
    siblings: tuple[Relative, ...]
    children: tuple[Relative, ...]
    diff: Diff
    source: str
    outcome: Outcome | None
    exchanges: tuple[Exchange, ...]
    diagnosis: tuple[str, ...]
    best: bool
    on_path: bool
    passages: tuple[Quoted, ...]
    forgotten: int
    measures: Measures | None
    first_calls: bool
    notes: tuple[Annotation, ...]
    earlier: int | None
    later: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What the record has of a node beyond its candidate.

    Attributes:
        outcome: that the search went by.
    """

    source: str
    plan: Mapping[str, Any]
    passages: tuple[str, ...]
    exchanges: tuple[str, ...]
    outcome: Outcome | None


def node(sources: Sources, address: str, number: str) -> NodeView:
    """Return a node by the address of its run and its number.

    Raises:
        StoreError: there is no such run.
        NotFound: the run has no such node.
    """
    story = sources.stories.find(address)
    one = candidate(story, number)
    stored = read_node(sources, story.brief.run, one.number)
    idea = story.idea(one)
    relatives = ancestors(story, one)
    path = set() if story.best_number is None else {x.number for x in story.path(story.best_number)}
    group = (x for x in story.candidates if x.group == one.group and x.number != one.number)
    last = len(story.candidates) - 1
    families = story.brief.families
    passages, forgotten = quoted(sources, story.brief.run, idea.passages, stored.passages, families)
    outcome = second_outcome(sources, story, one.number) or stored.outcome
    return NodeView(
        run=story.brief,
        one=one,
        idea=idea.title,
        text=idea.text,
        category=idea.category,
        record=idea.record,
        history=address_of(key_of(idea)),
        plan=stored.plan or idea.plan,
        ancestors=relatives,
        siblings=tuple(relative(story, other) for other in group),
        children=tuple(
            relative(story, story.candidates[n]) for n in story.children.get(one.number, ())
        ),
        diff=_diff(sources, story, one, relatives[0].name, stored.source),
        source=stored.source,
        outcome=outcome,
        exchanges=_exchanges(sources, idea.exchanges, stored.exchanges),
        diagnosis=_diagnosis(sources, story.brief.run, one.number),
        best=one.number == story.best_number,
        on_path=one.number in path,
        passages=passages,
        forgotten=forgotten,
        measures=measures(sources, story, one, outcome) if isinstance(outcome, Passed) else None,
        first_calls=_of_first(stored.outcome, outcome),
        notes=on_node(sources.reader, story.brief.run, one.number),
        earlier=one.number - 1 if one.number > 0 else None,
        later=one.number + 1 if one.number < last else None,
    )


def diff(sources: Sources, address: str, number: str, ancestor: str) -> Diff:
    """Return what changed from an ancestor, or from the reference, to a node.

    Raises:
        StoreError: there is no such run.
        NotFound: there is no such node, or the other is none of its ancestors.
    """
    story = sources.stories.find(address)
    one = candidate(story, number)
    if ancestor not in {each.name for each in ancestors(story, one)}:
        raise NotFound(f"node {one.number} of {story.brief.run} has no ancestor {ancestor[:20]!r}")
    source = read_node(sources, story.brief.run, one.number).source
    return _diff(sources, story, one, ancestor, source)


def candidate(story: Story, number: str) -> Candidate:
    """Return the candidate of a number as an address has it.

    Raises:
        NotFound: the run has no such node.
    """
    known = len(story.candidates)
    if not number.isdecimal() or len(number) > 9 or int(number) >= known:
        raise NotFound(
            f"{story.brief.run} has no node {number[:20]!r}: it has "
            f"{f'0 to {known - 1}' if known else 'none yet'}"
        )
    return story.candidates[int(number)]


def ancestors(story: Story, one: Candidate) -> tuple[Relative, ...]:
    """Return what a node came from: its parent first, the reference last."""
    above = [relative(story, each) for each in story.path(one.number)[-2::-1]]
    reference = Relative(name=REFERENCE, idea="the program as it was given", outcome="", ratio=None)
    return (*above, reference)


def nearby(relatives: Sequence[Relative]) -> tuple[Relative, ...]:
    """Return the ancestors that pages compare a node with: the nearest, and the reference."""
    return (*relatives[: min(NEAREST, len(relatives) - 1)], relatives[-1])


def relative(story: Story, one: Candidate) -> Relative:
    """Return a node in a few words."""
    return Relative(
        name=str(one.number),
        idea=story.idea(one).title,
        outcome=one.outcome,
        ratio=one.ratio(),
    )


def read_node(sources: Sources, run: str, number: int) -> Stored:
    """Return a node's source, plan, outcome, and what its prompt quoted."""
    import json

    from search.runs.tables import NODES, OUTCOMES, SOURCES

    query = (
        select(NODES.c.draft, SOURCES.c.text, OUTCOMES.c.outcome.label("verdict"))
        .join(SOURCES, SOURCES.c.hash == NODES.c.source)
        .outerjoin(OUTCOMES, OUTCOMES.c.key == NODES.c.outcome)
        .where((NODES.c.run == run) & (NODES.c.number == number))
    )
    with reading(sources.reader) as session:
        row = session.execute(query).one()
    draft = json.loads(row.draft)
    return Stored(
        source=row.text,
        plan=draft["plan"],
        passages=tuple(draft["passages"]),
        exchanges=tuple(draft["exchanges"]),
        outcome=None if row.verdict is None else from_json(row.verdict),
    )


def second_outcome(sources: Sources, story: Story, number: int) -> Outcome | None:
    """Return what the second look said of a node, None where it says nothing of it."""
    import json

    from search.runs.tables import RUNS
    from search.runs.verdicts import outcomes_again

    run = story.brief.run
    with reading(sources.reader) as session:
        report = session.scalar(select(RUNS.c.report).where(RUNS.c.run == run))
    return outcomes_again(sources.reader, run, json.loads(report or "{}")).get(number)


def _of_first(first: Outcome | None, outcome: Outcome | None) -> bool:
    """Say whether the calls of an outcome are those of the first judge, and its figures are not."""
    if not isinstance(first, Passed) or not isinstance(outcome, Passed):
        return False
    return outcome.seconds != first.seconds and outcome.calls == first.calls


def compare_texts(old: str, new: str) -> tuple[DiffLine, ...]:
    """Return the lines that differ, with some around them."""
    before, after = old.splitlines(), new.splitlines()
    found: list[DiffLine] = []
    # Lines that a long text repeats are no marks in it: comparing each with each took minutes for a thousand.
    matcher = difflib.SequenceMatcher(None, before, after)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        first_old, first_new = group[0][1], group[0][3]
        found.append(DiffLine(mark="@", old=first_old + 1, new=first_new + 1, text=""))
        for tag, i, j, k, m in group:
            if tag == "equal":
                found += [
                    DiffLine(mark=" ", old=i + n + 1, new=k + n + 1, text=line)
                    for n, line in enumerate(before[i:j])
                ]
                continue
            found += [
                DiffLine(mark="-", old=i + n + 1, new=None, text=line)
                for n, line in enumerate(before[i:j])
            ]
            found += [
                DiffLine(mark="+", old=None, new=k + n + 1, text=line)
                for n, line in enumerate(after[k:m])
            ]
    return tuple(found)


def _diff(sources: Sources, story: Story, one: Candidate, ancestor: str, source: str) -> Diff:
    if ancestor == REFERENCE:
        from kb.web.views.run import read_about

        old = str(read_about(sources, story.brief.run).get("source", ""))
    else:
        old = read_node(sources, story.brief.run, int(ancestor)).source
    lines = compare_texts(old, source)
    return Diff(
        run=story.brief,
        number=one.number,
        ancestor=ancestor,
        ancestors=ancestors(story, one),
        lines=lines,
        added=sum(line.mark == "+" for line in lines),
        removed=sum(line.mark == "-" for line in lines),
    )


def _exchanges(
    sources: Sources, ideas: tuple[str, ...], drafts: tuple[str, ...]
) -> tuple[Exchange, ...]:
    keys = [*(("ideas", key) for key in ideas), *(("source", key) for key in drafts)]
    found = ((wrote, sources.storage.exchange(key)) for wrote, key in keys)
    return tuple(_exchange(wrote, *pair) for wrote, pair in found if pair is not None)


def _exchange(wrote: str, request: dict[str, Any], reply: dict[str, Any]) -> Exchange:
    return Exchange(
        wrote=wrote,
        model=str(reply.get("model", "")),
        messages=tuple(
            (str(one.get("role", "")), str(one.get("content", ""))) for one in request["messages"]
        ),
        reply=str(reply.get("text", "")),
        tokens_in=int(reply.get("tokens_in", 0)),
        tokens_out=int(reply.get("tokens_out", 0)),
        seconds=float(reply.get("seconds", 0.0)),
        finish=str(reply.get("finish", "")),
        cost=reply.get("cost"),
    )


def _diagnosis(sources: Sources, run: str, number: int) -> tuple[str, ...]:
    """Return what the run was told of a node, where it was looked at as a parent."""
    from search.runs.snapshot import read_diagnoses

    told = read_diagnoses(sources.reader, [run]).get(run, {}).get(str(number))
    return () if told is None else told.lines
