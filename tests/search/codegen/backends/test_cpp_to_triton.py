"""Every expression that a rule can make is one in Triton's Python too."""

from __future__ import annotations

import ast

import pytest

from search.codegen.backends.cpp_to_triton import speak
from search.codegen.backends.prelude import needed
from search.codegen.pointwise import _BINARY, _UNARY


@pytest.mark.parametrize("form", [*_UNARY.values(), *_BINARY.values()])
def test_what_c_plus_plus_says_is_an_expression_of_known_functions(form: str) -> None:
    text = speak(form).format("a", "b")
    called = {
        node.func.id
        for node in ast.walk(ast.parse(text, mode="eval"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    found = "\n".join(needed(text))
    for name in called - {"float"}:
        assert f"def {name}(" in found


@pytest.mark.parametrize(
    ("form", "spoken"),
    [
        ("to<V>(1.f) / {0}", "(1.) / {0}"),
        ("vpowi<-3>({0})", "vpowi({0}, -3)"),
        ("vsel({0} > 0.f, {0}, V{{}})", "vsel({0} > 0., {0}, 0.0)"),
        ("to<V>(-INFINITY) + to<V>(NAN)", '(-float("inf")) + (float("nan"))'),
        ("(!{0})", "({0} == 0)"),
        ("{0} + to<V>(3.4e+38f)", "{0} + (3.4e+38)"),
        ("vsoftplus({0}, 1.0f, inff)", 'vsoftplus({0}, 1.0, float("inf"))'),
    ],
)
def test_spellings(form: str, spoken: str) -> None:
    assert speak(form) == spoken


def test_only_what_is_called_comes_along_in_the_order_of_definition() -> None:
    names = [text.split("def ")[1].split("(")[0] for text in needed("vlog1p(vrelu(x))")]
    assert names == ["vmax", "vrelu", "vlog", "vlog1p"]
