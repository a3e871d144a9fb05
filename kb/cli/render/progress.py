"""Shows the progress of a search on standard error."""

from __future__ import annotations

import sys

from kb.cli.render.run_report import beside, checked_text
from kb.progress import Progress, say
from kb.units import time_text
from search.outcome import Checked, Outcome, Passed
from search.pieces import JudgeNode, MendDraft, Result, TuneKnobs, Work, WriteDraft, WriteIdeas
from search.runs.storage import Record
from search.task import TaskFile


class Screen:
    """One line for each judged candidate, and what is going on now on the progress line."""

    def __init__(self, record: Record, settings: TaskFile, progress: Progress) -> None:
        self._record = record
        self._settings = settings
        self._progress = progress
        self._lively = sys.stderr.isatty()  # a log needs the verdicts only

    def begins(self, work: Work) -> None:
        """Show what is being done."""
        if not self._lively:
            return
        graph = self._record.graph
        match work:
            case WriteIdeas():
                doing = f"round {work.slot.round + 1}: looking for ideas"
            case WriteDraft():
                doing = f"writing: {work.idea.title}"
            case MendDraft():
                doing = f"mending node {work.failed.number}"
            case TuneKnobs():
                doing = f"tuning the constants of node {work.base.number}"
            case JudgeNode():
                doing = f"judging {work.node.number}: {work.node.idea.title}"
        best = f", best {graph.best_speedup:.2f}x" if graph.best_speedup else ""
        total = self._settings.stop.candidates
        self._progress(f"[{graph.judged} judged{best}] {doing}", graph.judged, total)

    def ends(self, work: Work, result: Result) -> None:
        """Print what became of a candidate, and the ideas of a round."""
        if isinstance(work, JudgeNode) and result is not None:
            node = work.node
            say(f"{node.number:>4}  {_fate(result):<42}  {node.idea.title}")  # type: ignore[arg-type]

    def confirms(self, node: int, outcome: Outcome) -> None:
        """Print a finalist's second measurement."""
        say(f"{node:>4}  {_fate(outcome):<42}  measured again")


def _fate(outcome: Outcome) -> str:
    if isinstance(outcome, Passed):
        eager = outcome.speedup["eager"]
        return f"{eager.ratio:.2f}x over eager, {time_text(outcome.seconds)}{beside(outcome)}"
    if isinstance(outcome, Checked):
        return checked_text(outcome)
    return f"{outcome.kind.replace('_', ' ')}: {outcome.reason}"[:60]
