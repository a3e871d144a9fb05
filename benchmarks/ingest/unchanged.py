"""How long `kb ingest` takes over a large library of which nothing, or one file, changed.

    python benchmarks/ingest/unchanged.py --passages 100000

The documents are real files, read and cut by the real pipeline; their vectors are random, because
embedding 100,000 passages takes hours on two cores and plays no part in what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

KB = str(Path(sys.executable).parent / "kb")
PER_FILE = 20
AT_ONCE = 5000
TEXT = """warp lane tile bank shared register occupancy latency bandwidth cache line vector load store
barrier fence block grid cluster reduction softmax product tensor core pipeline stage copy"""
WORDS = TEXT.split()


def write_library(folder: Path, passages: int, rng: random.Random) -> None:
    for number in range(passages // PER_FILE):
        parts = [f"# Document {number}"]
        for section in range(PER_FILE):
            words = " ".join(rng.choices(WORDS, k=70))
            parts.append(f"## Section {section} of {number}\n\n{words}.")
        path = folder / f"{number % 100:02}" / f"{number:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(parts) + "\n")


def fill(home: Path, docs: Path) -> None:
    from ingest.pipeline import ingest
    from kb.config import Home
    from kb.knowledge import default_embedder, open_knowledge

    place = Home(home)
    knowledge = open_knowledge(place)
    ingest([docs], knowledge.store)
    embedder = default_embedder(place)
    contents = list(knowledge.store.pending(embedder.name))
    rng = np.random.default_rng(0)
    for start in range(0, len(contents), AT_ONCE):
        part = contents[start : start + AT_ONCE]
        vectors = rng.standard_normal((len(part), embedder.dimension)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        knowledge.store.put_vectors(embedder.name, part, vectors)
    knowledge.derived.current()


def timed(home: Path, docs: Path) -> tuple[str, dict[str, object]]:
    env = {**os.environ, "KB_HOME": str(home)}
    began, used = time.perf_counter(), cpu()
    done = subprocess.run(
        [KB, "ingest", str(docs), "--json"], env=env, capture_output=True, text=True, check=True
    )
    seconds = time.perf_counter() - began
    return f"{seconds:.2f} s ({cpu() - used:.2f} s of the processor)", json.loads(done.stdout)


def cpu() -> float:
    """Seconds that ended children used: what a busy machine does not stretch."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kb-unchanged-") as name:
        room = Path(name).resolve()
        home, docs = room / "home", room / "docs"
        write_library(docs, given.passages, random.Random(0))
        began = time.perf_counter()
        fill(home, docs)
        print(f"made: {given.passages} passages in {time.perf_counter() - began:.0f} s")
        for number in range(2):
            seconds, report = timed(home, docs)
            skipped = len(report["skipped"])  # type: ignore[arg-type] # a list
            print(f"unchanged, run {number + 1}: {seconds}, {skipped} documents skipped")
        one = next(docs.glob("00/*.md"))
        one.write_text(one.read_text().replace("Section 3 of", "Section 3 from"))
        seconds, report = timed(home, docs)
        print(f"one section changed: {seconds}, passages {report['passages']}")
        size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
        print(f"disk: {size / given.passages / 1024:.2f} KiB a passage")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(f"memory of kb ingest: {peak / 1024:.0f} MiB at most")


if __name__ == "__main__":
    main()
