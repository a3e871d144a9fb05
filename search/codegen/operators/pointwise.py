"""Elementwise ATen operators as expressions of one element."""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from typing import Any

from search.codegen import expressions as ir
from search.codegen.expressions import Expression, Term, number_of, select
from search.codegen.ir import IrBuilder, IrNode, Unsupported
from search.costs.graph import Operator, Ref

Rule = Callable[[IrBuilder, Operator], IrNode]
Formula = Callable[..., Expression]

_SIXTH = 0.166666667
_UNARY: dict[str, Formula] = {
    **{
        name: getattr(ir, name)
        for name in (
            "relu", "exp", "expm1", "log", "log1p", "log2", "log10", "exp2", "sin", "cos", "tan",
            "atan", "sinh", "cosh", "floor", "ceil", "tanh", "sigmoid", "silu", "mish", "erf",
            "sqrt", "rsqrt", "square",
        )
    },
    "relu6": lambda x: ir.clamp(x, 0, 6),
    "log_sigmoid": lambda x: -ir.softplus(-x, 1, 20.0),
    "reciprocal": lambda x: 1 / x,
    "neg": python.neg,
    "abs": ir.absolute,
    "hardsigmoid": lambda x: ir.clamp(x + 3, 0, 6) * _SIXTH,
    "hardswish": lambda x: x * ir.clamp(x + 3, 0, 6) * _SIXTH,
    "softsign": lambda x: x / (ir.absolute(x) + 1),
    "selu": lambda x: 1.05070099 * select(x > 0, x, 1.67326324 * ir.expm1(x)),
}  # fmt: skip
COMPARED: dict[str, Formula] = {
    "gt": python.gt,
    "lt": python.lt,
    "ge": python.ge,
    "le": python.le,
    "eq": ir.equal,
    "ne": ir.differ,
}
_BINARY: dict[str, Formula] = {
    "mul": python.mul,
    "maximum": ir.maximum,
    "minimum": ir.minimum,
    "max": ir.maximum,
    "min": ir.minimum,
    **COMPARED,
}
# Of the framework's views: those that keep every element in its place in memory.
VIEWS = (
    "view",
    "reshape",
    "_unsafe_view",
    "unsqueeze",
    "squeeze",
    "flatten",
    "unflatten",
    "view_as",
    "reshape_as",
)
_IDENTITIES = (
    "contiguous",
    "clone",
    "detach",
    "alias",
    "lift_fresh_copy",
    "positive",
)
_COPIES = ("clone.", "lift_fresh_copy.")
_CONVERSIONS = ("to", "_to_copy", "float", "type_as")


def arguments(operator: Operator, *names: str) -> dict[str, Any]:
    """Return the arguments of `operator` by the names of its leading parameters."""
    return {**dict(zip(names, operator.args, strict=False)), **dict(operator.kwargs)}


def number(value: Any, default: float | None = None) -> float:
    """Return a literal argument as a number.

    Raises:
        Unsupported: it is none.
    """
    if value is None and default is not None:
        return default
    if isinstance(value, (bool, int, float)):
        return float(value)
    raise Unsupported


def combine(builder: IrBuilder, formula: Formula, *values: Any) -> IrNode:
    """Add `formula` of operands and literals; masks among them count as zero and one."""
    nodes = [builder.operand(value) if isinstance(value, Ref) else None for value in values]

    def make(*elements: Expression) -> Expression:
        rest = iter(elements)
        terms: list[Term] = []
        for value, node in zip(values, nodes, strict=True):
            if node is None:
                terms.append(ir.term(number(value)))
            else:
                terms.append(number_of(next(rest)) if node.mask else next(rest))
        return formula(*terms)

    return builder.map(make, *(node for node in nodes if node is not None))


def unary(formula: Formula) -> Rule:
    """Return the rule of one operand."""

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        return builder.map(formula, _value(builder, operator))

    return rule


def _value(builder: IrBuilder, operator: Operator) -> IrNode:
    node = builder.operand(operator.args[0])
    if node.mask:
        raise Unsupported
    return node


def binary(formula: Formula) -> Rule:
    """Return the rule of two operands, literals among them."""

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        if len(operator.args) < 2:
            raise Unsupported
        return combine(builder, formula, operator.args[0], operator.args[1])

    return rule


def _sum(formula: Formula) -> Rule:
    """Of ``self`` and ``other`` scaled by ``alpha``."""

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        values = arguments(operator, "self", "other", "alpha")
        alpha = number(values.get("alpha"), 1.0)

        def scaled(x: Expression) -> Expression:
            return x if alpha == 1 else alpha * x

        pair = values["self"], values["other"]
        return combine(builder, lambda x, y: formula(x, y, scaled), *pair)

    return rule


def _logical(formula: Formula) -> Rule:
    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        nodes = [builder.operand(value) for value in operator.args]
        if not all(node.mask for node in nodes):
            raise Unsupported
        return builder.map(formula, *nodes)

    return rule


def _choose(builder: IrBuilder, condition: IrNode, chosen: Any, other: Any) -> IrNode:
    if not condition.mask:
        raise Unsupported
    arms = [value if isinstance(value, Ref) else number(value) for value in (chosen, other)]
    nodes = [builder.operand(arm) for arm in arms if isinstance(arm, Ref)]
    if any(node.mask for node in nodes):
        raise Unsupported

    def make(truth: Expression, *elements: Expression) -> Expression:
        rest = iter(elements)
        return select(truth, *(next(rest) if isinstance(arm, Ref) else arm for arm in arms))

    return builder.map(make, condition, *nodes)


def _where(builder: IrBuilder, operator: Operator) -> IrNode:
    return _choose(builder, builder.operand(operator.args[0]), *operator.args[1:3])


def _masked_fill(builder: IrBuilder, operator: Operator) -> IrNode:
    return _choose(builder, builder.operand(operator.args[1]), operator.args[2], operator.args[0])


def _clamp(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "self", "min", "max")
    bounds = [
        (bound, whole, quick)
        for bound, whole, quick in (
            (values.get("min"), ir.maximum, ir.hwmax),
            (values.get("max"), ir.minimum, ir.hwmin),
        )
        if bound is not None
    ]

    def make(x: Expression, *limits: Expression) -> Expression:
        for limit, (bound, whole, quick) in zip(limits, bounds, strict=True):
            # Against a number that is not NaN one instruction does: it returns its second operand.
            x = whole(x, limit) if isinstance(bound, Ref) else quick(limit, x)
        return x

    return combine(builder, make, values["self"], *(bound for bound, _, _ in bounds))


def _power(builder: IrBuilder, operator: Operator) -> IrNode:
    base, exponent = operator.args[0], operator.args[1]
    if isinstance(base, Ref) and not isinstance(exponent, Ref):
        power = number(exponent)
        if power.is_integer() and abs(power) <= 8:
            return combine(builder, lambda x: ir.whole_power(x, power), base)
        if power in (0.5, -0.5):
            return combine(builder, ir.sqrt if power > 0 else ir.rsqrt, base)
    return combine(builder, ir.power, base, exponent)


def _leak(x: Expression, slope: Term) -> Expression:
    return select(x > 0, x, x * slope)


def _with_slope(builder: IrBuilder, operator: Operator) -> IrNode:
    slope = operator.args[1] if len(operator.args) > 1 else 0.01
    return combine(builder, _leak, operator.args[0], slope)


def _prelu(builder: IrBuilder, operator: Operator) -> IrNode:
    value, slope = _value(builder, operator), builder.operand(operator.args[1])
    if slope.numel > 1:
        rest = (1,) * max(0, len(value.shape) - 2)
        slope = builder.view(slope, (1, slope.numel, *rest))
    else:
        slope = builder.view(slope, (1,) * len(value.shape))
    return builder.map(_leak, value, slope)


def _elu(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "self", "alpha", "scale", "input_scale")
    alpha, scale = number(values.get("alpha"), 1.0), number(values.get("scale"), 1.0)
    inner = number(values.get("input_scale"), 1.0)
    return builder.map(
        lambda x: scale * select(x > 0, x, alpha * ir.expm1(inner * x)), _value(builder, operator)
    )


def _celu(builder: IrBuilder, operator: Operator) -> IrNode:
    alpha = number(arguments(operator, "self", "alpha").get("alpha"), 1.0)
    return builder.map(
        lambda x: select(x > 0, x, alpha * ir.expm1(x / alpha)), _value(builder, operator)
    )


def _gelu(builder: IrBuilder, operator: Operator) -> IrNode:
    exact = arguments(operator, "self", "approximate").get("approximate", "none") == "none"
    return builder.map(ir.gelu if exact else ir.gelu_tanh, _value(builder, operator))


def _softplus(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "self", "beta", "threshold")
    beta, threshold = number(values.get("beta"), 1.0), number(values.get("threshold"), 20.0)
    return builder.map(lambda x: ir.softplus(x, beta, threshold), _value(builder, operator))


def _hardtanh(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "self", "min_val", "max_val")
    low, high = number(values.get("min_val"), -1.0), number(values.get("max_val"), 1.0)
    return builder.map(lambda x: ir.hwmin(high, ir.hwmax(low, x)), _value(builder, operator))


def _threshold(builder: IrBuilder, operator: Operator) -> IrNode:
    bound, other = number(operator.args[1]), number(operator.args[2])
    # Written so that NaN fails the comparison and stays.
    return builder.map(lambda x: select(x <= bound, other, x), _value(builder, operator))


def _fused(formula: Formula) -> Rule:
    """Of three operands and ``value``."""

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        value = number(dict(operator.kwargs).get("value"), 1.0)
        return combine(builder, lambda x, y, z: formula(x, y, z, value), *operator.args[:3])

    return rule


def _between(x: Expression, y: Expression, weight: Expression) -> Expression:
    low, high = x + weight * (y - x), y - (y - x) * (1 - weight)
    return select(ir.absolute(weight) < 0.5, low, high)


def _lerp(builder: IrBuilder, operator: Operator) -> IrNode:
    return combine(builder, _between, *operator.args[:3])


def _dropout(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "input", "p", "train")
    share = number(values.get("p"), 0.5) if values.get("train") else 0.0
    if share == 1 and operator.target.startswith("dropout."):
        return builder.map(lambda x: x * 0.0, builder.operand(values["input"]))
    if share > 0:
        raise Unsupported
    return builder.operand(values["input"])


def _same(builder: IrBuilder, operator: Operator) -> IrNode:
    if operator.dtype != "float32":
        raise Unsupported
    value = _value(builder, operator)
    if builder.writes and (operator.copies or operator.target.startswith(_COPIES)):
        value = builder.map(lambda x: x, value)  # what is written to either is not to the other
    return builder.view(value, operator.shape)


def _converted(builder: IrBuilder, operator: Operator) -> IrNode:
    if builder.operand(operator.args[0]).mask and operator.dtype == "float32":
        return combine(builder, lambda x: x, operator.args[0])
    return _same(builder, operator)


def _copy(builder: IrBuilder, operator: Operator) -> IrNode:
    """What is copied over a tensor is what the tensor is from then on."""
    given = builder.operand(operator.args[1])
    if given.shape != operator.shape:
        return builder.expand(given, operator.shape)
    return builder.map(lambda x: x, given)  # its own memory: what is written there later is no copy


def _expand(builder: IrBuilder, operator: Operator) -> IrNode:
    return builder.expand(_value(builder, operator), operator.shape)


POINTWISE: dict[str, Rule] = {
    **{name: unary(formula) for name, formula in _UNARY.items()},
    **{name: binary(formula) for name, formula in _BINARY.items()},
    **dict.fromkeys((*VIEWS, *_IDENTITIES), _same),
    **dict.fromkeys(_CONVERSIONS, _converted),
    "add": _sum(lambda x, y, scaled: x + scaled(y)),
    "sub": _sum(lambda x, y, scaled: x - scaled(y)),
    "rsub": _sum(lambda x, y, scaled: y - scaled(x)),
    **dict.fromkeys(("logical_and", "bitwise_and", "__and__"), _logical(python.and_)),
    **dict.fromkeys(("logical_or", "bitwise_or", "__or__"), _logical(python.or_)),
    **dict.fromkeys(("logical_not", "bitwise_not"), _logical(python.invert)),
    "where": _where,
    "masked_fill": _masked_fill,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": binary(ir.minimum),
    "pow": _power,
    "leaky_relu": _with_slope,
    "prelu": _prelu,
    "elu": _elu,
    "celu": _celu,
    "gelu": _gelu,
    "softplus": _softplus,
    "hardtanh": _hardtanh,
    "threshold": _threshold,
    "addcmul": _fused(lambda x, y, z, value: x + value * y * z),
    "addcdiv": _fused(lambda x, y, z, value: x + value * y / z),
    "lerp": _lerp,
    "dropout": _dropout,
    "feature_dropout": _dropout,
    "alpha_dropout": _dropout,
    "copy": _copy,
    "expand": _expand,
    "expand_as": _expand,
    "broadcast_to": _expand,
}
