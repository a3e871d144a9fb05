"""Reductions and normalisations as primitive nodes: shifted variance, never E[x^2] - m^2."""

from __future__ import annotations

import math
import operator as python
from typing import Any

from search.codegen import expressions as ir
from search.codegen.ir import IrBuilder, IrNode, Shape, Unsupported
from search.codegen.operators.pointwise import Formula, Rule, arguments, number
from search.costs.graph import Operator, Ref

_RUNNING = ("cummax.", "cummin.")


def _float(builder: IrBuilder, argument: Any) -> IrNode:
    node = builder.operand(argument)
    if node.mask:
        raise Unsupported
    return node


def _dims(value: Any, rank: int) -> tuple[int, ...]:
    if value is None or value == ():
        return tuple(range(rank))
    given = (value,) if isinstance(value, int) else value
    if any(isinstance(dim, Ref) for dim in given):
        raise Unsupported
    return tuple(sorted(int(dim) % max(rank, 1) for dim in given))


def _count(node: IrNode, dims: tuple[int, ...]) -> int:
    return math.prod(node.shape[dim] for dim in dims)


def mean(builder: IrBuilder, node: IrNode, dims: tuple[int, ...]) -> IrNode:
    """Add the mean over `dims`; where sizes are known it is a sum and a division."""
    if builder.symbolic:
        return builder.reduce(ir.MEAN, node, dims)
    count = _count(node, dims)
    return builder.map(lambda total: total / count, builder.reduce(ir.SUM, node, dims))


def _reduce(
    builder: IrBuilder, reduction: ir.Reduction, node: IrNode, dims: tuple[int, ...]
) -> IrNode:
    return (
        mean(builder, node, dims) if reduction == ir.MEAN else builder.reduce(reduction, node, dims)
    )


def _reduction(reduction: ir.Reduction) -> Rule:
    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        values = arguments(operator, "self", "dim", "keepdim")
        if values.get("dtype") not in (None, "float32", "torch.float32"):
            raise Unsupported
        node = _float(builder, values["self"])
        dims = _dims(values.get("dim"), len(node.shape))
        return builder.view(_reduce(builder, reduction, node, dims), operator.shape)

    return rule


def _of_numbers(builder: IrBuilder, operator: Operator) -> IrNode:
    """The sum, or the mean, of what is no NaN."""
    values = arguments(operator, "self", "dim")
    if values.get("dtype") not in (None, "float32", "torch.float32"):
        raise Unsupported
    node = _float(builder, values["self"])
    dims = _dims(values.get("dim"), len(node.shape))
    kept = builder.map(lambda x: ir.select(ir.differ(x, x), 0.0, x), node)
    found = builder.reduce(ir.SUM, kept, dims)
    if operator.target.startswith("nanmean"):
        ones = builder.map(lambda x: ir.number_of(ir.equal(x, x)), node)
        found = builder.map(python.truediv, found, builder.reduce(ir.SUM, ones, dims))
    return builder.view(found, operator.shape)


def _extreme(reduction: ir.Reduction, pair: Rule) -> Rule:
    """`max` and `min`: of two tensors, or of elements; where indices are wanted they stay whole."""

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        if len(operator.args) == 2 and isinstance(operator.args[1], Ref):
            return pair(builder, operator)
        values = arguments(operator, "self", "dim", "keepdim")
        if "dim" in values and not builder.only_first(operator):
            raise Unsupported
        node = _float(builder, operator.args[0])
        dims = _dims(values.get("dim"), len(node.shape))
        return builder.view(builder.reduce(reduction, node, dims), operator.shape)

    return rule


def _item(builder: IrBuilder, operator: Operator) -> IrNode:
    """The first of several results, where it is the only one that is computed; what was broadcast."""
    several = builder.operators[operator.args[0].name]
    if several.target == "broadcast_tensors.default":
        chosen = several.args[0][operator.args[1]]
        return builder.expand(_float(builder, chosen), operator.shape)
    node = _float(builder, operator.args[0])
    # Of a running extreme without its places a recipe computes the first result alone.
    alone = several.target.startswith(_RUNNING) and builder.only_first(several) and node.numel > 0
    if (node.kind == "opaque" and not alone) or operator.args[1] != 0:
        raise Unsupported
    return node


def _variance(builder: IrBuilder, node: IrNode, dims: tuple[int, ...], correction: float) -> IrNode:
    squares = builder.map(ir.square, builder.map(python.sub, node, mean(builder, node, dims)))
    if builder.symbolic:
        return builder.reduce(ir.Reduction("Sum", mean=True, correction=correction), squares, dims)
    divisor = max(_count(node, dims) - correction, 0.0)
    return builder.map(lambda total: total / divisor, builder.reduce(ir.SUM, squares, dims))


def _spread(formula: Formula) -> Rule:
    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        values = arguments(operator, "self", "dim")
        if isinstance(values.get("dim"), bool):  # the overload whose argument says `unbiased`
            values["correction"] = int(values.pop("dim"))
        elif len(operator.args) > 2 and isinstance(operator.args[2], bool):
            values["correction"] = int(operator.args[2])
        node = _float(builder, values["self"])
        correction = number(values.get("correction"), 1.0)
        if "unbiased" in values:
            correction = float(values["unbiased"])
        found = _variance(builder, node, _dims(values.get("dim"), len(node.shape)), correction)
        return builder.view(builder.map(formula, found), operator.shape)

    return rule


def _norm(builder: IrBuilder, operator: Operator) -> IrNode:
    names = ("self", "ord", "dim", "keepdim")
    values = arguments(operator, *names)
    order = number(values.get("ord", values.get("p")), 2.0)
    if values.get("dtype") is not None:
        raise Unsupported
    node = _float(builder, values["self"])
    dims = _dims(values.get("dim"), len(node.shape))
    if order == 2:
        total = builder.reduce(ir.SUM, builder.map(ir.square, node), dims)
        return builder.view(builder.map(ir.sqrt, total), operator.shape)
    if order == 0:
        some = builder.map(lambda x: ir.number_of(ir.differ(x, ir.term(0.0))), node)
        return builder.view(builder.reduce(ir.SUM, some, dims), operator.shape)
    reductions = {1.0: ir.SUM, math.inf: ir.MAX, -math.inf: ir.MIN}
    if order not in reductions:
        raise Unsupported
    size = builder.map(ir.absolute, node)
    return builder.view(builder.reduce(reductions[order], size, dims), operator.shape)


def _exponentials(builder: IrBuilder, node: IrNode, dims: tuple[int, ...]) -> tuple[IrNode, IrNode]:
    """Return the shifted operand and the sum of its exponentials."""
    shifted = builder.map(python.sub, node, builder.reduce(ir.MAX, node, dims))
    return shifted, builder.reduce(ir.SUM, builder.map(ir.exp, shifted), dims)


def _softmax(builder: IrBuilder, operator: Operator) -> IrNode:
    node = _float(builder, operator.args[0])
    dims = _dims(operator.args[1], len(node.shape))
    highest = builder.reduce(ir.MAX, node, dims)
    powers = builder.map(ir.exp, builder.map(python.sub, node, highest))
    # One division a row; the product differs from the quotient by a rounding.
    scale = builder.map(lambda total: 1 / total, builder.reduce(ir.SUM, powers, dims))
    return builder.map(python.mul, powers, scale)


def _log_softmax(builder: IrBuilder, operator: Operator) -> IrNode:
    node = _float(builder, operator.args[0])
    shifted, total = _exponentials(builder, node, _dims(operator.args[1], len(node.shape)))
    return builder.map(python.sub, shifted, builder.map(ir.log, total))


def _logsumexp(builder: IrBuilder, operator: Operator) -> IrNode:
    node = _float(builder, operator.args[0])
    dims = _dims(operator.args[1], len(node.shape))
    # An infinite maximum would make infinity minus infinity.
    finite = builder.map(ir.finite_or_zero, builder.reduce(ir.MAX, node, dims))
    powers = builder.map(lambda x, top: ir.exp(x - top), node, finite)
    total = builder.reduce(ir.SUM, powers, dims)
    found = builder.map(lambda total, top: ir.log(total) + top, total, finite)
    return builder.view(found, operator.shape)


def _normalise(builder: IrBuilder, node: IrNode, dims: tuple[int, ...], eps: float) -> IrNode:
    centred = builder.map(python.sub, node, mean(builder, node, dims))
    variance = mean(builder, builder.map(ir.square, centred), dims)
    scale = builder.map(lambda spread: ir.rsqrt(spread + eps), variance)
    return builder.map(python.mul, centred, scale)


def _affine(
    builder: IrBuilder, node: IrNode, weight: Any, bias: Any, shape: Shape | None = None
) -> IrNode:
    for argument, formula in ((weight, python.mul), (bias, python.add)):
        if argument is not None:
            parameter = _float(builder, argument)
            node = builder.map(formula, node, builder.view(parameter, shape or parameter.shape))
    return node


def _layer_norm(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "input", "normalized_shape", "weight", "bias", "eps")
    node = _float(builder, values["input"])
    rank = len(node.shape)
    dims = tuple(range(rank - len(values["normalized_shape"]), rank))
    result = _normalise(builder, node, dims, number(values.get("eps"), 1e-5))
    return _affine(builder, result, values.get("weight"), values.get("bias"))


def _rms_norm(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "input", "normalized_shape", "weight", "eps")
    node = _float(builder, values["input"])
    rank = len(node.shape)
    dims = tuple(range(rank - len(values["normalized_shape"]), rank))
    eps = number(values.get("eps"), 1.1920928955078125e-07)
    power = mean(builder, builder.map(ir.square, node), dims)
    scale = builder.map(lambda power: ir.rsqrt(power + eps), power)
    return _affine(builder, builder.map(python.mul, node, scale), values.get("weight"), None)


def _channels(node: IrNode) -> Shape:
    return (1, node.shape[1], *(1 for _ in node.shape[2:]))


def _group_norm(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "input", "num_groups", "weight", "bias", "eps")
    node = _float(builder, values["input"])
    groups = (node.shape[0], int(number(values["num_groups"])))
    rows = builder.view(node, (*groups, node.numel // max(1, math.prod(groups))))
    result = _normalise(builder, rows, (2,), number(values.get("eps"), 1e-5))
    result = builder.view(result, node.shape)
    return _affine(builder, result, values.get("weight"), values.get("bias"), _channels(node))


def _instance_norm(builder: IrBuilder, operator: Operator) -> IrNode:
    names = ("input", "weight", "bias", "mean", "var", "use_input_stats", "momentum", "eps")
    values = arguments(operator, *names)
    if not values["use_input_stats"] or values.get("mean") is not None:
        raise Unsupported
    node = _float(builder, values["input"])
    dims = tuple(range(2, len(node.shape)))
    result = _normalise(builder, node, dims, number(values.get("eps"), 1e-5))
    return _affine(builder, result, values.get("weight"), values.get("bias"), _channels(node))


def _batch_norm(builder: IrBuilder, operator: Operator) -> IrNode:
    names = ("input", "weight", "bias", "mean", "var", "training", "momentum", "eps")
    values = arguments(operator, *names)
    if values["training"] or values.get("mean") is None:
        raise Unsupported
    node = _float(builder, values["input"])
    shape = _channels(node)
    mean, variance = (
        builder.view(_float(builder, values[name]), shape) for name in ("mean", "var")
    )
    eps = number(values.get("eps"), 1e-5)
    scale = builder.map(lambda spread: ir.rsqrt(spread + eps), variance)
    result = builder.map(lambda x, mean, scale: (x - mean) * scale, node, mean, scale)
    return _affine(builder, result, values.get("weight"), values.get("bias"), shape)


def _pool_to_one(reduction: ir.Reduction) -> Rule:
    """Adaptive pooling down to one element is a reduction; down to more it stays whole."""

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        node = _float(builder, operator.args[0])
        sizes = operator.args[1] if isinstance(operator.args[1], tuple) else (operator.args[1],)
        if any(size != 1 for size in sizes):
            raise Unsupported
        rank = len(node.shape)
        dims = tuple(range(rank - len(sizes), rank))
        return builder.view(_reduce(builder, reduction, node, dims), operator.shape)

    return rule


def reductions(pointwise: dict[str, Rule]) -> dict[str, Rule]:
    """Return the rules of this module; `max` and `min` of two tensors go to `pointwise`."""
    return {
        "sum": _reduction(ir.SUM),
        "mean": _reduction(ir.MEAN),
        "nansum": _of_numbers,
        "nanmean": _of_numbers,
        "amax": _reduction(ir.MAX),
        "amin": _reduction(ir.MIN),
        "prod": _reduction(ir.PROD),
        "max": _extreme(ir.MAX, pointwise["max"]),
        "min": _extreme(ir.MIN, pointwise["min"]),
        "getitem": _item,
        "var": _spread(lambda x: x),
        "std": _spread(ir.sqrt),
        "linalg_vector_norm": _norm,
        "norm": _norm,
        "logsumexp": _logsumexp,
        "softmax": _softmax,
        "_softmax": _softmax,
        "log_softmax": _log_softmax,
        "_log_softmax": _log_softmax,
        "layer_norm": _layer_norm,
        "rms_norm": _rms_norm,
        "group_norm": _group_norm,
        "instance_norm": _instance_norm,
        "batch_norm": _batch_norm,
        "adaptive_avg_pool1d": _pool_to_one(ir.MEAN),
        "adaptive_avg_pool2d": _pool_to_one(ir.MEAN),
        "adaptive_avg_pool3d": _pool_to_one(ir.MEAN),
    }
