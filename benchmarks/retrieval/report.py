"""Tables for people, plain values for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.retrieval.measures import HEADINGS, Interval, Marks, differences, grades, intervals
from benchmarks.retrieval.methods import EFFECT, FUSION
from benchmarks.retrieval.questions import EXACT, KINDS
from benchmarks.retrieval.runner import Result

SHOWN = ("ndcg", "recall", "mrr", "found", "good_recall")


def tables(result: Result) -> str:
    """Return the tables of one corpus as Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    lines = [
        f"## {result.corpus}: {len(result.questions)} questions ({result.split}), "
        f"{result.passages} passages" + (f" of {versions}" if versions else ""),
        "",
        "| method | " + " | ".join(HEADINGS[name] for name in SHOWN) + " |",
        "|---|" + "---|" * len(SHOWN),
    ]
    for method, marks in result.marks.items():
        found = intervals(marks)
        lines.append(_row(method, [_interval(found[name]) for name in SHOWN]))
    hybrid = result.marks["hybrid"]
    for method in ("bm25", "dense", FUSION):
        gain = differences(hybrid, result.marks[method])
        lines.append(_row(f"hybrid minus {method}", [_signed(gain[name]) for name in SHOWN]))
    gain = differences(result.marks[EFFECT], hybrid)
    lines.append(_row("effect: what it adds", [_signed(gain[name]) for name in SHOWN]))
    lines += ["", "| questions | number | " + " | ".join(_kind_headings(result)) + " |"]
    lines.append("|---|---|" + "---|" * len(_kind_headings(result)))
    for name, rows in _groups(result):
        if rows:
            lines.append(_row(name, [str(len(rows)), *_kind_cells(result, rows)]))
    return "\n".join(lines) + "\n"


def misses(result: Result) -> str:
    """Return what hybrid did not place among the first five, with what it placed instead."""
    lines = []
    for question, ranking in zip(result.questions, result.rankings["hybrid"], strict=True):
        found = grades(question, ranking)
        wanted = sum(grade == EXACT for grade, _ in question.graded())
        if sum(grade == EXACT for grade in found[:5]) < min(5, wanted):
            lines.append(f"{question.id} [{question.kind}] {question.ask}")
            lines += [
                f"    wanted {answer.text}" for grade, answer in question.graded() if grade == EXACT
            ]
            lines += [
                f"    {place}. ({grade}) {passage.document} | {passage.section}"
                for place, (grade, passage) in enumerate(zip(found, ranking, strict=False), 1)
            ]
    return "\n".join(lines) + "\n"


def as_plain(result: Result) -> dict[str, Any]:
    """Return plain values."""
    hybrid = result.marks["hybrid"]
    return {
        "corpus": result.corpus,
        "split": result.split,
        "versions": result.versions,
        "passages": result.passages,
        "absent": result.absent,
        "measures": {
            method: {name: asdict(one) for name, one in intervals(marks).items()}
            for method, marks in result.marks.items()
        },
        "hybrid_minus": {
            method: {name: asdict(one) for name, one in differences(hybrid, marks).items()}
            for method, marks in result.marks.items()
            if method != "hybrid"
        },
        "questions": [
            {
                "id": question.id,
                "kind": question.kind,
                "held_out": question.held_out,
                **{method: asdict(marks[n]) for method, marks in result.marks.items()},
            }
            for n, question in enumerate(result.questions)
        ],
    }


def _groups(result: Result) -> list[tuple[str, list[int]]]:
    """Return the rows of each kind, and of the questions that were tuned on and held out."""
    numbered = list(enumerate(result.questions))
    groups: list[tuple[str, list[int]]] = [
        (kind, [n for n, question in numbered if question.kind == kind]) for kind in KINDS
    ]
    for name, held_out in (("tuned on", False), ("held out", True)):
        groups.append((name, [n for n, one in numbered if one.held_out == held_out]))
    return groups


def _kind_headings(result: Result) -> list[str]:
    return [f"{method}: nDCG, recall, MRR" for method in result.marks]


def _kind_cells(result: Result, rows: Sequence[int]) -> list[str]:
    cells = []
    for marks in result.marks.values():
        some: list[Marks] = [marks[row] for row in rows]
        found = intervals(some)
        means = (found[name].mean for name in ("ndcg", "recall", "mrr"))
        cells.append(", ".join(f"{mean:.3f}" for mean in means))
    return cells


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | " + " | ".join(cells) + " |"


def _interval(one: Interval) -> str:
    return f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]"


def _signed(one: Interval) -> str:
    return f"{one.mean:+.3f} [{one.low:+.3f}, {one.high:+.3f}]"
