"""Reads the record of runs for the commands that show it."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kb.app.diagnosis import diagnosis_lines
from kb.app.live import state_of
from kb.config import Home
from kb.database import is_begun, open_engine
from kb.errors import ConfigError, StoreError
from kb.records.schema import Evidence, IdeaRecord
from kb.records.types import FATES, fates
from kb.runtime.bundle import standalone
from search.graph import Graph
from search.outcome import Outcome, Passed
from search.runs.report import build_report, idea_path, nothing_passed, reported
from search.runs.storage import RunRow, Storage
from search.runs.verdicts import outcomes_again


def _storage(home: Home) -> Storage:
    if not is_begun(home):
        raise StoreError(f"no runs in {home.root}: start one with `kb evolve TASK`")
    return Storage(open_engine(home))


def run_rows(home: Home) -> list[dict[str, Any]]:
    """Return one object a run, oldest first."""
    if not is_begun(home):
        return []
    storage = _storage(home)
    return [run_line(storage, _as_it_is(home, row)) for row in storage.runs()]


def _as_it_is(home: Home, row: RunRow) -> RunRow:
    return replace(row, status=state_of(home, row.run, row.status))


def run_line(storage: Storage, row: RunRow) -> dict[str, Any]:
    """Return a run as the list of runs has it."""
    graph = None if row.report else storage.record(row.run).graph
    best = (row.report or {}).get("best")
    speedup = best["speedup"]["eager"]["ratio"] if best and "speedup" in best else None
    return {
        "run": row.run,
        "task": row.about["task"],
        "target": row.about["target"],
        "language": row.about["language"],
        "author": row.about["author"],
        "status": row.status,
        "started": row.started,
        "seconds": (row.report or {}).get("seconds", row.elapsed),
        "candidates": graph.judged if graph else (row.report or {})["candidates"],
        "speedup": (graph.best_speedup or None) if graph else speedup,
    }


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run with its graph, read from the record.

    Attributes:
        graph: with the outcomes that the search went by.
    """

    row: RunRow
    graph: Graph
    storage: Storage

    @cached_property
    def settled(self) -> Graph:
        """The graph with what the second look said in the place of the first outcomes."""
        if self.row.report is None:
            return self.graph
        again = outcomes_again(self.storage.engine, self.row.run, self.row.report)
        return self.graph.judged_again(again)

    def report(self) -> dict[str, Any]:
        """Return the finished report, or what is known so far."""
        if self.row.report is not None:
            return dict(self.row.report)
        names = ("task", "target", "language", "author")
        about = {"run": self.row.run, **{name: self.row.about[name] for name in names}}
        about |= {"precision": self.row.about["precision"]} if "precision" in self.row.about else {}
        return build_report(
            {**about, "baselines": {}},
            self.graph,
            {},
            stop_reason=self.row.stop_reason or self.row.status,
            seconds=self.row.elapsed,
        )

    def best_number(self) -> int | None:
        """Return the number of the best node."""
        best = self.report()["best"]
        return None if best is None else best["node"]

    def path_to_best(self) -> list[dict[str, Any]]:
        """Return the ideas that led to the best node, each with the passages that suggested it."""
        number = self.best_number()
        if number is None:
            return []
        steps = idea_path(self.settled, number)
        for step, node in zip(steps, self.settled.path(number), strict=True):
            step["choices"] = plan_line(node.draft.plan)
            step["passages"] = self.places((*node.idea.passages, *node.draft.passages))
        return steps

    def places(self, passages: tuple[str, ...]) -> list[str]:
        """Return "document: section" for each passage, and how many the store no longer has."""
        from kb.store.documents import Store

        found = Store(self.storage.engine).passages(passages)
        known = [found[passage] for passage in dict.fromkeys(passages) if passage in found]
        places = dict.fromkeys(f"{passage.document}: {passage.section}" for passage in known)
        gone = len(set(passages)) - len(known)
        # Lessons are written anew when a run confirms or contradicts them.
        return [*places, *([f"{gone} more, rewritten since"] if gone else [])]

    def tree(self) -> dict[str, Any]:
        """Return the graph as nested values."""
        return {
            "run": self.row.run,
            "nodes": [self._brief(node.number) for node in self.settled.nodes],
        }

    def _brief(self, number: int) -> dict[str, Any]:
        node = self.settled.nodes[number]
        return {
            "node": number,
            "parent": node.parent,
            "round": node.step.slot.round,
            "idea": node.idea.title,
            "branch": node.step.branch,
            "choices": plan_line(node.draft.plan),
            "outcome": node.outcome.kind if node.outcome else "pending",
            "speedup": node.attempt().speedup if isinstance(node.outcome, Passed) else None,
        }

    def node(self, number: int) -> dict[str, Any]:
        """Return everything about one node.

        Raises:
            ConfigError: the run has no such node.
        """
        if number >= len(self.graph.nodes):
            raise ConfigError(
                f"run {self.row.run} has no node {number}: it has 0 to {len(self.graph.nodes) - 1}"
            )
        node = self.settled.nodes[number]
        parent = self.row.about["source"]
        parent_name = "reference"
        if node.parent is not None:
            parent, parent_name = self.graph.nodes[node.parent].draft.source, f"node {node.parent}"
        lines = difflib.unified_diff(
            parent.splitlines(),
            node.draft.source.splitlines(),
            parent_name,
            f"node {number}",
            lineterm="",
        )
        exchanges = (*node.idea.exchanges, *node.draft.exchanges)
        return {
            "run": self.row.run,
            **self._brief(number),
            "text": node.idea.text,
            "category": node.idea.category,
            "record": node.idea.record,
            "plan": dict(node.draft.plan),
            "passages": self.places((*node.idea.passages, *node.draft.passages)),
            "prompts": [found for key in exchanges if (found := self._exchange(key))],
            "source": node.draft.source,
            "diff": "\n".join(lines),
            "diagnosis": diagnosis_lines(self.row.about, node.attempt()) if node.outcome else [],
            "result": result_of(node.outcome) if node.outcome else None,
        }

    def _exchange(self, key: str) -> dict[str, Any] | None:
        found = self.storage.exchange(key)
        return None if found is None else {"request": found[0], "reply": found[1]}

    def standalone(self) -> str:
        """Return the best source as a file that needs no `kb`.

        Raises:
            StoreError: no candidate of the run passed.
        """
        report = self.report()
        best = report["best"]
        if best is None:
            raise StoreError(f"{self.row.run} has no best source: {nothing_passed(report)}")
        return standalone(best["source"])


def result_of(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as plain values, without the single calls that were timed."""
    return {name: value for name, value in asdict(outcome).items() if name != "calls"}


def open_run(home: Home, name: str) -> Run:
    """Read one run."""
    storage = _storage(home)
    row = _as_it_is(home, storage.run(name))
    return Run(row=row, graph=storage.record(name).graph, storage=storage)


def best_file(home: Home, run: str) -> Path:
    """Return where a run's best source is kept."""
    return home.root / "runs" / run / "best.py"


def write_best(path: Path, source: str) -> None:
    """Write a source to the file that the user named.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        path.write_text(source, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write {path}: {error.strerror}: name a file in a folder that exists"
        ) from error


def idea_histories(home: Home) -> list[dict[str, Any]]:
    """Return, for each idea record and each idea of a model, what became of it.

    What ``kb measure`` wrote is told from the records, those in the home before the shipped ones.
    """
    from kb.config import shipped_docs
    from kb.records.library import load_library

    rows: dict[str, dict[str, Any]] = {}
    measured = home.root / "measured"
    own = load_library(measured) if any(measured.glob("*.md")) else ()
    for document in (*load_library(shipped_docs() / "ideas"), *own):
        record = document.record
        if isinstance(record, IdeaRecord):
            row = _row(document.name, record.title, record.category)
            rows[document.name] = {**row, "measured": _measured(record.evidence)}
    if is_begun(home):
        storage = _storage(home)
        for _, retrieved in storage.retrievals():
            for place in retrieved:
                name = Path(place).stem
                if name in rows:
                    rows[name]["retrieved"] += 1
        for run in storage.runs():
            _count(rows, storage.record(run.run).graph, run)
    return sorted(rows.values(), key=lambda row: (-row["tried"], -row["retrieved"], row["idea"]))


def _row(idea: str, title: str, category: str) -> dict[str, Any]:
    counts = {"retrieved": 0, "tried": 0, "passed": 0, "won": 0}
    return {
        "idea": idea,
        "title": title,
        "category": category,
        **counts,
        "best": None,
        "tasks": [],
        "measured": {},
    }


def _measured(evidence: Iterable[Evidence]) -> dict[str, dict[str, int]]:
    """Return by target how often an idea won, came out even, lost and failed."""
    found: dict[str, Counter[str]] = {}
    for one in evidence:
        found.setdefault(one.target, Counter())[one.outcome] += 1
    return {
        target: {fate: counts[fate] for fate in FATES if counts[fate]}
        for target, counts in found.items()
    }


def measured_text(measured: Mapping[str, Mapping[str, int]]) -> str:
    """Return in a few words what the records say of an idea's measurements."""
    told = (f"{target}: {fates(counts)}" for target, counts in measured.items())
    return "; ".join(told) or "unmeasured"


def _count(rows: dict[str, dict[str, Any]], graph: Graph, run: RunRow) -> None:
    from search.won_or_lost import gains

    for gain in gains(graph.attempts(), reported(run.report or {})):
        idea = gain.attempt.idea
        name = idea.record or idea.title
        row = rows.setdefault(name, _row(name, idea.title, idea.category))
        row["tried"] += 1
        if run.about["task"] not in row["tasks"]:
            row["tasks"].append(run.about["task"])
        if gain.ratio is not None:
            row["passed"] += 1
            row["won"] += gain.fate == "won"
            row["best"] = max(row["best"] or 0.0, gain.ratio.ratio)


def plan_line(plan: Mapping[str, Any]) -> str:
    """Return a recipe author's choices in one line, "" where there are none."""
    segments = plan.get("segments", {})
    texts = []
    for segment in segments.values():
        knobs = ", ".join(f"{name}={value}" for name, value in segment["knobs"].items())
        recipe = f"{segment['recipe']} " if len(segments) > 1 else ""
        texts.append(f"{recipe}{knobs}".strip())
    return "; ".join(text for text in texts if text)
