"""Every convolution recipe computes what torch computes, whatever the shape and the vector width."""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from jinja2 import Environment, StrictUndefined

from kb.config import shipped_docs
from kb.records.schema import Choices, IdeaRecord, parse_record

WIDTHS = {"native": (), "avx2": ("-mno-avx512f",), "sse": ("-mno-avx",)}
if platform.machine() != "x86_64":
    WIDTHS = {"native": ()}
RECIPES = [
    "cpu-conv-direct",
    "cpu-conv-plane",
    "cpu-conv-panels",
    "cpu-conv-pointwise",
    "cpu-conv-fused-pool",
    "cpu-conv-depthwise",
    "cpu-conv-channel-blocks",
    "cpu-conv-amx",
]


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
    assert own.pattern == "conv"
    if own.refines:
        template, knobs = recipe(own.refines)
        return template, {**knobs, **own.set}
    found = re.search(r"^```jinja\n(.*?)^```", document.body, re.MULTILINE | re.DOTALL)
    assert found
    assert all(isinstance(knob, Choices) for knob in own.knobs.values())
    return found.group(1), {n: k.choices[0] for n, k in own.knobs.items() if isinstance(k, Choices)}


def sizes(
    n, c, h, w, oc, kernel, stride=1, padding=0, dilation=1, groups=1, bias=1, pool=None
) -> SimpleNamespace:
    """Return the sizes as a template gets them; `pool` is (kind, kernel, stride, padding, include)."""
    pairs = [v if isinstance(v, tuple) else (v, v) for v in (kernel, stride, padding, dilation)]
    (kh, kw), (sh, sw), (ph, pw), (dh, dw) = pairs
    oh, ow = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (w + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    d = {"n": n, "c": c, "h": h, "w": w, "oc": oc, "oh": oh, "ow": ow, "kh": kh, "kw": kw}
    d |= {
        "sh": sh,
        "sw": sw,
        "ph": ph,
        "pw": pw,
        "dh": dh,
        "dw": dw,
        "groups": groups,
        "bias": bias,
    }
    kind, qk, qs, qp, include = pool or ("", 1, 1, 0, 0)
    d |= {"pool": kind, "pkh": qk, "pkw": qk, "psh": qs, "psw": qs, "pph": qp, "ppw": qp}
    d |= {"poh": (oh + 2 * qp - qk) // qs + 1, "pow": (ow + 2 * qp - qk) // qs + 1}
    return SimpleNamespace(**d, count_include_pad=include)


CASES = [
    sizes(1, 3, 33, 31, 17, 11, 4, 2, pool=("max", 3, 2, 0, 0)),
    sizes(2, 7, 20, 18, 14, 3, 1, 1, groups=7, pool=("avg", 3, 2, 1, 0)),
    sizes(2, 5, 9, 7, 33, 3, 2, 1),
    sizes(1, 4, 23, 29, 6, (5, 3), (3, 2), (2, 1), groups=2, pool=("avg", 3, 2, 1, 1)),
    sizes(2, 12, 5, 7, 18, 1, groups=3, bias=0),
    sizes(1, 1, 1, 1, 1, 1),
    sizes(1, 16, 20, 20, 33, 1),
    sizes(1, 3, 40, 41, 18, 7, 3, 3, pool=("max", 3, 1, 1, 0)),
    sizes(1, 6, 12, 13, 9, 3, 1, 2, dilation=(2, 3), groups=3),
    sizes(1, 2, 3, 50, 3, (1, 7), 1, (0, 3), bias=0),
    sizes(1, 50, 6, 5, 70, 3, 1, 1, pool=("max", 2, 3, 0, 0)),
    sizes(2, 20, 19, 34, 20, 3, 2, 1, groups=20),
    sizes(1, 64, 14, 14, 40, 3, 1, 1),
    sizes(3, 45, 13, 22, 50, 3, (1, 2), (2, 1), bias=0),
    sizes(1, 33, 23, 9, 20, (3, 2), (2, 3), (0, 2), dilation=(2, 1)),
]


def render(name: str, d: SimpleNamespace, fn: str, changed: dict[str, object] | None = None) -> str:
    """Return a kernel whose epilogue and post function read an operand at (row, col)."""
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
    head = "template <class V> static inline V"
    at = "(V v, const float* const* in, long row, long col)"
    extra = 2 + d.bias
    return (
        f"{head} {fn}_epilogue{at} {{"
        f" return vrelu(v + ld<V>(in[{extra}] + row * {d.oh * d.ow} + col)); }}\n"
        f"{head} {fn}_post{at} {{"
        f" return v * 0.5f + ld<V>(in[{extra + 1}] + row * {d.poh * d.pow} + col); }}\n{body}"
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
    made = torch.Generator().manual_seed(d.n + d.c + d.oc)
    shapes = [(d.n, d.c, d.h, d.w), (d.oc, d.c // d.groups, d.kh, d.kw)]
    shapes += [(d.oc,)] if d.bias else []
    shapes += [(d.n, d.oc, d.oh, d.ow), (d.n, d.oc, d.poh, d.pow)]
    return [torch.randn(shape, generator=made) for shape in shapes]


def reference(d: SimpleNamespace, given: list[torch.Tensor]) -> torch.Tensor:
    x, weight, *rest = given
    bias = rest[0] if d.bias else None
    geometry = ((d.sh, d.sw), (d.ph, d.pw), (d.dh, d.dw), d.groups)
    y = F.relu(F.conv2d(x, weight, bias, *geometry) + given[-2])
    window = ((d.pkh, d.pkw), (d.psh, d.psw), (d.pph, d.ppw))
    if d.pool == "max":
        y = F.max_pool2d(y, *window)
    elif d.pool == "avg":
        y = F.avg_pool2d(y, *window, ceil_mode=False, count_include_pad=bool(d.count_include_pad))
    return y * 0.5 + given[-1] if d.pool else y


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


def check(
    library: ctypes.CDLL, fn: str, d: SimpleNamespace, given: list[torch.Tensor] | None = None
) -> None:
    given = given or operands(d)
    truth = reference(d, [t.double() for t in given])
    # What rounding may do grows with the sum of the magnitudes, not with the result.
    scale = reference(d, [t.double().abs() for t in given]).max().item()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        out = call(library, fn, given, truth.shape)
        error = (out.double() - truth).abs().max().item()
        assert error <= 4e-7 * scale, f"{fn}, {threads} threads: {error} of {scale}: {d}"


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_right_on_every_shape_that_it_accepts(name, width, tmp_path):
    kernels: dict[int, str] = {}
    for number, d in enumerate(CASES):
        try:
            kernels[number] = render(name, d, f"k{number}")
        except Unfit:
            continue
    # The native width sees every case, the others every second: compiling is most of the time.
    chosen = list(kernels)[:: 1 if width == "native" else 2]
    assert chosen
    library = build(tmp_path, [kernels[number] for number in chosen], WIDTHS[width])
    for number in chosen:
        check(library, f"k{number}", CASES[number])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "knobs"),
    [
        ("cpu-conv-direct", {"vectors": 3, "tile": 4, "channels": 2, "rows": 3, "task": 2}),
        ("cpu-conv-direct", {"vectors": 1, "tile": 14, "channels": 1, "rows": 2, "task": 4}),
        ("cpu-conv-plane", {"channels": 3, "vectors": 2, "rows": 2, "task": 3}),
        ("cpu-conv-plane", {"channels": 12, "vectors": 4, "rows": 4, "task": 8}),
        ("cpu-conv-panels", {"vectors": 3, "rows": 4, "pack": 0, "copy": 0, "kilobytes": 1}),
        ("cpu-conv-pointwise", {"vectors": 4, "rows": 14, "pack": 1, "copy": 0, "kilobytes": 1}),
    ],
)
def test_knobs_change_the_speed_and_not_the_result(name, knobs, tmp_path):
    kernels: dict[int, str] = {}
    for number, d in enumerate(CASES[:8]):
        try:
            kernels[number] = render(name, d, f"k{number}", knobs)
        except Unfit:
            continue
    library = build(tmp_path, list(kernels.values()))
    for number in kernels:
        check(library, f"k{number}", CASES[number])


@pytest.mark.slow
def test_long_sums_round_about_as_little_as_the_framework_does(tmp_path):
    d = sizes(1, 256, 9, 9, 32, 3, 1, 1)
    names = [
        "cpu-conv-direct",
        "cpu-conv-plane",
        "cpu-conv-panels",
        "cpu-conv-channel-blocks",
        "cpu-conv-amx",
    ]
    library = build(tmp_path, [render(name, d, f"k{i}") for i, name in enumerate(names)])
    given = operands(d)
    truth = reference(d, [t.double() for t in given])
    framework = (reference(d, given).double() - truth).abs().max().item()
    for number, name in enumerate(names):
        error = (
            (call(library, f"k{number}", given, truth.shape).double() - truth).abs().max().item()
        )
        assert error <= 5 * framework, name


@pytest.mark.slow
def test_a_nan_reaches_every_maximum_over_it_and_no_other(tmp_path):
    d = sizes(1, 2, 19, 37, 20, 3, 1, 1, pool=("max", 3, 2, 1, 0))
    names = ["cpu-conv-direct", "cpu-conv-plane"]
    library = build(tmp_path, [render(name, d, f"k{i}") for i, name in enumerate(names)])
    given = operands(d)
    given[0][0, 1, 7, 22] = float("nan")
    expected = reference(d, given)
    assert expected.isnan().any()
    for number, name in enumerate(names):
        out = call(library, f"k{number}", given, expected.shape)
        assert torch.equal(out.isnan(), expected.isnan()), name


@pytest.mark.parametrize(
    ("name", "d"),
    [
        ("cpu-conv-pointwise", sizes(1, 3, 8, 8, 4, 3)),
        ("cpu-conv-pointwise", sizes(1, 3, 8, 8, 4, 1, 2)),
        ("cpu-conv-panels", sizes(1, 3, 8, 8, 4, 3, pool=("max", 2, 2, 0, 0))),
        ("cpu-conv-fused-pool", sizes(1, 3, 8, 8, 4, 3)),
        ("cpu-conv-depthwise", sizes(1, 3, 8, 8, 4, 3)),
        ("cpu-conv-channel-blocks", sizes(1, 3, 8, 8, 4, 3)),
    ],
)
def test_a_recipe_says_why_it_does_not_fit(name, d):
    with pytest.raises(Unfit, match=r"\w+ \w+"):
        render(name, d, "k")


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("-U__AMX_BF16__",)], ids=["tiles", "loops"])
def test_bands_of_planes_are_right_on_tiles_and_in_loops(flags, tmp_path):
    cases = CASES[-3:]
    few = {"kilobytes": 16, "steps": 8}
    kernels = [render("cpu-conv-amx", d, f"k{i}", few) for i, d in enumerate(cases)]
    library = build(tmp_path, kernels, flags)
    for number, d in enumerate(cases):
        check(library, f"k{number}", d)
