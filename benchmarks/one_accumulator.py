"""From which length on a reduction with one float32 accumulator is refused under `precision: strict`.

    python benchmarks/one_accumulator.py [--seeds 3] [--shortest 128] [--only softmax]

Each kernel adds in order, one element after the other, in float32, as a textbook's loop does (numpy's `cumsum`
does that). Its answers are held against the judge's own bounds on every distribution, at lengths that are doubled.
A line tells the first length that is refused, with the distributions that refuse it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from search.judged import JudgedSettings, JudgedTask
from search.judging.tolerance import make_trials
from search.judging.trial import inside
from search.reference import Problem, load_problem

ROWS, LONGEST = 64, 1 << 16
F32 = np.float32
Array = np.ndarray
REFERENCE = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, {names}):
        return {forward}
def get_inputs():
    return [{inputs}]
"""


def total(x: Array) -> Array:
    """Return the sums of rows, added in order."""
    return np.cumsum(x, -1, dtype=F32)[..., -1:]


def softmax(x: Array) -> Array:
    """Subtract the maximum, add in order, divide."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / total(powers)


def layer_norm(x: Array) -> Array:
    """Two passes, each added in order."""
    middle = x - total(x) / F32(x.shape[-1])
    return middle / np.sqrt(total(middle * middle) / F32(x.shape[-1]) + F32(1e-5))


def rms_norm(x: Array) -> Array:
    """Scale by the root of the mean square."""
    return x / np.sqrt(total(x * x) / F32(x.shape[-1]) + F32(1e-5))


def product(x: Array, y: Array) -> Array:
    """Multiply matrices, one accumulator an element."""
    done = np.zeros((x.shape[0], y.shape[1]), F32)
    for k in range(x.shape[1]):
        done += x[:, k : k + 1] * y[k]
    return done


ROW = f"torch.randn({ROWS}, N)"
# name -> (names, forward, inputs, the loop, the longest that is tried)
KERNELS: dict[str, tuple[str, str, str, Callable[..., Array], int]] = {
    "softmax": ("x", "torch.softmax(x, -1)", ROW, softmax, LONGEST),
    "layer norm": ("x", "nn.functional.layer_norm(x, x.shape[-1:])", ROW, layer_norm, LONGEST),
    "rms norm": ("x", "x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)", ROW, rms_norm, LONGEST),
    "cumsum": ("x", "torch.cumsum(x, -1)", ROW, lambda x: np.cumsum(x, -1, dtype=F32), LONGEST),
    "sum": ("x", "x.sum(-1)", ROW, lambda x: total(x)[..., 0], LONGEST),
    "sum of [0, 1]": ("x", "x.sum(-1)", ROW.replace("randn", "rand"), lambda x: total(x)[..., 0], LONGEST),
    "mean": ("x", "x.mean(-1)", ROW, lambda x: total(x)[..., 0] / F32(x.shape[-1]), LONGEST),
    "product": ("x, y", "x @ y", f"{ROW}, torch.randn(N, {ROWS})", product, LONGEST),
    "product of [0, 1]": ("x, y", "x @ y", f"torch.rand({ROWS}, N), torch.rand(N, {ROWS})", product, LONGEST),
}  # fmt: skip


def problem_of(name: str, length: int, folder: Path) -> Problem:
    """Return the task of reductions of `length`."""
    names, forward, inputs, _, _ = KERNELS[name]
    source = REFERENCE.format(names=names, forward=forward, inputs=inputs.replace("N", str(length)))
    path = folder / "reference.py"
    path.write_text(source)
    settings = JudgedSettings(precision="strict", library="allowed", special_values=False)
    task = JudgedTask(
        name=name, reference=path, source=source, identity=f"{name}{length}", settings=settings
    )
    return load_problem(task)


def refusing(name: str, length: int, seeds: int, folder: Path) -> list[str]:
    """Return the distributions on which the loop is refused."""
    problem, loop = problem_of(name, length, folder), KERNELS[name][3]
    found: dict[str, None] = {}
    for seed in range(seeds):
        for trial in make_trials(problem, 101 * seed + 1).trials:
            inputs = [x.numpy() for x in trial.inputs if isinstance(x, torch.Tensor)]
            if not inside(trial, (torch.from_numpy(loop(*inputs)),)):
                found[trial.distribution] = None
    return list(found)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shortest", type=int, default=128)
    parser.add_argument("--only", choices=KERNELS, action="append")
    chosen = parser.parse_args()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        for name in chosen.only or KERNELS:
            length, why = chosen.shortest, []
            while length <= KERNELS[name][4] and not why:
                why = refusing(name, length, chosen.seeds, Path(folder))
                length *= 2
            told = f"refused at {length // 2:,} ({', '.join(why)})" if why else "never refused"
            print(f"{name:<18} {told}", flush=True)


if __name__ == "__main__":
    main()
