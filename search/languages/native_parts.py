"""The native parts of candidates for NVIDIA GPUs: `load_cuda` to a cubin, `load_inline` to an extension."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from collections.abc import Sequence

from kb.errors import ToolchainError
from kb.runtime import nvcc
from kb.runtime.cuda import cuda_key
from kb.runtime.torch_inline import PARAMETERS
from search.languages import Unbuildable, Unit, distinct, inline
from search.languages.literals import Call, calls, check_text, parse
from search.languages.nvcc_flags import checked

_FIRST_ERRORS = 4
_TOOLKIT = ("bin", "include", "lib", "lib64", "nvvm", "targets")
_LONGEST_LINE = 400
_MOST_LINES = 2000
# nvcc's and NVRTC's front end, g++ (headers and host code), ptxas, nvcc itself.
_FAULTS = (
    re.compile(
        r"^(?:\S*[^\w.\s])?([\w.]+)\((\d+)\): (?:catastrophic |internal )?error(?: #[\w-]+)?: (?P<told>.*)$"
    ),
    re.compile(r"^(?:\S*[^\w.\s])?([\w.]+):(\d+):\d+: (?:fatal )?error: (?P<told>.*)$"),
    re.compile(r"^(?P<told>ptxas (?:error|fatal)\s*:.*)$"),
    re.compile(r"^ptxas [^,]*, line \d+; error\s*: (?P<told>.*)$"),
    re.compile(r"^(?P<told>nvcc (?:error|fatal)\s*:.*)$"),
    re.compile(r"^(?P<told>.*undefined (?:reference|symbol).*)$"),
)


class NativeParts:
    """Compiles the sources of `load_cuda` and `load_inline` calls for one architecture.

    Args:
        architecture: of the device, e.g. ``sm_90``; its own instructions (wgmma, TMA) are always
            available.
    """

    def __init__(self, architecture: str) -> None:
        found = re.fullmatch(r"sm_(\d+)(\d)[af]?", architecture)
        if found is None:
            raise ToolchainError(
                f"expected an NVIDIA architecture such as sm_90, found {architecture!r}: "
                "CUDA C++ is compiled for those only"
            )
        self.architecture = nvcc.sm_name((int(found[1]), int(found[2])))

    def units(self, source: str) -> tuple[Unit, ...]:
        """Return what each ``load_cuda`` and ``load_inline`` call with constant arguments compiles."""
        parameters = {"load_cuda": ("source", "flags"), "load_inline": PARAMETERS}
        return distinct(
            _cubin(call) if call.name == "load_cuda" else inline.unit(call)
            for call in calls(parse(source), parameters)
        )

    def command(self, unit: Unit, text: str, library: str) -> Sequence[str]:
        """Return the arguments of nvcc, or of Python with NVRTC where there is no nvcc.

        Raises:
            ToolchainError: what the unit needs is not on this machine.
        """
        home = nvcc.cuda_home()
        if unit.output != "kernel.cubin":
            return inline.command(unit, home, self.architecture)
        if home is not None:
            flags = nvcc.nvcc_flags(self.architecture, unit.flags)
            return (str(home / "bin" / "nvcc"), "-cubin", *flags, text, "-o", library)
        if not nvcc.has_nvrtc():
            raise ToolchainError(
                "the language cuda needs nvcc or NVRTC, this machine has neither: install the CUDA toolkit "
                "and put nvcc on PATH (or set CUDA_HOME), or pip install nvidia-cuda-nvrtc "
                "nvidia-cuda-runtime nvidia-cuda-cccl"
            )
        return (sys.executable, "-I", "nvrtc.py", text, library, self.architecture, *unit.flags)

    def readable(self) -> tuple[str, ...]:
        """Return the folders that the compiler reads, wherever the toolkit is installed.

        It may be installed in a Python's own folder, which holds more than the toolkit.
        """
        home = nvcc.cuda_home()
        homes = () if home is None else (home, home.resolve())
        return tuple(str(base / part) for base in homes for part in _TOOLKIT)

    def explain(self, message: str) -> str:
        """Return the first errors, one line each with its place in the candidate's CUDA source."""
        errors: dict[str, None] = {}
        lines = message.splitlines()[:_MOST_LINES]
        for number, line in enumerate(lines):
            for pattern in _FAULTS:
                found = pattern.match(line.strip())
                if found is None:
                    continue
                errors.setdefault(_fault(found, lines[number + 1 : number + 2]))
                break
        chosen = list(errors)[:_FIRST_ERRORS] or message.strip().splitlines()[:6]
        return "\n".join(line[:_LONGEST_LINE] for line in chosen)


def _fault(found: re.Match[str], following: Sequence[str]) -> str:
    """Return an error with its place and, where the compiler quotes it, the line of code."""
    place = f"{found[1]} line {found[2]}: " if found.re.groups == 3 else ""
    code = following[0].strip() if following and found.re is _FAULTS[0] else ""
    return f"{place}{found['told'].strip()}{f' in: {code}' if code else ''}"[:_LONGEST_LINE]


def _cubin(call: Call) -> Unit:
    source, flags = call.values.get("source"), call.values.get("flags", "")
    if call.unknown or not isinstance(source, str) or not isinstance(flags, str):
        raise Unbuildable(
            f"line {call.line}: load_cuda takes literal strings or constants of the module: it is compiled before "
            "the file is run"
        )
    check_text(call, sources=(source,), flags=(flags,))
    try:
        words = shlex.split(flags)
    except ValueError as error:
        raise Unbuildable(f"line {call.line}: compiler flags {flags!r}: {error}") from error
    script = "" if nvcc.cuda_home() else inspect.getsource(nvcc)
    return Unit(
        key=cuda_key(source, flags),
        source=source,
        flags=checked(words, call.line),
        line=call.line,
        text="kernel.cu",
        output="kernel.cubin",
        files={"nvrtc.py": script} if script else {},
    )
