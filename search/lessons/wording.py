"""Lessons in words: what a person reads, and what a prompt quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import exp
from typing import TYPE_CHECKING, Any

from kb.records.schema import Claim, Evidence
from search.attempt import Attempt, Idea
from search.lessons.changes import LessonTrial
from search.outcome import Checked, Outcome, Passed

if TYPE_CHECKING:
    from search.graph import Node
    from search.lessons.setting import Setting

EVIDENCE = "Evidence:"
SOURCE = "\n## Source\n"
_BLOCK = re.compile(rf"\n{EVIDENCE}\n(?:[ \t]*\n|- .*(?:\n|$))*")
_LONGEST_SOURCE = 8000  # characters: a longer one is told where to find
_PREFIX = re.compile(r"^(?:Tune further: |Start from what won on [^:]*: )+")
_LONGEST_TEXT = 1200


def idea_title(idea: Idea) -> str:
    """Return the title of an idea without what the search put in front of it."""
    return _PREFIX.sub("", idea.title)


def title(claim: Claim, trial: LessonTrial, setting: Setting) -> str:
    """Return the headline of a lesson."""
    about = idea_title(trial.gain.attempt.idea)
    if trial.change.tuned:
        about = f"{about}, {', '.join(trial.change.lines)}" if claim.change else f"Tuning {about}"
    return f"{about}: {_effect(claim, trial)} on {_family(setting)} ({setting.target})"


def body(
    claim: Claim,
    group: Sequence[LessonTrial],
    trial: LessonTrial,
    setting: Setting,
    evidence: Evidence,
) -> str:
    """Return what a lesson says, without its evidence."""
    passed = sum(one.gain.ratio is not None for one in group)
    lines = [
        f"# {title(claim, trial, setting)}",
        "",
        f"{_sentence(evidence)} {len(group)} tried, {passed} passed.",
        "",
    ]
    if trial.change.lines:
        lines.append(f"- Changed: {'; '.join(trial.change.lines)}.")
    elif any(trial.change.size):
        lines.append("- Changed: +{} and -{} lines of source.".format(*trial.change.size))
    if claim.before:
        lines.append(f"- Bottleneck before: {', '.join(claim.before)}.")
    if claim.after:
        lines.append(f"- Bottleneck after: {', '.join(claim.after)}.")
    lines += _spread(group)
    lines.append(f"- Where: {where(setting)}.")
    lines += ["", _idea(trial.gain.attempt.idea)]
    return "\n".join(lines).rstrip() + "\n"


def where(setting: Setting) -> str:
    """Return the place of a measurement."""
    parts = (
        ", ".join(setting.families) or "unknown operators",
        setting.shapes,
        setting.regime,
        f"precision {setting.precision}",
        setting.target,
        setting.language,
    )
    return "; ".join(part for part in parts if part)


def winner_body(headline: str, path: Sequence[Node], best: Passed, setting: Setting) -> str:
    """Return what the lesson of a winner says: speed-ups, choices, the ideas that led to it.

    A source that recipes made is made again from its choices; a model's is kept.
    """
    against = "; ".join(
        f"{ratio.ratio:.2f}x over {name} ({ratio.low:.2f} to {ratio.high:.2f})"
        for name, ratio in best.speedup.items()
    )
    node = path[-1]
    steps = " -> ".join(f"{idea_title(one.idea)} ({_speed(one)})" for one in path)
    lines = [
        f"# {headline}",
        "",
        f"On {setting.task}: {against}, {best.seconds * 1e3:.3g} ms a call.",
        "",
        *(f"- Choice: {line}." for line in _plan_lines(node.draft.plan)),
        f"- Ideas that led to it: {steps}.",
        f"- Where: {where(setting)}.",
        f"- Source: kb node {setting.run} {node.number}.",
    ]
    source = node.draft.source.rstrip()
    if not node.draft.plan and len(source) <= _LONGEST_SOURCE:
        lines += ["", SOURCE.strip(), "", "```python", source, "```"]
    return "\n".join(lines) + "\n"


def with_evidence(words: str, evidence: Sequence[Evidence], more: int) -> str:
    """Return the words of a lesson with its measurements, the newest last, before any source.

    They stand in the section of the words, so that no passage quotes one without the other.

    Args:
        more: how many older measurements are only counted.
    """
    lines = [EVIDENCE, ""]
    if more:
        lines.append(f"- {more} older measurements are only counted.")
    lines += [f"- {evidence_line(one)}" for one in evidence]
    head, mark, source = words.strip().partition(SOURCE)
    listed = "\n".join(lines)
    return f"{head.rstrip()}\n\n{listed}\n{mark}{source}".rstrip() + "\n"


def without_evidence(text: str) -> str:
    """Return the words of a lesson's file or of a person, without a list of measurements."""
    return _BLOCK.sub("\n", text).strip() + "\n"


def _plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return a recipe author's choices, a line a part."""
    lines = []
    for name, chosen in plan.get("segments", {}).items():
        knobs = ", ".join(f"{knob}={value}" for knob, value in sorted(chosen["knobs"].items()))
        lines.append(f"{name.partition(':')[0]} by the recipe {chosen['recipe']}, {knobs}")
    return lines


def _speed(node: Node) -> str:
    outcome = node.outcome
    if isinstance(outcome, Passed):
        return f"{outcome.speedup['eager'].ratio:.2f}x over eager"
    return outcome.kind.replace("_", " ") if outcome is not None else "not judged"


def evidence_line(one: Evidence) -> str:
    """Return a measurement in one line."""
    found = f"{one.outcome}, {one.told}"
    if one.gain is None:
        found = f"failed: {one.note}" if one.note else "failed"
    base = "the reference" if one.parent is None else f"node {one.parent}"
    place = f"{one.run} node {one.node}" if one.node is not None else (one.run or "no run")
    day = f", {one.at}" if one.at else ""
    return f"{place} against {base}: {found}; {one.task} on {one.target}{day}"


def reason(outcome: Outcome) -> str:
    """Return why a candidate failed, in one line."""
    assert not isinstance(outcome, Passed | Checked)
    trick = f" ({outcome.trick})" if outcome.kind == "refused" else ""
    return " ".join(f"{outcome.kind.replace('_', ' ')}{trick}: {outcome.reason}".split())[:300]


def _effect(claim: Claim, trial: LessonTrial) -> str:
    ratio = trial.gain.ratio
    if ratio is None:
        return f"failed ({trial.gain.outcome.kind.replace('_', ' ')})"
    base = "eager" if claim.basis == "reference" else "what it changed"
    return {
        "helps": f"{ratio.ratio:.2f}x over {base}",
        "hurts": f"slower, {1 / ratio.ratio:.2f} times the time of {base}",
        "even": f"no clear difference to {base}",
    }[claim.effect]


def _sentence(one: Evidence) -> str:
    if one.gain is None or one.after is None:
        return f"On {one.task} it failed: {one.note}."
    base = "eager" if one.parent is None else f"node {one.parent}"
    return (
        f"On {one.task} the best was {one.gain:.2f}x over {base} "
        f"({one.low:.2f} to {one.high:.2f}): {one.before * 1e3:.3g} ms became "
        f"{one.after * 1e3:.3g} ms a call."
    )


def _spread(group: Sequence[LessonTrial]) -> list[str]:
    """Return how much the choices of one idea matter: its best and its worst candidate."""
    passed = [one.gain for one in group if one.gain.ratio is not None]
    passed.sort(key=lambda gain: gain.log)
    if len(passed) < 2:
        return []
    worst, best = passed[0], passed[-1]
    good, bad = _choices(best.attempt), _choices(worst.attempt)
    if not good or good == bad:
        return []
    return [
        f"- Best with {good}; worst with {bad}, {exp(best.log - worst.log):.2f} times the time."
    ]


def _choices(attempt: Attempt) -> str:
    """Return the knobs of the segment that an idea is about."""
    focus = attempt.idea.plan.get("focus")
    chosen = attempt.draft.plan.get("segments", {}).get(focus, {})
    return ", ".join(f"{name}={value}" for name, value in sorted(chosen.get("knobs", {}).items()))


def _idea(idea: Idea) -> str:
    """Return an idea in words; one with a record is told there, once for all lessons of it."""
    if idea.record is not None:
        return f"The idea is the record {idea.record}."
    text = idea.text.strip()
    if len(text) <= _LONGEST_TEXT:
        return text
    return text[:_LONGEST_TEXT].rsplit(". ", 1)[0].rstrip(".") + "."


def _family(setting: Setting) -> str:
    return setting.families[0] if setting.families else setting.task
