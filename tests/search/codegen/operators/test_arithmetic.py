"""Elementwise operators on what has no end, is no number or is zero, in C++ and in Triton: as torch has it."""

from __future__ import annotations

from pathlib import Path

import pytest
import three_languages
from recipe_bench import reference

from search.codegen.library import RecipeCard

_VALUES = "[0.0, -0.0, float('inf'), -float('inf'), float('nan'), 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.5, 1e-40, -1e30, 3.7, 7.0]"
GRID = (
    f"torch.tensor({_VALUES}).repeat_interleave(16)",
    f"torch.tensor({_VALUES}).repeat(16)",
)
CALLS = {
    "whole numbers": (
        "torch.sign(a)", "torch.sgn(a)", "torch.trunc(a)", "torch.round(a)", "torch.frac(a)",
    ),
    "remainders": (
        "torch.remainder(a, b)", "torch.fmod(a, b)", "torch.floor_divide(a, b)",
        "torch.div(a, b, rounding_mode='floor')", "torch.div(a, b, rounding_mode='trunc')",
    ),
    "of two": (
        "torch.fmax(a, b)", "torch.fmin(a, b)", "torch.copysign(a, b.nan_to_num())", "torch.heaviside(a, b)",
        "torch.hypot(a, b)", "torch.logaddexp(a, b)", "torch.xlogy(a, b)", "torch.atan2(a, b)",
    ),
    "angles": (
        "torch.asin(a)", "torch.acos(a)", "torch.asinh(a)", "torch.acosh(a)", "torch.atanh(a)",
        "torch.deg2rad(a)", "torch.rad2deg(a)",
    ),
    "what they are": (
        "torch.where(torch.isnan(a), 1.0, 0.0)", "torch.where(torch.isinf(a), 1.0, 0.0)",
        "torch.where(torch.isfinite(a), 1.0, 0.0)", "torch.where(torch.signbit(a.nan_to_num()), 1.0, 0.0)",
        "torch.nan_to_num(a)", "torch.nan_to_num(a, 1.0, 2.0, 3.0)",
        "torch.where(torch.logical_xor(a > 0, b > 0), 1.0, 0.0)",
    ),
    "shrunk": ("F.hardshrink(a)", "F.softshrink(a)", "F.tanhshrink(a)", "torch.logit(a, 0.1)"),
}  # fmt: skip


def written(calls: tuple[str, ...]) -> str:
    body = "\n".join(f"y{at} = {call}" for at, call in enumerate(calls))
    finite = (
        f"torch.where(y{at} != y{at}, 100.0, torch.where(y{at} > 1e38, 200.0, "
        f"torch.where(y{at} < -1e38, 300.0, torch.where(y{at}.abs() > 1e20, y{at} * 1e-30, y{at}))))"
        for at in range(len(calls))
    )
    return reference(f"{body}\nreturn {', '.join(finite)}", *GRID)


SOURCES = {name: written(calls) for name, calls in CALLS.items()}


def assert_right(found: dict[str, three_languages.Errors]) -> None:
    assert found
    for name, errors in found.items():
        wrong = [at for at, (own, eager) in enumerate(errors) if not own <= 4 * eager + 1e-6]
        assert not wrong, (name, wrong, errors)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SOURCES))
def test_in_cpp(name: str, cards: dict[str, RecipeCard]) -> None:
    assert_right(three_languages.cpp(SOURCES[name], cards, 1))


@pytest.mark.slow
def test_in_triton(cards: dict[str, RecipeCard], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    for found in three_languages.triton(SOURCES, cards, tmp_path).values():
        assert_right(found)
