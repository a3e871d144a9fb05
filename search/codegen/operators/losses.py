"""Losses as primitive nodes, so that their elements never reach memory."""

from __future__ import annotations

import operator as python
from typing import Any

from search.codegen import expressions as ir
from search.codegen.ir import IrBuilder, IrNode, Unsupported
from search.codegen.operators.pointwise import Formula, Rule, arguments, number
from search.codegen.operators.reductions import mean
from search.costs.graph import Operator

_NONE, _MEAN, _SUM = 0, 1, 2


# The element of two operands; eager's formulas, so that extremes come out as there.
def _apart(x: ir.Expression, y: ir.Expression) -> ir.Expression:
    return ir.absolute(x - y)


def _reduced(builder: IrBuilder, node: IrNode, operator: Operator, how: Any) -> IrNode:
    """Return the loss of the elements `node` as ``reduction`` says."""
    if how == _NONE:
        return node
    if how not in (_MEAN, _SUM):
        raise Unsupported
    dims = tuple(range(len(node.shape)))
    total = mean(builder, node, dims) if how == _MEAN else builder.reduce(ir.SUM, node, dims)
    return builder.view(total, operator.shape)


def _pair(formula: Formula) -> Rule:
    """A loss of two tensors."""

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        values = arguments(operator, "self", "target", "reduction")
        one, other = builder.operand(values["self"]), builder.operand(values["target"])
        if one.mask or other.mask:
            raise Unsupported
        node = builder.map(formula, one, other)
        return _reduced(builder, node, operator, values.get("reduction", _MEAN))

    return rule


def _smooth(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "self", "target", "reduction", "beta")
    beta = number(values.get("beta"), 1.0)
    node = builder.map(_apart, builder.operand(values["self"]), builder.operand(values["target"]))
    if beta > 0:
        node = builder.map(
            lambda size: ir.select(size < beta, 0.5 * size * size / beta, size - 0.5 * beta), node
        )
    return _reduced(builder, node, operator, values.get("reduction", _MEAN))


def _huber(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "self", "target", "reduction", "delta")
    edge = number(values.get("delta"), 1.0)
    size = builder.map(_apart, builder.operand(values["self"]), builder.operand(values["target"]))
    node = builder.map(
        lambda size: ir.select(size <= edge, 0.5 * size * size, edge * (size - 0.5 * edge)), size
    )
    return _reduced(builder, node, operator, values.get("reduction", _MEAN))


def _weighted(
    builder: IrBuilder, operator: Operator, formula: Formula, *names: str, **sizes: float
) -> IrNode:
    """Return the loss of several operands and numbers, by their names, as ``reduction`` says."""
    values = arguments(operator, *names, *sizes, "reduction")
    given = [builder.operand(values[name]) for name in names]
    if any(node.mask for node in given):
        raise Unsupported
    numbers = [number(values.get(name), default) for name, default in sizes.items()]
    node = builder.map(lambda *elements: formula(*elements, *numbers), *given)
    return _reduced(builder, node, operator, values.get("reduction", _MEAN))


def _soft_margin(builder: IrBuilder, operator: Operator) -> IrNode:
    return _weighted(builder, operator, lambda x, y: ir.log1p(ir.exp(-(y * x))), "self", "target")


def _ranking(builder: IrBuilder, operator: Operator) -> IrNode:
    def formula(x: ir.Expression, y: ir.Expression, side: ir.Expression, margin: float) -> Any:
        return ir.relu(-side * (x - y) + margin)

    return _weighted(builder, operator, formula, "input1", "input2", "target", margin=0.0)


def _hinge(builder: IrBuilder, operator: Operator) -> IrNode:
    def formula(x: ir.Expression, side: ir.Expression, margin: float) -> Any:
        apart = ir.select(ir.differ(side, ir.Const(1.0)), ir.relu(margin - x), 0)
        return apart + ir.select(ir.differ(side, ir.Const(-1.0)), x, 0)

    return _weighted(builder, operator, formula, "self", "target", margin=1.0)


def _poisson(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "input", "target", "log_input", "full", "eps", "reduction")
    if values.get("full"):
        raise Unsupported
    eps = number(values.get("eps"), 1e-8)
    pair = builder.operand(values["input"]), builder.operand(values["target"])
    if values.get("log_input", True):
        node = builder.map(lambda x, y: ir.exp(x) - y * x, *pair)
    else:
        node = builder.map(lambda x, y: x - y * ir.log(x + eps), *pair)
    return _reduced(builder, node, operator, values.get("reduction", _MEAN))


def _cosine_embedding(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "input1", "input2", "target", "margin", "reduction")
    one, other = builder.operand(values["input1"]), builder.operand(values["input2"])
    side = builder.operand(values["target"])
    if one.shape != other.shape or len(one.shape) != 2 or len(side.shape) != 1:
        raise Unsupported
    pairs = ((one, other), (one, one), (other, other))
    sums = [builder.reduce(ir.SUM, builder.map(python.mul, *pair), (1,)) for pair in pairs]
    margin = number(values.get("margin"), 0.0)

    def formula(
        product: ir.Expression, x: ir.Expression, y: ir.Expression, side: ir.Expression
    ) -> Any:
        cosine = product / ir.sqrt((x + 1e-12) * (y + 1e-12))
        near = ir.select(ir.equal(side, ir.Const(1.0)), 1 - cosine, 0)
        return near + ir.select(ir.equal(side, ir.Const(-1.0)), ir.relu(cosine - margin), 0)

    node = builder.map(formula, *sums, builder.view(side, (*side.shape, 1)))
    return _reduced(
        builder, builder.view(node, side.shape), operator, values.get("reduction", _MEAN)
    )


def _of_logits(x: ir.Expression, y: ir.Expression) -> ir.Expression:
    return ir.relu(x) - x * y + ir.log1p(ir.exp(-ir.absolute(x)))


def _of_chances(x: ir.Expression, y: ir.Expression) -> ir.Expression:
    return (y - 1) * ir.hwmax(-100, ir.log1p(-x)) - y * ir.hwmax(-100, ir.log(x))


def _of_weighted_logits(x: ir.Expression, y: ir.Expression, weight: ir.Expression) -> ir.Expression:
    scale = (weight - 1) * y + 1
    return (1 - y) * x + scale * (ir.log1p(ir.exp(-ir.absolute(x))) + ir.relu(-x))


def _entropy(formula: Formula, *weights: str) -> Rule:
    """Binary cross-entropy; ``pos_weight`` counts what is true, ``weight`` each element."""

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        values = arguments(operator, "self", "target", *weights, "reduction")
        operands = [builder.operand(values["self"]), builder.operand(values["target"])]
        positive, weight = (values.get(name) for name in ("pos_weight", "weight"))
        if positive is not None:
            node = builder.map(_of_weighted_logits, *operands, builder.operand(positive))
        else:
            node = builder.map(formula, *operands)
        if weight is not None:
            node = builder.map(python.mul, node, builder.operand(weight))
        return _reduced(builder, node, operator, values.get("reduction", _MEAN))

    return rule


def _of_logarithms(x: ir.Expression, y: ir.Expression) -> ir.Expression:
    return ir.exp(y) * (y - x)


def _of_targets(x: ir.Expression, y: ir.Expression) -> ir.Expression:
    # What has no chance adds nothing, whatever its logarithm.
    return ir.select(y > 0, y * (ir.log(y) - x), y * 0)


def _divergence(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "self", "target", "reduction", "log_target")
    one, other = builder.operand(values["self"]), builder.operand(values["target"])
    node = builder.map(_of_logarithms if values.get("log_target") else _of_targets, one, other)
    return _reduced(builder, node, operator, values.get("reduction", _MEAN))


def _chosen(builder: IrBuilder, node: IrNode, target: Any) -> IrNode:
    """Return for each row of classes (dimension 1) the element that the integer `target` names.

    Compared with every position instead of gathered: the row is read anyway.
    """
    names = builder.operand(target, integer=True)
    if len(node.shape) < 2 or names.shape != (node.shape[0], *node.shape[2:]):
        raise Unsupported
    places = builder.view(names, (node.shape[0], 1, *node.shape[2:]))
    picked = builder.map(
        lambda x, place: ir.select(ir.equal(place, ir.ElementIndex(1)), x, 0), node, places
    )
    return builder.reduce(ir.SUM, picked, (1,))


def _over_classes(builder: IrBuilder, operator: Operator, losses: IrNode, values: Any) -> IrNode:
    """Return the loss of one value a sample: those whose target is to be ignored count nothing."""
    how = values.get("reduction", _MEAN)
    ignored = int(number(values.get("ignore_index"), -100.0))
    target = builder.operand(values["target"], integer=True)
    losses = builder.view(losses, target.shape)
    losses = builder.map(
        lambda loss, name: ir.select(ir.equal(name, ir.Const(ignored)), 0, loss), losses, target
    )
    if how != _MEAN:
        return _reduced(builder, losses, operator, how)
    dims = tuple(range(len(losses.shape)))
    counted = builder.map(lambda name: ir.select(ir.equal(name, ir.Const(ignored)), 0, 1), target)
    total, count = (builder.reduce(ir.SUM, node, dims) for node in (losses, counted))
    return builder.view(builder.map(python.truediv, total, count), operator.shape)


def _plain(values: dict[str, Any]) -> None:
    """Raise unless every class counts the same."""
    if values.get("weight") is not None:
        raise Unsupported


def _cross_entropy(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(
        operator, "self", "target", "weight", "reduction", "ignore_index", "label_smoothing"
    )
    _plain(values)
    node = builder.operand(values["self"])
    highest = builder.reduce(ir.MAX, node, (1,))
    shifted = builder.map(python.sub, node, highest)
    total = builder.reduce(ir.SUM, builder.map(ir.exp, shifted), (1,))
    picked = _chosen(builder, node, values["target"])
    smooth = number(values.get("label_smoothing"), 0.0)
    if smooth:  # every class is a little true
        average = mean(builder, node, (1,))
        picked = builder.map(lambda x, y: (1 - smooth) * x + smooth * y, picked, average)
    losses = builder.map(
        lambda total, highest, picked: ir.log(total) + (highest - picked), total, highest, picked
    )
    return _over_classes(builder, operator, losses, values)


def _negative_likelihood(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "self", "target", "weight", "reduction", "ignore_index")
    _plain(values)
    node = builder.operand(values["self"])
    losses = builder.map(python.neg, _chosen(builder, node, values["target"]))
    return _over_classes(builder, operator, losses, values)


def _cosine(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "x1", "x2", "dim", "eps")
    one, other = builder.operand(values["x1"]), builder.operand(values["x2"])
    if one.shape != other.shape or not one.shape:
        raise Unsupported
    dims = (int(values.get("dim", 1)) % len(one.shape),)
    least = number(values.get("eps"), 1e-8)
    product = builder.reduce(ir.SUM, builder.map(python.mul, one, other), dims)
    squares = [builder.reduce(ir.SUM, builder.map(ir.square, x), dims) for x in (one, other)]

    def cosine(x: ir.Expression, y: ir.Expression, product: ir.Expression) -> ir.Expression:
        return product / (ir.hwmax(least, ir.sqrt(x)) * ir.hwmax(least, ir.sqrt(y)))

    return builder.view(builder.map(cosine, *squares, product), operator.shape)


def _triplet(builder: IrBuilder, operator: Operator) -> IrNode:
    names = ("anchor", "positive", "negative", "margin", "p", "eps", "swap", "reduction")
    values = arguments(operator, *names)
    if number(values.get("p"), 2.0) != 2 or values.get("swap"):
        raise Unsupported
    anchor = builder.operand(values["anchor"])
    near, far = (
        _distance(builder, anchor, builder.operand(values[name]), number(values.get("eps"), 1e-6))
        for name in ("positive", "negative")
    )
    margin = number(values.get("margin"), 1.0)
    losses = builder.map(lambda near, far: ir.relu(margin + near - far), near, far)
    losses = builder.view(losses, anchor.shape[:-1])
    return _reduced(builder, losses, operator, values.get("reduction", _MEAN))


def _distance(builder: IrBuilder, one: IrNode, other: IrNode, eps: float) -> IrNode:
    if one.shape != other.shape or len(one.shape) < 2:
        raise Unsupported
    apart = builder.map(lambda x, y: x - y + eps, one, other)
    total = builder.reduce(ir.SUM, builder.map(ir.square, apart), (len(one.shape) - 1,))
    return builder.map(ir.sqrt, total)


LOSSES: dict[str, Rule] = {
    "mse_loss": _pair(lambda x, y: ir.square(x - y)),
    "l1_loss": _pair(_apart),
    "smooth_l1_loss": _smooth,
    "huber_loss": _huber,
    "binary_cross_entropy": _entropy(_of_chances, "weight"),
    "binary_cross_entropy_with_logits": _entropy(_of_logits, "weight", "pos_weight"),
    "soft_margin_loss": _soft_margin,
    "margin_ranking_loss": _ranking,
    "hinge_embedding_loss": _hinge,
    "poisson_nll_loss": _poisson,
    "cosine_embedding_loss": _cosine_embedding,
    "kl_div": _divergence,
    "cross_entropy_loss": _cross_entropy,
    "cosine_similarity": _cosine,
    "triplet_margin_loss": _triplet,
    "nll_loss": _negative_likelihood,
    "nll_loss_nd": _negative_likelihood,
}
