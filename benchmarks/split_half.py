"""What is left of a float32 product in three products of halves, where sums are cut off instead of rounded.

    python benchmarks/split_half.py [K] [DISTRIBUTION...]

Emulates `gpu-matmul-split-half` on this processor: of sixteen products at a time, and of the sum that they are added to,
what lies below 25 bits of the greatest is cut off. (An H200 cuts off somewhat less.) Prints, for each distribution of
inputs, the greatest error as a share of what the judge allows, and the share of answers beyond it, by which mean of a row is
taken off ("sign": where most of it has one sign; "no outlier": not where a few large elements make the mean; "usual": the
mean of what is no outlier; "steps": the same, found in three steps) and by the span of a sum.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from search.judging.tolerance import make_trials
from search.reference import load_problem
from search.task import load_task

SIDE = 96
REFERENCE = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.rand({side}, {k}), torch.rand({k}, {side})]
"""


def cut_off(x: Any, exponent: Any, bits: int = 25) -> Any:
    scale = np.exp2(bits - exponent)
    return np.trunc(x * scale) / scale


def added(part: Any, left: Any, right: Any) -> Any:
    """Return a sum and sixteen more products as tensor cores add them."""
    products = left[:, :, None] * right[None]
    exponent = np.frexp(np.maximum(np.abs(products).max(1), np.abs(part)))[1]
    total = cut_off(products, exponent[:, None]).sum(1) + cut_off(part, exponent)
    return cut_off(total, exponent, 24)


def mean_of(a: Any, rule: str) -> Any:
    """Return what is taken off each row."""
    size = np.abs(a).mean(1, keepdims=True)
    usual = np.abs(a) < (16 * size if rule == "usual" else np.inf)
    for _ in range(3 if rule == "steps" else 0):
        few = np.abs(a) * usual
        usual = np.abs(a) < 4 * few.sum(1, keepdims=True) / np.maximum(
            usual.sum(1, keepdims=True), 1
        )
    kept = np.where(usual, a, np.float32(0))
    count = np.maximum(usual.sum(1, keepdims=True), 1)
    mean = kept.sum(1, keepdims=True) / count
    taken = np.abs(mean) > 0.25 * np.abs(kept).sum(1, keepdims=True) / count
    if rule == "no outlier":
        taken &= np.abs(a).max(1, keepdims=True) < 16 * size
    return np.where(taken, mean, 0).astype(np.float32)


def halves(x: Any, axis: int) -> tuple[Any, Any, Any]:
    """Return what a float32 matrix is rounded to and the rest, as halves, and the inverse scale of each line."""
    top = np.abs(x).max(axis, keepdims=True)
    up = np.exp2(14 - np.floor(np.log2(np.maximum(top, 1e-30)))).astype(np.float32)
    scaled = x * up
    rounded = scaled.astype(np.float16)
    rest = (scaled - rounded.astype(np.float32)).astype(np.float16)
    return rounded.astype(np.float64), rest.astype(np.float64), 1 / up.astype(np.float64)


def product(a: Any, b: Any, span: int, rule: str) -> Any:
    mean = mean_of(a, rule)
    a_rounded, a_rest, a_back = halves(a - mean, 1)
    b_rounded, b_rest, b_back = halves(b, 0)
    left = np.concatenate([a_rest, a_rounded, a_rounded], 1)
    right = np.concatenate([b_rounded, b_rest, b_rounded], 0)
    total = np.zeros((len(a), b.shape[1]))
    for start in range(0, len(right), span):
        part = np.zeros_like(total)
        for k in range(start, min(start + span, len(right)), 16):
            part = added(part, left[:, k : k + 16], right[k : k + 16])
        total = (total + part).astype(np.float32).astype(np.float64)
    return (total * a_back * b_back).astype(np.float32) + mean * b.sum(0, dtype=np.float32)


def main() -> None:
    k = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "product.py")
        file.write_text(REFERENCE.format(side=SIDE, k=k))
        task = Path(folder, "product.yaml")
        task.write_text("reference: product.py\n")
        trials = make_trials(load_problem(load_task(task)), 3).trials
    spans, rules = (3 * k, 1024), ("sign", "no outlier", "usual", "steps")
    print(f"{'inputs':14}", *(f"{f'{rule}, {span}':>20}" for rule in rules for span in spans))
    for trial in trials:
        if sys.argv[2:] and trial.distribution not in sys.argv[2:]:
            continue
        a, b = (x.numpy() for x in trial.inputs)
        low, high = trial.low[0].double().numpy(), trial.high[0].double().numpy()
        shares = [
            np.abs(product(a, b, span, rule) - (low + high) / 2) / ((high - low) / 2)
            for rule in rules
            for span in spans
        ]
        print(
            f"{trial.distribution:14}",
            *(f"{x.max():12.2f} {(x > 1).mean():7.2%}" for x in shares),
            flush=True,
        )


if __name__ == "__main__":
    main()
