from __future__ import annotations

import pytest
from growth import QUADRATIC, growth

from ingest.chunking.split import split
from ingest.readers import READERS, ParsedFile, suffixes
from ingest.readers.statements import WHOLE
from kb.tokens import count_tokens

CUDA = """#include <cuda.h>

#ifndef GUARD
#define GUARD
// Adds two vectors.
// One thread an element.
__global__ void add(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
}

namespace tools {
template <int TILE>
__device__ float* tile_of(float* x) { return x + TILE; }
}

extern "C" void launch(float* x, float* y, int n) {
    add<<<(n + 255) / 256, 256>>>(x, y, n);
}
#endif
"""

PYTHON = '''"""A module."""

import math

LIMIT = 3


# Halves a number.
def half(x):
    return x / 2


@staticmethod
def decorated():
    return math.pi


class Large:
    """Says what it is."""

    def first(self):
        return "%s"

    # Leads up to it.
    def second(self):
        return 2
''' % ("x" * 1600)


def read(name: str, text: str) -> ParsedFile:
    reader = READERS.create(suffixes()["." + name.rpartition(".")[2]])
    return reader.read(text, f"src/{name}")


def sections(reading: ParsedFile) -> dict[str, str]:
    return {" > ".join(one.trail): one.blocks[0].text for one in reading.sections}


@pytest.mark.parametrize("name", ["k.cu", "k.cuh", "k.hip"])
def test_kernels_are_cut_along_functions_with_their_comments(name: str) -> None:
    found = sections(read(name, CUDA))
    add = found[f"{name} > add"]
    assert add.startswith("// Adds two vectors.\n// One thread an element.\n__global__")
    assert add.endswith("}")
    assert "tile_of" in found[f"{name} > tools > tile_of"]
    assert "template <int TILE>" in found[f"{name} > tools > tile_of"]
    assert "<<<" in found[f"{name} > launch"]


@pytest.mark.parametrize("name", ["k.c", "k.cpp", "k.h", "k.hpp"])
def test_host_code_is_cut_too(name: str) -> None:
    text = "static int twice(int x) { return 2 * x; }\nstruct Tile { int rows; };\nint limit = 3;\n"
    found = sections(read(name, text))
    assert found[f"{name} > twice"].startswith("static int twice")
    assert found[f"{name} > Tile"].startswith("struct Tile")
    assert "limit" in found[name]


def test_python_is_cut_along_functions_and_large_classes_along_methods() -> None:
    found = sections(read("m.py", PYTHON))
    assert found["m.py > half"].startswith("# Halves a number.\ndef half")
    assert found["m.py > decorated"].startswith("@staticmethod")
    assert '"""Says what it is."""' in found["m.py > Large"]
    assert "# Leads up to it." in found["m.py > Large > second"]


@pytest.mark.parametrize(("name", "text"), [("k.cu", CUDA), ("m.py", PYTHON)])
def test_no_line_of_code_is_lost(name: str, text: str) -> None:
    kept = "\n".join(one.blocks[0].text for one in read(name, text).sections)
    for line in text.splitlines():
        if any(character.isalnum() for character in line):
            assert line.strip() in kept


def test_code_that_does_not_parse_is_kept_all_the_same() -> None:
    assert "int x = ;;; ((" in "".join(sections(read("k.cpp", "int x = ;;; ((\n")).values())


STEPS = "\n".join(f"    float value_{i} = x[{i}] * {i}.0f; // step {i}, plain" for i in range(40))
TURNS = "\n".join(f"        if (i % {i + 2}) y[i] += value_{i} * x[i * {i}];" for i in range(40))
LONG = f"""// Sums rows.
template <int TILE>
__global__ void __launch_bounds__(256) rows(const float* x, float* y, int n) {{
{STEPS}
    for (int i = threadIdx.x; i < n; i += 256) {{
{TURNS}
    }}
    y[blockIdx.x] = 0; // the end of it
}}
"""


def test_a_long_kernel_is_cut_between_statements_under_its_signature() -> None:
    (section,) = read("long.cu", LONG).sections
    assert section.trail == ("long.cu", "rows")
    first, *rest = [block.text for block in section.blocks]
    assert first.startswith("// Sums rows.\ntemplate <int TILE>\n__global__ void")
    assert len(rest) >= 3
    for part in rest:
        assert part.startswith("__global__ void __launch_bounds__(256) rows(const float* x")
        assert part.split("\n")[0].endswith("{  // … continued")
    assert all(count_tokens(block.text) <= WHOLE for block in section.blocks)
    kept = "\n".join((first, *rest))
    for line in LONG.splitlines():
        assert line.strip() in kept, line


def test_a_long_python_function_is_cut_the_same_way() -> None:
    body = "\n".join(
        f"    value_{i} = tl.load(x + {i} * stride) * {i}  # step {i}" for i in range(80)
    )
    text = f'@triton.jit\ndef rows(x, stride):\n    """Sums rows."""\n{body}\n    return value_0\n'
    (section,) = read("long.py", text).sections
    first, *rest = [block.text for block in section.blocks]
    assert first.startswith('@triton.jit\ndef rows(x, stride):\n    """Sums rows."""')
    assert rest
    assert all(part.startswith("def rows(x, stride):  # … continued\n") for part in rest)
    kept = "\n".join((first, *rest))
    assert all(line.strip() in kept for line in text.splitlines())


def test_the_passages_of_a_long_kernel_are_its_parts() -> None:
    reading = read("long.cu", LONG)
    assert [piece.text for piece in split(reading.sections, count_tokens)] == [
        block.text for section in reading.sections for block in section.blocks
    ]


def test_macros_that_stand_for_attributes_hide_no_kernel() -> None:
    text = """namespace at::native {
#ifndef USE_ROCM
// Four elements a thread.
template <int SIZE, typename F>
C10_LAUNCH_BOUNDS_1(num_threads())
__global__ void elementwise(int n, F f) { if (n) f(n); }
#endif
CUTLASS_HOST_DEVICE static float twice(float x) { return x + x; }
namespace {
SOME_INLINE int hidden() { return 1; }
} // namespace
} // namespace at::native
"""
    found = sections(read("loops.cuh", text))
    kernel = found["loops.cuh > at::native > elementwise"]
    assert "// Four elements a thread.\ntemplate" in kernel
    assert "C10_LAUNCH_BOUNDS_1(num_threads())\n__global__" in kernel
    assert "loops.cuh > at::native > twice" in found
    assert "loops.cuh > at::native > hidden" in found
    assert len(found) == 3  # conditions and braces make no passages of their own
    kept = "\n".join(found.values())
    assert all(line.strip() in kept for line in text.splitlines())


def test_a_header_with_device_code_is_read_as_cuda() -> None:
    text = (
        "struct Add { __device__ __forceinline__ float operator()(float a) const { return a; } };\n"
    )
    assert "h.h > Add" in sections(read("h.h", text))


def test_opencl_kernels_are_found() -> None:
    text = "__kernel void add(__global const float* x, __local float* y) { y[0] = x[0]; }\n"
    assert sections(read("k.cl", text)) == {"k.cl > add": text.strip()}


def test_a_comment_at_the_end_of_a_line_stays_on_it() -> None:
    text = "class Later;  // see below\nint f() { return 1; }  // one\nint g() { return 2; }\n"
    found = sections(read("k.cpp", text))
    assert found["k.cpp > f"] == "int f() { return 1; }  // one"
    assert found["k.cpp > g"] == "int g() { return 2; }"


@pytest.mark.parametrize("name", ["deep.cpp", "deep.cu", "deep.py"])
def test_deep_nesting_does_not_end_the_reader(name: str) -> None:
    text = "x = " + "(" * 20_000 + "1" + ")" * 20_000 + "\n"
    assert read(name, text).sections


@pytest.mark.parametrize(
    "text", [" " * 300_000 + "x", "{" * 50_000, "#if 1\n" * 20_000, "A" * 300_000]
)
def test_no_source_makes_the_reader_slow(text: str) -> None:
    def work(part: float) -> None:
        some = text[: int(part * len(text))]
        read("odd.cu", f"int f() {{ return 1; }}\n{some}\nint g() {{ return 2; }}\n")

    assert growth(work) < QUADRATIC
