"""The C++ kernels of Inductor's module as one source, with functions that Python calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from search.codegen.inductor import Uncaptured

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*\n", re.MULTILINE)
_KERNEL = re.compile(r'extern "C"\s+(?:__declspec\(\w+\)\s+)?void\s+kernel\s*\(')
# Four functions of CPython's stable interface: its headers are not everywhere.
_PYTHON = (
    'extern "C" { void* PyLong_AsVoidPtr(void*); void Py_IncRef(void*);'
    " void PyErr_SetString(void*, const char*); extern void* PyExc_RuntimeError; }"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CppKernel:
    """A kernel as Inductor declares it.

    Attributes:
        types: of its arguments, all pointers.
    """

    name: str
    types: tuple[str, ...]
    source: str


def join(kernels: Sequence[CppKernel]) -> str:
    """Return one C++ source with all kernels, each in a namespace of its own.

    Raises:
        Uncaptured: a kernel is not as Inductor writes them.
    """
    includes: dict[str, None] = {}
    texts: list[str] = []
    for kernel in kernels:
        if any(not kind.rstrip().endswith("*") for kind in kernel.types):
            raise Uncaptured(f"the kernel {kernel.name} takes sizes, not pointers alone")
        includes.update(dict.fromkeys(line.strip() for line in _INCLUDE.findall(kernel.source)))
        text, found = _KERNEL.subn("static void kernel(", _INCLUDE.sub("", kernel.source))
        if found != 1:
            raise Uncaptured(f"the kernel {kernel.name} has no function named kernel")
        texts.append(f"namespace {kernel.name}_ {{\n{text.strip()}\n}}\n\n{_entry(kernel)}")
    return "\n".join([*includes, "#include <exception>", _PYTHON, "", *texts])


def _entry(kernel: CppKernel) -> str:
    """Return the C++ function that Python calls with the tensors' addresses."""
    given = ", ".join(f"({kind})PyLong_AsVoidPtr(a[{at}])" for at, kind in enumerate(kernel.types))
    return (
        f'extern "C" void* {kernel.name}(void* none, void* const* a, long) {{\n'
        "  try {\n"
        f"    {kernel.name}_::kernel({given});\n"
        "  } catch (const std::exception& error) {\n"
        "    PyErr_SetString(PyExc_RuntimeError, error.what());\n"
        "    return nullptr;\n"
        "  }\n"
        "  Py_IncRef(none);\n"
        "  return none;\n"
        "}\n"
    )
