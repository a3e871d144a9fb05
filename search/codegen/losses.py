"""Losses as primitive nodes, so that their elements never reach memory."""

from __future__ import annotations

from typing import Any

from search.codegen.ir import Builder, Node, Unsupported, literal
from search.codegen.pointwise import Rule, arguments, number
from search.codegen.reductions import mean
from search.costs.graph import Operator

_NONE, _MEAN, _SUM = 0, 1, 2
# The element of two operands; eager's formulas, so that extremes come out as there.
_ABSOLUTE = "vabs({0} - {1})"
_LOG = "hwmax(to<V>(-100.f), vlog({0}))"


def _reduced(builder: Builder, node: Node, operator: Operator, how: Any) -> Node:
    """Return the loss of the elements `node` as ``reduction`` says."""
    if how == _NONE:
        return node
    if how not in (_MEAN, _SUM):
        raise Unsupported
    dims = tuple(range(len(node.shape)))
    total = mean(builder, node, dims) if how == _MEAN else builder.reduce("Sum", node, dims)
    return builder.view(total, operator.shape)


def _pair(form: str, *more: str) -> Rule:
    """A loss of two tensors; `more` are the names of numbers that `form` has as {2}, {3}, ..."""

    def rule(builder: Builder, operator: Operator) -> Node:
        values = arguments(operator, "self", "target", "reduction", *more)
        one, other = builder.operand(values["self"]), builder.operand(values["target"])
        if one.mask or other.mask:
            raise Unsupported
        text = form
        for at, name in enumerate(more):
            text = text.replace(f"{{{at + 2}}}", literal(number(values.get(name), 1.0)))
        node = builder.map(text, one, other)
        return _reduced(builder, node, operator, values.get("reduction", _MEAN))

    return rule


def _smooth(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "self", "target", "reduction", "beta")
    beta = number(values.get("beta"), 1.0)
    form = _ABSOLUTE
    if beta > 0:
        edge = literal(beta)
        size = builder.map(
            _ABSOLUTE, builder.operand(values["self"]), builder.operand(values["target"])
        )
        form = f"vsel({{0}} < {edge}, to<V>(0.5f) * {{0}} * {{0}} / {edge}, {{0}} - to<V>(0.5f) * {edge})"
        node = builder.map(form, size)
    else:
        node = builder.map(form, builder.operand(values["self"]), builder.operand(values["target"]))
    return _reduced(builder, node, operator, values.get("reduction", _MEAN))


def _huber(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "self", "target", "reduction", "delta")
    edge = literal(number(values.get("delta"), 1.0))
    size = builder.map(
        _ABSOLUTE, builder.operand(values["self"]), builder.operand(values["target"])
    )
    form = f"vsel({{0}} <= {edge}, to<V>(0.5f) * {{0}} * {{0}}, {edge} * ({{0}} - to<V>(0.5f) * {edge}))"
    node = builder.map(form, size)
    return _reduced(builder, node, operator, values.get("reduction", _MEAN))


def _entropy(logits: bool) -> Rule:
    """Binary cross-entropy of probabilities, or of logits without overflow."""
    names = ("self", "target", "weight", "pos_weight") if logits else ("self", "target", "weight")

    def rule(builder: Builder, operator: Operator) -> Node:
        values = arguments(operator, *names, "reduction")
        if values.get("weight") is not None or values.get("pos_weight") is not None:
            raise Unsupported
        one, other = builder.operand(values["self"]), builder.operand(values["target"])
        if logits:
            form = "vrelu({0}) - {0} * {1} + vlog1p(vexp(-vabs({0})))"
        else:
            chance, rest = _LOG, _LOG.replace("vlog({0})", "vlog1p(-{0})")
            form = f"({{1}} - to<V>(1.f)) * {rest} - {{1}} * {chance}"
        node = builder.map(form, one, other)
        return _reduced(builder, node, operator, values.get("reduction", _MEAN))

    return rule


def _divergence(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "self", "target", "reduction", "log_target")
    one, other = builder.operand(values["self"]), builder.operand(values["target"])
    if values.get("log_target"):
        form = "vexp({1}) * ({1} - {0})"
    else:
        # What has no chance adds nothing, whatever its logarithm.
        form = "vsel({1} > to<V>(0.f), {1} * (vlog({1}) - {0}), {1} * 0.f)"
    node = builder.map(form, one, other)
    return _reduced(builder, node, operator, values.get("reduction", _MEAN))


def _chosen(builder: Builder, node: Node, target: Any) -> Node:
    """Return for each row of classes (dimension 1) the element that the integer `target` names.

    Compared with every position instead of gathered: the row is read anyway.
    """
    names = builder.operand(target, integer=True)
    if len(node.shape) < 2 or names.shape != (node.shape[0], *node.shape[2:]):
        raise Unsupported
    places = builder.view(names, (node.shape[0], 1, *node.shape[2:]))
    picked = builder.map("vsel({1} == INDEX1, {0}, 0.f)", node, places)
    return builder.reduce("Sum", picked, (1,))


def _over_classes(builder: Builder, operator: Operator, losses: Node, values: Any) -> Node:
    """Return the loss of one value a sample: those whose target is to be ignored count nothing."""
    how = values.get("reduction", _MEAN)
    ignored = int(number(values.get("ignore_index"), -100.0))
    target = builder.operand(values["target"], integer=True)
    losses = builder.view(losses, target.shape)
    losses = builder.map(f"vsel({{1}} == {ignored}, 0.f, {{0}})", losses, target)
    if how != _MEAN:
        return _reduced(builder, losses, operator, how)
    dims = tuple(range(len(losses.shape)))
    counted = builder.map(f"vsel({{0}} == {ignored}, 0.f, 1.f)", target)
    total, count = (builder.reduce("Sum", node, dims) for node in (losses, counted))
    return builder.view(builder.map("{0} / {1}", total, count), operator.shape)


def _plain(values: dict[str, Any]) -> None:
    """Raise unless every class counts the same."""
    if values.get("weight") is not None or values.get("label_smoothing"):
        raise Unsupported


def _cross_entropy(builder: Builder, operator: Operator) -> Node:
    values = arguments(
        operator, "self", "target", "weight", "reduction", "ignore_index", "label_smoothing"
    )
    _plain(values)
    node = builder.operand(values["self"])
    highest = builder.reduce("Max", node, (1,))
    shifted = builder.map("{0} - {1}", node, highest)
    total = builder.reduce("Sum", builder.map("vexp({0})", shifted), (1,))
    picked = _chosen(builder, node, values["target"])
    losses = builder.map("vlog({0}) + ({1} - {2})", total, highest, picked)
    return _over_classes(builder, operator, losses, values)


def _negative_likelihood(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "self", "target", "weight", "reduction", "ignore_index")
    _plain(values)
    node = builder.operand(values["self"])
    losses = builder.map("-{0}", _chosen(builder, node, values["target"]))
    return _over_classes(builder, operator, losses, values)


def _cosine(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "x1", "x2", "dim", "eps")
    one, other = builder.operand(values["x1"]), builder.operand(values["x2"])
    if one.shape != other.shape:
        raise Unsupported
    dims = (int(values.get("dim", 1)) % len(one.shape),)
    least = literal(number(values.get("eps"), 1e-8))
    product = builder.reduce("Sum", builder.map("{0} * {1}", one, other), dims)
    squares = [builder.reduce("Sum", builder.map("{0} * {0}", x), dims) for x in (one, other)]
    norm = f"hwmax({least}, vsqrt({{0}}))"
    form = f"{{2}} / ({norm} * {norm.replace('{0}', '{1}')})"
    return builder.view(builder.map(form, *squares, product), operator.shape)


def _triplet(builder: Builder, operator: Operator) -> Node:
    names = ("anchor", "positive", "negative", "margin", "p", "eps", "swap", "reduction")
    values = arguments(operator, *names)
    if number(values.get("p"), 2.0) != 2 or values.get("swap"):
        raise Unsupported
    anchor = builder.operand(values["anchor"])
    near, far = (
        _distance(builder, anchor, builder.operand(values[name]), number(values.get("eps"), 1e-6))
        for name in ("positive", "negative")
    )
    margin = literal(number(values.get("margin"), 1.0))
    losses = builder.map(f"vrelu({margin} + {{0}} - {{1}})", near, far)
    losses = builder.view(losses, anchor.shape[:-1])
    return _reduced(builder, losses, operator, values.get("reduction", _MEAN))


def _distance(builder: Builder, one: Node, other: Node, eps: float) -> Node:
    if one.shape != other.shape or len(one.shape) < 2:
        raise Unsupported
    apart = builder.map(f"{{0}} - {{1}} + {literal(eps)}", one, other)
    square = builder.map("{0} * {0}", apart)
    return builder.map("vsqrt({0})", builder.reduce("Sum", square, (len(one.shape) - 1,)))


LOSSES: dict[str, Rule] = {
    "mse_loss": _pair("({0} - {1}) * ({0} - {1})"),
    "l1_loss": _pair(_ABSOLUTE),
    "smooth_l1_loss": _smooth,
    "huber_loss": _huber,
    "binary_cross_entropy": _entropy(logits=False),
    "binary_cross_entropy_with_logits": _entropy(logits=True),
    "kl_div": _divergence,
    "cross_entropy_loss": _cross_entropy,
    "cosine_similarity": _cosine,
    "triplet_margin_loss": _triplet,
    "nll_loss": _negative_likelihood,
    "nll_loss_nd": _negative_likelihood,
}
