"""Ideas over all runs: the list, one idea's history, and two targets of one idea."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kb.records.schema import Document, Evidence, IdeaRecord, LessonRecord
from kb.records.types import FATES
from kb.web.sources import NotFound, Query, Sources
from kb.web.text import address
from kb.web.trials import Told, Trial, retrievals, stem
from kb.web.views.home import paged, values_of

ROWS = 100  # of one page
PARTNERS = 12  # ideas that are named as combined with one


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How often something won, came out even, lost and failed.

    Attributes:
        gain: median of the gains of what passed, None where nothing did.
        best: the largest of them.
    """

    won: int
    even: int
    lost: int
    failed: int
    gain: float | None
    best: float | None

    @property
    def tried(self) -> int:
        """How many implementations there are."""
        return self.won + self.even + self.lost + self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class IdeaLine:
    """An idea of the list.

    Attributes:
        record: it is a record of the knowledge base, not a model's own.
        gains: of what passed, for a small plot.
    """

    key: str
    address: str
    title: str
    category: str
    record: bool
    retrieved: int
    counts: Counts
    gains: tuple[float, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdeaList:
    """The ideas that are asked for."""

    rows: tuple[IdeaLine, ...]
    total: int
    matching: int
    page: int
    pages: int
    text: str
    target: str
    family: str
    known: str
    targets: tuple[str, ...]
    families: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an idea was tried, and what became of it there."""

    target: str
    families: tuple[str, ...]
    bottleneck: str
    counts: Counts
    trials: tuple[Trial, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Partner:
    """An idea that another was built on, or that was built on it."""

    key: str
    address: str
    title: str
    times: int
    won: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IdeaLesson:
    """A lesson about an idea."""

    name: str
    title: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdeaView:
    """An idea's history.

    Attributes:
        record: it is a record, whether this home has it or not; else a model's own.
        document: address of the record's page, None where this home has none.
        runs: that retrieval returned its document in, with how often.
    """

    key: str
    address: str
    title: str
    category: str
    record: bool
    document: str | None
    about: str
    retrieved: int
    runs: tuple[tuple[str, str, int], ...]
    counts: Counts
    places: tuple[Place, ...]
    targets: tuple[str, ...]
    trials: tuple[Trial, ...]
    partners: tuple[Partner, ...]
    lessons: tuple[IdeaLesson, ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """One idea on two targets."""

    idea: IdeaView
    one: str
    other: str
    places: tuple[tuple[tuple[str, ...], Counts | None, Counts | None], ...]
    trials: tuple[Trial, ...]
    counts: tuple[Counts, Counts]


def count(trials: Iterable[Trial]) -> Counts:
    """Return what became of implementations, those taken over from an earlier run left out."""
    listed = [one for one in trials if not one.again]
    fates = Counter(one.fate for one in listed)
    gains = [one.ratio for one in listed if one.ratio is not None]
    return Counts(
        **{fate: fates[fate] for fate in FATES},
        gain=statistics.median(gains) if gains else None,
        best=max(gains, default=None),
    )


def ideas(sources: Sources, query: Query, rows: int | None = ROWS) -> IdeaList:
    """Return the ideas that a query asks for, those that were tried most first."""
    told = sources.trials.every()
    tried = by_idea(told)
    records = _records(sources)
    returned = Counter(stem(document) for document, _ in retrievals(told))
    target, family = query.get("target", ""), query.get("family", "")
    known, text = query.get("known", ""), query.get("q", "")
    words = text.lower().split()
    every = sorted(
        {*tried, *records}, key=lambda key: (-len(tried.get(key, ())), -returned[key], key)
    )
    found = []
    for key in every:
        here = [
            one
            for one in tried.get(key, ())
            if target in ("", one.run.target) and (not family or family in one.run.families)
        ]
        asked = (target or family) and not here
        own = not _is_record(key, records, tried.get(key, ()))
        kind = {"": True, "record": not own, "tried": bool(here), "own": own}
        says = _title(key, records, tried).lower() + " " + key.lower()
        if not asked and kind.get(known, True) and all(word in says for word in words):
            found.append((key, here))
    page, pages, shown = paged(found, query, rows)
    runs = {one.run.run: one.run for some in tried.values() for one in some}.values()
    return IdeaList(
        rows=tuple(_row(key, here, records, tried, returned) for key, here in shown),
        total=len(every),
        matching=len(found),
        page=page,
        pages=pages,
        text=text,
        target=target,
        family=family,
        known=known,
        targets=values_of(run.target for run in runs),
        families=values_of(family for run in runs for family in run.families),
    )


def idea(sources: Sources, address_of: str) -> IdeaView:
    """Return an idea by its address.

    Raises:
        NotFound: no run tried it and no record has its name.
    """
    told = sources.trials.every()
    tried = by_idea(told)
    records = _records(sources)
    key = next((one for one in (*records, *tried) if address(one) == address_of), None)
    if key is None:
        raise NotFound(f"no idea {address_of[:80]!r}: the list of ideas has all")
    trials = tried.get(key, [])
    document = records.get(key)
    returned = Counter(run.run for name, run in retrievals(told) if stem(name) == key)
    return IdeaView(
        key=key,
        address=address(key),
        title=_title(key, records, tried),
        category=_category(document),
        record=_is_record(key, records, trials),
        document=None if document is None else address(document.path),
        about="" if document is None else document.body,
        retrieved=sum(returned.values()),
        runs=tuple((run, address(run), times) for run, times in returned.most_common(40)),
        counts=count(trials),
        places=tuple(_places(trials)),
        targets=values_of(one.run.target for one in trials),
        trials=tuple(sorted(trials, key=lambda one: (-(one.at or 0.0), -one.node))),
        partners=_partners(key, told, records, tried),
        lessons=tuple(_lessons(sources, key)),
        evidence=tuple(getattr(document.record, "evidence", ())) if document else (),
    )


def targets(sources: Sources, address_of: str, one: str, other: str) -> Targets:
    """Return an idea on two targets, by their addresses.

    Raises:
        NotFound: there is no such idea, or it was not tried on one of them.
    """
    found = idea(sources, address_of)
    names = {address(name): name for name in found.targets}
    if one not in names or other not in names:
        raise NotFound(f"{found.key} was tried on {', '.join(found.targets) or 'no target'}")
    sides = [[t for t in found.trials if t.run.target == names[side]] for side in (one, other)]
    families = dict.fromkeys(t.run.families for side in sides for t in side)
    return Targets(
        idea=found,
        one=names[one],
        other=names[other],
        places=tuple(
            (family, _of_family(sides[0], family), _of_family(sides[1], family))
            for family in families
        ),
        trials=tuple(t for side in sides for t in side),
        counts=(count(sides[0]), count(sides[1])),
    )


def _of_family(trials: Sequence[Trial], families: tuple[str, ...]) -> Counts | None:
    here = [one for one in trials if one.run.families == families]
    return count(here) if here else None


def by_idea(told: Iterable[Told]) -> dict[str, list[Trial]]:
    """Return what was tried by idea."""
    found: dict[str, list[Trial]] = {}
    for one in told:
        for trial in one.trials:
            found.setdefault(trial.key, []).append(trial)
    return found


def _records(sources: Sources) -> dict[str, Document]:
    """Return the records of ideas by name."""
    return {
        one.name: one
        for one in sources.store.documents("idea")
        if isinstance(one.record, IdeaRecord)
    }


def _row(
    key: str,
    here: Sequence[Trial],
    records: Mapping[str, Document],
    tried: Mapping[str, Sequence[Trial]],
    returned: Mapping[str, int],
) -> IdeaLine:
    return IdeaLine(
        key=key,
        address=address(key),
        title=_title(key, records, tried),
        category=_category(records.get(key)),
        record=_is_record(key, records, tried.get(key, ())),
        retrieved=returned.get(key, 0),
        counts=count(here),
        gains=tuple(one.ratio for one in here if one.ratio is not None and not one.again)[:200],
        targets=values_of(one.run.target for one in here),
    )


def _title(key: str, records: Mapping[str, Document], tried: Mapping[str, Sequence[Trial]]) -> str:
    if key in records:
        return records[key].record.title
    # A record that this home does not have is known by its name; what models called it differs.
    return next((one.title for one in tried.get(key, ()) if not one.recorded), key)


def _is_record(key: str, records: Mapping[str, Document], trials: Iterable[Trial]) -> bool:
    return key in records or any(one.recorded for one in trials)


def _category(document: Document | None) -> str:
    record = None if document is None else document.record
    return record.category if isinstance(record, IdeaRecord) else ""


def _places(trials: Sequence[Trial]) -> Iterator[Place]:
    """Yield where an idea was tried, the places of most trials first."""
    found: dict[tuple[str, tuple[str, ...], str], list[Trial]] = {}
    for one in trials:
        found.setdefault((one.run.target, one.run.families, one.bottleneck), []).append(one)
    for (target, families, bottleneck), here in sorted(
        found.items(), key=lambda pair: (-len(pair[1]), pair[0])
    ):
        yield Place(
            target=target,
            families=families,
            bottleneck=bottleneck,
            counts=count(here),
            trials=tuple(here),
        )


def _partners(
    key: str,
    told: Iterable[Told],
    records: Mapping[str, Document],
    tried: Mapping[str, Sequence[Trial]],
) -> tuple[Partner, ...]:
    """Return the ideas that lie on one way with an idea, those that most often do first."""
    times: Counter[str] = Counter()
    won: Counter[str] = Counter()
    for one in told:
        for later, earlier, fate in one.together:
            if key in (later, earlier):
                partner = earlier if key == later else later
                times[partner] += 1
                won[partner] += fate == "won"
    return tuple(
        Partner(
            key=name,
            address=address(name),
            title=_title(name, records, tried),
            times=number,
            won=won[name],
        )
        for name, number in times.most_common(PARTNERS)
    )


def _lessons(sources: Sources, key: str) -> Iterator[IdeaLesson]:
    from kb.retrieval.lesson_confidence import effect_of

    for one in sources.store.documents("lesson"):
        record = one.record
        if not isinstance(record, LessonRecord):
            continue
        subject = record.claim.subject if record.claim is not None else ""
        if key in (record.idea, subject):
            yield IdeaLesson(name=one.name, title=record.title, effect=effect_of(record))
