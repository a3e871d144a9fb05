"""How long the first index and a search take, as a user of the command line meets them.

    python benchmarks/cold_search.py

Each figure is the least of several processes, on a home of its own in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 7
QUESTIONS = (
    "shared memory bank conflicts",
    "register-blocked convolution with pooling fused in",
    "softmax of long rows",
    "float4 loads",
    "why is my reduction slow",
)
SEARCH = """
import json, sys, time
began = time.perf_counter()
from kb.config import Home
from kb.knowledge import open_knowledge
from kb.records.types import Query
knowledge = open_knowledge(Home.find())
opened = time.perf_counter()
questions = json.loads(sys.argv[1])
knowledge.retriever.search(Query(text=questions[0]))
first = time.perf_counter()
warm = []
for question in questions * 4:
    at = time.perf_counter()
    knowledge.retriever.search(Query(text=question))
    warm.append(time.perf_counter() - at)
print(json.dumps({"open": opened - began, "first": first - began, "warm": sorted(warm)[len(warm) // 2],
                  "passages": knowledge.store.stats()["passages"]}))
"""


def run(*command: str, environment: dict[str, str]) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, **environment}, check=True, capture_output=True, text=True
    )
    return time.perf_counter() - began, done.stdout


def shipped(folder: Path) -> None:
    search = (sys.executable, "-c", SEARCH, json.dumps(QUESTIONS))
    fresh = {"KB_HOME": str(folder / "one"), "XDG_CACHE_HOME": str(folder / "cache")}
    seconds, output = run(*search, environment=fresh)
    passages = json.loads(output)["passages"]
    print(f"first use, encoder exported, {passages} passages indexed  {seconds:8.2f} s")
    second = {**fresh, "KB_HOME": str(folder / "two")}
    seconds, _ = run(*search, environment=second)
    print(f"another new home, same cache                          {seconds:8.2f} s")
    reports = [json.loads(run(*search, environment=fresh)[1]) for _ in range(ROUNDS)]
    for key, label in (
        ("open", "open, in a new process"),
        ("first", "open and search, in a new process"),
        ("warm", "search, in the same process"),
    ):
        print(f"{label:54}{min(report[key] for report in reports):8.3f} s")
    kb = Path(sys.executable).with_name("kb")
    if kb.exists():
        for words in (["--help"], ["search", QUESTIONS[0], "--json"]):
            command = (str(kb), *words)
            seconds = min(run(*command, environment=fresh)[0] for _ in range(ROUNDS))
            print(f"{'kb ' + words[0] + ', whole command':54}{seconds:8.3f} s")


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shipped(Path(folder))


if __name__ == "__main__":
    main()
