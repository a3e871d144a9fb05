"""How often the judge's bounds refuse an honest recurrence: the reference with its features in another order.

    python -m benchmarks.recurrent_orders                             # a GRU of this file's
    python -m benchmarks.recurrent_orders level3/39_GRU.py --draws 6  # of KernelBench

The layer reads its features, and the columns of its weights, in a random order: the same sums, added in another order, in
float32, and in types that are too short. No GPU is needed; a draw of KernelBench's takes some 20 s on two cores.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from pathlib import Path

import torch
from torch import nn

from search.judged import plain_task
from search.judging.tolerance import make_trials
from search.judging.trial import inside
from search.reference import Problem, load_problem
from search.task import load_task

SOURCE = """
import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(16, 64, 3)
    def forward(self, x, h):
        return self.gru(x, h)[0]
def get_inputs():
    return [torch.rand(256, 4, 16), torch.rand(3, 4, 64)]
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "reference", type=Path, nargs="?", help="whose first input has the features last"
    )
    parser.add_argument("--draws", type=int, default=4, help="of all trials")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.reference or Path(folder) / "gru.py"
        if options.reference is None:
            path.write_text(SOURCE)
        problem = load_problem(plain_task(load_task(path)), 0)
    refused: dict[str, dict[str, int]] = {}
    met: set[str] = set()
    for draw in range(options.draws):
        for trial in make_trials(problem, draw).trials:
            met.add(trial.distribution)
            for dtype in (torch.float32, torch.float16, torch.bfloat16):
                answer = reordered(problem, trial.inputs, dtype, draw)
                counts = refused.setdefault(str(dtype), {})
                counts[trial.distribution] = counts.get(trial.distribution, 0) + (
                    not inside(trial, answer)
                )
    for name, counts in refused.items():
        told = ", ".join(f"{key} {count}" for key, count in counts.items() if count) or "none"
        print(f"{name}: refused in {options.draws} draws of {len(met)} distributions: {told}")


def reordered(
    problem: Problem, inputs: tuple, dtype: torch.dtype, seed: int
) -> tuple[torch.Tensor, ...]:
    """Return the answer of the reference in `dtype`, its features in another order."""
    model = copy.deepcopy(problem.model)
    layer = next(m for m in model.modules() if isinstance(m, nn.RNNBase))
    order = torch.randperm(layer.input_size, generator=torch.Generator().manual_seed(seed))
    for name, weight in layer.named_parameters():
        if name.startswith("weight_ih_l0"):
            weight.data = weight.data[:, order].contiguous()
    first, *others = (value.to(dtype) for value in inputs)
    with torch.no_grad():
        answer = model.to(dtype)(first[..., order].contiguous(), *others)
    return (answer.float(),)


if __name__ == "__main__":
    main()
