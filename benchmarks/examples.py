"""Runs `kb evolve` on every example, or on shapes that no example has, and prints a table.

    python benchmarks/examples.py                # the examples, each in an empty home
    python benchmarks/examples.py --variants     # batch 1, odd sizes
    python benchmarks/examples.py conv2d chain   # some of them

Speed-ups are medians over blocks of interleaved samples, with a distribution-free 95 % interval, one
thread, float32, strict precision.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from search.runs.report import baseline_seconds

ROOT = Path(__file__).resolve().parent.parent
# name -> (example, replacements in its source)
VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "conv2d, batch 1, 227x227": ("conv2d", {"else 4": "else 1", "= 224": "= 227"}),
    "conv2d, batch 3, 130x130": ("conv2d", {"else 4": "else 3", "= 224": "= 130"}),
    "convolution, 1x33x29x29": (
        "convolution",
        {"4, 64, 56, 56": "1, 33, 29, 29", "[64, 64]": "[33, 47]"},
    ),
    "softmax, 1x50257": ("softmax", {"4096, 1024": "1, 50257"}),
    "softmax, 777x1001": ("softmax", {"4096, 1024": "777, 1001"}),
    "layernorm, 33x257x769": ("layernorm", {"4096, 1024": "33, 257, 769", "[1024]": "[769]"}),
    "rmsnorm, 1x511x1536": ("rmsnorm", {"4096, 1024": "1, 511, 1536", "[1024]": "[1536]"}),
    "chain, 999x1003": ("chain", {"2048, 1024": "999, 1003", "[1024]": "[1003]"}),
    "chain, 1x4097": ("chain", {"2048, 1024": "1, 4097", "[1024]": "[4097]"}),
    "matmul, 129x511x333": (
        "matmul",
        {
            "torch.rand(768, 768), torch.rand(768, 768)": "torch.rand(129, 511), torch.rand(511, 333)"
        },
    ),
    "matmul_epilogue, 1x512 -> 1000": (
        "matmul_epilogue",
        {"2048, 128": "1, 512", "2048, 512": "1, 1000", "[128, 512]": "[512, 1000]"},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="examples to run; all without names")
    parser.add_argument("--variants", action="store_true", help="shapes that no example has")
    parser.add_argument("--minutes", type=float, default=2.0, help="of search for each (default 2)")
    options = parser.parse_args()
    print("| task | eager | torch.compile | best | over eager | over torch.compile | idea |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, reference in references(options.variants, options.names, Path(folder)):
            print(row(name, evolve(reference, options.minutes)), flush=True)


def references(variants: bool, names: list[str], folder: Path) -> list[tuple[str, Path]]:
    if not variants:
        found = sorted((ROOT / "examples").glob("*.yaml"))
        return [(path.stem, path) for path in found if not names or path.stem in names]
    made = []
    for number, (name, (example, changes)) in enumerate(VARIANTS.items()):
        if names and example not in names:
            continue
        source = (ROOT / "examples" / f"{example}.py").read_text()
        for old, new in changes.items():
            if old not in source:
                sys.exit(f"{example}.py no longer has {old!r}")
            source = source.replace(old, new)
        path = folder / f"{example}_{number}.py"
        path.write_text(source)
        made.append((name, path))
    return made


def evolve(reference: Path, minutes: float) -> dict:
    with tempfile.TemporaryDirectory() as home:
        command = [
            Path(sys.executable).parent / "kb",
            "evolve",
            reference,
            "--json",
            "--minutes",
            str(minutes),
        ]
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KB_HOME": home},
        )
    if done.returncode not in (0, 4):
        sys.exit(f"{reference}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def row(name: str, report: dict) -> str:
    best = report["best"]
    base = baseline_seconds(report)
    cells = [name, milliseconds(base["eager"]), milliseconds(base.get("compile"))]
    if best is None:
        return "| " + " | ".join([*cells, "none passed", "", "", ""]) + " |"
    over = best["speedup"]
    cells += [milliseconds(best["seconds"]), interval(over["eager"]), interval(over.get("compile"))]
    return "| " + " | ".join([*cells, best["idea"]]) + " |"


def milliseconds(seconds: float | None) -> str:
    return "did not run" if seconds is None else f"{seconds * 1e3:.3g} ms"


def interval(ratio: dict | None) -> str:
    return (
        ""
        if ratio is None
        else f"{ratio['ratio']:.2f}x ({ratio['low']:.2f} to {ratio['high']:.2f})"
    )


if __name__ == "__main__":
    main()
