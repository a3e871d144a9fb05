"""What a finished run teaches: its winner and its failures, as records with their evidence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kb.errors import RecordError
from kb.records import Evidence, LessonRecord, parse_record
from search.authors import Attempt, Idea
from search.graph import Graph
from search.outcome import Outcome, Passed
from search.report import best_of

_KEPT_EVIDENCE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where the run's measurements were taken."""

    run: str
    task: str
    identity: str  # of the task, see `Task.identity`
    target: str
    architecture: str
    language: str
    families: tuple[str, ...]
    symptoms: tuple[str, ...]  # of the reference
    shapes: str  # one line for people: "4x3x224x224 -> 4x96x27x27"
    eager_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """A record to write.

    Attributes:
        name: the file's stem; a later run with the same lesson adds its evidence to it.
    """

    name: str
    record: LessonRecord
    body: str


def lessons(graph: Graph, confirmed: Mapping[int, Outcome], setting: Setting) -> list[Lesson]:
    """Distil a finished run: the winner, and every idea that lost or failed.

    A dry run teaches nothing: what was not timed has neither won nor lost.
    """
    found: list[Lesson] = []
    if any(attempt.outcome.kind == "checked" for attempt in graph.attempts()):
        return found
    best = best_of(graph, confirmed)
    if best is not None and isinstance(best[1], Passed) and best[1].speedup["eager"].low > 1:
        found.append(_winner(graph, best[0], best[1], setting))
    winning = {node.idea.title for node in graph.path(best[0].number)} if best else set()
    for idea, attempts in _by_idea(graph).items():
        if attempts[0].idea.title not in winning:
            lesson = _loss(graph, idea, attempts, setting)
            if lesson is not None:
                found.append(lesson)
    return found


def write(folder: Path, lesson: Lesson) -> Path:
    """Write a lesson, joining its evidence with that of earlier runs."""
    path = folder / f"{lesson.name}.md"
    record, body = lesson.record, lesson.body
    earlier = _read(path)
    if earlier is not None:
        runs = {evidence.run for evidence in record.evidence}
        kept = [evidence for evidence in earlier.evidence if evidence.run not in runs]
        joined = (*kept, *record.evidence)[-_KEPT_EVIDENCE:]
        record = record.model_copy(update={"evidence": joined})
    front = yaml.safe_dump(
        record.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
        | {"kind": "lesson"},
        sort_keys=False,
        allow_unicode=True,
        width=96,
    )
    folder.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(f"---\n{front}---\n\n{body}", encoding="utf-8")
    draft.replace(path)
    return path


def _read(path: Path) -> LessonRecord | None:
    if not path.exists():
        return None
    try:
        record = parse_record(path.read_text(encoding="utf-8"), str(path)).record
    except RecordError:
        return None  # edited beyond the schema: the new lesson replaces it
    return record if isinstance(record, LessonRecord) else None


def _winner(graph: Graph, attempt: Attempt, outcome: Passed, setting: Setting) -> Lesson:
    eager = outcome.speedup["eager"]
    path = graph.path(attempt.number)
    steps = "\n".join(
        f"{place}. {node.idea.title}: {node.attempt().speedup:.2f}x over eager"
        for place, node in enumerate(path, start=1)
    )
    against = "; ".join(
        f"{ratio.ratio:.2f}x over {name} ({ratio.low:.2f} to {ratio.high:.2f})"
        for name, ratio in outcome.speedup.items()
    )
    body = (
        f"# What won on {setting.task}\n\n"
        f"{setting.shapes}, float32, {setting.target}, {setting.language}: {against}, "
        f"{outcome.seconds * 1e3:.3f} ms a call.\n\n"
        f"## Ideas that led to it\n\n{steps}\n\n{attempt.idea.text.strip()}\n\n"
        f"## Source\n\n```python\n{attempt.draft.source.rstrip()}\n```\n"
    )
    evidence = Evidence(
        task=setting.task,
        target=setting.target,
        before=outcome.seconds * eager.ratio,
        after=outcome.seconds,
        run=setting.run,
        note=f"over eager, interval {eager.low:.3f} to {eager.high:.3f}",
    )
    title = f"{setting.task} on {setting.target}: {attempt.idea.title} won, {eager.ratio:.2f}x over eager"
    return Lesson(
        name=f"{slug(setting.task)}-{setting.identity[:8]}-{slug(setting.target)}-won",
        record=_record(title, attempt, setting, evidence, plan=attempt.draft.plan or None),
        body=body,
    )


def _loss(graph: Graph, idea: str, attempts: Sequence[Attempt], setting: Setting) -> Lesson | None:
    """Return the lesson of an idea none of whose attempts gained on its parent."""
    best = min(attempts, key=lambda attempt: attempt.seconds)
    first = attempts[0]
    parent = graph.nodes[first.parent].attempt() if first.parent is not None else None
    before = parent.seconds if parent and parent.outcome.kind == "passed" else setting.eager_seconds
    if best.seconds < before:
        return None
    if isinstance(best.outcome, Passed):
        fate, after = "lost", best.seconds
        found = f"{best.seconds / before:.2f} times the time of what it started from"
    else:
        fate, after = "failed", None
        found = f"{best.outcome.kind.replace('_', ' ')}: {getattr(best.outcome, 'reason', '')}"
    evidence = Evidence.model_validate(
        {
            "task": setting.task,
            "target": setting.target,
            "before": before,
            "after": after,
            "run": setting.run,
            "outcome": fate,
            "note": found[:300],
        }
    )
    body = (
        f"# What did not help on {setting.task}\n\n"
        f"{first.idea.title}. {setting.shapes}, float32, {setting.target}, {setting.language}: "
        f"{found}, best of {len(attempts)}.\n"
    )
    digest = hashlib.sha256(idea.encode()).hexdigest()[:6]
    return Lesson(
        name=f"{slug(setting.task)}-{setting.identity[:8]}-{slug(setting.target)}-{digest}-{fate}",
        record=_record(
            f"{setting.task} on {setting.target}: {first.idea.title} {fate}",
            best,
            setting,
            evidence,
        ),
        body=body,
    )


def _record(
    title: str,
    attempt: Attempt,
    setting: Setting,
    evidence: Evidence,
    plan: Mapping[str, Any] | None = None,
) -> LessonRecord:
    return LessonRecord.model_validate(
        {
            "kind": "lesson",
            "title": title,
            "scope": {
                "architecture": [setting.architecture],
                "language": [setting.language],
                "operator": list(setting.families),
            },
            "symptoms": list(setting.symptoms),
            "sources": [f"run {setting.run}, node {attempt.number}"],
            "evidence": [evidence.model_dump()],
            "idea": attempt.idea.record,
            "plan": plan,
        }
    )


def _by_idea(graph: Graph) -> dict[str, list[Attempt]]:
    groups: dict[str, list[Attempt]] = {}
    for attempt in graph.attempts():
        groups.setdefault(_name(attempt.idea), []).append(attempt)
    return groups


def _name(idea: Idea) -> str:
    return idea.record or idea.title


def slug(text: str) -> str:
    """Return `text` as a part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "task"
