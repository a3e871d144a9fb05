"""The library's recurrent layers beside the recipe for clusters, on an NVIDIA GPU of compute capability 9.0 or later.

    python -m benchmarks.recurrent_layers              # times the layers of docs/results.md
    python -m benchmarks.recurrent_layers --write OUT  # writes the candidates there, and needs no GPU

Float32; medians of CUDA events over seven calls, caches warm, nothing judged; errors are the greatest against float64. The
inputs' products are the library's in both, so that the recurrence is what differs.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

from kb.app.queries import find_target
from kb.config import shipped_docs
from kb.records.library import load_library
from search.codegen.applicability import make_shop
from search.codegen.library import RecipeCard, make_cards
from search.codegen.plan import Choice
from search.costs.trace import operator_graph
from search.judged import plain_task
from search.reference import load_problem
from search.task import load_task

CALLS = 7
RECIPE = "gpu-recurrence-cluster"
# Kind, steps, batch, inputs, units, layers.
LAYERS = (
    ("LSTM", 256, 10, 128, 512, 1),
    ("GRU", 256, 10, 128, 640, 1),
    ("LSTM", 256, 64, 128, 256, 1),
    ("LSTM", 256, 64, 128, 512, 1),
    ("GRU", 128, 256, 256, 256, 1),
    ("GRU", 33, 37, 65, 101, 1),
    ("LSTM", 512, 10, 128, 256, 6),
    ("GRU", 512, 10, 128, 256, 6),
)
SOURCE = """import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.r = nn.{kind}({inputs}, {units}, {layers})
    def forward(self, x):
        return self.r(x)[0]
def get_inputs():
    return [torch.randn({steps}, {batch}, {inputs})]
def get_init_inputs():
    return []
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--write", type=Path, metavar="OUT", help="write the candidates, time none")
    options = parser.parse_args()
    if options.write is None and not torch.cuda.is_available():
        print(
            "expected an NVIDIA GPU, torch finds none: --write OUT needs none",
            file=sys.stderr,
        )
        return 2
    # As the judge has it under `precision: strict`.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    card = make_cards(list(load_library(shipped_docs())))[RECIPE]
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.write or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for layer in LAYERS:
            kind, steps, batch, inputs, units, layers = layer
            name = f"{kind.lower()}_{steps}x{batch}x{inputs}_{units}_{layers}"
            reference, candidate = write(folder / name, layer, card)
            told = "written" if options.write else timed(load(reference), load(candidate))
            print(
                f"{kind} {steps}x{batch}x{inputs}, {units} units, {layers} layers: {told}",
                flush=True,
            )
    return 0


def write(
    place: Path, layer: tuple[str, int, int, int, int, int], card: RecipeCard
) -> tuple[Path, Path]:
    """Write a layer's reference and its candidate beside one another, and return their paths."""
    kind, steps, batch, inputs, units, layers = layer
    sizes = {"steps": steps, "batch": batch, "inputs": inputs, "units": units, "layers": layers}
    source = SOURCE.format(kind=kind, **sizes)
    reference, candidate = place.with_suffix(".py"), place.with_name(f"{place.name}_cluster.py")
    reference.write_text(source)
    graph = operator_graph(load_problem(plain_task(load_task(reference)), 0))
    shop = make_shop(source, find_target("h100"), graph, {RECIPE: card})
    products = [p.anchor for p in shop.cut(()) if p.anchor and p.pattern == "matmul"]
    choices = {
        part.id: Choice(recipe=RECIPE, knobs=shop.knobs(part, card) or {})
        for part in shop.cut(products)
        if part.pattern == "recurrence"
    }
    candidate.write_text(shop.source(shop.complete(products, choices)))
    return reference, candidate


def load(path: Path) -> ModuleType:
    """Return the module in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@torch.no_grad()
def timed(reference: ModuleType, candidate: ModuleType) -> str:
    """Return the milliseconds and the errors of both."""
    torch.manual_seed(0)
    model, inputs = reference.Model().cuda().eval(), [x.cuda() for x in reference.get_inputs()]
    own = candidate.ModelNew().cuda().eval()
    own.load_state_dict(model.state_dict())
    truth = reference.Model().cuda().double().eval()
    truth.load_state_dict(model.state_dict())
    exact = truth(*(x.double() for x in inputs))
    told = []
    for name, program in (("the library", model), ("in clusters", own)):
        error = float((program(*inputs) - exact).abs().max())
        told.append(f"{name} {clock(lambda p=program: p(*inputs)):.3f} ms (error {error:.1e})")
    return ", ".join(told)


def clock(call: Callable[[], object]) -> float:
    """Return the milliseconds of a call on the device."""
    call()
    found = []
    for _ in range(CALLS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end))
    return statistics.median(found)


if __name__ == "__main__":
    raise SystemExit(main())
