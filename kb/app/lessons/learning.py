"""What happens after a search: what the run taught is written back into the knowledge base."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING

from kb.config import Home
from kb.progress import Progress, say
from kb.records.schema import TargetRecord
from kb.records.types import Passage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kb.app.session import Session, Setup
    from kb.knowledge import Knowledge
    from search.attempt import Attempt, Diagnosis, Idea
    from search.costs.graph import OperatorGraph, Work
    from search.lessons.evidence import Runs
    from search.lessons.setting import Setting
    from search.lessons.store import Fate, LessonChange, LessonStore
    from search.outcome import Outcome
    from search.prompting.knowledge_view import KnowledgeView
    from search.prompting.novelty import NoveltyCheck
    from search.runs.snapshot import RunSnapshot
    from search.runs.storage import Record, Storage
    from search.task import Task
    from synth.models import Model

_WORDS: dict[Fate, str] = {
    "new": "new",
    "known": "known before",
    "confirmed": "confirmed",
    "contradicted": "contradicted",
    "noted": "undecided",
    "retired": "retired",
    "revived": "believed again",
    "replaced": "replaced",
    "refused": "refused",
}


@dataclass(frozen=True, kw_only=True)
class Searched:
    """A run to learn from.

    Attributes:
        graph: operators of its reference.
        baselines: seconds of one call, by name.
        diagnose: says what holds an attempt back, or the reference for None.
    """

    storage: Storage
    record: Record
    task: Task
    target: TargetRecord
    language: str
    graph: OperatorGraph
    work: Work
    baselines: Mapping[str, float]
    diagnose: Callable[[Attempt | None], Diagnosis]

    def setting(self) -> Setting:
        """Where its measurements were taken."""
        from search.costs.graph import shapes_line
        from search.lessons.distill import regime_of
        from search.lessons.setting import Setting
        from search.patterns.traits.rows import rows_of

        inputs = [value.shape for value in self.graph.values if value.kind == "input"]
        chosen = self.task.settings.precision
        precision = chosen if isinstance(chosen, str) else "explicit tolerances"
        began = self.storage.run(self.record.run).started
        return Setting(
            run=self.record.run,
            task=self.task.name,
            identity=self.task.identity,
            target=self.target.name,
            architecture=self.target.architecture,
            language=self.language,
            families=self.work.families,
            symptoms=self.diagnose(None).symptoms,
            shapes=shapes_line(self.graph),
            eager_seconds=self.baselines["eager"],
            regime=regime_of(self.work.bytes, self.target, inputs, precision, rows_of(self.graph)),
            precision=precision,
            at=datetime.fromtimestamp(began, UTC).date(),
            diagnose=self.diagnose,
        )


def learn(
    home: Home,
    storage: Storage,
    record: Record,
    setting: Setting,
    confirmed: Mapping[int, Outcome],
    model: Model | None = None,
) -> list[LessonChange]:
    """Write what a finished run taught, say so in one line, and return it in detail.

    Args:
        confirmed: outcomes of the finalists, measured again.
        model: writes lessons in words, None where there is none.
    """
    from kb.knowledge import sync_lessons
    from search.lessons.distill import lessons, verdicts
    from search.lessons.evidence import Runs
    from search.lessons.withdrawal import refused_twins

    proof = Runs(storage.engine).measured_again(record.run, confirmed)
    book = open_book(home, storage, proof)
    found = lessons(record.graph, confirmed, setting)
    if model is not None and found:
        from search.lessons.llm_wording import write_lessons

        found = write_lessons(model, found, say)
    told = verdicts(record.graph, confirmed, setting, citations(storage, record))
    because = f"{record.run} refused the program that it was measured on"
    fallen = refused_twins(storage, record, confirmed)
    changes = _shared(
        home,
        storage,
        lambda: [*book.withdraw(fallen, because, today()), *book.learn(found, told, today())],
    )
    for problem in book.problems:
        say(problem)
    say_changes(changes)
    sync_lessons(home)
    return changes


def _shared(
    home: Home, storage: Storage, learn: Callable[[], list[LessonChange]]
) -> list[LessonChange]:
    """Return what `learn` does to the lessons of all homes that use the database."""
    from search.lessons.shared import SharedLessons

    if not os.environ.get("KB_DATABASE"):
        return learn()
    return SharedLessons(storage.engine, home.make().root).learning(learn)


def learn_from(
    session: Session,
    record: Record,
    baselines: Mapping[str, float],
    confirmed: Mapping[int, Outcome],
    *,
    finished: bool = True,
) -> None:
    """Write what the run of a session taught back into the knowledge base.

    Args:
        finished: False for a run that was broken off: what passages gained is recorded but for its
            finalists, which no second judge has looked at, and lessons wait for its end.
    """
    from kb.app.diagnosis import diagnoser
    from kb.app.models import lesson_writer
    from search.lessons.credit import keep_credits
    from search.second_look import awaited

    run = Searched(
        storage=session.storage,
        record=record,
        task=session.task,
        target=session.target,
        language=session.language,
        graph=session.graph,
        work=session.work,
        baselines=baselines,
        diagnose=diagnoser(session, baselines),
    )
    setting = run.setting()
    counted = confirmed if finished else awaited(record.graph)
    keep_credits(session.storage.engine, record.graph, counted, setting, time.time())
    if finished:
        model = lesson_writer(session) if session.author_name == "llm" else None
        learn(session.home, session.storage, record, setting, confirmed, model)


def open_book(home: Home, storage: Storage, proof: Runs | None = None) -> LessonStore:
    """Open the lessons of a home.

    Args:
        proof: what evidence is held against, None for the record of runs as it is.
    """
    from kb.embedders import DEFAULT_EMBEDDER, create_embedder
    from search.lessons.duplicates import Alike
    from search.lessons.evidence import Runs
    from search.lessons.store import LessonStore

    embedder = create_embedder(os.environ.get("KB_EMBEDDER") or DEFAULT_EMBEDDER, home.cache)
    proof = proof or Runs(storage.engine)
    return LessonStore(home.make().root, proof.fault, Alike(embedder))


def open_memory(
    setup: Setup, given: RunSnapshot, progress: Progress, *, as_of: float | None, remembers: bool
) -> KnowledgeView:
    """Open the knowledge base for the authors of a run.

    Args:
        given: what the run was given when it first asked.
        as_of: seconds since the epoch that the ranking and earlier ideas are taken of, None for now.
        remembers: ideas of the task's earlier runs are known again.
    """
    from kb.knowledge import open_knowledge

    knowledge = open_knowledge(setup.home, progress, as_of=as_of)
    before = time.time() if as_of is None else as_of
    storage, task = setup.storage, setup.task
    known = known_ideas(knowledge, storage, task, before, given) if remembers else None
    retrieval = task.settings.retrieval
    return believed_memory(knowledge, storage, given, retrieval=retrieval, known=known)


def believed_memory(
    knowledge: Knowledge,
    storage: Storage,
    given: RunSnapshot | None = None,
    *,
    retrieval: bool = True,
    known: NoveltyCheck | None = None,
) -> KnowledgeView:
    """Return the knowledge as authors see it: without lessons whose evidence is not in the record.

    Args:
        given: what a run was given when it first asked, None outside of runs.
    """
    from kb.records.patterns import FOLDER, load_patterns
    from kb.retrieval.lookup import RecordReader
    from search.lessons.evidence import Runs
    from search.prompting.knowledge_view import KnowledgeView, RecordSource, Silent, TrustedRecords
    from search.prompting.readings import (
        PassageRetriever,
        Readings,
        RecordingReadings,
        RecordingRetriever,
    )

    believed = TrustedRecords(knowledge.store, Runs(storage.engine).believes)
    doubted = believed.doubted()
    records: RecordSource = believed
    retriever: PassageRetriever = knowledge.retriever if retrieval else Silent()
    reader: Readings = RecordReader(knowledge.store, knowledge.effects, doubted)
    patterns = partial(load_patterns, Home.find().root / FOLDER)
    if given is not None:
        records, retriever = given.records(records), given.retriever(retriever)
        reader, patterns = given.readings(reader), partial(given.patterns, patterns)
    witness = RecordingRetriever(retriever, doubted)
    return KnowledgeView(
        witness,
        records,
        known,
        RecordingReadings(reader, witness) if retrieval else None,
        patterns,
    )


def known_ideas(
    knowledge: Knowledge,
    storage: Storage,
    task: Task,
    before: float,
    given: RunSnapshot | None = None,
) -> NoveltyCheck:
    """Return what was tried on a task in runs that began before a moment, with how it is compared."""
    from search.lessons.duplicates import Alike
    from search.prompting.novelty import NoveltyCheck
    from search.runs.earlier import earlier_ideas

    earlier = earlier_ideas(storage, task, before)
    if given is not None:
        earlier = given.earlier(earlier)
    return NoveltyCheck(Alike(knowledge.derived.embedder), earlier)


def today() -> date:
    """Return the day by which evidence ages."""
    return datetime.now(UTC).date()


def say_changes(changes: Sequence[LessonChange]) -> None:
    """Say in one line what was learned, and in one line each what was refused or retired."""
    counts = Counter(change.fate for change in changes)
    listed = ", ".join(f"{counts[fate]} {word}" for fate, word in _WORDS.items() if counts[fate])
    if listed:
        say(f"lessons: {listed} (kb lessons lists them)")
    for change in changes:
        if change.why:
            say(f"  {_WORDS[change.fate]}: {change.lesson}: {change.why}")


def citations(storage: Storage, record: Record) -> Callable[[Idea], tuple[str, ...]]:
    """Return the function that names the lessons which an idea starts from.

    The offline author says so itself; a model cites passages, and what it cites it builds on.
    """
    from kb.store.documents import Store

    wanted: dict[str, None] = {}
    for proposal in record.graph.proposals.values():
        for idea in proposal.ideas:
            if not idea.plan:
                wanted.update(dict.fromkeys(idea.passages))
    passages = Store(storage.engine).passages(list(wanted)) if wanted else {}

    def cited(idea: Idea) -> tuple[str, ...]:
        if idea.plan:
            named = idea.plan.get("lesson")
            return (named,) if named else ()
        found = (passages[one] for one in idea.passages if one in passages)
        return tuple(dict.fromkeys(_lesson(one) for one in found if one.kind == "lesson"))

    return cited


def _lesson(passage: Passage) -> str:
    return passage.document.rpartition(":")[2].rpartition("/")[2].removesuffix(".md")
