"""Ideas that lost or failed in earlier runs of a task."""

from __future__ import annotations

from search.prompting.novelty import KnownIdea, fate_words
from search.runs.storage import Storage
from search.task import Task
from search.won_or_lost import Gain, best, gains

RUNS = 20  # earlier runs of a task that are looked at, the latest ones


def earlier_ideas(storage: Storage, task: Task, before: float) -> tuple[KnownIdea, ...]:
    """Return the ideas that lost or failed in runs of `task` that began before a moment.

    What came out even may do so by its draft, and of what was not timed nobody knows.

    Args:
        before: seconds since the epoch: a run that is resumed knows what it knew at its start.
    """
    same = [
        row.run
        for row in storage.runs()
        if row.started < before
        and row.about.get("source") == task.source
        and row.about["settings"].get("target") == task.settings.target
    ]
    found: dict[tuple[str, str], KnownIdea] = {}
    for run in same[-RUNS:]:
        groups: dict[tuple[str, str], list[Gain]] = {}
        for gain in gains(storage.record(run).graph.attempts()):
            idea = gain.attempt.idea
            groups.setdefault((idea.title, idea.text), []).append(gain)
        for (title, text), group in groups.items():
            found.pop((title, text), None)
            if best(group).fate in ("lost", "failed"):
                told = f"{fate_words([one.attempt for one in group])} (in {run})"
                found[title, text] = KnownIdea(title=title, text=text, told=told)
    return tuple(found.values())
