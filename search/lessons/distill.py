"""What a finished run teaches: its winner, what gained, what lost, what failed, what came close."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from kb.records.schema import Claim, Effect, Evidence, LessonRecord, TargetRecord
from search.attempt import Attempt, Idea
from search.graph import Graph
from search.lessons.changes import Change
from search.lessons.setting import Setting
from search.lessons.trials import Trial, trials
from search.lessons.wording import body, idea_title, reason, title, winner_body
from search.outcome import Outcome, Passed
from search.runs.report import best_of

MOST = 12  # lessons of one run besides its winner: the clearest
WITHIN_REACH = 0.8  # of the winner's speed: what came that close has not lost against it
_SHORT, _LONG = 64, 4096  # elements of a row: below few vectors, above more than an L1 holds
_EFFECTS: dict[str, Effect] = {"won": "helps", "lost": "hurts", "failed": "fails", "even": "even"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A record to write.

    Attributes:
        name: the file's stem; a later run with the same lesson adds its evidence to it.
    """

    name: str
    record: LessonRecord
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a run found of a lesson that it started from."""

    lesson: str
    evidence: Evidence


def lessons(graph: Graph, confirmed: Mapping[int, Outcome], setting: Setting) -> list[Lesson]:
    """Distil a finished run: the winner, and what every idea did to what it changed.

    A dry run teaches nothing: what was not timed has neither won nor lost.
    """
    if any(attempt.outcome.kind == "checked" for attempt in graph.attempts()):
        return []
    found: list[Lesson] = []
    best = best_of(graph, confirmed)
    if best is not None and isinstance(best[1], Passed) and best[1].speedup["eager"].low > 1:
        found.append(_winner(graph, best[0], best[1], setting))
    groups: dict[tuple[object, ...], list[Trial]] = {}
    for trial in trials(graph, confirmed, setting.eager_seconds):
        groups.setdefault(_topic(trial), []).append(trial)
    told = ((_telling(group), group) for group in groups.values())
    steps = [(trial, group) for trial, group in told if not trial.vague]
    steps.sort(key=lambda pair: (-_clearness(pair[0]), pair[0].attempt.number))
    return [*found, *(_step(trial, group, setting) for trial, group in steps[:MOST])]


def verdicts(
    graph: Graph,
    confirmed: Mapping[int, Outcome],
    setting: Setting,
    cited: Callable[[Idea], Sequence[str]],
) -> list[Verdict]:
    """Return what became of the lessons that ideas of this run started from.

    A lesson is confirmed where the best candidate came from it, or one within reach of the best;
    contradicted where all that came of it failed, was slower than eager, or clearly behind.

    Args:
        cited: names of the lessons that an idea starts from.
    """
    best = best_of(graph, confirmed)
    winner = best[1] if best is not None and isinstance(best[1], Passed) else None
    path = {node.number for node in graph.path(best[0].number)} if best is not None else set()
    groups: dict[str, list[Trial]] = {}
    for trial in trials(graph, confirmed, setting.eager_seconds):
        for name in cited(trial.attempt.idea):
            groups.setdefault(name, []).append(trial)
    found = []
    for name, group in groups.items():
        trial = _telling(group)
        leads = any(one.attempt.number in path for one in group)
        found.append(Verdict(lesson=name, evidence=_against(trial, winner, setting, leads=leads)))
    return found


def regime_of(moved: float, target: TargetRecord, shapes: Sequence[tuple[int, ...]]) -> str:
    """Return the regime of a task's shapes, coarse enough that neighbours share it.

    Args:
        moved: bytes of inputs, parameters and outputs.
        shapes: of the inputs.
    """
    levels = sorted(target.caches.items(), key=lambda entry: entry[1].bytes)
    level = next((name for name, cache in levels if moved <= cache.bytes), None)
    parts = [f"fits {level}" if level else "larger than the caches"]
    widest = max(shapes, key=_elements, default=())
    if widest:
        row = widest[-1]
        length = "short" if row < _SHORT else "long" if row > _LONG else "middling"
        parts.append(f"{length} rows")
    return ", ".join(parts)


def slug(text: str) -> str:
    """Return `text` as a part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "task"


def _elements(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


def _topic(trial: Trial) -> tuple[object, ...]:
    """Return what trials of one lesson have in common."""
    idea, change = trial.attempt.idea, trial.change
    swaps = () if change.tuned else tuple(line for line in change.lines if "recipe " in line)
    basis = trial.parent is None
    return (idea.record or idea_title(idea), basis, change.tuned, change.pattern, swaps)


def _telling(group: Sequence[Trial]) -> Trial:
    """Return the trial that speaks for a group: the fastest, or the commonest failure's last."""
    passed = [trial for trial in group if trial.gain is not None]
    if passed:
        return max(passed, key=lambda trial: trial.gain.ratio if trial.gain else 0.0)
    kinds = Counter(trial.outcome.kind for trial in group)
    common = kinds.most_common(1)[0][0]
    return [trial for trial in group if trial.outcome.kind == common][-1]


def _clearness(trial: Trial) -> float:
    """Return how much there is to say: a failure counts as a factor of two."""
    return log(2.0) if trial.gain is None else abs(log(trial.gain.ratio))


def _step(trial: Trial, group: Sequence[Trial], setting: Setting) -> Lesson:
    idea = trial.attempt.idea
    effect = _EFFECTS[trial.fate]
    kept = trial.change.lines
    if trial.change.tuned and effect != "helps":
        kept = ()  # every knob that was turned, none of which helped
    elif not trial.change.tuned:
        kept = tuple(line for line in kept if "recipe " in line or "library" in line)
    claim = Claim.model_validate(
        {
            "effect": effect,
            "subject": idea.record or idea_title(idea),
            "change": kept,
            "basis": "reference" if trial.parent is None else "parent",
            "target": setting.target,
            "regime": setting.regime,
            "pattern": trial.change.pattern,
            "before": _symptoms(trial.parent, setting),
            "after": _symptoms(trial.attempt, setting) if trial.gain is not None else (),
        }
    )
    claim = claim.model_copy(update={"topic": _name(claim, setting, tuned=trial.change.tuned)})
    name = f"{slug(claim.subject)[:48]}-{slug(setting.target)}-{claim.topic[:8]}-{effect}"
    note = reason(trial) if trial.gain is None else ""
    return Lesson(
        name=name,
        record=_record(title(claim, trial, setting), claim, trial, setting, note),
        body=body(claim, group, trial, setting),
    )


def _name(claim: Claim, setting: Setting, *, tuned: bool) -> str:
    """Return the topic of a claim: everything that it is about, but not what it says of it."""
    change = () if tuned else claim.change
    parts = (
        claim.subject.lower(),
        *change,
        str(tuned),
        claim.basis,
        claim.pattern,
        claim.regime,
        setting.target,
        setting.language,
        *setting.families,
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _record(headline: str, claim: Claim, trial: Trial, setting: Setting, note: str) -> LessonRecord:
    attempt = trial.attempt
    helped = claim.effect in ("helps", "wins")
    return LessonRecord.model_validate(
        {
            "kind": "lesson",
            "title": headline,
            "scope": {
                "architecture": [setting.architecture],
                "language": [setting.language],
                "operator": list(setting.families),
            },
            "symptoms": list(claim.before or setting.symptoms),
            "claim": claim.model_dump(),
            "sources": [f"run {setting.run}, node {attempt.number}"],
            "evidence": [_evidence(trial, setting, trial.fate, note).model_dump()],
            "idea": attempt.idea.record,
            "plan": (attempt.draft.plan or None) if helped else None,
        }
    )


def _evidence(trial: Trial, setting: Setting, outcome: str, note: str) -> Evidence:
    gain = trial.gain
    return Evidence.model_validate(
        {
            "task": setting.task,
            "target": setting.target,
            "before": trial.before,
            "after": trial.after,
            "run": setting.run,
            "node": trial.attempt.number,
            "parent": None if trial.parent is None else trial.parent.number,
            "low": None if gain is None else gain.low,
            "high": None if gain is None else gain.high,
            "at": setting.at,
            "outcome": outcome,
            "note": note,
        }
    )


def _winner(graph: Graph, attempt: Attempt, outcome: Passed, setting: Setting) -> Lesson:
    eager = outcome.speedup["eager"]
    best = Trial(
        attempt=attempt,
        parent=None,
        change=Change(lines=()),
        before=outcome.seconds * eager.ratio,
        after=outcome.seconds,
        gain=eager,
        outcome=outcome,
    )
    claim = Claim.model_validate(
        {
            "effect": "wins",
            "topic": f"{setting.identity[:16]}/{setting.target}/{setting.language}/won",
            "subject": attempt.idea.record or idea_title(attempt.idea),
            "basis": "reference",
            "target": setting.target,
            "regime": setting.regime,
            "before": setting.symptoms,
            "after": _symptoms(attempt, setting),
        }
    )
    name = f"{slug(setting.task)}-{setting.identity[:8]}-{slug(setting.target)}-won"
    headline = f"{setting.task} on {setting.target}: {idea_title(attempt.idea)} won, {eager.ratio:.2f}x over eager"
    note = f"over eager, interval {eager.low:.3f} to {eager.high:.3f}"
    return Lesson(
        name=name,
        record=_record(headline, claim, best, setting, note),
        body=winner_body(headline, graph.path(attempt.number), outcome, setting),
    )


def _against(trial: Trial, winner: Passed | None, setting: Setting, *, leads: bool) -> Evidence:
    """Return the evidence of a lesson's best candidate against eager and the run's winner."""
    outcome, note = trial.fate, "started from this lesson"
    if trial.gain is None:
        note = f"{note}; {reason(trial)}"
    elif isinstance(trial.outcome, Passed) and winner is not None:
        mine, best = trial.outcome.speedup["eager"], winner.speedup["eager"]
        behind = not leads and mine.high < best.low and mine.ratio < WITHIN_REACH * best.ratio
        if behind:
            outcome = "lost"
            note = f"{note}; another candidate was {best.ratio / mine.ratio:.2f} times as fast"
            trial = _behind(replace(trial, gain=mine), mine.ratio / best.ratio, winner)
    return _evidence(trial, setting, outcome, note[:300])


def _behind(trial: Trial, ratio: float, winner: Passed) -> Trial:
    """Return `trial` measured against the run's winner, which it was to be."""
    assert trial.gain is not None
    best = winner.speedup["eager"]
    low, high = trial.gain.low / best.high, trial.gain.high / best.low
    gain = replace(trial.gain, ratio=ratio, low=low, high=high)
    return replace(trial, gain=gain, before=winner.seconds, after=winner.seconds / ratio)


def _symptoms(attempt: Attempt | None, setting: Setting) -> tuple[str, ...]:
    """Return what holds back an attempt, or the reference for None."""
    if attempt is None:
        return setting.symptoms
    return () if setting.diagnose is None else setting.diagnose(attempt).symptoms
