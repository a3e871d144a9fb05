"""Suites as text and as values: figures, and a line a problem."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kb.app.bench.figures import Against, figures
from kb.app.bench.record import SuiteRecord
from kb.app.bench.rows import SuiteRow, to_values
from kb.units import long_text, time_text

if TYPE_CHECKING:
    from rich.table import Table

_NAMES = {"eager": "eager", "compile": "torch.compile"}


def suite_values(found: SuiteRecord, *, rows: bool = True) -> dict[str, Any]:
    """Return a suite as `--json` prints it."""
    told: dict[str, Any] = {
        "suite": found.suite,
        "about": dict(found.about),
        "started": found.started,
        "open": found.open,
        "figures": asdict(figures(found.rows)),
    }
    return {**told, "rows": [to_values(row) for row in found.rows]} if rows else told


def row_lines(found: SuiteRecord) -> str:
    """Return one JSON object a problem, a line each, with what was asked of the suite."""
    same = {"suite": found.suite, "about": dict(found.about)}
    return "".join(json.dumps({**same, **to_values(row)}) + "\n" for row in found.rows)


def suite_text(found: SuiteRecord) -> str:
    """Return the figures of a suite, its problems, and the reasons of those that are not solved."""
    told = figures(found.rows)
    about = found.about
    asked = [f"precision {about['precision']}", f"author {about['author']}"]
    if about["candidates"]:
        asked.append(f"{about['candidates']} candidates")
    if about["seconds"]:
        asked.append(f"{about['seconds']:g} s")
    lines = [
        f"{found.suite} on {about['target']}: {', '.join(asked)}; judge {about['judge']}, torch {about['torch']}",
        f"  problems:  {told.problems} have ended, {told.judged} were judged, {told.solved} are solved"
        + (f", {told.checked} compiled only" if told.checked else "")
        + (f", {found.open} are open" if found.open else ""),
    ]
    if told.degenerate:
        lines.append(f"  apart:     {told.degenerate} degenerate: the answer is always the same")
    lines += [_against(one) for one in told.against if told.solved]
    if told.roofline is not None:
        lines.append(
            f"  roofline:  {told.roofline:.0%} of the attainable rate (median of the solved)"
        )
    answered = Counter[str]()
    for row in found.rows:
        answered.update(row.samples)
    if answered:
        of = sum(answered.values())
        lines.append(f"  samples:   {_samples(answered)}, of {of} that winners were asked besides")
    lines.append("")
    lines += [f"  {row_text(row)}" for row in found.rows]
    reasons = Counter(_cause(row) for row in found.rows if row.status in ("unsolved", "not_judged"))
    if reasons:
        lines += ["", "  not solved, by cause:"]
        lines += [f"  {count:>4}  {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def row_text(row: SuiteRow) -> str:
    """Return a problem in one line."""
    name = row.problem if len(row.problem) <= 44 else row.problem[:43] + "…"
    samples = f"; samples: {_samples(row.samples)}" if row.samples else ""
    if row.status == "checked":
        return f"{name:<44}  compiled and right in the interpreter, not timed{samples}"
    if row.status != "solved":
        return f"{name:<44}  {row.status.replace('_', ' ')}: {row.reason}"
    told = ", ".join(
        f"{one.ratio:.2f}x ({one.low:.2f} to {one.high:.2f}) over {_NAMES.get(base, base)}"
        for base, one in row.speedup.items()
    )
    seconds = row.baselines.get("eager")
    eager = f"; eager {time_text(seconds)}" if seconds else ""
    return f"{name:<44}  {told}{eager}{samples}; {row.precision}, {long_text(row.seconds)}"


def _samples(counts: Mapping[str, int]) -> str:
    words = {"own": "by own kernels", "library": "by the library", "wrong": "wrong"}
    return ", ".join(f"{counts[by]} {told}" for by, told in words.items() if counts.get(by))


def suite_table(found: Sequence[SuiteRecord]) -> Table:
    """Return the list of suites."""
    from rich.table import Table

    table = Table("suite", "target", "precision", "solved of judged", "fast_1 over torch.compile",
                  "mean, failures as 1.0", "open", box=None)  # fmt: skip
    for one in found:
        told = figures(one.rows)
        compiled = next(each for each in told.against if each.baseline == "compile")
        whole = f"{compiled.whole:.2f}x" if compiled.whole is not None else ""
        table.add_row(
            one.suite, str(one.about["target"]), str(one.about["precision"]),
            f"{told.solved} of {told.judged}", f"{compiled.fast['1']:.0%}", whole, str(one.open or ""),
        )  # fmt: skip
    return table


def _against(one: Against) -> str:
    fast = ", ".join(f"fast_{p} {share:.0%}" for p, share in one.fast.items())
    mean = f"{one.solved:.2f}x of {one.number} solved" if one.solved is not None else "none solved"
    whole = f"{one.whole:.2f}x of {one.of} with failures as 1.0" if one.whole is not None else ""
    without = f"; {one.without} solved without it" if one.without else ""
    name = _NAMES.get(one.baseline, one.baseline)
    return f"  over {name}: {fast}; geometric mean {mean}, {whole}{without}"


def _cause(row: SuiteRow) -> str:
    """Return a reason without what is particular to one problem's file."""
    reason = row.reason.partition(": see /")[0]
    head, colon, rest = reason.partition(".py: ")
    return (rest if colon and " " not in head else reason)[:110]
