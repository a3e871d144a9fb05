"""Every recipe that fits a reference, in all three languages, run on the processor.

C++ runs as it is, CUDA C++ thread by thread, Triton in its interpreter. The last is a process of its own,
because Triton decides at import whether it interprets: this file run as a program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from cuda_on_cpu import load_on_cpu
from recipe_bench import Bench, load

from search.codegen.applicability import exact, make_shop
from search.codegen.library import RecipeCard
from search.codegen.plan import Choice, Composer

UNITS = 132
Errors = list[tuple[float, float]]  # of a candidate and of eager, for each output


def workshop(bench: Bench, cards: Mapping[str, RecipeCard], language: str) -> Composer:
    """Return the workshop of a reference with the exact recipes of one language."""
    chosen = {
        name: card
        for name, card in cards.items()
        if language in (card.scope.language or ("cpp",)) and exact(card, "strict")
    }
    device = SimpleNamespace(device="cpu" if language == "cpp" else "gpu", units=UNITS, name="")
    # The three fields that it reads.
    return make_shop(bench.source, device, bench.graph, chosen)  # type: ignore[arg-type]


def candidates(shop: Composer) -> dict[str, str]:
    """Return candidates by their recipes, in which each recipe does each part that it fits.

    The library does the convolutions and products that none fits.
    """
    library = [
        part.anchor
        for part in shop.cut(())
        if part.anchor is not None and part.anchor in shop.anchors and not shop.recipes(part)
    ]
    parts = [part for part in shop.cut(library) if part.pattern != "library"]
    fitting = {part.id: shop.recipes(part) for part in parts}
    found: dict[str, str] = {}
    for turn in range(max(map(len, fitting.values()), default=0)):
        choices = {}
        for part in parts:
            card = fitting[part.id][turn % len(fitting[part.id])]
            choices[part.id] = Choice(recipe=card.name, knobs=shop.knobs(part, card) or {})
        name = ", ".join(choice.recipe for choice in choices.values())
        found[name] = shop.source(shop.complete(library, choices))
    return found


def cpp(source: str, cards: Mapping[str, RecipeCard], most: int | None = None) -> dict[str, Errors]:
    """Return the errors of the candidates in C++, of the first `most` where that is given."""
    bench = Bench(source, {})
    made = candidates(workshop(bench, cards, "cpp"))
    return {name: bench.errors(text) for name, text in [*made.items()][:most]}


def cuda(source: str, cards: Mapping[str, RecipeCard], folder: Path) -> dict[str, Errors]:
    """Return the errors of the candidates in CUDA C++."""
    bench = Bench(source, {})
    made = candidates(workshop(bench, cards, "cuda"))
    return {name: bench.errors_of(load_on_cpu(text, folder)) for name, text in made.items()}


def triton(
    sources: Mapping[str, str], cards: Mapping[str, RecipeCard], folder: Path
) -> dict[str, dict[str, Errors]]:
    """Return the errors of the candidates in Triton of several references."""
    cases: dict[str, dict[str, str]] = {}
    for case, source in sources.items():
        made = candidates(workshop(Bench(source, {}), cards, "triton"))
        for number, text in enumerate(made.values()):
            # A kernel's text is read from its file.
            (folder / f"candidate{len(cases)}_{number}.py").write_text(text)
        files = [str(folder / f"candidate{len(cases)}_{number}.py") for number in range(len(made))]
        cases[case] = dict(zip(made, files, strict=True))
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps({case: [sources[case], files] for case, files in cases.items()}),
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "TRITON_INTERPRET": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, Errors]] = json.loads(done.stdout.splitlines()[-1])
    return found


def right(found: Mapping[str, Errors], free: float = 3e-7) -> bool:
    """Say whether there are candidates, and all are as exact as eager or nearly so."""
    return bool(found) and all(
        own <= 8 * eager + free for errors in found.values() for own, eager in errors
    )


def main() -> None:
    """Measure the cases on standard input: references, and files of candidates by name."""
    import_module("quick_triton")
    result = {}
    for case, (source, files) in json.load(sys.stdin).items():
        bench = Bench(source, {})
        result[case] = {name: bench.errors_of(load_file(path)) for name, path in files.items()}
    print(json.dumps(result))


def load_file(path: str) -> object:
    """Return the module in a file."""
    return load(Path(path).read_text(encoding="utf-8"), path)


if __name__ == "__main__":
    main()
