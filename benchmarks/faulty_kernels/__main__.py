"""Judge random kernels with one random fault each, and count what is caught.

    python -m benchmarks.faulty_kernels
    python -m benchmarks.faulty_kernels 200 --device cuda -o gpu.json

The kernels are drawn by hypothesis (`tests/search/faulty.py`), built once, and judged by the judge of
this machine's processor, or of its GPU, with its trials, its oracle and a short timing session. A fault that changes
no answer on eight draws of inputs is counted apart: nobody could find it. Of what passes, the harm is
the greatest change of an answer relative to the greatest answer.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, settings

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "search"))

from faulty import (
    COLUMNS,
    INNER,
    KINDS,
    OPERATORS,
    ROWS,
    SOURCE,
    Fault,
    candidate,
    faults,
    reference,
)

from kb.native import load_cpp
from search.judged import Device
from search.judging import Judge
from search.judging.corpus.run import boundless_target
from search.judging.limits import Limits
from search.judging.local import open_local
from search.outcome import Outcome, Passed
from search.reference import load_problem
from search.task import Task, TaskFile

_LIMITS = {
    "cpu": Limits(timing_seconds=0.1, compile=False, memory=1 << 30),
    "cuda": Limits(timing_seconds=0.1, compile=False),
}
_RESULTS = {"cpu": "results.json", "cuda": "gpu_results.json"}
_DRAWS = 8


def main(arguments: Sequence[str]) -> None:
    """Draw, judge, print a table and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("kernels", nargs="?", type=int, default=1000)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="judge none after it")
    parser.add_argument("-o", "--output", type=Path, default=None)
    chosen = parser.parse_args(arguments)
    output = chosen.output or Path(__file__).with_name(_RESULTS[chosen.device])
    began = time.monotonic()
    judged = judge_all(draw(chosen.kernels), chosen.device, began + chosen.seconds)
    found = summary(judged, time.monotonic() - began)
    output.write_text(json.dumps(found, indent=1) + "\n")
    sys.stdout.write(table(found))


def draw(count: int) -> list[Fault]:
    """Return so many faults that differ, as many of each kind as there are; the same ones each time."""
    found: dict[str, dict[Fault, None]] = {kind: {} for kind in KINDS[1:]}

    @settings(
        max_examples=12 * count, derandomize=True, deadline=None, database=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(faults())
    def note(fault: Fault) -> None:
        found[fault.kind].setdefault(fault)

    note()
    turns = zip_longest(*(list(one) for one in found.values()))
    return [fault for turn in turns for fault in turn if fault is not None][:count]


def judge_all(
    drawn: Sequence[Fault], device: Device, end: float
) -> list[tuple[Fault, Outcome, float]]:
    """Return each fault with its outcome and its harm, after each operator's kernel without a fault.

    Args:
        end: the clock's time at which the last operator's last kernel is judged; each has an equal share of the time.
    """
    judged = []
    harm = harms()
    with tempfile.TemporaryDirectory(prefix="kb-faulty-") as folder:
        for place, operator in enumerate(OPERATORS):
            share = (end - time.monotonic()) / (len(OPERATORS) - place)
            last = time.monotonic() + share
            judge = open_judge(Path(folder), operator, device)
            try:
                judge.prepare(lambda _: None)
                control = judge.judge(candidate(Fault(operator=operator, kind="none"), device))
                if not isinstance(control, Passed):
                    raise SystemExit(f"{operator} without a fault is {control}")
                mine = [fault for fault in drawn if fault.operator == operator]
                for number, fault in enumerate(mine):
                    if time.monotonic() > last:
                        break
                    judged.append((fault, judge.judge(candidate(fault, device)), harm(fault)))
                    sys.stderr.write(f"\r{operator}: {number + 1} of {len(mine)} ")
                sys.stderr.write("\n")
            finally:
                judge.close()
    return judged


def open_judge(folder: Path, operator: str, device: Device) -> Judge:
    """Return a judge whose reference is one operator."""
    path = folder / f"{operator}.py"
    path.write_text(reference(operator))
    chosen = TaskFile.model_validate({"reference": path.name})
    task = Task(name=operator, path=path, reference=path, source=path.read_text(), settings=chosen)
    target = boundless_target(device)
    problem = load_problem(task, device=device)
    return open_local(device, problem, target, folder=folder / "judge", limits=_LIMITS[device])


def harms() -> Callable[[Fault], float]:
    """Return what tells how much a fault changes answers, by running it here."""
    library = load_cpp(SOURCE, "-ffp-contract=off")

    def answers(fault: Fault, draws: Sequence[torch.Tensor], w: torch.Tensor) -> list[torch.Tensor]:
        wide = 1 if fault.operator == "mean" else COLUMNS
        numbers = (KINDS.index(fault.kind), fault.row, fault.column, fault.height, fault.width)
        told = (ctypes.c_long * 5)(*numbers)
        found = []
        for x in draws:
            y = torch.full((ROWS, wide), 3.4e38)
            b = torch.ones(COLUMNS)
            sizes = (ROWS, COLUMNS, x.shape[1], OPERATORS.index(fault.operator))
            pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, w, b, y)]
            library.run(*pointers, *map(ctypes.c_long, sizes), told, ctypes.c_double(fault.amount))
            found.append(y)
        return found

    def harm(fault: Fault) -> float:
        torch.manual_seed(1)
        inner = INNER if fault.operator == "matmul" else COLUMNS
        draws = [torch.randn(ROWS, inner) * scale for scale in (1, 1, 1, 0.1, 10, 100)]
        draws += [torch.randn(ROWS, inner) + 100, torch.rand(ROWS, inner)]
        assert len(draws) == _DRAWS
        w = torch.randn(INNER, COLUMNS)
        right = answers(replace(fault, kind="none"), draws, w)
        wrong = answers(fault, draws, w)
        return max(
            float((a - b).abs().nan_to_num(1e38).max() / a.abs().max().clamp(min=1e-30))
            for a, b in zip(right, wrong, strict=True)
        )

    return harm


def summary(judged: Sequence[tuple[Fault, Outcome, float]], seconds: float) -> dict[str, Any]:
    """Return what was caught, by kind of fault and by operator, and all that was missed."""
    found: dict[str, Any] = {"kernels": len(judged), "seconds": round(seconds, 1)}
    for name in ("kind", "operator"):
        groups: dict[str, list[tuple[Fault, Outcome, float]]] = defaultdict(list)
        for one in judged:
            groups[getattr(one[0], name)].append(one)
        found[f"by_{name}"] = {key: _counted(groups[key]) for key in sorted(groups)}
    found["all"] = _counted(judged)
    missed = [one for one in judged if isinstance(one[1], Passed) and one[2] > 0]
    missed.sort(key=lambda one: -one[2])
    found["missed"] = [_told(*one) for one in missed]
    return found


def _counted(judged: Sequence[tuple[Fault, Outcome, float]]) -> dict[str, Any]:
    real = [one for one in judged if one[2] > 0]
    missed = [harm for _, outcome, harm in real if isinstance(outcome, Passed)]
    caught = [harm for _, outcome, harm in real if not isinstance(outcome, Passed)]
    return {
        "tried": len(judged),
        "without_effect": len(judged) - len(real),
        "caught": len(caught),
        "share": round(len(caught) / len(real), 4) if real else None,
        "outcomes": dict(Counter(outcome.kind for _, outcome, _ in real)),
        "smallest_caught": min(caught, default=None),
        "smallest_missed": min(missed, default=None),
        "greatest_missed": max(missed, default=None),
    }


def _told(fault: Fault, outcome: Passed | Outcome, harm: float) -> dict[str, Any]:
    error = {}
    if isinstance(outcome, Passed):
        error = {"error": outcome.max_error, "allowed": outcome.allowed_error}
    return {"fault": asdict(fault), "harm": harm, **error}


def table(found: dict[str, Any]) -> str:
    """Return the shares as a table."""
    rows = [
        (
            "kind of fault",
            "tried",
            "no effect",
            "caught",
            "share",
            "smallest missed",
            "greatest missed",
        )
    ]
    for kind, row in [*found["by_kind"].items(), ("all", found["all"])]:
        share = "" if row["share"] is None else f"{row['share']:.1%}"
        harms = [
            f"{row[name]:.2g}" if row[name] else ""
            for name in ("smallest_missed", "greatest_missed")
        ]
        counts = (row["tried"], row["without_effect"], row["caught"])
        rows.append((kind, *map(str, counts), share, *harms))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines) + f"\n{found['kernels']} kernels in {found['seconds']:.0f} s\n"


if __name__ == "__main__":
    main(sys.argv[1:])
