"""Runs CUDA C++ kernels of the recipes on a CPU, thread by thread: slow, and the same arithmetic."""

from __future__ import annotations

import atexit
import ctypes
import re
import shutil
import subprocess
import tempfile
import types
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from kb.runtime.signature import signatures

_MOST_SHARED = 232448  # bytes of a block
_HEADER = Path(__file__).with_suffix(".hpp")
_FLAGS = ("-O1", "-w", "-std=c++17", "-fPIC")
_EXTREME = re.compile(
    r'float r; asm\("(max|min)\.NaN[^"]*" : "=f"\(r\) : "f"\(x\), "f"\(y\)\); return r;'
)
_HALVES = {
    'float v; asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(x.bits)); return v;': "return half_to_float(x.bits);",
    'unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); return h;': "return float_to_half(v);",
}
_SHARED = re.compile(r"(?<!extern )__shared__ (\w+) (\w+)((?:\[[^\]]*\])*);")
_DYNAMIC = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")
_CLUSTER = re.compile(r"INL u32 shared_address.*?\n}\n", re.DOTALL)


def host_text(source: str) -> str:
    """Return `source` as C++ for a CPU, with a function ``call_<kernel>`` for each kernel."""
    text, count = _EXTREME.subn(
        lambda found: f"return nan_wins(x, y, {str(found[1] == 'max').lower()});", source
    )
    assert count == 2
    for device, host in _HALVES.items():
        assert device in text
        text = text.replace(device, host)
    text = text.replace('"+f"(x)', '"+x"(x)')
    text, count = _CLUSTER.subn("", text)
    assert count == 1
    text = _DYNAMIC.sub(rf"__shared__ \1 \2[{_MOST_SHARED} / sizeof(\1)];", text)
    places = iter(range(1000))
    text = _SHARED.sub(
        lambda found: (
            f"typedef {found[1]} {found[2]}_shared{found[3]};"
            f" auto& {found[2]} = cpu::shared<{found[2]}_shared>({next(places)});"
        ),
        text,
    )
    together = "CL" if "__cluster_dims__" in source else "cluster"
    parts = [f'#include "{_HEADER.name}"', text]
    for name, (parameters, *_) in signatures(source).items():
        kinds = [parameter.text.rpartition("*")[0] + "*" for parameter in parameters]
        given = ", ".join(f"({kind})args[{at}]" for at, kind in enumerate(kinds))
        parts.append(
            f'extern "C" void call_{name}(unsigned grid, unsigned block, unsigned cluster, void** args)'
            f" {{ cpu::launch(grid, block, {together}, [&] {{ {name}({given}); }}); }}"
        )
    return "\n".join(parts)


@cache
def _compiled_header() -> Path:
    """Return a folder with the header, compiled once for all kernels of this process."""
    folder = Path(tempfile.mkdtemp(prefix="cuda-on-cpu-"))
    atexit.register(shutil.rmtree, folder)
    header = folder / _HEADER.name
    shutil.copy(_HEADER, header)
    subprocess.run(["g++", *_FLAGS, str(header), "-o", f"{header}.gch"], check=True)
    return folder


class HostModule:
    """What ``load_cuda`` returns, on a CPU."""

    def __init__(self, source: str, folder: Path) -> None:
        path = folder / f"kernel{len(list(folder.glob('kernel*.cpp')))}.cpp"
        path.write_text(host_text(source))
        command = ["g++", *_FLAGS, "-shared", f"-I{_compiled_header()}", str(path), "-o"]
        subprocess.run([*command, str(path.with_suffix(".so"))], check=True)
        self._library = ctypes.CDLL(str(path.with_suffix(".so")))

    def __getattr__(self, name: str) -> Callable[..., None]:
        function = getattr(self._library, f"call_{name}")

        def launch(
            grid: int,
            block: int,
            *tensors: torch.Tensor,
            cluster: int = 1,
            shared: int = 0,
            overlap: bool = False,
        ) -> None:
            assert shared <= _MOST_SHARED
            del overlap  # one thread after the other
            assert all(tensor.is_contiguous() for tensor in tensors)
            pointers = (ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors))
            function(ctypes.c_uint(grid), ctypes.c_uint(block), ctypes.c_uint(cluster), pointers)

        return launch


def load_on_cpu(text: str, folder: Path) -> Any:
    """Return a candidate's module whose CUDA kernels run on the CPU."""
    module = types.ModuleType("candidate")
    assert "from kb.native import load_cuda\n" in text
    module.__dict__["load_cuda"] = lambda source, flags="": HostModule(source, folder)
    exec(text.replace("from kb.native import load_cuda\n", ""), module.__dict__)
    return module
