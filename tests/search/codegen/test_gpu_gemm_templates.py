"""Products and convolutions from float16 halves: as exact as float32 in the interpreter, compiled for the device."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recipe_bench import Bench, Shelf, reference

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.schema import Document, TargetRecord
from search.attempt import Diagnosis, Moment
from search.authors.recipes import Recipes
from search.codegen.backends.gpu_module import assemble
from search.codegen.library import RecipeCard
from search.codegen.lower import lower
from search.codegen.module_writer import RenderedSegment
from search.codegen.partition import segment
from search.codegen.render import Unfit, render
from search.task import Task, TaskFile

N = "torch.randn"
UNITS = 132
SMALL = {
    "gpu-matmul-split-half": {"tile": "64 32 64 4 4"},
    "gpu-conv-split-half": {"tile": "64 32 32 4 4"},
    "gpu-matmul-scaled-half": {"tile": "64 32 64 4 4"},
    "gpu-conv-scaled-half": {"tile": "64 32 32 4 4"},
    "gpu-matmul-tiles": {"tile": "32 32 64 2 4"},
    "gpu-conv-depthwise": {"elements": 512},
}
PRODUCTS = {
    "odd sizes": reference("return a @ b", f"{N}(70, 100)", f"{N}(100, 50)"),
    "large and tiny": reference("return a @ b", f"1e4 * {N}(40, 65)", f"1e-4 * {N}(65, 33)"),
    "far from zero": reference(
        "return a @ b", f"1000 + 0.1 * {N}(33, 300)", f"1000 + 0.1 * {N}(300, 40)"
    ),
    "rows and columns of zeros": reference(
        "return a @ b",
        f"{N}(40, 64) * (torch.arange(40) % 3 > 0)[:, None]",
        f"{N}(64, 40) * (torch.arange(40) % 4 > 0)",
    ),
    "a layer with its activation and a product": reference(
        "return F.gelu(self.l(a)) * b",
        f"{N}(2, 35, 100)",
        f"{N}(2, 35, 50)",
        init="self.l = nn.Linear(100, 50)",
    ),
    "a layer of planes made flat": reference(
        "return F.relu(self.l(a.flatten(1)))",
        f"{N}(40, 4, 5, 5)",
        init="self.l = nn.Linear(100, 50)",
    ),
    "a layer of heads brought together": reference(
        "return self.l(a.view(2, 35, 100))",
        f"{N}(2, 35, 4, 25)",
        init="self.l = nn.Linear(100, 50)",
    ),
    "a batch": reference("return F.relu(a @ b)", f"{N}(3, 40, 70)", f"{N}(3, 70, 33)"),
    "a matrix that is a parameter on the left": reference(
        "return self.w @ a", f"{N}(60, 34)", init=f"self.w = nn.Parameter({N}(40, 60))"
    ),
    "sums of more terms than a row's tile": reference(
        "return a @ b", f"{N}(34, 8300)", f"{N}(8300, 18)"
    ),
    "a layer of rows with a few elements far larger": reference(
        "return F.gelu(self.l(a)) * b",
        f"{N}(40, 700) + 1e4 * ({N}(40, 700) > 2.5)",
        f"{N}(40, 50)",
        init="self.l = nn.Linear(700, 50)",
    ),
    "a batch of rows with a few elements far larger": reference(
        "return a @ b", f"{N}(2, 40, 500) + 1e4 * ({N}(2, 40, 500) > 2.5)", f"{N}(2, 500, 50)"
    ),
    "long rows with a few elements far larger": reference(
        "return a @ b", f"{N}(34, 8300) + 1e6 * ({N}(34, 8300) > 3.3)", f"{N}(8300, 18)"
    ),
    # Near the diagonal answers have few terms: `c` makes all of a size.
    "triangles": reference(
        "return (a @ b) * c",
        "torch.rand(300, 300).tril()",
        "torch.rand(300, 300).tril()",
        "(1 / (torch.arange(300)[:, None] - torch.arange(300) + 1).clamp(min=1)).tril()",
    ),
    "long triangles": reference(
        "return (a @ b) * c",
        "torch.rand(8300, 8300)[:200].tril()",
        "torch.rand(8300, 40).tril()",
        "(1 / (torch.arange(200)[:, None] - torch.arange(40) + 1).clamp(min=1)).tril()",
    ),
}
CONVOLUTIONS = {
    "wide kernel and stride": reference(
        "return self.c(a)", f"{N}(2, 3, 31, 29)", init="self.c = nn.Conv2d(3, 40, 11, 4, 2)"
    ),
    "activation and maximum": reference(
        "return F.max_pool2d(F.relu(self.c(a)), 3, 2)",
        f"{N}(2, 3, 31, 29)",
        init="self.c = nn.Conv2d(3, 20, 7, 2, 3)",
    ),
    "maximum over a border": reference(
        "return torch.sigmoid(F.max_pool2d(self.c(a), 3, 2, 1))",
        f"{N}(1, 5, 12, 10)",
        init="self.c = nn.Conv2d(5, 20, 3, padding=1)",
    ),
    "mean over a border": reference(
        "return F.avg_pool2d(self.c(a), 3, 2, 1, count_include_pad=False)",
        f"{N}(1, 5, 12, 10)",
        init="self.c = nn.Conv2d(5, 20, 3, padding=1, bias=False)",
    ),
    "one by one": reference(
        "return self.c(a) + b", f"1e4 * {N}(2, 70, 9, 9)", f"{N}(2, 48, 9, 9)",
        init="self.c = nn.Conv2d(70, 48, 1)",
    ),
    "long sums and an oblong kernel": reference(
        "return self.c(a)",
        f"1e-4 * {N}(1, 90, 9, 11)",
        init="self.c = nn.Conv2d(90, 33, (3, 5), 1, (1, 2))",
    ),
}  # fmt: skip
TILES = {
    "a small layer": reference(
        "return torch.tanh(self.l(a))", f"{N}(5, 7, 50)", init="self.l = nn.Linear(50, 20)"
    ),
    "a batch that is scaled": reference("return (a @ b) * 3", f"{N}(3, 20, 70)", f"{N}(3, 70, 33)"),
    "a short inner side": reference("return a @ b + c", f"{N}(70, 5)", f"{N}(5, 40)", f"{N}(40)"),
}
PARTS = {
    "a long inner side": reference(
        "return F.relu(self.l(a))", f"{N}(17, 2100)", init="self.l = nn.Linear(2100, 33)"
    ),
    "a batch with long inner sides": reference(
        "return a @ b", f"{N}(2, 20, 1100)", f"{N}(2, 1100, 20)"
    ),
}
STENCILS = {
    "three by three on its own plane": reference(
        "return F.relu(self.c(a))",
        f"{N}(2, 6, 13, 70)",
        init="self.c = nn.Conv2d(6, 6, 3, padding=1, groups=6)",
    ),
    "dilated, with strides and two outputs a plane": reference(
        "return self.c(a)",
        f"{N}(2, 4, 21, 17)",
        init="self.c = nn.Conv2d(4, 8, (3, 5), (2, 1), (2, 3), (1, 2), 4, bias=False)",
    ),
    "few channels to few": reference(
        "return self.c(a) * b", f"{N}(2, 3, 12, 9)", f"{N}(2, 2, 10, 7)",
        init="self.c = nn.Conv2d(3, 2, 3)",
    ),
}  # fmt: skip
# What is offered where a task allows halves, and how large an error says that it is one of halves.
HALVES = {
    "rounded to halves, far from zero": ("gpu-matmul-scaled-half", PRODUCTS["far from zero"], 1e-6),
    **{
        f"of halves, {name}": ("gpu-conv-scaled-half", CONVOLUTIONS[name], 1e-3)
        for name in ("wide kernel and stride", "one by one", "long sums and an oblong kernel")
    },
}
GRAPHS = {
    **{name: (recipe, text) for name, (recipe, text, _) in HALVES.items()},
    **{name: ("gpu-matmul-split-half", text) for name, text in PRODUCTS.items()},
    **{name: ("gpu-conv-split-half", text) for name, text in CONVOLUTIONS.items()},
    **{name: ("gpu-matmul-tiles", text) for name, text in (TILES | PARTS).items()},
    **{name: ("gpu-conv-depthwise", text) for name, text in STENCILS.items()},
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
        new = new.to(device)
        # What has parameters may keep something for its second call. The interpreter does all in the same order.
        calls = 2 if device != "cpu" or list(new.parameters()) else 1
        got = [new(*(x.to(device) for x in inputs)).cpu() for _ in range(calls)]
        eager = model(*inputs)
        truth = model.double()(*(x.double() for x in inputs))
    assert got[0].shape == eager.shape and got[0].dtype == eager.dtype
    assert torch.equal(got[0], got[-1]), candidate
    scale = truth.abs().max()
    found[candidate] = [float((x.double() - truth).abs().max() / scale) for x in (got[0], eager)]
print(json.dumps(found))
"""


def parts_of(text: str, card: RecipeCard, units: int, **knobs: Any) -> dict[str, str]:
    """Return what `card` renders of a reference, by segment."""
    program = lower(Bench(text, {}).graph, symbolic=True)
    chosen = {**card.defaults(), **knobs}
    return {
        part.id: render(program, part, card, chosen, "kernel0", units)
        for part in segment(program, ())
    }


def written(
    name: str, cards: dict[str, RecipeCard], folder: Path, **knobs: Any
) -> tuple[Path, Path]:
    """Write a reference and what its recipe makes of it."""
    recipe, text = GRAPHS[name]
    program = lower(Bench(text, {}).graph, symbolic=True)
    made = parts_of(text, cards[recipe], 1, **{**SMALL[recipe], **knobs})
    kernels = {
        key: RenderedSegment(name="kernel0", text=part, note=recipe) for key, part in made.items()
    }
    slug = re.sub(r"\W", "_", name + "".join(map(str, knobs.values())))
    paths = folder / f"{slug}.py", folder / f"{slug}_new.py"
    paths[0].write_text(text)
    paths[1].write_text(assemble(text, program, segment(program, ()), kernels))
    return paths


def errors(device: str, paths: list[tuple[Path, Path]]) -> dict[str, tuple[float, float]]:
    """Return the errors of candidates and of eager, relative to the largest value, by reference.

    In a process of its own: whether Triton interprets is decided when it is imported.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if device == "cpu":
        environment |= {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    names = [str(path) for pair in paths for path in pair]
    done = subprocess.run(
        [sys.executable, "-c", RUN, device, *names], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return {old.stem: tuple(found[str(new)]) for old, new in paths}  # type: ignore[misc]


def assert_exact(found: dict[str, tuple[float, float]]) -> None:
    """Fail where an error is not float32's; where halves are meant, theirs of what differs from the mean."""
    for name, (_, _, most) in HALVES.items():
        rounded, _ = found.pop(re.sub(r"\W", "_", name), (most / 100, 0.0))
        assert most / 1000 < rounded < most, name
    wrong = {name: pair for name, pair in found.items() if not pair[0] <= 2 * pair[1] + 4e-7}
    assert not wrong


@pytest.mark.slow
def test_halves_give_what_float32_gives(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    paths = [written(name, cards, tmp_path) for name in GRAPHS]
    paths.append(written("odd sizes", cards, tmp_path, span=64))
    paths += [written(name, cards, tmp_path, parts=4) for name in PARTS]
    assert_exact(errors("cpu", paths))


MEANS = """
import importlib.util, sys
import torch
import quick_triton
spec = importlib.util.spec_from_file_location("candidate", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
K = int(sys.argv[2])
a = torch.rand(40, K)
a[::2, 3] += 1000
a[::3, 5] -= 24000
a[::4, 7] += 1100
(_, _, mean), _ = module.kernel0_both(a, torch.rand(K, 24), 40, 24, K, 1, True, True)
print(float(mean.min()), float(mean.max()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("terms", [32, 256, 8300])
def test_a_row_s_mean_is_that_of_its_usual_elements(
    terms: int, cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    _, candidate = written("odd sizes", cards, tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MEANS, str(candidate), str(terms)],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    least, most = map(float, done.stdout.split())
    assert 0.2 < least <= most < 0.8


@pytest.mark.gpu
@pytest.mark.parametrize(
    "recipe", [name for name in SMALL if "split-half" in name or name == "gpu-matmul-tiles"]
)
def test_every_tile_is_right_on_the_device(
    recipe: str, cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA device")
    paths = [
        written(name, cards, tmp_path, tile=tile)
        for name, (own, _) in GRAPHS.items()
        for tile in cards[recipe].knobs["tile"].choices
        if own == recipe and fits(name, cards, tile)
    ]
    found = errors("cuda", paths)
    assert len(found) > 3
    # Tensor cores cut off what falls below the last bit of a sum: up to four times eager's error.
    wrong = {name: pair for name, pair in found.items() if not pair[0] <= 6 * pair[1] + 1e-6}
    assert not wrong


def fits(name: str, cards: dict[str, RecipeCard], tile: str) -> bool:
    """Say whether a recipe takes a tile for a reference."""
    recipe, text = GRAPHS[name]
    try:
        parts_of(text, cards[recipe], 1, tile=tile)
    except Unfit:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "source"),
    [
        (
            "gpu-matmul-split-half",
            reference("return a @ b", *["torch.zeros(1, 1).expand(4096, 4096)"] * 2),
        ),
        (
            "gpu-conv-split-half",
            reference(
                "return F.max_pool2d(F.relu(self.c(a)), 3, 2)",
                "torch.zeros(1).expand(100, 3, 224, 224)",
                init="self.c = nn.Conv2d(3, 96, 11, 4, 2)",
            ),
        ),
    ],
)
def test_tiles_reach_the_tensor_cores_of_hopper_without_spills(
    recipe: str, source: str, cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    """The defaults for the published sizes: asynchronous group instructions, tiles by the copy engine."""
    triton = pytest.importorskip("triton")
    card = cards[recipe]
    (part,) = parts_of(source, card, UNITS).values()
    bm, bn, bk, warps, stages = map(int, str(card.defaults()["tile"]).split())
    built = compiled(triton, kernel_of(part, tmp_path), bm, bn, bk, (warps, stages))
    ptx = built.asm["ptx"]
    assert "wgmma.mma_async" in ptx
    assert "cp.async.bulk.tensor" in ptx
    assert built.metadata.shared <= 232448
    assert stack(built.asm["cubin"], tmp_path) == 0


def test_columns_of_a_depthwise_plane_are_not_moved_by_the_compiler(
    cards: dict[str, RecipeCard], tmp_path: Path
) -> None:
    """A product with a constant is a shift, which LLVM in Triton 3.6 does beside one of the thread's number by 31.

    Both are one instruction on 64 bits, and what the second shifts out is added to the first. Answers of planes
    of 17 to 32 columns were nearly all left out.
    """
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    init = "self.c = nn.Conv2d(128, 128, 3, 2, 1, groups=128, bias=False)"
    source = reference("return self.c(a)", "torch.zeros(1).expand(10, 128, 56, 56)", init=init)
    (part,) = parts_of(source, cards["gpu-conv-depthwise"], UNITS).values()
    kernel = kernel_of(part, tmp_path)
    fixed = {"BH": 32, "BW": 32}
    kinds = {
        name: "constexpr" if name in fixed else "i32" if name.isupper() else "*fp32"
        for name in kernel.arg_names
    }
    even = [
        at
        for at, name in enumerate(kinds)
        if not name.isupper() or name in ("C", "OC", "DOWN", "ALONG")
    ]
    asked = ASTSource(
        kernel,
        signature=kinds,
        constexprs={(kernel.arg_names.index(name),): value for name, value in fixed.items()},
        attrs={(at,): [["tt.divisibility", 16]] for at in even},
    )
    built = triton.compile(asked, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    assert str(2**31) not in built.asm["ptx"]


def kernel_of(part: str, folder: Path) -> Any:
    """Return the main kernel of a rendered part."""
    path = folder / "part.py"
    head = "import torch\nimport triton\nimport triton.language as tl\n"
    head += "@triton.jit\ndef vmax(a, b):\n    return tl.maximum(a, b)\n"
    # The epilogue's function stands in the candidate's file, not in the part.
    head += "@triton.jit\ndef kernel0_epilogue(v, o, c, live, inside, in0, in1, in2, out0, E0, E1, E2, E3):\n    return v\n"
    head += "@triton.jit\ndef vwide(i, mask):\n    return i\n"
    path.write_text(head + part[max(part.find("from triton.tools"), 0) :])
    spec = importlib.util.spec_from_file_location("part", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel0_kernel


def compiled(triton: Any, kernel: Any, bm: int, bn: int, bk: int, launch: tuple[int, int]) -> Any:
    """Compile a kernel of tensor descriptors for an H200."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    fixed = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 16, "ONCE": True}
    fixed = {name: value for name, value in fixed.items() if name in kernel.arg_names}
    fixed |= {name: 64 for name in kernel.arg_names if re.fullmatch(r"[A-Z]\d", name)}
    tiles = {"a": (bm, bk), "b": (bk, bn), "x_": (bm, bk), "w_": (bn, bk)}
    signature = {}
    for name in kernel.arg_names:
        key = name if name in ("a", "b") else name[:2] if name[2:] in ("rounded", "rest") else ""
        if name in fixed:
            signature[name] = "constexpr"
        elif key:
            signature[name] = f"tensordesc<fp16[{tiles[key][0]},{tiles[key][1]}]>"
        else:
            signature[name] = "i32" if name.isupper() else "*fp32"
    # Sizes of the published tasks that are multiples of 16.
    even = ("M", "N", "KP", "SPAN") if "ONCE" in fixed else ("OC",)
    wide = [at for at, (k, v) in enumerate(signature.items()) if v == "*fp32" or k in even]
    source = ASTSource(
        kernel,
        signature=signature,
        constexprs={(kernel.arg_names.index(name),): value for name, value in fixed.items()},
        attrs={(at,): [["tt.divisibility", 16]] for at in wide},
    )
    options = {"num_warps": launch[0], "num_stages": launch[1]}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)


def stack(cubin: bytes, folder: Path) -> int:
    """Return the bytes of local memory that a thread of a cubin needs: more than none is a spill."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    (folder / "kernel.cubin").write_bytes(cubin)
    done = subprocess.run(
        [tool, "-res-usage", folder / "kernel.cubin"], capture_output=True, text=True, check=True
    )
    found = re.search(r"STACK:(\d+)", done.stdout)
    assert found
    return int(found.group(1))


@pytest.mark.parametrize(
    ("recipe", "source", "why"),
    [
        (
            "gpu-matmul-split-half",
            reference("return a @ b", f"{N}(4, 512)", f"{N}(512, 512)"),
            "too small",
        ),
        (
            "gpu-matmul-split-half",
            reference("return a @ b", f"{N}(256, 512)", f"{N}(512, 512)"),
            "leave most of the device idle",
        ),
        (
            "gpu-conv-split-half",
            reference("return self.c(a)", f"{N}(8, 32, 20, 20)", init="self.c = nn.Conv2d(32, 32, 3, groups=32)"),
            "32 groups",
        ),
        (
            "gpu-conv-depthwise",
            reference("return self.c(a)", f"{N}(8, 3, 20, 20)", init="self.c = nn.Conv2d(3, 32, 3)"),
            "not depthwise",
        ),
        (
            "gpu-matmul-tiles",
            reference("return a @ b", *["torch.zeros(1, 1).expand(8192, 8192)"] * 2),
            "bound by arithmetic",
        ),
        (
            "gpu-conv-split-half",
            reference("return self.c(a)", f"{N}(8, 32, 20, 20)", init="self.c = nn.Conv2d(32, 32, 1, 2)"),
            "skips pixels",
        ),
    ],
)  # fmt: skip
def test_what_cannot_pay_is_refused_with_its_reason(
    recipe: str, source: str, why: str, cards: dict[str, RecipeCard]
) -> None:
    with pytest.raises(Unfit, match=why):
        parts_of(source, cards[recipe], UNITS)


PRODUCT = reference("return a @ b", *["torch.zeros(1, 1).expand(4096, 4096)"] * 2)
PLANES = reference(
    "return F.relu(self.c(a))", "torch.zeros(1, 1, 1, 1).expand(64, 64, 56, 56)",
    init="self.c = nn.Conv2d(64, 128, 3)",
)  # fmt: skip
VOLUMES = reference(
    "return self.c(a)", "torch.zeros(1, 1, 1, 1, 1).expand(16, 32, 16, 32, 32)",
    init="self.c = nn.ConvTranspose3d(32, 64, 3, 2)",
)  # fmt: skip


@pytest.mark.parametrize(
    ("precision", "source", "pattern", "allowed"),
    [
        ("strict", PRODUCT, "matmul", False),
        ("tf32", PRODUCT, "matmul", True),
        ("framework", PRODUCT, "matmul", False),
        ("strict", PLANES, "conv", False),
        ("framework", PLANES, "conv", True),
        ("framework", VOLUMES, "conv-all-axes", True),
    ],
)
def test_one_product_of_halves_comes_first_where_the_task_allows_it(
    precision: str, source: str, pattern: str, allowed: bool, documents: list[Document]
) -> None:
    path = Path("model.py")
    settings = TaskFile.model_validate({"reference": "model.py", "precision": precision})
    task = Task(name="t", path=path, reference=path, source=source, settings=settings)
    author = Recipes(task, h200(), Bench(source, {}).graph, Shelf(documents))
    moment = Moment(
        round=0, seed=0, parent=None, history=(), diagnosis=Diagnosis(symptoms=(), lines=())
    )
    records = [idea.record for idea in author.ideas(moment, 12)]
    exact, rounded = f"gpu-{pattern}-split-half", f"gpu-{pattern}-scaled-half"
    assert exact in records
    assert (rounded in records[: records.index(exact)]) == allowed
    assert (rounded in records) == allowed


def h200() -> TargetRecord:
    """Return the target that the shipped records describe."""
    records = (document.record for document in load_library(shipped_docs()))
    return next(r for r in records if isinstance(r, TargetRecord) and r.name == "h200")


@pytest.mark.parametrize("name", ["h200-matmul-float32", "h200-conv-block-float32"])
def test_a_kept_winner_is_a_whole_program(name: str) -> None:
    text = (shipped_docs() / "kernels" / f"{name}.md").read_text(encoding="utf-8")
    found = re.search(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found
    tree = ast.parse(found.group(1))
    assert any(isinstance(node, ast.ClassDef) and node.name == "ModelNew" for node in tree.body)
