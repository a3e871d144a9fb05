"""What an author is told: every prompt of a run, put together from its state and from retrieval.

One operator for ideas, drafts and repairs, whose behaviour comes from its context alone, as in
KernelEvolve (arXiv 2512.23236, section 3.2). Nothing here asks a model, so that a prompt can be
printed without one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from random import Random
from typing import Any, Protocol

from kb.config import Home
from kb.errors import ConfigError
from kb.records.patterns import Pattern
from kb.records.schema import CATEGORIES, TargetRecord
from kb.records.types import Answer
from kb.tokens import count_tokens
from search.attempt import Attempt, Idea, Memory, Moment
from search.costs.graph import OperatorGraph, Work
from search.outcome import KernelTime, Passed
from search.patterns.recognise import read_program
from search.prompting.describe import cost, detail, trials_of_branches, trials_of_ideas, verdict
from search.prompting.history import PLATEAU, Recalled, recall
from search.prompting.knowledge_view import RecordSource
from search.prompting.library_notes import LibraryNotes
from search.prompting.novelty import NoveltyCheck, tried_in
from search.prompting.questions import Questions, QuestionStep
from search.prompting.readings import PassageRetriever, Readings
from search.prompting.rendered import RenderedPrompt
from search.standings import standings_of
from search.task import Task
from search.tunables import knob_trouble
from search.won_or_lost import gains
from search.workloads import workload_facts
from synth.context import Context, Current, Purpose
from synth.device_facts import target_lines
from synth.prompt import compose
from synth.query import Stage, Subject
from synth.replies.ideas import EXAMPLE
from synth.template_loader import Templates

MOST_TOKENS = 10_000  # of passages: what is worth quoting rarely takes half of that
REPORTED = 1_500  # characters of a report that are asked about
_COUNTED = 4096  # texts whose tokens are remembered: rules, figures and the reference never change
_REFUSED = 40  # titles that are listed: the answer's form is never cut


class PromptReader(Protocol):
    """Who reads a prompt, as `search.authors.model_pool.PoolMember`."""

    @property
    def encoding(self) -> str:
        """What counts its tokens."""
        ...

    @property
    def budget(self) -> int:
        """Tokens that a prompt may have."""
        ...


class PromptKnowledge(Protocol):
    """What an author may ask of the knowledge base."""

    @property
    def retriever(self) -> PassageRetriever:
        """Finds passages."""
        ...

    @property
    def store(self) -> RecordSource:
        """Holds whole records."""
        ...

    @property
    def known(self) -> NoveltyCheck | None:
        """What was tried before, None where nothing is refused but equal words."""
        ...

    @property
    def readings(self) -> Readings | None:
        """Records and pages by name, None where nothing may be read."""
        ...

    @property
    def patterns(self) -> Callable[[], Sequence[Pattern]]:
        """Loads the patterns that the task is searched for."""
        ...


class PromptWriter:
    """Writes the prompts of a run.

    Args:
        work: what the task costs, None where it could not be counted.
        templates: None for the user's and the shipped ones.
        graph: operators of the reference, None where they could not be traced.
    """

    def __init__(
        self,
        task: Task,
        target: TargetRecord,
        work: Work | None,
        knowledge: PromptKnowledge,
        templates: Templates | None = None,
        graph: OperatorGraph | None = None,
    ) -> None:
        self._task = task
        self._target = target
        self._work = work
        self._knowledge = knowledge
        self._graph = graph
        language = task.settings.language
        self.language = target.languages[0] if language == "auto" else language
        self._templates = templates or user_templates(task)
        self._count = lru_cache(_COUNTED)(count_tokens)

    def ideas(
        self,
        reader: PromptReader,
        moment: Moment,
        count: int,
        asked: Sequence[str] = (),
        **offered: Any,
    ) -> RenderedPrompt:
        """Return the prompt for at most `count` ideas.

        What is not told of the history is named by its title and what it reached, so that it is not given
        again and its failure is a lesson; a clean slate has the titles alone.

        Args:
            asked: questions that a model asks the knowledge base in place of kb's own.
            offered: what else the answer's form tells: `requests`, which may come before ideas.

        Raises:
            ConfigError: the task does not fit the model's context.
        """
        clean = moment.memory == "clean"
        parent = None if clean else moment.parent
        near = recall(parent, moment.history)
        every = gains(moment.history)
        told = [gain for gain in every if _is_told(gain.attempt, near, moment.memory)]
        names = {gain.attempt.idea.title for gain in told}
        hidden = tried_in([one for one in moment.history if one.idea.title not in names])
        known = self._knowledge.known
        earlier = known.earlier if known is not None else ()
        more = [f"{one.title}: {one.told}" for one in earlier]
        more += [one.title if clean else f"{one.title}: {one.told}" for one in hidden]
        return self._brief(
            reader,
            "ideas",
            moment,
            QuestionStep(stage=stage_of(moment), tried=_tried(moment.history), asked=asked),
            history=trials_of_ideas(told, near),
            current=_current(parent),
            answer={
                "count": count,
                "categories": CATEGORIES,
                "example": EXAMPLE,
                "refused": tuple(more[-_REFUSED:]),
                **offered,
            },
        )

    def draft(
        self,
        reader: PromptReader,
        moment: Moment,
        idea: Idea,
        branch: int,
        siblings: tuple[Attempt, ...],
        asked: Sequence[str] = (),
    ) -> RenderedPrompt:
        """Return the prompt for implementation number `branch` of `idea`.

        Raises:
            ConfigError: the task does not fit the model's context.
        """
        settings = self._task.settings.search
        return self._brief(
            reader,
            "draft",
            moment,
            QuestionStep(
                stage="draft", text=f"{idea.title}. {idea.text}", record=idea.record, asked=asked
            ),
            history=trials_of_branches(siblings),
            current=_current(None if moment.memory == "clean" else moment.parent),
            answer={
                "title": idea.title,
                "category": idea.category,
                "text": idea.text,
                "branch": branch + 1,
                "branches": max(settings.branches, branch + 1),
                "knobs": settings.knob_trials > 0,
            },
        )

    def repair(
        self, reader: PromptReader, moment: Moment, failed: Attempt, asked: Sequence[str] = ()
    ) -> RenderedPrompt:
        """Return the prompt for a mended source.

        Raises:
            ConfigError: the task does not fit the model's context.
        """
        idea = failed.idea
        reported = "\n".join((*verdict(failed.outcome), detail(failed.outcome)[:REPORTED]))
        return self._brief(
            reader,
            "repair",
            moment,
            QuestionStep(
                stage="repair",
                text=idea.title,
                record=idea.record,
                outcome=failed.outcome.kind,
                message=reported,
                asked=asked,
            ),
            history=trials_of_branches(earlier_of(moment, failed)),
            current=_current(failed),
            answer={"title": idea.title, "text": idea.text},
        )

    def _brief(
        self,
        reader: PromptReader,
        purpose: Purpose,
        moment: Moment,
        step: QuestionStep,
        **parts: Any,
    ) -> RenderedPrompt:
        measured = moment.parent if moment.memory != "clean" else None
        step = replace(
            step,
            symptoms=moment.diagnosis.symptoms,
            measured=measured is not None,
            kernels=_profiled(measured),
            tokens=min(MOST_TOKENS, max(reader.budget // 2, 500)),
            encoding=reader.encoding,
        )
        inquiry = self._questions.inquiry(step)
        informed = self.informs(moment)
        answer = self._knowledge.retriever.inquire(inquiry) if informed else Answer(hits=())
        context = self._context(purpose, moment, answer, **parts)

        def count(text: str) -> int:
            return self._count(text, reader.encoding)

        prompt = compose(context, reader.budget, count, self._templates)
        return RenderedPrompt(
            prompt=prompt,
            inquiry=inquiry,
            patterns=self._questions.recognised(step),
            answer=answer,
        )

    def _context(self, purpose: Purpose, moment: Moment, found: Answer, **parts: Any) -> Context:
        """Return what the templates of a prompt are filled with."""
        library, diagnosis = self._library, moment.diagnosis
        return Context(
            purpose=purpose,
            task=self._task.name,
            reference=self._task.source,
            language=library.language_name,
            library=self._task.settings.library == "allowed",
            facts=self._facts,
            device=self._target.title,
            target=target_lines(self._target),
            pack=library.pack,
            constraints=library.constraints(purpose),
            points=diagnosis.points,
            diagnosis=diagnosis.notes if diagnosis.points else diagnosis.lines,
            memory=moment.memory,
            passages=found.hits,
            menu=found.menu,
            form=library.form,
            **parts,
        )

    def informs(self, moment: Moment) -> bool:
        """Say whether the steps upon a parent are given retrieved knowledge, see `knowledge`."""
        if not self._task.settings.retrieval:
            return False
        share = self._task.settings.search.knowledge
        parent = moment.parent.number if moment.parent is not None else None
        draw = Random(f"{self._task.settings.search.seed}:{moment.round}:{parent}:knowledge")
        return share >= 1 or draw.random() < share

    @cached_property
    def _questions(self) -> Questions:
        precision = self._task.settings.precision
        program = read_program(self._task.name, self._task.source, self._graph)
        subject = Subject(
            target=self._target,
            language=self.language,
            told=program.text.told,
            families=self._work.families if self._work else (),
            precision=precision if isinstance(precision, str) else "strict",
            library=self._task.settings.library,
        )
        return Questions(program, subject, self._knowledge.patterns())

    @cached_property
    def _facts(self) -> tuple[str, ...]:
        precision = self._task.settings.precision
        named = precision if isinstance(precision, str) else precision.model_dump_json()
        shapes = workload_facts(self._task.settings.workloads)
        return (f"Precision: {named}", *shapes, *(cost(self._work) if self._work else ()))

    @cached_property
    def _library(self) -> LibraryNotes:
        store, scope = self._knowledge.store, self._questions.scope
        return LibraryNotes(store, self.language, self._target.name, scope)


def user_templates(task: Task) -> Templates:
    """Return the templates of a task: its own folder's, the user's, then the shipped ones.

    Raises:
        ConfigError: one of them cannot be used.
    """
    folders = [Home.find().root / "prompts"]
    if task.prompts is not None:
        if not task.prompts.is_dir():
            raise ConfigError(
                f"prompts: expected a folder with templates, found none at {task.prompts}: "
                "`kb prompt --templates` names the sections"
            )
        folders.insert(0, task.prompts)
    templates = Templates([folder for folder in folders if folder.is_dir()])
    templates.check()
    return templates


def _is_told(attempt: Attempt, near: Recalled, memory: Memory) -> bool:
    """Say whether ideas are told of an attempt: of its siblings, of what led there, of both and all."""
    if memory == "trajectory":
        return attempt.number in near.trajectory
    if memory == "siblings":
        return attempt.number in near.siblings or attempt.number in near.trajectory
    return memory == "both"


def earlier_of(moment: Moment, failed: Attempt) -> list[Attempt]:
    """Return the other attempts at the idea of one that failed."""
    idea = failed.idea
    return [
        attempt
        for attempt in moment.history
        if attempt.number != failed.number
        and (attempt.idea.title, attempt.idea.text) == (idea.title, idea.text)
    ]


def stage_of(moment: Moment) -> Stage:
    """Return what ideas are asked for: where the search stands still, what was not tried."""
    still = standings_of(moment.history).rounds_without_gain(moment.round) >= PLATEAU
    return "plateau" if still else "ideas"


def _tried(history: Iterable[Attempt]) -> tuple[str, ...]:
    """Return the names of the records that ideas of a search came from."""
    return tuple(dict.fromkeys(one.idea.record for one in history if one.idea.record))


def _profiled(attempt: Attempt | None) -> tuple[KernelTime, ...]:
    """Return the kernels that a program ran, with their times; () where no device was profiled."""
    outcome = attempt.outcome if attempt is not None else None
    return outcome.kernels if isinstance(outcome, Passed) else ()


def _current(attempt: Attempt | None) -> Current | None:
    if attempt is None:
        return None
    return Current(
        source=attempt.draft.source,
        verdict=(*verdict(attempt.outcome), *knob_trouble(attempt.draft.source)),
        detail=detail(attempt.outcome),
    )
