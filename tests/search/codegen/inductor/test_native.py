"""Inductor's kernels as one C++ source."""

import pytest

from search.codegen.inductor import Uncaptured
from search.codegen.inductor.native import CppKernel, join

TEXT = (
    '#include <cmath>\nextern "C"  void  kernel(const float* in, float* out)\n{ out[0] = in[0]; }\n'
)


def kernel(name: str, text: str = TEXT, types: tuple[str, ...] = ("const float*", "float*")) -> CppKernel:  # fmt: skip
    return CppKernel(name=name, types=types, source=text)


def test_kernels_of_one_name_stand_in_namespaces_and_includes_once() -> None:
    text = join([kernel("one"), kernel("two")])
    assert text.count("#include <cmath>") == 1
    assert text.index("#include <cmath>") < text.index("namespace one_")
    assert "namespace two_ {\nstatic void kernel(" in text
    assert "one_::kernel((const float*)PyLong_AsVoidPtr(a[0]), (float*)PyLong_AsVoidPtr(a[1]))" in text  # fmt: skip
    assert 'extern "C" void* two(' in text


def test_a_kernel_that_takes_sizes_is_refused() -> None:
    with pytest.raises(Uncaptured, match="sizes"):
        join([kernel("one", types=("const float*", "const int64_t"))])


def test_a_text_without_a_kernel_is_refused() -> None:
    with pytest.raises(Uncaptured, match="no function named kernel"):
        join([kernel("one", text="void other() {}")])
