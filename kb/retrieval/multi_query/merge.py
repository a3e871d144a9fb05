"""From several questions to one ranking of documents, each with why it stands there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kb.records.patterns import FOLDERS
from kb.records.types import Kind, Query, Scope
from kb.retrieval.fusion import RankedRow, fuse, rank, together
from kb.retrieval.multi_query import DEFAULT, Expected, Inquiry, Question, Tuning
from kb.retrieval.multi_query.odds import Signs, likelihoods

if TYPE_CHECKING:
    from kb.indexes import Vector
    from kb.retrieval.filters import View


@dataclass(slots=True, kw_only=True)
class MergedDocument:
    """A document that some questions lead to.

    Attributes:
        name: as patterns name it (``ideas/online-softmax``), "" for a plain document.
        rows: its passages that were found, the best first.
        votes: what each question gave it, with the question's reason.
        cosine, bm25: of its best passage to any question.
        answers: symptoms of the inquiry that it answers.
        asked: what the questions give it.
        score: what it is expected to be worth, see `kb.retrieval.multi_query.odds`.
        central, useful: how likely it is central, and of any use.
    """

    document: str
    kind: Kind
    name: str
    rows: list[int] = field(default_factory=list)
    votes: list[tuple[float, str]] = field(default_factory=list)
    cosine: float | None = None
    bm25: float | None = None
    answers: tuple[str, ...] = ()
    asked: float = 0.0
    score: float = 0.0
    central: float = 0.0
    useful: float = 0.0

    def add(self, rows: Sequence[int], cosine: float | None, bm25: float | None) -> None:
        """Note what a question found of it."""
        self.rows += [row for row in rows if row not in self.rows]
        self.cosine = max((v for v in (self.cosine, cosine) if v is not None), default=None)
        self.bm25 = max((v for v in (self.bm25, bm25) if v is not None), default=None)

    @property
    def trail(self) -> tuple[str, ...]:
        """Why it is here, the weightiest reason first."""
        return tuple(dict.fromkeys(reason for _, reason in sorted(self.votes, key=lambda v: -v[0])))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """A document among the answers of one question, with its passages there."""

    document: str
    rows: tuple[int, ...]
    cosine: float | None
    bm25: float | None


class Merger:
    """Ranks the documents of one view for inquiries.

    Args:
        embed: gives a question's vector.
    """

    def __init__(
        self, view: View, embed: Callable[[str], Vector], tuning: Tuning = DEFAULT
    ) -> None:
        self._view = view
        self._embed = embed
        self._tuning = tuning
        self._sources = {one.shown: one for one in view.index.sources}
        self._named = {
            record_name(one.kind, one.shown): one.shown
            for one in view.index.sources
            if one.kind in FOLDERS
        }
        self._answers = lru_cache(maxsize=512)(self._answer)

    def merge(self, inquiry: Inquiry) -> list[MergedDocument]:
        """Return the documents that the questions lead to, best first."""
        found = self.signs(inquiry)
        chances = likelihoods([signs for _, signs in found], inquiry.stage)
        for (one, _), chance in zip(found, chances, strict=True):
            one.score, one.central, one.useful = chance.worth, chance.central, chance.useful
        return sorted((one for one, _ in found), key=lambda one: (-one.score, one.document))

    def signs(self, inquiry: Inquiry) -> list[tuple[MergedDocument, Signs]]:
        """Return the documents that the questions lead to, and what speaks for each."""
        found: dict[str, MergedDocument] = {}
        for question in inquiry.questions:
            for document, vote in self._votes(question, inquiry, found).items():
                one = found.setdefault(document, self._found(document))
                one.votes.append((vote, question.reason))
        kinds = dict(inquiry.kinds)
        for one in found.values():
            one.asked = self._asked(one, inquiry, kinds[one.kind])
        expected: dict[str, Expected] = {}
        for record in inquiry.expected:
            shown = self._named.get(record.record)
            if shown is not None and self._admits(shown, inquiry, ()):
                expected[shown] = record
                one = found.setdefault(shown, self._found(shown))
                one.votes.append((record.gain, record.reason))
        return [
            (one, self._signs(one, expected.get(one.document), inquiry)) for one in found.values()
        ]

    def _signs(self, one: MergedDocument, expected: Expected | None, inquiry: Inquiry) -> Signs:
        return Signs(
            kind=one.kind,
            asked=one.asked,
            gain=expected.gain if expected is not None else 0.0,
            useful=max(0.0, expected.useful) if expected is not None else 0.0,
            judged=one.name in inquiry.judged,
            cosine=one.cosine or 0.0,
            bm25=one.bm25 or 0.0,
            answers=len(one.answers),
            tried=one.name in inquiry.tried,
        )

    def _votes(
        self, question: Question, inquiry: Inquiry, found: dict[str, MergedDocument]
    ) -> dict[str, float]:
        """Return what one question gives to documents: by a pattern's list, or by its answers."""
        votes: dict[str, float] = {}
        named = [self._named[name] for name in question.see if name in self._named]
        families = inquiry.families if question.anywhere else ()
        fitting = (one for one in named if self._admits(one, inquiry, families))
        for place, document in enumerate(fitting):
            votes[document] = question.weight * self._part(place)
        found_weight = question.weight * (self._tuning.found if question.see else 1.0)
        kinds = question.kinds or tuple(kind for kind, _ in inquiry.kinds)
        asked = bool(question.text)
        answers = (
            self._answers(question.text, inquiry.scope, inquiry.families, kinds) if asked else ()
        )
        for place, answer in enumerate(answers):
            one = found.setdefault(answer.document, self._found(answer.document))
            one.add(answer.rows, answer.cosine, answer.bm25)
            vote = found_weight * self._part(place)
            if one.name in inquiry.elsewhere:
                tuning = self._tuning
                vote *= tuning.anywhere if question.anywhere else tuning.elsewhere
            votes[answer.document] = max(votes.get(answer.document, 0.0), vote)
        return votes

    def _part(self, place: int) -> float:
        return self._tuning.sharpness / (self._tuning.sharpness + place)

    def _asked(self, one: MergedDocument, inquiry: Inquiry, kind: float) -> float:
        tuning = self._tuning
        votes = sorted((vote for vote, _ in one.votes), reverse=True)
        score = kind * (votes[0] + tuning.agreement * sum(votes[1:]))
        own = self._sources[one.document].symptoms
        one.answers = tuple(name for name in inquiry.symptoms if name in own)
        score *= 1.0 + tuning.symptom * len(one.answers)
        return score * (tuning.tried if one.name in inquiry.tried else 1.0)

    def _answer(
        self, text: str, scope: Scope, families: tuple[str, ...], kinds: tuple[Kind, ...]
    ) -> tuple[_Answer, ...]:
        """Return the documents that answer one question, best first, each with its passages."""
        asked = replace(scope, operator=families)
        among = self._view.of_kinds(kinds) & (self._view.outside(asked) == 0)
        if not among.any():
            return ()
        query = Query(text=text, kinds=kinds)
        rankings = together(self._view, rank(self._view, query, self._embed(text), among))
        first: dict[str, list[RankedRow]] = {}
        for one in fuse(rankings, self._view.index.ids):
            unit = first.setdefault(self._view.document(one.row), [])
            unit.append(one)
        return tuple(
            _Answer(
                document=document,
                rows=tuple(one.row for one in unit),
                cosine=max((one.cosine for one in unit if one.cosine is not None), default=None),
                bm25=max((one.bm25 for one in unit if one.bm25 is not None), default=None),
            )
            for document, unit in list(first.items())[: self._tuning.depth]
        )

    def _admits(self, document: str, inquiry: Inquiry, families: tuple[str, ...]) -> bool:
        """Say whether a record that a pattern names may be given.

        What names it knows whether it fits, but for what is not about the computation: then its
        operators must be those of the task.
        """
        source = self._sources[document]
        inside = not source.scope.misses(replace(inquiry.scope, operator=families))
        return inside and source.kind in dict(inquiry.kinds)

    def _found(self, document: str) -> MergedDocument:
        kind = self._sources[document].kind
        return MergedDocument(document=document, kind=kind, name=record_name(kind, document))


def worth_giving(
    ranked: Sequence[MergedDocument], tuning: Tuning = DEFAULT
) -> list[MergedDocument]:
    """Return the documents that are worth an author's time.

    One more is given where the share of the central documents that it is expected to add outweighs what it
    adds to the share of useless ones. The first few are given where they are of some likely use.

    Args:
        ranked: the best first.
    """
    central = max(1.0, sum(one.central for one in ranked))
    kept: list[MergedDocument] = []
    useless = 0.0
    for one in ranked:
        share = useless / len(kept) if kept else 0.0
        cost = tuning.useless * ((1.0 - one.useful) - share) / (len(kept) + 1)
        first = len(kept) < tuning.first and one.useful >= tuning.least
        if first or one.central / central > cost:
            kept.append(one)
            useless += 1.0 - one.useful
    return kept


def record_name(kind: Kind, document: str) -> str:
    """Return a record's name as patterns write it, "" for what they cannot name."""
    stem = PurePosixPath(document).stem
    return f"{FOLDERS[kind]}/{stem}" if kind in FOLDERS else ""
