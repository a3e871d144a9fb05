"""What a candidate's launches become: compiled for the architecture at hand, or interpreted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from search.judging.dryrun.interpreter.launch import InterpretedLaunch, Interpreter, Pointer
from search.judging.dryrun.interpreter.memory import ArgumentRegion, KernelFault
from search.judging.dryrun.stubs import driver
from search.sandbox.missing_names import missing_names
from search.sandbox.runner import NAME

_UNFIT = (OutOfResources, CompileTimeAssertionFailure, PTXASError)
_ADDRESS = 1 << 40  # where memory that is not there begins
_PAGE = 1 << 12


class LaunchInterceptor:
    """Answers for the device: every launch of a candidate ends here.

    Attributes:
        kernels: of the compilation that is going on, one entry a compiled kernel.
        natives: launches of kernels in CUDA C++ meanwhile.
        faults: what launches did wrong, even where the candidate caught it.
        seconds: of the processor, that one launch may take in the interpreter.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._interpreter = Interpreter()
        self._architecture: dict[str, Any] = {}
        self._number = 0
        self._compiling = self._interpreting = False
        self._chosen: dict[int, Any] = {}
        self._extra: dict[int, ArgumentRegion] = {}
        self._absent: dict[int, int] = {}
        self._free = _ADDRESS
        self._kept: list[Any] = []
        self.kernels: dict[str, dict[str, Any]] = {}
        self.natives: dict[str, dict[str, Any]] = {}
        self.faults: list[KernelFault] = []
        self.notes: list[str] = []
        self.seconds = 10.0
        self._deadline = 0.0
        self._take_over()

    def aim(self, architecture: dict[str, Any]) -> None:
        """Stand in for a device of this architecture."""
        self._architecture = architecture
        self._number += 1
        driver.install(architecture, self._number)
        self._interpreter.builder.aim(architecture["name"])

    @contextmanager
    def compiling(self, *, sample_seconds: float) -> Iterator[None]:
        """Compile what is launched; interpret a few programs of each for their bounds alone."""
        self.kernels, self.natives, self.notes = {}, {}, []
        self.faults.clear()
        self._compiling = True
        self._deadline = time.process_time() + sample_seconds
        try:
            yield
        finally:
            self._compiling = False

    @contextmanager
    def interpreting(self, seconds: float) -> Iterator[None]:
        """Interpret what is launched, every program of it."""
        self.faults.clear()
        self._interpreting = True
        self._deadline = time.process_time() + seconds
        try:
            yield
        finally:
            self._interpreting = False
            self._extra.clear()
            self._absent.clear()
            self._kept.clear()

    # Tensors as kernels see them --------------------------------------------------------------------

    def address(self, tensor: torch.Tensor) -> int:
        """Return where a tensor begins; one without memory gets a place of its own."""
        if not _absent(tensor):
            with torch._C.DisableTorchFunction():
                address = tensor.data_ptr()
            # A kernel may be given the address as a number: remember what lies there.
            self._kept.append(tensor)
            region = self._region("memory", tensor)
            self._extra[region.start] = region
            return address
        key = tensor.untyped_storage()._cdata
        if key not in self._absent:
            self._absent[key] = self._free
            self._free += (tensor.untyped_storage().nbytes() // _PAGE + 2) * _PAGE
            self._kept.append(tensor)  # or another storage would take its key
        return self._absent[key] + int(tensor.storage_offset()) * tensor.element_size()

    def _region(self, name: str, tensor: torch.Tensor) -> ArgumentRegion:
        size = tensor.untyped_storage().nbytes()
        offset = int(tensor.storage_offset()) * tensor.element_size()
        if _absent(tensor):
            start = self.address(tensor) - offset
        else:
            with torch._C.DisableTorchFunction():
                start = tensor.data_ptr() - offset
        return ArgumentRegion(name=name, start=start, size=size, element=tensor.element_size())

    def _pointer(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return Pointer(
                dtype=value.dtype,
                address=self.address(value),
                size=value.untyped_storage().nbytes(),
                shape=tuple(value.shape),
                strides=tuple(value.stride()),
            )
        if isinstance(value, TensorDescriptor):
            base, shape, strides = self._pointer(value.base), value.shape, value.strides
            return TensorDescriptor(base, shape, strides, value.block_shape, value.padding)
        if isinstance(value, tuple):
            made = [self._pointer(item) for item in value]
            return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
        return value

    # Launches ------------------------------------------------------------------------------------------

    def _take_over(self) -> None:
        """Put this session in place of Triton's own way of running kernels and choosing among them."""
        stock = JITFunction.run
        session = self

        def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            return session._run(stock, kernel, args, {"grid": grid, "warmup": warmup, **kwargs})

        def tune(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            return session._tune(tuner, args, kwargs)

        JITFunction.run = run
        Autotuner.run = tune

    def _run(
        self, stock: Callable[..., Any], kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        grid, warmup = kwargs.pop("grid"), kwargs.pop("warmup")
        compiled = None
        if warmup:
            return self._compiled(stock, kernel, args, kwargs)
        if self._compiling:
            try:
                compiled = self._compiled(stock, kernel, args, kwargs)
            except _UNFIT as error:
                told = f"kernel {kernel.__name__} does not fit: {_first(error)}"
                raise self.report(KernelFault("resources", told)) from error
        bound = _bound(kernel, args, kwargs)
        sizes = _grid(grid, bound)
        if compiled is not None:
            self._note(kernel, compiled, sizes)
        if self._interpreting and min(sizes) < 1:
            raise self.report(
                KernelFault(
                    "empty", f"kernel {kernel.__name__} is launched with an empty grid {sizes}"
                )
            )
        if min(sizes) >= 1:
            self._interpret(kernel, bound, sizes)
        return compiled

    def _compiled(
        self, stock: Callable[..., Any], kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        plain = [self._pointer(value) for value in args]
        named = {key: self._pointer(value) for key, value in kwargs.items()}
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            try:
                compiled = stock(kernel, *plain, grid=None, warmup=True, **named)
            except CompileTimeAssertionFailure:
                raise
            except CompilationError as error:
                raise self.report(KernelFault("compile", _explained(kernel, error))) from error
        if compiled is None:
            raise self.report(KernelFault("compile", f"kernel {kernel.__name__} was not compiled"))
        limit = self._architecture["limits"]["shared_memory_per_block"]
        if compiled.metadata.shared > limit:
            raise OutOfResources(compiled.metadata.shared, limit, "shared memory")
        return compiled

    def report(self, fault: KernelFault) -> KernelFault:
        """Take note of a fault, even where the candidate catches it, and return it."""
        if fault.kind == "compile" and (also := missing_names(str(fault), NAME)):
            fault = KernelFault(fault.kind, f"{fault}\n{also}")
        self.faults.append(fault)
        return fault

    def _note(self, kernel: Any, compiled: Any, grid: tuple[int, ...]) -> None:
        """Write down a launch of a compiled kernel."""
        key = compiled.hash
        if key in self.kernels:
            self.kernels[key]["launches"] += 1
            return
        code = compiled.asm.get("ptx") or compiled.asm.get("amdgcn")
        file = self._folder / f"{self._architecture['name']}-{len(self.kernels)}.s"
        file.write_text(code)
        metadata = compiled.metadata
        self.kernels[key] = {
            "name": kernel.__name__,
            "file": file.name,
            "shared": int(metadata.shared),
            "warps": int(metadata.num_warps),
            "fused": bool(metadata.enable_fp_fusion),
            "grid": list(grid),
            "launches": 1,
        }

    def _interpret(self, kernel: Any, bound: Mapping[str, Any], grid: tuple[int, int, int]) -> None:
        left = self._deadline - time.process_time()
        if self._compiling and not self._interpreting and left <= 0:
            return
        tensors = list(_tensors(bound))
        real = not any(_absent(tensor) for _, tensor in tensors)
        if not real and self._interpreting:
            return
        regions = [self._region(f"argument {name}", tensor) for name, tensor in tensors]
        pointers = {name: self._pointer(value) for name, value in bound.items()}
        known = {region.start for region in regions}
        extra = [region for start, region in self._extra.items() if start not in known]
        constants = frozenset(param.name for param in kernel.params if param.is_constexpr)
        launch = InterpretedLaunch(
            kernel=kernel,
            bound=pointers,
            constants=constants,
            grid=grid,
            regions=(*regions, *extra),
            real=real and self._interpreting,
        )
        seconds = min(self.seconds, max(left, 0.1))
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            try:
                self._interpreter.run(launch, seconds, sample=not self._interpreting)
            except KernelFault as fault:
                # Without memory loads give zeros: only what follows from addresses counts.
                if self._interpreting or fault.kind == "bounds":
                    raise self.report(fault) from fault.__cause__

    def require_compiling(self, what: str) -> None:
        """Raise `what` where kernels are interpreted: the one at hand cannot be.

        Raises:
            KernelFault: they are.
        """
        if self._interpreting:
            raise self.report(KernelFault("native", what))

    def note_native(self, name: str, grid: Any, threads: int, shared: int, file: str = "") -> None:
        """Note a launch of a kernel that is not interpreted.

        Args:
            file: that holds its machine code, "" where the judge compiles it (CUDA C++).
        """
        what = "its kernels are CuTe DSL" if file else f"kernel {name} is CUDA C++"
        self.require_compiling(f"{what}, which runs on a device only")
        sizes = _grid(grid, {})
        key = f"{name} {sizes} {threads} {shared} {file}"
        entry = {"name": name, "threads": threads, "shared": shared, "launches": 0, "file": file}
        self.natives.setdefault(key, entry)["launches"] += 1

    # Autotuning ----------------------------------------------------------------------------------------

    def _tune(self, tuner: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run an autotuned kernel with the first configuration that fits the device."""
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        configs = tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs
        config = self._choose(tuner, list(configs), args, kwargs)
        tuner.best_config = config
        full = {**tuner.nargs, **kwargs, **config.all_kwargs()}
        if config.pre_hook is not None:
            config.pre_hook(full)
        tuner.pre_hook(full, reset_only=True)
        result = tuner.fn.run(*args, **kwargs, **config.all_kwargs())
        tuner.nargs = None
        return result

    def _choose(
        self, tuner: Any, configs: list[Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        if not self._compiling:
            chosen = self._chosen.get(
                id(tuner)
            )  # a configuration equals others, and compares with no None
            return chosen if chosen is not None and chosen in configs else configs[0]
        last: BaseException | None = None
        for number, config in enumerate(configs):
            try:
                tuner.fn.run(*args, **{**kwargs, **config.all_kwargs(), "warmup": True})
            except _UNFIT as error:
                last = error
                continue
            self._chosen[id(tuner)] = config
            name = tuner.base_fn.__name__
            self.notes.append(
                f"kernel {name}: configuration {number + 1} of {len(configs)}, the first that fits"
            )
            return config
        assert last is not None
        raise last


def _absent(tensor: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor) or tensor.is_meta


def _tensors(bound: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    for name, value in bound.items():
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, TensorDescriptor):
            yield name, value.base
        elif isinstance(value, tuple):
            yield from _tensors({f"{name}[{n}]": item for n, item in enumerate(value)})


def _bound(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    own = {key: value for key, value in kwargs.items() if key in kernel.signature.parameters}
    bound = kernel.signature.bind(*args, **own)
    bound.apply_defaults()
    return dict(bound.arguments)


def _grid(grid: Any, bound: dict[str, Any]) -> tuple[int, int, int]:
    sizes = grid(bound) if callable(grid) else grid
    numbers = [int(size) for size in (sizes if isinstance(sizes, (tuple, list)) else (sizes,))]
    x, y, z = (*numbers, 1, 1, 1)[:3]
    return x, y, z


def _first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _explained(kernel: Any, error: Any) -> str:
    """Return a compiler's error with the line of the candidate's file."""
    node, source = getattr(error, "node", None), getattr(error, "src", None) or ""
    inner = error
    while isinstance(inner.__cause__, CompilationError):
        inner = inner.__cause__  # of a function that the kernel calls
    text = str(inner.error_message or inner.__cause__ or "").strip()
    first = (text.splitlines() or [type(inner).__name__])[0][:300]
    line = getattr(node, "lineno", None)
    if line is None:
        return f"kernel {kernel.__name__} does not compile: {first}"
    lines = source.splitlines()
    shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    start = kernel.starting_line_number
    # The compiler counts from the line of `def`, the file's from the first decorator's.
    above = next(
        (n for n, text in enumerate(kernel.raw_src) if text.lstrip().startswith("def ")), 0
    )
    return f"kernel {kernel.__name__} does not compile: line {start + above + line - 1}: `{shown}`: {first}"
