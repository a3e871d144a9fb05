"""torch's `load_inline` as a unit: found in a candidate, built by nvcc and g++ side by side.

torch builds with all of its headers: 21 s for the bindings and 34 s for the CUDA source on one
core. Kernels need few of them. A source is compiled with a stand-in for torch's C++ library first
(`headers/kb_torch.hpp`, 3 s), which has what host code of kernels commonly uses; where it uses
something else, with torch's headers of tensors and the common operators, and at last with all of
them. The machine code of its kernels is the same each time.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kb.errors import ToolchainError
from kb.runtime.nvcc import nvcc_flags
from kb.runtime.torch_inline import inline_key, normalised, strings
from search.languages import Unbuildable, Unit
from search.languages.cpp_flags import ALLOWED
from search.languages.literals import Call, check_text
from search.languages.nvcc_flags import checked

# Arguments that change where and how loudly torch builds, not what.
_IRRELEVANT = {
    "verbose",
    "build_directory",
    "with_cuda",
    "with_sycl",
    "keep_intermediates",
    "use_pch",
}
_LIBRARIES = re.compile(
    r"-l(cublas|cublasLt|cudart|cuda|curand|cufft|cusparse|cusolver|cudnn|nvrtc|m)"
)
_NVCC = (
    "-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "--expt-relaxed-constexpr", "-Xcompiler=-fPIC",
)  # fmt: skip
_OPERATORS = (
    "abs", "add", "amax", "arange", "cat", "clamp", "div", "empty", "empty_like", "empty_strided",
    "exp", "eye", "flatten", "full", "full_like", "from_blob", "linspace", "log", "matmul", "max",
    "mean", "min", "mm", "mul", "ones", "ones_like", "permute", "pow", "rand", "randn", "relu",
    "reshape", "rsqrt", "sigmoid", "softmax", "sqrt", "squeeze", "stack", "sub", "sum", "tanh",
    "transpose", "unsqueeze", "where", "zero", "zeros", "zeros_like",
)  # fmt: skip
_LARGE = ("torch/torch.h", "torch/types.h", "torch/all.h", "ATen/ATen.h")
_STOOD_FOR = (*_LARGE, "torch/extension.h", "ATen/Dispatch.h", "ATen/cuda/CUDAContext.h", "c10/cuda/CUDAStream.h",
              "c10/cuda/CUDAGuard.h", "c10/cuda/CUDAException.h", "c10/util/Exception.h")  # fmt: skip
# What the stand-in cannot have.
_BEYOND = re.compile(r"PYBIND11_MODULE|TORCH_LIBRARY|\bpy(bind11)?::|torch::(nn|autograd|jit)\b")
_FOREIGN = (
    r"(torch|at|c10|pybind11|py)::|namespace \"(torch|at|c10)|AT_|TORCH_|C10_|Tensor|scalar_t|open source file"
    r"|No such file|kb_torch"
)
# What a source says that needs more than the slim headers.
_LACKING = (
    r'namespace "(torch|at|c10)[^"]*" has no member|is not a member of .(torch|at|c10)|has not been declared'
    r"|incomplete (class )?type|no match for|no operator|no instance of|no suitable|no such file|No such file|cannot open source file"
)
_SLIM = """#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
{operators}
#include <optional>
#include <string>
#include <tuple>
#include <vector>
namespace torch {{
using namespace at;
using Dtype = at::ScalarType;
using std::nullopt;
using std::optional;
constexpr auto kU8 = at::kByte, kI8 = at::kChar, kI16 = at::kShort, kI32 = at::kInt, kI64 = at::kLong;
constexpr auto kUInt8 = at::kByte, kInt8 = at::kChar, kInt16 = at::kShort, kInt32 = at::kInt, kInt64 = at::kLong;
constexpr auto kF16 = at::kHalf, kF32 = at::kFloat, kF64 = at::kDouble;
constexpr auto kFloat16 = at::kHalf, kFloat32 = at::kFloat, kFloat64 = at::kDouble;
}}  // namespace torch
"""
_BINDINGS = """#pragma once
#include "kb_slim.h"
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
namespace py = pybind11;
"""


def unit(call: Call) -> Unit:
    """Return the extension that a `load_inline` call asks for.

    Raises:
        Unbuildable: an argument is not known before the file is run, or not allowed.
    """
    given, values = call.values, _checked(call)
    files = {"main.cpp": _main(values), **_slim()}
    if values["cuda_sources"]:
        files["cuda.cu"] = _cuda(values)
    files |= _stand_in(values)
    return Unit(
        key=inline_key(given),
        source=json.dumps(values, sort_keys=True),
        flags=checked(values["extra_cuda_cflags"], call.line, drop_architecture=True),
        line=call.line,
        text="arguments.json",
        output=f"{values['name']}.so",
        files=files,
    )


def _checked(call: Call) -> dict[str, Any]:
    """Return the arguments in one form.

    Raises:
        Unbuildable: one is not known before the file is run, or not allowed.
    """
    where = f"line {call.line}: load_inline"
    telling = call.unknown - _IRRELEVANT
    if telling:
        named = ", ".join(sorted(str(name or "*") for name in telling))
        raise Unbuildable(
            f"{where} takes literals or constants of the module, it is compiled before the file is run: "
            f"not known are {named}"
        )
    given = call.values
    for name in (
        "cpp_sources",
        "cuda_sources",
        "extra_cflags",
        "extra_cuda_cflags",
        "extra_ldflags",
    ):
        if given.get(name) is not None and not strings(given[name]):
            raise Unbuildable(f"{where}: {name} is a string or a list of strings")
    _check_functions(given.get("functions"), where)
    values = normalised(given)
    name = values["name"]
    if not isinstance(name, str) or not name.isidentifier():
        # A list may hold itself a thousand times over: it is not printed.
        found = repr(name[:80]) if isinstance(name, str) else f"a {type(name).__name__}"
        raise Unbuildable(f"{where}: name is a Python identifier, found {found}")
    bound = [word for pair in values["functions"].items() for word in pair]
    cflags, ldflags = values["extra_cflags"], values["extra_ldflags"]
    check_text(
        call,
        sources=(*values["cpp_sources"], *values["cuda_sources"], *bound),
        flags=(name, *cflags, *values["extra_cuda_cflags"], *ldflags),
    )
    for refused in ("sycl_sources", "extra_include_paths"):
        if given.get(refused):
            raise Unbuildable(f"{where}: {refused} is not allowed: the sources stand in the file")
    if given.get("is_python_module") is False:
        raise Unbuildable(f"{where}: is_python_module=False is not allowed: bind functions instead")
    _check_flags(values, where)
    return values


def command(one: Unit, home: Path | None, architecture: str) -> Sequence[str]:
    """Return the shell command that builds the extension.

    Raises:
        ToolchainError: a compiler is missing.
    """
    values = json.loads(one.source)
    compiler = shutil.which("g++")
    if compiler is None or (home is None and "cuda.cu" in one.files):
        raise ToolchainError(
            "load_inline needs g++ and, for CUDA sources, nvcc: install g++ and the CUDA toolkit "
            "(CUDA_HOME says where it is), or write the kernels for kb.native.load_cuda"
        )
    torch = _torch()
    folders = [
        torch / "include",
        torch / "include/torch/csrc/api/include",
        Path(sysconfig.get_paths()["include"]),
    ]
    folders += [home / "include"] if home else []
    common = [f"-DTORCH_EXTENSION_NAME={values['name']}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    common += [word for folder in folders for word in ("-isystem", str(folder))]
    steps = {"main": _host_step(compiler, common, values["extra_cflags"])}
    if "cuda.cu" in one.files:
        assert home is not None
        steps["cuda"] = _device_step(home, common, one.flags, architecture)
    link = [
        compiler,
        "-shared",
        *(f"{step}.o" for step in steps),
        "-o",
        one.output,
        *values["extra_ldflags"],
    ]
    link += _libraries(torch, home)
    script = _quick(one, home, compiler, architecture) + _script(steps, link)
    return ("/bin/sh", "-c", script, _version(home))


def _host_step(compiler: str, common: Sequence[str], cflags: Sequence[str]) -> list[str]:
    standard = [] if any(flag.startswith("-std") for flag in cflags) else ["-std=c++20"]
    fixed = ["-fPIC", "-O2", *standard, *cflags]
    return [compiler, *common, *fixed, "-c", "main.cpp", "-o", "main.o"]


def _device_step(
    home: Path, common: Sequence[str], given: Sequence[str], architecture: str
) -> list[str]:
    standard = [] if any(flag.startswith("-std") for flag in given) else ["-std=c++20"]
    fixed = [*_NVCC, *nvcc_flags(architecture, [*given, *standard])]
    return [str(home / "bin/nvcc"), *common, *fixed, "-c", "cuda.cu", "-o", "cuda.o"]


def _quick(one: Unit, home: Path | None, compiler: str, architecture: str) -> str:
    """Return the script that builds with the stand-in, and ends where that is the last word."""
    text = next((name for name in one.files if name.startswith("one.")), None)
    if text is None:
        return ""
    cflags = json.loads(one.source)["extra_cflags"]
    words = ["-Istandin", "-isystem", sysconfig.get_paths()["include"], "-shared"]
    if text == "one.cu":
        flags = list(one.flags)
        flags += [] if any(flag.startswith("-std") for flag in flags) else ["-std=c++20"]
        words = [str(home and home / "bin/nvcc"), *words, *_NVCC, *nvcc_flags(architecture, flags)]
        words += [f"-Xcompiler={flag}" for flag in cflags if not flag.startswith("-std")]
    else:
        words = [compiler, *words, "-fPIC", "-O2", "-std=c++20", *cflags]
    command = shlex.join([*words, text, "-o", one.output])
    return (
        f"if {command} 2>one.log; then cat one.log >&2; exit 0; fi\n"
        f"grep -qE {shlex.quote(_FOREIGN)} one.log || {{ cat one.log >&2; exit 1; }}\n"
    )


def _script(steps: dict[str, list[str]], link: list[str]) -> str:
    """Return a script that compiles side by side, with few headers first, and links."""
    lines = ["build() {"]
    lines += [
        f"  {shlex.join(words[:1])} $1 {shlex.join(words[1:])} 2>{step}.log & {step}=$!"
        for step, words in steps.items()
    ]
    lines += ["  failed=0"]
    lines += [f"  wait ${step} || failed=1" for step in steps]
    lines += ["  return $failed", "}"]
    logs = " ".join(f"{step}.log" for step in steps)
    lines += [
        "if ! build -Islim; then",
        f"  if grep -qE {shlex.quote(_LACKING)} {logs}; then",
        f"    build -DKB_ALL_HEADERS || {{ cat {logs} >&2; exit 1; }}",
        f"  else cat {logs} >&2; exit 1",
        "  fi",
        "fi",
        f"cat {logs} >&2",
        shlex.join(link),
    ]
    return "\n".join(lines)


def _check_functions(told: Any, where: str) -> None:
    """See that what an extension exports is named as torch has it: a name, names, or names with their help."""
    named = [*told, *told.values()] if isinstance(told, Mapping) else () if told is None else told
    if not strings(named):
        raise Unbuildable(
            f"{where}: functions is a name, a list of names, or names with a line about each, found "
            f"a {type(told).__name__} of something else"
        )


def _check_flags(values: dict[str, Any], where: str) -> None:
    for flag in values["extra_cflags"]:
        if not ALLOWED.fullmatch(flag.strip()):
            raise Unbuildable(
                f"{where}: compiler flag {flag!r} is not allowed: use flags that only optimise"
            )
    for flag in values["extra_ldflags"]:
        if flag.strip() and not _LIBRARIES.fullmatch(flag.strip()):
            raise Unbuildable(
                f"{where}: linker flag {flag!r} is not allowed: only -l of CUDA's own libraries is"
            )


def _main(values: dict[str, Any]) -> str:
    head = [] if values["no_implicit_headers"] else ["#include <torch/extension.h>"]
    body = [f'#line 1 "cpp_sources"\n{text}' for text in values["cpp_sources"]]
    wrapped = "torch::wrap_pybind_function({0})" if values["with_pytorch_error_handling"] else "{0}"
    if not values["functions"]:
        return "\n".join([*head, *body])
    bound = [
        f"  m.def({json.dumps(name)}, {wrapped.format(name)}, {json.dumps(str(told))});"
        for name, told in values["functions"].items()
    ]
    return "\n".join(
        [
            *head,
            *body,
            '#line 1 "functions"',
            "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {",
            *bound,
            "}",
        ]
    )


def _cuda(values: dict[str, Any]) -> str:
    implicit = ["#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>"]
    head = [] if values["no_implicit_headers"] else implicit
    return "\n".join(
        [*head, *(f'#line 1 "cuda_sources"\n{text}' for text in values["cuda_sources"])]
    )


def _stand_in(values: dict[str, Any]) -> dict[str, str]:
    """Return the whole extension as one text, and the headers that stand in for torch's."""
    sources = [*values["cpp_sources"], *values["cuda_sources"]]
    if not values["functions"] or any(_BEYOND.search(text) for text in sources):
        return {}
    header = (Path(__file__).parent / "headers/kb_torch.hpp").read_text(encoding="utf-8")
    files = {f"standin/{name}": '#include "kb_torch.hpp"\n' for name in _STOOD_FOR}
    body = ['#include "kb_torch.hpp"']
    body += [f'#line 1 "cpp_sources"\n{text}' for text in values["cpp_sources"]]
    body += [f'#line 1 "cuda_sources"\n{text}' for text in values["cuda_sources"]]
    bound = ", ".join(f"KB_FUNCTION({name})" for name in values["functions"])
    body += ['#line 1 "functions"', f"KB_MODULE({values['name']}, {bound})"]
    text = "one.cu" if values["cuda_sources"] else "one.cpp"
    return {**files, "standin/kb_torch.hpp": header, text: "\n".join(body) + "\n"}


def _slim() -> dict[str, str]:
    """Return headers that stand in for torch's large ones."""
    includes = "\n".join(
        f"#include <ATen/ops/{name}.h>"
        for name in _OPERATORS
        if (_torch() / "include/ATen/ops" / f"{name}.h").is_file()
    )
    files = {f"slim/{name}": '#pragma once\n#include "kb_slim.h"\n' for name in _LARGE}
    files["slim/kb_slim.h"] = _SLIM.format(operators=includes)
    # nvcc compiles no bindings: what they need is the larger half of the headers.
    files["slim/torch/extension.h"] = (
        '#pragma once\n#ifdef __CUDACC__\n#include "kb_slim.h"\n#else\n#include "kb_bindings.h"\n#endif\n'
    )
    files["slim/kb_bindings.h"] = _BINDINGS
    return files


def _torch() -> Path:
    """Return torch's folder without importing it."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise ToolchainError("load_inline needs torch, which is not installed: pip install torch")
    return Path(spec.origin).parent


def _libraries(torch: Path, home: Path | None) -> list[str]:
    names = ["c10", "c10_cuda", "torch_cpu", "torch_cuda", "torch", "torch_python"]
    there = [name for name in names if (torch / "lib" / f"lib{name}.so").is_file()]
    words = [f"-L{torch / 'lib'}", *(f"-l{name}" for name in there)]
    if home is not None:
        words += [f"-L{home / part}" for part in ("lib64", "lib") if (home / part).is_dir()] + [
            "-lcudart"
        ]
    return words


def _version(home: Path | None) -> str:
    """Return what tells this toolkit and torch from others, for the name of the build."""
    nvcc = home / "bin/nvcc" if home else None
    stamps = [
        path.stat().st_mtime
        for path in (nvcc, _torch() / "version.py")
        if path is not None and path.is_file()
    ]
    return " ".join(map(str, stamps))
