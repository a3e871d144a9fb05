"""CUDA C++ to a cubin: by nvcc, or by NVRTC where there is no nvcc.

Needs nothing but the standard library, so that a file that uses it can carry a copy. Run as a
script it compiles one file with NVRTC: ``python nvcc.py kernel.cu kernel.cubin sm_90a FLAGS``.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

# Short names of NVRTC for what nvcc writes in another way.
_WORDS = {"-use_fast_math": "--use_fast_math", "-Xptxas": "--ptxas-options"}
_NVRTC_KNOWS = re.compile(
    r"-D.*|-std=.*|--?(use_fast_math|ftz|prec-div|prec-sqrt|fmad|maxrregcount|ptxas-options|lineinfo"
    r"|extra-device-vectorization|restrict|diag-suppress|expt-relaxed-constexpr)(=.*)?|-w"
)


def cuda_home() -> Path | None:
    """Return the folder of the CUDA toolkit that holds nvcc, None where there is none.

    `CUDA_HOME` is believed before PATH, PATH before the usual place, and that before a package.
    """
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    found = shutil.which("nvcc")
    homes = [Path(named)] if named else []
    if found is not None:
        homes.append(Path(os.path.realpath(found)).parent.parent)
    homes.append(Path("/usr/local/cuda"))
    homes += sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/cu*"), reverse=True)
    for home in homes:
        # A wrapper script in PATH lies beside no compiler: nvvm tells the toolkit from it.
        if (home / "bin" / "nvcc").is_file() and (home / "nvvm").is_dir():
            return home
    return None


def sm_name(capability: tuple[int, int]) -> str:
    """Return the machine code's name for a compute capability, with all that the device can do.

    From Hopper on an architecture's own instructions (wgmma, setmaxnreg, tcgen05) need the suffix.
    """
    major, minor = capability
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def nvcc_flags(architecture: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return what every kernel is compiled with, and `words`.

    Args:
        architecture: e.g. ``sm_90a``.
        words: the source's own flags; the standard and the optimisation level that they name count.
    """
    number = architecture.removeprefix("sm_")
    # -arch would add a pass for the architecture without its suffix, which rejects wgmma.
    fixed = (f"-gencode=arch=compute_{number},code=sm_{number}", "-Xptxas=-v")
    usual = {"-std": "-std=c++17", "-O": "-O3"}
    missing = (flag for start, flag in usual.items() if not any(w.startswith(start) for w in words))
    return (*missing, *fixed, *words)


def has_nvrtc() -> bool:
    """Say whether NVRTC can be loaded."""
    try:
        _nvrtc()
    except RuntimeError:
        return False
    return True


def compile_cubin(source: str, flags: str, architecture: str, cubin: Path) -> str:
    """Compile `source` into the file `cubin` and return what the compiler said (`-Xptxas -v`).

    Raises:
        RuntimeError: it does not compile, with the compiler's first lines, or there is no compiler.
    """
    words = shlex.split(flags)
    text, home = cubin.with_suffix(".cu"), cuda_home()
    text.write_text(source)
    if home is None:
        return nvrtc_compile(text, cubin, architecture, words)
    command = [str(home / "bin" / "nvcc"), "-cubin", *nvcc_flags(architecture, words)]
    done = subprocess.run(
        [*command, text.name, "-o", cubin.name],
        capture_output=True, text=True, check=False, cwd=cubin.parent,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError("load_cuda: nvcc failed:\n" + (done.stderr + done.stdout)[:4000])
    return done.stderr


def nvrtc_compile(text: Path, cubin: Path, architecture: str, words: Sequence[str]) -> str:
    """Compile the file `text` with NVRTC.

    Raises:
        RuntimeError: it does not compile, or there is no NVRTC.
    """
    library = _nvrtc()
    options = [f"--gpu-architecture={architecture}", "--ptxas-options=-v"]
    options += [] if any(word.startswith("-std") for word in words) else ["-std=c++17"]
    options += [f"-I{folder}" for folder in _headers()] + _nvrtc_options(words)
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = text.read_bytes()
    _nvrtc_check(
        library,
        library.nvrtcCreateProgram(
            ctypes.byref(program), source, text.name.encode(), 0, None, None
        ),
    )
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    status = library.nvrtcCompileProgram(program, len(options), given)
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    said = log.value.decode(errors="replace")
    if status:
        raise RuntimeError("load_cuda: NVRTC failed:\n" + said[:4000])
    _nvrtc_check(library, library.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    image = ctypes.create_string_buffer(size.value)
    _nvrtc_check(library, library.nvrtcGetCUBIN(program, image))
    library.nvrtcDestroyProgram(ctypes.byref(program))
    cubin.write_bytes(image.raw)
    return said


def _nvrtc_options(words: Sequence[str]) -> list[str]:
    """Return nvcc's words as NVRTC takes them; what it has no need of, as ``-O3``, is left out."""
    options: list[str] = []
    rest = iter(words)
    for word in rest:
        name = _WORDS.get(word, word)
        if word in {"-Xptxas", "--ptxas-options", "-maxrregcount", "--maxrregcount"}:
            name = f"{name}={next(rest, '')}"
        if _NVRTC_KNOWS.fullmatch(name):
            options.append(name)
    return options


def _nvrtc() -> ctypes.CDLL:
    # The packages of torch's CUDA builds hold it, in a folder that the loader does not search.
    packages = {sysconfig.get_paths()["purelib"], *sys.path}
    for folder in packages:
        for path in sorted(Path(folder).glob("nvidia/*/lib/libnvrtc.so.*"), reverse=True):
            return ctypes.CDLL(str(path))
    for name in ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError(
        "load_cuda: neither nvcc nor NVRTC was found: install the CUDA toolkit, or pip install nvidia-cuda-nvrtc "
        "nvidia-cuda-runtime nvidia-cuda-cccl"
    )


def _headers() -> list[str]:
    packages = {sysconfig.get_paths()["purelib"], *sys.path}
    found = (
        path.parent
        for folder in packages
        for path in Path(folder).glob("nvidia/*/include/cuda_fp16.h")
    )
    folders = [Path("/usr/local/cuda/include"), *found]
    cccl = [folder / "cccl" for folder in folders]
    return [str(folder) for folder in (*folders, *cccl) if folder.is_dir()]


def _nvrtc_check(library: ctypes.CDLL, status: int) -> None:
    if status:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise RuntimeError(f"load_cuda: NVRTC: {library.nvrtcGetErrorString(status).decode()}")


# A copy of this file ends here.
if __name__ == "__main__":
    _text, _cubin, _architecture, *_words = sys.argv[1:]
    try:
        sys.stderr.write(nvrtc_compile(Path(_text), Path(_cubin), _architecture, _words))
    except RuntimeError as _error:
        sys.exit(str(_error))
