"""Imported by a program that runs Triton's own interpreter: spares it what it computes and throws away.

Triton computes each sum and product of whole numbers a second time, with 64 bits, to assert that it fits; but it
asserts in debug mode only. And it looks up the language's functions anew for each call of a kernel's function, and
builds a table of element types for each value, and the type of its shape. Without all that, the same kernels take a
fraction of the time.
"""

import dataclasses
import types
from typing import Any

import triton.language as tl
from triton.runtime import interpreter

from search.judging.dryrun.interpreter import quick_types

_whole, _element_type = interpreter.interpreter_builder, interpreter._get_np_dtype
_whole.options = dataclasses.replace(_whole.options, sanitize_overflow=False)
_kinds: dict[str, Any] = {}
_patch_language, _patched, _seen = interpreter._patch_lang, set[int](), set[Any]()
_KEPT = types.SimpleNamespace(restore=lambda: None)


def _kept_element_type(kind: Any) -> Any:
    kind = kind.scalar
    if kind.name not in _kinds:
        _kinds[kind.name] = _element_type(kind)
    return _kinds[kind.name]


def _patch_once(function: Any) -> Any:
    """Have the language compute, for good: this process does nothing else with it."""
    if function not in _seen:
        _seen.add(function)
        named = {id(one) for one in function.__globals__.values() if one is tl or one is tl.core}
        if not named <= _patched:
            _patch_language(function)
            _patched.update(named)
    return _KEPT


interpreter._get_np_dtype = _kept_element_type
interpreter._patch_lang = _patch_once
quick_types.install(setattr)
