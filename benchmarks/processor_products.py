"""Products and pointwise convolutions of the processor's recipes beside eager, and without what was tuned for Intel.

    python -m benchmarks.processor_products [--rounds 41] [--vectors 2]

One core, float32, cold caches (256 MiB are read before each call), programs in turns: medians of the faster half of the
calls, in milliseconds. "512 KB" has panels of 512 KB whatever the second-level cache; "not ahead" does not ask for the
right side ahead, which recipes do on Intel processors alone.
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

N = "torch.randn"
SHAPES = {
    **{
        f"matmul {n}x{n}x{n}": ("cpu-matmul-packed", reference("return a @ b", f"{N}({n}, {n})", f"{N}({n}, {n})"))
        for n in (512, 768, 1024)
    },
    **{
        f"conv 1x1, {given} to {made}, 4x{size}x{size}": (
            "cpu-conv-pointwise",
            reference("return self.c(a)", f"{N}(4, {given}, {size}, {size})", init=f"self.c = nn.Conv2d({given}, {made}, 1)"),
        )
        for given, made, size in ((512, 512, 28), (256, 256, 28), (64, 256, 56))
    },
}  # fmt: skip


def cards() -> dict[str, RecipeCard]:
    paths = sorted((shipped_docs() / "ideas").glob("cpu-*.md"))
    return make_cards([parse_record(path.read_text(encoding="utf-8"), path.name) for path in paths])


def programs(source: str, card: RecipeCard, vectors: int) -> tuple[Bench, dict[str, Any]]:
    """Return a reference's bench, and programs by name; each is right, or this ends."""
    bench = Bench(source, {})
    (part,) = (one for one in bench.parts() if one.pattern != "library")

    def candidate(**knobs: int) -> str:
        chosen = {**card.defaults(), "vectors": vectors, **knobs}
        return bench.candidate({part.id: (card, chosen)}, ())

    texts = {"recipe": candidate(), "512 KB": candidate(kilobytes=512)}
    texts["not ahead"] = texts["recipe"].replace(
        "constexpr long AHEAD = 8;", "constexpr long AHEAD = 0;"
    )
    made = {}
    for name, text in texts.items():
        ((own, eager),) = bench.errors(text)
        assert own <= 8 * eager + 3e-7, (name, own, eager)
        model = load(text).ModelNew().eval()
        model.load_state_dict(bench.model.state_dict())
        made[name] = model
    return bench, {"eager": bench.model, **made}


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
    parser.add_argument("--vectors", type=int, default=2, help="columns of a tile, in vectors")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    known = cards()
    print("| shape | eager | recipe | 512 KB | not ahead | recipe over eager |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, (recipe, source) in SHAPES.items():
        bench, calls = programs(source, known[recipe], options.vectors)
        found = timed(calls, bench.inputs, options.rounds)
        row = " | ".join(f"{one:.2f}" for one in found.values())
        print(f"| {name} | {row} | {found['eager'] / found['recipe']:.2f}x |", flush=True)


if __name__ == "__main__":
    main()
