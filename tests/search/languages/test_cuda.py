import shutil
from pathlib import Path

import pytest

from kb.errors import ToolchainError
from kb.runtime import nvcc
from kb.runtime.cuda import cuda_key
from kb.runtime.torch_inline import inline_key
from search.languages import LANGUAGES, Unbuildable, Unit
from search.languages.cuda import Cuda

KERNEL = 'extern "C" __global__ void k(float* x) { x[0] = 1; }'
needs_nvcc = pytest.mark.skipif(nvcc.cuda_home() is None, reason="nvcc is not on this machine")


def test_the_language_is_registered() -> None:
    assert isinstance(LANGUAGES.create("cuda", "sm_90"), Cuda)


@pytest.mark.parametrize(
    ("named", "architecture"),
    [("sm_80", "sm_80"), ("sm_89", "sm_89"), ("sm_90", "sm_90a"), ("sm_90a", "sm_90a"), ("sm_100", "sm_100a"), ("sm_120", "sm_120a")],
)  # fmt: skip
def test_from_hopper_on_an_architectures_own_instructions_are_on(
    named: str, architecture: str
) -> None:
    assert Cuda(named).architecture == architecture


def test_an_architecture_of_another_vendor_is_refused_in_one_line() -> None:
    with pytest.raises(ToolchainError, match=r"expected an NVIDIA architecture.*gfx942"):
        Cuda("gfx942")


@pytest.mark.parametrize(
    "text",
    [
        f"from kb.native import load_cuda\nM = load_cuda({KERNEL!r}, '-O2')",
        f"import kb.native\nM = kb.native.load_cuda(source={KERNEL!r}, flags='-O2')",
        f"S = {KERNEL!r}\nF: str = '-O2'\ndef later():\n    return load_cuda(S, F)",
    ],
)
def test_a_source_is_found_without_running_the_file(text: str) -> None:
    (unit,) = Cuda("sm_90").units(text)
    assert (unit.source, unit.flags, unit.output) == (KERNEL, ("-O2",), "kernel.cubin")
    assert unit.key == cuda_key(KERNEL, "-O2")


def test_the_same_text_as_cuda_and_as_cpp_is_built_under_two_names() -> None:
    from kb.runtime.cpp import native_key

    assert cuda_key("int x;") != native_key("int x;")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("load_cuda(input())", "line 1: load_cuda takes literal strings"),
        ("S = 'a'\nS = 'b'\nload_cuda(S)", "line 3: load_cuda takes literal"),
        ("load_cuda('x' % 1)", "literal"),
        ("load_cuda(*['x'])", "literal"),
        ("load_cuda('x', '\"')", "No closing quotation"),
        ("def f(:", "line 1: "),
    ],
)
def test_what_cannot_be_built_beforehand_is_told_with_its_line(text: str, pattern: str) -> None:
    with pytest.raises(Unbuildable, match=pattern):
        Cuda("sm_90").units(text)


@pytest.mark.parametrize(
    "flag",
    ["-o /tmp/x", "-I/home", "-include x", "-Xcompiler -fplugin=x.so", "-Xcompiler=-o,/tmp/x", "-Xlinker -rpath",
     "-ccbin /tmp/x", "--compiler-bindir=/tmp", "-L/", "-lx", "@file", "--options-file x", "-E", "-keep", "-dlink",
     "-Xptxas --output-file=/tmp/x", "-Xptxas=-v,-o,x", "--dryrun", "-run", "other.cu", "-DX=a/b", "-isystem /",
     "--keep-dir=/tmp", "-time x", "-MD", "--pre-include x", "--compiler-options='-B/tmp'"],
)  # fmt: skip
def test_flags_that_reach_files_or_programs_are_refused(flag: str) -> None:
    with pytest.raises(Unbuildable, match="not allowed"):
        Cuda("sm_90").units(f"load_cuda('int x;', {flag!r})")


@pytest.mark.parametrize("flag", ["-arch=sm_90a", "-gencode arch=compute_90,code=sm_90"])
def test_the_architecture_is_not_the_candidates_to_choose(flag: str) -> None:
    with pytest.raises(Unbuildable, match="not needed"):
        Cuda("sm_90").units(f"load_cuda('int x;', {flag!r})")


@pytest.mark.parametrize(
    "flags",
    ["--use_fast_math -O3 -lineinfo", "-Xptxas -v,-O3 -Xptxas -dlcm=cg", "-maxrregcount 64", "-maxrregcount=64",
     "-std=c++20 -DTILE=8 -D BLOCK=16", "--ptxas-options=-v,--warn-spills", "-ftz=true --fmad=false",
     "--expt-relaxed-constexpr --extended-lambda", "-Xcompiler -O3,-ffast-math", "-diag-suppress 177"],
)  # fmt: skip
def test_flags_that_only_optimise_are_allowed(flags: str) -> None:
    assert Cuda("sm_90").units(f"load_cuda('int x;', {flags!r})")


def test_the_compilers_message_is_cut_to_place_message_and_code() -> None:
    message = (
        'kernel.cu(3): error: identifier "nope" is undefined\n    x[0] = nope;\n           ^\n\n'
        "/tmp/tmpxft_1/kernel.cu(9): error: expected a ';'\n\n2 errors detected\n"
        "ptxas error   : Entry function 'k' uses too much shared data (0x40000 bytes, 0x38c00 max)\n"
        "ptxas /tmp/x.ptx, line 12; error   : Not a name of any known instruction: 'bogus'\n"
        "kernel.cu:1:10: fatal error: nothere.h: No such file or directory\n"
    )
    lines = Cuda("sm_90").explain(message).splitlines()
    assert lines == [
        'kernel.cu line 3: identifier "nope" is undefined in: x[0] = nope;',
        "kernel.cu line 9: expected a ';'",
        "ptxas error   : Entry function 'k' uses too much shared data (0x40000 bytes, 0x38c00 max)",
        "Not a name of any known instruction: 'bogus'",
    ]


def test_a_message_of_another_kind_is_kept() -> None:
    assert Cuda("sm_90").explain("something else\nhappened") == "something else\nhappened"


def test_neither_compiler_is_one_line_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvcc, "cuda_home", lambda: None)
    monkeypatch.setattr(nvcc, "has_nvrtc", lambda: False)
    unit = Unit(key="k", source="", flags=(), line=1, output="kernel.cubin")
    with pytest.raises(ToolchainError, match=r"nvcc or NVRTC.*install"):
        Cuda("sm_90").command(unit, "kernel.cu", "kernel.cubin")


def test_without_nvcc_the_unit_carries_what_compiles_it_with_nvrtc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvcc, "cuda_home", lambda: None)
    monkeypatch.setattr(nvcc, "has_nvrtc", lambda: True)
    language = Cuda("sm_90")
    (unit,) = language.units(f"load_cuda({KERNEL!r})")
    assert unit.files["nvrtc.py"] == Path(nvcc.__file__).read_text()
    command = language.command(unit, unit.text, unit.output)
    assert command[1:] == ("-I", "nvrtc.py", "kernel.cu", "kernel.cubin", "sm_90a")


INLINE = {
    "name": "ext",
    "cpp_sources": "torch::Tensor f(torch::Tensor x);",
    "cuda_sources": "torch::Tensor f(torch::Tensor x) { return x; }",
    "functions": ["f"],
}


def _inline(**changes: object) -> str:
    given = {**INLINE, **changes}
    return f"load_inline({', '.join(f'{name}={value!r}' for name, value in given.items())})"


def test_an_inline_extension_is_found_with_the_key_that_its_call_will_look_for() -> None:
    text = (
        "C = 'torch::Tensor f(torch::Tensor x) { return x; }'\n"
        "e = load_inline('ext', ['torch::Tensor f(torch::Tensor x);'], cuda_sources=[C], functions=['f'], verbose=DEBUG, "
        "with_cuda=torch.cuda.is_available())"
    )
    (unit,) = Cuda("sm_90").units(text)
    assert unit.key == inline_key(INLINE)
    assert unit.output == "ext.so"
    assert 'm.def("f", torch::wrap_pybind_function(f), "f");' in unit.files["main.cpp"]
    assert unit.files["cuda.cu"].startswith("#include <torch/types.h>")


def test_what_the_bindings_are_called_and_how_they_are_built_tells_extensions_apart() -> None:
    keys = {
        inline_key(INLINE),
        inline_key({**INLINE, "functions": {"f": "does it"}}),
        inline_key({**INLINE, "extra_cuda_cflags": ["-O2"]}),
        inline_key({**INLINE, "name": "other"}),
        inline_key({**INLINE, "no_implicit_headers": True}),
    }
    assert len(keys) == 5
    assert inline_key({**INLINE, "verbose": True, "build_directory": "/x"}) in keys


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"extra_include_paths": ["/home"]}, "extra_include_paths is not allowed"),
        ({"extra_cflags": ["-fplugin=x"]}, "'-fplugin=x' is not allowed"),
        ({"extra_cuda_cflags": ["-I/home"]}, "'-I/home' is not allowed"),
        ({"extra_ldflags": ["-Wl,-rpath,/tmp"]}, "linker flag"),
        ({"extra_ldflags": ["/tmp/other.so"]}, "linker flag"),
        ({"name": "../x"}, "identifier"),
        ({"is_python_module": False}, "is_python_module"),
        ({"cuda_sources": 3}, "cuda_sources is a string"),
    ],
)
def test_an_extension_that_reaches_beyond_the_file_is_refused(
    changes: dict[str, object], pattern: str
) -> None:
    with pytest.raises(Unbuildable, match=pattern):
        Cuda("sm_90").units(_inline(**changes))


def test_an_inline_call_with_computed_sources_is_refused_by_its_line() -> None:
    with pytest.raises(Unbuildable, match=r"line 2: load_inline takes literals.*cuda_sources"):
        Cuda("sm_90").units("import os\nload_inline('x', '', cuda_sources=os.name)")


def test_the_architecture_that_an_extension_asks_for_gives_way_to_the_devices() -> None:
    (unit,) = Cuda("sm_90").units(_inline(extra_cuda_cflags=["-O3", "-arch=sm_80", "-gencode", "arch=compute_80,code=sm_80"]))  # fmt: skip
    assert unit.flags == ("-O3",)


@needs_nvcc
def test_an_extensions_build_names_the_device_and_compiles_both_halves_at_once() -> None:
    language = Cuda("sm_90")
    (unit,) = language.units(_inline())
    shell, _, script, _ = language.command(unit, unit.text, unit.output)
    assert shell == "/bin/sh"
    assert "-gencode=arch=compute_90a,code=sm_90a" in script
    assert script.count("&\n") + script.count("& ") >= 2
    assert shutil.which("g++") in script.splitlines()[-1]
