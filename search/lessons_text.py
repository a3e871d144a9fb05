"""Lessons in words: what a person reads, and what a prompt quotes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kb.records import Claim, Evidence
from search.authors import Idea
from search.lessons_trials import Trial
from search.outcome import Checked, Passed

if TYPE_CHECKING:
    from search.remember import Setting

EVIDENCE = "## Evidence"
_PREFIX = re.compile(r"^(?:Tune further: |Start from what won on [^:]*: )+")
_LONGEST_TEXT = 1200


def idea_title(idea: Idea) -> str:
    """Return the title of an idea without what the search put in front of it."""
    return _PREFIX.sub("", idea.title)


def title(claim: Claim, trial: Trial, setting: Setting) -> str:
    """Return the headline of a lesson."""
    about = idea_title(trial.attempt.idea)
    if trial.change.tuned:
        about = f"{about}, {', '.join(trial.change.lines)}" if claim.change else f"Tuning {about}"
    return f"{about}: {_effect(claim, trial)} on {_family(setting)} ({setting.target})"


def body(claim: Claim, group: Sequence[Trial], trial: Trial, setting: Setting) -> str:
    """Return what a lesson says, without its evidence."""
    passed = sum(one.gain is not None for one in group)
    lines = [
        f"# {title(claim, trial, setting)}",
        "",
        f"{_sentence(trial, setting)} {len(group)} tried, {passed} passed.",
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
    lines += ["", _idea(trial.attempt.idea)]
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


def evidence_section(evidence: Sequence[Evidence], more: int) -> str:
    """Return the measurements as a list, the newest last.

    Args:
        more: how many older ones are only counted.
    """
    lines = [EVIDENCE, ""]
    if more:
        lines.append(f"- {more} older measurements are only counted.")
    lines += [f"- {evidence_line(one)}" for one in evidence]
    return "\n".join(lines) + "\n"


def evidence_line(one: Evidence) -> str:
    """Return a measurement in one line."""
    if one.gain is None:
        found = f"failed: {one.note}" if one.note else "failed"
    else:
        interval = f" ({one.low:.2f} to {one.high:.2f})" if one.low and one.high else ""
        found = f"{one.outcome}, {one.gain:.2f}x{interval}"
    base = "the reference" if one.parent is None else f"node {one.parent}"
    place = f"{one.run} node {one.node}" if one.node is not None else (one.run or "no run")
    day = f", {one.at}" if one.at else ""
    return f"{place} against {base}: {found}; {one.task} on {one.target}{day}"


def reason(trial: Trial) -> str:
    """Return why a candidate failed, in one line."""
    outcome = trial.outcome
    assert not isinstance(outcome, Passed | Checked)
    trick = f" ({outcome.trick})" if outcome.kind == "refused" else ""
    return " ".join(f"{outcome.kind.replace('_', ' ')}{trick}: {outcome.reason}".split())[:300]


def _effect(claim: Claim, trial: Trial) -> str:
    if trial.gain is None:
        return f"failed ({trial.outcome.kind.replace('_', ' ')})"
    base = "eager" if claim.basis == "reference" else "what it changed"
    ratio = trial.gain.ratio
    return {
        "won": f"{ratio:.2f}x over {base}",
        "lost": f"slower, {1 / ratio:.2f} times the time of {base}",
        "even": f"no clear difference to {base}",
        "failed": "failed",
    }[trial.fate]


def _sentence(trial: Trial, setting: Setting) -> str:
    if trial.gain is None:
        return f"On {setting.task} it failed: {reason(trial)}."
    gain, after = trial.gain, trial.after
    assert after is not None
    base = "eager" if trial.parent is None else f"node {trial.parent.number}"
    return (
        f"On {setting.task} the best was {gain.ratio:.2f}x over {base} "
        f"({gain.low:.2f} to {gain.high:.2f}): {trial.before * 1e3:.3g} ms became "
        f"{after * 1e3:.3g} ms a call."
    )


def _spread(group: Sequence[Trial]) -> list[str]:
    """Return how much the choices of one idea matter: its best and its worst candidate."""
    passed = [(one.gain.ratio, one) for one in group if one.gain is not None]
    passed.sort(key=lambda pair: pair[0])
    if len(passed) < 2:
        return []
    (low, worst), (high, best) = passed[0], passed[-1]
    good, bad = _choices(best), _choices(worst)
    if not good or good == bad:
        return []
    return [f"- Best with {good}; worst with {bad}, {high / low:.2f} times the time."]


def _choices(trial: Trial) -> str:
    """Return the knobs of the segment that an idea is about."""
    focus = trial.attempt.idea.plan.get("focus")
    chosen = trial.attempt.draft.plan.get("segments", {}).get(focus, {})
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
