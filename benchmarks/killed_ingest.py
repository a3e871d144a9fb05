"""kill -9 at random moments of a real `kb ingest`; a second run must make it whole.

    python benchmarks/killed_ingest.py --rounds 20 --documents 40

Each round copies a home with the shipped documents in it, starts `kb ingest` on a folder of
documents, kills the whole process group after a random part of the time that an unbroken run takes,
runs the same command again, and compares what is in the store and in the index with the unbroken
run: documents, passages, scopes, vectors, and the answers to some questions. The exit code is 1
where a round differs.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

KB = [str(Path(sys.executable).parent / "kb")]
TEXT = """warp lane tile bank shared register occupancy latency bandwidth cache line vector load store
barrier fence block grid cluster reduction softmax product tensor core pipeline stage copy"""
WORDS = TEXT.split()
QUESTIONS = ("bank conflicts in shared memory", "document 3 about tiles", "pipeline stages")


def write_documents(folder: Path, count: int, rng: random.Random) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        parts = [f"# Document {number}"]
        for section in range(4):
            words = " ".join(rng.choices(WORDS, k=60))
            parts.append(f"## Section {section} on {rng.choice(WORDS)}\n\n{words}.")
        (folder / f"{number:03}.md").write_text("\n\n".join(parts) + "\n")


def command(home: Path, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*KB, *map(str, arguments)],
        env={**os.environ, "KB_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def run(home: Path, *arguments: object) -> float:
    began = time.monotonic()
    process = command(home, *arguments)
    error = process.communicate()[1]
    if process.returncode != 0:
        raise SystemExit(f"kb {arguments} failed: {error.decode()}")
    return time.monotonic() - began


def contents(home: Path) -> dict[str, Any]:
    """What an ingest leaves, without the times at which it was made."""
    import numpy as np

    base = sqlite3.connect(f"file:{home / 'kb.sqlite'}?mode=ro", uri=True)
    assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    documents = base.execute(
        "SELECT key, shown, digest, kind, name, title, record, body, scope, found, symptoms "
        "FROM documents ORDER BY key"
    ).fetchall()
    passages = base.execute(
        "SELECT d.key, p.position, p.id, p.section, p.text, p.tokens, p.content, p.scope, p.found "
        "FROM passages p JOIN documents d ON d.id = p.document_id ORDER BY d.key, p.position, p.id"
    ).fetchall()
    vectors = base.execute(
        "SELECT content, embedder, vector FROM vectors "
        "WHERE content IN (SELECT content FROM passages) ORDER BY content"
    ).fetchall()
    base.close()
    return {
        "documents": documents,
        "passages": passages,
        "embedded": [row[:2] for row in vectors],
        "vectors": np.frombuffer(b"".join(row[2] for row in vectors), "<f4"),
        "answers": answers(home),
    }


def answers(home: Path) -> list[list[str]]:
    from kb.config import Home
    from kb.knowledge import open_knowledge
    from kb.types import Query

    retriever = open_knowledge(Home(home)).retriever
    return [[hit.passage.id for hit in retriever.search(Query(text=one))] for one in QUESTIONS]


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    import numpy as np

    differing = [name for name in expected if name != "vectors" and found[name] != expected[name]]
    a, b = found["vectors"], expected["vectors"]
    # The encoder's last bits depend on which texts share a batch.
    if a.shape != b.shape or not np.allclose(a, b, atol=1e-4):
        differing.append("vectors")
    return differing


def kill(home: Path, docs: Path, after: float) -> str:
    """Start an ingest, kill it and say what it had done."""
    process = command(home, "ingest", docs)
    try:
        process.wait(after)
        return "had ended"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finally:
        assert process.stderr is not None
        process.stderr.close()
    base = sqlite3.connect(f"file:{home / 'kb.sqlite'}?mode=ro", uri=True)
    (documents,) = base.execute("SELECT count(*) FROM documents WHERE key LIKE '/%'").fetchone()
    (pending,) = base.execute(
        "SELECT count(*) FROM passages WHERE content NOT IN (SELECT content FROM vectors)"
    ).fetchone()
    base.close()
    return f"{documents} documents stored, {pending} passages without a vector"


def together(home: Path, docs: Path, count: int, expected: dict[str, Any]) -> int:
    """Run so many ingests at once on one home; return 1 where that differs from one."""
    processes = [command(home, "ingest", docs) for _ in range(count)]
    errors = [process.communicate()[1].decode() for process in processes]
    for process, error in zip(processes, errors, strict=True):
        if process.returncode != 0:
            print(f"one of {count} at once failed: {error}")
            return 1
    found = differences(contents(home), expected)
    verdict = f"DIFFERS in {', '.join(found)}" if found else "equal to one alone"
    print(f"{count} at once: {verdict}")
    return int(bool(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument(
        "--chain", type=int, help="kill so many runs on one home, one after the other, and then run"
    )
    parser.add_argument("--together", type=int, default=0, help="run so many at once as well")
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--home", type=Path, help="a home made by `kb init`; one is made without")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="kb-killed-") as name:
        room = Path(name).resolve()
        docs = room / "docs"
        write_documents(docs, given.documents, rng)
        fresh = given.home or room / "fresh"
        if given.home is None:
            run(fresh, "init")
        whole = shutil.copytree(fresh, room / "whole")
        seconds = run(whole, "ingest", docs)
        expected = contents(whole)
        count = len(expected["passages"])
        print(
            f"unbroken: {seconds:.1f} s, {len(expected['documents'])} documents, {count} passages"
        )
        homes = given.rounds if given.chain is None else 1
        wrong = 0
        for number in range(1, homes + 1):
            home = shutil.copytree(fresh, room / f"home{number}")
            for _ in range(given.chain or 1):
                after = rng.uniform(0.1, 1.0) * seconds
                print(f"{number:>3}. killed after {after:5.2f} s: {kill(home, docs, after)}")
            run(home, "ingest", docs)
            found = differences(contents(home), expected)
            wrong += bool(found)
            verdict = f"DIFFERS in {', '.join(found)}" if found else "equal to the unbroken run"
            print(f"     run again: {verdict}", flush=True)
            shutil.rmtree(home)
        print(f"{homes - wrong} of {homes} equal the unbroken run")
        if given.together:
            wrong += together(
                shutil.copytree(fresh, room / "shared"), docs, given.together, expected
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
