"""CUDA C++ kernels from Python: compile a source to a cubin and launch it on torch's stream.

Plain CUDA C++, without torch's headers: a build takes half a second instead of half a minute, and a
launch a few microseconds. Needs nothing but the standard library, torch and a compiler, so that a
file that uses it can carry a copy.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kb.runtime.cpp import built_before, cache_folder, native_key
from kb.runtime.launch import Launcher, check, driver, make_current
from kb.runtime.nvcc import compile_cubin, cuda_home, sm_name
from kb.runtime.signature import signatures

_NOT_FOUND = 500


def cuda_key(source: str, flags: str = "") -> str:
    """Return the name under which the cubin of `source` with `flags` is kept."""
    return native_key(f"// CUDA\n{source}", flags)


def load_cuda(source: str, flags: str = "") -> CudaModule:
    """Compile CUDA C++ to a cubin for the current device, once, and load it.

    The kernels are attributes of what is returned: ``module.scale(grid, block, x, y, n, 2.0)``
    launches ``__global__ void scale(...)`` on torch's current stream. Tensors are passed as
    pointers; numbers become what the kernel's signature says.

    Args:
        source: CUDA C++17 with its ``__global__`` functions, ``extern "C"`` or not.
        flags: extra flags for nvcc, e.g. ``--use_fast_math``.

    Raises:
        RuntimeError: it does not compile, with the compiler's message; there is no compiler or no
            GPU.
    """
    found = built_before(cuda_key(source, flags), "load_cuda")
    if found is not None:
        return CudaModule(Path(found).read_bytes(), source)
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("load_cuda: torch finds no NVIDIA GPU on this machine")
    architecture = sm_name(torch.cuda.get_device_capability())
    home = cuda_home()
    toolkit = hashlib.sha256(str(home and os.path.realpath(home)).encode()).hexdigest()[:8]
    cubin = cache_folder() / f"{cuda_key(source, flags)}-{architecture}-{toolkit}.cubin"
    if not cubin.exists():
        cubin.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cubin.parent) as folder:
            built = Path(folder) / "kernel.cubin"
            compile_cubin(source, flags, architecture, built)
            built.replace(cubin)  # atomic: another process may be loading it
    return CudaModule(cubin.read_bytes(), source)


class CudaModule:
    """The kernels of one source: attributes by name, items by mangled name.

    Args:
        image: the cubin.
        source: its CUDA C++, read for the kernels' signatures.
    """

    def __init__(self, image: bytes, source: str) -> None:
        self._image = image
        self._signatures = signatures(source)
        self._handles: dict[int, ctypes.c_void_p] = {}

    def __getattr__(self, name: str) -> CudaKernel:
        if name.startswith("__"):
            raise AttributeError(name)
        kernel = CudaKernel(self, name)
        setattr(self, name, kernel)  # the next look-up does not come here
        return kernel

    def __getitem__(self, name: str) -> CudaKernel:
        return self.__getattr__(name)

    def _launcher(self, name: str, device: int) -> Launcher:
        """Return what launches a kernel on `device`.

        Raises:
            AttributeError: there is no such kernel.
            RuntimeError: the machine code is for another device.
        """
        make_current(device)
        module = self._handles.get(device)
        if module is None:
            module = ctypes.c_void_p()
            status = driver().cuModuleLoadData(ctypes.byref(module), self._image)
            check(status, "loading the cubin")
            self._handles[device] = module
        function, real = ctypes.c_void_p(), name
        status = driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        if status == _NOT_FOUND:
            real = _only_match(name, _names(module))
            status = driver().cuModuleGetFunction(ctypes.byref(function), module, real.encode())
        check(status, f"finding kernel {name}")
        return Launcher(name, function, self._declared(real), device)

    def _declared(self, real: str) -> list[Any]:
        """Return what the source says of a kernel's parameters, one entry a declaration."""
        return next((self._signatures[name] for name in self._signatures if _is(real, name)), [])


class CudaKernel:
    """One kernel: call it to launch it on torch's current stream of the current device."""

    def __init__(self, module: CudaModule, name: str) -> None:
        import torch

        torch.cuda.current_device()  # starts CUDA where nothing has
        self._module, self._name = module, name
        self._current_device = torch._C._cuda_getDevice
        self._on: dict[int, Launcher] = {}
        self._alone = torch.cuda.device_count() == 1
        self._only: Launcher | None = None  # where there is one device, it need not be asked for

    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        *args: Any,
        shared: int = 0,
        cluster: int | Sequence[int] | None = None,
        cooperative: bool = False,
        overlap: bool = False,
    ) -> None:
        """Launch the kernel.

        Args:
            grid, block: up to three numbers each, x first.
            args: CUDA tensors for pointers (None is the null pointer), numbers for scalars, ctypes
                values and tensor maps for all else.
            shared: bytes of dynamic shared memory; above 48 KB it is asked for by itself.
            cluster: blocks of a thread-block cluster, x first.
            cooperative: all blocks are resident at once, so that the grid can be synchronised.
            overlap: it may begin while the kernel before it on the stream ends, and must wait with
                ``griddepcontrol.wait`` before it reads what that one wrote (programmatic dependent
                launch, compute capability 9.0; before, it begins when that one has ended).

        Raises:
            TypeError: an argument does not fit the kernel's signature.
            RuntimeError: the driver refuses the launch.
        """
        launcher = self._only or self._on.get(self._current_device()) or self._here()
        launcher.launch((grid, block, shared, cluster, cooperative, overlap), args)

    @property
    def resources(self) -> dict[str, int]:
        """Registers and local bytes of a thread, static shared bytes and most threads of a block."""
        return self._here().resources()

    def resident_blocks(self, block: int, shared: int = 0) -> int:
        """Return how many blocks of `block` threads a multiprocessor holds at once."""
        return self._here().resident(block, shared)

    def _here(self) -> Launcher:
        device = self._current_device()
        if device not in self._on:
            self._on[device] = self._module._launcher(self._name, device)
        if self._alone:
            self._only = self._on[device]
        return self._on[device]


def _is(real: str, name: str) -> bool:
    """Say whether the name in the cubin, mangled or not, is that of kernel `name`."""
    mangled = rf"_Z(?:N\w*?)?(?<!\d){len(name)}{re.escape(name)}"
    return real == name or bool(re.match(mangled, real))


def _only_match(name: str, names: Sequence[str]) -> str:
    """Return the mangled name of a kernel that is not ``extern "C"``."""
    found = [real for real in names if _is(real, name)]
    if len(found) == 1:
        return found[0]
    told = f"several are called so, choose as module[{found[0]!r}]" if found else "there is none"
    raise AttributeError(
        f"load_cuda: kernel {name!r}: {told}; the module has {', '.join(names) or 'no kernels'}"
    )


def _names(module: ctypes.c_void_p) -> list[str]:
    library, count = driver(), ctypes.c_uint()
    if not hasattr(library, "cuModuleGetFunctionCount"):  # before CUDA 12.4
        return []
    check(library.cuModuleGetFunctionCount(ctypes.byref(count), module), "listing the kernels")
    functions = (ctypes.c_void_p * count.value)()
    status = library.cuModuleEnumerateFunctions(functions, count.value, module)
    check(status, "listing the kernels")
    names = []
    for function in functions:
        name = ctypes.c_char_p()
        status = library.cuFuncGetName(ctypes.byref(name), ctypes.c_void_p(function))
        check(status, "listing the kernels")
        names.append((name.value or b"").decode())
    return sorted(names)
