"""What the search itself costs per candidate: free evaluation, 4 kB sources, a record on disk.

    python benchmarks/flatness.py [CANDIDATES]        # default 1,000; 100,000 takes some minutes

Everything but the author and the judge is real: policy, graph, SQL record, outcomes by content. Rates are
told by the clock and by the time of the processor, which a busy machine disturbs less; medians are of
the latter.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from kb.config import Home
from kb.database import open_engine
from kb.records.types import Hit, Query
from search.attempt import Attempt, Diagnosis, Draft, Idea, Moment
from search.drivers.sequential import Driver
from search.judging.synthetic import Synthetic
from search.loop import Search
from search.outcome import Outcome
from search.pieces import JudgeNode, Result, Work
from search.policies import POLICIES
from search.prompting.readings import RecordingRetriever
from search.runs.storage import Storage
from search.task import TaskFile


class Author:
    """Writes 4 kB that no one wrote before."""

    def ideas(self, moment: Moment, count: int) -> tuple[Idea, ...]:
        return tuple(
            Idea(title=f"{moment.seed} {n}", text="text", category="memory access")
            for n in range(count)
        )

    def draft(
        self, moment: Moment, idea: Idea, branch: int, siblings: tuple[Attempt, ...]
    ) -> Draft | None:
        return Draft(source=f"{moment.seed} {branch} " + "x" * 4096)

    def repair(self, moment: Moment, failed: Attempt) -> Draft | None:
        return None


class Nothing:
    def search(self, query: Query) -> list[Hit]:
        return []


class Clock:
    """Notes when each verdict was in the record."""

    def __init__(self) -> None:
        self.times = [time.process_time()]

    def begins(self, work: Work) -> None: ...

    def ends(self, work: Work, result: Result) -> None:
        if isinstance(work, JudgeNode):
            self.times.append(time.process_time())

    def confirms(self, node: int, outcome: Outcome) -> None: ...


def main() -> None:
    candidates = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    stop = {"candidates": candidates, "minutes": None, "stalled_rounds": None, "roofline": None}
    settings = TaskFile.model_validate(
        {
            "reference": "none.py",
            # Wide rounds where a thousand of them are too few.
            "search": {"rounds": 1000, "branches": 3, "ideas": min(64, 4 + candidates // 2500)},
            "stop": stop,
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        storage = Storage(open_engine(Home(Path(folder))))
        record = storage.begin("free", {})
        search = Search(
            record,
            POLICIES.create("beam"),
            settings,
            lambda _: Diagnosis(symptoms=(), lines=()),
            lambda: 0.0,
            context="free",
        )
        began, clock = time.perf_counter(), Clock()
        Driver(search, Author(), Synthetic(), storage, RecordingRetriever(Nothing()), clock).run()
        wall = time.perf_counter() - began
    costs = [1e3 * (b - a) for a, b in zip(clock.times, clock.times[1:], strict=False)]
    rate = 1e3 / statistics.mean(costs)
    print(
        f"{len(costs)} candidates, {len(costs) / wall:.0f} a second, {rate:.0f} a processor second"
    )
    for first in (10, candidates // 2, candidates - 100):
        part = costs[first : first + 100]
        print(f"candidates {first} to {first + len(part)}: median {statistics.median(part):.2f} ms")


if __name__ == "__main__":
    main()
