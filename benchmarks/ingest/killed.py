"""kill -9 at random moments of a real `kb ingest`; a second run must make it whole.

    python benchmarks/ingest/killed.py --rounds 20 --documents 40

Each round copies a home with the shipped documents in it, starts `kb ingest` on a folder of
documents, kills the whole process group after a random part of the time that an unbroken run takes,
runs the same command again, and compares what is in the store and in the index with the unbroken
run: documents, passages, scopes, vectors, and the answers to some questions. A run that had ended
by then is no round: another moment is drawn. With --steps one home is killed as each step begins,
whatever the speed of the machine. The exit code is 1 where a round differs.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

KB = [str(Path(sys.executable).parent / "kb")]
TEXT = """warp lane tile bank shared register occupancy latency bandwidth cache line vector load store
barrier fence block grid cluster reduction softmax product tensor core pipeline stage copy"""
WORDS = TEXT.split()
# As `kb ingest` calls them; after the first two there is still the encoder to load.
STEPS = ("reading documents", "embedding passages", "writing the index")
QUESTIONS = ("bank conflicts in shared memory", "document 3 about tiles", "pipeline stages")


def write_documents(folder: Path, count: int, rng: random.Random) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        parts = [f"# Document {number}"]
        for section in range(4):
            words = " ".join(rng.choices(WORDS, k=60))
            parts.append(f"## Section {section} on {rng.choice(WORDS)}\n\n{words}.")
        (folder / f"{number:03}.md").write_text("\n\n".join(parts) + "\n")


def command(
    home: Path, *arguments: object, told: IO[bytes] | int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*KB, *map(str, arguments)],
        env={**os.environ, "KB_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=told,
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
    from kb.records.types import Query

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


def after(seconds: float) -> Callable[[str], bool]:
    end = time.monotonic() + seconds
    return lambda _: time.monotonic() >= end


def at(step: str) -> Callable[[str], bool]:
    return lambda told: step in told


def kill(home: Path, docs: Path, reached: Callable[[str], bool]) -> str | None:
    """Kill an ingest at the moment that is told by what it said, and say what it had done.

    None where it had ended.
    """
    with tempfile.NamedTemporaryFile() as told:
        process = command(home, "ingest", docs, told=told.file)
        while not reached(Path(told.name).read_text()):
            if process.poll() is not None:
                return None
            time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    if process.wait() != -signal.SIGKILL:
        return None
    base = sqlite3.connect(f"file:{home / 'kb.sqlite'}?mode=ro", uri=True)
    (documents,) = base.execute("SELECT count(*) FROM documents WHERE key LIKE '/%'").fetchone()
    (pending,) = base.execute(
        "SELECT count(*) FROM passages WHERE content NOT IN (SELECT content FROM vectors)"
    ).fetchone()
    base.close()
    return f"{documents} documents stored, {pending} passages without a vector"


def killed_once(fresh: Path, docs: Path, seconds: float, rng: random.Random) -> Iterator[Path]:
    """Yield homes, each with an ingest in it that was killed at a random moment."""
    for number in itertools.count(1):
        home = shutil.copytree(fresh, fresh.with_name(f"home{number}"))
        moment = rng.uniform(0.1, 1.0) * seconds
        done = kill(home, docs, after(moment))
        if done is not None:
            print(f"killed after {moment:5.2f} s: {done}")
            yield home
        shutil.rmtree(home)


def killed_at_steps(fresh: Path, docs: Path) -> Path:
    """Return a home with an ingest in it that was killed as each of its steps began."""
    home = shutil.copytree(fresh, fresh.with_name("steps"))
    for step in STEPS:
        print(f"killed at {step!r}: {kill(home, docs, at(step)) or 'had ended'}")
    return home


def completed(home: Path, docs: Path, expected: dict[str, Any]) -> bool:
    """Run a killed ingest again; return whether it is now as the unbroken one."""
    run(home, "ingest", docs)
    found = differences(contents(home), expected)
    verdict = f"DIFFERS in {', '.join(found)}" if found else "equal to the unbroken run"
    print(f"    run again: {verdict}", flush=True)
    return not found


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
        "--steps", action="store_true", help="kill one home at each step instead, and run it again"
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
        fresh = room / "fresh"
        if given.home is None:
            run(fresh, "init")
        else:
            shutil.copytree(given.home, fresh)
        whole = shutil.copytree(fresh, room / "whole")
        seconds = run(whole, "ingest", docs)
        expected = contents(whole)
        count = len(expected["passages"])
        print(
            f"unbroken: {seconds:.1f} s, {len(expected['documents'])} documents, {count} passages"
        )
        if given.steps:
            homes: Iterator[Path] = iter([killed_at_steps(fresh, docs)])
        else:
            homes = itertools.islice(killed_once(fresh, docs, seconds, rng), given.rounds)
        equal = [completed(home, docs, expected) for home in homes]
        wrong = equal.count(False)
        print(f"{equal.count(True)} of {len(equal)} equal the unbroken run")
        if given.together:
            wrong += together(
                shutil.copytree(fresh, room / "shared"), docs, given.together, expected
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
