"""What a prompt is made of: plain values, turned into named sections with their priorities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import exp
from typing import Any, Literal

from kb.records.types import Effect, Hit, MenuEntry, Passage
from synth.bottleneck import Bottleneck
from synth.quoting import instructions, one_line
from synth.replies.edits import EXAMPLE

Purpose = Literal["ideas", "draft", "repair"]
Place = Literal["trajectory", "siblings", "elsewhere"]
SUSPICIOUS = "suspicious"  # the flag of a passage that reading found to speak to a model

# In the order in which they get room; the numbers are the tokens that a section gets before the
# ones after it get more than theirs. Together they fit a prompt of 4,000 tokens with its task.
_MINIMUM = {
    "current": 700,
    "diagnosis": 150,
    "constraints": 450,
    "target": 150,
    "history": 300,
    "passages": 500,
    "menu": 200,
}
# More trials than these are not looked at, so that a prompt costs the same however long a run is.
_TRIALS = 120
FORM = "its kernels as source strings"
ORDER = (
    "task",
    "target",
    "constraints",
    "diagnosis",
    "history",
    "passages",
    "menu",
    "current",
    "answer",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A part of a section, kept or left out as one.

    Attributes:
        text: what it says.
        rank: unique within its section; 0 is kept longest.
        name: what the record of cuts calls it.
        fields: what else the section's template shows.
        passage: id of the passage that it quotes.
        divisible: lines may be taken out of its middle where the whole does not fit.
    """

    text: str
    rank: int
    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    passage: str | None = None
    divisible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSection:
    """A named part of a prompt.

    Attributes:
        template: name of its template, without the ending.
        minimum: tokens that it gets before sections of lower priority get more than theirs; None
            for a section that is never cut.
        items: in the order in which they are shown.
        values: what else its template shows.
        omitted: items that were left out before any budget was looked at.
    """

    name: str
    template: str
    minimum: int | None
    items: tuple[Item, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A document that is quoted whole: a constraint, or notes on a language."""

    name: str
    title: str
    document: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedIdea:
    """An idea that was tried, with what became of it.

    Attributes:
        results: one line an implementation or group of them, with figures.
        gain: best speed-up over eager, 0 where none passed.
        place: on the way to the program at hand, upon the same program, or elsewhere in the search.
        fate: ``won``, ``lost`` or ``failed``, "" where that is not told.
    """

    title: str
    text: str
    results: tuple[str, ...]
    gain: float = 0.0
    place: Place = "elsewhere"
    fate: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The source to improve or to mend, with what became of it.

    Attributes:
        verdict: one line each.
        detail: the compiler's message, the elements that differ, the traceback.
    """

    source: str
    verdict: tuple[str, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """All that a prompt may say.

    Attributes:
        purpose: decides the answer format.
        language: what kernels are written in, as the prompt names it.
        facts: what the task costs and asks, one sentence each.
        target: figures of the device, one each, the most useful first.
        constraints: the most important first.
        pack: the target's document, for what figures do not tell.
        points: of the diagnosis, the first to work on first; without them its lines are told.
        memory: how much of the search is told, "" where that was not chosen.
        history: the oldest first.
        passages: the best first.
        menu: what else is known, the nearest first.
        answer: what the answer format shows: `count`, `categories` and `example` for ideas;
            `title`, `category`, `text`, `branch` and `branches` for a draft; `title` and `text`
            for a repair; `refused` (ideas that are not to be given again) and `requests` (what may
            be asked for before) for ideas.
        form: what the kernels are in a file, as the language's pack says.
    """

    purpose: Purpose
    task: str
    reference: str
    language: str
    library: bool
    facts: tuple[str, ...] = ()
    device: str = ""
    target: tuple[str, ...] = ()
    pack: Note | None = None
    constraints: tuple[Note, ...] = ()
    diagnosis: tuple[str, ...] = ()
    points: tuple[Bottleneck, ...] = ()
    memory: str = ""
    history: tuple[TriedIdea, ...] = ()
    passages: tuple[Hit, ...] = ()
    menu: tuple[MenuEntry, ...] = ()
    current: Current | None = None
    answer: Mapping[str, Any] = field(default_factory=dict)
    form: str = FORM

    def sections(self) -> tuple[PromptSection, ...]:
        """Return the sections that have something to say, in the order of the prompt."""
        found = {
            "task": self._task(),
            "target": self._target(),
            "constraints": self._section("constraints", _constraints(self.constraints)),
            "diagnosis": self._section("diagnosis", _points(self.points, self.diagnosis)),
            "history": self._history(),
            "passages": self._section("passages", tuple(map(_passage, *_ranked(self.passages)))),
            "menu": self._section("menu", _entries(self.menu)),
            "current": self._section("current", _current(self.current)),
            "answer": self._answer(),
        }
        return tuple(
            section for name in ORDER if (section := found[name]).minimum is None or section.items
        )

    def _section(self, name: str, items: tuple[Item, ...], **values: Any) -> PromptSection:
        return PromptSection(
            name=name,
            template=name,
            minimum=_MINIMUM[name],
            items=items,
            values={"purpose": self.purpose, **values},
        )

    def _target(self) -> PromptSection:
        items = _lines(self.target, "figure")
        if self.pack is not None:
            items = (*items, _note(self.pack, len(items)))
        return self._section("target", items, device=self.device)

    def _history(self) -> PromptSection:
        items = _trials(self.history)
        shown = tuple(item for item in items if item.rank < _TRIALS)
        more = len(items) - len(shown)
        section = self._section("history", shown, more=more, memory=self.memory)
        return replace(section, omitted=more)

    def _task(self) -> PromptSection:
        values = {
            "name": self.task,
            "reference": self.reference,
            "language": self.language,
            "library": self.library,
            "facts": self.facts,
        }
        return PromptSection(name="task", template="task", minimum=None, values=values)

    def _answer(self) -> PromptSection:
        values = {
            "has_current": self.current is not None,
            "has_passages": bool(self.passages),
            "form": self.form,
            "refused": (),
            "requests": None,
            "knobs": False,
            "edit_example": EXAMPLE,
            "branch": 1,
            "branches": 1,
            **self.answer,
        }
        return PromptSection(
            name="answer", template=f"answer_{self.purpose}", minimum=None, values=values
        )


def priorities() -> tuple[str, ...]:
    """Return the names of the sections that may be cut, the last to be cut first."""
    return tuple(_MINIMUM)


def _ranked(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], range]:
    return values, range(len(values))


def _lines(lines: tuple[str, ...], what: str) -> tuple[Item, ...]:
    return tuple(
        Item(text=one_line(line, 400), rank=rank, name=f"{what} {rank + 1}")
        for rank, line in enumerate(lines)
    )


def _entries(menu: tuple[MenuEntry, ...]) -> tuple[Item, ...]:
    return tuple(
        Item(
            text=one_line(one.title, 120),
            rank=rank,
            name=one_line(one.name, 80),
            fields={"gained": one_line(one.gained, 80)},
        )
        for rank, one in enumerate(menu)
    )


def _points(points: tuple[Bottleneck, ...], lines: tuple[str, ...]) -> tuple[Item, ...]:
    """Return what to work on, plain lines, and what to leave for later, which is cut before these."""
    order = sorted(points, key=lambda point: point.later)
    told = tuple(
        Item(
            text=one_line(point.text, 400),
            rank=0,
            name=point.symptom,
            fields={
                "symptom": one_line(point.symptom),
                "evidence": one_line(point.evidence),
                "confidence": point.confidence,
                "gain": point.gain,
                "later": point.later,
            },
        )
        for point in order
    )
    now = sum(not point.later for point in points)
    found = (*told[:now], *_lines(lines, "line"), *told[now:])
    return tuple(replace(one, rank=rank) for rank, one in enumerate(found))


def _note(note: Note, rank: int) -> Item:
    return Item(
        text=note.text,
        rank=rank,
        name=note.document,
        fields={
            "title": one_line(note.title),
            "document": one_line(note.document),
            "flagged": instructions(note.text),
        },
        divisible=True,
    )


def _constraints(notes: tuple[Note, ...]) -> tuple[Item, ...]:
    """Return the notes by their names, whatever is most important: endpoints cache what begins alike."""
    return tuple(sorted(map(_note, *_ranked(notes)), key=lambda item: item.name))


def _trials(history: tuple[TriedIdea, ...]) -> tuple[Item, ...]:
    """Rank what won by its gain and what failed by its age, turn by turn.

    A prompt that is short of room then still shows both: what to build upon, and what not to
    repeat. The way to the program at hand comes before what was tried upon it, and that before all
    else.
    """
    order: list[int] = []
    for where in ("trajectory", "siblings", "elsewhere"):
        near = [number for number, trial in enumerate(history) if trial.place == where]
        won = sorted((n for n in near if history[n].gain > 1), key=lambda n: -history[n].gain)
        winners = set(won)
        rest = [number for number in reversed(near) if number not in winners]
        for place in range(max(len(won), len(rest))):
            order += [*won[place : place + 1], *rest[place : place + 1]]
    rank = {number: place for place, number in enumerate(order)}
    return tuple(
        Item(
            text=one_line(trial.text, 300 if trial.place == "elsewhere" else 900),
            rank=rank[number],
            name=one_line(trial.title, 90),
            fields={
                "results": tuple(one_line(line, 240) for line in trial.results),
                "place": trial.place,
                "fate": trial.fate,
            },
        )
        for number, trial in enumerate(history)
    )


def _passage(hit: Hit, rank: int) -> Item:
    passage = hit.passage
    return Item(
        text=passage.text,
        rank=rank,
        name=f"{passage.document}, {passage.section}",
        fields={
            "document": one_line(passage.document),
            "section": one_line(passage.section),
            "kind": passage.kind,
            "widened": hit.widened,
            "measured": measured(hit.why.effect) if hit.why.effect else "",
            "flagged": flagged(passage),
        },
        passage=passage.id,
        # A passage is what retrieval cut to size: half of one may say the opposite of the whole.
        divisible=False,
    )


def flagged(passage: Passage) -> tuple[str, ...]:
    """Return why a passage is quoted with a warning: what was found as it was read, and is seen now."""
    found = instructions(passage.text)
    if SUSPICIOUS in passage.flags and not found:
        return ("found when the document was read",)
    return found


def measured(effect: Effect) -> str:
    """Return what the use of a passage gained, as a prompt says it; "" where it was never used."""
    if not effect.used:
        return ""
    gain, low, high = (exp(one) for one in (effect.gain, effect.low, effect.high))
    warning = "; take it as a warning" if high < 1 or not effect.won else ""
    return (
        f"candidates that used it: {effect.fates}; expect {gain:.2f} times the speed here "
        f"({low:.2f} to {high:.2f}){warning}"
    )


def _current(current: Current | None) -> tuple[Item, ...]:
    if current is None:
        return ()
    verdict = tuple(one_line(line, 300) for line in current.verdict)
    source = Item(
        text=current.source,
        rank=1,
        name="source",
        fields={"part": "source", "verdict": verdict},
        divisible=True,
    )
    if not current.detail:
        return (source,)
    # The detail comes first where room is short: it names the lines that matter.
    detail = Item(
        text=current.detail, rank=0, name="detail", fields={"part": "detail"}, divisible=True
    )
    return source, detail
