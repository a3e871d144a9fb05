"""C++ kernels from Python: compile a source to a plain shared object and open it with ctypes.

Needs nothing but the standard library and g++, so that a file that uses it can carry a copy.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BASE_FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-std=gnu++17")

_TORCH_HEADER = re.compile(r"^\s*#\s*include\s*<(torch|ATen|c10)/", re.MULTILINE)

# Shared objects that were built beforehand, by key. A process that must not compile sets `sealed`.
prebuilt: dict[str, str] = {}
sealed = False


def native_key(source: str, flags: str = "") -> str:
    """Return the name under which the build of `source` with `flags` is kept."""
    return hashlib.sha256("\0".join((source, *shlex.split(flags))).encode()).hexdigest()[:32]


def load_cpp(source: str, flags: str = "") -> ctypes.CDLL:
    """Compile C++ to a shared object, once, and open it.

    Declare functions ``extern "C"`` and pass addresses as ``ctypes.c_void_p(tensor.data_ptr())``.

    Args:
        source: C++17 with OpenMP.
        flags: extra optimisation flags for g++, e.g. ``-ffast-math``.

    Raises:
        RuntimeError: it does not compile, with the compiler's message, or there is no g++.
    """
    key = native_key(source, flags)
    found = built_before(key, "load_cpp")
    if found is not None:
        return ctypes.CDLL(found)
    # The processor is part of the name: -march=native code must not travel between machines.
    library = cache_folder() / f"{key}-{processor()}.so"
    if not library.exists():
        _compile(source, flags, library)
    return ctypes.CDLL(str(library))


def torch_words(source: str) -> tuple[str, ...]:
    """Return g++'s arguments for a source that includes torch's headers, none for any other.

    They come after the source's own name. Such a source can be loaded once torch is imported.

    Raises:
        RuntimeError: torch is not installed.
    """
    if _TORCH_HEADER.search(source) is None:
        return ()
    found = find_spec("torch")
    if found is None or found.origin is None:
        raise RuntimeError("load_cpp: the source includes torch's headers, torch is not installed")
    folder = os.path.dirname(found.origin)
    headers = ("-isystem", os.path.join(folder, "include"))
    return (*headers, "-L" + os.path.join(folder, "lib"), "-ltorch_cpu", "-lc10")


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_FASTCALL = 0x80
_methods: list[_Method] = []  # they must outlive the functions that are made of them


def method(function: Any) -> Callable[..., None]:
    """Return a C function as one of Python's own, which costs 10 us less than ctypes with cold caches.

    Args:
        function: of a library, of CPython's kind METH_FASTCALL: ``void* f(void* self, void* const*
            arguments, long count)``, which returns `self` (None) with one reference more. Arguments
            are positional; ``PyLong_AsVoidPtr`` reads an address.
    """
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.POINTER(_Method), ctypes.py_object, ctypes.c_void_p
    )(("PyCFunction_NewEx", ctypes.pythonapi))
    address = ctypes.cast(function, ctypes.c_void_p)
    _methods.append(_Method(function.__name__.encode(), address, _FASTCALL, None))
    made: Callable[..., None] = make(ctypes.byref(_methods[-1]), None, None)
    return made


def built_before(key: str, caller: str) -> str | None:
    """Return the path of what the judge built for `key`, None where `caller` is to build it.

    Raises:
        RuntimeError: it was not built, and this process must not.
    """
    if key in prebuilt:
        return prebuilt[key]
    if sealed:
        raise RuntimeError(
            f"{caller}: this source was not found in the file: pass a literal string or a constant of the module"
        )
    return None


def cache_folder() -> Path:
    """Return the folder of this user's builds."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "kb" / "native"


def processor() -> str:
    """Name the processor as far as ``-march=native`` depends on it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    told = [line for line in lines if line.startswith(("flags", "Features", "model name"))]
    return hashlib.sha256("\n".join(told[:2]).encode()).hexdigest()[:8]


def _compile(source: str, flags: str, library: Path) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        text, built = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
        text.write_text(source)
        command = [
            "g++",
            *BASE_FLAGS,
            *shlex.split(flags),
            str(text),
            "-o",
            str(built),
            *torch_words(source),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise RuntimeError(
                "load_cpp: g++ was not found: install it, e.g. apt install g++"
            ) from error
        if done.returncode:
            raise RuntimeError("load_cpp: g++ failed:\n" + done.stderr[:4000])
        built.replace(library)  # atomic: another process may be loading it
