"""Stands in for the driver under CuTe DSL: its kernels are compiled, their launches noted, nothing runs.

NVIDIA's package compiles with no device. What a ``@cute.jit`` function does on the host is compiled
too, and calls the driver by name: those names are answered here, so that grids, blocks and shared
memory are the ones that the candidate's own host code computes.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import _disable_current_modes

from search.judging.dryrun.interpreter.memory import KernelFault
from search.languages.cute import explained
from search.sandbox.runner import NAME

_P, _I, _L = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_Code = Callable[..., int]
_CUDA = 2  # DLPack's number of the device
_ELSEWHERE = "CuTe DSL is compiled for NVIDIA's devices only: write it in triton"
# What a program may ask before it chooses tiles: of a current device, the record has none.
_L2 = 50 << 20


class Host(Protocol):
    """Answers for the device to whom launches are told."""

    def note_native(self, name: str, grid: Any, threads: int, shared: int, file: str = "") -> None:
        """Note one launch; `file`: with its machine code, in the folder of the process."""
        ...

    def report(self, fault: KernelFault) -> KernelFault:
        """Take note of a fault, even where the candidate catches it, and return it."""
        ...

    def require_compiling(self, what: str) -> None:
        """Raise where kernels are interpreted, which this language's cannot be."""
        ...

    def address(self, tensor: torch.Tensor) -> int:
        """Return where a tensor begins."""
        ...


class AbsentCute:
    """The device under every function that CuTe DSL compiles in this process.

    Args:
        folder: for machine code, which the judge reads there.
    """

    def __init__(self, host: Host, folder: Path) -> None:
        self._host = host
        self._folder = folder
        self._architecture: Mapping[str, Any] = {}
        self._handles: dict[int, tuple[str, str]] = {}  # kernel's name and file by its handle
        self._loading = ""
        self._pending: KernelFault | None = None
        self._kept: list[Any] = []  # callbacks live as long as the machine code that calls them
        self._take_over()

    def aim(self, architecture: Mapping[str, Any]) -> None:
        """Stand in for a device of this architecture."""
        self._architecture = architecture
        name = str(architecture["name"])
        if name.startswith("sm_"):
            # From 9.0 on, an architecture's own instructions (wgmma, TMA) need its own name.
            self._settings.arch = f"{name}a" if int(name[3:]) >= 90 else name

    def _take_over(self) -> None:
        """Put this in place of the driver, for every engine that is made from now on."""
        runtime = import_module("cutlass.cute.runtime")
        engines = import_module("cutlass._mlir.execution_engine").ExecutionEngine
        dsl = import_module("cutlass.base_dsl.dsl").BaseDSL
        executors = import_module("cutlass.base_dsl.jit_executor").JitExecutor
        executor = import_module("cutlass.cutlass_dsl.cuda_jit_executor")
        compiled = executor.CudaDialectJitCompiledFunction
        self._settings = import_module("cutlass.cutlass_dsl").CuTeDSL._get_dsl().envar
        self._settings.no_cache = self._settings.keep_cubin = True
        self._settings.dump_dir = str(self._folder)
        symbols = self._symbols()
        engine, load = engines.__init__, compiled._load_cuda_library
        run, generate = executors.run_compiled_program, dsl.generate_mlir
        tensor = runtime._Tensor.__init__

        def make_engine(made: Any, *args: Any, **kwargs: Any) -> None:
            engine(made, *args, **kwargs)
            for name, callback in symbols.items():
                made.raw_register_runtime(name, callback)

        def load_library(function: Any) -> Any:
            self._loading = self._keep(function.artifacts)
            return load(function)

        def run_host(executor: Any, arguments: Any) -> Any:
            result = run(executor, arguments)
            pending, self._pending = self._pending, None
            if pending is not None:
                raise pending
            return result

        def compile_function(maker: Any, *args: Any, **kwargs: Any) -> Any:
            return self._compiled(lambda: generate(maker, *args, **kwargs))

        def make_tensor(made: Any, given: Any, *args: Any, **kwargs: Any) -> None:
            tensor(made, self._seen(given), *args, **kwargs)

        engines.__init__, compiled._load_cuda_library = make_engine, load_library
        executors.run_compiled_program, dsl.generate_mlir = run_host, compile_function
        runtime._Tensor.__init__ = make_tensor
        compiled.num_devices = 1
        self._describe_device(import_module("cutlass.utils.hardware_info").HardwareInfo)

    def _describe_device(self, info: Any) -> None:
        def make(made: Any, device_id: int = 0) -> None:
            made.device_id = device_id

        info.__init__ = make
        info.get_device_multiprocessor_count = lambda _: self._architecture["units"]
        info.get_l2_cache_size_in_bytes = lambda _: _L2
        info.get_max_active_clusters = lambda _, size, stream=None: (  # noqa: ARG005 - its signature
            self._architecture["units"] // size
        )

    def _compiled(self, generate: Callable[[], Any]) -> Any:
        self._host.require_compiling("its kernels are CuTe DSL, which runs on a device only")
        if self._architecture.get("backend") != "cuda":
            raise self._host.report(KernelFault("compile", _ELSEWHERE))
        try:
            return generate()
        except KernelFault:
            raise
        except Exception as error:  # the package's compiler, on the candidate's code
            raise self._host.report(KernelFault("compile", _told(error))) from error

    def _keep(self, artifacts: Any) -> str:
        """Write a compiled function's machine code where the judge reads it; return the file's name."""
        code = getattr(artifacts, "CUBIN", None)
        if not isinstance(code, bytes):
            return ""
        # Compiled once more, it is the same: its launches are counted together.
        digest = hashlib.sha256(code).hexdigest()[:16]
        path = self._folder / f"{self._architecture['name']}-{digest}.cubin"
        if not path.exists():
            path.write_bytes(code)
        return path.name

    def _seen(self, given: Any) -> Any:
        return _Exported(given, self._host.address) if isinstance(given, torch.Tensor) else given

    # What the host code calls of the driver -------------------------------------------------------

    def _symbols(self) -> dict[str, Any]:
        """Return the functions that stand in for the driver's, by the names that are linked."""
        table: dict[str, tuple[tuple[Any, ...], _Code]] = {
            "_cudaLibraryLoadData": ((_P, _P, _P, _P, _I, _P, _P, _I), self._load),
            "_cudaLibraryGetKernel": ((_P, _P, _P), self._get_kernel),
            "_cudaLaunchKernelEx": ((_P, _P, _P), self._launch_configured),
            "_cudaLaunchKernel": ((_P, _I, _I, _I, _I, _I, _I, _P, _L, _P), self._launch_plain),
            "_cudaDeviceGetAttribute": ((_P, _I, _I), lambda out, *_: _answer(out, 1 << 30)),
            "_cuKernelGetAttribute": ((_P, _I, _P, _I), lambda out, *_: _answer(out, 0)),
            "_cudaGetDevice": ((_P,), lambda out: _answer(out, 0)),
            "_cudaKernelSetAttributeForDevice": ((_P, _I, _I, _I), lambda *_: 0),
            "_cudaFuncSetAttribute": ((_P, _I, _I), lambda *_: 0),
            "_cudaOccupancyMaxActiveBlocksPerMultiprocessor": (
                (_P, _P, _I, _L),
                lambda out, *_: _answer(out, 1),
            ),
        }
        made = {}
        for name, (types_, function) in table.items():
            callback = ctypes.CFUNCTYPE(_I, *types_)(function)
            self._kept.append(callback)
            made[name] = ctypes.cast(callback, _P)
        return made

    def _load(self, library: int, *_: Any) -> int:
        _P.from_address(library).value = 1
        return 0

    def _get_kernel(self, kernel: int, _library: int, name: int) -> int:
        handle = (len(self._handles) + 1) << 8
        self._handles[handle] = (ctypes.string_at(name).decode(errors="replace"), self._loading)
        _P.from_address(kernel).value = handle
        return 0

    def _launch_configured(self, config: int, kernel: int, _arguments: int) -> int:
        told = _Launch.from_address(config)
        return self._launch(kernel, tuple(told.grid), tuple(told.block), int(told.shared))

    def _launch_plain(
        self,
        kernel: int,
        *given: Any,  # the grid's sizes, the block's, arguments, shared memory, stream
    ) -> int:
        return self._launch(kernel, given[:3], given[3:6], int(given[7]))

    def _launch(
        self, kernel: int, grid: tuple[int, ...], block: tuple[int, ...], shared: int
    ) -> int:
        name, file = self._handles.get(kernel, ("", ""))
        threads = int(block[0]) * int(block[1]) * int(block[2])
        try:
            self._host.note_native(name, tuple(grid), threads, shared, file)
        except KernelFault as fault:
            self._pending = fault  # it cannot pass through machine code: `run_host` raises it
        return 0


class _Launch(ctypes.Structure):
    """The head of ``cudaLaunchConfig_t`` (CUDA Runtime API, data structures)."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_size_t),
    )


class _Managed(ctypes.Structure):
    """The head of DLPack's ``DLManagedTensor`` (dlpack.h)."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Exported:
    """A tensor as a device's would hand itself over, whether it has memory here or not."""

    def __init__(self, tensor: torch.Tensor, address: Callable[[torch.Tensor], int]) -> None:
        self._tensor = tensor
        self._address = address

    def __dlpack__(self, stream: Any = None) -> Any:
        given = self._tensor
        if given.requires_grad:
            raise BufferError("a tensor that requires gradient cannot be exported: detach() it")
        place, shape, strides = self._address(given), tuple(given.shape), given.stride()
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            # One element, described in place: torch says what its types are called, and frees it.
            capsule = torch.empty((1,) * len(shape), dtype=given.dtype).__dlpack__()
        managed = _Managed.from_address(_pointer(capsule, b"dltensor"))
        managed.data, managed.device = place, _CUDA
        for number, (size, stride) in enumerate(zip(shape, strides, strict=True)):
            managed.shape[number] = size
            managed.strides[number] = stride if size > 1 else 1
        return capsule


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def _answer(place: int, value: int) -> int:
    _I.from_address(place).value = value
    return 0


def _told(error: BaseException) -> str:
    """Return what the package says of a candidate's code, with the line of the candidate's file."""
    text = explained(str(error)) or f"{type(error).__name__}: {str(error).strip()[:600]}"
    if text.startswith("line "):
        return text
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == NAME:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"line {line}: {text}" if line is not None else text
