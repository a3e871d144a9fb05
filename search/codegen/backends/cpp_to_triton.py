"""Expressions of primitive nodes, which are written as the C++ prelude has them, in Triton."""

from __future__ import annotations

import re
from functools import cache

# In order: what C++ spells otherwise than Triton. A scalar needs no conversion to a vector there.
_SPELLINGS = (
    (re.compile(r"lanewise\(\{0\}, \[\]\(float x\) \{\{ return __builtin_(\w+)f\(x\); \}\}\)"), r"v\1({0})"),
    (re.compile(r"vpowi<(-?\d+)>\(\{0\}\)"), r"vpowi({0}, \1)"),
    (re.compile(r"to<V>\("), "("),
    (re.compile(r"V\{\{\}\}"), "0.0"),
    (re.compile(r"\binff?\b|\bINFINITY\b"), 'float("inf")'),
    (re.compile(r"\bNAN\b"), 'float("nan")'),
    (re.compile(r"\(!\{0\}\)"), "({0} == 0)"),
    (re.compile(r"(?<![\w.])(\d+\.?\d*(?:[eE][-+]?\d+)?)f\b"), r"\1"),
)  # fmt: skip


@cache
def speak(form: str) -> str:
    """Return the expression `form` of a map in Triton, its places ``{0}``, ``{1}``, ... kept."""
    for pattern, spelling in _SPELLINGS:
        form = pattern.sub(spelling, form)
    return form
