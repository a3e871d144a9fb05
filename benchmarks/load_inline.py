"""What the stand-in for torch's headers saves of a candidate that calls `load_inline`.

    python benchmarks/load_inline.py [--rounds N]

Builds one extension (a CUDA kernel of one line and its host function) with the stand-in, with a part of
torch's headers, and with all of them, in turns; prints seconds of the clock and of the processor. Needs
nvcc and g++, no GPU.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from search.languages import Unit
from search.languages.cuda import Cuda

KERNEL = """
#include <torch/extension.h>
__global__ void relu_kernel(const float* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] > 0 ? x[i] : 0;
}
torch::Tensor relu(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda(), "x must be on the device");
  auto y = torch::empty_like(x);
  int64_t n = x.numel();
  relu_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
  return y;
}
"""
SOURCE = (
    "load_inline(name='m', cpp_sources='torch::Tensor relu(torch::Tensor x);', "
    f"cuda_sources={KERNEL!r}, functions=['relu'])"
)
WAYS = ("stand-in", "some headers", "all headers")


def prepared(unit: Unit, way: str, language: Cuda) -> tuple[Unit, list[str]]:
    if way == "stand-in":
        return unit, list(language.command(unit, unit.text, unit.output))
    kept = {n: t for n, t in unit.files.items() if not n.startswith(("standin/", "one."))}
    unit = replace(unit, files=kept)
    command = list(language.command(unit, unit.text, unit.output))
    if way == "all headers":
        command = [word.replace("build -Islim", "build -DKB_ALL_HEADERS") for word in command]
    return unit, command


def build(way: str) -> tuple[float, float]:
    """Return seconds of the clock and of the processor."""
    language = Cuda("sm_90")
    (unit,) = language.units(SOURCE)
    unit, command = prepared(unit, way, language)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**unit.files, unit.text: unit.source}.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stderr
        assert Path(folder, unit.output).exists()
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    found = [[build(way) for way in WAYS] for _ in range(rounds)]
    for place, way in enumerate(WAYS):
        clock = min(one[place][0] for one in found)
        used = min(one[place][1] for one in found)
        print(f"{way:<14} {clock:6.1f} s of the clock, {used:6.1f} s of the processor")


if __name__ == "__main__":
    main()
