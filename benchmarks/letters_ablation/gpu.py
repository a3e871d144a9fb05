"""Judge the programs that were written by letter for an H200, which was not there when they were written.

    python -m benchmarks.letters_ablation.gpu                  # on an NVIDIA GPU: times, one JSON object a program, then a table
    python -m benchmarks.letters_ablation.gpu --only 'none-*'  # some of them
    python -m benchmarks.letters_ablation.gpu --target h200    # a dry run where there is none: do they compile?
    python -m benchmarks.letters_ablation.gpu --kept           # the figures of the fifth to the ninth trial, without a GPU

The programs are in `gpu_programs.json.gz`, the tasks in `gpu_tasks`, a folder for each trial, what H200s printed of them in `gpu_results.jsonl`; those of
the sixth to the ninth trial are in two bytes. docs/loop-retrieval.md says how they were made.
"""

import argparse
import gzip
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import Any

import numpy as np

from benchmarks.judge_program import judged

HERE = Path(__file__).parent
COMPARED = ("bare", "none", "again")
UNSEEN = (
    "mended",
    "cut",
    "programs",
    "today",
)  # arms with knowledge, of tasks that came after the sixth trial
LAST = ("programs", "today")  # of them those whose letters gave programs whole
WITHOUT = ("none", "pages", "before")  # arms without the knowledge of today
NEAR = 0.9
FIRST = 2  # programs of a run that are no repairs


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


def kept() -> None:
    """Print the figures of the fifth trial, and of those in two bytes."""
    lines = (HERE / "gpu_results.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    runs = json.loads(gzip.decompress((HERE / "gpu_programs.json.gz").read_bytes()))
    older = {run["task"] for run in runs if run["arm"] == "bare"}
    for trial, of_it in ((fifth, True), (two_bytes, False)):
        trial(*([one for one in some if (one["task"] in older) is of_it] for some in (rows, runs)))


def two_bytes(rows: list[Any], runs: list[Any]) -> None:
    """Print how arms with knowledge compare with none at all, and with the retrieval of 811d7be, on the tasks that both had."""
    tried = {row["task"] for row in rows if row["arm"] == "again"}
    tasks = {(row["arm"], row["task"]) for row in rows}
    unseen = {(arm, task) for arm, task in tasks if arm in UNSEEN and task not in tried}
    before = {task for arm, task in tasks if arm == "before"}
    for title, chosen in (
        ("knowledge as it was (again)", {one for one in tasks if one[0] == "again"}),
        ("mended, on tasks of that trial", {("mended", task) for task in tried} & tasks),
        ("mended, on tasks that came later", {one for one in unseen if one[0] == "mended"}),
        ("programs cut, on tasks that came later", {one for one in unseen if one[0] == "cut"}),
        (
            "programs whole, on tasks that came later",
            {one for one in unseen if one[0] in LAST},
        ),
        ("all tasks that came later", unseen),
    ):
        # Of a task that two arms had, the later one: they are named so that it comes last.
        arms = {task: arm for arm, task in sorted(chosen)}
        # Whoever had the measured rates, as `today` and those who wrote tasks of `cut` again, is compared with whoever had them, too.
        rates = {
            task
            for task, arm in arms.items()
            if ("pages", task) in tasks
            and (arm == "today" or (arm == "programs" and ("cut", task) in tasks))
        }
        others = {task: "pages" if task in rates else "none" for task in arms}
        _compare(title, arms, others, rows, runs)
    last = {task: arm for arm, task in sorted(unseen) if task in before}
    _compare("beside the retrieval of 811d7be", last, dict.fromkeys(last, "before"), rows, runs)
    none = {task: "pages" if ("pages", task) in tasks else "none" for task in last}
    _compare("the retrieval of 811d7be", dict.fromkeys(last, "before"), none, rows, runs)
    _compare_all(last, rows)


def _compare_all(arms: dict[str, str], rows: list[Any]) -> None:
    """Print how programs with knowledge compare with those of all authors who did not have it, the mean of each author's."""
    wholes: dict[str, list[float]] = defaultdict(list)
    for task, arm in arms.items():
        mine = _gains(rows, arm, task)
        others = [one for name in WITHOUT if (one := _gains(rows, name, task))]
        for what, told in (
            ("best", lambda gains: np.log(max(1.0, *gains))),
            ("an author's first program", lambda gains: np.log(max(1.0, gains[0]))),
            ("a program", lambda gains: mean(np.log(max(1.0, gain)) for gain in gains)),
            ("right", lambda gains: mean(gain > 0 for gain in gains)),
            ("first program right", lambda gains: float(gains[0] > 0)),
        ):
            wholes[what].append(told(mine) - mean(told(one) for one in others))
    print(f"beside all authors without ({', '.join(WITHOUT)}), {len(arms)} tasks:")
    for what, values in wholes.items():
        found = [mean(values), *_interval(values)]
        if what.endswith("right"):
            print("  {}, difference: {:+.3f} ({:+.3f} to {:+.3f})".format(what, *found))
        else:
            print("  {}: {:.2f} ({:.2f} to {:.2f})".format(what, *np.exp(found)))


def _compare(
    title: str, arms: dict[str, str], others: dict[str, str], rows: list[Any], runs: list[Any]
) -> None:
    """Print one comparison: `arms` has the arm of each task, `others` what it is compared with; tasks without a verdict are left out."""
    judged_ones = {(row["arm"], row["task"]) for row in rows}
    tasks = sorted(t for t in arms if {(arms[t], t), (others[t], t)} <= judged_ones)
    tokens = {(run["arm"], run["task"]): run["tokens"] for run in runs}
    with_it, without = ([(one[task], task) for task in tasks] for one in (arms, others))
    gains = {key: _gains(rows, *key) for key in (*with_it, *without)}
    print(f"{title}, {len(tasks)} tasks:")
    for chosen, keys in ((others, without), (arms, with_it)):
        name = " and ".join(sorted({chosen[task] for task in tasks}))
        firsts = [gain > 0 for key in keys for gain in gains[key]]
        print(
            f"  {name}: {sum(firsts)} of {len(firsts)} programs right at the first attempt, best "
            f"{geometric_mean(max(1.0, *gains[key]) for key in keys):.2f} over eager, wrong as 1.0, "
            f"{mean(tokens[key] for key in keys):,.0f} tokens a task"
        )
    pairs = [(gains[a], gains[b]) for a, b in zip(without, with_it, strict=True)]
    faster = [np.log(max(1.0, *mine) / max(1.0, *none)) for none, mine in pairs]
    low, high = np.exp(_interval(faster))
    print(f"  best, one over the other: {np.exp(mean(faster)):.2f} ({low:.2f} to {high:.2f})")
    single = [np.log(max(1.0, mine[0]) / max(1.0, none[0])) for none, mine in pairs]
    low, high = np.exp(_interval(single))
    print(
        f"  each author's first program alone: {np.exp(mean(single)):.2f} ({low:.2f} to {high:.2f})"
    )
    known = [NEAR * max(*none, *mine) for none, mine in pairs]
    for what, differences in (
        (
            "right at the first attempt",
            [mean(g > 0 for g in b) - mean(g > 0 for g in a) for a, b in pairs],
        ),
        (
            f"programs to {NEAR:.0%} of the best known",
            [
                _needed(b, least) - _needed(a, least)
                for (a, b), least in zip(pairs, known, strict=True)
            ],
        ),
    ):
        low, high = _interval(differences)
        print(f"  {what}, difference: {mean(differences):+.2f} ({low:+.2f} to {high:+.2f})")


def _gains(rows: list[Any], arm: str, task: str) -> list[float]:
    """Return what each first program of a run gains over eager, 0 where it is wrong.

    Eager's time is the median of all judgings of the task: where it is bound by its host, it differs from one to the next.
    """
    passed = [row for row in rows if row["task"] == task and row["kind"] == "passed"]
    eager = median(row["seconds"] * row["speedup"]["eager"][0] for row in passed) if passed else 0.0
    chosen = [
        row for row in rows if (row["arm"], row["task"]) == (arm, task) and _number(row) < FIRST
    ]
    return [
        eager / row["seconds"] if row["kind"] == "passed" else 0.0
        for row in sorted(chosen, key=_number)
    ]


def _needed(gains: list[float], least: float) -> int:
    """Return how many programs it took to gain so much; one more than there may be where none did."""
    return next((n for n, gain in enumerate(gains, 1) if gain >= least), FIRST + 1)


def _number(row: dict[str, Any]) -> int:
    """Return which program of its run it is; a repair comes after the first ones."""
    return int(Path(row["program"]).stem.rpartition("-")[2])


def _interval(values: Any) -> Any:
    """Return the bounds of the mean, by bootstrap over tasks."""
    drawn = np.random.default_rng(0).choice(values, (20_000, len(values))).mean(1)
    return np.quantile(drawn, (0.025, 0.975))


def fifth(rows: list[Any], runs: list[Any]) -> None:
    """Print best and typical speed-up over eager, and how arms compare."""
    gains: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["kind"] == "passed":
            gains[row["arm"]][row["task"]].append(row["speedup"]["eager"][0])
    tokens = {arm: [run["tokens"] for run in runs if run["arm"] == arm] for arm in gains}
    tasks = sorted(set.intersection(*({*gains[arm]} for arm in COMPARED)))
    for arm in COMPARED:
        print(
            f"{arm}: best of two {geometric_mean(max(gains[arm][task]) for task in tasks):.2f}, all programs "
            f"{geometric_mean(x for task in tasks for x in gains[arm][task]):.2f} over eager on {len(tasks)} tasks, "
            f"{mean(tokens[arm]):,.0f} tokens a task"
        )
    for arm in COMPARED[1:]:
        ratios = [geometric_mean(gains[arm][t]) / geometric_mean(gains["bare"][t]) for t in tasks]
        low, high = np.exp(_interval(np.log(ratios)))
        print(f"{arm} beside bare: {geometric_mean(ratios):.2f} ({low:.2f} to {high:.2f})")


def main() -> None:
    """Judge them and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", default="auto")
    parser.add_argument("--only", action="append", default=[], metavar="GLOB")
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing, a program")
    parser.add_argument("--kept", action="store_true", help="print what was measured before")
    asked = parser.parse_args()
    if asked.kept:
        kept()
        return
    best: dict[str, list[float]] = defaultdict(list)
    timed: object = False
    with tempfile.TemporaryDirectory() as name:
        for arm, task, files in programs(Path(name), asked.only):
            (reference,) = (HERE / "gpu_tasks").glob(f"*/{task}.py")
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
