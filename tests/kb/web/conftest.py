from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kb.config import Home
from kb.web.sources import Sources, open_sources
from search.attempt import Draft, Idea
from search.graph import Node, Proposal, Slot, Step
from search.outcome import BuildFailed, Outcome, Passed, Ratio, Wrong
from search.runs.report import build_report
from search.runs.storage import Record, Storage

REFERENCE = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x.exp()\n"
ABOUT = {
    "task": "rows",
    "target": "zen4",
    "language": "cpp",
    "author": "recipes",
    "source": REFERENCE,
    "settings": {"precision": "strict", "search": {"policy": "beam", "rounds": 5}},
    "work": {"flops": 1e6, "bytes": 1e5, "traffic": 2e5, "families": ["softmax"]},
}


def passed(speedup: float, **more: object) -> Passed:
    values = {
        "seconds": 1e-3 / speedup,
        "samples": 21,
        "speedup": {
            "eager": Ratio(ratio=speedup, low=speedup * 0.98, high=speedup * 1.03),
            "compile": Ratio(ratio=speedup / 2, low=speedup * 0.49, high=speedup * 0.52),
        },
        "max_error": 1e-8,
        "allowed_error": 1e-6,
        "own_share": 0.97,
        "profile": {"flops": 1e6, "bytes": 1e5, "floor_memory": 1e-6, "floor_arithmetic": 2e-6},
    }
    return Passed(**{**values, **more})


def idea(title: str, **more: object) -> Idea:
    return Idea(
        **{"title": title, "text": f"{title}, in words.", "category": "memory access", **more}
    )


class Runs:
    """Writes runs as a search does, through its own record."""

    def __init__(self, home: Home) -> None:
        from kb.knowledge import open_tables

        self.home = home
        self.storage = Storage(open_tables(home))

    def begin(self, task: str = "rows", /, **about: object) -> Record:
        return self.storage.begin(task, {**ABOUT, "task": task, **about})

    def propose(
        self, record: Record, round: int, parent: int | None, *ideas: Idea, **more: object
    ) -> None:
        slot = Slot(round, 0)
        record.add_proposal(Proposal(slot=slot, parent=parent, ideas=ideas, **more))

    def node(
        self,
        record: Record,
        place: tuple[int, int, int, int],
        outcome: Outcome | None,
        *,
        parent: int | None = None,
        source: str | None = None,
        **draft: object,
    ) -> Node:
        """Add a node at (round, idea, branch, repair), judged unless `outcome` is None."""
        round, which, branch, repair = place
        number = len(record.graph.nodes)
        step = Step(Slot(round, 0), which, branch, repair)
        proposal = record.graph.proposals[step.slot]
        text = source if source is not None else f"# node {number}\n{REFERENCE}"
        node = Node(
            number=number,
            step=step,
            parent=parent,
            idea=proposal.ideas[which],
            draft=Draft(source=text, **draft),
        )
        record.add_node(node)
        if outcome is not None:
            key = f"{record.run}-{number}"
            record.add_outcome(node, outcome, key=key, elapsed=float(number + 1))
        return node

    def finish(self, record: Record, reason: str = "5 rounds done") -> None:
        record.finish_search(reason)
        best = max(
            (node for node in record.graph.nodes if node.outcome and node.outcome.kind == "passed"),
            key=lambda node: node.outcome.merit,
            default=None,
        )
        again = {best.number: best.outcome} if best is not None else {}
        about = {name: ABOUT[name] for name in ("target", "language", "author")}
        row = self.storage.run(record.run)
        report = build_report(
            {**about, "run": record.run, "task": row.about["task"],
             "baselines": {"eager": 1e-3, "compile": 5e-4}},
            record.graph, again, stop_reason=reason, seconds=12.0,
        )  # fmt: skip
        record.finish(report)

    def small(self, task: str = "rows", **about: object) -> Record:
        """A finished run: two ideas from the reference, one of them taken further, one failed and mended."""
        record = self.begin(task, **about)
        first = idea("Walk each row once", record="keep-the-row-in-cache")
        self.propose(record, 0, None, first, idea("Unroll by four"))
        self.node(record, (0, 0, 0, 0), passed(2.0))
        self.node(
            record, (0, 1, 0, 0), BuildFailed(reason="'foo' was not declared", detail="line 3: foo")
        )
        self.node(
            record,
            (0, 1, 0, 1),
            Wrong(reason="3 of 8 elements differ", detail="[0]: 1 for 2"),
            parent=1,
        )
        self.propose(record, 1, 0, idea("Write past the caches"))
        self.node(record, (1, 0, 0, 0), passed(3.0), parent=0, source="# faster\n" + REFERENCE)
        self.finish(record)
        return record


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


@pytest.fixture
def runs(home: Home) -> Runs:
    return Runs(home)


@pytest.fixture
def look(runs: Runs) -> Callable[[], Sources]:
    """Return a function that opens the home as the server does."""
    return lambda: open_sources(runs.home)


@pytest.fixture
def passed_outcome() -> Callable[..., Passed]:
    return passed


@pytest.fixture
def new_idea() -> Callable[..., Idea]:
    return idea
