"""Policies on real tasks: the offline author, judged on this processor.

    python -m benchmarks.policies.real OUT.json [--seeds 1] [--candidates 16] [--policies beam greedy]

Each run has a home of its own and learns nothing from another. Sources that an earlier run of the same
task has had judged are not judged again: two policies that try the same source see the same outcome, so
that noise of the clock is not taken for a difference of policies. OUT.json is added to as runs end.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.policies.__main__ import interval
from kb.config import Home

EXAMPLES = Path(__file__).parents[2] / "examples"
TASKS = ("softmax", "layernorm", "rmsnorm", "chain", "matmul_epilogue", "convolution")
KB = (sys.executable, "-m", "kb.cli")


def evolve(folder: Path, task: str, policy: str, seed: int, candidates: int) -> dict[str, Any]:
    """Run one search in a home of its own; return its row."""
    home = folder / f"{policy}-{seed}"
    subprocess.run((*KB, "init"), check=True, env=os.environ | {"KB_HOME": str(home)})
    known = folder / "known.db"
    if known.exists():
        _take_outcomes(_database(home), known)
    reference = str((EXAMPLES / f"{task}.py").absolute())
    stop = {"candidates": candidates, "minutes": None, "stalled_rounds": None, "roofline": None}
    search = {"policy": policy, "seed": seed, "rounds": 50, "ideas": 3, "branches": 2}
    file = folder / f"{task}-{policy}-{seed}.yaml"
    file.write_text(
        yaml.safe_dump(
            {"reference": reference, "author": "recipes", "search": search, "stop": stop}
            | {"final_seconds": 1.0, "compiler": False}
        )
    )
    command = (*KB, "evolve", str(file), "--json")
    environment = os.environ | {"KB_HOME": str(home)}
    done = subprocess.run(command, check=False, capture_output=True, env=environment)
    if done.returncode not in (0, 4):
        raise SystemExit(done.stderr.decode())
    report = json.loads(done.stdout)
    _copy(_database(home), known)
    speeds = _speeds(_database(home))
    return {"task": task, "policy": policy, "seed": seed, "speeds": speeds, "run": report["run"]}


def _database(home: Path) -> Path:
    return Home(home).database


def _copy(mine: Path, known: Path) -> None:
    # A copy of the file would lack what its write-ahead log holds.
    with sqlite3.connect(mine) as source, sqlite3.connect(known) as target:
        source.backup(target)


def _take_outcomes(mine: Path, known: Path) -> None:
    with sqlite3.connect(mine) as connection:
        connection.execute("ATTACH ? AS other", (str(known),))
        connection.execute(
            "CREATE TABLE IF NOT EXISTS outcomes (key VARCHAR PRIMARY KEY, outcome TEXT NOT NULL, "
            "judged FLOAT NOT NULL)"
        )
        connection.execute("INSERT OR IGNORE INTO outcomes SELECT * FROM other.outcomes")
        connection.commit()


def _speeds(database: Path) -> list[float]:
    query = (
        "SELECT outcomes.outcome FROM nodes JOIN outcomes ON nodes.outcome = outcomes.key "
        "ORDER BY nodes.number"
    )
    with sqlite3.connect(database) as connection:
        found = [json.loads(text) for (text,) in connection.execute(query)]
    return [one["speedup"]["eager"]["ratio"] if one["kind"] == "passed" else 0.0 for one in found]


def table(rows: list[dict[str, Any]]) -> None:
    """Print the best of each run, and each policy's geometric mean over that of beam."""
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    print("| task | seed | " + " | ".join(policies) + " |")
    print("|---" * (len(policies) + 2) + "|")
    best = {(r["task"], r["seed"], r["policy"]): max((1.0, *r["speeds"])) for r in rows}
    places = list(dict.fromkeys((row["task"], row["seed"]) for row in rows))
    for place in places:
        cells = [f"{best[*place, p]:.2f}x" if (*place, p) in best else "" for p in policies]
        print(f"| {place[0]} | {place[1]} | " + " | ".join(cells) + " |")
    for policy in policies:
        pairs = [(best[*p, policy], best[*p, "beam"]) for p in places if (*p, policy) in best]
        logs = [math.log(mine / beam) for mine, beam in pairs]
        ratio, low, high = map(math.exp, (statistics.fmean(logs), *interval(logs)))
        print(f"{policy}: {ratio:.3f} ({low:.3f} to {high:.3f}) of beam over {len(pairs)} runs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--policies", nargs="+", default=["beam", "greedy"])
    asked = parser.parse_args()
    rows = json.loads(asked.out.read_text()) if asked.out.exists() else []
    done = {(row["task"], row["policy"], row["seed"]) for row in rows}
    for task in TASKS:
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(asked.seeds):
                for policy in asked.policies:
                    if (task, policy, seed) in done:
                        continue
                    rows.append(evolve(Path(folder), task, policy, seed, asked.candidates))
                    asked.out.write_text(json.dumps(rows))
    table(rows)


if __name__ == "__main__":
    main()
