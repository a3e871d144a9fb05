"""Reductions and normalisations as primitive nodes: shifted variance, never E[x^2] - m^2."""

from __future__ import annotations

import math
from typing import Any

from search.codegen.ir import Builder, Node, Shape, Unsupported, literal
from search.codegen.pointwise import Rule, arguments, number
from search.costs.graph import Operator, Ref


def _float(builder: Builder, argument: Any) -> Node:
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


def _count(node: Node, dims: tuple[int, ...]) -> int:
    return math.prod(node.shape[dim] for dim in dims)


def mean(builder: Builder, node: Node, dims: tuple[int, ...]) -> Node:
    """Add the mean over `dims`; where sizes are known it is a sum and a division."""
    if builder.symbolic:
        return builder.reduce("Mean", node, dims)
    return builder.map(f"{{0}} / {literal(_count(node, dims))}", builder.reduce("Sum", node, dims))


def _reduction(form: str, *names: str) -> Rule:
    def rule(builder: Builder, operator: Operator) -> Node:
        values = arguments(operator, "self", *(names or ("dim", "keepdim")))
        if values.get("dtype") not in (None, "float32", "torch.float32"):
            raise Unsupported
        node = _float(builder, values["self"])
        dims = _dims(values.get("dim"), len(node.shape))
        if form == "Mean":
            return builder.view(mean(builder, node, dims), operator.shape)
        return builder.view(builder.reduce(form, node, dims), operator.shape)

    return rule


def _extreme(form: str, pair: Rule) -> Rule:
    """`max` and `min`: of two tensors, or of elements; where indices are wanted they stay whole."""

    def rule(builder: Builder, operator: Operator) -> Node:
        if len(operator.args) == 2 and isinstance(operator.args[1], Ref):
            return pair(builder, operator)
        values = arguments(operator, "self", "dim", "keepdim")
        if "dim" in values and not builder.only_first(operator):
            raise Unsupported
        node = _float(builder, operator.args[0])
        dims = _dims(values.get("dim"), len(node.shape))
        return builder.view(builder.reduce(form, node, dims), operator.shape)

    return rule


def _item(builder: Builder, operator: Operator) -> Node:
    """The first of several results, where it is the only one that is computed; what was broadcast."""
    several = builder.operators[operator.args[0].name]
    if several.target == "broadcast_tensors.default":
        chosen = several.args[0][operator.args[1]]
        return builder.expand(_float(builder, chosen), operator.shape)
    node = _float(builder, operator.args[0])
    if node.kind == "opaque" or operator.args[1] != 0:
        raise Unsupported
    return node


def _variance(builder: Builder, node: Node, dims: tuple[int, ...], correction: float) -> Node:
    centred = builder.map("{0} - {1}", node, mean(builder, node, dims))
    if builder.symbolic:
        form = f"Mean:{correction:g}" if correction else "Mean"
        return builder.reduce(form, builder.map("{0} * {0}", centred), dims)
    squares = builder.reduce("Sum", builder.map("{0} * {0}", centred), dims)
    return builder.map(f"{{0}} / {literal(max(_count(node, dims) - correction, 0.0))}", squares)


def _spread(form: str) -> Rule:
    def rule(builder: Builder, operator: Operator) -> Node:
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
        return builder.view(builder.map(form, found), operator.shape)

    return rule


def _norm(builder: Builder, operator: Operator) -> Node:
    names = ("self", "ord", "dim", "keepdim")
    values = arguments(operator, *names)
    order = number(values.get("ord", values.get("p")), 2.0)
    if values.get("dtype") is not None:
        raise Unsupported
    node = _float(builder, values["self"])
    dims = _dims(values.get("dim"), len(node.shape))
    if order == 2:
        total = builder.reduce("Sum", builder.map("{0} * {0}", node), dims)
        return builder.view(builder.map("vsqrt({0})", total), operator.shape)
    size = builder.map("vabs({0})", node)
    if order == 1:
        return builder.view(builder.reduce("Sum", size, dims), operator.shape)
    if math.isinf(order):
        form = "Max" if order > 0 else "Min"
        return builder.view(builder.reduce(form, size, dims), operator.shape)
    raise Unsupported


def _exponentials(builder: Builder, node: Node, dims: tuple[int, ...]) -> tuple[Node, Node]:
    """Return the shifted operand and the sum of its exponentials."""
    shifted = builder.map("{0} - {1}", node, builder.reduce("Max", node, dims))
    return shifted, builder.reduce("Sum", builder.map("vexp({0})", shifted), dims)


def _softmax(builder: Builder, operator: Operator) -> Node:
    node = _float(builder, operator.args[0])
    dims = _dims(operator.args[1], len(node.shape))
    highest = builder.reduce("Max", node, dims)
    powers = builder.map("vexp({0})", builder.map("{0} - {1}", node, highest))
    # One division a row; the product differs from the quotient by a rounding.
    scale = builder.map("to<V>(1.f) / {0}", builder.reduce("Sum", powers, dims))
    return builder.map("{0} * {1}", powers, scale)


def _log_softmax(builder: Builder, operator: Operator) -> Node:
    node = _float(builder, operator.args[0])
    shifted, total = _exponentials(builder, node, _dims(operator.args[1], len(node.shape)))
    return builder.map("{0} - {1}", shifted, builder.map("vlog({0})", total))


def _logsumexp(builder: Builder, operator: Operator) -> Node:
    node = _float(builder, operator.args[0])
    dims = _dims(operator.args[1], len(node.shape))
    highest = builder.reduce("Max", node, dims)
    # An infinite maximum would make infinity minus infinity.
    finite = builder.map("vsel(vabs({0}) <= 3.40282347e38f, {0}, V{{}})", highest)
    powers = builder.map("vexp({0} - {1})", node, finite)
    total = builder.map("vlog({0}) + {1}", builder.reduce("Sum", powers, dims), finite)
    return builder.view(total, operator.shape)


def _normalise(builder: Builder, node: Node, dims: tuple[int, ...], eps: float) -> Node:
    centred = builder.map("{0} - {1}", node, mean(builder, node, dims))
    variance = mean(builder, builder.map("{0} * {0}", centred), dims)
    scale = builder.map(f"vrsqrt({{0}} + {literal(eps)})", variance)
    return builder.map("{0} * {1}", centred, scale)


def _affine(
    builder: Builder, node: Node, weight: Any, bias: Any, shape: Shape | None = None
) -> Node:
    for argument, form in ((weight, "{0} * {1}"), (bias, "{0} + {1}")):
        if argument is not None:
            parameter = _float(builder, argument)
            node = builder.map(form, node, builder.view(parameter, shape or parameter.shape))
    return node


def _layer_norm(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "input", "normalized_shape", "weight", "bias", "eps")
    node = _float(builder, values["input"])
    rank = len(node.shape)
    dims = tuple(range(rank - len(values["normalized_shape"]), rank))
    result = _normalise(builder, node, dims, number(values.get("eps"), 1e-5))
    return _affine(builder, result, values.get("weight"), values.get("bias"))


def _rms_norm(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "input", "normalized_shape", "weight", "eps")
    node = _float(builder, values["input"])
    rank = len(node.shape)
    dims = tuple(range(rank - len(values["normalized_shape"]), rank))
    eps = number(values.get("eps"), 1.1920928955078125e-07)
    square = mean(builder, builder.map("{0} * {0}", node), dims)
    scale = builder.map(f"vrsqrt({{0}} + {literal(eps)})", square)
    return _affine(builder, builder.map("{0} * {1}", node, scale), values.get("weight"), None)


def _channels(node: Node) -> Shape:
    return (1, node.shape[1], *(1 for _ in node.shape[2:]))


def _group_norm(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "input", "num_groups", "weight", "bias", "eps")
    node = _float(builder, values["input"])
    groups = (node.shape[0], int(number(values["num_groups"])))
    rows = builder.view(node, (*groups, node.numel // max(1, math.prod(groups))))
    result = _normalise(builder, rows, (2,), number(values.get("eps"), 1e-5))
    result = builder.view(result, node.shape)
    return _affine(builder, result, values.get("weight"), values.get("bias"), _channels(node))


def _instance_norm(builder: Builder, operator: Operator) -> Node:
    names = ("input", "weight", "bias", "mean", "var", "use_input_stats", "momentum", "eps")
    values = arguments(operator, *names)
    if not values["use_input_stats"] or values.get("mean") is not None:
        raise Unsupported
    node = _float(builder, values["input"])
    dims = tuple(range(2, len(node.shape)))
    result = _normalise(builder, node, dims, number(values.get("eps"), 1e-5))
    return _affine(builder, result, values.get("weight"), values.get("bias"), _channels(node))


def _batch_norm(builder: Builder, operator: Operator) -> Node:
    names = ("input", "weight", "bias", "mean", "var", "training", "momentum", "eps")
    values = arguments(operator, *names)
    if values["training"] or values.get("mean") is None:
        raise Unsupported
    node = _float(builder, values["input"])
    shape = _channels(node)
    mean, variance = (
        builder.view(_float(builder, values[name]), shape) for name in ("mean", "var")
    )
    scale = builder.map(f"vrsqrt({{0}} + {literal(number(values.get('eps'), 1e-5))})", variance)
    result = builder.map("({0} - {1}) * {2}", node, mean, scale)
    return _affine(builder, result, values.get("weight"), values.get("bias"), shape)


def _pool_to_one(form: str) -> Rule:
    """Adaptive pooling down to one element is a reduction; down to more it stays whole."""

    def rule(builder: Builder, operator: Operator) -> Node:
        node = _float(builder, operator.args[0])
        sizes = operator.args[1] if isinstance(operator.args[1], tuple) else (operator.args[1],)
        if any(size != 1 for size in sizes):
            raise Unsupported
        rank = len(node.shape)
        dims = tuple(range(rank - len(sizes), rank))
        if form == "Mean":
            return builder.view(mean(builder, node, dims), operator.shape)
        return builder.view(builder.reduce(form, node, dims), operator.shape)

    return rule


def reductions(pointwise: dict[str, Rule]) -> dict[str, Rule]:
    """Return the rules of this module; `max` and `min` of two tensors go to `pointwise`."""
    return {
        "sum": _reduction("Sum"),
        "mean": _reduction("Mean"),
        "amax": _reduction("Max"),
        "amin": _reduction("Min"),
        "prod": _reduction("Prod"),
        "max": _extreme("Max", pointwise["max"]),
        "min": _extreme("Min", pointwise["min"]),
        "getitem": _item,
        "var": _spread("{0}"),
        "std": _spread("vsqrt({0})"),
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
        "adaptive_avg_pool1d": _pool_to_one("Mean"),
        "adaptive_avg_pool2d": _pool_to_one("Mean"),
        "adaptive_avg_pool3d": _pool_to_one("Mean"),
    }
