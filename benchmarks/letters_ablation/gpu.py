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

from benchmarks.judge_program import judged

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
    best: dict[str, list[float]] = defaultdict(list)
    timed: object = False
    with tempfile.TemporaryDirectory() as name:
        for arm, task, files in programs(Path(name), asked.only):
            reference = HERE / "gpu_tasks" / f"{task}.py"
            about, *rows = judged(reference, files, asked.target, seconds=asked.seconds)
            timed, gains = about["timed"], [1.0]
            for file, row in zip(files, rows, strict=True):
                print(
                    json.dumps({"arm": arm, "task": task, **row, "program": file.name}), flush=True
                )
                speedup = row.get("speedup")
                gains += [speedup["eager"][0]] if isinstance(speedup, dict) else []
            best[arm].append(max(gains))
    if not timed:
        return
    for arm, gains in best.items():
        print(
            f"{arm}: best speed-up over eager {geometric_mean(gains):.2f} over {len(gains)} tasks"
        )


if __name__ == "__main__":
    main()
