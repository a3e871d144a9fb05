"""What judging costs beyond compiling and timing, and whether that grows.

    python benchmarks/overhead.py [candidates]

Each candidate is a new source with a new C++ kernel. From the seconds of each judging those of the
build and of the timing session (and of the look at where its time goes) are taken away; what is left
is starting, confining, loading, questioning on every distribution, comparing and killing.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from kb.records.schema import TargetRecord
from search.judging.cpu.judge import CpuJudge
from search.judging.limits import Limits
from search.reference import load_problem
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
        apart = {"seconds": 0.0}
        _charge(CpuJudge, "_time", apart)
        overheads = []
        for number in range(count):
            apart["seconds"] = 0.0
            start = time.perf_counter()
            outcome = judge.judge(CANDIDATE.replace("@NUMBER@", str(number)))
            whole = time.perf_counter() - start
            assert outcome.kind == "passed", outcome
            overheads.append(whole - outcome.build_seconds - apart["seconds"])
        judge.close()
    quarter = max(1, count // 4)
    told = {
        "candidates": count,
        "median_ms": round(1e3 * statistics.median(overheads), 1),
        "first_quarter_ms": round(1e3 * statistics.median(overheads[:quarter]), 1),
        "last_quarter_ms": round(1e3 * statistics.median(overheads[-quarter:]), 1),
        "worst_ms": round(1e3 * max(overheads), 1),
    }
    print(json.dumps(told))


def _charge(owner: type, method: str, apart: dict[str, float]) -> None:
    """Have `method` add the seconds it takes to `apart`."""
    real = getattr(owner, method)

    def charged(*args: object, **kwargs: object) -> object:
        start = time.perf_counter()
        try:
            return real(*args, **kwargs)
        finally:
            apart["seconds"] += time.perf_counter() - start

    setattr(owner, method, charged)


if __name__ == "__main__":
    main()
