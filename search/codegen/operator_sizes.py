"""Sizes of the operators that a recipe computes whole: convolutions, products, pooling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from search.codegen.canonical import OWN
from search.codegen.ir import SHORT, Shape
from search.codegen.lower import LoweredProgram, packet
from search.codegen.operators.factors import FACTORS, factor_name, factor_sizes
from search.codegen.operators.pointwise import arguments
from search.codegen.operators.pools import ADAPTIVE_MAX
from search.codegen.operators.recurrent import GATES, RECURRENCE
from search.costs.graph import Operator, Ref
from search.costs.windows import even_padding

Dims = dict[str, int | str]
_POOLS = ("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "adaptive_max")
_SAMPLES = ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
_MEDIANS = ("median", "nanmedian")
_SCANS = {"cumsum": "sum", "cumprod": "product", "cummax": "max", "cummin": "min"}


def anchor_dims(program: LoweredProgram, operator: Operator) -> tuple[str, Dims] | None:
    """Return the pattern and the sizes of `operator`, None where no recipe computes it."""
    short = operator.dtype in SHORT and program.symbolic
    if not (short or operator.dtype == "float32") or not operator.shape or 0 in operator.shape:
        return None
    names = [ref.name for ref in operator.args if isinstance(ref, Ref)]
    read = program.read(operator)
    nodes = [program.nodes[read[name]] for name in names]
    if not all(node.usable and node.dtype == operator.dtype and not node.mask for node in nodes):
        return None
    shapes = [node.shape for node in nodes]
    kind = packet(operator.target)
    if short:
        return _product(operator, shapes, kind)
    if kind in ("conv2d", "convolution"):
        return _conv(operator, shapes, kind)
    if kind == "conv3d" or kind.startswith("conv_transpose"):
        return _general_conv(operator, shapes, kind)
    return _product(operator, shapes, kind)


def _product(operator: Operator, shapes: list[Shape], kind: str) -> tuple[str, Dims] | None:
    if kind == "linear":
        if len(shapes[1]) != 2 or shapes[2:] not in ([], [shapes[1][:1]]):
            return None  # a weight of one row, or a bias that is broadcast
        return "matmul", _matmul_dims(shapes[0], shapes[1], transposed=1, bias=len(shapes) > 2)
    if kind in ("matmul", "mm", "bmm"):
        return _matmul(shapes[0], shapes[1])
    if kind == "addmm" and not operator.kwargs and len(shapes[0]) == 1:
        return _addmm(shapes)
    return None


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    items = tuple(int(item) for item in value)
    return (items[0], items[0]) if len(items) == 1 else (items[0], items[1])


def _conv(operator: Operator, shapes: list[Shape], kind: str) -> tuple[str, Dims] | None:
    names = ["input", "weight", "bias", "stride", "padding", "dilation"]
    names += ["groups"] if kind == "conv2d" else ["transposed", "output_padding", "groups"]
    values = arguments(operator, *names)
    dilation = _pair(values.get("dilation", 1))
    padding = even_padding(values.get("padding", 0), shapes[1][2:], dilation)
    if len(shapes[0]) != 4 or padding is None or values.get("transposed"):
        return None
    stride, pad = _pair(values.get("stride", 1)), _pair(padding)
    (n, c, h, w), (oc, _, kh, kw) = shapes[0], shapes[1]
    sizes = {"n": n, "c": c, "h": h, "w": w, "oc": oc}
    sizes |= {"oh": operator.shape[2], "ow": operator.shape[3], "kh": kh, "kw": kw}
    sizes |= {"sh": stride[0], "sw": stride[1], "ph": pad[0], "pw": pad[1]}
    sizes |= {"dh": dilation[0], "dw": dilation[1], "groups": int(values.get("groups", 1))}
    sizes |= {"bias": int(len(shapes) > 2)}
    return "conv", {**sizes, **_NO_POOL}


def _general_conv(operator: Operator, shapes: list[Shape], kind: str) -> tuple[str, Dims] | None:
    """A convolution of volumes, or a transposed one: each axis by its letter, of size one where it lacks."""
    turned = kind != "conv3d"
    names = ["input", "weight", "bias", "stride", "padding"]
    names += ["output_padding", "groups", "dilation"] if turned else ["dilation", "groups"]
    values = arguments(operator, *names)
    rank, groups = len(shapes[1]) - 2, int(values.get("groups", 1))
    dilation = values.get("dilation", 1)
    padding = even_padding(values.get("padding", 0), shapes[1][2:], dilation)
    if len(shapes[0]) != rank + 2 or padding is None:
        return None
    sizes: Dims = {"n": shapes[0][0], "c": shapes[0][1], "oc": operator.shape[1], "rank": rank}
    sizes |= {"groups": groups, "bias": int(len(shapes) > 2), "transposed": int(turned), "pool": ""}
    listed = [
        ("i", 1, shapes[0][2:]),
        ("o", 1, operator.shape[2:]),
        ("k", 1, shapes[1][2:]),
        ("s", 1, values.get("stride", 1)),
        ("p", 0, padding),
        ("l", 1, dilation),
    ]
    for letter, neutral, given in listed:
        whole = given * rank if isinstance(given, tuple) and len(given) == 1 else given
        found = (whole,) * rank if isinstance(whole, int) else tuple(int(size) for size in whole)
        for axis, size in zip("dhw", (neutral,) * (3 - rank) + found, strict=True):
            sizes[letter + axis] = size
    return "ndconv", sizes


def any_rank(plane: Mapping[str, int | str]) -> Dims:
    """Return the sizes of a convolution of planes as those of a convolution of volumes of depth one."""
    sizes: Dims = {name: plane[name] for name in ("n", "c", "oc", "groups", "bias")}
    sizes |= {"rank": 2, "transposed": 0, "pool": ""}
    sizes |= {"id": 1, "od": 1, "kd": 1, "sd": 1, "pd": 0, "ld": 1}
    named = {"i": "{}", "o": "o{}", "k": "k{}", "s": "s{}", "p": "p{}", "l": "d{}"}
    return sizes | {
        letter + axis: plane[name.format(axis)] for letter, name in named.items() for axis in "hw"
    }


_NO_POOL: Dims = {
    "pool": "",
    **dict.fromkeys(
        ("pkh", "pkw", "psh", "psw", "pph", "ppw", "poh", "pow", "count_include_pad"), 0
    ),
}


def _matmul_dims(a: Shape, b: Shape, *, transposed: int = 0, bias: bool = False) -> Dims:
    m = math.prod(a[:-1])
    n = b[0] if transposed else b[-1]
    sizes: Dims = {"batch": 1, "m": m, "n": n, "k": a[-1], "b_transposed": transposed}
    return {**sizes, "bias": int(bias), "b_batched": 0}


def _matmul(a: Shape, b: Shape) -> tuple[str, Dims] | None:
    if len(a) < 2 or len(b) < 2:
        return None
    if len(b) == 2:
        return "matmul", _matmul_dims(a, b)
    if a[:-2] != b[:-2]:
        return None
    sizes: Dims = {"batch": math.prod(a[:-2]), "m": a[-2], "n": b[-1], "k": a[-1]}
    return "matmul", {**sizes, "b_transposed": 0, "bias": 0, "b_batched": 1}


def _addmm(shapes: list[Shape]) -> tuple[str, Dims] | None:
    # The bias comes first among the operator's arguments; `operand_order` puts it last.
    if shapes[0] != (shapes[2][-1],):
        return None
    return "matmul", _matmul_dims(shapes[1], shapes[2], bias=True)


def operand_order(operator: Operator, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the operands of an anchor in the order in which its recipe reads them."""
    if packet(operator.target) == "addmm":
        return (*names[1:], names[0])
    return names


def scan_dims(program: LoweredProgram, operator: Operator) -> Dims | None:
    """Return the sizes of a running sum, product or extreme, None where no recipe computes it."""
    target = operator.target.removeprefix(OWN)
    kind = _SCANS.get(packet(target))
    if kind is None or operator.dtype != "float32" or _is_taken_apart(program, operator):
        return None
    values = arguments(operator, "self", "dim", "dtype")
    source = program.nodes[program.read(operator)[values["self"].name]]
    fits = source.usable and not source.mask and not source.integer
    if not fits or values.get("dtype") not in (None, "float32") or 0 in operator.shape:
        return None
    shape = source.shape
    if not shape:
        return None
    dim = int(values["dim"]) % len(shape)
    sizes: Dims = {"scan": kind, "reverse": int(target != operator.target)}
    sizes |= {"rows": math.prod(shape[:dim]) * math.prod(shape[dim + 1 :])}
    return {**sizes, "dim": dim, "length": shape[dim], "inner": math.prod(shape[dim + 1 :])}


def recurrence_dims(program: LoweredProgram, operator: Operator) -> Dims | None:
    """Return the sizes of a recurrence over the steps of a sequence, None of another operator."""
    del program
    if not operator.target.startswith(RECURRENCE):
        return None
    kind, given = operator.target.rpartition(".")[2], dict(operator.kwargs)
    steps = operator.shape[-3:-1]
    sizes: Dims = {"kind": kind, "gates": GATES[kind], "hidden": operator.shape[-1]}
    sizes |= {"steps": steps[given["time"]], "batch": steps[1 - given["time"]]}
    sizes |= {"cells": int(len(operator.shape) > 3)}
    sizes |= {"time": given["time"], "backwards": given["backwards"]}
    return {**sizes, "bias": given["biases"], "starts": given["starts"]}


def place_dims(program: LoweredProgram, operator: Operator) -> Dims | None:
    """Return the sizes of a search for the place of an extreme, None where no recipe computes it."""
    kind = packet(operator.target)
    values = arguments(operator, "self", "dim", "keepdim")
    if kind not in ("argmax", "argmin") or operator.dtype != "int64":
        return None
    source = program.nodes[program.read(operator)[values["self"].name]]
    shape = source.shape
    if not source.usable or source.mask or source.integer or 0 in shape or not shape:
        return None
    kept = int(bool(values.get("keepdim")))
    return {"extreme": kind[3:], **_lines(shape, values.get("dim")), "kept": kept}


def _lines(shape: Shape, dim: int | None) -> Dims:
    """Return the sizes of the lines along `dim`; None means that all elements are one line."""
    if dim is None or not shape:
        rows, length, inner, dim = 1, math.prod(shape), 1, -1
    else:
        dim = int(dim) % len(shape)
        inner, length = math.prod(shape[dim + 1 :]), shape[dim]
        rows = math.prod(shape[:dim]) * inner
    return {"rows": rows, "length": length, "inner": inner, "dim": dim, "rank": len(shape)}


def select_dims(program: LoweredProgram, operator: Operator) -> Dims | None:
    """Return the sizes of a median, None where no recipe computes it.

    ``values`` and ``places`` are the numbers of these results among those that are wanted, -1 of one that is not.
    """
    kind = packet(operator.target)
    if kind not in _MEDIANS or operator.dtype != "float32":
        return None
    values = arguments(operator, "self", "dim", "keepdim")
    shape, dim = _float_shape(program, operator), values.get("dim")
    if shape is None or isinstance(dim, str):
        return None
    taken = [0] if dim is None else _taken(program, operator)
    if len({*taken}) != len(taken):
        return None
    found = {
        name: taken.index(at) if at in taken else -1 for at, name in enumerate(("values", "places"))
    }
    sizes: Dims = {"nan": int(kind == "median"), "kept": int(bool(values.get("keepdim")))}
    return {**sizes, **_lines(shape, dim), **found}


def histogram_dims(program: LoweredProgram, operator: Operator) -> Dims | None:
    """Return the sizes of a histogram, None where no recipe computes it.

    ``low`` and ``high`` are its bounds as text; where they are the same, the elements' least and greatest are.
    """
    if packet(operator.target) != "histc" or operator.dtype != "float32":
        return None
    values = arguments(operator, "self", "bins", "min", "max")
    shape = _float_shape(program, operator)
    low, high = float(values.get("min", 0)), float(values.get("max", 0))
    if shape is None or not math.isfinite(low) or not math.isfinite(high) or low > high:
        return None
    sizes: Dims = {"bins": int(values.get("bins", 100)), "low": repr(low), "high": repr(high)}
    return {**sizes, **_lines(shape, None)}


def pairs_dims(program: LoweredProgram, operator: Operator) -> Dims | None:
    """Return the sizes of the distances between all pairs of rows; ``order`` is that of the norm, as text."""
    if packet(operator.target) not in ("pdist", "_pdist_forward") or operator.dtype != "float32":
        return None
    shape = _float_shape(program, operator)
    if shape is None or 0 in operator.shape:
        return None
    order = float(arguments(operator, "self", "p").get("p", 2.0))
    return {"order": repr(order), **_lines(shape, -1)}


def sample_dims(program: LoweredProgram, operator: Operator) -> Dims | None:
    """Return the sizes of samples at places that a grid gives, by axis; a plane has a depth of one."""
    if packet(operator.target) not in _SAMPLES or operator.dtype != "float32":
        return None
    values = arguments(operator, "self", "grid", "mode", "padding", "corners")
    read = program.read(operator)
    nodes = [program.nodes[read[values[name].name]] for name in ("self", "grid")]
    whole = (node.usable and node.dtype == "float32" and not node.mask for node in nodes)
    if not all(whole) or 0 in (*operator.shape, *nodes[0].shape):
        return None
    rank = len(operator.shape) - 2
    sizes: Dims = {"rank": rank, "n": operator.shape[0], "c": operator.shape[1]}
    for letter, shape in (("i", nodes[0].shape), ("o", operator.shape)):
        for axis, size in zip("dhw", (1,) * (3 - rank) + shape[2:], strict=True):
            sizes[letter + axis] = size
    sizes["mode"] = ("bilinear", "nearest", "bicubic")[values["mode"]]
    sizes["padding"] = ("zeros", "border", "reflection")[values["padding"]]
    return {**sizes, "corners": int(bool(values["corners"]))}


def factor_dims(program: LoweredProgram, operator: Operator) -> Dims | None:
    """Return the sizes of a factorisation of matrices, None where no recipe computes it."""
    if factor_name(operator.target) not in FACTORS:
        return None
    source = program.nodes[program.read(operator)[operator.args[0].name]]
    return factor_sizes(operator, source, _taken(program, operator))


def _taken(program: LoweredProgram, operator: Operator) -> list[int]:
    """Return the numbers of those results of `operator` that are taken, in order."""
    users = (program.operators.get(name) for name in program.users[operator.name])
    return [user.args[1] for user in users if user is not None and user.target == "getitem"]


def _float_shape(program: LoweredProgram, operator: Operator) -> Shape | None:
    """Return the shape of the float32 elements that `operator` reads; None where it reads others, or none."""
    source = program.nodes[program.read(operator)[operator.args[0].name]]
    fits = source.usable and source.dtype == "float32" and not source.mask and not source.integer
    return source.shape if fits and 0 not in source.shape else None


def _is_taken_apart(program: LoweredProgram, operator: Operator) -> bool:
    """Return whether several results of `operator` are read, each by its number."""
    users = (program.nodes[name].operator for name in program.users[operator.name])
    return any(program.operators[user].target == "getitem" for user in users if user)


def pool_dims(program: LoweredProgram, operator: Operator) -> Dims | None:
    """Return the sizes of a pooling over planes, None where no recipe computes it.

    ``uneven_h`` and ``uneven_w`` say of an axis that its windows are those of a pooling to a given size which
    does not divide the axis: window q of Q reaches from q X / Q, rounded down, to (q + 1) X / Q, rounded up.
    ``ceil`` says that the last window may reach beyond the padding.
    """
    kind = packet(operator.target)
    if operator.target == ADAPTIVE_MAX:
        kind = "adaptive_max"
    if kind not in _POOLS or operator.dtype != "float32":
        return None
    source = program.nodes[program.read(operator)[operator.args[0].name]]
    if len(source.shape) != 4 or not source.usable or 0 in operator.shape:
        return None
    n, c, h, w = source.shape
    given = kind.startswith("adaptive")
    found = _given_size(operator, (h, w)) if given else _given_windows(operator)
    if found is None:
        return None
    sizes: Dims = {"pool": kind.removeprefix("adaptive_")[:3], "rows": n * c, "ih": h, "iw": w}
    return {**sizes, "poh": operator.shape[2], "pow": operator.shape[3], **found}


def _given_windows(operator: Operator) -> Dims | None:
    names = ["self", "kernel", "stride", "padding"]
    if packet(operator.target) == "max_pool2d":
        values = arguments(operator, *names, "dilation", "ceil_mode")
        fits = _pair(values.get("dilation", 1)) == (1, 1)
    else:
        values = arguments(operator, *names, "ceil_mode", "count_include_pad", "divisor_override")
        fits = values.get("divisor_override") is None
    if not fits:
        return None
    kernel, pad = _pair(values["kernel"]), _pair(values.get("padding", 0))
    stride = _pair(values.get("stride") or kernel)
    sizes: Dims = {"pkh": kernel[0], "pkw": kernel[1], "psh": stride[0], "psw": stride[1]}
    sizes |= {"pph": pad[0], "ppw": pad[1], "uneven_h": 0, "uneven_w": 0}
    sizes["ceil"] = int(bool(values.get("ceil_mode", False)))
    return {**sizes, "count_include_pad": int(bool(values.get("count_include_pad", True)))}


def _given_size(operator: Operator, planes: tuple[int, int]) -> Dims:
    """Return the windows of a pooling to a given size; of an uneven axis the largest, and a stride of 0."""
    sizes: Dims = {"pph": 0, "ppw": 0, "ceil": 0, "count_include_pad": 0}
    for axis, old, new in zip("hw", planes, operator.shape[2:], strict=True):
        uneven, each = old % new > 0, old // new
        largest = (2 * new - math.gcd(old, new) + old - 1) // new
        sizes |= {f"pk{axis}": largest if uneven else each, f"ps{axis}": 0 if uneven else each}
        sizes[f"uneven_{axis}"] = int(uneven)
    return sizes
