"""What Inductor writes around its kernels, read and said in torch's own functions."""

import ast

import pytest

from search.codegen.inductor import Uncaptured
from search.codegen.inductor.wrapper import read
from search.strides import contiguous, is_dense

MODULE = """
cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
extern "C"  void  kernel(const float* in_ptr0, float* out_ptr0) {}
''')

class Runner:
    def call(self, args):
        arg0_1, arg1_1 = args
        args.clear()
        assert_size_stride(arg0_1, (4, 6), (6, 1), 'input')
        buf0 = empty_strided_cpu((4, 6), (6, 1), torch.float32)
        cpp_fused_add_0(arg0_1, buf0)
        del arg0_1
        buf1 = empty_strided_cpu((4, 6), (1, 4), torch.float32)
        extern_kernels.mm(buf0, reinterpret_tensor(arg1_1, (6, 6), (1, 6), 3), out=buf1)
        del arg1_1
        del buf0
        return (buf1, )
"""


def lines(text: str, **stubs: object) -> list[str]:
    found = read(text, stubs)  # type: ignore[arg-type] - shapes and types by name
    return [ast.unparse(one) for one in found.body]


def test_buffers_views_and_products_are_torchs_own() -> None:
    found = read(MODULE)
    assert found.arguments == ("arg0_1", "arg1_1")
    assert [kernel.name for kernel in found.kernels] == ["cpp_fused_add_0"]
    assert [ast.unparse(one) for one in found.results] == ["buf1"]
    assert lines(MODULE) == [
        "buf0 = torch.empty((4, 6), dtype=torch.float32)",
        "_cpp_fused_add_0(arg0_1.data_ptr(), buf0.data_ptr())",
        "buf1 = torch.empty_strided((4, 6), (1, 4), dtype=torch.float32)",
        "torch.mm(buf0, torch.as_strided(arg1_1, (6, 6), (1, 6), arg1_1.storage_offset() + 3), out=buf1)",
        "del buf0",
    ]


def test_an_operator_of_the_candidates_own_becomes_its_kernel_and_new_tensors() -> None:
    text = MODULE.replace("cpp_fused_add_0(arg0_1, buf0)", "buf9 = torch.ops.kb.kernel0.default(arg0_1)")  # fmt: skip
    found = lines(text, kernel0=[([2, 3], "float32")])
    assert found[1:3] == [
        "buf9 = (torch.empty((2, 3), dtype=torch.float32),)",
        "_kernel0(arg0_1.data_ptr(), buf9[0].data_ptr())",
    ]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("extern_kernels.mm(", "extern_kernels.mm_plus(", "extern_kernels.mm_plus"),
        ("del buf0", "for i in range(3): pass", "unknown statement"),
        ("async_compile.cpp_pybinding", "async_compile.halide", "halide"),
        ("return (buf1, )", "return buf1", "unknown statement"),
    ],
)
def test_what_is_not_known_is_refused_by_name(old: str, new: str, told: str) -> None:
    with pytest.raises(Uncaptured, match=told):
        read(MODULE.replace(old, new))


def test_strides_of_tensors_in_order() -> None:
    assert contiguous((2, 3, 4)) == (12, 4, 1)
    assert contiguous(()) == ()


def test_memory_without_gaps_is_dense() -> None:
    assert is_dense((2, 3, 4), (12, 1, 3))
    assert is_dense((2, 1, 4), (4, 99, 1))
    assert not is_dense((2, 4), (12, 1))  # a part of each row
    assert not is_dense((2, 4), (0, 1))  # one row twice
