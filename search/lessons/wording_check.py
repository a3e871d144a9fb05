"""Holds a text about a lesson against the lesson's evidence: every figure must have been measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kb.records.schema import Evidence
from kb.retrieval.lesson_confidence import effect_of
from search.lessons.distill import Lesson
from synth.quoting import instructions

_LEAST, _MOST = 40, 600  # characters
_NUMBER = re.compile(
    r"(?<![\w.])(?<![A-Za-z]-)(?P<value>\d+(?:\.\d+)?)"
    r"(?:\s?(?P<unit>%|percent\b|times\b|fold\b|x\b|\u00d7|ms\b|µs\b|us\b|ns\b|s\b|seconds?\b|milliseconds?\b))?"
    r"(?!\w)"
)
_TOKEN = re.compile(
    r"(?<![\w.])(?<![A-Za-z]-)\d[\w.,]*\w"
)  # 2e9, 1,000: no figure that is read above
_SHAPE = re.compile(r"\b\d+(?:x\d+)+\b")
_SECONDS = {"s": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "millisecond": 1e-3}
_SECONDS |= {"milliseconds": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}
# Figures that are written as words.
_WORDS = {
    r"twice|doubl(?:e|ed|es|ing)|two times": 2.0,
    r"halv(?:e|ed|es|ing)|half the time": 2.0,
    r"tripl(?:e|ed|es|ing)|thrice|three times": 3.0,
    r"four times|quadrupl\w*": 4.0,
    r"five times": 5.0,
    r"ten times|tenfold|order of magnitude": 10.0,
    r"hundred(?:fold| times)": 100.0,
}
_LOOSE = 0.15  # what "twice" may be off by
_GOOD = re.compile(
    r"\b(?:fast|faster|gain\w*|won|wins?|sped|speed\w*|help\w*|improv\w*|sav\w+|beat\w*)", re.I
)
_BAD = re.compile(
    r"\b(?:slow\w*|los[et]\w*|loss|fail\w*|wrong|worse|crash\w*|refus\w*|not|no|did ?n[o']t|hurt\w*|cost\w*)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class _Figure:
    """A number as it was written, with its unit."""

    text: str
    unit: str

    def means(self, value: float, scale: float = 1.0) -> bool:
        """Say whether `value` rounds to what was written, to the digits that were written."""
        decimals = len(self.text.partition(".")[2])
        return abs(value / scale - float(self.text)) <= 0.5000001 * 10.0**-decimals


def fault(lesson: Lesson, text: str) -> str | None:
    """Return why `text` may not stand for `lesson`, None where it holds against the evidence."""
    if not _LEAST <= len(text) <= _MOST:
        return f"expected {_LEAST} to {_MOST} characters, found {len(text)}"
    told = instructions(text)
    if told:
        return f"it addresses its reader: {told[0]}"
    good = effect_of(lesson.record) in ("wins", "helps")
    if good and not _GOOD.search(text):
        return "the evidence is a gain, the text tells of none"
    if effect_of(lesson.record) in ("hurts", "fails") and not _BAD.search(text):
        return "the evidence is a loss or a failure, the text tells of none"
    return _unmeasured(lesson, text)


def _unmeasured(lesson: Lesson, text: str) -> str | None:
    """Return the first figure that the evidence does not hold."""
    known = f"{lesson.record.title}\n{lesson.body}"
    for shape in _SHAPE.findall(text):
        if shape not in known:
            return f"{shape} is no shape of the task"
    plain = _SHAPE.sub(" ", text)
    evidence = lesson.record.evidence
    ends: list[_Figure] = []
    told = False
    for figure in _figures(plain):
        if any(_measured(figure, one) for one in evidence):
            told = True
        elif any(_bounds(figure, one) for one in evidence):
            ends.append(figure)
        elif not _stated(figure, known):
            return f"{figure.text}{figure.unit} is in no measurement"
    if ends and not told:
        return f"{ends[0].text}{ends[0].unit} is one end of an interval: give the gain with it"
    for token in _TOKEN.findall(plain):
        if not _NUMBER.fullmatch(token) and token not in known:
            return f"{token} is in no measurement"
    for pattern, value in _WORDS.items():
        found = re.search(rf"\b(?:{pattern})\b", plain, re.IGNORECASE)
        ratios = [ratio for one in evidence for ratio in _ratios(one)]
        if found and not any(abs(ratio / value - 1) <= _LOOSE for ratio in ratios):
            return f"{found.group()!r} is in no measurement"
    return None


def _figures(text: str) -> Iterator[_Figure]:
    for match in _NUMBER.finditer(text):
        yield _Figure(match["value"], (match["unit"] or "").strip().lower())


def _measured(figure: _Figure, one: Evidence) -> bool:
    """Say whether a figure is the gain, or the seconds before or after."""
    if figure.unit in _SECONDS:
        values = [one.before, *([one.after] if one.after else [])]
        return any(figure.means(value, _SECONDS[figure.unit]) for value in values)
    return _is_ratio(figure, _ratios(one))


def _bounds(figure: _Figure, one: Evidence) -> bool:
    """Say whether a figure is an end of the gain's interval."""
    ends = (end for end in (one.low, one.high) if end)
    return _is_ratio(figure, (ratio for end in ends for ratio in (end, 1 / end)))


def _is_ratio(figure: _Figure, ratios: Iterable[float]) -> bool:
    if figure.unit in _SECONDS:
        return False
    if figure.unit in ("%", "percent"):
        # 1.25x is a gain of 25 %, and a fifth of the time saved.
        return any(
            figure.means(abs(part) * 100) for ratio in ratios for part in (ratio - 1, 1 - 1 / ratio)
        )
    return any(figure.means(ratio) for ratio in ratios)


def _ratios(one: Evidence) -> tuple[float, ...]:
    return (one.gain, 1 / one.gain) if one.gain else ()


def _stated(figure: _Figure, known: str) -> bool:
    """Say whether the template or the idea says the same number with the same unit."""
    told = {(one.text, one.unit) for one in _figures(_SHAPE.sub(" ", known))}
    return (figure.text, figure.unit) in told
