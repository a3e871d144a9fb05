from importlib.util import find_spec

import pytest

from search.languages import LANGUAGES, Unbuildable
from search.languages.compilers import compiler_fault
from search.languages.cute import (
    Cute,
    explained,
    kernel_names,
    own_kernel,
    own_symbols,
    package_folders,
)


def test_the_language_is_registered() -> None:
    assert isinstance(LANGUAGES.create("cute", "sm_90"), Cute)


@pytest.mark.skipif(find_spec("cutlass") is not None, reason="the package is installed")
@pytest.mark.parametrize("text", ["import cutlass", "import cutlass.cute as cute", "    from cutlass import cute"])  # fmt: skip
def test_without_its_package_the_message_says_what_to_install(text: str) -> None:
    source = f"if True:\n{text if text[0] == ' ' else '    ' + text}\n"
    with pytest.raises(Unbuildable, match=r"pip install 'kernel-kb\[cute\]'"):
        Cute("sm_90").units(source)


def test_a_module_of_a_similar_name_is_not_the_package() -> None:
    assert Cute("sm_90").units("import cutlassish\n") == ()


def test_a_users_error_is_told_with_its_line_and_without_colours() -> None:
    message = (  # of nvidia-cutlass-dsl 4.8.1
        "\n\x1b[91m\x1b[1merror:\x1b[0m NameError in `scale_relu`: name 'nope' is not defined\n"
        "  \x1b[94m-->\x1b[0m candidate.py:14\n   |\n13 |     if i < n:\n14 |         v = x[i] * nope\n"
        "   |         \x1b[91m^\x1b[0m\n  \x1b[94m= note:\x1b[0m Caused exception: name 'nope' is not defined\n"
    )
    told = "line 14: NameError in `scale_relu`: name 'nope' is not defined"
    assert Cute("sm_90").explain(message) == told


def test_frames_of_the_package_are_left_out() -> None:
    message = (
        'Traceback (most recent call last):\n  File "nvidia_cutlass_dsl/x.py", line 3, in y\n'
        "cutlass.base_dsl.common.DSLRuntimeError: the layout is not static\n"
    )
    told = "cutlass.base_dsl.common.DSLRuntimeError: the layout is not static"
    assert Cute("sm_90").explain(message) == told


def test_a_users_error_with_a_code_is_told_too() -> None:
    message = (  # of nvidia-cutlass-dsl 4.8.1
        "\n\x1b[91m\x1b[1merror[TYPE_UNSTABLE_JOIN]:\x1b[0m `v` has type `Int32` on one path and `BFloat16` on "
        "another.\n  \x1b[94m-->\x1b[0m candidate.py:14\n   |\n"
    )
    told = "line 14: `v` has type `Int32` on one path and `BFloat16` on another."
    assert Cute("sm_90").explain(message) == told
    assert compiler_fault("DSLUserCodeError", message) == told
    assert compiler_fault("DSLCudaRuntimeError", message) == ""  # of a launch, not of compiling
    assert compiler_fault("ValueError", message) == ""


SOURCE = """
import cutlass.cute as cute
from cutlass.cute import kernel

@cute.kernel
def scale(x): ...

@kernel(name="x")
def scale_rows(x): ...

class Gemm:
    @cute.jit
    def __call__(self, x): ...

    @cute.kernel
    def tiles(self, x): ...

def helper(x): ...
"""


def test_the_kernels_of_a_source_are_those_that_it_declares() -> None:
    assert kernel_names(SOURCE) == {"scale", "scale_rows", "tiles"}
    assert kernel_names("def (") == frozenset()


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("kernel_cutlass_scale_tensorptrf32gmem_0", "scale"),
        ("kernel_cutlass_scale_rows_tensorptrf32gmem_0", "scale_rows"),
        ("kernel_cutlass_tiles", "tiles"),
        ("kernel_cutlass_scales_tensor_0", None),
        ("kernel_cutlass_gemm_tensor_0", None),
        ("cutlass_80_simt_sgemm_256x128", None),
        ("scale_tensorptrf32gmem_0", None),
    ],
)
def test_a_symbol_is_a_candidates_own_where_its_source_declares_it(
    symbol: str, name: str | None
) -> None:
    assert own_kernel(symbol, kernel_names(SOURCE)) == name


def test_of_a_profile_only_declared_kernels_are_own() -> None:
    names = ["kernel_cutlass_scale_t_0", "kernel_cutlass_other_t_0", "ampere_sgemm_128x64", 7]
    assert own_symbols({"names": names}, {"scale"}) == {"kernel_cutlass_scale_t_0"}
    for told in ({"names": names}, {"names": 3}, {}, None):
        assert own_symbols(told, ()) == frozenset()


@pytest.mark.skipif(find_spec("cutlass") is None, reason="nvidia-cutlass-dsl is not installed")
def test_the_packages_folders_are_known_without_importing_it() -> None:
    assert any(path.endswith("/cutlass") for path in package_folders())
    assert any(path.endswith("/nvidia_cutlass_dsl") for path in package_folders())


def test_a_compiler_that_was_ended_without_a_word_is_not_explained() -> None:
    assert explained("") == ""
