"""What a finished run teaches: its winner, what gained, what lost, what failed, what came close."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from kb.records.schema import Claim, Effect, Evidence, LessonRecord, TargetRecord
from kb.retrieval.effect_estimate import LOSS
from search.attempt import Attempt, Idea
from search.graph import Graph, Node
from search.lessons.changes import LessonTrial, trials
from search.lessons.setting import EvidenceRun, Setting
from search.lessons.wording import body, idea_title, reason, title, winner_body
from search.outcome import Outcome, Passed
from search.patterns.traits.rows import Rows
from search.runs.report import best_of
from search.won_or_lost import Gain, best, cheated, fate_of, gains, is_degenerate, over

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
class LessonVerdict:
    """What a run found of a lesson that it started from."""

    lesson: str
    evidence: Evidence


def lessons(graph: Graph, confirmed: Mapping[int, Outcome], setting: Setting) -> list[Lesson]:
    """Distil a finished run: the winner, and what every idea did to what it changed.

    A dry run teaches nothing: what was not timed has neither won nor lost. Nor does a degenerate task:
    what is always the same need not be computed.
    """
    if any(attempt.outcome.kind == "checked" for attempt in graph.attempts()):
        return []
    if is_degenerate(graph.attempts()):
        return []
    found: list[Lesson] = []
    winner = best_of(graph, confirmed)
    if winner is not None and isinstance(winner[1], Passed):
        gain = _over_eager(winner[0], winner[1])
        if gain.fate == "won":
            fallen = cheated(graph.attempts(), confirmed)
            path = [one for one in graph.path(winner[0].number) if one.number not in fallen]
            found.append(_winner(path, gain, winner[1], setting))
    groups: dict[tuple[object, ...], list[LessonTrial]] = {}
    for trial in trials(graph, confirmed):
        groups.setdefault(_topic(trial), []).append(trial)
    told = ((_telling(group), group) for group in groups.values())
    steps = [(trial, group) for trial, group in told if not trial.vague]
    steps.sort(key=lambda pair: (-_clearness(pair[0].gain), pair[0].gain.attempt.number))
    return [*found, *(_step(trial, group, setting) for trial, group in steps[:MOST])]


def verdicts(
    graph: Graph,
    confirmed: Mapping[int, Outcome],
    setting: Setting,
    cited: Callable[[Idea], Sequence[str]],
) -> list[LessonVerdict]:
    """Return what became of the lessons that ideas of this run started from.

    A lesson is confirmed where the best candidate came from it, or one within reach of the best that a
    second judge has passed as well; contradicted where all that came of it failed, was slower than eager, or clearly behind.
    So it is where its very plan failed or was slower than eager, whatever came of other settings: what wins with those is a lesson
    of its own.

    Args:
        cited: names of the lessons that an idea starts from.
    """
    if is_degenerate(graph.attempts()):
        return []
    found = best_of(graph, confirmed)
    winner = found[1] if found is not None and isinstance(found[1], Passed) else None
    path = {node.number for node in graph.path(found[0].number)} if found is not None else set()
    groups: dict[str, list[Gain]] = {}
    for gain in gains(graph.attempts(), confirmed):
        for name in cited(gain.attempt.idea) if gain.fate is not None else ():
            groups.setdefault(name, []).append(gain)
    found_out = []
    for name, group in groups.items():
        if told := [one for one in group if _as_told(one.attempt)]:
            alone = _against(best(told), None, setting, leads=True)
            if alone.outcome in ("lost", "failed"):
                found_out.append(LessonVerdict(lesson=name, evidence=alone))
                continue
        leads = any(one.attempt.number in path for one in group)
        evidence = _against(best(group), winner, setting, leads=leads)
        # A gain that only the judge of the search has seen proves nothing for what won before.
        unseen = bool(confirmed) and evidence.node not in confirmed
        if leads or evidence.outcome != "won" or not unseen:
            found_out.append(LessonVerdict(lesson=name, evidence=evidence))
    return found_out


def regime_of(
    moved: float,
    target: TargetRecord,
    shapes: Sequence[tuple[int, ...]],
    precision: str = "strict",
    rows: Rows | None = None,
) -> str:
    """Return the regime of a task's shapes, coarse enough that neighbours share it.

    Args:
        moved: bytes of inputs, parameters and outputs.
        shapes: of the inputs.
        precision: what rounding the task allows decides what is right, and so what fails.
        rows: what the task runs along; None: the last dimension of the widest input.
    """
    levels = sorted(target.caches.items(), key=lambda entry: entry[1].bytes)
    level = next((name for name, cache in levels if moved <= cache.bytes), None)
    parts = [f"fits {level}" if level else "larger than the caches"]
    widest = max(shapes, key=prod, default=())
    if widest:
        row = rows.length if rows else widest[-1]
        length = "short" if row < _SHORT else "long" if row > _LONG else "middling"
        parts.append(f"{length} {'columns' if rows and rows.columns else 'rows'}")
    if precision != "strict":
        parts.append(f"precision {precision}")
    return ", ".join(parts)


def slug(text: str) -> str:
    """Return `text` as a part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "task"


def _topic(trial: LessonTrial) -> tuple[object, ...]:
    """Return what trials of one lesson have in common."""
    idea, change = trial.gain.attempt.idea, trial.change
    swaps = () if change.tuned else tuple(line for line in change.lines if "recipe " in line)
    basis = trial.gain.start is None
    return (idea.record or idea_title(idea), basis, change.tuned, change.pattern, swaps)


def _telling(group: Sequence[LessonTrial]) -> LessonTrial:
    """Return the trial that speaks for a group."""
    chosen = best([trial.gain for trial in group])
    return next(trial for trial in group if trial.gain is chosen)


def _clearness(gain: Gain) -> float:
    """Return how much there is to say."""
    return abs(LOSS if gain.ratio is None else gain.log)


def _step(trial: LessonTrial, group: Sequence[LessonTrial], setting: Setting) -> Lesson:
    gain, change = trial.gain, trial.change
    idea = gain.attempt.idea
    assert gain.fate is not None
    effect = _EFFECTS[gain.fate]
    kept = change.lines
    if change.tuned and effect != "helps":
        kept = ()  # every knob that was turned, none of which helped
    elif not change.tuned:
        kept = tuple(line for line in kept if "recipe " in line or "library" in line)
    claim = Claim.model_validate(
        {
            "effect": effect,
            "subject": idea.record or idea_title(idea),
            "change": kept,
            "basis": "reference" if gain.start is None else "parent",
            "target": setting.target,
            "regime": setting.regime,
            "pattern": change.pattern,
            "before": symptoms_of(gain.start, setting),
            "after": symptoms_of(gain.attempt, setting) if gain.ratio is not None else (),
        }
    )
    claim = claim.model_copy(update={"topic": _name(claim, setting, tuned=change.tuned)})
    name = f"{slug(claim.subject)[:48]}-{slug(setting.target)}-{claim.topic[:8]}-{effect}"
    evidence = evidence_of(gain, setting, "" if gain.ratio else reason(gain.outcome))
    return Lesson(
        name=name,
        record=_record(title(claim, trial, setting), claim, gain, setting, evidence),
        body=body(claim, group, trial, setting, evidence),
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


def _record(
    headline: str, claim: Claim, gain: Gain, setting: Setting, evidence: Evidence
) -> LessonRecord:
    attempt = gain.attempt
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
            "evidence": [evidence.model_dump()],
            "idea": attempt.idea.record,
            "plan": (attempt.draft.plan or None) if helped else None,
        }
    )


def evidence_of(gain: Gain, place: EvidenceRun, note: str = "") -> Evidence:
    """Return a gain as evidence.

    The seconds before are those of its start in the session in which the candidate was timed: its
    own seconds times the gain.
    """
    ratio, after = gain.ratio, None
    before = place.eager_seconds if gain.base is None else gain.base.seconds
    if ratio is not None and isinstance(gain.outcome, Passed):
        after = gain.outcome.seconds
        before = after * ratio.ratio
    return Evidence.model_validate(
        {
            "task": place.task,
            "target": place.target,
            "before": before,
            "after": after,
            "run": place.run,
            "node": gain.attempt.number,
            "parent": None if gain.start is None else gain.start.number,
            "low": None if ratio is None else ratio.low,
            "high": None if ratio is None else ratio.high,
            "at": place.at,
            "outcome": gain.fate,
            "note": note,
        }
    )


def _over_eager(attempt: Attempt, outcome: Passed) -> Gain:
    ratio = over(outcome, None)
    return Gain(attempt=attempt, start=None, base=None, outcome=outcome, ratio=ratio)


def _winner(path: Sequence[Node], gain: Gain, outcome: Passed, setting: Setting) -> Lesson:
    eager, attempt = outcome.speedup["eager"], gain.attempt
    claim = Claim.model_validate(
        {
            "effect": "wins",
            "topic": f"{setting.identity[:16]}/{setting.target}/{setting.language}/won",
            "subject": attempt.idea.record or idea_title(attempt.idea),
            "basis": "reference",
            "target": setting.target,
            "regime": setting.regime,
            "before": setting.symptoms,
            "after": symptoms_of(attempt, setting),
        }
    )
    name = f"{slug(setting.task)}-{setting.identity[:8]}-{slug(setting.target)}-won"
    headline = f"{setting.task} on {setting.target}: {idea_title(attempt.idea)} won, {eager.ratio:.2f}x over eager"
    note = f"over eager, interval {eager.low:.3f} to {eager.high:.3f}"
    evidence = evidence_of(gain, setting, note)
    return Lesson(
        name=name,
        record=_record(headline, claim, gain, setting, evidence),
        body=winner_body(headline, path, outcome, setting),
    )


def _as_told(attempt: Attempt) -> bool:
    """Say whether an attempt is its idea's own plan, and no other setting of it."""
    plan = attempt.idea.plan.get("plan")
    return bool(plan) and attempt.draft.plan == plan


def _against(gain: Gain, winner: Passed | None, setting: Setting, *, leads: bool) -> Evidence:
    """Return the evidence of a lesson's best candidate against eager and the run's winner."""
    note = "started from this lesson"
    if not isinstance(gain.outcome, Passed):
        note = f"{note}; {reason(gain.outcome)}"
    elif winner is not None and not leads:
        behind = over(gain.outcome, winner)
        if fate_of(behind) == "lost" and behind.ratio < WITHIN_REACH:
            note = f"{note}; another candidate was {1 / behind.ratio:.2f} times as fast"
            gain = replace(gain, base=winner, ratio=behind)
    return evidence_of(gain, setting, note[:300])


def symptoms_of(attempt: Attempt | None, setting: Setting) -> tuple[str, ...]:
    """Return the symptoms of an attempt, of the reference for None."""
    if attempt is None:
        return setting.symptoms
    return () if setting.diagnose is None else setting.diagnose(attempt).symptoms
