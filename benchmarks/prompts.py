"""What writing a prompt costs beyond retrieval, and what a candidate of a model's run costs.

    python benchmarks/prompts.py [NODES]        # default 1,000

A run of scripted ideas and sources (4 kB each) with a free judge. Everything else is real: the policy,
the graph, the SQL record, the exchanges, the shipped library with its retrieval, the near-duplicate
check by embeddings, the prompts, the parsers. Where a tenth of a run goes is told beside it, and a run
without retrieval shows what prompts and records cost alone.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kb.config import Home
from kb.database import open_engine
from kb.knowledge import open_knowledge
from kb.records.schema import TargetRecord
from kb.records.types import Hit, Query
from search.authors.llm import LanguageModel
from search.costs.graph import Work as Cost
from search.diagnosis.diagnose import DiagnosisGround, diagnose
from search.drivers.sequential import Driver
from search.judging.synthetic import Synthetic
from search.lessons.duplicates import Alike
from search.loop import Search
from search.outcome import Outcome
from search.pieces import JudgeNode, Result, Work
from search.policies import POLICIES
from search.prompting.knowledge_view import KnowledgeView, Silent
from search.prompting.novelty import NoveltyCheck
from search.prompting.readings import RecordingRetriever
from search.runs.storage import Storage
from search.task import Task, load_task
from synth.models import Reply, Request
from synth.models.recorded import Recorded

EXAMPLE = Path(__file__).parents[1] / "examples" / "conv2d.yaml"
WORDS = [
    "tile",
    "fuse",
    "unroll",
    "pack",
    "prefetch",
    "vectorise",
    "split",
    "stream",
    "transpose",
    "pad",
    "reorder",
    "hoist",
    "cache",
    "block",
    "interleave",
    "broadcast",
    "skew",
    "batch",
    "pipeline",
    "swizzle",
    "rows",
    "columns",
    "channels",
    "windows",
    "pixels",
    "weights",
    "registers",
    "lanes",
    "caches",
    "pages",
    "threads",
    "outputs",
    "inputs",
    "borders",
    "accumulators",
    "loads",
    "stores",
    "strides",
]


class Scripted:
    """Answers every request with something new: ideas of words drawn by a counter, 4 kB sources."""

    name = "scripted"

    def __init__(self) -> None:
        self._number = 0

    def reply(self, request: Request) -> Reply:
        self._number += 1
        text = self._ideas() if request.schema else self._source()
        return Reply(
            text=text, model=self.name, tokens_in=0, tokens_out=0, seconds=0.0, finish="stop"
        )

    def _ideas(self) -> str:
        found = []
        for n in range(4):
            k = 4 * self._number + n
            picked = [WORDS[(k * step + k // 7) % len(WORDS)] for step in (1, 5, 11, 17, 23)]
            found.append(
                {
                    "title": f"{' '.join(picked)} {k}",
                    "category": "memory access",
                    "text": f"Step {k}: {picked[0]} the {picked[3]} and {picked[1]} the {picked[4]} by {k}.",
                    "passages": ["P1"],
                }
            )
        return json.dumps({"ideas": found})

    def _source(self) -> str:
        body = "\n".join(f"    x{n} = {self._number} * {n}" for n in range(170))
        return f"```python\nimport torch\n\nclass ModelNew(torch.nn.Module):\n{body}\n```"


class Clock:
    """Notes when each verdict was in the record."""

    def __init__(self) -> None:
        self.times = [time.perf_counter()]

    def begins(self, work: Work) -> None: ...

    def ends(self, work: Work, result: Result) -> None:
        if isinstance(work, JudgeNode):
            self.times.append(time.perf_counter())

    def confirms(self, node: int, outcome: Outcome) -> None: ...


class Timed:
    """Adds up what calls of a function take."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seconds: list[float] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return self.function(*args, **kwargs)
        finally:
            self.seconds.append(time.perf_counter() - began)


class Watched:
    """A retriever whose searches are timed."""

    def __init__(self, inner: Any) -> None:
        self.timed = Timed(inner.search)

    def search(self, query: Query) -> list[Hit]:
        found: list[Hit] = self.timed(query)
        return found


def play(knowledge: Any, nodes: int, *, retrieval: bool) -> None:
    task = _task(nodes)
    target = knowledge.store.document("target", "x86-avx2").record
    assert isinstance(target, TargetRecord)
    cost = Cost(flops=8.4e8, bytes=6e6, traffic=3e7, families=("convolution", "pooling"))
    with tempfile.TemporaryDirectory() as folder:
        storage = Storage(open_engine(Home(Path(folder))))
        retriever = Watched(knowledge.retriever if retrieval else Silent())
        alike = Alike(knowledge.derived.embedder) if retrieval else None
        witness = RecordingRetriever(retriever)
        found = Timed(witness.search)  # a question that was asked before is not looked up again
        witness.search = found  # type: ignore[method-assign]
        memory = KnowledgeView(witness, knowledge.store, NoveltyCheck(alike))
        author = LanguageModel(task, target, cost, memory, Recorded(Scripted(), storage))
        brief = Timed(author._briefing._brief)
        author._briefing._brief = brief  # type: ignore[method-assign]
        ground = DiagnosisGround(
            work=cost, operators=3, target=target, bandwidth=2e10, baselines={"eager": 1e-3}
        )
        search = Search(
            storage.begin("prompts", {}),
            POLICIES.create("beam"),
            task.settings,
            lambda attempt: diagnose(ground, attempt),
            lambda: 0.0,
            context="free",
            memory="rule",
        )
        clock = Clock()
        before = time.process_time()
        Driver(search, author, Synthetic(), storage, witness, clock).run()
        spent = time.process_time() - before
    how = "with retrieval" if retrieval else "without retrieval"
    _tell(clock, brief, found, retriever.timed, how)
    # Neighbours that take turns on the same cores do not count here.
    print(f"  processor time: {1e3 * spent / nodes:.1f} ms a candidate")


def _task(nodes: int) -> Task:
    task = load_task(EXAMPLE)
    settings = task.settings.model_copy(
        update={
            "search": task.settings.search.model_copy(update={"rounds": 1000}),
            "stop": task.settings.stop.model_copy(
                update={
                    "candidates": nodes,
                    "minutes": None,
                    "stalled_rounds": None,
                    "roofline": None,
                    "speedup": None,
                }
            ),
        }
    )
    return Task(
        name=task.name,
        path=task.path,
        reference=task.reference,
        source=task.source,
        settings=settings,
    )


def _tell(clock: Clock, brief: Timed, found: Timed, search: Timed, how: str) -> None:
    costs = [b - a for a, b in zip(clock.times, clock.times[1:], strict=False)]
    own = [1e3 * (a - b) for a, b in zip(brief.seconds, found.seconds, strict=True)]
    print(f"{how}: {len(costs)} candidates, {len(costs) / sum(costs):.0f} a second")
    print(
        f"  a prompt beyond retrieval: median {statistics.median(own):.1f} ms, 95 of 100 below "
        f"{statistics.quantiles(own, n=20)[-1]:.1f} ms, worst {max(own):.1f} ms ({len(own)} prompts)"
    )
    looked = 1e3 * statistics.median(search.seconds)
    print(f"  a retrieval: median {looked:.1f} ms ({len(search.seconds)} of {len(own)} prompts)")
    tenth = max(1, len(costs) // 10)
    for first in (0, len(costs) // 2, len(costs) - tenth):
        part = costs[first : first + tenth]
        print(
            f"  candidates {first} to {first + len(part)}: {len(part) / sum(part):.0f} a second, "
            f"median {1e3 * statistics.median(part):.1f} ms"
        )


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        knowledge = open_knowledge(Home(Path(folder)))
        for retrieval in (False, True):
            play(knowledge, nodes, retrieval=retrieval)


if __name__ == "__main__":
    main()
