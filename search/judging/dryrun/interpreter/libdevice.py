"""NVIDIA's and AMD's device library for the interpreter: each function by what torch or numpy computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from search.judging.dryrun.interpreter.low_precision import decode, encode, is_narrow
from search.judging.dryrun.interpreter.memory import KernelFault

_SAME = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "fmod",
    "floor",
    "hypot",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "nextafter",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
_OTHER: dict[str, Callable[..., torch.Tensor]] = {
    "fabs": torch.abs,
    "fast_expf": torch.exp,
    "fast_exp10f": lambda x: torch.pow(10.0, x),
    "fast_logf": torch.log,
    "fast_log2f": torch.log2,
    "fast_log10f": torch.log10,
    "fast_sinf": torch.sin,
    "fast_cosf": torch.cos,
    "fast_tanf": torch.tan,
    "fast_tanhf": torch.tanh,
    "fast_powf": torch.pow,
    "fast_dividef": torch.div,
    "fast_fdividef": torch.div,
    "exp10": lambda x: torch.pow(10.0, x),
    "pow": torch.pow,
    "cbrt": lambda x: torch.sign(x) * torch.abs(x) ** (1 / 3),
    "rcbrt": lambda x: torch.sign(x) * torch.abs(x) ** (-1 / 3),
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "max": torch.maximum,
    "min": torch.minimum,
    "fdim": lambda x, y: torch.clamp(x - y, min=0),
    "fma": lambda x, y, z: x * y + z,
    "fma_rn": lambda x, y, z: x * y + z,
    "add_rn": torch.add,
    "sub_rn": torch.sub,
    "mul_rn": torch.mul,
    "div_rn": torch.div,
    "rcp_rn": torch.reciprocal,
    "sqrt_rn": torch.sqrt,
    "rint": torch.round,
    "nearbyint": torch.round,
    "round": lambda x: torch.trunc(x + torch.copysign(torch.full_like(x, 0.5), x)),
    "copysign": torch.copysign,
    "tgamma": lambda x: torch.exp(torch.lgamma(x)),
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "erfcx": torch.special.erfcx,
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "sinpi": lambda x: torch.sin(x * np.pi),
    "cospi": lambda x: torch.cos(x * np.pi),
    "saturatef": lambda x: torch.clamp(torch.nan_to_num(x, 0.0), 0.0, 1.0),
    "remainder": lambda x, y: x - y * torch.round(x / y),
    "popc": lambda x: torch.tensor(np.bitwise_count(x.numpy().astype(np.uint64)).astype(np.int32)),
}
_PREDICATES: dict[str, Callable[..., torch.Tensor]] = {
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "isfinited": torch.isfinite,
    "finitef": torch.isfinite,
    "signbit": torch.signbit,
}


def modules() -> Iterator[Any]:
    """Yield the modules through which kernels reach the library."""
    from triton.language.extra import cuda, hip, libdevice

    yield libdevice
    yield cuda.libdevice
    yield hip.libdevice


def stand_in(name: str) -> Callable[..., Any]:
    """Return a function that computes library function `name` on the interpreter's tensors."""
    known: dict[str, Callable[..., torch.Tensor]] = {
        **{same: getattr(torch, same) for same in _SAME},
        **_OTHER,
        **_PREDICATES,
    }
    compute = known.get(name)

    def call(*arguments: Any, **_: Any) -> Any:
        if compute is None:
            raise KernelFault("unsupported", f"libdevice.{name} is not interpreted")
        return _apply(compute, arguments, predicate=name in _PREDICATES)

    return call


def _apply(compute: Callable[..., torch.Tensor], arguments: Any, *, predicate: bool) -> Any:
    first = next(x for x in arguments if isinstance(x, tl.core.tensor))
    kind = first.dtype.scalar
    shape = np.broadcast_shapes(
        *(x.handle.data.shape for x in arguments if isinstance(x, tl.core.tensor))
    )
    result = compute(*(_value(x, shape) for x in arguments)).numpy()
    if predicate:
        kind, data = tl.int32, result.astype(np.int32)
    elif is_narrow(kind):
        data = encode(result, kind)
    elif result.dtype == np.int32:
        kind, data = tl.int32, result
    else:
        data = result.astype(first.handle.data.dtype)
    whole = tl.block_type(kind, list(shape)) if first.type.is_block() else kind
    return tl.core.tensor(TensorHandle(data, kind), whole)


def _value(argument: Any, shape: Any) -> torch.Tensor:
    if not isinstance(argument, tl.core.tensor):
        plain = getattr(argument, "value", argument)
        return torch.full(shape, plain)
    data = argument.handle.data
    if is_narrow(argument.dtype):
        data = decode(data, argument.dtype)
    return torch.from_numpy(np.array(np.broadcast_to(data, shape)))
