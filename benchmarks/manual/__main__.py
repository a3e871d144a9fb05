"""Ingest three documentation trees and a manual of over 300 pages, and ask ten questions.

    python -m benchmarks.manual [--packages FOLDER] [--keep FOLDER]

The trees come from packages (`python -m benchmarks.retrieval.fetch` gets them): HTML by Sphinx and the
reStructuredText that it was made from. Other chapters of the same packages are typeset as one manual in
PDF, so that the right page of an answer is known from the typesetting. A fresh KB_HOME is used; every
command is a `kb` of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.manual.questions import QUESTIONS, Question
from benchmarks.manual.typeset import Placed, typeset
from benchmarks.retrieval.corpora import SOURCES, Corpus, locate
from benchmarks.retrieval.fetch import default_packages
from ingest.document import read_document
from ingest.readers import ParsedFile
from kb.errors import RecordError

TITLE = "Programming Parallel Devices"
# What the manual is made of; the trees get the other pages of the same packages.
CHAPTERS = {
    "llvm": ("AMDGPUUsage.html", "NVPTXUsage.html", "CompileCudaWithLLVM.html", "Vectorizers.html"),
    "numba": (
        "cuda/*.html",
        "user/*.html",
        *(f"reference/{name}.html" for name in ("envvars", "jit-compilation", "pysupported")),
    ),
}
TREES = {
    "llvm": ("Loop*.html", "Atomics.html", "Memory*.html", "OpaquePointers.html", "XRay.html"),
    "numba": ("cuda-reference/[hkmt]*.html", "extending/*.html"),
    "pyopencl": ("*.html",),
}
LIMIT = 5  # hits that are looked at


@dataclass(frozen=True, slots=True)
class Answered:
    """Where the right passage stood in the answer: 0 for nowhere."""

    rank: int
    section: str
    place: tuple[int, int]  # pages of that section
    pages: tuple[int, int]  # of the passage


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packages", type=Path, default=None)
    parser.add_argument(
        "--keep",
        type=Path,
        default=None,
        help="leave all here; what is here is read no second time",
    )
    arguments = parser.parse_args()
    found = {one.source.name: one for one in locate(arguments.packages or default_packages())[0]}
    missing = [name for name in TREES if name not in found]
    if missing:
        print(f"missing: {', '.join(missing)}: run `python -m benchmarks.retrieval.fetch` first")
        return 2
    with tempfile.TemporaryDirectory() as draft:
        place = arguments.keep or Path(draft)
        place.mkdir(parents=True, exist_ok=True)
        return _run(found, place)


def _run(found: dict[str, Corpus], place: Path) -> int:
    manual = place / "manual.pdf"
    placed, pages = typeset(list(chapters(found)), manual, TITLE)
    size = manual.stat().st_size / 2**20
    print(f"manual.pdf: {pages} pages, {len(placed)} headings, {size:.1f} MiB")
    trees = [_tree(found[name], patterns, place) for name, patterns in TREES.items()]
    for tree in trees:
        print(f"{tree.name}: {_formats(tree)}")
    home = place / "home"
    environment = os.environ | {"KB_HOME": str(home), "HF_HUB_OFFLINE": "1"}
    _kb(environment, "init", "--json")
    started = time.monotonic()
    report = _kb(environment, "ingest", *map(str, trees), str(manual), "--json")
    seconds = time.monotonic() - started
    print(f"kb ingest ({seconds:.0f} s): {_counts(report)}")
    first = _kb(environment, "search", QUESTIONS[0].text, "--json")  # embeds what is pending
    assert first is not None
    rows = [(one, _ask(environment, one, placed, pages)) for one in QUESTIONS]
    print("\n| question | section | page | rank | passage on |\n| --- | --- | --- | --- | --- |")
    for one, answer in rows:
        found = _span(*answer.pages) if answer.rank else "-"
        print(
            f"| {one.text} | {answer.section} | {_span(*answer.place)} | {answer.rank or '-'} | {found} |"
        )
    right = sum(answer.rank > 0 for _, answer in rows)
    print(
        f"\n{right} of {len(rows)} with the right section and page among the first {LIMIT}, "
        f"{sum(answer.rank == 1 for _, answer in rows)} of them first"
    )
    return 0 if right == len(rows) else 1


def chapters(found: dict[str, Corpus]) -> Iterator[ParsedFile]:
    for name, patterns in CHAPTERS.items():
        root = _root(found[name])
        for path in sorted(path for pattern in patterns for path in root.glob(pattern)):
            try:
                yield read_document(path.read_bytes(), path.name)
            except RecordError:
                continue  # a page of links


def _root(corpus: Corpus) -> Path:
    (source,) = (one for one in SOURCES if one.name == corpus.source.name)
    return corpus.root if corpus.root.name == "html" else corpus.root / source.root


def _tree(corpus: Corpus, patterns: Sequence[str], place: Path) -> Path:
    """Copy a tree: each page as HTML, or as the reStructuredText that it was made from."""
    root, tree = _root(corpus), place / f"{corpus.source.name}-docs"
    shutil.rmtree(tree, ignore_errors=True)
    pages = sorted(path for pattern in patterns for path in root.glob(pattern))
    for number, page in enumerate(pages):
        inside = page.relative_to(root)
        source = root / "_sources" / inside.with_suffix(".rst.txt")
        as_source = number % 2 == 1 and source.is_file()
        target = tree / (inside.with_suffix(".rst") if as_source else inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source if as_source else page, target)
    return tree


def _formats(tree: Path) -> str:
    files = [path for path in tree.rglob("*") if path.is_file()]
    suffixes = sorted({path.suffix for path in files})
    counts = (f"{sum(path.suffix == one for path in files)} {one}" for one in suffixes)
    return ", ".join(counts)


def _counts(report: dict[str, Any]) -> str:
    lists = {name: len(value) for name, value in report.items() if isinstance(value, list)}
    return ", ".join(f"{count} {name}" for name, count in lists.items())


def _ask(
    environment: dict[str, str], question: Question, placed: Sequence[Placed], pages: int
) -> Answered:
    hits = _kb(environment, "search", question.text, "--limit", str(LIMIT), "--json")
    for rank, hit in enumerate(hits["hits"] if isinstance(hits, dict) else hits, start=1):
        if not hit["document"].endswith("manual.pdf") or not hit.get("pages"):
            continue
        first, last = hit["pages"]
        steps = set(hit["section"].split(" > "))
        for section in filter(None, (question.section, question.other)):
            start, end = _place(question.chapter, section, placed, pages)
            if {question.chapter, section} <= steps and start <= first and last <= end:
                return Answered(rank, section, (start, end), (first, last))
    place = _place(question.chapter, question.section, placed, pages)
    return Answered(0, question.section, place, (0, 0))


def _place(chapter: str, section: str, placed: Sequence[Placed], pages: int) -> tuple[int, int]:
    """Return the first and last page of a section."""
    wanted = (chapter, section)
    at = next(n for n, one in enumerate(placed) if (one.trail[0], one.trail[-1]) == wanted)
    depth = len(placed[at].trail)
    after = (one.page for one in placed[at + 1 :] if len(one.trail) <= depth)
    return placed[at].page, next(after, pages)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _kb(environment: dict[str, str], *words: str) -> Any:
    command = [sys.executable, "-c", "from kb.cli import main; main()", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"kb {' '.join(words)}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
