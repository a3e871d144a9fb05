"""Write the graded tasks that `kb` ships, from the cases that are not held out.

    python -m benchmarks.loop_retrieval.examples

A task that is held out never goes into this file.
"""

from __future__ import annotations

import json
from typing import Any

from benchmarks.loop_retrieval.__main__ import graded
from benchmarks.loop_retrieval.cases import LIBRARIES, Loaded, load_cases
from kb.config import shipped_docs
from kb.records.patterns import FOLDERS
from kb.words import split_words
from search.patterns.graded_tasks import FILE
from search.patterns.recognise import read_program


def main() -> None:
    """Write the file."""
    tasks: dict[str, dict[str, Any]] = {}
    cases = load_cases()
    held_out = {one.task for one in cases if one.part == "held-out"}
    for one in cases:
        # Nor what another lot wrote under the name of a task that is held out.
        if one.task in held_out:
            continue
        if one.task not in tasks:
            tasks[one.task] = _task(one)
        tasks[one.task]["cases"].append(_case(one))
    whole = graded(len(LIBRARIES) - 1)
    unknown = [sorted(whole - graded(one)) for one in range(len(LIBRARIES))]
    path = shipped_docs() / FILE
    lines = ",\n".join(json.dumps(one) for one in tasks.values())
    path.write_text(
        f'{{"unknown": {json.dumps(unknown)},\n"tasks": [\n{lines}\n]}}\n', encoding="utf-8"
    )
    print(f"{len(tasks)} tasks, {path.stat().st_size} bytes")


def _task(one: Loaded) -> dict[str, Any]:
    program = read_program(one.task, one.source, one.graph)
    return {
        "task": one.task,
        "generation": one.generation,
        "traits": sorted(program.traits),
        "shares": {name: round(share, 3) for name, share in program.shares.items()},
        "operators": sorted(program.operators),
        "words": sorted(program.text.words),
        "cases": [],
    }


def _case(one: Loaded) -> dict[str, Any]:
    case = one.case
    grades = {
        name: grade
        for name, grade in case.grades.items()
        if name.partition("/")[0] in FOLDERS.values()
    }
    device = "cpu" if case.language == "cpp" else "gpu"
    found: dict[str, Any] = {"device": device, "stage": case.stage, "grades": grades}
    if case.symptoms:
        found["symptoms"] = case.symptoms
    step = one.step(0)
    told = split_words(step.message or step.text)
    if told:
        found |= {"outcome": step.outcome, "told": sorted(set(told))}
    return found


if __name__ == "__main__":
    main()
