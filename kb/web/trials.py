"""What every run tried, idea by idea: the index behind idea histories and documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import PurePosixPath
from threading import RLock

from sqlalchemy import Engine, select

from kb.database import reading
from kb.records.types import Fate
from kb.web.stories import Stories
from kb.web.story import Brief, Candidate, Story
from search.attempt import Idea
from search.graph import Slot
from search.outcome import Ratio
from search.won_or_lost import fate_of

REFERENCE = "reference"
_PART = 50  # runs that are read at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An implementation of an idea, as it came out after its repairs.

    Attributes:
        key: the idea's record, or its title where it has none.
        base: number of the node that it started from, None for the reference.
        ratio: of its speed over that of the base; None where it failed.
        low, high: the least and the most that the intervals of both allow.
        evidence: names what was measured, the same in every run that meets the same candidate.
        bottleneck: the worst symptom of the base, "" where it was not looked at.
        recorded: the key is the name of a record.
        again: the same was measured in an earlier run, which it was taken over from.
        documents: that the idea or its prompt rests on.
        on_path: it lies on the way to the best of its run.
    """

    key: str
    run: Brief
    node: int
    base: int | None
    title: str
    outcome: str
    fate: Fate
    ratio: float | None
    low: float | None
    high: float | None
    bottleneck: str
    evidence: str
    recorded: bool
    again: bool
    documents: tuple[str, ...]
    on_path: bool
    at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for ideas, and the documents that retrieval returned to it."""

    run: Brief
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one run adds to the index.

    Attributes:
        together: ideas that lie on one way, as pairs of keys, with what became of the later one.
    """

    trials: tuple[Trial, ...]
    asked: tuple[Asked, ...]
    together: tuple[tuple[str, str, Fate], ...]


def key_of(idea: Idea) -> str:
    """Return the name by which an idea is known in all runs."""
    return idea.record or idea.title


class Trials:
    """The index, kept in step with the runs; what is finished is read once.

    Args:
        engine: of a record whose tables are there.
    """

    def __init__(self, engine: Engine, stories: Stories) -> None:
        self._engine = engine
        self._stories = stories
        self._lock = RLock()
        self._known: dict[str, tuple[str, Told]] = {}

    def every(self) -> list[Told]:
        """Return what each run tried, the latest run first."""
        with self._lock:
            names = [brief.run for brief in self._stories.briefs() if brief.state != "broken"]
            stories = self._stories.several(names)
            news = [
                story for run, story in stories.items()
                if run not in self._known or self._known[run][0] != story.version
            ]  # fmt: skip
            for start in range(0, len(news), _PART):
                part = news[start : start + _PART]
                for story, told in zip(part, tell(self._engine, part), strict=True):
                    self._known[story.brief.run] = (story.version, told)
            return _once([self._known[run][1] for run in names if run in stories])


def _once(told: Sequence[Told]) -> list[Told]:
    """Mark what was taken over from an earlier run: a measurement counts where it was made."""
    seen: set[str] = set()
    marked = []
    for one in reversed(told):
        trials = []
        for trial in one.trials:
            trials.append(replace(trial, again=True) if trial.evidence in seen else trial)
        seen.update(trial.evidence for trial in one.trials)
        marked.append(replace(one, trials=tuple(trials)))
    return marked[::-1]


def tell(engine: Engine, stories: Sequence[Story]) -> Iterator[Told]:
    """Yield what each of some runs tried."""
    from search.runs.snapshot import read_diagnoses

    runs = [story.brief.run for story in stories]
    symptoms = read_diagnoses(engine, runs)
    documents = read_documents(engine, stories)
    for story in stories:
        seen = {key: one.symptoms for key, one in symptoms.get(story.brief.run, {}).items()}
        yield _told(story, seen, documents.get(story.brief.run, {}))


def _told(
    story: Story, symptoms: Mapping[str, tuple[str, ...]], documents: Mapping[int, tuple[str, ...]]
) -> Told:
    best = story.best_number
    path = set() if best is None else {one.number for one in story.path(best)}
    trials = []
    together: list[tuple[str, str, Fate]] = []
    for one in _ends(story.judged):
        if one.outcome == "checked":
            continue
        base = story.base(one)
        place = REFERENCE if base is None else str(base.number)
        bottleneck = next(iter(symptoms.get(place, ())), "")
        trial = _trial(story, one, base, bottleneck, documents.get(one.number, ()))
        trials.append(replace(trial, on_path=one.number in path))
        if base is not None:
            above = dict.fromkeys(key_of(story.idea(each)) for each in story.path(base.number))
            together += [(trial.key, key, trial.fate) for key in above if key != trial.key]
    return Told(
        trials=tuple(trials),
        asked=tuple(
            Asked(run=story.brief, documents=one.retrieved) for one in story.proposals.values()
        ),
        together=tuple(together),
    )


def _ends(judged: Iterable[Candidate]) -> list[Candidate]:
    """Return the last judged candidate of each implementation: a draft that was mended is one."""
    last: dict[tuple[Slot, int, int], Candidate] = {}
    for one in judged:
        last[one.step.slot, one.step.idea, one.step.branch] = one
    return sorted(last.values(), key=lambda one: one.number)


def _trial(
    story: Story,
    one: Candidate,
    base: Candidate | None,
    bottleneck: str,
    documents: tuple[str, ...],
) -> Trial:
    idea = story.idea(one)
    fate, gain = compare(one.ratio(), None if base is None else base.ratio())
    return Trial(
        key=key_of(idea),
        run=story.brief,
        node=one.number,
        base=None if base is None else base.number,
        title=idea.title,
        outcome=one.outcome,
        fate=fate,
        ratio=None if gain is None else gain.ratio,
        low=None if gain is None else gain.low,
        high=None if gain is None else gain.high,
        bottleneck=bottleneck,
        evidence=f"{one.measured}/{'' if base is None else base.measured}",
        recorded=idea.record is not None,
        again=False,
        documents=documents,
        on_path=False,
        at=one.at,
    )


def compare(mine: Ratio | None, theirs: Ratio | None) -> tuple[Fate, Ratio | None]:
    """Return what became of a program beside what it started from, each measured against eager.

    Args:
        mine: None where it did not pass.
        theirs: None for the reference itself.
    """
    if mine is None or not _sound(mine):
        return "failed", None
    if theirs is None or not _sound(theirs):
        return fate_of(mine), mine
    gain = Ratio(
        ratio=mine.ratio / theirs.ratio, low=mine.low / theirs.high, high=mine.high / theirs.low
    )
    return fate_of(gain), gain


def _sound(ratio: Ratio) -> bool:
    return all(isfinite(one) and one > 0 for one in (ratio.ratio, ratio.low, ratio.high))


def read_documents(
    engine: Engine, stories: Sequence[Story]
) -> dict[str, dict[int, tuple[str, ...]]]:
    """Return by run the documents that each candidate rests on: its idea's, then those its prompt quoted."""
    import json

    from kb.store.documents import Store
    from search.runs.snapshot import read_hits
    from search.runs.tables import NODES

    query = select(NODES.c.run, NODES.c.number, NODES.c.draft).where(
        NODES.c.run.in_([story.brief.run for story in stories])
    )
    quoted: dict[str, dict[int, list[str]]] = {}
    with reading(engine) as session:
        for row in session.execute(query):
            quoted.setdefault(row.run, {})[row.number] = json.loads(row.draft)["passages"]
    wanted = {story.brief.run: _wanted(story, quoted.get(story.brief.run, {})) for story in stories}
    every = sorted({one for found in wanted.values() for one in found})
    stored = {one.id: one.document for one in Store(engine).passages(every).values()}
    found: dict[str, dict[int, tuple[str, ...]]] = {}
    for story in stories:
        run = story.brief.run
        places = stored
        if not wanted[run] <= set(
            stored
        ):  # rewritten since, or from elsewhere: as the run was given it
            given = {hit.passage.id: hit.passage.document for hit in read_hits(engine, run)}
            places = {**given, **stored}
        found[run] = {
            one.number: tuple(
                dict.fromkeys(
                    places[each]
                    for each in (
                        *story.idea(one).passages,
                        *quoted.get(run, {}).get(one.number, ()),
                    )
                    if each in places
                )
            )
            for one in story.candidates
        }
    return found


def _wanted(story: Story, quoted: Mapping[int, Sequence[str]]) -> set[str]:
    """Return the passages that a run's ideas name and its prompts quoted."""
    named = {
        one for place in story.proposals.values() for idea in place.ideas for one in idea.passages
    }
    return named | {one for passages in quoted.values() for one in passages}


def retrievals(told: Sequence[Told]) -> Iterator[tuple[str, Brief]]:
    """Yield each document that was returned to a request for ideas, with the run."""
    for one in told:
        for asked in one.asked:
            yield from ((document, asked.run) for document in asked.documents)


def stem(document: str) -> str:
    """Return the name of a record from the path by which passages quote it."""
    return PurePosixPath(document.rpartition(":")[2]).stem
