"""What the GPU recipes make of a reference, and whether the answers are right in the interpreter.

Run as a program, in a process of its own because Triton decides at import whether it interprets: reads
cases as JSON from standard input and prints what the judge's own bounds say of each candidate.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from kb.errors import TaskError
from search.codegen.library import RecipeCard
from search.codegen.lower import lower
from search.codegen.plan import Choice, Composer
from search.codegen.render import Unfit, render
from search.codegen.segments import Segment
from search.costs.trace import operator_graph
from search.judging.tolerance import make_trials
from search.reference import Problem, load_problem
from search.task import Task, TaskFile

UNITS = 132
# Of the judge's distributions, those in which a kernel that only looks right goes wrong.
TELLING = ("task", "large mean", "tiny", "huge")


def triton_cards(cards: Mapping[str, RecipeCard]) -> dict[str, RecipeCard]:
    """Return the recipes that the interpreter can run."""
    return {name: card for name, card in cards.items() if "triton" in card.scope.language}


def problem_of(source: str, folder: Path) -> Problem:
    """Return the reference as the judge has it."""
    path = folder / "reference.py"
    path.write_text(source)
    settings = TaskFile(reference=path.name)
    task = Task(name="test", path=path, reference=path, source=source, settings=settings)
    return load_problem(task)


def workshop(source: str, problem: Problem, cards: Mapping[str, RecipeCard]) -> Composer:
    """Return the workshop of a reference for a GPU."""
    program = lower(operator_graph(problem), symbolic=True)
    return Composer(source, program, cards, library=True, units=UNITS)


def candidates(shop: Composer, every: tuple[str, ...] = ()) -> dict[str, str]:
    """Return candidates in which each recipe does each part that it fits.

    Args:
        every: recipes that are tried with each of their switches the other way as well.
    """
    options = {
        part.id: list(_settings(shop, part, every))
        for part in shop.cut(shop.anchors)
        if part.pattern != "library"
    }
    found: dict[str, str] = {}
    for turn in range(max(map(len, options.values()))):
        choices = {part: listed[turn % len(listed)] for part, listed in options.items()}
        name = ", ".join(f"{choice.recipe}({dict(choice.knobs)})" for choice in choices.values())
        found[name] = shop.source(shop.complete(shop.anchors, choices))
    return found


def _settings(shop: Composer, part: Segment, every: tuple[str, ...]) -> Iterator[Choice]:
    for card in shop.recipes(part):
        first = shop.knobs(part, card) or {}
        yield Choice(recipe=card.name, knobs=first)
        switches = [name for name, value in first.items() if isinstance(value, bool)]
        for name in switches if card.name in every else ():
            knobs = {**first, name: not first[name]}
            try:
                render(shop.program, part, card, knobs, "probe", UNITS)
            except Unfit:
                continue
            yield Choice(recipe=card.name, knobs=knobs)


def interpret(cases: Mapping[str, tuple[str, Mapping[str, str]]]) -> dict[str, list[str]]:
    """Run every candidate of every reference and return by case what is wrong with them."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps({name: [source, dict(texts)] for name, (source, texts) in cases.items()}),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    faults: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return faults


def _load(text: str, folder: Path, name: str) -> types.ModuleType:
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _faults(problem: Problem, trial_set: Any, text: str, folder: Path, name: str) -> list[str]:
    model = _load(text, folder, name).ModelNew(*problem.init_inputs)
    model.load_state_dict(problem.state)
    faults = []
    for trial in (trial for trial in trial_set.trials if trial.distribution in TELLING):
        given = [x.clone() if isinstance(x, torch.Tensor) else x for x in trial.inputs]
        with torch.no_grad():
            answer = model(*given)
        outputs = answer if isinstance(answer, tuple) else (answer,)
        for low, high, found in zip(trial.low, trial.high, outputs, strict=True):
            if found.shape != low.shape or not found.is_contiguous():
                faults.append(f"{trial.distribution}: shape {tuple(found.shape)}")
            elif not bool(((found >= low) & (found <= high)).all()):
                worst = float(torch.maximum(low - found, found - high).max())
                faults.append(f"{trial.distribution}: out of bounds by {worst}")
    return faults


def _widen_products() -> None:
    """Have the interpreter multiply bfloat16 as numbers: it keeps them as integers."""
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    from search.judging.dryrun.interpreter.low_precision import decode, is_narrow

    stock = InterpreterBuilder.create_dot

    def dot(self: Any, a: Any, b: Any, *more: Any) -> Any:
        if is_narrow(a.dtype):
            a, b = (TensorHandle(decode(x.data, x.dtype), tl.float32) for x in (a, b))
        return stock(self, a, b, *more)

    InterpreterBuilder.create_dot = dot


def main() -> None:
    """Judge the cases on standard input."""
    import_module("quick_triton")
    torch.set_num_threads(1)
    _widen_products()
    result: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        # The interpreter shows the arithmetic of lanes that are masked out.
        warnings.simplefilter("ignore")
        for number, (case, (source, texts)) in enumerate(json.load(sys.stdin).items()):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            problem = problem_of(source, folder)
            try:
                trial_set = make_trials(problem, 1)
            except TaskError as error:
                result[case] = [str(error)]
                continue
            result[case] = [
                f"{name}: {fault}"
                for at, (name, text) in enumerate(texts.items())
                for fault in _faults(problem, trial_set, text, folder, f"candidate{number}_{at}")
            ]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
