"""What judging costs beyond compiling and timing, where it goes, and whether that grows.

    python benchmarks/overhead.py [candidates]

Each candidate is a new source with a new C++ kernel. The seconds of each judging are charged to its
phases: the build; starting the runner, which lies within the build; loading; the questions on every
distribution; the timing session with the look at where its time goes; ending the runner; what lies
between. Overhead is all but the build and the timing session. `alone` is a build of the same source
with another number in it, beside which no runner starts. On a busy machine, processor time says more
than the clock.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kb.records.schema import TargetRecord
from search.judging.cpu.judge import CpuJudge
from search.judging.cpu.session import CandidateSession
from search.judging.limits import Limits
from search.reference import load_problem
from search.sandbox.build import Builder
from search.sandbox.ptrace import kernel_text
from search.sandbox.runner_handle import Worker
from search.task import Task, TaskFile

REFERENCE = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.rand(128, 512)]
def get_init_inputs():
    return [512]
"""
CANDIDATE = """
import ctypes
import torch
import torch.nn as nn
from kb.native import load_cpp
LIB = load_cpp(r'''
// candidate @NUMBER@
#include <math.h>
extern "C" void run(const float *x, const float *g, const float *c, float *y, long m, long n) {
  for (long i = 0; i < m; i++) {
    const float *a = x + i * n; float *b = y + i * n; float mean = 0, var = 0;
    for (long j = 0; j < n; j++) mean += a[j];
    mean /= n;
    for (long j = 0; j < n; j++) var += (a[j] - mean) * (a[j] - mean);
    float r = 1 / sqrtf(var / n + 1e-5f);
    for (long j = 0; j < n; j++) b[j] = (a[j] - mean) * r * g[j] + c[j];
  }
}''', '-ffast-math')
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
    def forward(self, x):
        y = torch.empty_like(x)
        tensors = (x, self.norm.weight, self.norm.bias, y)
        LIB.run(*[ctypes.c_void_p(t.data_ptr()) for t in tensors], *map(ctypes.c_long, x.shape))
        return y
"""
TARGET = TargetRecord(
    kind="target", title="Any processor", name="any", vendor="any", architecture="any", device="cpu",
    languages=("cpp",), units=1, clock=5e9, simd_width=512, peak={"float32": 1e12}, bandwidth=1e12,
)  # fmt: skip


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "reference.py"
        path.write_text(REFERENCE)
        settings = TaskFile(reference=path.name)
        task = Task(name="norm", path=path, reference=path, source=REFERENCE, settings=settings)
        limits = Limits(compile=False, timing_seconds=0.1)
        judge = CpuJudge(load_problem(task), TARGET, folder=folder, limits=limits)
        judge.prepare()
        phases = Phases()
        rows = []
        for number in range(count):
            began = time.perf_counter()
            judge._builder.build(CANDIDATE.replace("@NUMBER@", f"alone {number}"))
            alone = [time.perf_counter() - began, 0.0, 0.0]
            phases.clear()
            with phases.of("all"):
                outcome = judge.judge(CANDIDATE.replace("@NUMBER@", str(number)))
            assert outcome.kind == "passed", outcome
            rows.append({**phases.spent(), "alone": alone})
        judge.close()
    print(json.dumps(summary(rows)))


class Phases:
    """Seconds of the phases of a judging: by the clock, and of the judge's and the runner's processor time."""

    def __init__(self) -> None:
        self._spent: dict[str, list[float]] = {}
        self._runner: int | None = None
        for owner, method, phase in (
            (Builder, "build", "build"),
            (CpuJudge, "_worker", "start"),
            (CandidateSession, "load", "load"),
            (CandidateSession, "question", "question"),
            (CpuJudge, "_time", "timing"),
            (Worker, "close", "end"),
        ):
            self._charge(owner, method, phase)

    def clear(self) -> None:
        """Begin with another candidate."""
        self._spent.clear()
        self._runner = None

    def spent(self) -> dict[str, list[float]]:
        """Return the seconds of each phase, what lies between them and what is beyond build and timing."""
        told = {phase: list(seconds) for phase, seconds in self._spent.items()}
        whole = told.pop("all")
        # A runner starts while its candidate's compiler runs.
        parts = [seconds for phase, seconds in told.items() if phase != "start"]
        # The runner has ended by then: nothing is known of it.
        told["between"] = [max(0.0, a - sum(b)) for a, *b in zip(whole, *parts, strict=True)]
        parts = [
            seconds for phase, seconds in told.items() if phase not in {"start", "build", "timing"}
        ]
        return {**told, "overhead": [sum(one) for one in zip(*parts, strict=True)]}

    @contextmanager
    def of(self, phase: str) -> Iterator[None]:
        """Charge what the body takes to a phase."""
        before = self._now()
        try:
            yield
        finally:
            there = self._spent.setdefault(phase, [0.0, 0.0, 0.0])
            for place, (a, b) in enumerate(zip(before, self._now(), strict=True)):
                there[place] += max(0.0, b - a)

    def _now(self) -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), _processor_seconds(self._runner)

    def _charge(self, owner: type, method: str, phase: str) -> None:
        """Have `method` charged to `phase`."""
        real = getattr(owner, method)

        def charged(*args: Any, **kwargs: Any) -> Any:
            with self.of(phase):
                made = real(*args, **kwargs)
                if isinstance(made, Worker):
                    self._runner = made.child.pid
                return made

        setattr(owner, method, charged)


def _processor_seconds(pid: int | None) -> float:
    """Return the processor time of a process so far, 0 where it has ended."""
    try:
        told = "0" if pid is None else kernel_text(pid, "schedstat")
    except OSError:
        told = "0"
    return int(told.split()[0]) / 1e9


def summary(rows: list[dict[str, list[float]]]) -> dict[str, Any]:
    """Return medians over candidates, in milliseconds: wall, the judge's and the runner's processor time."""
    walls = [row["overhead"][0] for row in rows]
    quarter = max(1, len(rows) // 4)
    return {
        "candidates": len(rows),
        "median_ms": _milliseconds(walls),
        "first_quarter_ms": _milliseconds(walls[:quarter]),
        "last_quarter_ms": _milliseconds(walls[-quarter:]),
        "worst_ms": round(1e3 * max(walls), 1),
        "phases_ms": {
            phase: dict(
                zip(
                    ("wall", "judge", "runner"),
                    (_milliseconds([row[phase][place] for row in rows]) for place in range(3)),
                    strict=True,
                )
            )
            for phase in rows[0]
        },
    }


def _milliseconds(seconds: list[float]) -> float:
    return round(1e3 * statistics.median(seconds), 2)


if __name__ == "__main__":
    main()
