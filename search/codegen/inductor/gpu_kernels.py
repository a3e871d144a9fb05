"""The Triton kernels of Inductor's module as plain Triton, and the calls that launch them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from search.codegen.inductor import Uncaptured

_BLOCKS = {"x": "XBLOCK", "y": "YBLOCK", "z": "ZBLOCK"}
_AXES = {"Grid1D": "x", "Grid2D": "xy", "Grid3D": "xyz", "Grid2DWithYZOverflow": "xy"}
_WIDEST = 65535  # blocks along the second axis of a grid


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonKernel:
    """A kernel as Inductor declares it.

    Attributes:
        text: its function, and those that it calls, without Inductor's decorators.
        parameters: of the function, in order.
        axes: of its grid, such as ``xy``.
        written: arguments that it reads and writes.
        configs: the settings that Inductor would choose among, the first its default.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    axes: str
    written: tuple[str, ...]
    configs: tuple[Mapping[str, Any], ...] = ()


def read_kernel(name: str, source: str, configs: Sequence[Mapping[str, Any]]) -> TritonKernel:
    """Read the module that holds one kernel.

    Args:
        configs: blocks (``kwargs``), ``num_warps`` and ``num_stages`` of each setting.

    Raises:
        Uncaptured: the kernel is not as this reader knows them.
    """
    if not configs:
        raise Uncaptured(f"the kernel {name} has no setting")
    return replace(_function(name, source), configs=tuple(configs))


@lru_cache(4096)  # a network has hundreds, and is read anew for each candidate
def _function(name: str, source: str) -> TritonKernel:
    """Return the kernel without settings."""
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    kernels = [node for node in functions if node.name in {name, "triton_"}]
    if len(kernels) != 1:
        raise Uncaptured(f"the kernel {name} has no function")
    (kernel,) = kernels
    told = _told(kernel)
    if told.get("grid_type") not in _AXES:
        raise Uncaptured(f"the kernel {name} has a grid of the kind {told.get('grid_type')}")
    text = "\n\n\n".join(_plain(node) for node in (*functions[: functions.index(kernel)], kernel))
    for helper in functions:
        own = name if helper is kernel else f"{name}{helper.name}"
        text = re.sub(rf"\b{helper.name}\b", own, text)
    return TritonKernel(
        name=name,
        text=text,
        parameters=tuple(argument.arg for argument in kernel.args.args),
        axes=_AXES[told["grid_type"]],
        written=tuple(told.get("mutated_arg_names", ())),
    )


def _told(kernel: ast.FunctionDef) -> dict[str, Any]:
    """Return the plain values that Inductor's decorator has in `inductor_meta`."""
    found: dict[str, Any] = {}
    for node in ast.walk(ast.Module(body=[ast.Expr(value=d) for d in kernel.decorator_list], type_ignores=[])):  # fmt: skip
        if isinstance(node, ast.keyword) and node.arg == "inductor_meta" and isinstance(node.value, ast.Dict):  # fmt: skip
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in ("grid_type", "mutated_arg_names"):  # fmt: skip
                    found[key.value] = ast.literal_eval(value)
    return found


def _plain(function: ast.FunctionDef) -> str:
    bare = ast.FunctionDef(**{**vars(function), "decorator_list": [ast.parse("triton.jit", mode="eval").body]})  # fmt: skip
    return ast.unparse(ast.fix_missing_locations(bare))


def declared(kernel: TritonKernel) -> str:
    """Return the kernel's text; where it has several settings Triton chooses among them when first called."""
    if len(kernel.configs) == 1:
        return kernel.text
    configs = "".join(
        f"        triton.Config({_blocks(kernel, one)!r}, num_warps={one['num_warps']}, "
        f"num_stages={one['num_stages']}),\n"
        for one in kernel.configs
    )
    restored = f", restore_value={list(kernel.written)!r}" if kernel.written else ""
    decorator = f"@triton.autotune(\n    configs=[\n{configs}    ],\n    key=[]{restored},\n)\n"
    head, mark, last = kernel.text.rpartition("@triton.jit")
    return f"{head}{decorator}{mark}{last}"


def launched(kernel: TritonKernel, given: Sequence[ast.expr]) -> ast.expr:
    """Return the call that launches `kernel` with the arguments of Inductor's ``run``.

    Raises:
        Uncaptured: its sizes are not numbers.
    """
    texts = [ast.unparse(one) for one in given]
    sizes = dict(zip(kernel.parameters, texts, strict=False))
    if any(not sizes.get(f"{axis}numel", "1").isdigit() for axis in kernel.axes):
        raise Uncaptured(f"the kernel {kernel.name} is launched with sizes that are no numbers")
    several = len(kernel.configs) > 1
    blocks = _blocks(kernel, kernel.configs[0])
    grid = []
    for axis in kernel.axes:
        count, block = int(sizes[f"{axis}numel"]), _BLOCKS[axis]
        least = min(int(_blocks(kernel, one).get(block, 1)) for one in kernel.configs)
        if axis != "x" and -(-count // least) > _WIDEST:
            raise Uncaptured(
                f"the kernel {kernel.name} has more than {_WIDEST} blocks along {axis}"
            )
        if several and block in blocks:
            grid.append(f"triton.cdiv({count}, meta['{block}'])")
        else:
            grid.append(str(-(-count // int(blocks.get(block, 1)))))
    shape = f"({', '.join(grid)},)"
    if not several:
        first = kernel.configs[0]
        named = {**blocks, "num_warps": first["num_warps"], "num_stages": first["num_stages"]}
        texts += [f"{name}={value}" for name, value in named.items()]
    place = f"lambda meta: {shape}" if several else shape
    return ast.parse(f"{kernel.name}[{place}]({', '.join(texts)})", mode="eval").body


def _blocks(kernel: TritonKernel, config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config["kwargs"].items() if name in kernel.parameters}


def imports(text: str) -> list[str]:
    """Return the imports that kernels need: Triton's, and of Inductor's helpers those that are named."""
    lines = ["import triton", "import triton.language as tl"]
    if re.search(r"\blibdevice\.", text):
        lines.append("from triton.language.extra import libdevice")
    if re.search(r"\btl_math\.", text):
        lines.append("from triton.language import math as tl_math")
    if re.search(r"\btriton_helpers\.", text):
        lines.append("from torch._inductor.runtime import triton_helpers")
    return lines
