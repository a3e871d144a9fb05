"""Judge the programs that were written by letter for an H200, which was not there when they were written.

    python -m benchmarks.letters_ablation.gpu                  # on an NVIDIA GPU: times, one JSON object a program, then a table
    python -m benchmarks.letters_ablation.gpu --only 'none-*'  # some of them
    python -m benchmarks.letters_ablation.gpu --target h200    # a dry run where there is none: do they compile?

The programs are in `gpu_programs.json.gz`, the tasks in `gpu_tasks`. docs/loop-retrieval.md says how they were made.
"""

import argparse
import gzip
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from statistics import geometric_mean

from benchmarks.judge_program import told
from kb.app.device import choose_place, make_judge
from search.judging.limits import Limits
from search.reference import load_problem
from search.task import load_task

HERE = Path(__file__).parent


def programs(folder: Path, only: list[str]) -> Iterator[tuple[str, str, list[Path]]]:
    """Yield arm, task and the files of each run's programs, written to `folder`."""
    for run in json.loads(gzip.decompress((HERE / "gpu_programs.json.gz").read_bytes())):
        name = f"{run['arm']}-{run['task']}"
        if only and not any(fnmatch(name, one) for one in only):
            continue
        files = [folder / f"{name}-{number}.py" for number in range(len(run["programs"]))]
        for file, program in zip(files, run["programs"], strict=True):
            file.write_text(program["source"], encoding="utf-8")
        yield run["arm"], run["task"], files


def main() -> None:
    """Judge them and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", default="auto")
    parser.add_argument("--only", action="append", default=[], metavar="GLOB")
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing, a program")
    asked = parser.parse_args()
    place = choose_place(asked.target)
    best: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for arm, task_name, files in programs(folder, asked.only):
            task = load_task(HERE / "gpu_tasks" / f"{task_name}.py")
            problem = load_problem(task, seed=1, device=place.device)
            limits = Limits(thorough_seconds=asked.seconds)
            judge = make_judge(place, task, problem, folder=folder / "judge", limits=limits)
            gains = [1.0]
            try:
                judge.prepare(lambda _: None)
                for file in files:
                    row = {"arm": arm, "task": task_name, **told(file, judge)}
                    row["program"] = file.name
                    print(json.dumps(row), flush=True)
                    gains.append(row["speedup"]["eager"][0] if "speedup" in row else 1.0)
            finally:
                judge.close()
            best[arm].append(max(gains))
    if place.how == "dry":
        return
    for arm, gains in best.items():
        print(
            f"{arm}: best speed-up over eager {geometric_mean(gains):.2f} over {len(gains)} tasks"
        )


if __name__ == "__main__":
    main()
