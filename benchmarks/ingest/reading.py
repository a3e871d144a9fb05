"""What reading documents in a process of its own costs, and which passages are flagged.

    python benchmarks/ingest/reading.py FOLDER [FOLDER ...]

Prints one row a suffix: files, megabytes, passages, milliseconds a file (median and 95th
percentile) in the worker, and of them what the same reading takes in this process; then what was
refused and flagged.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from ingest.chunking.split import split
from ingest.collect import gathered
from ingest.document import read_document
from ingest.isolation.injection_scan import suspicions
from ingest.isolation.pool import Confined
from ingest.sources.files import FoundFile, read_bytes
from kb.errors import RecordError
from kb.tokens import count_tokens

MOST = 400  # files of one suffix: a folder of packages has many thousands


def main(folders: list[str]) -> None:
    count_tokens("")
    here: dict[str, list[float]] = defaultdict(list)
    there: dict[str, list[float]] = defaultdict(list)
    sizes: Counter[str] = Counter()
    passages: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    flagged: list[tuple[str, tuple[str, ...]]] = []
    with Confined() as desk, gathered(folders, desk) as found:
        for one in found:
            suffix = one.path.suffix.lower()
            if one.reason is not None or len(there[suffix]) >= MOST:
                refused["passed over"] += 1
                continue
            began = time.perf_counter()
            try:
                made = desk.read(one)
            except RecordError as error:
                refused[str(error).split("(")[0][:60]] += 1
                continue
            there[suffix].append(time.perf_counter() - began)
            here[suffix].append(_in_process(one))
            sizes[suffix] += one.path.stat().st_size
            passages[suffix] += len(made.pieces)
            flagged += [
                (f"{one.shown}: {piece.section}", suspicions(piece.text))
                for piece in made.pieces
                if piece.flags
            ]
    print("| suffix | files | MB | passages | worker ms p50 | p95 | in process p50 | p95 |")
    print("|" + " --- |" * 8)
    for suffix, times in sorted(there.items()):
        if times:
            row = (suffix, len(times), f"{sizes[suffix] / 1e6:.1f}", passages[suffix])
            both = (*_both(times), *_both(here[suffix]))
            print("| " + " | ".join(str(cell) for cell in (*row, *both)) + " |")
    print("\nrefused:", dict(refused.most_common(8)))
    print(f"flagged: {len(flagged)} of {passages.total()} passages")
    for name, why in flagged[:20]:
        print(f"  {name}: {', '.join(why)}")


def _in_process(found: FoundFile) -> float:
    began = time.perf_counter()
    reading = read_document(read_bytes(found.path), found.shown)
    for piece in split(reading.sections, count_tokens):
        suspicions(piece.text)
    return time.perf_counter() - began


def _both(times: list[float]) -> tuple[str, str]:
    ordered = sorted(times)
    return tuple(f"{ordered[int(len(ordered) * part)] * 1e3:.1f}" for part in (0.5, 0.95))  # type: ignore[return-value]


if __name__ == "__main__":
    main(sys.argv[1:] or [str(Path(__file__).parent.parent)])
