"""The judge's half of Triton's compilations: ptxas and the C compiler, in a sandbox, by content.

What a runner asks for is untrusted text. The commands are fixed here, the builds are kept where only
the judge writes, so that no candidate can leave a poisoned build for the next.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sysconfig
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kb.errors import ToolchainError
from search.sandbox.build import prune, used
from search.sandbox.sandbox import Cell
from search.sandbox.zygote import Child, Zygote

_MEMORY, _FILE = 8 << 30, 64 << 20
_ENTRY = re.compile(r"^[^\S\n]*\.(?:visible|weak)\s+\.entry\s+([\w$]+)", re.MULTILINE)
_ARCH = re.compile(r"sm_\d{2,3}[af]?")
# ptxas options that only change code: nothing that reads or writes another file.
_OPTION = re.compile(
    r"--?(O[0-4]|opt-level(=| )[0-4]|maxrregcount(=| )\d+|fmad=(true|false)|allow-expensive-optimizations=(true|false)"
    r"|def-load-cache(=| )\w+|def-store-cache(=| )\w+|disable-optimizer-constants|register-usage-level(=| )\d+)"
)
_MOST_TEXT = 64 << 20


class Compiler:
    """Compiles what runners ask for, once for each content.

    Args:
        folder: of the builds, readable by every runner, written by the judge alone.
        seconds: that one compilation may take.
    """

    def __init__(self, zygote: Zygote, folder: Path, seconds: float) -> None:
        self._zygote = zygote
        self._folder = folder
        self._seconds = seconds
        folder.mkdir(parents=True, exist_ok=True)

    def answer(self, request: Any) -> tuple[dict[str, Any], frozenset[str], str]:
        """Return what to tell the runner, the names of the kernels in it, and ptxas's report."""
        try:
            if not isinstance(request, dict) or len(str(request.get("text", ""))) > _MOST_TEXT:
                raise ValueError("a compilation that cannot be")
            if request.get("what") == "ptx":
                return self._ptx(request)
            if request.get("what") == "c":
                return {"path": str(self._launcher(request))}, frozenset(), ""
            raise ValueError(f"unknown compilation {request.get('what')!r}")
        except (ValueError, KeyError, TypeError) as error:
            return {"error": str(error)}, frozenset(), ""

    def _ptx(self, request: dict[str, Any]) -> tuple[dict[str, Any], frozenset[str], str]:
        from triton.backends.nvidia.compiler import get_ptxas

        text, arch = str(request["text"]), str(request["arch"])
        options = [word for word in str(request.get("options") or "").split(" ") if word]
        if not _ARCH.fullmatch(arch) or not all(_OPTION.fullmatch(word) for word in options):
            raise ValueError(f"ptxas options {options} for {arch} are not allowed")
        ptxas = get_ptxas(int(re.sub(r"\D", "", arch))).path
        fmad = [] if request.get("fmad", True) else ["--fmad=false"]
        command = [ptxas, "-lineinfo", *fmad, "-v", *options, f"--gpu-name={arch}", "kernel.ptx",
                   "-o", "kernel.cubin"]  # fmt: skip
        built = self._built("cubin", command, {"kernel.ptx": text}, "kernel.cubin")
        names = frozenset(_ENTRY.findall(text))
        report = built.with_suffix(".txt")
        told = report.read_text() if report.exists() else ""
        return {"path": str(built)}, names, told

    def _launcher(self, request: dict[str, Any]) -> Path:
        from triton.backends.nvidia import driver

        text = str(request["text"])
        gcc = shutil.which("gcc") or shutil.which("clang")
        if gcc is None:
            raise ToolchainError("Triton needs a C compiler, none is on PATH: install gcc")
        include = [*driver.include_dirs, sysconfig.get_paths()["include"]]
        command = [gcc, "module.c", "-O3", "-shared", "-fPIC", "-Wno-psabi", "-o", "module.so",
                   "-l:libcuda.so.1", *(f"-L{path}" for path in driver.library_dirs()),
                   *(f"-I{path}" for path in include)]  # fmt: skip
        return self._built("so", command, {"module.c": text}, "module.so")

    def _built(self, kind: str, command: list[str], texts: dict[str, str], product: str) -> Path:
        content = "\0".join((*command, *texts.values()))
        key = hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()[:32]
        kept = self._folder / f"{key}.{kind}"
        if used(kept):
            return kept
        scratch = Path(tempfile.mkdtemp(prefix="build-", dir=self._folder))
        try:
            for name, text in texts.items():
                (scratch / name).write_text(text, encoding="utf-8", errors="surrogateescape")
            log = self._run(command, scratch)
            if not (scratch / product).is_file() or (scratch / product).is_symlink():
                raise ValueError("the compiler wrote nothing")
            (scratch / "log").write_text(log)
            (scratch / "log").replace(kept.with_suffix(".txt"))
            (scratch / product).chmod(0o555)
            (scratch / product).replace(kept)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        prune(self._folder)
        return kept

    def _run(self, command: list[str], scratch: Path) -> str:
        cell = Cell(
            single=False,
            readable=(),
            writable=(str(scratch),),
            memory=_MEMORY,
            cpu_seconds=int(self._seconds) + 5,
            file_bytes=_FILE,
        )
        request = {"op": "build", "cell": asdict(cell), "command": command, "folder": str(scratch)}
        child = Child(self._zygote, request, [])
        began = time.monotonic()
        try:
            status = child.wait(self._seconds)
            log = child.log()
        finally:
            child.kill()
        if status is None:
            spent = time.monotonic() - began
            raise ValueError(f"{Path(command[0]).name} was still busy after {spent:.0f} s")
        if status != 0:
            raise ValueError(f"{Path(command[0]).name} failed:\n{log[-3000:]}")
        return log
