"""Asking the knowledge base several questions at once, as a search does before it asks an author."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kb.records.types import Kind, Query, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One plain sentence of an inquiry.

    Attributes:
        reason: why it is asked, in words that a user can act on.
        weight: what a first place among its answers counts.
        see: records that are known to answer it, as ``ideas/NAME``, the most important first.
        kinds: of documents that may answer it; empty for all that the inquiry admits.
        anywhere: records answer it fully though the patterns that name them are not there: it is about
            an idea, a measurement or a fault, and not about what the task computes.
    """

    text: str
    reason: str
    weight: float = 1.0
    see: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    anywhere: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A record that is expected to help, whatever the questions find.

    Attributes:
        record: as ``ideas/NAME``.
        gain: what it is worth: 1 where it is surely central, 0 where it is surely useless.
        useful: how likely it is of any use.
        reason: why, in words that a user can act on.
    """

    record: str
    gain: float
    useful: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What is asked before one prompt is written.

    Attributes:
        stage: what the documents are for: ``ideas``, ``draft`` or ``repair``.
        scope: device, language and type: nothing outside is given. Operators are no part of it.
        operators: operator families of the task: what gains are looked up by.
        families: those and the families of its patterns: records of others are not given.
        symptoms: of the diagnosis, the worst first; they order answers and fetch none.
        kinds: of documents that may be given, each with the factor of its score.
        tried: names of records that the search has tried already, given after the others.
        elsewhere: names of records that only patterns name which are not there: they answer less.
        expected: records that tasks like this one were helped by.
        judged: names of the records that `expected` could have named. Any other document is weighed by
            what the questions say of it alone.
        hidden: documents that are never told of: lessons that nothing on record proves.
        device: its kind (``cpu``, ``gpu``), whose measurements records are told with; "" for none.
        target: its name, whose measurements are told before those of others.
        menu: the titles of other records are wanted.
        limit: documents at most.
        whole: of these, how many at most are told whole; of the others the beginning is.
        tokens: of all documents together, counted by `encoding`.
    """

    questions: tuple[Question, ...]
    scope: Scope
    stage: str = "ideas"
    operators: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    kinds: tuple[tuple[Kind, float], ...] = (("idea", 1.0),)
    tried: tuple[str, ...] = ()
    elsewhere: frozenset[str] = frozenset()
    expected: tuple[Expected, ...] = ()
    judged: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()
    device: str = ""
    target: str = ""
    menu: bool = False
    limit: int = 16
    whole: int = 16
    tokens: int | None = None
    encoding: str | None = None

    def query(self, text: str, limit: int) -> Query:
        """Return one plain question from where this inquiry comes from."""
        return Query(
            text=text,
            scope=replace(self.scope, operator=self.operators or self.families),
            symptoms=self.symptoms,
            kinds=tuple(kind for kind, _ in self.kinds),
            limit=limit,
            encoding=self.encoding,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """The numbers of the merging; chosen by `benchmarks/loop_retrieval`.

    Attributes:
        sharpness: the place at which an answer counts half of the first one's.
        depth: places of each question's answers that count.
        found: what the first answer to a question counts that names records itself, beside 1 for the
            first of these.
        agreement: what further questions add to the best one, 1 for their sum.
        symptom: what each symptom that a record answers adds to its score, as a fraction.
        tried: factor of records that were tried.
        elsewhere: factor of an answer by a record whose patterns are not there.
        anywhere: the same, to questions that are not about what the task computes.
        useless: what a document adds to the share of useless ones counts so much beside what it adds to the
            share of central ones that are given.
        first: documents that are given as long as they are likely of use.
        least: likelihood of any use that these must have.
        lessons: fraction of the places that lessons may take.
    """

    sharpness: float = 4.5
    depth: int = 24
    found: float = 0.27
    agreement: float = 0.45
    symptom: float = 0.1
    tried: float = 0.4
    elsewhere: float = 0.2
    anywhere: float = 0.4
    useless: float = 0.2
    first: int = 4
    least: float = 0.2
    lessons: float = 0.25


DEFAULT = Tuning()
