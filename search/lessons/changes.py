"""What changed between a candidate and what it started from, and what that gained."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from search.attempt import Attempt
from search.codegen.attention import operators
from search.graph import Graph
from search.outcome import Outcome
from search.won_or_lost import Gain, gains

DRAW = 1.25  # width of an interval, high over low, within which a draw is a finding


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """The difference between a candidate and its parent.

    Attributes:
        lines: what changed, a line each, the same for the same change of any task.
        pattern: of the segment that it changes, "" where it changes none or several.
        tuned: only knobs differ: the recipe is the parent's.
        size: lines of source added and removed, for what has no plan.
    """

    lines: tuple[str, ...]
    pattern: str = ""
    tuned: bool = False
    size: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonTrial:
    """What a candidate gained, and what it changed for that."""

    gain: Gain
    change: SourceChange

    @property
    def vague(self) -> bool:
        """Say whether its interval is too wide to tell even a draw: that teaches nothing."""
        ratio = self.gain.ratio
        return self.gain.fate == "even" and ratio is not None and ratio.high > DRAW * ratio.low


def trials(graph: Graph, confirmed: Mapping[int, Outcome]) -> Iterator[LessonTrial]:
    """Yield one trial a candidate that was timed or failed, oldest first.

    What a cheat did says nothing of its idea, and neither does what was made of it: both are left out.

    Args:
        confirmed: outcomes of finalists that were measured again, by node.
    """
    for gain in gains(graph.attempts(), confirmed):
        if gain.fate is not None and not gain.cheated:
            yield LessonTrial(gain=gain, change=change(gain.start, gain.attempt))


def change(parent: Attempt | None, child: Attempt) -> SourceChange:
    """Say what `child` does otherwise than `parent` (None: than the reference)."""
    after = child.draft.plan
    if "segments" not in after:
        return SourceChange(lines=(), size=_edit(parent, child))
    before = parent.draft.plan if parent is not None else {}
    lines = [*_library(before, after)]
    patterns: set[str] = set()
    tuned = bool(before) and not lines
    focus = child.idea.plan.get("focus")
    for name, chosen in after["segments"].items():
        old = before.get("segments", {}).get(name)
        if old is None and focus is not None and name != focus:
            continue  # from the reference every part is new; the idea is about one
        if old is not None and old["recipe"] == chosen["recipe"]:
            differing = _knobs(old["knobs"], chosen["knobs"])
        else:
            origin = f"{old['recipe']} -> " if old is not None else ""
            differing = (f"recipe {origin}{chosen['recipe']}",)
            tuned = False
        if differing:
            patterns.add(str(chosen["pattern"]))
            lines += [line for line in differing if line not in lines]
    return SourceChange(
        lines=tuple(lines),
        # An idea that is about no one segment changes how the graph is cut.
        pattern=next(iter(patterns)) if len(patterns) == 1 and focus is not None else "",
        tuned=tuned and bool(lines),
    )


def _library(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    if not before:
        return []
    more = len(set(operators(after["library"])) - set(before.get("library", ())))
    fewer = len(set(operators(before.get("library", ()))) - set(after["library"]))
    lines = []
    if more:
        lines.append(f"{more} more left to the library")
    if fewer:
        lines.append(f"{fewer} no longer left to the library")
    return lines


def _knobs(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        f"{name} {before.get(name)} -> {after[name]}"
        for name in sorted(after)
        if before.get(name) != after[name]
    )


def _edit(parent: Attempt | None, child: Attempt) -> tuple[int, int]:
    if parent is None:
        return len(child.draft.source.splitlines()), 0
    lines = difflib.unified_diff(
        parent.draft.source.splitlines(), child.draft.source.splitlines(), lineterm="", n=0
    )
    body = [line for line in lines if not line.startswith(("+++", "---", "@@"))]
    return sum(line[0] == "+" for line in body), sum(line[0] == "-" for line in body)
