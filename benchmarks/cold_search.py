"""How long the first index and a search take, as a user of the command line meets them.

    python benchmarks/cold_search.py [--passages 20000]

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
from collections.abc import Callable
from pathlib import Path

import numpy as np

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
from kb.types import Query
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


def least(work: Callable[[], float]) -> float:
    return min(work() for _ in range(ROUNDS))


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
            seconds = least(lambda command=command: run(*command, environment=fresh)[0])
            print(f"{'kb ' + words[0] + ', whole command':54}{seconds:8.3f} s")


def large(folder: Path, count: int) -> None:
    """Time both dense indexes and the lexical one on many made-up passages."""
    from kb.indexes.chroma import Chroma
    from kb.indexes.files import load_index, write_index
    from kb.types import Passage

    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((count, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    words = [f"word{number}" for number in range(5000)]
    passages = [
        Passage(
            id=f"{row:08}",
            document=f"d{row // 10}",
            section="s",
            kind="document",
            text=" ".join(words[i] for i in (rng.pareto(1.0, 120) * 20).astype(int) % len(words)),
            tokens=120,
        )
        for row in range(count)
    ]
    at = time.perf_counter()
    write_index(folder / "index", "g", passages, vectors)
    print(f"{count} passages: write matrix and BM25{time.perf_counter() - at:23.2f} s")
    at = time.perf_counter()
    Chroma(folder / "chroma", "e").sync(passages, vectors)
    print(f"{count} passages: write Chroma{time.perf_counter() - at:32.2f} s")
    at = time.perf_counter()
    index = load_index(folder / "index")
    print(f"{count} passages: load{time.perf_counter() - at:40.3f} s")
    chroma = Chroma(folder / "chroma", "e", index.ids)
    every = np.ones(count, bool)
    some = np.zeros(count, bool)
    some[::100] = True

    def clock(work: Callable[[], object]) -> float:
        at = time.perf_counter()
        work()
        return time.perf_counter() - at

    for label, mask in (("all", every), ("one in a hundred", some)):
        for name, dense in (("exact", index.dense), ("chroma", chroma)):
            seconds = least(
                lambda dense=dense, mask=mask: clock(lambda: dense.rank(vectors[7], mask, 100))
            )
            print(f"{name}, top 100 among {label:34}{seconds:8.4f} s")
    seconds = least(lambda: clock(lambda: index.lexical.rank("word1 word20 word300", every, 100)))
    print(f"{'lexical, top 100 among all':54}{seconds:8.4f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=20_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shipped(Path(folder))
        large(Path(folder), arguments.passages)


if __name__ == "__main__":
    main()
