from __future__ import annotations

import pytest

from ingest.readers import READERS, SUFFIXES, Reading

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


def read(name: str, text: str) -> Reading:
    reader = READERS.create(SUFFIXES["." + name.rpartition(".")[2]])
    return reader.read(text, f"src/{name}")


def sections(reading: Reading) -> dict[str, str]:
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
