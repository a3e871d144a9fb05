"""Which candidates the offline author proposes first for a folder of problems, and what they compile to.

    python -m benchmarks.suites.plans FOLDER --target h200
    python -m benchmarks.suites.plans FOLDER --target h200 --only 89 --compile --answers --sources OUT

Reads programs in KernelBench's form. Their inputs get no memory, so that problems of gigabytes can be listed on any
machine, and nothing is timed. With `--compile` each source is compiled by the dry run's means at the problem's own
shapes; with `--answers` it is also interpreted on smaller ones. Triton 3.6 is needed for both, nvcc for CUDA C++.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import torch

from kb.app.device import JudgingDevice, choose_place
from kb.app.diagnosis import diagnoser_of
from kb.app.lessons.learning import believed_memory
from kb.config import Home
from kb.database import open_engine
from kb.errors import KbError
from kb.knowledge import open_knowledge
from search.attempt import Moment
from search.authors.recipes import Recipes
from search.costs.graph import shapes_line
from search.costs.trace import trace
from search.costs.work import count_work
from search.judged import JudgedTask, plain_task
from search.judging.dryrun.architecture import architecture_of
from search.judging.dryrun.check import DryCheck
from search.judging.dryrun.judge import outcome_of
from search.judging.limits import Limits
from search.reference import Problem, as_tuple
from search.runs.storage import Storage
from search.strides import TensorLayout
from search.task import Task, load_task


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of NUMBER_NAME.py, or of folders of such")
    parser.add_argument("--target", default="h200")
    parser.add_argument(
        "--only", action="append", default=[], help="level1/19, or a part of a name"
    )
    parser.add_argument("--first", type=int, default=4, help="candidates (default 4)")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--answers", action="store_true", help="interpret them too; with --compile")
    parser.add_argument("--sources", type=Path, help="folder for what is rendered")
    parser.add_argument("--json", action="store_true", help="one object a problem")
    options = parser.parse_args()
    listing = Listing(choose_place(options.target), options)
    for path in problems(options.folder, options.only):
        told = listing.told(path)
        print(json.dumps(told) if options.json else shown(told), flush=True)


def problems(folder: Path, only: list[str]) -> list[Path]:
    """Return the programs, level by level, in the order of their numbers."""
    found = [path for path in folder.rglob("*.py") if re.match(r"\d+_", path.name)]
    found.sort(key=lambda path: (path.parent.name, int(path.name.partition("_")[0])))
    if not found:
        sys.exit(f"{folder}: expected programs NUMBER_NAME.py, found none")
    return [path for path in found if not only or any(named(path, one) for one in only)]


def named(path: Path, asked: str) -> bool:
    level, slash, number = asked.partition("/")
    if slash:
        return path.parent.name == level and (not number or path.name.startswith(f"{number}_"))
    return asked in path.name


class Listing:
    """Asks the author as a run's first round does."""

    def __init__(self, place: JudgingDevice, options: argparse.Namespace) -> None:
        self._place = place
        self._options = options
        home = Home.find().make()
        knowledge = open_knowledge(home, lambda *_: None)
        self._memory = believed_memory(knowledge, Storage(open_engine(home)))

    def told(self, path: Path) -> dict:
        """Return what there is to say of one problem."""
        began = time.monotonic()
        said: list[str] = []
        told = {"problem": f"{path.parent.name}/{path.stem}", "said": said, "plans": []}
        try:
            task = load_task(path)
            problem = without_memory(task)
            graph = trace(problem.model, problem.inputs)
            work = count_work(graph)
            told |= {"shapes": shapes_line(graph), "outputs": [list(o.shape) for o in problem.outputs],
                     "operators": len(graph.operators)}  # fmt: skip
            author = Recipes(task, self._place.target, graph, self._memory, said.append)
            diagnose = diagnoser_of(task, self._place.target, work, len(graph.operators), {})
            moment = Moment(round=0, seed=0, parent=None, history=(), diagnosis=diagnose(None))
            ideas = author.ideas(moment, self._options.first)
            told["plans"] = [
                self._plan(problem, author.draft(moment, idea, 0, ()), idea) for idea in ideas
            ]
            if self._options.compile:
                self._compiled(problem, told["plans"])
        except KbError as error:
            told["error"] = f"{type(error).__name__}: {error}"
        for number, plan in enumerate(told["plans"]):
            self._keep(path, number, plan.pop("source"))
        return {**told, "seconds": round(time.monotonic() - began, 1)}

    def _plan(self, problem, draft, idea) -> dict:
        segments = draft.plan.get("segments", {})
        return {
            "title": idea.title,
            "record": idea.record,
            "language": [w for w in ("triton", "load_cuda") if w in draft.source],
            "library": draft.plan.get("library", []) if not draft.plan.get("compiler") else "compiler",
            "segments": {
                name: f"{one['recipe']}({', '.join(f'{k}={v}' for k, v in one['knobs'].items())})"
                for name, one in segments.items()
            },
            "source": draft.source,
        }  # fmt: skip

    def _compiled(self, problem: Problem, plans: list[dict]) -> None:
        architecture = architecture_of(self._place.target)
        with tempfile.TemporaryDirectory() as folder:
            desk = DryCheck(problem, seed=0, folder=Path(folder), limits=Limits())
            try:
                if self._options.answers:
                    desk.prepare(lambda _: None)
                else:
                    desk.prepare(lambda _: None)
                for plan in plans:
                    finding = desk.examine(plan["source"], (architecture,))
                    plan["outcome"] = asdict(outcome_of(finding, architecture.name))
            finally:
                desk.close()

    def _keep(self, path: Path, number: int, source: str) -> None:
        if self._options.sources:
            folder = self._options.sources / path.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{path.stem}.{number}.py").write_text(source)


def without_memory(task: Task) -> Problem:
    """Return the problem of a task whose tensors have shapes and no memory, where its program reads no values."""
    plain = plain_task(task)
    try:
        with torch.device("meta"):
            init, inputs, model, result = executed(plain)
        held = [v for m in model.modules() for v in vars(m).values() if isinstance(v, torch.Tensor)]
        if held:  # their values are written into candidates
            raise NotImplementedError("the module holds constants")
    except (RuntimeError, NotImplementedError):
        init, inputs, model, result = executed(plain)
    return Problem(
        task=plain,
        seed=0,
        model=model,
        init_inputs=init,
        inputs=inputs,
        state={},
        initial_state={},
        outputs=tuple(TensorLayout.of(one) for one in as_tuple(result)),
        single_output=isinstance(result, torch.Tensor),
        views=frozenset(),
        twins=frozenset(),
        draw=lambda _: inputs,
    )


def executed(task: JudgedTask) -> tuple:
    """Return what the program's constructor takes, its inputs, its model, and the model's answer."""
    space: dict = {"__name__": "reference"}
    with torch.no_grad():
        exec(compile(task.source, str(task.reference), "exec"), space)
        init = tuple(space.get("get_init_inputs", list)())
        inputs = tuple(space["get_inputs"]())
        model = space["Model"](*init).requires_grad_(False)
        return init, inputs, model, model(*inputs)


def shown(told: dict) -> str:
    lines = [f"{told['problem']}  {told.get('shapes', '')}  ({told['seconds']} s)"]
    lines += [f"    ! {line}" for line in (*told["said"], *filter(None, [told.get("error")]))]
    for number, plan in enumerate(told["plans"]):
        lines.append(
            f"  {number} {plan['title']}  [{' '.join(plan['language'])}] lib={plan['library']}"
        )
        lines += [f"      {name}: {recipe}" for name, recipe in plan["segments"].items()]
        if "outcome" in plan:
            lines.append(f"      {verdict(plan['outcome'])}")
    return "\n".join(lines)


def verdict(outcome: dict) -> str:
    if outcome["kind"] != "checked":
        return f"{outcome['kind']}: {outcome.get('reason', '')}"
    kernels = ", ".join(
        f"{k['name']} x{k['launches']} {k['registers']}r {k['shared'] // 1024}K"
        f"{' SPILLS ' + str(k['spills']) if k['spills'] else ''}"
        for k in outcome["kernels"]
    )
    if outcome["unchecked"]:
        return f"{kernels} | unchecked: {outcome['unchecked']}"
    error, allowed = (outcome[name] or 0 for name in ("max_error", "allowed_error"))
    return f"{kernels} | right: {error:.2g} of {allowed:.2g}"


if __name__ == "__main__":
    main()
