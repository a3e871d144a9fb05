"""``python -m search.judging.corpus``: needs torch, and Triton for a GPU, and nothing else."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from kb.errors import KbError
from search.judged import Device
from search.judging.corpus.cases import GROUPS, Case, choose_cases
from search.judging.corpus.run import CaseResult, CorpusRunner, line


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the corpus, print a table and return 0 where every case ended as it should."""
    chosen = _parse(arguments)
    if sum(chosen.part) and not 1 <= chosen.part[0] <= chosen.part[1]:
        raise SystemExit("--part: expected a number and how many parts there are, e.g. 1 3")
    cases = [
        case
        for case in choose_cases(chosen.device, chosen.only or ())
        if not chosen.group or case.group in chosen.group
    ]
    if sum(chosen.part):
        cases = cases[chosen.part[0] - 1 :: chosen.part[1]]
    verdicts: list[CaseResult] = []
    for verdict in _judge(cases, chosen.device, chosen.seconds, scarce=chosen.scarce):
        verdicts.append(verdict)
        if not chosen.json:
            sys.stdout.write(line(verdict) + "\n")
            sys.stdout.flush()
        if chosen.details:  # after each: whoever runs out of time has what was judged
            chosen.details.write_text(_as_json(verdicts))
    if chosen.json:
        sys.stdout.write(_as_json(verdicts) + "\n")
    left = len(cases) - len(verdicts)
    wrong = [verdict for verdict in verdicts if verdict.complaint]
    rest = f", {left} left for want of time" if left else ""
    sys.stderr.write(f"{len(verdicts) - len(wrong)} of {len(verdicts)} as expected{rest}\n")
    return 1 if wrong or not verdicts else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m search.judging.corpus",
        description="Judge candidates that cheat, that are honest and that break. Exit code 1: one got away.",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--group", choices=GROUPS, action="append", help="one folder of the corpus")
    parser.add_argument("--only", action="append", metavar="GLOB", help="e.g. 'cheats/cached_*'")
    parser.add_argument("--part", nargs=2, type=int, default=(0, 0), metavar=("N", "OF"))
    parser.add_argument(
        "--scarce", action="store_true", help="as where a GPU has little memory left"
    )
    parser.add_argument("--seconds", type=float, help="start no case after so many seconds")
    parser.add_argument(
        "--details", type=Path, metavar="FILE", help="write all that is known as JSON"
    )
    parser.add_argument("--json", action="store_true", help="print it instead of the table")
    return parser.parse_args(arguments)


def _judge(
    cases: list[Case], device: Device, seconds: float | None, *, scarce: bool
) -> Iterator[CaseResult]:
    end = time.monotonic() + seconds if seconds is not None else None
    with (
        tempfile.TemporaryDirectory(prefix="kb-corpus-") as folder,
        CorpusRunner(device, Path(folder), scarce=scarce) as corpus_judge,
    ):
        for case in cases:
            if end is not None and time.monotonic() > end:
                break
            yield corpus_judge.judge(case)


def _as_json(verdicts: list[CaseResult]) -> str:
    return json.dumps([verdict.to_json() for verdict in verdicts], indent=1)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KbError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)
