"""Judge programs against their reference, as a search does at its end, and print speed-ups.

    python benchmarks/judge_program.py examples/kernels/mish              # reference.py, program.py
    python benchmarks/judge_program.py examples/kernels/mish OTHER.py     # and another program
    python benchmarks/judge_program.py REFERENCE.py PROGRAM.py --seconds 1
    python benchmarks/judge_program.py REFERENCE.py PROGRAM.py --target h200    # a dry run where none is here

One JSON object a program: its fate, its seconds, those of eager and of torch.compile, and the
speed-up over each with the interval that the judge gives it.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kb.app.device import choose_place, make_judge
from search.judging import Judge
from search.judging.limits import Limits
from search.outcome import Checked, Passed
from search.reference import load_problem
from search.task import load_task


def told(program: Path, judge: Judge) -> dict[str, object]:
    """Judge one program and say what became of it."""
    outcome = judge.judge(program.read_text(), thorough=True)
    if isinstance(outcome, Checked):
        return {"program": str(program), "kind": outcome.kind, "unchecked": outcome.unchecked}
    if not isinstance(outcome, Passed):
        return {"program": str(program), **failure(outcome)}
    return {
        "program": str(program),
        "kind": outcome.kind,
        "seconds": float(f"{outcome.seconds:.4g}"),
        "speedup": {
            name: [round(x, 2) for x in (r.ratio, r.low, r.high)]
            for name, r in outcome.speedup.items()
        },
        "error_share": round(outcome.max_error / (outcome.allowed_error or 1), 3),
        "own_share": outcome.own_share,
        "gflops": outcome.profile.get("gflops"),
        "bandwidth": outcome.profile.get("bandwidth"),
    }


def failure(outcome: object) -> dict[str, object]:
    """Return what an outcome that did not pass says."""
    return {name: getattr(outcome, name, "") for name in ("kind", "reason", "detail")}


def judged(
    reference: Path, programs: Sequence[Path], target: str, *, seconds: float, seed: int = 1
) -> Iterator[dict[str, object]]:
    """Yield what the task takes on a device, and then what became of each program.

    Args:
        target: a device's name, or ``auto``.
        seconds: of timing, a program.
    """
    place, task = choose_place(target), load_task(reference)
    settings = task.settings.model_copy(update={"target": place.target.name})
    task = replace(task, settings=settings)
    with tempfile.TemporaryDirectory() as name:
        problem = load_problem(task, seed=seed, device=place.device)
        limits = Limits(thorough_seconds=seconds)
        judge = make_judge(place, task, problem, folder=Path(name), limits=limits)
        try:
            prepared = judge.prepare(lambda _: None)
            baselines = {n: float(f"{s:.4g}") for n, s in prepared.baselines.items()}
            work = prepared.work
            yield {
                "target": place.target.name,
                "timed": place.how != "dry",
                "baselines": baselines,
                "no_compile": prepared.compile_error,
                "flops": work and work.flops,
                "bytes": work and work.bytes,
            }
            for program in programs:
                yield told(program, judge)
        finally:
            judge.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path, help="a folder, or a reference and programs")
    parser.add_argument("--target", default="auto")
    parser.add_argument("--seconds", type=float, default=10.0, help="of timing, a program")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    reference, *programs = asked.paths
    if reference.is_dir():
        reference, programs = reference / "reference.py", [reference / "program.py", *programs]
    for row in judged(reference, programs, asked.target, seconds=asked.seconds, seed=asked.seed):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
