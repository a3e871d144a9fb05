"""What retrieval is worth to a search: the same task and budget with it and without it.

    python benchmarks/ablation.py TASK [--minutes 2] [--candidates 30] [--seeds 5] [--author recipes,llm] [--json]

Each seed is searched once in each arm, one run after the other in turn, each in an empty home, so that no
lesson is carried over. Without retrieval authors are given no passages (`retrieval: off` in the task); what
every prompt quotes whole (the rules of an answer, the notes on the language) stays. The offline author
then tries its recipes in the order of their names. A model takes part where the task or KB_MODEL names
one. Ratios are paired by seed, with Student's interval over the logarithms: below three seeds there is none.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

KB = Path(sys.executable).parent / "kb"
TEMPLATE = "template"
NEAR = 1.03  # within it two candidates are as fast as each other
ARMS = {"with retrieval": True, "without": False}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One search.

    Attributes:
        seconds: of one call of each candidate, in order; infinite where it did not pass.
        speedup: of the confirmed best over eager, 1 where none passed.
    """

    seed: int
    seconds: tuple[float, ...]
    speedup: float

    @property
    def best(self) -> float:
        return min(self.seconds, default=math.inf)

    @property
    def passed(self) -> float:
        return sum(map(math.isfinite, self.seconds)) / max(1, len(self.seconds))


def main() -> None:
    options = _options()
    found: dict[str, dict[str, list[Run]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        # Every run begins with the shipped documents read: that is no part of its minutes.
        _call({**os.environ, "KB_HOME": str(Path(folder, TEMPLATE))}, "init", "--json")
        for author in _authors(options):
            arms: dict[str, list[Run]] = {name: [] for name in ARMS}
            for seed in range(options.seeds):
                # In turn, and the other way round every second time: drift falls on both alike.
                for name in list(ARMS)[:: 1 if seed % 2 == 0 else -1]:
                    place = Path(folder, f"{author}-{seed}-{name.replace(' ', '-')}")
                    arms[name].append(_search(options, author, seed, ARMS[name], place))
                    last = arms[name][-1]
                    print(
                        f"{author}, seed {seed}, {name}: {last.speedup:.2f}x, "
                        f"{len(last.seconds)} candidates",
                        file=sys.stderr,
                    )
            found[author] = arms
    if options.json:
        plain = {
            a: {n: [asdict(r) for r in runs] for n, runs in x.items()} for a, x in found.items()
        }
        print(json.dumps(plain, indent=2))
        return
    for author, arms in found.items():
        print(_table(options, author, arms))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", type=Path, help="a task's YAML")
    parser.add_argument("--minutes", type=float, default=2.0, help="of each run")
    parser.add_argument("--candidates", type=int, default=30, help="of each run, at most")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--author", default=None, help="recipes, llm, or both with a comma")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _authors(options: argparse.Namespace) -> list[str]:
    if options.author:
        return [str(name) for name in options.author.split(",")]
    settings = yaml.safe_load(options.task.read_text()) or {}
    model = bool(settings.get("model") or os.environ.get("KB_MODEL"))
    if not model:
        print("no model is configured: the offline author alone is compared", file=sys.stderr)
    return ["recipes", "llm"] if model else ["recipes"]


def _search(
    options: argparse.Namespace, author: str, seed: int, retrieval: bool, place: Path
) -> Run:
    place.mkdir(parents=True)
    shutil.copytree(place.parent / TEMPLATE, place / "home")
    settings = yaml.safe_load(options.task.read_text()) or {}
    reference = options.task.parent / settings["reference"]
    settings |= {"reference": str(reference.resolve()), "retrieval": retrieval}
    task = place / options.task.name
    task.write_text(yaml.safe_dump(settings))
    environment = {**os.environ, "KB_HOME": str(place / "home")}
    report = _call(
        environment,
        *("evolve", task, "--json", "--author", author, "--seed", seed),
        *("--minutes", options.minutes, "--candidates", options.candidates),
    )
    seconds = []
    for number in range(report["candidates"]):
        result = _call(environment, "node", report["run"], number, "--json")["result"]
        seconds.append(result["seconds"] if result["kind"] == "passed" else math.inf)
    if not seconds:
        print("a run ended before its first candidate: give it more minutes", file=sys.stderr)
    best = report["best"]
    speedup = best["speedup"]["eager"]["ratio"] if best else 1.0
    return Run(seed=seed, seconds=tuple(seconds), speedup=speedup)


def _call(environment: dict[str, str], *arguments: object) -> Any:
    command = [str(KB), *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if done.returncode not in (0, 4):  # 4: no candidate passed
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def _table(options: argparse.Namespace, author: str, arms: dict[str, list[Run]]) -> str:
    name = options.task.stem
    lines = [
        f"## {name}, author {author}: {options.seeds} seeds, {options.minutes:g} minutes and at most "
        f"{options.candidates} candidates a run",
        "",
        "| | over eager, geometric mean | reached at candidate, median | passed |",
        "|---|---|---|---|",
    ]
    goals = [NEAR * min(run.best for run in pair) for pair in zip(*arms.values(), strict=True)]
    for arm, runs in arms.items():
        reached = [_reached(run, goal) for run, goal in zip(runs, goals, strict=True)]
        middle = float(np.median(reached))
        lines.append(
            f"| {arm} | {_geometric([run.speedup for run in runs])} | "
            f"{'not' if math.isinf(middle) else f'{middle:g}'} | "
            f"{np.mean([run.passed for run in runs]):.0%} |"
        )
    one, other = arms.values()
    ratios = [a.speedup / b.speedup for a, b in zip(one, other, strict=True)]
    lines.append(f"| with over without, paired | {_geometric(ratios)} | | |")
    lines += ["", f"Reached: within {NEAR - 1:.0%} of the best that either run of a seed found."]
    return "\n".join(lines) + "\n"


def _reached(run: Run, goal: float) -> float:
    return next((n for n, seconds in enumerate(run.seconds, 1) if seconds <= goal), math.inf)


def _geometric(values: Sequence[float]) -> str:
    from scipy.stats import t

    logs = np.log(values)
    mean = float(np.exp(logs.mean()))
    if len(values) < 3:
        return f"{mean:.3f}"
    half = t.ppf(0.975, len(values) - 1) * logs.std(ddof=1) / math.sqrt(len(values))
    low, high = np.exp(logs.mean() - half), np.exp(logs.mean() + half)
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()
