"""Deep search by the author: what it asks to read before it gives ideas, answered within a budget.

A fixed search answers the question that the state of a run poses. Who has to have the idea knows
better what is missing, so a reply may hold requests in place of ideas, as the agents of KernelEvolve
navigate from an index to its documents (arXiv 2512.23236, section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kb.errors import ConfigError
from kb.records.types import Hit, Passage
from kb.retrieval.lookup import LookupResult, first_sentence
from kb.retrieval.multi_query import Inquiry
from kb.retrieval.retriever import where_of
from search.attempt import Moment
from search.authors.model_pool import PoolMember
from search.costs.graph import Work
from search.prompting.prompts import PromptKnowledge, PromptWriter, user_templates
from search.prompting.readings import Readings
from search.prompting.rendered import RenderedPrompt
from search.settings import RequestSettings
from search.task import Task
from synth.context import flagged
from synth.models import Message
from synth.prompt import MESSAGE_TOKENS
from synth.quoting import fence, instructions, one_line, shorten
from synth.replies.requests import EXAMPLE, MOST, Lookup, said_again
from synth.template_loader import Templates

# Tokens of a prompt below which it has no room for answers beside itself.
SMALLEST = 6_000
_KEPT = 4  # a prompt leaves this part of its room to answers, however much it has to say
_LATER = 3  # a step leaves this part of what is left to those after it: one in so many
_LEAST = 500  # tokens of answers below which nothing more is asked for
_FOUND = 8  # documents that a search names
_BEYOND = 24  # passages that it looks at for them
_A_LITTLE = 150  # tokens that a page or a list has at least, beside records
_ABOVE = "given above"
_FORMS = "expected `read NAME`, `module NAME`, `search QUESTION` or `history of NAME`"


@dataclass(frozen=True, slots=True, kw_only=True)
class NavigationReader:
    """A reader whose prompt leaves room for answers."""

    budget: int
    encoding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A piece of an answer as its template shows it.

    Attributes:
        label: by which an idea may name it, "" where there is nothing to name.
        flagged: lines that address their reader.
        whole: it is cut in its middle where it is too long; else its last lines go.
        uncut: it is a program, of which a part is of little use: beside other answers all of it is given, or none.
    """

    text: str
    label: str = ""
    kind: str = ""
    document: str = ""
    section: str = ""
    flagged: tuple[str, ...] = ()
    whole: bool = False
    uncut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One request with what was found; `note` says what is not quoted."""

    words: str
    note: str = ""
    quotes: tuple[Quote, ...] = ()


class Navigator:
    """Opens conversations in which an author may ask for more.

    Args:
        work: what the task costs: the prompt names the pages of its operator families.
        templates: None for the user's and the shipped ones.
    """

    def __init__(
        self,
        task: Task,
        work: Work | None,
        knowledge: PromptKnowledge,
        templates: Templates | None = None,
    ) -> None:
        self._settings = task.settings.search.requests
        self._knowledge = knowledge
        self._families = work.families if work is not None else ()
        self._templates = templates or user_templates(task)

    def begin(
        self,
        briefing: PromptWriter,
        voice: PoolMember,
        moment: Moment,
        count: int,
        asked: Sequence[str] = (),
    ) -> tuple[RenderedPrompt, Conversation]:
        """Return the prompt for ideas, and the conversation that may follow from it.

        Args:
            asked: questions that a model asks the knowledge base in place of kb's own.

        Raises:
            ConfigError: the task does not fit the model's context.
        """
        readings, settings = self._knowledge.readings, self._settings
        may_ask = readings is not None and settings.steps and briefing.informs(moment)
        if may_ask and voice.budget >= SMALLEST:
            kept = min(settings.tokens, voice.budget // _KEPT)
            reader = NavigationReader(budget=voice.budget - kept, encoding=voice.encoding)
            try:
                brief = briefing.ideas(reader, moment, count, asked, requests=self._offer())
            except ConfigError:
                pass  # no room for both; where the prompt alone does not fit, that is said below
            else:
                return brief, Conversation(self, brief, voice, settings)
        brief = briefing.ideas(voice, moment, count, asked)
        return brief, Conversation(self, brief, voice, RequestSettings(steps=0))

    def look_up(self, request: Lookup, inquiry: Inquiry) -> LookupResult | list[Hit]:
        """Return what a request asks for, in the scope of a run.

        Args:
            inquiry: by which the prompt's own passages were found.
        """
        readings = self._readings
        query = inquiry.query(request.about, _BEYOND)
        if request.kind == "read":
            return readings.read(request.about)
        if request.kind == "module":
            return readings.module(request.about, query.scope, query.symptoms)
        if request.kind == "history":
            return readings.history(request.about, where_of(query))
        return self._knowledge.retriever.search(replace(query, symptoms=()))

    def render(self, answers: Sequence[Answered], steps: int) -> str:
        """Return answers as a message; `steps` is how often more may be asked."""
        return self._templates.render("answers", {"answers": answers, "steps": steps})

    @property
    def _readings(self) -> Readings:
        assert self._knowledge.readings is not None, "nobody offered to read"
        return self._knowledge.readings

    def _offer(self) -> dict[str, object]:
        pages = [f"operator-{one}" for one in self._families[:2]]
        return {
            "steps": self._settings.steps,
            "most": MOST,
            "tokens": f"{self._settings.tokens:,}",
            "modules": (*pages, "ideas-memory-access", "symptoms", "kernels"),
            "example": EXAMPLE,
        }


class Conversation:
    """The requests of one moment and what is left for them.

    Args:
        brief: the prompt that it begins with.
    """

    def __init__(
        self,
        navigator: Navigator,
        brief: RenderedPrompt,
        voice: PoolMember,
        settings: RequestSettings,
    ) -> None:
        self._navigator = navigator
        self._brief = brief
        self._voice = voice
        self._steps = settings.steps
        self._left = min(settings.tokens, voice.budget - brief.prompt.tokens)
        self._seen: set[str] = set()  # what was given whole
        self._now: set[str] = set()  # what this step was asked for
        self._names: dict[str, str] = {}  # of what requests stand for
        self.messages = brief.prompt.messages
        self.quoted: list[Passage] = [hit.passage for hit in brief.quoted()]
        self.step = 0

    @property
    def open(self) -> bool:
        """Say whether more may be asked for."""
        return self.step < self._steps and self._left >= _LEAST

    def answer(self, requests: tuple[Lookup, ...]) -> None:
        """Add requests and their answers to the messages; the first quote is labelled after the last."""
        self.step += 1
        # Long ones are quoted here, in their headings and in what was not found: they must leave room.
        while requests and 3 * self._voice.count(said_again(requests)) > self._left:
            requests = requests[:-1]
        said = Message(role="assistant", content=said_again(requests))
        around = self._voice.count(said.content) + 2 * MESSAGE_TOKENS
        steps = self._steps - self.step
        later = self._left // _LATER if steps and self._left // _LATER >= _LEAST else 0
        room = self._left - around - later
        self._now = set()
        answers = [self._answer(one) for one in requests]
        if len(answers) == 1 and any(quote.uncut for quote in answers[0].quotes):
            # It has all the room that there is, and only then is it cut.
            parts = tuple(replace(quote, uncut=False) for quote in answers[0].quotes)
            answers = [replace(answers[0], quotes=parts)]
            if _cut(answers[0], room, self._voice.count)[0].quotes != parts:
                room, later = room + later, 0
        fitted = self._fitted(answers, room, steps if later else 0)
        text = self._navigator.render(fitted, steps if later else 0)
        self._given(answers, fitted)
        self._left -= around + self._voice.count(text)
        if not later:
            self._left = 0  # which the answers have said
        self.messages = (*self.messages, said, Message(role="user", content=text))

    def _answer(self, request: Lookup) -> Answered:
        if request.kind is None:
            return Answered(words=request.words, note=_FORMS)
        if request.words.lower() in self._seen | self._now:
            return Answered(words=request.words, note=_ABOVE)
        self._now.add(request.words.lower())
        found = self._navigator.look_up(request, self._brief.inquiry)
        if isinstance(found, list):
            return self._listed(request, found)
        if not found.found:
            near = ", ".join(found.nearest) or "none"
            return Answered(words=request.words, note=f"not known; the nearest names are {near}")
        return self._told(request, found)

    def _told(self, request: Lookup, found: LookupResult) -> Answered:
        """Return what a name stands for, unless another name for it was given before."""
        same = f"{found.kind} {found.name}"
        if same in self._seen | self._now and same != request.words.lower():
            return Answered(words=request.words, note=_ABOVE)
        self._now.add(same)
        self._names[request.words] = same
        if not found.passages:
            program = found.kind == "read"
            flagged_lines = instructions(found.text)
            quote = Quote(text=found.text, flagged=flagged_lines, whole=program, uncut=program)
            return Answered(words=request.words, note=found.title, quotes=(quote,))
        note = f"its first passages, {found.more} more follow" if found.more else ""
        quotes = tuple(self._quote(one) for one in found.passages)
        return Answered(words=request.words, note=note, quotes=quotes)

    def _listed(self, request: Lookup, hits: Sequence[Hit]) -> Answered:
        """Return one line a document."""
        first: dict[str, Hit] = {}
        for hit in hits:
            first.setdefault(hit.passage.document, hit)
        chosen = list(first.values())[:_FOUND]
        if not chosen:
            return Answered(words=request.words, note="nothing was found")
        text = "\n".join(map(self._line, chosen))
        warnings = (warning for one in chosen for warning in flagged(one.passage))
        quote = Quote(text=text, flagged=tuple(dict.fromkeys(warnings)))
        return Answered(words=request.words, quotes=(quote,))

    def _line(self, hit: Hit) -> str:
        passage = hit.passage
        title = passage.section.partition(" > ")[0]
        elsewhere = " (for another target or language)" if hit.widened else ""
        told = one_line(f"{title}. {first_sentence(passage.text)}", 300)
        return f"[{self._label(passage)}] {passage.kind}, {passage.document}{elsewhere}: {told}"

    def _quote(self, passage: Passage) -> Quote:
        return Quote(
            text=passage.text,
            label=self._label(passage),
            kind=passage.kind,
            document=passage.document,
            section=passage.section,
            flagged=flagged(passage),
            whole=True,
        )

    def _label(self, passage: Passage) -> str:
        """Return the label of a passage; one that was quoted before keeps its own."""
        for place, known in enumerate(self.quoted, start=1):
            if known.id == passage.id:
                return f"P{place}"
        self.quoted.append(passage)
        return f"P{len(self.quoted)}"

    def _given(self, answers: Sequence[Answered], fitted: Sequence[Answered]) -> None:
        """Note what was given whole: what was cut may be asked for again."""
        for whole, told in zip(answers, fitted, strict=True):
            if told.quotes == whole.quotes and whole.note != _ABOVE:
                self._seen |= {told.words.lower(), self._names.get(told.words, told.words)}

    def _fitted(self, answers: Sequence[Answered], room: int, steps: int) -> list[Answered]:
        """Return answers cut to at most `room` tokens."""
        count = self._voice.count
        bare = [replace(one, quotes=()) for one in answers]
        space = room - count(self._navigator.render(bare, steps))
        while True:
            shares = _shares(answers, space, count)
            cut = [_cut(one, share, count)[0] for one, share in zip(answers, shares, strict=True)]
            over = count(self._navigator.render(cut, steps)) - room
            if over <= 0 or space <= 0:
                return cut
            space -= over + 8  # headings of quotes are estimates


def _shares(answers: Sequence[Answered], space: int, count: Callable[[str], int]) -> list[int]:
    """Return the tokens of each answer. Records are served before pages and lists, which keep a little, and short ones whole."""
    needs = [_cut(one, space, count)[1] for one in answers]
    record = [any(quote.whole for quote in one.quotes) for one in answers]
    others = [need for need, one in zip(needs, record, strict=True) if not one]
    kept = min(sum(min(_A_LITTLE, need) for need in others), space // 2)
    shares, left = [0] * len(answers), space - kept
    for served in (True, False):
        turn = sorted((n for n, one in enumerate(record) if one is served), key=needs.__getitem__)
        left += 0 if served else kept
        for place, number in enumerate(turn):
            share = max(0, min(needs[number], left // (len(turn) - place)))
            if any(quote.uncut for quote in answers[number].quotes):
                rest = _A_LITTLE * (len(turn) - place - 1)
                share = needs[number] if needs[number] + rest <= left else 0
            shares[number] = share
            left -= shares[number]
    return shares


def _cut(answered: Answered, most: int, count: Callable[[str], int]) -> tuple[Answered, int]:
    """Return an answer of at most `most` tokens, with how many it has."""
    kept: list[Quote] = []
    left = most
    for quote in answered.quotes:
        head = count(f"[{quote.label}] {quote.kind}, {quote.document}, {quote.section}") + 24
        head += sum(map(count, quote.flagged))
        ending = 0.25 if quote.whole else 0.0
        room = max(0, left - head)
        text = shorten(quote.text, room, lambda text: count(fence(text)), ending=ending)
        if quote.uncut and text != quote.text:
            size = round(count(fence(quote.text)), -2)
            note = f"{answered.note}: {size:,} tokens, for which there is no room here: ask for it alone"
            return replace(answered, note=note, quotes=()), count(note)
        if not text:
            break
        kept.append(replace(quote, text=text))
        left -= head + count(fence(text))
    if len(kept) == len(answered.quotes):
        return replace(answered, quotes=tuple(kept)), most - left
    note = f"{len(answered.quotes) - len(kept)} of {len(answered.quotes)} parts left out: no room"
    note = f"{answered.note}; {note}" if answered.note else note
    return replace(answered, note=note, quotes=tuple(kept)), most - left + count(note)
