"""The model author: ideas in plain language first, then implementations of each.

The two steps are those of Stanford CRFM's fast kernels (2025): ideas conditioned on the ideas tried
before and what became of them, then several different implementations of each idea. What a prompt
says is put together from the run's own state and retrieved knowledge, as in KernelEvolve
(arXiv 2512.23236, section 3.2): one author, whose behaviour comes from its context alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Self, TypeVar

from kb.records.schema import TargetRecord
from kb.records.types import Passage
from search.attempt import Attempt, Draft, Idea, Moment
from search.authors import AuthorParts
from search.authors.llm_questions import ModelQuestions
from search.authors.model_pool import AGAIN_TOKENS, ModelPool, PoolMember
from search.authors.navigation import Navigator
from search.costs.graph import OperatorGraph, Work
from search.prompting.novelty import KnownIdea, tried_in
from search.prompting.prompts import PromptKnowledge, PromptWriter, earlier_of, user_templates
from search.settings import ModelSettings
from search.task import Task
from synth.models import Message, Model, Reply, Request
from synth.models.waiting import Waiting, ask, finish
from synth.prompt import Prompt
from synth.quoting import fence, one_line
from synth.replies.ideas import Sketch, read_sketches, schema
from synth.replies.requests import Lookup, read_requests, with_requests
from synth.replies.source import extract_source

_EXCERPT = 500  # characters of a useless reply that are shown to its author
# Asking the same again would be filtered, and paid for, again.
_WITHHELD = "content_filter"


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question to the model, and how it may vary."""

    voice: PoolMember
    prompt: Prompt
    seed: int
    temperature: float
    schema: str | None = None
    program: str | None = None  # what an edit is applied to


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What a reply for ideas held: ideas, or else requests."""

    sketches: tuple[Sketch, ...] = ()
    requests: tuple[Lookup, ...] = ()


class LanguageModel:
    """Writes ideas and sources by asking a language model.

    Args:
        work: what the task costs, None where it could not be counted.
        model: asked for everything, or the cast of those who are; wrap models in
            `synth.models.recorded.Recorded` to keep the exchanges.
        graph: operators of the reference, None where they could not be traced.
        say: told in one line when the model's replies could not be used.
    """

    def __init__(  # noqa: PLR0913 - the parts of an author, put together in one place
        self,
        task: Task,
        target: TargetRecord,
        work: Work | None,
        knowledge: PromptKnowledge,
        model: Model | ModelPool,
        say: Callable[[str], None] | None = None,
        graph: OperatorGraph | None = None,
    ) -> None:
        settings = task.settings
        self._cast = (
            model
            if isinstance(model, ModelPool)
            else ModelPool.of(model, settings.model or ModelSettings(name=model.name))
        )
        self._say = say
        templates = user_templates(task)
        self._briefing = PromptWriter(task, target, work, knowledge, templates, graph)
        self._questions = ModelQuestions(task, target, work, self._briefing, self._cast, say)
        self._navigator = Navigator(task, work, knowledge, templates)
        self._known = knowledge.known

    @classmethod
    def of(cls, parts: AuthorParts) -> Self:
        """Return the author of a run that has these parts."""
        return cls(
            parts.task, parts.target, parts.work, parts.memory, parts.models, parts.say, parts.graph
        )

    def ideas(self, moment: Moment, count: int) -> tuple[Idea, ...]:
        """Return what `asks_ideas` does, and wait for it."""
        return finish(self.asks_ideas(moment, count))

    def draft(
        self, moment: Moment, idea: Idea, branch: int, siblings: tuple[Attempt, ...]
    ) -> Draft | None:
        """Return what `asks_draft` does, and wait for it."""
        return finish(self.asks_draft(moment, idea, branch, siblings))

    def repair(self, moment: Moment, failed: Attempt) -> Draft | None:
        """Return what `asks_repair` does, and wait for it."""
        return finish(self.asks_repair(moment, failed))

    def asks_ideas(self, moment: Moment, count: int) -> Waiting[tuple[Idea, ...]]:
        """Return at most `count` new ideas; none where two replies held none.

        Raises:
            ModelError: the model cannot be reached or refuses the request.
            ConfigError: the task does not fit the model's context.
        """
        voice = self._cast.voice("ideas", moment)
        questions = yield from self._questions.for_ideas(moment)
        brief, talk = self._navigator.begin(self._briefing, voice, moment, count, questions)
        pending = (
            KnownIdea(title=one.title, text=one.text, told="is at work") for one in moment.pending
        )
        tried = (*tried_in(moment.history), *pending)

        def read(reply: Reply) -> tuple[_Said | None, str]:
            found = read_sketches(reply.text, [(one.title, one.text) for one in tried])
            fresh, repeats = self._new(found.sketches, tried)
            if fresh:
                return _Said(sketches=fresh[:count]), found.problem
            if found.sketches:
                again = f"all ideas were tried before, if in other words: {'; '.join(repeats)}"
                return None, again
            requests = read_requests(reply.text)
            if requests and talk.open:
                return _Said(requests=requests), ""
            return None, "requests are used up: give ideas" if requests else found.problem

        exchanges: tuple[str, ...] = ()
        while True:
            form = schema(count)
            asked = _Asked(
                voice=voice,
                prompt=replace(brief.prompt, messages=talk.messages),
                seed=(moment.seed + 2 * talk.step) % 2**31,  # the next one is that of asking again
                temperature=voice.settings.temperature,
                schema=with_requests(form) if talk.open else form,
            )
            said, keys = yield from self._ask(asked, read, "ideas")
            exchanges += keys
            if said is None or said.sketches:
                break
            talk.answer(said.requests)
        sketches = said.sketches if said is not None else ()
        return tuple(_idea(sketch, talk.quoted, exchanges) for sketch in sketches)

    def _new(
        self, sketches: tuple[Sketch, ...], tried: tuple[KnownIdea, ...]
    ) -> tuple[tuple[Sketch, ...], tuple[str, ...]]:
        """Return the ideas that say nothing again, and what the others repeat."""
        if self._known is None:
            return sketches, ()
        fresh: list[Sketch] = []
        repeats: list[str] = []
        for sketch in sketches:
            beside = (
                KnownIdea(title=one.title, text=one.text, told="given beside it") for one in fresh
            )
            found = self._known.find(sketch.title, sketch.text, (*tried, *beside))
            if found is None:
                fresh.append(sketch)
            else:
                repeats.append(f"{sketch.title!r} is {found.title!r}, which {found.told}")
        if repeats and self._say is not None:
            self._say(f"refused before any code was written: {'; '.join(repeats)}")
        return tuple(fresh), tuple(repeats)

    def asks_draft(
        self, moment: Moment, idea: Idea, branch: int, siblings: tuple[Attempt, ...]
    ) -> Waiting[Draft | None]:
        """Return implementation number `branch` of `idea`, None where two replies held no source.

        Raises:
            ModelError: the model cannot be reached or refuses the request.
            ConfigError: the task does not fit the model's context.
        """
        voice = self._cast.voice("code", moment, branch)
        questions = yield from self._questions.for_draft(moment, idea)
        brief = self._briefing.draft(voice, moment, idea, branch, siblings, questions)
        parent = None if moment.memory == "clean" else moment.parent
        known = {attempt.draft.source for attempt in siblings}
        if moment.parent is not None:
            known.add(moment.parent.draft.source)
        asked = _Asked(
            voice=voice,
            prompt=brief.prompt,
            seed=(moment.seed + 7919 * branch) % 2**31,
            temperature=_warmer(voice.settings.temperature, branch),
            program=None if parent is None else parent.draft.source,
        )
        return (
            yield from self._source(asked, known, f"implementation {branch + 1} of {idea.title!r}")
        )

    def asks_repair(self, moment: Moment, failed: Attempt) -> Waiting[Draft | None]:
        """Return a mended source, None where two replies held none or changed nothing.

        Raises:
            ModelError: the model cannot be reached or refuses the request.
            ConfigError: the task does not fit the model's context.
        """
        voice = self._cast.voice("repair", moment)
        questions = yield from self._questions.for_repair(moment, failed)
        brief = self._briefing.repair(voice, moment, failed, questions)
        known = {attempt.draft.source for attempt in (*earlier_of(moment, failed), failed)}
        asked = _Asked(
            voice=voice,
            prompt=brief.prompt,
            seed=moment.seed,
            temperature=voice.settings.temperature,
            program=failed.draft.source,
        )
        return (yield from self._source(asked, known, f"repair of candidate {failed.number}"))

    def _source(self, asked: _Asked, known: set[str], what: str) -> Waiting[Draft | None]:
        def read(reply: Reply) -> tuple[str | None, str]:
            found = extract_source(reply.text, reply.finish, asked.program)
            if found.source in known:
                return None, "the file is one that was judged before: change it"
            return found.source, found.problem

        source, exchanges = yield from self._ask(asked, read, what)
        if source is None:
            return None
        return Draft(source=source, passages=asked.prompt.passages, exchanges=exchanges)

    def _ask(
        self, asked: _Asked, read: Callable[[Reply], tuple[T, str]], what: str
    ) -> Waiting[tuple[T | None, tuple[str, ...]]]:
        """Ask once, and once more where the reply cannot be used.

        Args:
            read: gives what a reply holds (falsy: nothing usable) and what is wrong with it.

        Returns:
            What was read, None where neither reply could be used, and the keys of the requests.
        """
        model, settings = asked.voice.model, asked.voice.settings
        messages = asked.prompt.messages
        exchanges: list[str] = []
        problem = ""
        for turn in range(2):
            request = Request(
                messages=messages,
                max_tokens=settings.reply_tokens,
                temperature=asked.temperature,
                seed=(asked.seed + turn) % 2**31,
                schema=asked.schema,
                model=model.name,
            )
            reply = yield from ask(model, request)
            exchanges.append(request.key())
            value, problem = read(reply)
            if value:
                return value, tuple(exchanges)
            if reply.finish == _WITHHELD:
                problem = "the endpoint's content filter withheld the reply"
                break
            messages = _again(asked.prompt.messages, reply.text, problem, asked.voice.count)
        if self._say is not None:
            replies = "two replies" if len(exchanges) > 1 else "one reply"
            self._say(f"model {model.name}: no usable {what} in {replies}: {problem}")
        return None, tuple(exchanges)


def _idea(sketch: Sketch, quoted: Sequence[Passage], exchanges: tuple[str, ...]) -> Idea:
    """Return the idea of a sketch, with the passages that its labels name."""
    numbers = (int(label[1:]) - 1 for label in sketch.passages)
    cited = [quoted[number] for number in numbers if 0 <= number < len(quoted)]
    records = [PurePosixPath(one.document).stem for one in cited if one.kind == "idea"]
    return Idea(
        title=sketch.title,
        text=sketch.text,
        category=sketch.category,
        record=records[0] if records else None,
        passages=tuple(one.id for one in cited),
        exchanges=exchanges,
    )


def _again(
    messages: tuple[Message, ...], said: str, problem: str, count: Callable[[str], int]
) -> tuple[Message, ...]:
    """Return the messages with what was wrong with an earlier reply added to the last one."""
    excerpt = said.strip()[:_EXCERPT]
    note = _complaint(excerpt, problem)
    while excerpt and count(note) > AGAIN_TOKENS:
        excerpt = excerpt[: len(excerpt) // 2]  # a prompt leaves no more room than that
        note = _complaint(excerpt, problem)
    *before, last = messages
    return (*before, replace(last, content=f"{last.content}{note}"))


def _complaint(excerpt: str, problem: str) -> str:
    quoted = f" It began:\n\n{fence(excerpt, 'text')}\n\n" if excerpt else " "
    return (
        f"\n\n# An earlier reply to this could not be used\n\n{one_line(problem, 300)}.{quoted}"
        "Answer again, from the beginning, in the form that is asked for above."
    )


def _warmer(temperature: float, branch: int) -> float:
    """Raise the temperature from branch to branch, so that branches differ; 1 is warm enough."""
    return round(max(temperature, min(1.0, temperature + 0.1 * branch)), 3)
