"""Elementwise ATen operators as C++ expressions on the prelude's vector type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from search.codegen.ir import Builder, Node, Unsupported, literal
from search.costs.graph import Operator, Ref

Rule = Callable[[Builder, Operator], Node]

_UNARY = {
    "relu": "vrelu({0})",
    "relu6": "vclamp({0}, 0.f, 6.f)",
    "exp": "vexp({0})",
    "expm1": "vexpm1({0})",
    "log": "vlog({0})",
    "log1p": "vlog1p({0})",
    "log2": "lanewise({0}, [](float x) {{ return __builtin_log2f(x); }})",
    "log10": "lanewise({0}, [](float x) {{ return __builtin_log10f(x); }})",
    "exp2": "lanewise({0}, [](float x) {{ return __builtin_exp2f(x); }})",
    "sin": "lanewise({0}, [](float x) {{ return __builtin_sinf(x); }})",
    "cos": "lanewise({0}, [](float x) {{ return __builtin_cosf(x); }})",
    "tan": "lanewise({0}, [](float x) {{ return __builtin_tanf(x); }})",
    "atan": "lanewise({0}, [](float x) {{ return __builtin_atanf(x); }})",
    "sinh": "lanewise({0}, [](float x) {{ return __builtin_sinhf(x); }})",
    "cosh": "lanewise({0}, [](float x) {{ return __builtin_coshf(x); }})",
    "floor": "lanewise({0}, [](float x) {{ return __builtin_floorf(x); }})",
    "ceil": "lanewise({0}, [](float x) {{ return __builtin_ceilf(x); }})",
    "tanh": "vtanh({0})",
    "sigmoid": "vsigmoid({0})",
    "log_sigmoid": "-vsoftplus(-{0}, 1.f, INFINITY)",
    "silu": "vsilu({0})",
    "mish": "vmish({0})",
    "erf": "verf({0})",
    "sqrt": "vsqrt({0})",
    "rsqrt": "vrsqrt({0})",
    "reciprocal": "to<V>(1.f) / {0}",
    "square": "{0} * {0}",
    "neg": "-{0}",
    "abs": "vabs({0})",
    "hardsigmoid": "vclamp({0} + 3.f, 0.f, 6.f) * to<V>(0.166666667f)",
    "hardswish": "{0} * vclamp({0} + 3.f, 0.f, 6.f) * to<V>(0.166666667f)",
    "softsign": "{0} / (vabs({0}) + 1.f)",
    "selu": "to<V>(1.05070099f) * vsel({0} > V{{}}, {0}, to<V>(1.67326324f) * vexpm1({0}))",
}
_BINARY = {
    "mul": "{0} * {1}",
    "maximum": "vmax({0}, {1})",
    "minimum": "vmin({0}, {1})",
    "max": "vmax({0}, {1})",
    "min": "vmin({0}, {1})",
}
_COMPARE = {"gt": ">", "lt": "<", "ge": ">=", "le": "<=", "eq": "==", "ne": "!="}
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


def _combine(builder: Builder, form: str, values: tuple[Any, ...], *, mask: bool = False) -> Node:
    """Add `form` over operands and literals; masks among them count as zero and one."""
    nodes: list[Node] = []
    texts: list[str] = []
    for value in values:
        if isinstance(value, Ref):
            node = builder.operand(value)
            place = f"{{{len(nodes)}}}"
            texts.append(f"vsel({place}, to<V>(1.f), to<V>(0.f))" if node.mask else place)
            nodes.append(node)
        else:
            texts.append(literal(number(value)))
    return builder.map(form.format(*texts), *nodes, mask=mask)


def _unary(form: str) -> Rule:
    def rule(builder: Builder, operator: Operator) -> Node:
        return builder.map(form, _value(builder, operator))

    return rule


def _value(builder: Builder, operator: Operator) -> Node:
    node = builder.operand(operator.args[0])
    if node.mask:
        raise Unsupported
    return node


def _binary(form: str) -> Rule:
    def rule(builder: Builder, operator: Operator) -> Node:
        if len(operator.args) < 2:
            raise Unsupported
        return _combine(builder, form, (operator.args[0], operator.args[1]))

    return rule


def _sum(form: str) -> Rule:
    """Of ``self``, ``other`` and ``alpha`` as {0}, {1} and {2}."""

    def rule(builder: Builder, operator: Operator) -> Node:
        values = arguments(operator, "self", "other", "alpha")
        alpha = number(values.get("alpha"), 1.0)
        scaled = form.replace("{2} * ", "" if alpha == 1 else f"{literal(alpha)} * ")
        return _combine(builder, scaled, (values["self"], values["other"]))

    return rule


def _divide(builder: Builder, operator: Operator) -> Node:
    if arguments(operator).get("rounding_mode") is not None:
        raise Unsupported
    return _combine(builder, "{0} / {1}", (operator.args[0], operator.args[1]))


def _compare(sign: str) -> Rule:
    def rule(builder: Builder, operator: Operator) -> Node:
        pair = (operator.args[0], operator.args[1])
        return _combine(builder, f"({{0}} {sign} {{1}})", pair, mask=True)

    return rule


def _logical(form: str) -> Rule:
    def rule(builder: Builder, operator: Operator) -> Node:
        nodes = [builder.operand(value) for value in operator.args]
        if not all(node.mask for node in nodes):
            raise Unsupported
        return builder.map(form, *nodes, mask=True)

    return rule


def _choose(builder: Builder, condition: Node, chosen: Any, other: Any) -> Node:
    if not condition.mask:
        raise Unsupported
    nodes, texts = [condition], []
    for value in (chosen, other):
        if isinstance(value, Ref):
            texts.append(f"to<V>({{{len(nodes)}}})")
            nodes.append(builder.operand(value))
        else:
            texts.append(literal(number(value)))
    if any(node.mask for node in nodes[1:]):
        raise Unsupported
    return builder.map(f"vsel({{0}}, {texts[0]}, {texts[1]})", *nodes)


def _where(builder: Builder, operator: Operator) -> Node:
    return _choose(builder, builder.operand(operator.args[0]), *operator.args[1:3])


def _masked_fill(builder: Builder, operator: Operator) -> Node:
    return _choose(builder, builder.operand(operator.args[1]), operator.args[2], operator.args[0])


def _clamp(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "self", "min", "max")
    low, high = values.get("min"), values.get("max")
    form, given = "{0}", [values["self"]]
    for bound, name in ((low, "vmax"), (high, "vmin")):
        if bound is None:
            continue
        if isinstance(bound, Ref):
            form = f"{name}({form}, {{{len(given)}}})"
            given.append(bound)
        else:
            # Against a number that is not NaN one instruction does: it returns its second operand.
            form = f"hw{name[1:]}({literal(number(bound))}, {form})"
    return _combine(builder, form, tuple(given))


def _power(builder: Builder, operator: Operator) -> Node:
    base, exponent = operator.args[0], operator.args[1]
    if isinstance(base, Ref) and not isinstance(exponent, Ref):
        power = number(exponent)
        if power == int(power) and abs(power) <= 8:
            return _combine(builder, f"vpowi<{int(power)}>({{0}})", (base,))
        if power in (0.5, -0.5):
            return _combine(builder, "vsqrt({0})" if power > 0 else "vrsqrt({0})", (base,))
    return _combine(builder, "vpow(to<V>({0}), to<V>({1}))", (base, exponent))


def _with_slope(builder: Builder, operator: Operator) -> Node:
    slope = operator.args[1] if len(operator.args) > 1 else 0.01
    return _combine(builder, "vsel({0} > 0.f, {0}, {0} * {1})", (operator.args[0], slope))


def _prelu(builder: Builder, operator: Operator) -> Node:
    value, slope = _value(builder, operator), builder.operand(operator.args[1])
    if slope.numel > 1:
        rest = (1,) * max(0, len(value.shape) - 2)
        slope = builder.view(slope, (1, slope.numel, *rest))
    else:
        slope = builder.view(slope, (1,) * len(value.shape))
    return builder.map("vsel({0} > 0.f, {0}, {0} * {1})", value, slope)


def _elu(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "self", "alpha", "scale", "input_scale")
    alpha, scale = number(values.get("alpha"), 1.0), number(values.get("scale"), 1.0)
    inner = number(values.get("input_scale"), 1.0)
    low = f"{literal(alpha)} * vexpm1({literal(inner)} * {{0}})"
    form = f"{literal(scale)} * vsel({{0}} > 0.f, {{0}}, {low})"
    return builder.map(form, _value(builder, operator))


def _celu(builder: Builder, operator: Operator) -> Node:
    alpha = number(arguments(operator, "self", "alpha").get("alpha"), 1.0)
    low = f"{literal(alpha)} * vexpm1({{0}} / {literal(alpha)})"
    return builder.map(f"vsel({{0}} > 0.f, {{0}}, {low})", _value(builder, operator))


def _gelu(builder: Builder, operator: Operator) -> Node:
    exact = arguments(operator, "self", "approximate").get("approximate", "none") == "none"
    form = "vgelu({0})" if exact else "vgelu_tanh({0})"
    return builder.map(form, _value(builder, operator))


def _softplus(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "self", "beta", "threshold")
    beta, threshold = number(values.get("beta"), 1.0), number(values.get("threshold"), 20.0)
    form = f"vsoftplus({{0}}, {beta!r}f, {threshold!r}f)"
    return builder.map(form, _value(builder, operator))


def _hardtanh(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "self", "min_val", "max_val")
    low, high = number(values.get("min_val"), -1.0), number(values.get("max_val"), 1.0)
    return builder.map(
        f"hwmin({literal(high)}, hwmax({literal(low)}, {{0}}))", _value(builder, operator)
    )


def _threshold(builder: Builder, operator: Operator) -> Node:
    bound, other = number(operator.args[1]), number(operator.args[2])
    # Written so that NaN fails the comparison and stays.
    form = f"vsel({{0}} <= {literal(bound)}, {literal(other)}, {{0}})"
    return builder.map(form, _value(builder, operator))


def _addcmul(form: str) -> Rule:
    def rule(builder: Builder, operator: Operator) -> Node:
        value = number(dict(operator.kwargs).get("value"), 1.0)
        return _combine(builder, form.replace("{3}", literal(value)), tuple(operator.args[:3]))

    return rule


def _lerp(builder: Builder, operator: Operator) -> Node:
    form = "vsel(vabs({2}) < 0.5f, {0} + {2} * ({1} - {0}), {1} - ({1} - {0}) * (1.f - {2}))"
    return _combine(
        builder, form.replace("vabs({2})", "vabs(to<V>({2}))"), tuple(operator.args[:3])
    )


def _dropout(builder: Builder, operator: Operator) -> Node:
    values = arguments(operator, "input", "p", "train")
    if values.get("train") and number(values.get("p"), 0.5) > 0:
        raise Unsupported
    return builder.operand(values["input"])


def _same(builder: Builder, operator: Operator) -> Node:
    if operator.dtype != "float32":
        raise Unsupported
    return builder.view(_value(builder, operator), operator.shape)


def _converted(builder: Builder, operator: Operator) -> Node:
    if builder.operand(operator.args[0]).mask and operator.dtype == "float32":
        return _combine(builder, "{0}", (operator.args[0],))
    return _same(builder, operator)


def _expand(builder: Builder, operator: Operator) -> Node:
    return builder.expand(_value(builder, operator), operator.shape)


POINTWISE: dict[str, Rule] = {
    **{name: _unary(form) for name, form in _UNARY.items()},
    **{name: _binary(form) for name, form in _BINARY.items()},
    **{name: _compare(sign) for name, sign in _COMPARE.items()},
    **dict.fromkeys((*VIEWS, *_IDENTITIES), _same),
    **dict.fromkeys(_CONVERSIONS, _converted),
    "add": _sum("{0} + {2} * {1}"),
    "sub": _sum("{0} - {2} * {1}"),
    "rsub": _sum("{1} - {2} * {0}"),
    "div": _divide,
    "true_divide": _divide,
    **dict.fromkeys(("logical_and", "bitwise_and", "__and__"), _logical("({0} & {1})")),
    **dict.fromkeys(("logical_or", "bitwise_or", "__or__"), _logical("({0} | {1})")),
    **dict.fromkeys(("logical_not", "bitwise_not"), _logical("(!{0})")),
    "where": _where,
    "masked_fill": _masked_fill,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda builder, operator: _combine(
        builder,
        "vmin({0}, to<V>({1}))",
        (operator.args[0], operator.args[1]),
    ),
    "pow": _power,
    "leaky_relu": _with_slope,
    "prelu": _prelu,
    "elu": _elu,
    "celu": _celu,
    "gelu": _gelu,
    "softplus": _softplus,
    "hardtanh": _hardtanh,
    "threshold": _threshold,
    "addcmul": _addcmul("{0} + {3} * {1} * {2}"),
    "addcdiv": _addcmul("{0} + {3} * {1} / {2}"),
    "lerp": _lerp,
    "dropout": _dropout,
    "feature_dropout": _dropout,
    "alpha_dropout": _dropout,
    "expand": _expand,
    "expand_as": _expand,
    "broadcast_to": _expand,
}
