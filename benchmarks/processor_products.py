"""Products and convolutions of the processor's recipes beside eager: with vectors, and on AMX's tiles where there are some.

    python -m benchmarks.processor_products [--rounds 41]

One core, float32, cold caches (256 MiB are read before each call), programs in turns: medians of the faster half of the
calls, in milliseconds. Of several recipes with vectors the fastest is shown. The last column is the largest error on tiles
over eager's, both from float64.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "search"))

from recipe_bench import Bench, load, reference

from kb.config import shipped_docs
from kb.records.schema import parse_record
from search.codegen.library import RecipeCard, make_cards
from search.codegen.render import Unfit

N = "torch.randn"
VECTORS = {
    "matmul": ("cpu-matmul-packed", "cpu-matmul-unpacked"),
    "conv": ("cpu-conv-direct", "cpu-conv-channel-blocks", "cpu-conv-pointwise"),
}
CONVOLUTIONS = (
    (4, 64, 64, 56, 3), (1, 128, 128, 28, 3), (4, 256, 256, 14, 3), (1, 512, 512, 7, 3), (1, 32, 64, 112, 3),
    (4, 512, 512, 28, 1), (4, 256, 256, 28, 1), (4, 64, 256, 56, 1),
)  # fmt: skip
SHAPES = {
    **{
        f"matmul {m}x{k}x{n}": ("matmul", reference("return a @ b", f"{N}({m}, {k})", f"{N}({k}, {n})"))
        for m, k, n in ((512, 512, 512), (768, 768, 768), (1024, 1024, 1024), (64, 1024, 1024), (1000, 333, 777))
    },
    "linear 2048x128x512, GELU": (
        "matmul",
        reference("return F.gelu(self.l(a))", f"{N}(2048, 128)", init="self.l = nn.Linear(128, 512)"),
    ),
    **{
        f"conv {size}x{size}, {images}x{given} to {made}, {side}x{side}": (
            "conv",
            reference(
                "return F.relu(self.c(a))",
                f"{N}({images}, {given}, {side}, {side})",
                init=f"self.c = nn.Conv2d({given}, {made}, {size}, padding={size // 2})",
            ),
        )
        for images, given, made, side, size in CONVOLUTIONS
    },
}  # fmt: skip


def cards() -> dict[str, RecipeCard]:
    paths = sorted((shipped_docs() / "ideas").glob("cpu-*.md"))
    return make_cards([parse_record(path.read_text(encoding="utf-8"), path.name) for path in paths])


def programs(
    source: str, kind: str, known: Mapping[str, RecipeCard]
) -> tuple[Bench, dict[str, Any], float]:
    """Return a reference's bench, programs by recipe, and the error on tiles over eager's; each is right, or this ends."""
    bench = Bench(source, {})
    (part,) = (one for one in bench.parts() if one.pattern != "library")
    made, error = {}, 0.0
    for name in (*VECTORS[kind], f"cpu-{kind}-amx"):
        try:
            text = bench.candidate({part.id: (known[name], known[name].defaults())}, ())
        except Unfit:
            continue
        ((own, eager),) = bench.errors(text)
        assert own <= 8 * eager + 3e-7, (name, own, eager)
        model = load(text).ModelNew().eval()
        model.load_state_dict(bench.model.state_dict())
        made[name], error = model, own / eager  # that on tiles comes last
    return bench, {"eager": bench.model, **made}, error


def timed(
    calls: Mapping[str, Callable[..., Any]], inputs: list[torch.Tensor], rounds: int
) -> dict[str, float]:
    """Return milliseconds of a call by program."""
    caches = torch.ones(64 << 20)
    taken: dict[str, list[float]] = {name: [] for name in calls}
    with torch.no_grad():
        for _ in range(rounds):
            for name, call in calls.items():
                caches.sum()
                began = time.perf_counter()
                call(*inputs)
                taken[name].append(time.perf_counter() - began)
    return {
        name: 1e3 * statistics.median(sorted(values)[: rounds // 2 + 1])
        for name, values in taken.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=41)
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    known = cards()
    print("| shape | eager | with vectors | on tiles | tiles over eager | error over eager's |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, (kind, source) in SHAPES.items():
        bench, calls, error = programs(source, kind, known)
        found = timed(calls, bench.inputs, options.rounds)
        eager, tiles = found.pop("eager"), found.pop(f"cpu-{kind}-amx")
        best = min(found.values())
        print(
            f"| {name} | {eager:.2f} | {best:.2f} | {tiles:.2f} | {eager / tiles:.2f}x | {error:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
