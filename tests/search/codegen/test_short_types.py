"""Rows and elements of two bytes: computed in float32 and rounded once, in C++, Triton and CUDA C++."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from cuda_on_cpu import load_on_cpu
from gpu_bench import candidates, interpret, problem_of, triton_cards, workshop
from recipe_bench import Bench, reference

from kb.runtime.nvcc import compile_cubin, cuda_home
from search.codegen.library import RecipeCard
from search.codegen.lower import lower
from search.codegen.plan import Choice

N = "torch.randn"
SHORT = ("float16", "bfloat16")


def _graphs(dtype: str) -> dict[str, str]:
    to = f".to(torch.{dtype})"
    return {
        "RMS norm as module code": reference(
            "w = a.float()\nw = w * torch.rsqrt(w.pow(2).mean(-1, keepdim=True) + 1e-6)\nreturn self.g * w.to(a.dtype)",
            f"{N}(7, 64){to}",
            init=f"self.g = nn.Parameter({N}(64){to})",
        ),
        "softmax of odd rows": reference("return torch.softmax(a, -1)", f"{N}(5, 37){to}"),
        "layer norm and an addition": reference(
            "return self.n(a) + b",
            f"{N}(6, 33){to}",
            f"{N}(6, 33){to}",
            init=f"self.n = nn.LayerNorm(33){to}",
        ),
        "sums of columns": reference("return a.sum(0), a.float().mean(0)", f"{N}(40, 36){to}"),
        "an elementwise chain": reference(
            "return F.silu(a) * b + 1, (a > 0) * b", f"{N}(5, 130){to}", f"{N}(130){to}"
        ),
        "from both widths": reference("return (a * b).to(a.dtype), a * b", f"{N}(9, 33){to}", f"{N}(33)"),
        "over a transposed operand": reference("return torch.tanh(a.t()) + b", f"{N}(33, 20){to}", f"{N}(20, 33){to}"),
        "behind the library": reference(
            "return torch.relu(self.l(a)) * 2", f"{N}(8, 32){to}", init=f"self.l = nn.Linear(32, 48){to}"
        ),
    }  # fmt: skip


def _products(dtype: str) -> dict[str, str]:
    to = f".to(torch.{dtype})"
    return {
        "product with what follows": reference(
            "return F.silu(self.l(a)) * b + a.float().mean()",
            f"{N}(70, 100){to}",
            f"{N}(70, 50){to}",
            init=f"self.l = nn.Linear(100, 50){to}",
        ),
        "batched product": reference(
            "return torch.relu(a @ b)", f"{N}(3, 20, 64){to}", f"{N}(3, 64, 130){to}"
        ),
        "few rows and a long inner side": reference(
            "return torch.relu(self.l(a))",
            f"{N}(5, 2100){to}",
            init=f"self.l = nn.Linear(2100, 40){to}",
        ),
        "product of what was computed": reference(
            "return (torch.softmax(a, -1) @ b).float()", f"{N}(40, 128){to}", f"{N}(128, 33){to}"
        ),
    }


CASES = {(dtype, name): text for dtype in SHORT for name, text in _graphs(dtype).items()}
PRODUCTS = {(dtype, name): text for dtype in SHORT for name, text in _products(dtype).items()}


def _allowed(dtype: str) -> float:
    """One rounding of the answer, and a little."""
    return 1.1 * torch.finfo(getattr(torch, dtype)).eps / 2


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "name"), list(CASES))
def test_cpp_is_right(dtype: str, name: str, cards: dict[str, RecipeCard]) -> None:
    bench = Bench(CASES[dtype, name], cards)
    library = [p.anchor for p in bench.parts() if p.pattern == "library" and p.anchor]
    parts = [part for part in bench.parts() if part.pattern != "library"]
    assert parts
    fits = {part.id: bench.fits(part) for part in parts}
    assert all(fits.values())
    for turn in range(max(map(len, fits.values()))):
        chosen = {at: found[turn % len(found)] for at, found in fits.items()}
        text = bench.candidate({at: (c, c.defaults()) for at, c in chosen.items()}, library)
        for mine, eager in bench.errors(text):
            assert mine <= max(_allowed(dtype), eager), (chosen.values(), mine, eager)


@pytest.fixture(scope="module")
def faults(
    cards: dict[str, RecipeCard], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[str]]:
    cases = {}
    for (dtype, name), source in CASES.items():
        problem = problem_of(source, tmp_path_factory.mktemp("case"))
        found = candidates(workshop(source, problem, triton_cards(cards)))
        assert found, name
        cases[f"{dtype}, {name}"] = (source, found)
    for (dtype, name), source in PRODUCTS.items():
        problem = problem_of(source, tmp_path_factory.mktemp("case"))
        shop = workshop(source, problem, triton_cards(cards))
        parts = 4 if "few rows" in name else 1
        knobs = {"tile": "16 64 128 4 4" if parts > 1 else "32 64 128 4 4", "parts": parts}
        tiles = Choice(recipe="gpu-matmul-two-byte-operands", knobs=knobs)
        ids = [part.id for part in shop.cut(()) if part.pattern == "matmul"]
        text = shop.source(shop.complete((), dict.fromkeys(ids, tiles)))
        assert f"gpu-matmul-two-byte-operands(parts={parts}" in text
        cases[f"{dtype}, {name}"] = (source, {"tiles": text})
    return interpret(cases)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "name"), [*CASES, *PRODUCTS])
def test_triton_is_right(dtype: str, name: str, faults: dict[str, list[str]]) -> None:
    assert faults[f"{dtype}, {name}"] == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", SHORT)
def test_cuda_is_right(
    dtype: str, cards: dict[str, RecipeCard], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=0))
    wanted = {
        name: card
        for name, card in cards.items()
        if "cuda" in card.scope.language and card.pattern == "rows"
    }
    to = f".to(torch.{dtype})"
    rows = reference(
        "return self.n(a)", f"{N}(2, 16384){to}", init=f"self.n = nn.LayerNorm(16384){to}"
    )
    bench = Bench(rows, cards)
    found = candidates(workshop(rows, problem_of(rows, tmp_path), wanted))
    assert found
    for name, text in found.items():
        for mine, eager in bench.errors_of(load_on_cpu(text, tmp_path)):
            assert mine <= max(_allowed(dtype), eager), (name, mine, eager)
        if cuda_home() is not None:
            source = text.split("_SOURCE = r'''")[1].split("'''")[0]
            compile_cubin(source, "", "sm_90a", tmp_path / "kernel.cubin")


def test_where_answers_are_float32_a_conversion_is_no_mere_name() -> None:
    rest = reference("return (a - a.half().float()) * 1000 + 1", f"{N}(9, 33)")
    program = lower(Bench(rest, {}).graph)
    kept = [node.dtype for node in program.nodes.values() if node.kind == "opaque"]
    assert "float16" in kept
