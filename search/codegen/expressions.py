"""Expressions: how one element is computed from one element of each operand, in no language."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Sign = Literal["+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=", "&", "|"]
COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))
LOGICAL = frozenset(("&", "|"))
FLOAT_MAX = 3.4028234663852886e38  # of single precision


def _with(sign: Sign, *, swapped: bool = False) -> Callable[[Expression, Term], Binary]:
    def method(self: Expression, other: Term) -> Binary:
        left, right = (term(other), self) if swapped else (self, term(other))
        return Binary(sign, left, right)

    return method


class Expression:
    """What an element is; rules write it with Python's operators."""

    __slots__: tuple[str, ...] = ()
    __add__, __radd__ = _with("+"), _with("+", swapped=True)
    __sub__, __rsub__ = _with("-"), _with("-", swapped=True)
    __mul__, __rmul__ = _with("*"), _with("*", swapped=True)
    __truediv__, __rtruediv__ = _with("/"), _with("/", swapped=True)
    __lt__, __le__, __gt__, __ge__ = _with("<"), _with("<="), _with(">"), _with(">=")
    __and__, __or__ = _with("&"), _with("|")

    def __neg__(self) -> Unary:
        return Unary("-", self)

    def __invert__(self) -> Unary:
        return Unary("!", self)


Term = Expression | float | int


@dataclass(frozen=True, slots=True)
class Operand(Expression):
    """The element of operand number `number`."""

    number: int


@dataclass(frozen=True, slots=True)
class Const(Expression):
    """A number; an integer is for comparing with integers."""

    value: float | int


@dataclass(frozen=True, slots=True)
class ElementIndex(Expression):
    """The element's position along dimension `dim` of the node, an integer."""

    dim: int


@dataclass(frozen=True, slots=True)
class Unary(Expression):
    """The opposite of a number, or of a truth value."""

    sign: Literal["-", "!"]
    value: Expression


@dataclass(frozen=True, slots=True)
class Binary(Expression):
    """Arithmetic, a comparison, or both or either of two truth values."""

    sign: Sign
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Select(Expression):
    """`chosen` where the condition is true, else `other`."""

    condition: Expression
    chosen: Expression
    other: Expression


@dataclass(frozen=True, slots=True)
class Function:
    """A function that every prelude defines.

    Attributes:
        name: as the preludes call it.
        costly: an element of it is worth keeping rather than computing again.
        rest: what follows its first argument: values like the first, plain numbers, or one integer that
            is known when the kernel is compiled.
    """

    name: str
    costly: bool = False
    rest: Literal["values", "numbers", "integer"] = "values"

    def __call__(self, *arguments: Term) -> FunctionCall:
        """Return the call with these arguments."""
        return FunctionCall(self, tuple(term(argument) for argument in arguments))


@dataclass(frozen=True, slots=True)
class FunctionCall(Expression):
    """A function of the preludes, called."""

    function: Function
    arguments: tuple[Expression, ...]


def term(value: Term) -> Expression:
    """Return a number as an expression, an expression as it is."""
    return value if isinstance(value, Expression) else Const(float(value))


def equal(left: Expression, right: Expression) -> Binary:
    """Return the comparison; ``==`` itself compares expressions."""
    return Binary("==", left, right)


def differ(left: Expression, right: Expression) -> Binary:
    """Return the comparison; ``!=`` itself compares expressions."""
    return Binary("!=", left, right)


def select(condition: Expression, chosen: Term, other: Term) -> Select:
    """Return `chosen` where the condition is true, else `other`."""
    return Select(condition, term(chosen), term(other))


def parts(expression: Expression) -> Iterator[Expression]:
    """Yield `expression` and all that it is made of."""
    yield expression
    for name in expression.__slots__:
        found = getattr(expression, name)
        for part in found if isinstance(found, tuple) else (found,):
            if isinstance(part, Expression):
                yield from parts(part)


def costly(expression: Expression) -> bool:
    """Say whether computing it twice costs more than keeping it."""
    return any(
        isinstance(part, FunctionCall) and part.function.costly for part in parts(expression)
    )


def multiplies(expression: Expression) -> bool:
    """Say whether it contains a product, which a compiler may fuse with an addition."""
    return any(isinstance(part, Binary) and part.sign == "*" for part in parts(expression))


def is_truth(expression: Expression, masks: Sequence[bool]) -> bool:
    """Say whether it is a truth value; `masks` says the same of the operands."""
    match expression:
        case Operand(number=number):
            return masks[number]
        case Binary(sign=sign):
            return sign in COMPARISONS or sign in LOGICAL
        case Unary(sign=sign):
            return sign == "!"
    return False


@dataclass(frozen=True, slots=True)
class Reduction:
    """What a row is reduced to.

    Attributes:
        join: how two partial results become one.
        mean: the sum is divided by the number of elements, less `correction`.
    """

    join: Literal["Sum", "Max", "Min", "Prod"]
    mean: bool = False
    correction: float = 0.0

    def __str__(self) -> str:
        if not self.mean:
            return self.join
        return f"Mean:{self.correction:g}" if self.correction else "Mean"


SUM = Reduction("Sum")
MAX = Reduction("Max")
MIN = Reduction("Min")
PROD = Reduction("Prod")
MEAN = Reduction("Sum", mean=True)

maximum = Function("vmax")  # NaN wins
minimum = Function("vmin")
hwmax = Function("hwmax")  # the second operand where either is NaN, as the instruction has it
hwmin = Function("hwmin")
relu = Function("vrelu")
clamp = Function("vclamp", rest="numbers")
absolute = Function("vabs")
sqrt = Function("vsqrt")
rsqrt = Function("vrsqrt")
floor = Function("vfloor", costly=True)
ceil = Function("vceil", costly=True)
exp = Function("vexp", costly=True)
exp2 = Function("vexp2", costly=True)
expm1 = Function("vexpm1", costly=True)
log = Function("vlog", costly=True)
log1p = Function("vlog1p", costly=True)
log2 = Function("vlog2", costly=True)
log10 = Function("vlog10", costly=True)
sin = Function("vsin", costly=True)
cos = Function("vcos", costly=True)
tan = Function("vtan", costly=True)
atan = Function("vatan", costly=True)
sinh = Function("vsinh", costly=True)
cosh = Function("vcosh", costly=True)
tanh = Function("vtanh", costly=True)
sigmoid = Function("vsigmoid", costly=True)
silu = Function("vsilu", costly=True)
softplus = Function("vsoftplus", costly=True, rest="numbers")
mish = Function("vmish", costly=True)
erf = Function("verf", costly=True)
gelu = Function("vgelu", costly=True)
gelu_tanh = Function("vgelu_tanh", costly=True)
power = Function("vpow", costly=True)
remainder = Function("vfmod", costly=True)  # with the sign of what is divided
whole_power = Function("vpowi", rest="integer")
FUNCTIONS: tuple[Function, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Function)
)


def square(value: Expression) -> Expression:
    """Return the product with itself."""
    return value * value


def number_of(truth: Expression) -> Expression:
    """Return one for true and zero for false."""
    return select(truth, 1.0, 0.0)


def finite_or_zero(value: Expression) -> Expression:
    """Return `value`, zero where it is infinite or not a number."""
    return select(absolute(value) <= FLOAT_MAX, value, 0.0)


def is_infinite(value: float) -> bool:
    """Say whether `value` is infinite in single precision."""
    return not math.isnan(value) and abs(value) > FLOAT_MAX
