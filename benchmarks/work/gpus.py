"""Candidates a second of one GPU's worker and of all GPUs', and whether they find the same ratios.

    python -m benchmarks.work.gpus                  # 1, 2, 4, … of this machine's GPUs
    python -m benchmarks.work.gpus --candidates 60  # for each GPU; 30 where not said

Needs GPUs, torch and Triton. The candidates are those of `benchmarks/gpu_judging.py`, judged by real `kb worker`
processes from a new SQLite database each time. A rate is of the time in which every worker has candidates.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import select

from benchmarks.gpu_judging import CANDIDATE, REFERENCE
from kb.app.device import choose_place
from kb.database import open_url, reading
from search.judging.spool.job import assign
from search.outcome import Passed
from search.task import Task, TaskFile
from search.work.client import QueuedJudge
from search.work.devices import chosen_devices
from search.work.queue import WorkQueue
from search.work.roster import Roster
from search.work.tables import RESULTS


def judged(devices: Sequence[str], candidates: int, folder: Path) -> tuple[float, list[Passed]]:
    """Return candidates a second with a worker on each of `devices`, and the outcomes."""
    url = f"sqlite:///{folder}/work.sqlite"
    engine = open_url(url, "--database")
    path = folder / "norm.py"
    path.write_text(REFERENCE)
    settings = TaskFile(reference=path.name)
    task = Task(name="norm", path=path, reference=path, source=REFERENCE, settings=settings)
    queue = WorkQueue(engine)
    judge = QueuedJudge(queue, assign(task, choose_place("auto", elsewhere=True).target), say=print)
    command = [sys.executable, "-m", "kb.cli", "worker", "--devices", ",".join(devices)]
    with subprocess.Popen(command, env={**os.environ, "KB_DATABASE": url}) as worker:
        try:
            roster = Roster(engine, silence=120)
            while len(roster.alive()) < len(devices) and worker.poll() is None:
                time.sleep(0.1)
            assert worker.poll() is None, "the workers ended"
            judge.prepare()
            sources = [CANDIDATE.replace("@NUMBER@", str(one)) for one in range(1, candidates + 1)]
            for source in sources:
                judge.expect(source)
            outcomes = [judge.judge(source) for source in sources]
        finally:
            worker.terminate()
    passed = [one for one in outcomes if isinstance(one, Passed)]
    assert len(passed) == candidates, {one.kind for one in outcomes}
    with reading(engine) as session:
        rows = session.execute(
            select(RESULTS.c.worker, RESULTS.c.recorded).where(RESULTS.c.candidate != "")
        ).all()
    engine.dispose()
    times = defaultdict(list)
    for name, recorded in rows:
        times[name].append(recorded)
    assert len(times) == len(devices), f"{len(times)} of {len(devices)} workers judged something"
    begin, end = max(map(min, times.values())), min(map(max, times.values()))
    assert begin < end, "the workers did not judge at the same time: take more --candidates"
    return sum(begin < one <= end for _, one in rows) / (end - begin), passed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--candidates", type=int, default=30, help="for each GPU (default 30)")
    options = parser.parse_args()
    devices, number, one = chosen_devices("all"), 1, 0.0
    print(
        "GPUs | candidates a second | of one's times their number | over eager, median (lowest to highest)"
    )
    while number <= len(devices):
        with tempfile.TemporaryDirectory() as folder:
            rate, passed = judged(devices[:number], options.candidates * number, Path(folder))
        one = one or rate
        ratios = [found.speedup["eager"] for found in passed]
        print(
            f"{number:4d} | {rate:.2f} | {rate / one / number:.2f} | "
            f"{statistics.median(ratio.ratio for ratio in ratios):.3f}x "
            f"({min(ratio.low for ratio in ratios):.3f} to {max(ratio.high for ratio in ratios):.3f})",
            flush=True,
        )
        number *= 2


if __name__ == "__main__":
    main()
