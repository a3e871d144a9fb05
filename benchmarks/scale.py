"""A library of many passages: what it costs to build, to keep and to ask.

    python benchmarks/scale.py [--passages 100000] [--chroma] [--keep FOLDER] [--json]

The texts are made of words with the frequencies of prose, and the vectors lie around those of the shipped
documents as real ones lie around each other: neighbours of several strengths, no clusters that a graph
could not leave. Questions are real sentences, embedded by the default encoder within the time that is
reported. Every phase is a process of its own, so that each has its own memory.

``--chroma`` builds and asks a Chroma server over the same passages besides.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from made_up import DOCUMENT, anchor_vectors, document, make_texts, make_vectors, passage, questions

BLOCK = 5000  # passages written at a time


def fill(count: int) -> dict[str, Any]:
    """Write documents, passages and vectors, as `kb ingest` and the encoder would."""
    from sqlalchemy import insert

    from kb.config import Home
    from kb.database import writing
    from kb.embedders import create_embedder
    from kb.knowledge import open_tables
    from kb.store.documents import Store
    from kb.store.tables import DocumentRow, PassageRow, VectorRow

    engine = open_tables(Home.find().make())
    rng = np.random.default_rng(0)
    embedder = create_embedder("minilm", Home.find().cache)
    anchors = anchor_vectors()
    began = time.perf_counter()
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        texts, vectors = make_texts(rng, size), make_vectors(rng, anchors, size)
        names = [f"{start + row:032x}" for row in range(size)]
        first, last = start // DOCUMENT, (start + size - 1) // DOCUMENT
        with writing(engine) as session:
            write = session.connection().execute
            write(insert(DocumentRow), [document(n) for n in range(first, last + 1)])
            write(
                insert(PassageRow),
                [passage(start + row, names[row], texts[row]) for row in range(size)],
            )
            write(
                insert(VectorRow),
                [
                    {"content": names[row], "embedder": embedder.name, "vector": vector.tobytes()}
                    for row, vector in enumerate(vectors)
                ],
            )
    Store(engine).set_state("generation", "made")
    return {"seconds": time.perf_counter() - began}


def build() -> dict[str, Any]:
    """Build the indexes from the database."""
    began = time.perf_counter()
    open_empty()
    return {"seconds": time.perf_counter() - began, "peak": peak()}


def grow() -> dict[str, Any]:
    """Ingest one more page and bring the indexes in step."""
    knowledge = open_empty()
    page = Path(os.environ["KB_HOME"]) / "page.md"
    page.write_text("# A page\n\nSwizzled tiles.\n\n## More\n\nPrefetched rows.\n")
    began = time.perf_counter()
    knowledge.ingest([page])
    return {"seconds": time.perf_counter() - began, "peak": peak()}


def ask() -> dict[str, Any]:
    """Open the library and ask it, with and without a filter."""
    from kb.records.types import Query, Scope

    began = time.perf_counter()
    knowledge = open_empty()
    asked = questions()
    knowledge.retriever.search(Query(text="an opening question"))
    first = time.perf_counter() - began
    found: dict[str, Any] = {"first": first}
    scopes = {
        "none": Scope(),
        "vendor": Scope(vendor=("amd",)),
        "narrow": Scope(vendor=("amd",), language=("hip",)),
    }
    for name, scope in scopes.items():
        warm = [Query(text=f"{text} again", scope=scope) for text in asked[:5]]
        clock(knowledge.retriever.search, warm)
        # Each question is new to the encoder: nothing is answered from a cache.
        queries = [Query(text=f"{text} ({name})", scope=scope) for text in asked]
        found[name] = clock(knowledge.retriever.search, queries)
    index = knowledge.derived.current()
    vectors = knowledge.derived.embedder.embed(asked[:50])
    every = np.ones(len(index.ids), bool)
    found["embed"] = clock(lambda text: knowledge.derived.embedder.embed([text]), asked)
    found["dense"] = clock(lambda vector: index.dense.rank(vector, every, 100), list(vectors))
    found["lexical"] = clock(lambda text: index.lexical.rank(text, every, 100), asked)
    found["memory"] = peak()
    found["own"] = own_memory()
    return found


def compare() -> dict[str, Any]:
    """Recall of the approximate ranking against comparing every vector, with and without a filter."""
    knowledge = open_empty()
    index = knowledge.derived.current()
    rng = np.random.default_rng(7)
    count = len(index.ids)
    real = knowledge.derived.embedder.embed(questions()[:100])
    near = make_vectors(rng, anchor_vectors(), 100)
    every = np.ones(count, bool)
    half = rng.random(count) < 0.5
    return {
        "questions": recall(index, real, every),
        "neighbours": recall(index, near, every),
        "filtered": recall(index, near, half),
    }


def chroma(count: int) -> dict[str, Any]:
    """Build and ask a Chroma server over the same passages."""
    from kb.config import Home
    from kb.embedders import create_embedder
    from kb.indexes.sync import IndexSync
    from kb.knowledge import open_tables
    from kb.store.documents import Store

    home = Home.find()
    store = Store(open_tables(home))
    embedder = create_embedder("minilm", home.cache)
    folder = home.root / "server"
    with serving(folder) as address:
        os.environ["KB_CHROMA"] = address
        derived = IndexSync(store, embedder, home, "chroma")
        local = open_empty().derived.current()
        began = time.perf_counter()
        index = derived.current()
        seconds = time.perf_counter() - began
        vectors = embedder.embed(questions()[:100])
        near = make_vectors(np.random.default_rng(7), anchor_vectors(), 100)
        every = np.ones(count, bool)
        return {
            "build": seconds,
            "dense": clock(lambda vector: index.dense.rank(vector, every, 100), list(vectors)),
            "questions": recall(index, vectors, every, local),
            "neighbours": recall(index, near, every, local),
            "disk": size_of(folder),
        }


# --- parts -------------------------------------------------------------------------------------------


def open_empty() -> Any:
    from kb.config import Home
    from kb.knowledge import open_knowledge

    home = Home.find().make()
    empty = home.root / "empty"
    empty.mkdir(exist_ok=True)
    return open_knowledge(home, shipped=empty)


def clock(work: Callable[[Any], object], given: Sequence[Any]) -> dict[str, float]:
    """Return the median and the 95th percentile of each call's seconds, and the processor's median."""
    seconds, busy = [], []
    for one in given:
        began, worked = time.perf_counter(), time.process_time()
        work(one)
        seconds.append(time.perf_counter() - began)
        busy.append(time.process_time() - worked)
    return {
        "p50": float(np.percentile(seconds, 50)),
        "p95": float(np.percentile(seconds, 95)),
        "busy": float(np.percentile(busy, 50)),
    }


def recall(
    index: Any, vectors: np.ndarray, among: np.ndarray, local: Any = None
) -> dict[str, float]:
    """Return the share of the true 10 and 100 nearest that are found, over all vectors."""
    wanted: dict[int, int] = {10: 0, 100: 0}
    allowed = np.flatnonzero(among)
    matrix = np.concatenate([one.matrix for one in (local or index).segments])
    for vector in vectors:
        scores = matrix[allowed] @ vector if len(allowed) < len(matrix) else matrix @ vector
        order = np.argpartition(-scores, 100)[:100]
        truth = allowed[order[np.argsort(-scores[order])]]
        found = [one.row for one in index.dense.rank(vector, among, 100)]
        for depth in wanted:
            wanted[depth] += len(set(found[:depth]) & set(truth[:depth].tolist()))
    return {f"at{depth}": hits / depth / len(vectors) for depth, hits in wanted.items()}


class serving:  # noqa: N801 - reads as what it does
    """A Chroma server on a free port, as a context."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        program = str(Path(sys.executable).with_name("chroma"))
        command = [program, "run", "--path", str(folder), "--host", "127.0.0.1"]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> str:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return f"127.0.0.1:{self.port}"
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the Chroma server did not come up")

    def __exit__(self, *_: object) -> None:
        print(f"server: {status(self.process.pid, 'VmHWM') / 1e9:.2f} GB at most", file=sys.stderr)
        self.process.kill()
        self.process.wait()


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def own_memory() -> float:
    """Return what the process holds for itself: mapped files can be dropped at any time."""
    return status(os.getpid(), "RssAnon")


def status(process: int, name: str) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(float(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def size_of(place: Path) -> int:
    if place.is_file():
        return place.stat().st_size
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


# --- the report --------------------------------------------------------------------------------------


def phase(name: str, folder: Path, *given: object) -> dict[str, Any]:
    environment = {**os.environ, "KB_HOME": str(folder / "home"), "SCALE_FOLDER": str(folder)}
    environment.pop("KB_CHROMA", None)
    command = [sys.executable, str(Path(__file__).resolve()), "--phase", name, *map(str, given)]
    print(f"… {name}", file=sys.stderr)
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def cold(folder: Path) -> float:
    """Return the seconds of a whole `kb search`, the median of five."""
    environment = {**os.environ, "KB_HOME": str(folder / "home"), "SCALE_FOLDER": str(folder)}
    command = [str(Path(sys.executable).with_name("kb")), "search", "bank conflicts", "--json"]
    seconds = []
    subprocess.run(command, env=environment, check=True, capture_output=True)  # the shipped library
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[2]


def measure(count: int, folder: Path, *, with_chroma: bool) -> dict[str, Any]:
    filled = folder / "filled"
    found: dict[str, Any] = {"passages": count}
    if not filled.exists():
        found["fill"] = phase("fill", folder, "--passages", count)
        filled.touch()
    found["build"] = phase("build", folder)
    home = folder / "home"
    found["disk"] = {
        "database": size_of(home / "kb.sqlite"),
        "index": size_of(home / "index"),
        "chroma": size_of(home / "chroma"),
    }
    found["ask"] = phase("ask", folder)
    found["recall"] = phase("compare", folder)
    found["grow"] = phase("grow", folder)
    found["cold"] = cold(folder)
    if with_chroma:
        found["server"] = phase("chroma", folder, "--passages", count)
    return found


def lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    count, ask_, disk = found["passages"], found["ask"], found["disk"]
    yield "passages", f"{count:,}"
    yield "indexes built from the database", f"{found['build']['seconds']:.1f} s"
    yield "memory while building, at most", f"{found['build']['peak'] / 1e9:.2f} GB"
    yield "one page more", f"{found['grow']['seconds']:.2f} s"
    for name, size in disk.items():
        yield f"disk of a passage: {name}", f"{size / count / 1e3:.2f} KB"
    yield "memory of a passage, asking (own)", f"{ask_['own'] / count / 1e3:.2f} KB"
    yield (
        "memory, asking (own / with mapped files)",
        f"{ask_['own'] / 1e9:.2f} / {ask_['memory'] / 1e9:.2f} GB",
    )
    yield "open and first question, in a new process", f"{ask_['first']:.2f} s"
    yield "`kb search`, whole command", f"{found['cold']:.2f} s"
    names = {
        "none": "question, no filter",
        "vendor": "question, one vendor",
        "narrow": "question, one vendor and language",
        "embed": "of it: embedding",
        "dense": "of it: 100 nearest of all",
        "lexical": "of it: 100 best by words of all",
    }
    for name, label in names.items():
        both = ask_[name]
        times = f"{both['p50'] * 1e3:.1f} / {both['p95'] * 1e3:.1f} ms"
        yield f"{label}, p50 / p95 (processor)", f"{times} ({both['busy'] * 1e3:.1f} ms)"
    for name, part in found["recall"].items():
        yield f"recall@10 / @100, {name}", f"{part['at10']:.4f} / {part['at100']:.4f}"
    if "server" in found:
        served = found["server"]
        both = served["dense"]
        yield "Chroma server: filled", f"{served['build']:.0f} s"
        yield "Chroma server: disk of a passage", f"{served['disk'] / count / 1e3:.2f} KB"
        yield (
            "Chroma server: 100 nearest, p50 / p95",
            f"{both['p50'] * 1e3:.1f} / {both['p95'] * 1e3:.1f} ms",
        )
        for name in ("questions", "neighbours"):
            part = served[name]
            yield (
                f"Chroma server: recall@10 / @100, {name}",
                f"{part['at10']:.4f} / {part['at100']:.4f}",
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--chroma", action="store_true")
    parser.add_argument("--keep", type=Path, help="work here, and leave the library")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--phase", help=argparse.SUPPRESS)
    given = parser.parse_args()
    phases: dict[str, Callable[[], dict[str, Any]]] = {
        "fill": lambda: fill(given.passages),
        "build": build,
        "grow": grow,
        "ask": ask,
        "compare": compare,
        "chroma": lambda: chroma(given.passages),
    }
    if given.phase:
        print(json.dumps(phases[given.phase]()))
        return
    folder = given.keep or Path(tempfile.mkdtemp(prefix="kb-scale-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = measure(given.passages, folder, with_chroma=given.chroma)
    finally:
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print("| what | measured |\n|---|---|")
    for label, value in lines(found):
        print(f"| {label} | {value} |")


if __name__ == "__main__":
    main()
