"""The book of proposed facts: what documents say of targets, and what the user decided about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from sqlalchemy import Engine, String, select, update
from sqlalchemy.orm import Mapped, mapped_column

from ingest import VERSION
from ingest.figures.extract import Devices, Proposal, proposals
from kb.config import Home
from kb.database import Base, create_tables, reading, writing
from kb.errors import ConfigError
from kb.records.schema import Document, TargetRecord
from kb.records.targets import Fact, accept, base_targets, look_up, withdraw
from kb.store.documents import IN_CLAUSE
from kb.store.tables import DocumentRow, PassageRow, StateRow, passage_value

STATE = "facts"
CLOSE = 0.01  # relative: published figures are rounded
GIB = 2**30 / 1e9  # a capacity of 80 GB is also written so, and means the same memory
Standing = Literal["new", "agrees", "conflicts", "unknown target"]


class FactRow(Base):
    """A figure that some document gave for a target."""

    __tablename__ = "facts"
    number: Mapped[int] = mapped_column(primary_key=True)
    identity: Mapped[str] = mapped_column(String, unique=True)
    target: Mapped[str]
    field: Mapped[str]
    value: Mapped[float]
    source: Mapped[str]
    passage: Mapped[str]
    note: Mapped[str]
    state: Mapped[str]  # proposed, accepted, rejected
    there: Mapped[bool]  # its document still says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A proposal beside what is known.

    Attributes:
        known: what the record says, without what was accepted.
        known_from: where the record has it from.
    """

    number: int
    target: str
    field: str
    value: float
    source: str
    passage: str
    note: str
    state: str
    standing: Standing
    known: float | None
    known_from: str


class Ledger:
    """Proposals and decisions of one home.

    Args:
        engine: of its knowledge base.
    """

    def __init__(self, home: Home, engine: Engine) -> None:
        create_tables(engine)
        self._home = home
        self._engine = engine

    def refresh(self) -> int:
        """Look through the tables of all documents where any changed; return how many are new.

        What was decided stays decided, also where a document is read again.
        """
        targets = [one.record for one in self._targets().values()]
        devices = Devices([one for one in targets if isinstance(one, TargetRecord)])
        seen = f"{VERSION} {self._state('generation')} {devices.digest}"
        if self._state(STATE) == seen:
            return 0
        found = {one.identity: one for one in self._proposals(devices)}
        with writing(self._engine) as session:
            known = set(session.scalars(select(FactRow.identity)))
            session.execute(update(FactRow).values(there=False))
            again = sorted(found.keys() & known)
            for start in range(0, len(again), IN_CLAUSE):
                part = FactRow.identity.in_(again[start : start + IN_CLAUSE])
                session.execute(update(FactRow).where(part).values(there=True))
            new = [one for identity, one in found.items() if identity not in known]
            session.add_all(_row(one) for one in new)
            session.merge(StateRow(name=STATE, value=seen))
        return len(new)

    def lines(self) -> list[Line]:
        """Return every proposal whose document is there, and every accepted one."""
        targets = self._targets()
        with reading(self._engine) as session:
            rows = session.scalars(select(FactRow).order_by(FactRow.number)).all()
            return [
                _line(row, targets.get(row.target))
                for row in rows
                if row.there or row.state == "accepted"
            ]

    def accept(self, numbers: Sequence[int], *, replace: bool, today: date) -> list[Line]:
        """Write proposals into the user's targets, all or none.

        Args:
            replace: also where the record says another value.

        Raises:
            ConfigError: there is no such proposal, its target is unknown, or it contradicts the
                record and may not replace that.
        """
        chosen = self._chosen(numbers)
        for line in chosen:
            _check(line, chosen, replace=replace)
        by_target: dict[str, list[Fact]] = {}
        for line in chosen:
            fact = Fact(
                field=line.field,
                value=line.value,
                source=line.source,
                accepted=today.isoformat(),
                instead_of=line.known if line.standing == "conflicts" else None,
            )
            if line.standing != "agrees":  # the record says so itself
                by_target.setdefault(line.target, []).append(fact)
        for target, facts in by_target.items():
            accept(self._home, target, facts)
        self._decide(numbers, "accepted")
        return chosen

    def reject(self, numbers: Sequence[int]) -> list[Line]:
        """Set proposals aside for good; one that was accepted is taken out of the targets again.

        Raises:
            ConfigError: there is no such proposal.
        """
        chosen = self._chosen(numbers)
        for line in chosen:
            if line.state == "accepted":
                withdraw(self._home, line.target, line.field, line.value)
        self._decide(numbers, "rejected")
        return chosen

    def _chosen(self, numbers: Sequence[int]) -> list[Line]:
        lines = {line.number: line for line in self.lines()}
        for number in numbers:
            if number not in lines:
                raise ConfigError(
                    f"{number}: expected the number of a proposal, found none of it: kb facts lists them"
                )
        return [lines[number] for number in numbers]

    def _decide(self, numbers: Sequence[int], state: str) -> None:
        with writing(self._engine) as session:
            chosen = FactRow.number.in_(numbers)
            session.execute(update(FactRow).where(chosen).values(state=state))

    def _targets(self) -> dict[str, Document]:
        documents = base_targets(self._home)
        return {one.record.name: one for one in documents if isinstance(one.record, TargetRecord)}

    def _proposals(self, devices: Devices) -> list[Proposal]:
        query = (
            select(PassageRow, DocumentRow)
            .join(DocumentRow, DocumentRow.id == PassageRow.document_id)
            .where(DocumentRow.kind == "document", PassageRow.text.contains("|"))
            .order_by(DocumentRow.key, PassageRow.position)
        )
        with reading(self._engine) as session:
            found: list[Proposal] = []
            for passage, document in session.execute(query).yield_per(500):
                found.extend(proposals(passage_value(passage, document), devices))
        return found

    def _state(self, name: str) -> str | None:
        with reading(self._engine) as session:
            return session.scalar(select(StateRow.value).where(StateRow.name == name))


def _row(one: Proposal) -> FactRow:
    return FactRow(
        identity=one.identity,
        target=one.target,
        field=one.field,
        value=one.value,
        source=one.source(),
        passage=one.passage,
        note=one.note,
        state="proposed",
        there=True,
    )


def _line(row: FactRow, document: Document | None) -> Line:
    known: float | None = None
    known_from = ""
    standing: Standing = "unknown target"
    if document is not None and isinstance(document.record, TargetRecord):
        known = look_up(document.record, row.field)
        sources = "; ".join(document.record.sources)
        shipped = not document.path.startswith("/")
        place = f"kb:targets/{document.path}" if shipped else document.path
        known_from = f"{place} ({sources})" if sources else place
        standing = "new" if known is None else _standing(row.field, row.value, known)
    return Line(
        number=row.number,
        target=row.target,
        field=row.field,
        value=row.value,
        source=row.source,
        passage=row.passage,
        note=row.note,
        state=row.state,
        standing=standing,
        known=known,
        known_from=known_from,
    )


def _standing(field: str, value: float, known: float) -> Standing:
    near = [known, *((known * GIB, known / GIB) if field == "memory" else ())]
    agrees = any(abs(value - one) <= CLOSE * one for one in near)
    return "agrees" if agrees else "conflicts"


def _check(line: Line, chosen: Sequence[Line], *, replace: bool) -> None:
    if line.standing == "unknown target":
        raise ConfigError(
            f"{line.number}: no record of {line.target} any more: write one to targets/ in KB_HOME"
        )
    if line.standing == "conflicts" and not replace:
        raise ConfigError(
            f"{line.number}: {line.target} {line.field} is {line.known:.6g} by {line.known_from}, and "
            f"{line.value:.6g} by {line.source}: add --replace to take the second, or reject it"
        )
    for other in chosen:
        same = (other.target, other.field) == (line.target, line.field)
        if same and other.value != line.value:
            raise ConfigError(
                f"{line.number} and {other.number} say different things of {line.target} {line.field}: "
                "accept one of them"
            )
