"""For which of torch's operators the offline author has a right kernel here: each is judged, and its time does not count.

    kb bench aten --list                       # writes the operators' programs
    python -m benchmarks.suites.operators ~/.local/share/kb/suites/aten-2.13.0
    python -m benchmarks.suites.operators FOLDER --part 1 2 --only add --only 'nn_functional_*'
    python -m benchmarks.suites.operators FOLDER --target mi300x    # a dry run: compiled, checked in the interpreter

An operator's candidates are tried in the author's order until one is right, on every distribution of inputs, infinities and
NaN too. `kb bench aten` asks more: it times them, judges the best again, and asks for the operator's other samples. It takes
three times as long.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from kb.app.device import choose_place, make_judge, make_zygote
from kb.app.diagnosis import diagnoser_of
from kb.config import Home
from kb.errors import KbError
from kb.knowledge import open_knowledge
from search.attempt import Moment
from search.authors.recipes import Recipes
from search.costs.trace import operator_graph
from search.costs.work import count_work
from search.judging.limits import Limits
from search.reference import load_problem
from search.task import load_task

_CANDIDATES = 3
_SECONDS = 0.05  # of timing


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", default=[], metavar="GLOB")
    parser.add_argument("--target", default="auto")
    parser.add_argument("--part", nargs=2, type=int, default=(1, 1), metavar=("N", "OF"))
    options = parser.parse_args()
    paths = [
        path
        for path in sorted(options.folder.glob("*.py"))
        if not options.only or any(fnmatch(path.stem, one) for one in options.only)
    ]
    if not paths:
        parser.error(f"{options.folder}: expected programs that kb bench aten --list wrote")
    number, of = options.part
    knowledge = open_knowledge(Home.find().make(), lambda *_: None)
    place = choose_place(options.target)
    zygote, counts = make_zygote(place), Counter[str]()
    try:
        for path in paths[number - 1 :: of]:
            began = time.monotonic()
            told = judged(path, place, knowledge, zygote)
            counts["right" if told.get("right") else "not"] += 1
            print(json.dumps(told | {"seconds": round(time.monotonic() - began, 1)}), flush=True)
    finally:
        zygote.close()
    print(f"{counts['right']} of {counts.total()} right")


def judged(path: Path, place, knowledge, zygote) -> dict:
    """Return what became of an operator's candidates."""
    said: list[str] = []
    told: dict = {"operator": path.stem, "right": None, "wrong": [], "said": said}
    try:
        task = load_task(path)
        settings = task.settings.model_copy(
            update={"special_values": True, "target": place.target.name}
        )
        task = replace(task, settings=settings)
        problem = load_problem(task, device=place.device)
        graph = operator_graph(problem)
        author = Recipes(task, place.target, graph, knowledge, said.append)
        work = count_work(graph)
        diagnose = diagnoser_of(task, place.target, work, len(graph.operators), {})
        moment = Moment(round=0, seed=0, parent=None, history=(), diagnosis=diagnose(None))
        drafts = [
            (idea.record, author.draft(moment, idea, 0, ()))
            for idea in author.ideas(moment, _CANDIDATES)
        ]
        limits = Limits(compile=False, timing_seconds=_SECONDS)
        with tempfile.TemporaryDirectory() as folder:
            judge = make_judge(
                place, task, problem, folder=Path(folder), limits=limits, zygote=zygote
            )
            try:
                judge.prepare(lambda _: None)
                for record, draft in drafts:
                    # A dry run asks few of the distributions else.
                    outcome = judge.judge(draft.source, thorough=place.how == "dry")
                    unchecked = getattr(outcome, "unchecked", "")
                    if outcome.kind in ("passed", "checked") and not unchecked:
                        told["right"] = record
                        break
                    reason = unchecked or getattr(outcome, "reason", "")
                    told["wrong"].append([record, outcome.kind, reason])
            finally:
                judge.close()
    except KbError as error:
        told["error"] = f"{type(error).__name__}: {error}"
    return told


if __name__ == "__main__":
    main()
