import ctypes
import struct
from pathlib import Path

import pytest

from kb import native
from kb.runtime import cpp, nvcc
from kb.runtime.signature import Parameter, as_plain, matching, natural_offsets, packed, signatures

SOURCE = r"""
// __global__ void commented(int n)
/* __global__ void also(int n) */
template <int N>
__global__ void __launch_bounds__(256, 2) first(const float* __restrict__ x, float *y, unsigned int n,
                                                long long m, float s, bool b, std::size_t z, half h) {}
extern "C" __global__ __cluster_dims__(2, 1, 1) void second(const __grid_constant__ CUtensorMap a, uint64_t* p,
                                                            int, unsigned char q, double d, float4 v) {}
__global__ void none() {}
__global__ void nothing(void) {}
static __global__ void
third(const int* const* list, float buffer[], std::array<int, 3> three, unsigned long l = 3) {}
"""


def _codes(name: str) -> str:
    (parameters,) = signatures(SOURCE)[name]
    return " ".join(parameter.code or "?" if parameter.code != "?" else "bool" for parameter in parameters)  # fmt: skip


def test_kernels_are_found_with_their_parameters() -> None:
    assert set(signatures(SOURCE)) == {"first", "second", "none", "nothing", "third"}
    assert _codes("first") == "Q Q I q f bool Q e"
    assert _codes("second") == "? Q i B d ?"
    assert signatures(SOURCE)["none"] == signatures(SOURCE)["nothing"] == [()]
    assert _codes("third") == "Q Q ? Q"


def test_only_pointers_take_tensors() -> None:
    ((x, y, n, *_),) = signatures(SOURCE)["first"]
    assert (x.pointer, y.pointer, n.pointer) == (True, True, False)


def test_numbers_lie_where_c_puts_them() -> None:
    ((x, y, n, m, s, b, z, h),) = signatures(SOURCE)["first"]
    offsets = natural_offsets((x, y, n, m, s, b, z, h))
    assert offsets == [0, 8, 16, 24, 32, 36, 40, 48]
    room = bytearray(packed((x, y, n, m, s, b, z, h), offsets).size)
    packed((x, y, n, m, s, b, z, h), offsets).pack_into(room, 0, 1, 2, 3, -4, 0.5, True, 6, 1.5)
    assert struct.unpack_from("<q", room, 24) == (-4,)
    assert struct.unpack_from("<f", room, 32) == (0.5,)
    assert struct.unpack_from("<e", room, 48) == (1.5,)


def test_the_declaration_that_fits_the_cubin_counts() -> None:
    declared = signatures("__global__ void k(int a);\n__global__ void k(float* a, T b) {}")["k"]
    assert matching(declared, [8, 4]) == declared[1]
    assert matching(declared, [4]) == declared[0]
    assert [one.text for one in matching(declared, [8, 8, 8])] == ["8 bytes"] * 3


def test_a_parameter_of_an_unknown_type_takes_whole_numbers_and_ctypes_values_bit_by_bit() -> None:
    unknown = Parameter("T v", "")
    assert unknown.of_size(4).code == "i"
    assert unknown.of_size(8).pointer
    assert unknown.of_size(128).code == "128s"
    fit = unknown.of_size(4).fit(ctypes.c_float(2.5), unknown)
    assert struct.pack("<i", fit) == struct.pack("<f", 2.5)

    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float))

    whole = unknown.of_size(8).fit(Pair(3, 1.5), unknown)
    assert struct.pack("<q", whole) == struct.pack("<if", 3, 1.5)
    assert unknown.of_size(16).fit((Pair * 2)(), unknown) == bytes(16)


def test_a_null_pointer_is_none() -> None:
    assert as_plain(None) == 0
    assert as_plain(ctypes.c_void_p()) == 0


def test_what_is_for_gpus_is_found_in_the_module_that_answers_import() -> None:
    from kb.native import load_cuda, tensor_map

    assert callable(load_cuda)
    assert callable(tensor_map)
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = native.nothing_such


def test_a_machine_without_a_gpu_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        RuntimeError, match=r"^load_cuda: torch finds no NVIDIA GPU on this machine$"
    ):
        native.load_cuda("__global__ void k() {}")


def test_a_sealed_process_builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp, "sealed", True)
    with pytest.raises(RuntimeError, match="load_cuda: this source was not found in the file"):
        native.load_cuda("__global__ void k() {}")


@pytest.mark.parametrize(
    ("capability", "name"), [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((12, 0), "sm_120a")]
)  # fmt: skip
def test_machine_code_is_named_with_all_that_the_device_can_do(
    capability: tuple[int, int], name: str
) -> None:
    assert nvcc.sm_name(capability) == name


def test_a_sources_own_standard_takes_the_place_of_the_usual_one() -> None:
    flags = nvcc.nvcc_flags("sm_90a", ["-std=c++20", "-O1"])
    assert [flag for flag in flags if flag.startswith(("-std", "-O"))] == ["-std=c++20", "-O1"]
    assert "-gencode=arch=compute_90a,code=sm_90a" in flags


def test_the_toolkit_is_found_beside_its_compiler_and_not_beside_a_wrapper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("wrapper", "named", "found"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "nvcc").write_text("#!/bin/sh\n")
        (tmp_path / name / "bin" / "nvcc").chmod(0o755)
    for name in ("named", "found"):
        (tmp_path / name / "nvvm").mkdir()
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "found/bin"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "named"))
    assert nvcc.cuda_home() == tmp_path / "named"
    monkeypatch.delenv("CUDA_HOME")
    assert nvcc.cuda_home() == tmp_path / "found"
    monkeypatch.setenv("PATH", str(tmp_path / "wrapper/bin"))
    assert nvcc.cuda_home() != tmp_path / "wrapper"


needs_nvcc = pytest.mark.skipif(nvcc.cuda_home() is None, reason="nvcc is not on this machine")


@pytest.mark.slow
@needs_nvcc
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100a"])
def test_nvcc_makes_a_cubin_and_tells_what_it_takes(architecture: str, tmp_path: Path) -> None:
    text = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'
    said = nvcc.compile_cubin(text, "--use_fast_math", architecture, tmp_path / "k.cubin")
    assert (tmp_path / "k.cubin").read_bytes()[:4] == b"\x7fELF"
    assert "twice" in said
    assert "registers" in said


@needs_nvcc
def test_nvccs_message_is_handed_on(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)nvcc failed:.*nope"):
        nvcc.compile_cubin("__global__ void k() { nope; }", "", "sm_90a", tmp_path / "k.cubin")  # fmt: skip


def test_where_no_compiler_is_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError("no such library")

    monkeypatch.setattr(nvcc, "cuda_home", lambda: None)
    monkeypatch.setattr(nvcc.ctypes, "CDLL", none)
    monkeypatch.setattr(nvcc.sys, "path", [])
    monkeypatch.setattr(nvcc.sysconfig, "get_paths", lambda: {"purelib": str(tmp_path)})
    with pytest.raises(RuntimeError, match=r"neither nvcc nor NVRTC.*install"):
        nvcc.compile_cubin("", "", "sm_90a", tmp_path / "k.cubin")


def test_nvcc_and_nvrtc_are_given_the_same_of_what_both_know() -> None:
    words = [
        "-use_fast_math",
        "-O3",
        "-Xptxas",
        "-dlcm=cg",
        "-maxrregcount",
        "64",
        "-DN=4",
        "--threads=2",
    ]
    assert nvcc._nvrtc_options(words) == [
        "--use_fast_math", "--ptxas-options=-dlcm=cg", "-maxrregcount=64", "-DN=4",
    ]  # fmt: skip
