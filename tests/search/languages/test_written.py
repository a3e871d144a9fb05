from __future__ import annotations

from pathlib import Path

import pytest

from search.languages.written import written_in

EXAMPLES = Path(__file__).parents[3] / "examples" / "kernels"
SOURCES = {
    "lib = kb.native.load_cpp(CPP)": ("cpp",),
    "lib = load_cuda(source=CUDA)": ("cuda",),
    "m = load_inline('m', CPP, CUDA)": ("cuda",),
    "m = load_inline(name='m', cpp_sources=CPP, cuda_sources=[CUDA])": ("cuda",),
    "m = load_inline(name='m', cpp_sources=CPP)": ("cpp",),
    "@triton.autotune([], [])\n@triton.jit\ndef f(x): ...": ("triton",),
    "from triton import jit\n@jit\ndef f(x): ...": ("triton",),
    "lib = load_cuda(CUDA)\n@triton.jit\ndef f(x): ...": ("cuda", "triton"),
    "import cutlass\n@cute.kernel\ndef f(x): ...": ("cute",),
    "def forward(x): return x": (),
    "not Python (": (),
}


@pytest.mark.parametrize("source", SOURCES)
def test_the_languages_of_a_source_are_those_of_its_own_kernels(source: str) -> None:
    assert written_in(source) == SOURCES[source]


def test_every_example_kernel_is_written_in_a_language_that_is_judged() -> None:
    found = {path.name: written_in(path.read_text()) for path in EXAMPLES.rglob("*program*.py")}
    assert found
    assert [name for name, languages in found.items() if not languages] == []
