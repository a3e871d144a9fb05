"""The code that torch.compile writes for a reference, as the source of a candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class Uncaptured(Exception):
    """No candidate can be made of what torch.compile does with a program; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a tensor that the compiled program reads comes from.

    Attributes:
        kind: input, parameter, buffer, attribute (another tensor of the module), global or constant.
        name: position of an input, dotted path in the module, name of a global, empty for a constant.
        strides: in elements, as the program was compiled for.
        data, shape, dtype, device: of a constant.
    """

    kind: str
    name: str
    strides: tuple[int, ...] = ()
    data: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    device: str = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """What torch.compile wrote for a program.

    Attributes:
        code: Inductor's module: the kernels, and the function ``call`` that runs them.
        origins: of the arguments of ``call``, in order.
        constants: tensors that the module expects by name.
        results: for each result of the forward, the position in what ``call`` returns; where it is
            negative, the argument ``-1 - position`` itself. A view has its shape, strides and offset beside.
        mislaid: positions of results that the code does not lay out as eager does, nor contiguously.
        single: the forward returns a tensor, not a tuple.
        flags: g++'s flags for kernels in C++.
        configs: settings of kernels in Triton by name: blocks (``kwargs``), ``num_warps``, ``num_stages``.
        version: torch's.
    """

    code: str
    origins: tuple[Origin, ...]
    constants: Mapping[str, Origin]
    results: tuple[tuple[int, tuple[tuple[int, ...], tuple[int, ...], int] | None], ...]
    mislaid: frozenset[int]
    single: bool
    flags: tuple[str, ...]
    configs: Mapping[str, tuple[Mapping[str, Any], ...]]
    version: str

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Captured:
        """Return what the capturing process told as JSON."""
        results = tuple(
            (place, None if view is None else (tuple(view[0]), tuple(view[1]), view[2]))
            for place, view in told["results"]
        )
        return cls(
            code=told["code"],
            origins=tuple(map(_origin, told["origins"])),
            constants={name: _origin(one) for name, one in told["constants"].items()},
            results=results,
            mislaid=frozenset(told["mislaid"]),
            single=told["single"],
            flags=tuple(told["flags"]),
            configs={name: tuple(listed) for name, listed in told["configs"].items()},
            version=told["version"],
        )


def _origin(told: Mapping[str, Any]) -> Origin:
    lists = ("strides", "data", "shape")
    values: dict[str, Any] = {k: tuple(v) if k in lists else v for k, v in told.items()}
    return Origin(**values)
