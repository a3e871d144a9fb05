"""What the judge's clock sees of a call beyond its events, for each case of the corpus on a GPU.

    python benchmarks/clock_gaps.py                      # honest candidates
    python benchmarks/clock_gaps.py --group cheats --only 'cheats/records_*'

A program that records the events of its callers again hides its time from them, and the clock sees it. How much is charged
depends on how far honest programs are from the framework there: `beyond` is what a call takes by the clock more than by its events,
less the same of eager, in microseconds, its least, middle and greatest of a session's blocks.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from search.judging.corpus.cases import GROUPS, choose_cases
from search.judging.corpus.run import CorpusRunner
from search.judging.cuda.timing import CudaTimingSession, Gap

_SEEN: list[list[Gap]] = []
_hidden = CudaTimingSession._hidden


def _watched(session: CudaTimingSession, gaps: list[Gap]) -> list[float]:
    _SEEN.append(gaps)
    return _hidden(session, gaps)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--group", choices=GROUPS, default="honest")
    parser.add_argument("--only", action="append", default=[], metavar="GLOB")
    options = parser.parse_args()
    CudaTimingSession._hidden = _watched  # type: ignore[method-assign]
    print(f"{'case':<44} {'became':<24} {'us':>9}  beyond: least, middle, greatest; eager's")
    with (
        tempfile.TemporaryDirectory(prefix="kb-gaps-") as folder,
        CorpusRunner("cuda", Path(folder)) as runner,
    ):
        for case in choose_cases("cuda", options.only):
            if case.group != options.group:
                continue
            _SEEN.clear()
            verdict = runner.judge(case)
            seconds = getattr(verdict.outcome, "seconds", None)
            told = f"{seconds * 1e6:9.2f}" if seconds else " " * 9
            print(f"{case.label:<44} {verdict.got:<24} {told}  {_summary()}", flush=True)


def _summary() -> str:
    """Return what was seen in the last session, in microseconds; of a cheat that of its own, after its twin's."""
    if not _SEEN:
        return "was not timed"
    own = sorted(gap.charged * 1e6 for gap in _SEEN[-1])
    beside = statistics.median(gap.beside for gap in _SEEN[-1]) * 1e6
    return f"{own[0]:6.2f} {statistics.median(own):6.2f} {own[-1]:6.2f}; {beside:6.2f}"


if __name__ == "__main__":
    main()
