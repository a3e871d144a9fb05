"""Read a manual of thousands of pages: seconds, and the most memory that it takes.

    python -m benchmarks.manual.large [PAGES]

The manual of `python -m benchmarks.manual`, over and over until it has so many pages (3,000 by default).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ingest.chunking.split import split
from ingest.document import read_document
from kb.tokens import count_tokens


def make(path: Path, least: int) -> int:
    """Typeset a manual of at least so many pages, and return how many it has."""
    from benchmarks.manual.__main__ import TITLE, chapters
    from benchmarks.manual.typeset import typeset
    from benchmarks.retrieval.corpora import locate
    from benchmarks.retrieval.fetch import default_packages

    found = {one.source.name: one for one in locate(default_packages())[0]}
    once = list(chapters(found))
    _, pages = typeset(once, path, TITLE)
    copies = -(-least // pages)
    return pages if copies == 1 else typeset(once * copies, path, TITLE)[1]


def measure(path: Path) -> None:
    """Read the manual in this process, and print what it took."""
    count_tokens("warm")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    started = time.perf_counter()
    reading = read_document(path.read_bytes(), path.name)
    read = time.perf_counter() - started
    pieces = split(reading.sections, count_tokens)
    cut = time.perf_counter() - started - read
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    last = max(piece.pages[1] for piece in pieces if piece.pages)
    print(
        f"{path.stat().st_size / 2**20:.0f} MiB, read to page {last}: {read:.1f} s ({1000 * read / last:.0f} ms a page)"
    )
    print(
        f"{len(pieces)} passages: {cut:.1f} s; {most:.0f} MiB at most, {most - before:.0f} of them for this"
    )


def main() -> None:
    if len(sys.argv) > 2:
        measure(Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "large.pdf"
        print(f"{make(path, int(sys.argv[1]) if len(sys.argv) > 1 else 3000)} pages")
        # In a process of its own, so that typesetting does not count.
        subprocess.run(
            [sys.executable, "-m", "benchmarks.manual.large", "-", str(path)], check=True
        )


if __name__ == "__main__":
    main()
