"""What a run gains from the runs before it: candidates until its best, with and without lessons.

    python benchmarks/memory.py

Runs the convolution block in an empty home, again in the same home, and then a neighbouring shape in that
home and in an empty one. "Reached" is the first candidate within 3 % of the best that either run of that
shape found, by seconds of one call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KB = Path(sys.executable).parent / "kb"


def main() -> None:
    source = (ROOT / "examples" / "conv2d.py").read_text()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "conv2d.py").write_text(source)
        neighbour = source.replace("else 4", "else 3").replace("= 224", "= 196")
        assert neighbour != source
        (place / "neighbour.py").write_text(neighbour)
        homes = {"first": place / "a", "alone": place / "b"}
        runs = {
            "empty home": run(place / "conv2d.py", homes["first"]),
            "again": run(place / "conv2d.py", homes["first"]),
            "neighbour, with lessons": run(place / "neighbour.py", homes["first"]),
            "neighbour, empty home": run(place / "neighbour.py", homes["alone"]),
        }
    print("| run | candidates | best | reached at candidate |")
    print("|---|---|---|---|")
    for names in (("empty home", "again"), tuple(runs)[2:]):
        best = min(seconds for name in names for seconds in runs[name])
        for name in names:
            reached = next((n for n, s in enumerate(runs[name], 1) if s <= 1.03 * best), None)
            mine = min(runs[name])
            print(f"| {name} | {len(runs[name])} | {mine * 1e3:.3g} ms | {reached or 'not'} |")


def run(reference: Path, home: Path) -> list[float]:
    """Return the seconds of one call of every candidate, in order; infinite where it failed."""
    env = {**os.environ, "KB_HOME": str(home)}
    report = json.loads(call(env, "evolve", reference, "--json", "--minutes", 1.5))
    seconds = []
    for number in range(report["candidates"]):
        result = json.loads(call(env, "node", report["run"], number, "--json"))["result"]
        seconds.append(result["seconds"] if result["kind"] == "passed" else float("inf"))
    return seconds


def call(env: dict[str, str], *arguments: object) -> str:
    command = [str(KB), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout


if __name__ == "__main__":
    main()
