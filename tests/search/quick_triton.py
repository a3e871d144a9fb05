"""Imported by a program that runs Triton's own interpreter: spares it what it computes and throws away.

Triton computes each sum and product of whole numbers a second time, with 64 bits, to assert that it fits; but it
asserts in debug mode only. And it looks up the language's functions anew for each call of a kernel's function, and
builds a table of element types for each value. Without all that, the same kernels take a third of the time.
"""

import dataclasses
import inspect
from typing import Any

import triton.language as tl
from triton.runtime import interpreter

_whole, _element_type = interpreter.interpreter_builder, interpreter._get_np_dtype
_whole.options = dataclasses.replace(_whole.options, sanitize_overflow=False)
_kinds: dict[str, Any] = {}
_builtins: dict[Any, list[str]] = {}


def _kept_element_type(kind: Any) -> Any:
    kind = kind.scalar
    if kind.name not in _kinds:
        _kinds[kind.name] = _element_type(kind)
    return _kinds[kind.name]


def _patch_builtins(package: Any, builder: Any, scope: Any) -> None:
    if package not in _builtins:  # as they are before any is patched
        found = inspect.getmembers(package, tl.core.is_builtin)
        _builtins[package] = [name for name, _ in found]
    for name in _builtins[package]:
        member = getattr(package, name)
        if tl.core.is_builtin(member):
            interpreter._patch_attr(package, name, member, builder, scope)


interpreter._get_np_dtype = _kept_element_type
interpreter._patch_builtin = _patch_builtins
