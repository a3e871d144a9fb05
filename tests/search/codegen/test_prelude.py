"""The prelude's mathematics against float64, at every vector width."""

from __future__ import annotations

import ctypes
import platform
import subprocess

import numpy as np
import pytest
import torch

from search.codegen.render import prelude

WIDTHS = {"native": (), "eight": ("-mno-avx512f",), "four": ("-mno-avx",)}
if platform.machine() != "x86_64":
    WIDTHS = {"native": ()}
# Name in the prelude, truth in float64, and the error in units in the last place of the truth.
EXACT = {
    "vexp": (torch.exp, 2),
    "vexpm1": (torch.expm1, 2),
    "vlog": (torch.log, 2),
    "vlog1p": (torch.log1p, 2),
    "vtanh": (torch.tanh, 2),
    "verf": (torch.erf, 2),
    "vrsqrt": (torch.rsqrt, 2),
    "vsqrt": (torch.sqrt, 0.51),
    "vrelu": (torch.relu, 0),
    "vabs": (torch.abs, 0),
    "vsoftplus": (torch.nn.functional.softplus, 2.5),
}
# These cancel in their tails as the framework's own do: measured against the argument's size.
TAILED = {
    "vsigmoid": torch.sigmoid,
    "vsilu": torch.nn.functional.silu,
    "vgelu": torch.nn.functional.gelu,
    "vgelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "vmish": torch.nn.functional.mish,
}
KERNEL = """
extern "C" void run_{name}(const float* x, float* y, long n) {{
  along<4>(n, [&](auto tag, long c) {{ typedef decltype(tag) V; st(y + c, V({name}(ld<V>(x + c)))); }});
}}
extern "C" void one_{name}(const float* x, float* y, long n) {{
  for (long c = 0; c < n; ++c) y[c] = {name}(x[c]);
}}
"""
SUMS = """
extern "C" void across(const float* x, float* y, long n) {
  reduce_row<Reducers<Sum, Max, Min, Prod>, 3>(1, n, y, [&](auto tag, long, long c, auto* v) {
    typedef decltype(tag) V;
    v[0] = v[1] = v[2] = ld<V>(x + c);
    v[3] = 1.f + 1e-3f * ld<V>(x + c);
  });
}
"""


@pytest.fixture(scope="module", params=list(WIDTHS))
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp(request.param)
    kernels = "".join(KERNEL.format(name=name) for name in (*EXACT, *TAILED))
    (folder / "k.cpp").write_text(prelude() + kernels + SUMS)
    options = ["-O2", "-march=native", "-fopenmp", "-shared", "-fPIC", "-std=gnu++17", "-Wno-psabi"]
    command = ["g++", *options, *WIDTHS[request.param], "k.cpp", "-o", "k.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "k.so"))


def arguments() -> np.ndarray:
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(-80, 80, 20_000)) * rng.choice([-1, 1], 20_000)
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1e-40,
        -1e-40,
        88.72,
        88.73,
        -87.4,
        -103.9,
        3.4e38,
    ]
    parts = [rng.uniform(-20, 20, 40_000), rng.standard_normal(20_000), sizes, special]
    parts.append(rng.uniform(-110, 110, 20_001 - len(special)))
    return np.concatenate(parts).astype(np.float32)


def run(function: ctypes._CFuncPtr, x: np.ndarray) -> np.ndarray:
    y = np.full_like(x, 7)
    function(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_long(x.size))
    return y


@pytest.mark.parametrize("name", list(EXACT))
@pytest.mark.parametrize("form", ["run", "one"])
def test_a_function_is_right_to_the_last_places(library: ctypes.CDLL, name: str, form: str) -> None:
    x = arguments()
    function, limit = EXACT[name]
    y = run(getattr(library, f"{form}_{name}"), x)
    truth = function(torch.from_numpy(x).double()).numpy()
    with np.errstate(over="ignore"):
        rounded = truth.astype(np.float32)
    finite = np.isfinite(rounded)
    assert np.array_equal(np.isnan(y), np.isnan(rounded))
    assert np.array_equal(y[~finite & ~np.isnan(y)], rounded[~finite & ~np.isnan(y)])
    error = np.abs(y[finite].astype(np.float64) - truth[finite]) / np.spacing(
        np.abs(rounded[finite])
    )
    assert error.max() <= limit, x[finite][error.argmax()]


@pytest.mark.parametrize("name", list(TAILED))
def test_an_activation_is_as_accurate_as_its_formula(library: ctypes.CDLL, name: str) -> None:
    x = arguments()
    x = x[np.isfinite(x)]
    y = run(getattr(library, f"run_{name}"), x)
    truth = TAILED[name](torch.from_numpy(x).double()).numpy()
    error = np.abs(y - truth) / np.maximum(np.abs(x), np.abs(truth)).clip(1e-37)
    assert error.max() <= 3e-7, x[error.argmax()]


@pytest.mark.parametrize("size", [1, 3, 16, 17, 47, 100, 1000, 100_003])
def test_a_reduction_counts_every_element_once(library: ctypes.CDLL, size: int) -> None:
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32) + 1000
    y = np.zeros(4, dtype=np.float32)
    library.across(
        ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_long(size)
    )
    wide = x.astype(np.float64)
    assert y[0] == pytest.approx(wide.sum(), rel=2e-6)
    assert y[1] == x.max()
    assert y[2] == x.min()
    logarithm = np.log(1 + 1e-3 * wide).sum()
    expected = np.exp(logarithm) if logarithm < 88 else np.inf
    assert y[3] == pytest.approx(expected, rel=1e-3)


SHORT = """
extern "C" void widen(const {kind}* x, float* y, long n) {{
  long i = 0;
  for (; i + W <= n; i += W) st(y + i, ld<vf>(x + i));
  for (; i < n; ++i) st(y + i, ld<float>(x + i));
}}
extern "C" void narrowed(const float* x, {kind}* y, long n) {{
  long i = 0;
  for (; i + W <= n; i += W) st(y + i, ld<vf>(x + i));
  for (; i < n; ++i) st(y + i, ld<float>(x + i));
}}
"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("kind", "dtype"), [("f16", torch.float16), ("b16", torch.bfloat16)])
def test_two_bytes_are_widened_and_rounded_as_the_framework_does(tmp_path, width, kind, dtype):
    text, library = tmp_path / "short.cpp", tmp_path / "short.so"
    text.write_text(prelude() + SHORT.format(kind=kind))
    command = [
        "g++",
        "-O2",
        "-w",
        "-std=gnu++17",
        "-march=native",
        *WIDTHS[width],
        "-shared",
        "-fPIC",
    ]
    subprocess.run([*command, str(text), "-o", str(library)], check=True)
    functions = ctypes.CDLL(str(library))

    def call(name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        pointers = (ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()))
        getattr(functions, name)(*pointers, ctypes.c_long(x.numel()))
        return y

    every = (
        torch.arange(-(2**15), 2**15 - 1).to(torch.int16).view(dtype)
    )  # all but one: a remainder
    wide = call("widen", every, torch.empty(every.numel()))
    assert torch.equal(wide.nan_to_num(7.0), every.float().nan_to_num(7.0))
    assert torch.equal(wide.isnan(), every.isnan())
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (100_001,), generator=generator).to(torch.int32)
    middles = (every.float().view(torch.int32) + (1 << (12 if kind == "f16" else 15))).view(
        torch.float32
    )  # ties
    x = torch.cat(
        [bits.view(torch.float32), middles, 1e-6 * torch.randn(1001, generator=generator)]
    )
    short = call("narrowed", x, torch.empty(x.numel(), dtype=dtype))
    assert torch.equal(short.isnan(), x.isnan())
    assert torch.equal(
        short[~x.isnan()].view(torch.int16), x[~x.isnan()].to(dtype).view(torch.int16)
    )


@pytest.mark.skipif(platform.machine() != "x86_64", reason="there _Float16 is older")
def test_a_compiler_without_two_byte_floats_builds_all_else(tmp_path):
    text = tmp_path / "plain.cpp"
    text.write_text(prelude() + 'extern "C" void f(const float* x, float* y) { st(y, ld<vf>(x)); }')
    # As GCC 11 is, on a processor that does not convert.
    without = ["-march=x86-64", "-U__FLT16_MAX__", "-D_Float16=no_such_type"]
    done = subprocess.run(
        ["g++", "-w", "-std=gnu++17", "-fsyntax-only", *without, str(text)], check=False
    )
    assert done.returncode == 0
