"""Elementwise operators that are composed of others, and other names of operators, as torch defines them.

What becomes of infinities and NaN is as torch has it.
"""

from __future__ import annotations

import math

from search.codegen import expressions as ir
from search.codegen.expressions import Expression, Term, number_of, select
from search.codegen.ir import IrBuilder, IrNode, Unsupported
from search.codegen.operators.pointwise import (
    POINTWISE,
    Formula,
    Rule,
    arguments,
    binary,
    combine,
    number,
    unary,
)
from search.costs.graph import Operator

_WHOLE = 4194304.0  # from here on float32 holds halves no longer
_MAGIC = 12582912.0  # one and a half times 2^23: what is added to it is rounded to a whole number, halves to even


def _negative(x: Expression) -> Expression:
    """Say whether the sign is minus, of a zero too."""
    return (x < 0) | (1 / x < 0)


def _infinite(x: Expression) -> Expression:
    return ir.absolute(x) > ir.FLOAT_MAX


def _zero(x: Expression) -> Expression:
    return ir.equal(x, ir.term(0.0))


def _nan(x: Expression) -> Expression:
    return ir.differ(x, x)


def _signed(size: Expression, sign: Expression) -> Expression:
    return select(_negative(sign), -size, size)


def sign_of(x: Expression) -> Expression:
    """Return -1, 0 or 1; 0 for NaN, as torch has it."""
    return select(x > 0, 1.0, select(x < 0, -1.0, 0.0))


def _trunc(x: Expression) -> Expression:
    return select(x < 0, ir.ceil(x), ir.floor(x))


def _round(x: Expression) -> Expression:
    size = ir.absolute(x)
    return select(size < _WHOLE, _signed((size + _MAGIC) - _MAGIC, x), x)


def _remainder(x: Expression, y: Expression) -> Expression:
    rest = ir.remainder(x, y)
    other = (rest < 0) & (y > 0) | (rest > 0) & (y < 0)
    return select(other, rest + y, rest)


def _floor_divide(x: Expression, y: Expression) -> Expression:
    """As C10 does: with the remainder taken off first, so that a quotient just below a whole number is not rounded up to it."""
    rest = ir.remainder(x, y)
    other = (rest < 0) & (y > 0) | (rest > 0) & (y < 0)
    quotient: Expression = (x - rest) / y
    quotient = select(other, quotient - 1, quotient)
    whole: Expression = ir.floor(quotient)
    whole = select(quotient - whole > 0.5, whole + 1, whole)
    return select(_zero(y), x / y, whole)


def _fmax(x: Expression, y: Expression) -> Expression:
    return select(_nan(x), y, select(_nan(y), x, ir.maximum(x, y)))


def _fmin(x: Expression, y: Expression) -> Expression:
    return select(_nan(x), y, select(_nan(y), x, ir.minimum(x, y)))


def _heaviside(x: Expression, at_zero: Expression) -> Expression:
    return select(_zero(x), at_zero, select(x > 0, 1.0, 0.0))


def _hypot(x: Expression, y: Expression) -> Expression:
    more, less = (
        ir.maximum(ir.absolute(x), ir.absolute(y)),
        ir.minimum(ir.absolute(x), ir.absolute(y)),
    )
    part = less / select(more > 0, more, 1.0)
    sides = select(more > 0, more * ir.sqrt(1 + part * part), more)
    return select(_infinite(x) | _infinite(y), math.inf, sides)


def _logaddexp(x: Expression, y: Expression) -> Expression:
    more = ir.maximum(x, y)
    return select(ir.equal(x, y) & _infinite(x), x, more + ir.log1p(ir.exp(-ir.absolute(x - y))))


def _xlogy(x: Expression, y: Expression) -> Expression:
    return select(_nan(y), y, select(_zero(x), 0.0, x * ir.log(y)))


def _angle(y: Expression, x: Expression) -> Expression:
    """Return the angle of the point (x, y), from -pi to pi."""
    high, wide = ir.absolute(y), ir.absolute(x)
    more, less = ir.maximum(high, wide), ir.minimum(high, wide)
    ratio = select(_zero(more), 0.0, less / more)
    ratio = select(_infinite(x) & _infinite(y), 1.0, ratio)
    turn: Expression = ir.atan(ratio)
    turn = select(high > wide, math.pi / 2 - turn, turn)
    turn = select(_negative(x), math.pi - turn, turn)
    turn = _signed(turn, y)
    return select(_nan(x), x, select(_nan(y), y, turn))


def _side(x: Expression) -> Expression:
    return ir.sqrt((1 - x) * (1 + x))


def _asinh(x: Expression) -> Expression:
    size = ir.absolute(x)
    near = ir.log1p(size + size * size / (1 + ir.sqrt(1 + size * size)))
    far = ir.log(size) + math.log(2)
    return _signed(select(size < 1e9, near, far), x)


def _acosh(x: Expression) -> Expression:
    beyond = x - 1
    near = ir.log1p(beyond + ir.sqrt(beyond) * ir.sqrt(x + 1))  # NaN below one
    return select(x < 1e9, near, ir.log(x) + math.log(2))


def _atanh(x: Expression) -> Expression:
    size = ir.absolute(x)
    return _signed(0.5 * ir.log1p(2 * size / (1 - size)), x)


def _sinc(x: Expression) -> Expression:
    turned = math.pi * x
    return select(_zero(x), 1.0, ir.sin(turned) / turned)


def _nonzero(x: Expression) -> Expression:
    return number_of(~_zero(x))


def _without_decimals(formula: Formula) -> Rule:
    plain = unary(formula)

    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        if arguments(operator, "self").get("decimals"):
            raise Unsupported
        return plain(builder, operator)

    return rule


def _divide(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "self", "other")
    formulas: dict[object, Formula] = {
        "floor": _floor_divide,
        "trunc": lambda x, y: _trunc(x / y),
        None: lambda x, y: x / y,
    }
    formula = formulas[values.get("rounding_mode")]
    return combine(builder, formula, values["self"], values["other"])


def _nan_to_num(builder: IrBuilder, operator: Operator) -> IrNode:
    values = arguments(operator, "self", "nan", "posinf", "neginf")
    none, high, low = (
        number(values.get(name), default)
        for name, default in (("nan", 0.0), ("posinf", ir.FLOAT_MAX), ("neginf", -ir.FLOAT_MAX))
    )

    def finite(x: Expression) -> Expression:
        kept = select(x > ir.FLOAT_MAX, high, select(x < -ir.FLOAT_MAX, low, x))
        return select(_nan(x), none, kept)

    return combine(builder, finite, values["self"])


def _shrunk(*, soft: bool) -> Rule:
    def rule(builder: IrBuilder, operator: Operator) -> IrNode:
        bound = number(arguments(operator, "self", "lambd").get("lambd"), 0.5)

        def shrunk(x: Expression) -> Expression:
            off: Term = bound if soft else 0.0
            inner = select(_nan(x), x, 0.0)
            return select(x > bound, x - off, select(x < -bound, x + off, inner))

        return combine(builder, shrunk, operator.args[0])

    return rule


def _logit(builder: IrBuilder, operator: Operator) -> IrNode:
    eps = arguments(operator, "self", "eps").get("eps")

    def odds(x: Expression) -> Expression:
        if eps is not None:
            x = ir.clamp(x, number(eps), 1 - number(eps))
        return ir.log(x / (1 - x))

    return combine(builder, odds, operator.args[0])


_SAME = {
    "multiply": "mul", "divide": "div", "subtract": "sub", "negative": "neg", "absolute": "abs", "greater": "gt",
    "less": "lt", "greater_equal": "ge", "less_equal": "le", "not_equal": "ne", "clip": "clamp",
    "special_expit": "sigmoid", "special_log1p": "log1p", "special_exp2": "exp2", "special_expm1": "expm1",
    "special_erf": "erf", "arctan": "atan",
}  # fmt: skip
_UNARY: dict[str, Formula] = {
    "sign": sign_of,
    "sgn": sign_of,
    "trunc": _trunc,
    "fix": _trunc,
    "frac": lambda x: x - _trunc(x),
    "asin": lambda x: _angle(x, _side(x)),
    "acos": lambda x: _angle(_side(x), x),
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "sinc": _sinc,
    "special_sinc": _sinc,
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
    "tanhshrink": lambda x: x - ir.tanh(x),
    "isnan": _nan,
    "isinf": _infinite,
    "isfinite": lambda x: ir.absolute(x) <= ir.FLOAT_MAX,
    "signbit": _negative,
}
_BINARY: dict[str, Formula] = {
    "remainder": _remainder,
    "fmod": ir.remainder,
    "floor_divide": _floor_divide,
    "fmax": _fmax,
    "fmin": _fmin,
    "copysign": lambda x, y: _signed(ir.absolute(x), y),
    "heaviside": _heaviside,
    "hypot": _hypot,
    "logaddexp": _logaddexp,
    "xlogy": _xlogy,
    "special_xlogy": _xlogy,
    "atan2": _angle,
    "logical_xor": lambda x, y: ir.differ(_nonzero(x), _nonzero(y)),
}
_OWN: dict[str, Rule] = {
    **{name: unary(formula) for name, formula in _UNARY.items()},
    **{name: binary(formula) for name, formula in _BINARY.items()},
    "round": _without_decimals(_round),
    "div": _divide,
    "true_divide": _divide,
    "nan_to_num": _nan_to_num,
    "hardshrink": _shrunk(soft=False),
    "softshrink": _shrunk(soft=True),
    "logit": _logit,
    "special_logit": _logit,
}


_OWN |= {"arcsin": _OWN["asin"], "arccos": _OWN["acos"], "arctan2": _OWN["atan2"]}
_OWN |= {"arcsinh": _OWN["asinh"], "arccosh": _OWN["acosh"], "arctanh": _OWN["atanh"]}
_EVERY = POINTWISE | _OWN
ARITHMETIC: dict[str, Rule] = _OWN | {name: _EVERY[other] for name, other in _SAME.items()}
