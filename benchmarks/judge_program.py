"""CpuJudge programs against their reference, as a search does at its end, and print speed-ups.

    python benchmarks/judge_program.py examples/kernels/mish              # reference.py, program.py
    python benchmarks/judge_program.py examples/kernels/mish OTHER.py     # and another program
    python benchmarks/judge_program.py REFERENCE.py PROGRAM.py --seconds 1

One JSON object a program: its fate, its seconds, those of eager and of torch.compile, and the
speed-up over each with the interval that the judge gives it.
"""

import argparse
import json
import tempfile
from pathlib import Path

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.schema import TargetRecord
from search.judging.cpu.judge import CpuJudge
from search.judging.limits import Limits
from search.outcome import Passed
from search.reference import load_problem
from search.targets.cpu import match_target, read_facts
from search.task import load_task


def here() -> TargetRecord:
    """Return the record of this machine's processor."""
    described = [d for d in load_library(shipped_docs()) if isinstance(d.record, TargetRecord)]
    record = match_target(described, read_facts()).record
    assert isinstance(record, TargetRecord)
    return record


def told(program: Path, judge: CpuJudge) -> dict[str, object]:
    """CpuJudge one program and say what became of it."""
    outcome = judge.judge(program.read_text(), thorough=True)
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
    return {name: getattr(outcome, name) for name in ("kind", "reason", "detail")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path, help="a folder, or a reference and programs")
    parser.add_argument("--seconds", type=float, default=10.0, help="of timing, a program")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    reference, *programs = asked.paths
    if reference.is_dir():
        reference, programs = reference / "reference.py", [reference / "program.py", *programs]
    target = here()
    with tempfile.TemporaryDirectory() as name:
        problem = load_problem(load_task(reference), seed=asked.seed)
        limits = Limits(thorough_seconds=asked.seconds)
        judge = CpuJudge(problem, target, folder=Path(name), limits=limits)
        prepared = judge.prepare()
        baselines = {n: float(f"{s:.4g}") for n, s in prepared.baselines.items()}
        work = prepared.work
        print(json.dumps({"target": target.name, "baselines": baselines, "no_compile": prepared.compile_error,
                          "flops": work and work.flops, "bytes": work and work.bytes}), flush=True)  # fmt: skip
        for program in programs:
            print(json.dumps(told(program, judge)), flush=True)
        judge.close()


if __name__ == "__main__":
    main()
