"""Expressions as text: in C++ on the preludes' vectors, for processors and for CUDA, and in Triton."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from search.codegen.expressions import (
    Binary,
    Const,
    ElementIndex,
    Expression,
    FunctionCall,
    Operand,
    Select,
    Unary,
    is_infinite,
    parts,
)

# How tightly a sign binds; what stands alone binds tightest. Comparisons never go without parentheses:
# Python and C++ do not rank them alike.
_TIGHT = 4
_LEVELS = {"*": 3, "/": 3, "+": 2, "-": 2}
_LOOSE = 1


class Printer:
    """Writes an expression in one language.

    Args:
        operands: texts of the operands, each a name or a call.
        index: returns the text of the position along a dimension of the node.

    Attributes:
        nan, infinity, suffix: how literals are spelled.
        opposite: spelling of what is true where ``{0}`` is false.
        with_integer: spelling of function ``{0}`` of ``{1}`` with the integer ``{2}``, which the
            compiler knows.
    """

    nan: str
    infinity: str
    suffix: str
    opposite: str
    with_integer: str

    def __init__(self, operands: Sequence[str], index: Callable[[int], str]) -> None:
        self._operands = operands
        self._index = index

    def text(self, expression: Expression) -> str:
        """Return the text of `expression`."""
        match expression:
            case Operand(number=number):
                text = self._operands[number]
            case Const(value=value):
                text = self.number(value)
            case ElementIndex(dim=dim):
                text = self._index(dim)
            case Unary(sign=sign, value=value):
                inner = self._inside(value, _TIGHT)
                text = f"-{inner}" if sign == "-" else self.opposite.format(inner)
            case Binary(sign=sign, left=left, right=right):
                level = _LEVELS.get(sign, _LOOSE)
                least = level + (level == _LOOSE)
                text = f"{self._inside(left, least)} {sign} {self._inside(right, level + 1)}"
            case Select(condition=condition, chosen=chosen, other=other):
                arms = f"{self.value(chosen)}, {self.value(other)}"
                text = f"vsel({self.text(condition)}, {arms})"
            case FunctionCall():
                text = self._call(expression)
            case _:
                raise TypeError(expression)
        return text

    def _inside(self, expression: Expression, least: int) -> str:
        """Return the text as a part of another that binds no looser than `least`."""
        level = _TIGHT
        if isinstance(expression, Binary):
            level = _LEVELS.get(expression.sign, _LOOSE)
        elif isinstance(expression, Unary) or (
            isinstance(expression, Const) and math.copysign(1, expression.value) < 0
        ):
            level = _TIGHT - 1
        text = self.text(expression)
        return text if level >= least else f"({text})"

    def _call(self, call: FunctionCall) -> str:
        first, *rest = call.arguments
        texts = [self.value(first)]
        if call.function.rest == "integer":
            (number,) = rest
            assert isinstance(number, Const)
            return self.with_integer.format(call.function.name, texts[0], int(number.value))
        plain = call.function.rest == "numbers"
        texts += [self.text(part) if plain else self.value(part) for part in rest]
        return f"{call.function.name}({', '.join(texts)})"

    def value(self, expression: Expression) -> str:
        """Return the text where a vector is expected."""
        return self.text(expression)

    def number(self, value: float) -> str:
        """Return a literal: of single precision, or an integer."""
        if isinstance(value, int):
            return str(value)
        if math.isnan(value):
            return self.nan
        if is_infinite(value):
            return f"-{self.infinity}" if value < 0 else self.infinity
        return f"{value!r}{self.suffix}"


class TritonPrinter(Printer):
    """Triton, where a number needs no conversion to a tensor."""

    nan, infinity, suffix = 'float("nan")', 'float("inf")', ""
    opposite, with_integer = "({0} == 0)", "{0}({1}, {2})"


class CppPrinter(Printer):
    """C++ on the vector type ``V`` of `prelude.hpp`; a number is splat where a vector is expected."""

    nan, infinity, suffix = "NAN", "INFINITY", "f"
    opposite, with_integer = "!{0}", "{0}<{2}>({1})"

    def value(self, expression: Expression) -> str:
        """Return the text where a vector is expected."""
        text = self.text(expression)
        varies = any(isinstance(part, (Operand, ElementIndex)) for part in parts(expression))
        return text if varies else f"to<V>({text})"


class CudaPrinter(CppPrinter):
    """CUDA C++ on the vector type ``V`` of `prelude_cuda.hpp`, which has the vocabulary of the other."""
