"""torch.compile's code as kb makes a program of it, beside torch.compile itself, kernel by kernel.

    python -m benchmarks.suites.compiled examples/conv2d.py
    python -m benchmarks.suites.compiled level3/21_EfficientNetMBConv.py --precision framework --keep FOLDER

Where the program is slower, a kernel that only one of them has says why. Nothing is judged: times are a wall clock's over
calls in turns, on the machine's GPU or else its processor.
"""

import argparse
import importlib.util
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch._inductor.utils import run_and_get_code
from torch.profiler import ProfilerActivity, profile

from kb.app.device import choose_place
from kb.config import Home
from kb.knowledge import open_knowledge
from search.codegen.applicability import make_shop, suiting
from search.codegen.inductor.process import device_of
from search.codegen.inductor.proposals import whole
from search.codegen.inductor.seed import CompilerSeed
from search.codegen.library import make_cards
from search.costs.trace import operator_graph
from search.reference import load_problem
from search.task import Task, TaskFile

_CALLS, _ROUNDS = 10, 7


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("reference", type=Path)
    parser.add_argument("--precision", default="strict")
    parser.add_argument("--keep", type=Path, help="folder for both codes")
    options = parser.parse_args()
    place = "cuda" if torch.cuda.is_available() else "cpu"
    # As torch has it unasked, or as strict tasks have it.
    torch.backends.cudnn.allow_tf32 = options.precision != "strict"
    reference = loaded(options.reference)
    model = reference.Model(*reference.get_init_inputs()).to(place)
    inputs = [x.to(place) if isinstance(x, torch.Tensor) else x for x in reference.get_inputs()]
    with torch.no_grad():
        compiled = torch.compile(model)
        _, codes = run_and_get_code(compiled, *inputs)
        folder = options.keep or Path(".kb/compiled")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "torch.py").write_text("\n\n".join(codes), encoding="utf-8")
        path = folder / "kb.py"
        path.write_text(written(options.reference, options.precision), encoding="utf-8")
        ours = loaded(path).ModelNew(*reference.get_init_inputs()).to(place)
        ours.load_state_dict(model.state_dict())
        runs = {"eager": model, "torch.compile": compiled, "kb": ours}
        for name, seconds in timed(runs, inputs).items():
            print(f"{name}: {1e3 * seconds:.3f} ms")
        if place == "cuda":
            for name in ("torch.compile", "kb"):
                print(f"\n{name}\n{kernels(runs[name], inputs)}")


def loaded(path: Path) -> Any:
    """Return the module in a file, whatever its name."""
    spec = importlib.util.spec_from_file_location(f"_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(path: Path, precision: str) -> str:
    """Return the program that the author without a model makes of torch.compile's code for a reference."""
    source = path.read_text(encoding="utf-8")
    settings = TaskFile.model_validate({"reference": path.name, "precision": precision})
    task = Task(name=path.stem, path=path, reference=path, source=source, settings=settings)
    target = choose_place("auto").target
    graph = operator_graph(load_problem(task))
    store = open_knowledge(Home.find().make(), lambda *_: None).store
    known = [one.record for one in store.documents("target")]
    cards = suiting(make_cards(store.documents("idea")), target, target.languages, precision, known)
    shop = make_shop(source, target, graph, cards)
    seed = CompilerSeed(shop, source, graph, device_of(target))
    plan = next((one.plan for one in whole(seed)), None)
    if plan is None:
        raise SystemExit(f"torch.compile's code is no program here: {seed.refusal or seed.beside}")
    return seed.source(plan)


def timed(runs: dict[str, Any], inputs: list[Any]) -> dict[str, float]:
    """Return seconds of a call by name, the median of rounds in turns."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for count in range(_ROUNDS + 1):
        for name, run in runs.items():
            wait()
            began = time.perf_counter()
            for _ in range(_CALLS):
                run(*inputs)
            wait()
            if count:  # the first round compiles
                found[name].append((time.perf_counter() - began) / _CALLS)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def kernels(run: Any, inputs: list[Any]) -> str:
    """Return a table of what a call spends on a GPU, the longest first."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        run(*inputs)
        wait()
    table: str = seen.key_averages().table(
        sort_by="cuda_time_total", row_limit=20, max_name_column_width=80
    )
    return table


if __name__ == "__main__":
    main()
