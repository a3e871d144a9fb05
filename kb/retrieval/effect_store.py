"""What was retrieved and what its use gained, in SQL: derived from the record of runs.

A run's rows are replaced as a whole, so that a run that is recorded twice, or resumed, counts once;
a measurement that another run took over by its content is counted where it was made.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Engine, delete, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Mapped, mapped_column

from kb.database import Base, reading, writing
from kb.records.types import FATES, Effect, Fate, Kind, Passage
from kb.retrieval.effect_estimate import GainMeasurement, Where, estimate

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_DAY = 86400.0
_IN_CLAUSE = 400
_TRIES = 3


class UseRow(Base):
    """A measured candidate that rests on a subject."""

    __tablename__ = "uses"
    evidence: Mapped[str] = mapped_column(primary_key=True)  # hash of what was measured
    subject: Mapped[str] = mapped_column(primary_key=True, index=True)
    run: Mapped[str] = mapped_column(index=True)
    node: Mapped[int]
    share: Mapped[float]
    gain: Mapped[float]
    fate: Mapped[str]
    families: Mapped[str]  # with commas between
    architecture: Mapped[str]
    bottleneck: Mapped[str]
    at: Mapped[float]


class RetrievalRow(Base):
    """A subject that was returned to one request for ideas."""

    __tablename__ = "retrievals"
    run: Mapped[str] = mapped_column(primary_key=True)
    slot: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True, index=True)
    at: Mapped[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A measured candidate of a run, with a subject that it rests on.

    Attributes:
        subject: see `subject_of`.
        evidence: names what was measured, the same in every run that meets the same candidate.
    """

    subject: str
    evidence: str
    node: int
    trial: GainMeasurement


def subject_of(kind: Kind, document: str, passage: str) -> str:
    """Return what gains are credited to.

    A record is one piece of advice, whichever of its passages was quoted, and stays itself where it
    is edited; a passage of a plain document stands for itself.
    """
    return passage if kind == "document" else document


def subject(passage: Passage) -> str:
    """Return what the gains of a passage are credited to."""
    return subject_of(passage.kind, passage.document, passage.id)


def add_retrieval(session: Session, run: str, slot: str, subjects: Iterable[str]) -> None:
    """Record what one request for ideas was given, within the transaction that keeps its ideas."""
    now = time.time()
    for one in dict.fromkeys(subjects):
        session.add(RetrievalRow(run=run, slot=slot, subject=one, at=now))


class Effects:
    """What is known of gains at one moment.

    What is recorded later is not seen: a resumed run, opened at the moment when it began, ranks as
    the unbroken one.

    Args:
        engine: a database whose tables are there.
        now: seconds since the epoch.
        lifts: gives log factors of lessons by document, from what confirms and contradicts them;
            asked once, when a lesson is first met.
    """

    def __init__(
        self, engine: Engine, now: float, lifts: Callable[[], Mapping[str, float]] | None = None
    ) -> None:
        self._engine = engine
        self._now = now
        self._give_lifts = lifts
        self._known: dict[str, tuple[tuple[GainMeasurement, ...], int]] = {}
        self._empty: bool | None = None

    def of(self, subjects: Iterable[str], where: Where) -> dict[str, Effect]:
        """Return the effect of each subject; of none where nothing was ever measured."""
        wanted = list(dict.fromkeys(subjects))
        if not wanted:
            return {}
        if self._nothing():
            return {one: Effect(lift=self._lifts[one]) for one in wanted if one in self._lifts}
        self._learn([one for one in wanted if one not in self._known])
        # Within a day nothing decays, so that a ranking stays as it is while a run goes on.
        today = self._now // _DAY * _DAY
        found = {}
        for one in wanted:
            trials, retrieved = self._known[one]
            effect = estimate(trials, where, today, retrieved=retrieved)
            found[one] = _lifted(effect, self._lifts.get(one, 0.0))
        return found

    @cached_property
    def _lifts(self) -> Mapping[str, float]:
        return self._give_lifts() if self._give_lifts is not None else {}

    @property
    def moment(self) -> float:
        """Seconds since the epoch that gains are looked up as of."""
        return self._now

    def subjects(self) -> list[str]:
        """Return every subject that was ever measured, by name."""
        query = select(UseRow.subject).where(UseRow.at <= self._now).distinct()
        with reading(self._engine) as session:
            return sorted(session.scalars(query))

    def trials(self, subject: str) -> tuple[GainMeasurement, ...]:
        """Return every measurement that rests on a subject."""
        if subject not in self._known:
            self._learn([subject])
        return self._known[subject][0]

    def _nothing(self) -> bool:
        if self._empty is None:
            query = select(UseRow.evidence).where(UseRow.at <= self._now).limit(1)
            with reading(self._engine) as session:
                self._empty = session.scalar(query) is None
        return self._empty

    def _learn(self, subjects: Sequence[str]) -> None:
        trials: dict[str, list[GainMeasurement]] = {one: [] for one in subjects}
        counts: dict[str, int] = {}
        with reading(self._engine) as session:
            for start in range(0, len(subjects), _IN_CLAUSE):
                part = subjects[start : start + _IN_CLAUSE]
                uses = select(UseRow).where(UseRow.subject.in_(part), UseRow.at <= self._now)
                for row in session.scalars(uses.order_by(UseRow.evidence)):
                    trials[row.subject].append(_trial(row))
                seen = (
                    select(RetrievalRow.subject, func.count())
                    .where(RetrievalRow.subject.in_(part), RetrievalRow.at <= self._now)
                    .group_by(RetrievalRow.subject)
                )
                counts.update((one, count) for one, count in session.execute(seen))
        for one, found in trials.items():
            self._known[one] = (tuple(found), counts.get(one, 0))


def by_place(known: Effects, subject: str) -> list[dict[str, Any]]:
    """Return one object for each place where a subject was measured."""
    trials = known.trials(subject)
    rows = []
    for where in dict.fromkeys(_place(trial) for trial in trials):
        here = [trial for trial in trials if _place(trial) == where]
        effect = known.of([subject], where)[subject]
        name = f"{', '.join(sorted(where.families))}; {where.architecture}; {where.bottleneck}"
        counts: dict[str, int] = {fate: sum(one.fate == fate for one in here) for fate in FATES}
        rows.append({**row(name, effect), **counts})
    return rows


def row(name: str, effect: Effect) -> dict[str, Any]:
    """Return an effect as plain values, gains as factors."""
    values = asdict(effect)
    for key in ("gain", "low", "high", "bonus", "lift"):
        values[key] = round(math.exp(values[key]), 4)
    return {"name": name, **values}


def _place(trial: GainMeasurement) -> Where:
    return Where(
        families=trial.families, architecture=trial.architecture, bottleneck=trial.bottleneck
    )


def record(engine: Engine, run: str, uses: Sequence[Use]) -> int:
    """Make `uses` what is known of a run, all or nothing; return how many count.

    A measurement that is known from another run is not counted again.
    """
    for _ in range(_TRIES):
        try:
            return _record(engine, run, uses)
        except IntegrityError:
            continue  # another run took the same measurement over between two statements
    return _record(engine, run, uses)


def _record(engine: Engine, run: str, uses: Sequence[Use]) -> int:
    with writing(engine) as session:
        before = {
            (row.evidence, row.subject): row.at
            for row in session.scalars(select(UseRow).where(UseRow.run == run))
        }
        session.execute(delete(UseRow).where(UseRow.run == run))
        session.expunge_all()
        evidence = sorted({use.evidence for use in uses})
        elsewhere: set[str] = set()
        for start in range(0, len(evidence), _IN_CLAUSE):
            part = evidence[start : start + _IN_CLAUSE]
            query = select(UseRow.evidence).where(UseRow.evidence.in_(part))
            elsewhere.update(session.scalars(query))
        rows: dict[tuple[str, str], UseRow] = {}
        for use in uses:
            key = (use.evidence, use.subject)
            if use.evidence not in elsewhere and key not in rows:
                rows[key] = _row(run, use, before.get(key, use.trial.at))
        session.add_all(rows.values())
    return len(rows)


def _row(run: str, use: Use, at: float) -> UseRow:
    trial = use.trial
    return UseRow(
        evidence=use.evidence,
        subject=use.subject,
        run=run,
        node=use.node,
        share=trial.share,
        gain=trial.value,
        fate=trial.fate,
        families=",".join(sorted(trial.families)),
        architecture=trial.architecture,
        bottleneck=trial.bottleneck,
        at=at,
    )


def _trial(row: UseRow) -> GainMeasurement:
    return GainMeasurement(
        gain=row.gain,
        fate=cast("Fate", row.fate),
        at=row.at,
        share=row.share,
        families=frozenset(filter(None, row.families.split(","))),
        architecture=row.architecture,
        bottleneck=row.bottleneck,
    )


def _lifted(effect: Effect, lift: float) -> Effect:
    return replace(effect, lift=lift) if lift else effect
