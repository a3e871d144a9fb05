"""Rows that several programs or blocks share: computed in the interpreter, compiled for the device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cuda_on_cpu import load_on_cpu
from recipe_bench import Bench, reference

from kb.runtime.nvcc import compile_cubin, cuda_home
from search.codegen.backends.gpu_module import assemble
from search.codegen.library import RecipeCard
from search.codegen.lower import lower
from search.codegen.module_writer import RenderedSegment
from search.codegen.partition import segment
from search.codegen.render import Unfit, render

N = "torch.randn"
UNITS = 132
GRAPHS = {
    "softmax of odd rows": reference("return torch.softmax(a * 30, -1)", f"{N}(3, 17001)"),
    "softmax where all but the end is masked": reference(
        "return torch.softmax(torch.where(b > 0, a, float('-inf')), -1)",
        f"{N}(2, 16384)",
        "torch.cat([-torch.ones(16000), torch.ones(384)])",
    ),
    "log-softmax": reference("return F.log_softmax(a + 1000, -1)", f"{N}(3, 16384)"),
    "layer norm around a thousand": reference(
        "return self.n(a)",
        f"1000 + 0.1 * {N}(2, 33, 512)",
        init="self.n = nn.LayerNorm((33, 512))\nself.n.weight.data.normal_()\nself.n.bias.data.normal_()",
    ),
    "layer norm with one huge element": reference(
        "return F.layer_norm(a * b, a.shape[1:])",
        f"{N}(2, 16387)",
        "torch.cat([torch.tensor([1e4]), torch.ones(16386)])",
    ),
    "group norm and an activation": reference(
        "return F.relu(self.n(a))", f"{N}(2, 12, 40, 35) - 7", init="self.n = nn.GroupNorm(1, 12)"
    ),
    "RMS norm and a sum": reference(
        "return a + a / torch.sqrt(torch.mean(a ** 2, dim=1, keepdim=True) + 1e-5)",
        f"{N}(3, 16390)",
    ),
    "scaled to an interval": reference(
        "low = a.amin(-1, keepdim=True)\nreturn (a - low) / (a.amax(-1, keepdim=True) - low)",
        f"{N}(2, 16384)",
    ),
}
RUN = """
import importlib.util, json, os, sys
import torch
if os.environ.get("TRITON_INTERPRET"):
    import quick_triton

def load(path):
    spec = importlib.util.spec_from_file_location(path.rsplit("/", 1)[1][:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

device, found = sys.argv[1], {}
for reference, candidate in zip(sys.argv[2::2], sys.argv[3::2]):
    torch.manual_seed(0)
    old = load(reference)
    model = old.Model(*old.get_init_inputs()).eval()
    inputs = old.get_inputs()
    new = load(candidate).ModelNew(*old.get_init_inputs()).eval()
    new.load_state_dict(model.state_dict())
    with torch.no_grad():
        got = new.to(device)(*(x.to(device) for x in inputs)).cpu()
        eager = model(*inputs)
        truth = model.double()(*(x.double() for x in inputs))
    assert got.shape == eager.shape and got.dtype == eager.dtype
    scale = truth.abs().max()
    found[candidate] = [float((x.double() - truth).abs().max() / scale) for x in (got, eager)]
print(json.dumps(found))
"""


def written(name: str, card: RecipeCard, folder: Path, **knobs: Any) -> tuple[Path, Path]:
    """Write a reference and what `card` makes of it."""
    bench = Bench(GRAPHS[name], {})
    program = lower(bench.graph, symbolic=True)
    kernels = {}
    parts = segment(program, ())
    for part in parts:
        text = render(program, part, card, {**card.defaults(), **knobs}, "kernel0", UNITS)
        kernels[part.id] = RenderedSegment(name="kernel0", text=text, note=card.name)
    slug = name.replace(" ", "_")
    paths = folder / f"{slug}.py", folder / f"{slug}_new.py"
    paths[0].write_text(GRAPHS[name])
    paths[1].write_text(assemble(GRAPHS[name], program, parts, kernels))
    return paths


def errors(device: str, paths: list[tuple[Path, Path]]) -> dict[str, tuple[float, float]]:
    """Return the errors of candidates and of eager, relative to the largest value, by reference.

    In a process of its own: whether Triton interprets is decided when it is imported.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if device == "cpu":
        environment["TRITON_INTERPRET"] = "1"
    names = [str(path) for pair in paths for path in pair]
    done = subprocess.run(
        [sys.executable, "-c", RUN, device, *names], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return {old.stem: tuple(found[str(new)]) for old, new in paths}  # type: ignore[misc]


def assert_right(found: dict[str, tuple[float, float]], free: float = 4e-7) -> None:
    assert len(found) == len(GRAPHS)
    wrong = {name: pair for name, pair in found.items() if not pair[0] <= 4 * pair[1] + free}
    assert not wrong


@pytest.mark.slow
def test_parts_of_rows_are_merged_right(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    card = cards["gpu-rows-split"]
    assert_right(errors("cpu", [written(name, card, tmp_path) for name in GRAPHS]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpu-scan-split", "gpu-scan-rows"])
def test_products_of_a_block_may_leave_float32(
    cards: dict[str, RecipeCard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What comes before is 2 ** -100, a block's own product 2 ** 200: the whole is an ordinary number."""
    pytest.importorskip("triton")
    row = "torch.cat([torch.full((100,), 0.5), torch.ones(3996), torch.full((200,), 2.0), torch.ones(3905)])"
    monkeypatch.setitem(GRAPHS, "far", reference("return torch.cumprod(a, 1)", f"{row}.repeat(3, 1)"))  # fmt: skip
    found = errors("cpu", [written("far", cards[name], tmp_path)])
    assert found["far"][0] == 0


# Smaller than the defaults, so that the rows of the tests are long enough.
CUDA = {
    "gpu-rows-cluster": {"threads": 128, "cluster": 4},
    "gpu-rows-two-walks": {"threads": 128, "hold": 4, "tile": 2},
}


# One exchange or several, remainders, results beside row values, tensors that are read again.
RUNS = [
    ("softmax of odd rows", "gpu-rows-cluster", {}),
    ("softmax where all but the end is masked", "gpu-rows-cluster", {}),
    ("layer norm around a thousand", "gpu-rows-cluster", {}),
    ("layer norm with one huge element", "gpu-rows-cluster", {}),
    ("scaled to an interval", "gpu-rows-cluster", {}),
    ("softmax of odd rows", "gpu-rows-two-walks", {}),
    ("log-softmax", "gpu-rows-two-walks", {}),
    ("layer norm around a thousand", "gpu-rows-two-walks", {}),
    ("layer norm with one huge element", "gpu-rows-two-walks", {}),
    ("RMS norm and a sum", "gpu-rows-two-walks", {}),
    ("softmax where all but the end is masked", "gpu-rows-two-walks", {"span": 2, "hold": 2}),
    ("layer norm around a thousand", "gpu-rows-two-walks", {"span": 4, "hold": 2}),
    ("scaled to an interval", "gpu-rows-two-walks", {"span": 2, "hold": 4}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "recipe", "knobs"), RUNS)
def test_cuda_kernels_compute_rows_right_thread_by_thread(
    name: str,
    recipe: str,
    knobs: dict[str, Any],
    cards: dict[str, RecipeCard],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=0))
    bench = Bench(GRAPHS[name], {})
    _, path = written(name, cards[recipe], tmp_path, **{**CUDA[recipe], **knobs})
    module = load_on_cpu(path.read_text(), tmp_path)
    new = module.ModelNew(*bench.module.get_init_inputs()).eval()
    new.load_state_dict(bench.model.state_dict())
    with torch.no_grad():
        eager = bench.model(*bench.inputs)
        truth = bench.model.double()(*(x.double() for x in bench.inputs))
        for _ in range(2):  # what a kernel leaves behind must not change the next call
            got = new(*bench.inputs)
            scale = truth.abs().max()
            wrong = [float((x.double() - truth).abs().max() / scale) for x in (got, eager)]
            assert wrong[0] <= 4 * wrong[1] + 4e-7
            assert got.shape == eager.shape


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["gpu-rows-split", *CUDA])
def test_rows_that_are_shared_come_out_right_on_the_device(
    name: str, cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA device")
    assert_right(
        errors(
            "cuda",
            [written(graph, cards[name], tmp_path, **CUDA.get(name, {})) for graph in GRAPHS],
        ),
        # Triton's exponential rounds its argument times log2(e): on arguments of 50 that shows.
        4e-7 if name in CUDA else 8e-6,
    )


def test_the_kernel_that_waits_stays_below_its_cap_of_registers(
    cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    """More would mean fewer programs at the same time than the ones that wait for each other."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    card = cards["gpu-rows-split"]
    _, path = written("layer norm around a thousand", card, tmp_path)
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('made', {str(path)!r})\n"
        "made = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(made)\n"
    )
    names: dict[str, Any] = {}
    exec(code, names)
    kernel = names["made"].kernel0_kernel
    fixed = {"BLOCK": 8192, "PARTS": 512, "TURN": 0}
    fixed |= {name: 16384 for name in kernel.arg_names if name.startswith("D")}
    signature = {
        name: "constexpr" if name in fixed
        else "*i32" if name == "flag"
        else "*fp32" if name.startswith(("in", "out", "part")) else "i32"
        for name in kernel.arg_names
    }  # fmt: skip
    aligned = [["tt.divisibility", 16]]
    wide = [at for at, name in enumerate(signature) if signature[name][0] == "*" or name == "COLS"]
    source = ASTSource(
        kernel,
        signature=signature,
        constexprs={(kernel.arg_names.index(name),): value for name, value in fixed.items()},
        attrs={(at,): aligned for at in wide},
    )
    cap = int(card.knobs["registers"].choices[0])
    built = triton.compile(
        source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8, "maxnreg": cap}
    )
    assert f".maxnreg {cap}" in built.asm["ptx"]
    assert "gpu.acquire" in built.asm["ptx"]  # it does wait


@pytest.mark.slow
@pytest.mark.parametrize("name", list(GRAPHS))
@pytest.mark.parametrize("recipe", list(CUDA))
def test_cuda_kernels_compile(
    name: str, recipe: str, cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    if cuda_home() is None:
        pytest.skip("no nvcc on this machine")
    _, path = written(name, cards[recipe], tmp_path, **CUDA[recipe])
    source = path.read_text().split("_SOURCE = r'''")[1].split("'''")[0]
    compile_cubin(source, "", "sm_90a", tmp_path / "kernel.cubin")
    assert (tmp_path / "kernel.cubin").stat().st_size > 1000


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("(64, 1000)", "one part"),
        ("(2, 8388608)", "do not run at the same time"),
    ],
)
def test_rows_are_not_split_where_it_cannot_pay(
    shape: str, why: str, cards: dict[str, RecipeCard]
) -> None:
    source = reference("return torch.softmax(a, -1)", f"torch.zeros(1).expand{shape}")
    program = lower(Bench(source, {}).graph, symbolic=True)
    (part,) = segment(program, ())
    card = cards["gpu-rows-split"]
    with pytest.raises(Unfit, match=why):
        render(program, part, card, card.defaults(), "kernel0", UNITS)
