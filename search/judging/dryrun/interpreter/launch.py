"""Runs one launch of a kernel in Triton's interpreter, program by program, and watches it."""

from __future__ import annotations

import inspect
import random
import signal
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter, jit
from triton.tools.tensor_descriptor import TensorDescriptor

from search.judging.dryrun.interpreter import libdevice, quick_types, reductions
from search.judging.dryrun.interpreter.builder import CheckedBuilder, peek
from search.judging.dryrun.interpreter.memory import AccessWatch, ArgumentRegion, KernelFault

_CORNERS = 8  # programs of a sampled launch, besides those at its ends


@dataclass(frozen=True, slots=True)
class Pointer:
    """A tensor as a kernel sees it: an address and an element type."""

    dtype: torch.dtype
    address: int
    size: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def data_ptr(self) -> int:
        """Return the address, as Triton asks for it."""
        return self.address

    def ptr_range(self) -> int:
        """Return the bytes behind the address, as Triton's AMD back end asks for them."""
        return self.size

    def stride(self) -> tuple[int, ...]:
        """Return the strides in elements."""
        return self.strides


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpretedLaunch:
    """A kernel with its arguments.

    Attributes:
        bound: every parameter by name, tensors replaced by `Pointer`.
        constants: names of parameters that are compiled in.
        real: whether the pointers lead to memory.
    """

    kernel: Any
    bound: Mapping[str, Any]
    constants: frozenset[str]
    grid: tuple[int, int, int]
    regions: tuple[ArgumentRegion, ...]
    real: bool


class Interpreter:
    """Interprets kernels, and makes jitted functions callable from interpreted kernels."""

    def __init__(self) -> None:
        self.builder = CheckedBuilder()
        self._semantic = TritonSemantic(self.builder)
        self._rewritten: dict[int, Callable[..., Any]] = {}
        self._scope: Any = None
        self._depth = 0
        jit.JITFunction.__call__ = _method(self._device_function)

    def run(self, launch: InterpretedLaunch, seconds: float, *, sample: bool = False) -> int:
        """Run the programs of a launch, all or a sample, and return how many.

        Raises:
            KernelFault: a program did what none may, or the time was up.
        """
        memory = AccessWatch(launch.regions, peek if launch.real else None)
        builder = self.builder
        builder.memory, builder.real, builder.volatile = memory, launch.real, False
        name = launch.kernel.__name__
        done = 0
        with self._language(), np.errstate(all="ignore"):
            function = self._function(launch.kernel)
            arguments = {
                key: value if key in launch.constants else self._converted(value)
                for key, value in launch.bound.items()
            }
            builder.set_grid_dim(*launch.grid)
            places = _programs(launch.grid, sample=sample)
            with _deadline(seconds):
                for place in places:
                    builder.set_grid_idx(*place)
                    memory.program = _number(place, launch.grid)
                    try:
                        function(**arguments)
                    except KernelFault as fault:
                        if not self._follows_from_addresses(fault, function, arguments):
                            continue
                        raise _placed(fault, name, place) from fault
                    except _Late:
                        raise self._late(name, place, done, launch.grid, seconds) from None
                    except Exception as error:
                        raise _raised(error, name, place) from error
                    done += 1
        return done

    def _follows_from_addresses(
        self, fault: KernelFault, function: Callable[..., Any], arguments: Mapping[str, Any]
    ) -> bool:
        """Say whether a fault has nothing to do with the values that stand for absent memory.

        An index that was loaded may be one less or a pointer: other values lead elsewhere.
        """
        if self.builder.real or fault.kind != "bounds":
            return True
        self.builder.filler = 1
        try:
            function(**arguments)
        except KernelFault as other:
            return str(other) == str(fault)
        except Exception:  # noqa: BLE001 - the candidate's kernel on values that it never meets
            return False
        finally:
            self.builder.filler = 0
        return False

    def _late(
        self, name: str, place: tuple[int, ...], done: int, grid: tuple[int, ...], seconds: float
    ) -> KernelFault:
        total = grid[0] * grid[1] * grid[2]
        if self.builder.memory.atomic or self.builder.volatile:
            return KernelFault(
                "spins",
                f"kernel {name} waits for other programs in program {place}, and the interpreter runs "
                "one after the other",
            )
        if done:
            return KernelFault(
                "slow",
                f"the interpreter had run {done} of {total} programs of kernel {name} when the time of a "
                "call was up",
            )
        return KernelFault(
            "endless", f"kernel {name} was still in program {place} after {seconds:.0f} s"
        )

    # The language in Python ----------------------------------------------------------------------

    @contextmanager
    def _language(self) -> Iterator[None]:
        """Let Triton's functions compute; undone afterwards, or nothing could be compiled any more."""
        if self._scope is not None:
            yield
            return
        interpreter.interpreter_builder = self.builder
        seen = types.SimpleNamespace(__globals__={"tl": tl, "core": tl.core})
        self._scope = scope = interpreter._patch_lang(seen)
        try:
            quick_types.install(scope.set_attr)
            for language in (tl, tl.core):
                scope.set_attr(language, "reduce", reductions.reduce)
                scope.set_attr(language, "associative_scan", reductions.scan)
            # A tensor of one element is a number: newer versions of numpy convert no array.
            scope.set_attr(tl.tensor, "__index__", lambda self: int(self.handle.data.item()))
            for name, member in list(vars(tl.tensor).items()):
                if isinstance(member, jit.JITFunction):
                    scope.set_attr(tl.tensor, name, _method(member))
            for module in libdevice.modules():
                for name, member in list(vars(module).items()):
                    if callable(member) and not name.startswith("_"):
                        scope.set_attr(module, name, libdevice.stand_in(name))
            yield
        finally:
            self._scope = None
            scope.restore()

    def _function(self, kernel: Any) -> Callable[..., Any]:
        """Return a kernel's Python function, rewritten once so that its values are tensors."""
        key = id(kernel)
        if key not in self._rewritten:
            rewriter = _Rewriter(kernel.fn)
            rewriter.names = self._names(kernel.fn)
            self._rewritten[key] = rewriter.rewrite_ast()
        return self._rewritten[key]

    def _names(self, function: Any) -> dict[str, Any]:
        """Return the names that a kernel sees, those that it imported by themselves made to compute."""
        closure = inspect.getclosurevars(function).nonlocals
        names = {**function.__globals__, **closure, "interpreter_semantic": self._semantic}
        libraries = {module.__name__ for module in libdevice.modules()}
        for name, value in list(names.items()):
            if inspect.isfunction(value) and tl.core.is_builtin(value):
                names[name] = self._computing(value)
            elif getattr(value, "__module__", None) in libraries and callable(value):
                names[name] = libdevice.stand_in(getattr(value, "__name__", name))
        return names

    def _computing(self, builtin: Any) -> Callable[..., Any]:
        # The module's attribute is patched while kernels run; a name bound before is not.
        def call(*arguments: Any, **named: Any) -> Any:
            patched = getattr(tl.core, builtin.__name__, None) or getattr(
                tl.math, builtin.__name__, None
            )
            if patched is not None and patched is not builtin:
                return patched(*arguments, **named)
            named.pop("_semantic", None)
            return builtin(*arguments, **named, _semantic=self._semantic)

        return call

    def _device_function(self, kernel: Any, *arguments: Any, **named: Any) -> Any:
        """Call a jitted function from within a kernel."""
        if self._scope is None:
            raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")
        named.pop("_semantic", None)
        return self._function(kernel)(*arguments, **named)

    def _converted(self, value: Any) -> Any:
        if isinstance(value, TensorDescriptor):
            return self._semantic.make_tensor_descriptor(
                base=self._converted(value.base),
                shape=[interpreter._implicit_cvt(int(size)) for size in value.shape],
                strides=[
                    *(interpreter._implicit_cvt(int(stride)) for stride in value.strides[:-1]),
                    tl.constexpr(1),
                ],
                block_shape=[tl.constexpr(size) for size in value.block_shape],
                padding_option=value.padding,
            )
        if isinstance(value, tuple):
            return interpreter._tuple_create(value, map(self._converted, value))
        if isinstance(value, bool):
            return interpreter._implicit_cvt(int(value))
        return interpreter._implicit_cvt(value)


class _Rewriter(interpreter.FunctionRewriter):  # type: ignore[misc]  # Triton has no types
    """Rewrites a kernel into a namespace of its own: the candidate's module stays as it is."""

    names: dict[str, Any]

    def _compile_and_exec(self, transformed_ast: Any) -> Any:
        code = compile(transformed_ast, filename=self.filename, mode="exec")
        made: dict[str, Any] = {}
        exec(code, self.names, made)  # noqa: S102 - the candidate's own kernel, in its own process
        return made[self.fn.__name__]


def _method(function: Any) -> Callable[..., Any]:
    # A jitted function is no descriptor: as an attribute of the class it would lose the tensor.
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return function(self, *arguments, **named)

    return call


class _Late(BaseException):
    """The time of a launch is up."""


@contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    def late(*_: object) -> None:
        raise _Late

    # Of this process: what others do on the machine is no fault of the kernel's.
    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _programs(grid: Sequence[int], *, sample: bool) -> Iterator[tuple[int, int, int]]:
    """Yield the programs of a grid as hardware starts them, or those where bounds are crossed first."""
    total = grid[0] * grid[1] * grid[2]
    if not sample or total <= 2 * _CORNERS:
        yield from (_place(number, grid) for number in range(total))
        return
    ends = {(x, y, z) for x in (0, grid[0] - 1) for y in (0, grid[1] - 1) for z in (0, grid[2] - 1)}
    rng = random.Random(0)
    drawn = (_place(rng.randrange(total), grid) for _ in range(_CORNERS))
    yield from dict.fromkeys([*sorted(ends, reverse=True), *drawn])


def _place(number: int, grid: Sequence[int]) -> tuple[int, int, int]:
    rest, x = divmod(number, grid[0])
    z, y = divmod(rest, grid[1])
    return x, y, z


def _number(place: Sequence[int], grid: Sequence[int]) -> int:
    return place[0] + grid[0] * (place[1] + grid[1] * place[2])


def _placed(fault: KernelFault, name: str, place: tuple[int, ...]) -> KernelFault:
    if str(fault).startswith("kernel "):
        return fault
    return KernelFault(fault.kind, f"kernel {name}, program {place}{_line(fault)} {fault}")


def _raised(error: Exception, name: str, place: tuple[int, ...]) -> KernelFault:
    first = (str(error).strip().splitlines() or [""])[0][:300]
    return KernelFault(
        "raised",
        f"kernel {name}, program {place}{_line(error)} raised {type(error).__name__}: {first}",
    )


def _line(error: BaseException) -> str:
    """Return the candidate's innermost line of a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.endswith("candidate.py")]
    return f", line {own[-1].lineno}:" if own else ":"
