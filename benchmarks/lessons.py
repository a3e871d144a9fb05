"""What lessons are worth, and what becomes of a wrong one: real runs, judged on this processor.

    python benchmarks/lessons.py                  # nine tasks whose neighbours were searched before, one seed
    python benchmarks/lessons.py --seeds 3        # more
    python benchmarks/lessons.py --wrong          # a wrong lesson is planted, contradicted, sinks
    python benchmarks/lessons.py --made-up        # a made-up machine instead of a compiler: a minute
    python benchmarks/lessons.py --alike          # which rewordings of an idea are taken for one

For each seed all first tasks are searched in one home. Then the second ones, of other shapes, are searched with the same
seed and budget: in a copy of that home ("learned"), in an empty one ("fresh"), and in an empty one without
retrieval ("off"). Reported is the first candidate's speed-up over eager, the best of the budget, and how many candidates
it took to reach 95 % of the best that any of the three found. Intervals are percentiles of 10,000 bootstrap
samples over tasks.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from search.runs.verdicts import second_key

KB = Path(sys.executable).parent / "kb"
REFERENCE = """import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {made}

    def forward(self, x):
        {body}


def get_inputs():
    return [torch.randn({shape})]
"""
TASK = "reference: {name}.py\nprecision: strict\n{more}"
# name -> (modules, forward, first shape, neighbouring shape, another one)
PAIRS = {
    "gate": (
        "pass",
        "y = torch.sigmoid(x) * x; return torch.clamp(y * 0.5 + x, -2.0, 2.0)",
        ((512, 1024), (300, 777), (640, 900)),
    ),
    "scores": (
        "pass",
        "y = F.gelu(x) * 0.125; return torch.softmax(y, -1)",
        ((768, 640), (500, 777), (900, 512)),
    ),
    "norm": (
        "self.norm = nn.LayerNorm({last})",
        "return F.silu(self.norm(x))",
        ((1024, 512), (700, 768), (512, 900)),
    ),
    "columns": (
        "pass",
        "return torch.exp(-x * x).sum(0)",
        ((1024, 768), (1500, 500), (640, 900)),
    ),
    "dense": (
        "self.dense = nn.Linear({last}, 256)",
        "return F.gelu(self.dense(x))",
        ((384, 256), (300, 320), (256, 384)),
    ),
    "running": (
        "pass",
        "return torch.cumsum(torch.tanh(x), -1)",
        ((256, 2048), (200, 3000), (512, 1024)),
    ),
    "pooled": (
        "pass",
        "return F.max_pool2d(F.relu(x), 3, 2, 1)",
        ((8, 16, 64, 64), (6, 24, 56, 56), (4, 32, 48, 48)),
    ),
    "window": (
        "self.conv = nn.Conv2d(16, 32, 3, padding=1)",
        "return F.relu(self.conv(x))",
        ((2, 16, 56, 56), (3, 16, 40, 48), (1, 16, 64, 64)),
    ),
    "spread": (
        "pass",
        "return (x - x.mean(-1, keepdim=True)).abs().amax(-1)",
        ((1024, 768), (900, 640), (640, 900)),
    ),
}
ARMS = ("learned", "fresh", "off")
NEAR = 0.95


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1, help="of the search (default 1)")
    parser.add_argument("--candidates", type=int, default=4, help="a run's budget (default 4)")
    parser.add_argument("--pairs", nargs="*", default=list(PAIRS), help=", ".join(PAIRS))
    parser.add_argument(
        "--arms", nargs="*", default=list(ARMS), choices=ARMS, help="the homes to search in"
    )
    parser.add_argument("--wrong", action="store_true", help="plant a wrong lesson")
    parser.add_argument("--made-up", action="store_true", help="on a machine that is made up")
    parser.add_argument("--alike", action="store_true", help="compare rewordings")
    options = parser.parse_args()
    if options.alike:
        alike()
        return
    if options.made_up:
        made_up(max(options.seeds, 16))
        return
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        if options.wrong:
            wrong(bench, options.candidates)
        else:
            helped(bench, options)


class Bench:
    """Homes with the shipped documents indexed, and runs in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._base = folder / "base"
        self._made = 0
        self.kb(self._base, "init")

    def home(self, like: Path | None = None) -> Path:
        self._made += 1
        return Path(shutil.copytree(like or self._base, self.folder / f"home{self._made}"))

    def task(self, name: str, place: int, more: str = "") -> Path:
        made, body, shapes = PAIRS[name]
        path, shape = self.folder / f"{name}{place + 1}.py", shapes[place]
        made = made.format(last=shape[-1])
        path.write_text(REFERENCE.format(made=made, body=body, shape=", ".join(map(str, shape))))
        task = path.with_suffix(".yaml")
        task.write_text(TASK.format(name=path.stem, more=more))
        return task

    def kb(self, home: Path, *arguments: object) -> str:
        done = subprocess.run(
            [str(KB), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "KB_HOME": str(home)},
        )
        if done.returncode not in (0, 4):
            sys.exit(f"kb {' '.join(map(str, arguments))}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def evolve(self, home: Path, task: Path, seed: int, candidates: int) -> list[float]:
        """Return the speed-ups over eager of a run's candidates, in order; 0 where one failed."""
        told = self.kb(
            home, "evolve", task, "--author", "recipes", "--seed", seed, "--candidates", candidates,
            "--json",
        )  # fmt: skip
        return self.speeds(home, json.loads(told)["run"])

    def speeds(self, home: Path, run: str) -> list[float]:
        nodes = json.loads(self.kb(home, "tree", run, "--json"))["nodes"]
        return [node["speedup"] or 0.0 for node in nodes]

    def lessons(self, home: Path) -> dict[str, dict[str, Any]]:
        rows = json.loads(self.kb(home, "lessons", "--all", "--json"))
        return {row["name"]: row for row in rows}


def helped(bench: Bench, options: argparse.Namespace) -> None:
    arms = tuple(options.arms)
    print(
        f"| task | seed | first candidate: {', '.join(arms)} | best of {options.candidates} | candidates to {NEAR:.0%} |"
    )
    print("|---|---|---|---|---|", flush=True)
    firsts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    bests: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    counts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for seed in range(options.seeds):
        taught = bench.home()
        for name in options.pairs:
            bench.evolve(taught, bench.task(name, 0), seed, options.candidates)
        for turn, name in enumerate(options.pairs):
            found: dict[str, list[float]] = {}
            shift = turn % len(arms)  # no arm is always the first on a machine that warms up
            for arm in arms[shift:] + arms[:shift]:
                home = bench.home(taught if arm == "learned" else None)
                task = bench.task(name, 1, "retrieval: off\n" if arm == "off" else "")
                found[arm] = bench.evolve(home, task, seed, options.candidates)
            goal = NEAR * max(max(speeds, default=0.0) for speeds in found.values())
            for arm, speeds in found.items():
                firsts[arm][name].append(math.log(max(speeds[0], 1e-3)))
                bests[arm][name].append(math.log(max(*speeds, 1e-3)))
                counts[arm][name].append(float(needed(speeds, goal)))
            cells = [
                ", ".join(f"{found[arm][0]:.2f}x" for arm in arms),
                ", ".join(f"{max(found[arm]):.2f}x" for arm in arms),
                ", ".join(f"{counts[arm][name][-1]:.0f}" for arm in arms),
            ]
            print(f"| {name} | {seed} | {' | '.join(cells)} |", flush=True)
    print()
    one = arms[0]
    for arm in arms[1:]:
        print(f"{one} beside {arm}, by task:")
        print(f"  first candidate: {beside(firsts, one, arm, math.exp)}x")
        print(f"  best of {options.candidates}: {beside(bests, one, arm, math.exp)}x")
        print(f"  candidates saved: {beside(counts, one, arm, lambda value: -value)}")


def beside(
    measured: Mapping[str, Mapping[str, Sequence[float]]],
    one: str,
    other: str,
    shown: Callable[[float], float],
) -> str:
    """Return the mean difference of one home to another, by task, with its interval."""
    mine, theirs = measured[one], measured[other]
    means = [statistics.mean(mine[name]) - statistics.mean(theirs[name]) for name in mine]
    return told(means, shown)


def needed(speeds: Sequence[float], goal: float) -> int:
    reached = (count for count, speed in enumerate(speeds, start=1) if speed >= goal)
    return next(reached, len(speeds) + 1)


def told(values: Sequence[float], shown: Callable[[float], float]) -> str:
    """Return the mean with its bootstrap interval."""
    rng = random.Random(0)
    means = sorted(statistics.mean(rng.choices(values, k=len(values))) for _ in range(10_000))
    low, high = sorted((shown(means[250]), shown(means[9750])))
    return f"{shown(statistics.mean(values)):.2f} ({low:.2f} to {high:.2f})"


def wrong(bench: Bench, candidates: int) -> None:
    name = "scores"
    home = bench.home()
    bench.evolve(home, bench.task(name, 0), 0, 2 * candidates)
    run = f"{name}1-1"
    seconds = times(home, run)
    slowest = max(seconds, key=seconds.__getitem__)
    ratio = seconds[slowest] / min(seconds.values())
    disturb(home, run, slowest, 20.0)
    shutil.rmtree(home / "lessons")
    bench.kb(home, "lessons", "learn", run)
    lesson = next(row["name"] for row in bench.lessons(home).values() if row["effect"] == "wins")
    print(
        f"{run} node {slowest} took {ratio:.1f} times the time of the fastest; its record is made to "
        f"say 20x over eager, and this was learned of it: {lesson}\n"
    )
    print("| after | status | trust | for | against | shrunken gain | the run started at |")
    print("|---|---|---|---|---|---|---|", flush=True)
    report(bench, home, lesson, run, "")
    for place in (1, 2):
        task = bench.task(name, place)
        found = bench.evolve(home, task, 0, candidates)
        later = f"{task.stem}-1"
        node = json.loads(bench.kb(home, "node", later, 0, "--json"))
        start = f"{found[0]:.2f}x, best {max(found):.2f}x: {node['idea']}"
        report(bench, home, lesson, later, start)
    print(bench.kb(home, "lessons", "show", lesson).partition("\n\n")[0])


def report(bench: Bench, home: Path, lesson: str, after: str, start: str) -> None:
    row = bench.lessons(home)[lesson]
    print(
        f"| {after} | {row['status']} | {row['trust']:.0%} | {row['confirmed']} | "
        f"{row['contradicted']} | {row['gain']:.2f}x | {start} |",
        flush=True,
    )


def times(home: Path, run: str) -> dict[int, float]:
    """Return the seconds of every node that passed."""
    query = (
        "SELECT nodes.number, outcomes.outcome FROM nodes JOIN outcomes "
        "ON nodes.outcome = outcomes.key WHERE nodes.run = ?"
    )
    with sqlite3.connect(home / "kb.sqlite") as database:
        rows = [(number, json.loads(text)) for number, text in database.execute(query, (run,))]
    return {number: told["seconds"] for number, told in rows if told["kind"] == "passed"}


def disturb(home: Path, run: str, node: int, speed: float) -> None:
    """Make both judges' records of a node say `speed`, as if its baseline had been measured beside a build."""
    ratio = {"ratio": speed, "low": speed * 0.98, "high": speed * 1.02, "confidence": 0.95}
    with sqlite3.connect(home / "kb.sqlite") as database:
        query = "SELECT key, outcomes.outcome FROM nodes JOIN outcomes ON nodes.outcome = key WHERE run = ? AND number = ?"
        key, text = database.execute(query, (run, node)).fetchone()
        outcome = json.loads(text)
        outcome["speedup"] = dict.fromkeys(outcome["speedup"], ratio)
        told = [(one, json.dumps(outcome)) for one in (key, second_key(key))]
        database.executemany("INSERT OR REPLACE INTO outcomes VALUES (?, ?, 0)", told)
        (text,) = database.execute("SELECT report FROM runs WHERE run = ?", (run,)).fetchone()
        report = json.loads(text)
        report["best"] |= {"node": node, "speedup": outcome["speedup"]}
        report["best"]["seconds"] = report["baselines"]["eager"] / speed
        database.execute("UPDATE runs SET report = ? WHERE run = ?", (json.dumps(report), run))


def made_up(seeds: int) -> None:
    """Search two neighbouring tasks on machines whose speeds follow from recipes and knobs."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "search"))
    from landscape import Landscape, Play
    from machines import TWO_CORES

    play = Play(TWO_CORES)
    counts = (1, 2, 4, 8)
    gains: dict[int, list[float]] = {count: [] for count in counts}
    reached: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(seeds):
            taught, empty = Path(folder, f"taught{seed}"), Path(folder, f"empty{seed}")
            play.run(taught, "large", Landscape(seed, "large"), candidates=10)
            small = [Landscape(seed, "small") for _ in range(2)]
            have = play.run(taught, "small", small[0], candidates=8)
            lack = play.run(empty, "small", small[1], candidates=8)
            for count in counts:
                if lack.best(count):
                    gains[count].append(math.log(have.best(count) / lack.best(count)))
            goal = NEAR * lack.best(8)
            reached.append((have.needed(goal), lack.needed(goal)))
    print("| candidates judged | best so far, with lessons over without | seeds |")
    print("|---|---|---|")
    for count, values in gains.items():
        print(f"| {count} | {told(values, math.exp)}x | {len(values)} |")
    have_mean, lack_mean = (statistics.mean(side) for side in zip(*reached, strict=True))
    saved = [float(lack - have) for have, lack in reached]
    print(f"\ncandidates to {NEAR:.0%} of the best without lessons: {have_mean:.1f} with, "
          f"{lack_mean:.1f} without; saved {told(saved, float)}")  # fmt: skip


SAME = (
    ("Keep a tile of 64 by 64 in shared memory", "Tile of 64 by 64 kept in shared memory"),
    ("Use float4 vector loads in the row kernel", "Vectorised float4 loads for the row kernel"),
    ("Unroll the inner loop four times", "Four-fold unrolling of the inner loop"),
    (
        "Softmax in one pass with an online maximum",
        "One-pass softmax: running maximum, rescaled sum",
    ),
    (
        "Pad the shared tile by a column against bank conflicts",
        "Avoid bank conflicts: pad the tile",
    ),
    ("Fuse bias and ReLU into the matrix product", "Apply bias and ReLU in the product's epilogue"),
    (
        "Double buffer the tiles with asynchronous copies",
        "Prefetch the next tile while one is used",
    ),
)
OTHER = (
    ("Unroll by four", "Unroll by eight"),
    ("Tile of 64 by 64 in shared memory", "Tile of 128 by 128 in shared memory"),
    ("Use float4 vector loads in the row kernel", "Use float2 vector loads in the row kernel"),
    ("Softmax in one pass with an online maximum", "Softmax in three passes over a cached row"),
    ("Pad the shared tile against bank conflicts", "Swizzle blocks so that they share tiles in L2"),
    ("A polynomial for the exponential", "The hardware's fast exponential"),
    ("Store past the caches", "Keep the output in the L2 cache"),
)


def alike() -> None:
    from kb.config import Home
    from kb.embedders import DEFAULT_EMBEDDER, create_embedder
    from search.lessons.duplicates import Alike

    embedder = create_embedder(DEFAULT_EMBEDDER, Home.find().cache)
    compare = Alike(embedder)
    print("| the same idea | cosine | taken for one | first | second |")
    print("|---|---|---|---|---|")
    for label, pairs in (("yes", SAME), ("no", OTHER)):
        for one, other in pairs:
            first, second = embedder.embed([one, other])
            joined = "yes" if compare(one, [other]) == 0 else "no"
            print(f"| {label} | {float(first @ second):.2f} | {joined} | {one} | {other} |")


if __name__ == "__main__":
    main()
