"""Ask every case as the loop does, and print what came of it: `python -m benchmarks.loop_retrieval`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import get_args

from benchmarks.loop_retrieval.cases import LIBRARIES, Loaded, Part, load_cases
from benchmarks.loop_retrieval.measures import Marks, interval, mark
from kb.config import Home
from kb.knowledge import open_knowledge
from kb.records.patterns import FOLDERS
from kb.records.types import Answer, Hit
from kb.retrieval.multi_query.merge import record_name

TOKENS = 10_000  # room for passages
SHOWN = ("ndcg", "central", "useless", "nothing", "given", "tokens", "menu")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.loop_retrieval", description=__doc__
    )
    parser.add_argument("--cases", choices=("all", *get_args(Part)), default="all")
    parser.add_argument("--misses", action="store_true", help="list what is missing, by case")
    parser.add_argument("--json", action="store_true", help="print every case's marks")
    parser.add_argument(
        "--leave-out",
        type=int,
        default=0,
        metavar="N",
        help="ask about each task without its patterns that at most N tasks show; no held-out case then",
    )
    given = parser.parse_args()
    cases = [one for one in load_cases() if given.cases in ("all", one.part)]
    left_out: Mapping[str, frozenset[str]] = {}
    if given.leave_out:
        cases = [one for one in cases if one.part != "held-out"]
        left_out = own_patterns(cases, given.leave_out)
    knowledge = open_knowledge(Home.find())
    rows: list[tuple[Loaded, Marks]] = []
    took: list[float] = []
    for one in cases:
        graded = one.others()  # fitted once in a process that searches: no part of a prompt's time
        began = time.perf_counter()
        asking = one.questions(left_out.get(one.task, frozenset()), graded)
        inquiry = asking.inquiry(one.step(TOKENS))
        answer = knowledge.retriever.inquire(inquiry)
        hits = answer.hits
        took.append(time.perf_counter() - began)
        names = [name for hit in hits if is_graded(name := name_of(hit), one.generation)]
        tokens = sum(hit.passage.tokens for hit in hits)
        rows.append((one, mark(names, one.case.grades, tokens, listed(answer))))
        if given.misses:
            tell_misses(one, names)
    if given.json:
        print(
            json.dumps(
                [{"task": c.task, "stage": c.stage, "part": c.part, **asdict(m)} for c, m in rows]
            )
        )
    else:
        print_tables(rows, took)
    return 0


def own_patterns(cases: Sequence[Loaded], most: int) -> dict[str, frozenset[str]]:
    """Return by task its patterns of computations that at most `most` tasks show.

    Without them a task is one for which nobody wrote a pattern, as most tasks of users are.
    """
    showing: dict[str, set[str]] = defaultdict(set)
    for one in cases:
        for found in one.questions().recognised(one.step(TOKENS)):
            if found.pattern.area == "computation":
                showing[found.pattern.name].add(one.task)
    rare = {name: tasks for name, tasks in showing.items() if len(tasks) <= most}
    return {
        one.task: frozenset(name for name, tasks in rare.items() if one.task in tasks)
        for one in cases
    }


def listed(answer: Answer) -> list[str]:
    """Return the records whose titles a prompt would show beside what is quoted."""
    return [f"{folder}/{entry.name}" for entry in answer.menu for folder in ("ideas", "kernels")]


@cache
def graded(generation: int) -> frozenset[str]:
    """Return the records that were there when the cases of a generation were graded."""
    here = Path(__file__).parent
    files = [here / one for one in LIBRARIES[: generation + 1]]
    return frozenset(name for one in files for name in one.read_text(encoding="utf-8").split())


def is_graded(name: str, generation: int) -> bool:
    """Say whether a document counts: a record that came to the library later was never graded."""
    return (
        "/" not in name
        or name.partition("/")[0] not in FOLDERS.values()
        or name in graded(generation)
    )


def name_of(hit: Hit) -> str:
    """Return what cases call a hit's document."""
    return record_name(hit.passage.kind, hit.passage.document) or hit.passage.document


def tell_misses(one: Loaded, names: Sequence[str]) -> None:
    """Print the central documents that were not given, and what stands in vain."""
    grades = one.case.grades
    missing = [name for name, grade in grades.items() if grade == 3 and name not in names]
    vain = [name for name in names if name not in grades]
    print(f"{one.area}/{one.task} {one.stage} {one.case.target}: missing {missing}; vain {vain}")


def print_tables(rows: Sequence[tuple[Loaded, Marks]], took: Sequence[float]) -> None:
    """Print the measures over all cases and by group."""
    groups: list[tuple[str, Callable[[Loaded], str]]] = [
        ("all", lambda _: "all cases"),
        ("part", lambda one: one.part),
        ("stage", lambda one: one.stage),
        ("area", lambda one: one.area),
        ("device", lambda one: "processor" if one.case.language == "cpp" else "GPU"),
    ]
    print(f"| cases | number | {' | '.join(SHOWN)} |\n|{'---|' * (len(SHOWN) + 2)}")
    for _, key in groups:
        by_group: dict[str, list[tuple[Loaded, Marks]]] = defaultdict(list)
        for one, marks in rows:
            by_group[key(one)].append((one, marks))
        for name, members in by_group.items():
            print(f"| {name} | {len(members)} | {' | '.join(_cells(members))} |")
    middle = sorted(took)[len(took) // 2]
    print(f"\n{1e3 * middle:.0f} ms a case (median), {1e3 * max(took):.0f} ms at most")


def _cells(members: Sequence[tuple[Loaded, Marks]]) -> list[str]:
    tasks = [one.task for one, _ in members]
    cells = []
    for name in SHOWN:
        mean, low, high = interval(tasks, [getattr(marks, name) for _, marks in members])
        digits = 0 if name in {"given", "tokens"} else 3
        cells.append(f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]")
    return cells


if __name__ == "__main__":
    sys.exit(main())
