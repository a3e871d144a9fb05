"""Runs the honest Triton candidates on small tensors in Triton's interpreter; prints JSON.

A program of its own: the interpreter is chosen before Triton is imported, for a whole process.
"""

import ast
import json
import linecache
import sys
import tempfile
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from search.sandbox.parameters import construct
from search.judging.corpus.cases import Case, corpus_folder, header, load_cases
from search.reference import Problem, as_tuple, load_problem
from search.judging.tolerance import make_trials
from search.judging.trial import TrialSet, inside
from search.judged import JudgedSettings, JudgedTask
from search.judging.dryrun.interpreter.low_precision import decode

PARTS = {
    "own_norm": "layernorm",
    "own_linear": "linear",
}


def problem(name: str, folder: Path) -> Problem:
    """Return the reference on sizes that the interpreter can bear."""
    path = corpus_folder("cuda") / "references" / f"{name}.py"
    source = path.read_text()
    sizes = header(source)["small"].replace(" ", "; ")
    task = JudgedTask(
        name=name,
        reference=folder / f"{name}.py",
        source=f"{source}\n{sizes}\n",
        identity=f"small-{name}",
        settings=JudgedSettings(precision="strict", library="allowed", special_values=False),
    )
    return load_problem(task)


def load(name: str, source: str) -> types.ModuleType:
    module = types.ModuleType(name)
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    sys.modules[name] = module
    exec(compile(source, file, "exec"), vars(module))
    return module


def check(given: Problem, trial_set: TrialSet, source: str, name: str) -> str:
    """Return how a candidate is wrong, "" where it is right on every distribution."""
    module = load(name, source)
    model = construct(lambda: module.ModelNew(*given.init_inputs), given.state, 0)
    model.load_state_dict(given.state)
    with torch.no_grad():
        for trial in trial_set.trials:
            outputs = as_tuple(
                model(*(x.clone() if isinstance(x, torch.Tensor) else x for x in trial.inputs))
            )
            if not inside(trial, outputs):
                worst = max(
                    float((got.double() - trial.truth(n)).abs().max())
                    for n, got in enumerate(outputs)
                )
                return f"{trial.distribution}: off by up to {worst:.3g}"
    return ""


def multiply_two_bytes() -> None:
    """Have the interpreter multiply tiles of bfloat16, which it keeps as whole numbers and multiplies as such."""
    builder: Any = import_module("triton.runtime.interpreter").InterpreterBuilder
    handle: Any = import_module("triton.runtime.interpreter").TensorHandle
    language: Any = import_module("triton.language")
    plain = builder.create_dot

    def create_dot(self: Any, a: Any, b: Any, *others: Any) -> Any:
        wide = (
            handle(decode(one.data, language.bfloat16), language.float32)
            if one.dtype.scalar == language.bfloat16
            else one
            for one in (a, b)
        )
        return plain(self, *wide, *others)

    builder.create_dot = create_dot


def main() -> None:
    """Check the candidates whose names are given, all where none is."""
    import_module("quick_triton")
    multiply_two_bytes()
    told: dict[str, str] = {}
    problems: dict[str, tuple[Problem, TrialSet]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in (*load_cases("cuda", ("honest",)), *_parts()):
            left_out = header(case.source).get("interpreter", "").startswith("no")
            if left_out or (len(sys.argv) > 1 and case.name not in sys.argv[1:]):
                continue
            if case.reference not in problems:
                made = problem(case.reference, Path(folder))
                problems[case.reference] = made, make_trials(made, 5)
            try:
                told[case.name] = check(
                    *problems[case.reference],
                    case.source,
                    f"candidate_{case.name.replace('-', '_')}",
                )
            except Exception as error:  # noqa: BLE001 - a candidate may fail in any way
                told[case.name] = f"{type(error).__name__}: {error}"
    print(json.dumps(told))


def _parts() -> list[Case]:
    cases = []
    for part, reference in PARTS.items():
        text = (corpus_folder("cuda") / "parts" / f"{part}.py").read_text()
        module = ast.parse(text)
        base = next(node.name for node in reversed(module.body) if isinstance(node, ast.ClassDef))
        call = f"{part}(x, self.{'norm' if base == 'Norm' else 'linear'})"
        model = f"\n\nclass ModelNew({base}):\n    def forward(self, x):\n        return {call}\n"
        cases.append(Case(group="honest", name=part, source=text + model, reference=reference))
    return cases


if __name__ == "__main__":
    main()
