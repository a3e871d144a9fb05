"""Writes the loader of kernels into a file that uses it, so that the file needs no `kb`."""

from __future__ import annotations

import re
from pathlib import Path

_IMPORT = re.compile(r"^from kb\.native import (?P<names>\([^)]*\)|[^\n(]*)\n", re.MULTILINE)
_OWN = re.compile(r"^from kb[^\n]*import (?:\([^)]*\)|[^\n]*)\n", re.MULTILINE)
_CUDA = ("cpp", "signature", "nvcc", "launch", "cuda")
_FILES = {"load_cpp": ("cpp",), "method": ("cpp",), "load_cuda": _CUDA, "CudaModule": _CUDA, "tensor_map": (*_CUDA, "tma")}  # fmt: skip
_MODULE = """import sys
import types

# The loader of the kernels has names of its own: it is a module that this file carries.
_loader = types.ModuleType("kernel_loader")
sys.modules["kernel_loader"] = _loader
exec(compile(r\'\'\'
{text}
\'\'\', "kernel_loader", "exec"), _loader.__dict__)
{names}
"""


def standalone(source: str) -> str:
    """Return `source` with the loader written into it in place of its import from `kb`."""
    found = _IMPORT.search(source)
    if found is None:
        return source
    names = re.findall(r"\w+", re.sub(r"#[^\n]*", "", found["names"]))
    if any(name not in _FILES for name in names):
        return source
    files = tuple(dict.fromkeys(file for name in names for file in _FILES[name]))
    if files == ("cpp",):
        loader = _text("cpp").replace("from __future__ import annotations\n", "").strip()
        return source[: found.start()] + f"{loader}\n\n\n" + source[found.end() :]
    text = "\n\n".join(_OWN.sub("", _text(file)).strip() for file in files)
    head = "from __future__ import annotations\n"
    bound = "\n".join(f"{name} = _loader.{name}" for name in names)
    carried = _MODULE.format(text=head + text.replace(head, ""), names=bound)
    return source[: found.start()] + carried + "\n" + source[found.end() :]


def _text(file: str) -> str:
    text = (Path(__file__).parent / f"{file}.py").read_text(encoding="utf-8")
    return text.rstrip() + "\n"
