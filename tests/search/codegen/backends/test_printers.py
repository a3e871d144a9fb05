"""Expressions mean the same in every language that they are printed in."""

from __future__ import annotations

import ast
import ctypes
import random
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from search.codegen import expressions as ir
from search.codegen.backends.prelude import cuda_prelude, needed
from search.codegen.backends.printers import CppPrinter, CudaPrinter, Printer, TritonPrinter
from search.codegen.operators.pointwise import _BINARY, _UNARY
from search.codegen.render import prelude

X, Y = ir.Operand(0), ir.Operand(1)
VALUES = np.array([1.5, -2.25, 0.5, 3.0], dtype=np.float32)
ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply}
COMPARISONS = {"<": np.less, ">=": np.greater_equal, "==": np.equal}
LOGIC = {"&": np.logical_and, "|": np.logical_or}


def nowhere(dim: int) -> str:
    return f"p{dim}"


def text(printer: type[Printer], expression: ir.Expression) -> str:
    return printer(["a", "b", "c", "d"], nowhere).text(expression)


def defined(name: str, prelude: str) -> bool:
    plain = re.search(rf"\b{name}\(", prelude) is not None
    return plain or f"LANEWISE({name.removeprefix('v')})" in prelude


@pytest.mark.parametrize("function", ir.FUNCTIONS, ids=lambda function: function.name)
def test_every_prelude_has_every_function(function: ir.Function) -> None:
    assert defined(function.name, prelude())
    assert defined(function.name, cuda_prelude())
    assert f"def {function.name}(" in "\n".join(needed(f"{function.name}(x)"))


@pytest.mark.parametrize("name", [*_UNARY, *_BINARY])
def test_a_formula_is_an_expression_of_known_functions_in_triton(name: str) -> None:
    formula = _UNARY[name](X) if name in _UNARY else _BINARY[name](X, Y)
    spoken = text(TritonPrinter, formula)
    called = {
        node.func.id
        for node in ast.walk(ast.parse(spoken, mode="eval"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    found = "\n".join(needed(spoken))
    for function in called - {"float"}:
        assert f"def {function}(" in found


@pytest.mark.parametrize(
    ("expression", "cpp", "triton"),
    [
        (1 / X, "1.0f / a", "1.0 / a"),
        (ir.whole_power(X, -3), "vpowi<-3>(a)", "vpowi(a, -3)"),
        (ir.select(X > 0, X, 0), "vsel(a > 0.0f, a, to<V>(0.0f))", "vsel(a > 0.0, a, 0.0)"),
        (X + float("-inf"), "a + -INFINITY", 'a + -float("inf")'),
        (~(X < Y), "!(a < b)", "((a < b) == 0)"),
        (X - (Y - X), "a - (b - a)", "a - (b - a)"),
        (ir.clamp(X, -1, 6), "vclamp(a, -1.0f, 6.0f)", "vclamp(a, -1.0, 6.0)"),
        (ir.maximum(X, 1 - ir.Const(0.3)), "vmax(a, to<V>(1.0f - 0.3f))", "vmax(a, 1.0 - 0.3)"),
        (ir.equal(X, ir.ElementIndex(1)), "a == p1", "a == p1"),
        (ir.equal(X, ir.Const(-100)), "a == -100", "a == -100"),
        (ir.softplus(X, 1, float("inf")), "vsoftplus(a, 1.0f, INFINITY)", 'vsoftplus(a, 1.0, float("inf"))'),
    ],
)  # fmt: skip
def test_spellings(expression: ir.Expression, cpp: str, triton: str) -> None:
    assert text(CppPrinter, expression) == text(CudaPrinter, expression) == cpp
    assert text(TritonPrinter, expression) == triton


def number(rng: random.Random, depth: int) -> ir.Expression:
    kind = rng.randrange(5) if depth else rng.randrange(2)
    if kind == 0:
        return ir.Operand(rng.randrange(4))
    if kind == 1:
        return ir.Const(rng.choice([-2.0, -0.5, 0.25, 3.0]))
    if kind == 2:
        return -number(rng, depth - 1)
    if kind == 3:
        return ir.select(truth(rng, depth - 1), number(rng, depth - 1), number(rng, depth - 1))
    sign = rng.choice(list(ARITHMETIC))
    return ir.Binary(sign, number(rng, depth - 1), number(rng, depth - 1))  # type: ignore[arg-type]


def truth(rng: random.Random, depth: int) -> ir.Expression:
    kind = rng.randrange(3) if depth else 0
    if kind == 0:
        sign = rng.choice(list(COMPARISONS))
        sides = number(rng, max(0, depth - 1)), number(rng, max(0, depth - 1))
        return ir.Binary(sign, *sides)  # type: ignore[arg-type] # a sign
    if kind == 1:
        return ~truth(rng, depth - 1)
    sign = rng.choice(list(LOGIC))
    return ir.Binary(sign, truth(rng, depth - 1), truth(rng, depth - 1))  # type: ignore[arg-type]


def meaning(expression: ir.Expression) -> np.generic:
    """What the tree says, in single precision."""
    match expression:
        case ir.Operand(number=at):
            return VALUES[at]
        case ir.Const(value=value):
            return np.float32(value)
        case ir.Unary(sign=sign, value=value):
            inner = meaning(value)
            return -inner if sign == "-" else np.logical_not(inner)
        case ir.Binary(sign=sign, left=left, right=right):
            function = {**ARITHMETIC, **COMPARISONS, **LOGIC}[sign]
            result: np.generic = function(meaning(left), meaning(right))
            return result
        case ir.Select(condition=condition, chosen=chosen, other=other):
            return meaning(chosen) if meaning(condition) else meaning(other)
    raise TypeError(expression)


def test_a_printed_tree_is_the_same_tree(tmp_path: Path) -> None:
    rng = random.Random(0)
    trees = [number(rng, 4) for _ in range(150)]
    expected = np.array([meaning(tree) for tree in trees], dtype=np.float32)
    names = dict(zip("abcd", VALUES.tolist(), strict=True))
    names["vsel"] = lambda condition, chosen, other: chosen if condition else other
    said = [eval(text(TritonPrinter, tree), {}, names) for tree in trees]
    np.testing.assert_allclose(np.array(said), expected, rtol=1e-5)
    lines = "".join(f"  y[{at}] = {text(CppPrinter, tree)};\n" for at, tree in enumerate(trees))
    (tmp_path / "t.cpp").write_text(
        "static float vsel(bool m, float a, float b) { return m ? a : b; }\n"
        "template <class V> static V to(float x) { return x; }\ntypedef float V;\n"
        'extern "C" void run(float* y, float a, float b, float c, float d) {\n' + lines + "}\n"
    )
    subprocess.run(
        ["g++", "-O0", "-shared", "-fPIC", "-w", "t.cpp", "-o", "t.so"], cwd=tmp_path, check=True
    )
    found = np.zeros(len(trees), dtype=np.float32)
    values = [ctypes.c_float(value) for value in VALUES.tolist()]
    ctypes.CDLL(str(tmp_path / "t.so")).run(found.ctypes.data_as(ctypes.c_void_p), *values)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_only_what_is_called_comes_along_in_the_order_of_definition() -> None:
    names = [text.split("def ")[1].split("(")[0] for text in needed("vlog1p(vrelu(x))")]
    assert names == ["vmax", "vrelu", "vlog", "vlog1p"]
