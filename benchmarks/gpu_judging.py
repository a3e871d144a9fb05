"""What the judge on a GPU costs, how well a figure of it repeats, and what its clock sees beyond events.

    python benchmarks/gpu_judging.py                 # 30 candidates, one after the other
    python benchmarks/gpu_judging.py --candidates 100
    python benchmarks/gpu_judging.py --repeat 10     # one kernel in ten separate runs
    python benchmarks/gpu_judging.py --beside 8      # the ratio beside drivers that come up, and contexts that are made
    python benchmarks/gpu_judging.py --queues 8      # the ratio where programs have two hardware queues, and eight
    python benchmarks/gpu_judging.py --starts        # what starting and ending a process with a context takes
    python benchmarks/gpu_judging.py --gaps 'honest/*'   # cases of the corpus
    python benchmarks/gpu_judging.py --gaps '*' --part 1 4

Needs the device, torch and Triton. Every candidate is a new source for a LayerNorm of 8192 rows of 1,024.
From the seconds of each, those of compiling (Triton's and ptxas's, in the runner and here) and of the
timing session are taken away; what is left is starting, confining, loading, questioning on every
distribution, comparing, profiling and killing. `waiting` is the part of it in which a measurement does not begin, because the
next runner's context is being made or the last one is not gone: a candidate that compiles for longer has less of it.

A program that records the events of its callers again hides its time from them, and the clock sees it. How much may be charged
depends on how far honest programs are from the framework there: `--gaps` tells what a call takes by the clock more than by its
events, less the same of eager, in microseconds: least, middle and greatest of a session's blocks, then eager's. Behind it stands by
how much the events of two calls are further apart than where there are none between them, and last the same of the framework: a
start that is recorded again is seen there.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kb.records.schema import TargetRecord
from search.judged import plain_target
from search.judging.corpus.cases import choose_cases
from search.judging.corpus.run import CorpusRunner
from search.judging.cuda.gap import Gap
from search.judging.cuda.interleaved_timing import CudaTimingSession
from search.judging.cuda.judge import CudaJudge
from search.judging.cuda.worker import makes_streams
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
    return [torch.rand(8192, 1024)]
def get_init_inputs():
    return [1024]
"""
CANDIDATE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl
@triton.jit
def norm(x, w, b, y, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, B)
    inside = col < n
    v = tl.load(x + row * n + col, mask=inside, other=0.0)
    mean = tl.sum(v, 0) / n
    d = tl.where(inside, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / n + eps + @NUMBER@e-30)
    tl.store(y + row * n + col, d * scale * tl.load(w + col, mask=inside) + tl.load(b + col, mask=inside), mask=inside)
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
    def forward(self, x):
        y = torch.empty_like(x)
        m = self.norm
        norm[(x.shape[0],)](x, m.weight, m.bias, y, x.shape[1], m.eps, B=1024, num_warps=8)
        return y
"""
TARGET = TargetRecord(
    kind="target", title="H200", name="h200", vendor="nvidia", architecture="sm_90", device="gpu",
    languages=("triton",), units=132, simd_width=32, clock=1.98e9, flops_per_cycle={"float32": 256}, bandwidth=4.8e12,
    peak={"float32": 67.0e12, "tf32": 494.7e12, "float16": 989.4e12, "bfloat16": 989.4e12},
)  # fmt: skip


def open_judge(folder: Path, *, compiled: bool) -> CudaJudge:
    path = folder / "norm.py"
    path.write_text(REFERENCE)
    settings = TaskFile(reference=path.name)
    task = Task(name="norm", path=path, reference=path, source=REFERENCE, settings=settings)
    limits = Limits(compile=compiled)
    problem = load_problem(task, device="cuda")
    return CudaJudge(problem, plain_target(TARGET), folder=folder, limits=limits)


def throughput(count: int) -> None:
    spent: dict[str, float] = {}

    def clocked(name: str, call):
        def run(*args, **kwargs):
            start = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - start

        return run

    with tempfile.TemporaryDirectory() as folder:
        judge = open_judge(Path(folder), compiled=True)
        try:
            start = time.perf_counter()
            judge.prepare()
            print(f"preparation {time.perf_counter() - start:.1f} s (eager, torch.compile, truth)")
            judge._race = clocked("timing", judge._race)
            # Both in the session of timing, and no timing.
            judge._spares.rest = clocked("waiting", judge._spares.rest)
            judge._spares.start = clocked("starting", judge._spares.start)
            from search.judging.cuda.session import CudaCandidateSession

            # The first call compiles; what the same call takes once compiled is left in the rest.
            CudaCandidateSession.question = first_call(CudaCandidateSession.question, spent)
            rows = []
            for number in range(count):
                spent.clear()
                start = time.perf_counter()
                outcome = judge.judge(CANDIDATE.replace("@NUMBER@", str(number + 1)))
                total = time.perf_counter() - start
                assert outcome.kind == "passed", outcome
                timing = spent["timing"] - spent["waiting"] - spent["starting"]
                rest = total - timing - spent["first"]
                rows.append((total, timing, spent["first"], rest, spent["waiting"]))
        finally:
            judge.close()
    rows = rows[1:]
    for name, column in zip(
        ("whole", "timing", "compiling", "the rest", "waiting"),
        zip(*rows, strict=True),
        strict=True,
    ):
        print(
            f"{name:10s} median {statistics.median(column) * 1e3:7.0f} ms, worst {max(column) * 1e3:7.0f} ms"
        )
    print(f"{60 / statistics.median(row[0] for row in rows):.0f} candidates a minute")


def first_call(question, spent):
    def run(candidate_session):
        batch, took = candidate_session.batches.run, []

        def timed(calls, *more, **named):
            start = time.perf_counter()
            try:
                return batch(calls, *more, **named)
            finally:
                took.append((time.perf_counter() - start) / calls)

        candidate_session.batches.run = timed
        question(candidate_session)
        candidate_session.batches.run = batch
        spent["first"] = took[0] - min(took)

    return run


_STARTS = """
import ctypes, os, signal, sys, time
import torch

def start(context):
    began = time.perf_counter()
    driver = ctypes.CDLL("libcuda.so.1")
    assert driver.cuInit(0) == 0
    driven = time.perf_counter()
    torch.cuda.init()
    up = time.perf_counter()
    if context:
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0) == 0
    ready = time.perf_counter()
    told = [(driven - began, "driver"), (up - driven, "devices"), (ready - up, "context")]
    return ", ".join(f"{name} {seconds * 1e3:.0f} ms" for seconds, name in told)

def again(context):
    parent = os.getppid()
    print("begun", flush=True)
    while os.getppid() == parent:
        if os.fork() == 0:
            start(context)
            os._exit(0)
        os.wait()
        time.sleep(0.15)

def several(together):
    began, children = time.perf_counter(), []
    for _ in range(together):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(writing, start(True).encode())
            time.sleep(60)
        os.close(writing)
        children.append((pid, reading))
    said = [os.read(reading, 200).decode() for _, reading in children]
    started = time.perf_counter()
    for pid, _ in children:
        os.kill(pid, signal.SIGKILL)
    for pid, _ in children:
        os.waitpid(pid, 0)
    ended = time.perf_counter()
    print(f"{together} at once: {(started - began) * 1e3:.0f} ms ({said[0]}), end {(ended - started) * 1e3:.0f} ms")

if sys.argv[1] == "count":
    for together in (1, 1, 2, 4, 8):
        several(together)
else:
    again(sys.argv[1] == "context")
"""


def beside(count: int) -> None:
    """Print the ratio of one kernel in `count` judgings each: alone, beside drivers that come up, and beside contexts."""
    found: dict[str, list[float]] = {"alone": [], "driver": [], "context": []}
    with tempfile.TemporaryDirectory() as folder:
        judge = open_judge(Path(folder), compiled=True)
        try:
            for number in range(count):
                for name in random.sample(list(found), len(found)):
                    command = [sys.executable, "-c", _STARTS, name]
                    other = None
                    if name != "alone":
                        other = subprocess.Popen(
                            command, stdout=subprocess.PIPE, start_new_session=True
                        )
                        assert other.stdout is not None
                        other.stdout.readline()
                    try:
                        source = CANDIDATE.replace("@NUMBER@", f"{number}{len(name)}")
                        found[name].append(judge.judge(source).speedup["eager"].ratio)
                    finally:
                        if other is not None:
                            os.killpg(other.pid, signal.SIGKILL)
                            other.wait()
        finally:
            judge.close()
    _print_ratios(found)


def queues(count: int) -> None:
    """Print the ratio of one kernel in `count` judgings each, with two hardware queues and with all, in turns."""
    found: dict[str, list[float]] = {"two": [], "all": []}
    with tempfile.TemporaryDirectory() as folder:
        judge = open_judge(Path(folder), compiled=True)
        try:
            for number in range(count):
                for name in random.sample(list(found), len(found)):
                    source = CANDIDATE.replace("@NUMBER@", f"{number}{name == 'all':d}")
                    if name == "all":
                        source += "\n# Stream: what the judge looks for\n"
                    assert makes_streams(source) == (name == "all")
                    judge._spares.close()  # else one of them alone has a driver beside it
                    found[name].append(judge.judge(source).speedup["eager"].ratio)
        finally:
            judge.close()
    _print_ratios(found)


def _print_ratios(found: dict[str, list[float]]) -> None:
    for name, ratios in found.items():
        print(f"{name:8s} median {statistics.median(ratios):.4f}x over eager of {sorted(ratios)}")


def starts() -> None:
    """Print what one process, and several at once, take to start with a context, and to end."""
    for queues in ("8", "2"):
        print(f"{queues} hardware queues")
        environment = {**os.environ, "CUDA_DEVICE_MAX_CONNECTIONS": queues}
        subprocess.run([sys.executable, "-c", _STARTS, "count"], env=environment, check=True)


def once() -> None:
    with tempfile.TemporaryDirectory() as folder:
        judge = open_judge(Path(folder), compiled=False)
        try:
            outcome = judge.judge(CANDIDATE.replace("@NUMBER@", "1"), thorough=True)
        finally:
            judge.close()
    assert outcome.kind == "passed", outcome
    ratio = outcome.speedup["eager"]
    print(json.dumps([ratio.ratio, ratio.low, ratio.high, outcome.seconds]))


def repeat(count: int) -> None:
    found = []
    for _ in range(count):
        done = subprocess.run(
            [sys.executable, __file__, "--once"], stdout=subprocess.PIPE, text=True, check=True
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
        ratio, low, high, seconds = found[-1]
        print(
            f"{ratio:.4f}x over eager ({low:.4f} to {high:.4f}), {seconds * 1e6:.2f} us", flush=True
        )
    ratios = [row[0] for row in found]
    spread = (max(ratios) - min(ratios)) / statistics.median(ratios)
    print(
        f"{count} runs: median {statistics.median(ratios):.4f}x, spread {spread:.2%} from least to greatest"
    )


def gaps(glob: str, number: int, parts: int) -> None:
    """Print what the clock sees beyond the events, for each case of the corpus that fits; a cheat's own, after its twin's."""
    seen: list[list[Gap]] = []
    hidden = CudaTimingSession._hidden

    def watched(session: CudaTimingSession, found: list[Gap]) -> list[float]:
        seen.append(found)
        return hidden(session, found)

    CudaTimingSession._hidden = watched  # type: ignore[method-assign]
    with (
        tempfile.TemporaryDirectory(prefix="kb-gaps-") as folder,
        CorpusRunner("cuda", Path(folder)) as runner,
    ):
        for case in choose_cases("cuda", [glob])[number - 1 :: parts]:
            seen.clear()
            verdict = runner.judge(case)
            told = "was not timed"
            if seen:
                own = [gap.charged for gap in seen[-1]]
                middle = [[getattr(gap, name) for gap in seen[-1]] for name in _MIDDLE]
                told = f"{_microseconds(min(own), statistics.median(own), max(own))};" + ";".join(
                    _microseconds(statistics.median(values)) for values in middle
                )
            print(f"{case.label:<44} {verdict.got:<24} {told} {verdict.complaint}", flush=True)


_MIDDLE = ("beside", "between", "between_beside")  # of these the middle block is printed


def _microseconds(*seconds: float) -> str:
    return "".join(f"{value * 1e6:7.2f}" for value in seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--candidates", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=0, metavar="RUNS")
    parser.add_argument("--beside", type=int, default=0, metavar="RUNS")
    parser.add_argument("--queues", type=int, default=0, metavar="RUNS")
    parser.add_argument("--starts", action="store_true")
    parser.add_argument("--gaps", metavar="GLOB")
    parser.add_argument("--part", nargs=2, type=int, default=(1, 1), metavar=("N", "OF"))
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        once()
    elif options.gaps:
        gaps(options.gaps, *options.part)
    elif options.repeat:
        repeat(options.repeat)
    elif options.beside:
        beside(options.beside)
    elif options.queues:
        queues(options.queues)
    elif options.starts:
        starts()
    else:
        throughput(options.candidates)


if __name__ == "__main__":
    main()
