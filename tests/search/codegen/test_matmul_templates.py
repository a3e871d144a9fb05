"""Every matrix product recipe computes what torch computes, whatever the shape and the vector width."""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from jinja2 import Environment, StrictUndefined

from kb.config import shipped_docs
from kb.records.schema import Choices, IdeaRecord, parse_record

WIDTHS = {"native": (), "avx2": ("-mno-avx512f",), "sse": ("-mno-avx",)}
if platform.machine() != "x86_64":
    WIDTHS = {"native": ()}
RECIPES = ["cpu-matmul-packed", "cpu-matmul-unpacked", "cpu-matmul-skinny", "cpu-matmul-amx"]


class Unfit(Exception):
    """The template refuses the sizes."""


def _refuse(reason: str) -> str:
    raise Unfit(reason)


def recipe(name: str) -> tuple[str, dict[str, object]]:
    """Return a record's template and its knobs' first choices, refinements resolved."""
    path = shipped_docs() / "ideas" / f"{name}.md"
    document = parse_record(path.read_text(encoding="utf-8"), str(path))
    assert isinstance(document.record, IdeaRecord)
    assert document.record.recipe is not None
    own = document.record.recipe
    assert own.pattern == "matmul"
    if own.refines:
        template, knobs = recipe(own.refines)
        return template, {**knobs, **own.set}
    found = re.search(r"^```jinja\n(.*?)^```", document.body, re.MULTILINE | re.DOTALL)
    assert found
    return found.group(1), {n: k.choices[0] for n, k in own.knobs.items() if isinstance(k, Choices)}


def sizes(batch, m, n, k, *, transposed=0, bias=0, batched=0) -> SimpleNamespace:
    flags = {"b_transposed": transposed, "bias": bias, "b_batched": batched}
    return SimpleNamespace(batch=batch, m=m, n=n, k=k, **flags)


CASES = [
    sizes(1, 1, 1, 1),
    sizes(1, 1, 17, 5, transposed=1, bias=1),
    sizes(2, 3, 16, 33, bias=1),
    sizes(3, 5, 3, 700, transposed=1, batched=1),
    sizes(1, 15, 50, 1, transposed=1),
    sizes(2, 29, 65, 40, bias=1, batched=1),
    sizes(1, 14, 32, 600, transposed=1, bias=1),
    sizes(1, 1, 101, 513),
    sizes(2, 2, 9, 9000, transposed=1, batched=1),
    sizes(1, 8, 77, 1000, bias=1),
    sizes(1, 61, 130, 24, transposed=1),
    sizes(1, 70, 100, 300, transposed=1, bias=1),
    sizes(2, 48, 40, 513, bias=1, batched=1),
]


def render(name: str, d: SimpleNamespace, fn: str, changed: dict[str, object] | None = None) -> str:
    """Return a kernel whose epilogue reads an operand at (row, col)."""
    template, knobs = recipe(name)
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    body = environment.from_string(template).render(
        fn=fn,
        d=d,
        k=SimpleNamespace(**{**knobs, **(changed or {})}),
        epilogue=f"{fn}_epilogue",
        post=f"{fn}_post",
        unfit=_refuse,
        tiles=(shipped_docs() / "recipes" / "tiles.hpp").read_text(encoding="utf-8"),
    )
    return (
        f"template <class V> static inline V {fn}_epilogue"
        "(V v, const float* const* in, long row, long col) {"
        f" return vrelu(v + ld<V>(in[{2 + d.bias}] + row * {d.n} + col)); }}\n{body}"
    )


def build(folder: Path, kernels: list[str], flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Compile the kernels behind the shared prelude."""
    source, library = folder / "kernels.cpp", folder / "kernels.so"
    prelude = (shipped_docs() / "recipes" / "prelude.hpp").read_text(encoding="utf-8")
    source.write_text("\n".join((prelude, *kernels)), encoding="utf-8")
    command = ["g++", "-shared", "-fPIC", "-O3", "-march=native", "-fopenmp", *flags]
    done = subprocess.run(
        [*command, str(source), "-o", str(library)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))


def operands(d: SimpleNamespace) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(d.m + d.n + d.k)
    right = (d.n, d.k) if d.b_transposed else (d.k, d.n)
    shapes = [(d.batch, d.m, d.k), (d.batch, *right) if d.b_batched else right]
    shapes += [(d.n,)] if d.bias else []
    return [torch.randn(shape, generator=made) for shape in (*shapes, (d.batch, d.m, d.n))]


def reference(d: SimpleNamespace, given: list[torch.Tensor]) -> torch.Tensor:
    right = given[1].mT if d.b_transposed else given[1]
    y = torch.matmul(given[0], right)
    y = y + given[2] if d.bias else y
    return torch.relu(y + given[-1])


def call(
    library: ctypes.CDLL, fn: str, given: list[torch.Tensor], shape: torch.Size
) -> torch.Tensor:
    out = torch.full(shape, float("nan"))
    inputs = (ctypes.c_void_p * len(given))(*(t.data_ptr() for t in given))
    getattr(library, fn)(inputs, (ctypes.c_void_p * 1)(out.data_ptr()))
    return out


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def check(library: ctypes.CDLL, fn: str, d: SimpleNamespace) -> None:
    given = operands(d)
    truth = reference(d, [t.double() for t in given])
    # What rounding may do grows with the sum of the magnitudes, not with the result.
    scale = reference(d, [t.double().abs() for t in given]).max().item()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        out = call(library, fn, given, truth.shape)
        error = (out.double() - truth).abs().max().item()
        assert error <= 4e-7 * scale, f"{fn}, {threads} threads: {error} of {scale}: {d}"


def check_all(name, folder, flags=(), changed=None):
    kernels: dict[int, str] = {}
    for number, d in enumerate(CASES):
        try:
            kernels[number] = render(name, d, f"k{number}", changed)
        except Unfit:
            continue
    assert kernels
    library = build(folder, list(kernels.values()), flags)
    for number in kernels:
        check(library, f"k{number}", CASES[number])


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_right_on_every_shape_that_it_accepts(name, width, tmp_path):
    check_all(name, tmp_path, WIDTHS[width])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("cpu-matmul-packed", {"vectors": 3, "rows": 3, "pack": 1, "copy": 1, "kilobytes": 1}),
        ("cpu-matmul-packed", {"vectors": 4, "rows": 14, "pack": 0, "copy": 1, "kilobytes": 128}),
        ("cpu-matmul-amx", {"terms": 128, "kilobytes": 1}),
        ("cpu-matmul-skinny", {"dots": 2, "rows": 8, "columns": 16}),
        ("cpu-matmul-skinny", {"dots": 4, "rows": 2, "columns": 1024}),
    ],
)
def test_knobs_change_the_speed_and_not_the_result(name, knobs, tmp_path):
    check_all(name, tmp_path, changed=knobs)


@pytest.mark.slow
def test_long_sums_round_about_as_little_as_the_framework_does(tmp_path):
    d = sizes(1, 16, 64, 6000, transposed=1)
    library = build(tmp_path, [render(name, d, f"k{i}") for i, name in enumerate(RECIPES)])
    given = operands(d)
    truth = reference(d, [t.double() for t in given])
    framework = (reference(d, given).double() - truth).abs().max().item()
    for number, name in enumerate(RECIPES):
        error = (
            (call(library, f"k{number}", given, truth.shape).double() - truth).abs().max().item()
        )
        assert error <= 5 * framework, name


def test_many_rows_are_not_streamed():
    with pytest.raises(Unfit, match="64 rows"):
        render("cpu-matmul-skinny", sizes(1, 64, 8, 8), "k")
    assert render("cpu-matmul-skinny", sizes(64, 1, 8, 8, batched=1), "k")


@pytest.mark.slow
def test_a_processor_without_tiles_computes_the_same_in_loops(tmp_path):
    check_all("cpu-matmul-amx", tmp_path, ("-U__AMX_BF16__",))
