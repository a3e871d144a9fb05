"""What share of the bare encoder's rate an ingest reaches: the rest is reading, cutting, writing, indexing.

    python benchmarks/ingest/rate.py [--passages 1500] [--rounds 2]

The documents are Markdown of the shipped library, with a sentence in each section that makes it new. The
bare rate is that of the encoder on the very passages that the ingest made of them, given to it at once. Each
measurement is a process of its own, whose imports do not count; they take turns, and the best of each counts.
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


def make_documents(folder: Path, passages: int) -> None:
    """Write documents until they have about as many sections as passages are asked for."""
    from kb.config import shipped_docs
    from kb.records.front_matter import split_front_matter

    bodies = []
    for path in sorted(shipped_docs().rglob("*.md")):
        body = split_front_matter(path.read_text())[1]
        if body.count("\n## ") >= 2:
            bodies.append(body)
    made, number = 0, 0
    while made < passages:
        sections = bodies[number % len(bodies)].split("\n## ")
        marked = [f"{part}\n\nMeasured in round {number}.\n" for part in sections]
        text = f"# Notes {number}\n\n" + "\n## ".join(marked)
        (folder / f"{number:05}.md").write_text(text)
        made, number = made + len(sections), number + 1


def ingest(documents: Path) -> dict[str, float]:
    """Ingest the documents into a new home."""
    from kb.config import Home
    from kb.knowledge import open_knowledge

    home = Home.find().make()
    empty = home.root / "empty"
    empty.mkdir(exist_ok=True)
    knowledge = open_knowledge(home, shipped=empty)
    knowledge.retriever._embedder.embed(["load the encoder"])
    began = time.perf_counter()
    knowledge.ingest([documents])
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "passages": knowledge.store.stats()["passages"]}


def again(documents: Path) -> dict[str, float]:
    """Ingest what has not changed."""
    return ingest(documents)


def bare(documents: Path) -> dict[str, float]:
    """Embed the passages of a home with nothing around it."""
    from sqlalchemy import select

    from kb.config import Home
    from kb.database import reading
    from kb.embedders import create_embedder
    from kb.knowledge import open_tables
    from kb.store.tables import PassageRow, embedded_text

    with reading(open_tables(Home.find())) as session:
        rows = session.execute(select(PassageRow.section, PassageRow.text)).all()
    texts = [embedded_text(section, text) for section, text in rows]
    embedder = create_embedder("minilm", Home.find().cache)
    embedder.embed(["load the encoder"])
    began = time.perf_counter()
    embedder.embed(texts)
    return {"seconds": time.perf_counter() - began, "passages": len(texts)}


PHASES: dict[str, Callable[[Path], dict[str, float]]] = {
    "ingest": ingest,
    "again": again,
    "bare": bare,
}


def phase(name: str, documents: Path, home: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--phase", name, "--documents", str(documents)]
    environment = {**os.environ, "KB_HOME": str(home)}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--phase", choices=list(PHASES), help=argparse.SUPPRESS)
    parser.add_argument("--documents", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.phase:
        print(json.dumps(PHASES[given.phase](given.documents)))
        return
    rates: dict[str, list[float]] = {"ingest": [], "bare": []}
    with tempfile.TemporaryDirectory(prefix="kb-rate-") as place:
        documents = Path(place) / "documents"
        documents.mkdir()
        make_documents(documents, given.passages)
        for number in range(given.rounds):
            home = Path(place) / f"home{number}"
            for name, measured in rates.items():
                found = phase(name, documents, home)
                measured.append(found["passages"] / found["seconds"])
        unchanged = phase("again", documents, home)
    whole, encoder = max(rates["ingest"]), max(rates["bare"])
    print("| what | measured |\n|---|---|")
    print(f"| passages | {found['passages']:,.0f} |")
    print(f"| ingest | {whole:.1f} passages/s |")
    print(f"| the encoder alone | {encoder:.1f} passages/s |")
    print(f"| share | {whole / encoder:.0%} |")
    print(f"| the same again, nothing changed | {unchanged['seconds']:.2f} s |")


if __name__ == "__main__":
    main()
