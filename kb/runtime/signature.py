"""What the kernels of a CUDA source take, read from its text, and how that is laid out in bytes.

Needs nothing but the standard library, so that a file that uses it can carry a copy.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# What may stand in front of parentheses between __global__ and the name of the kernel.
_ATTRIBUTES = re.compile(r"__\w+__|alignas")
_QUALIFIERS = re.compile(
    r"\b(?:const|volatile|struct|register|__restrict__|__restrict|__grid_constant__)\b|std::"
)
_BUILTIN_WORDS = {"unsigned", "signed", "char", "short", "int", "long", "float", "double", "bool"}
_CODES = {"double": "d", "float": "f", "bool": "?", "char": "b", "short": "h", "long": "q"}
_NAMED = {
    "int8_t": "b", "uint8_t": "B", "int16_t": "h", "uint16_t": "H", "int32_t": "i", "uint32_t": "I",
    "int64_t": "q", "uint64_t": "Q", "size_t": "Q", "ptrdiff_t": "q", "intptr_t": "q",
    "uintptr_t": "Q", "uint": "I", "ushort": "H", "half": "e", "__half": "e",
}  # fmt: skip
# A parameter whose type is not known is a whole number of its size, or bytes.
_BY_SIZE = {1: "b", 2: "h", 4: "i", 8: "q"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel.

    Attributes:
        text: its declaration.
        code: what `struct` packs it as, "" where the type is not known.
        pointer: a tensor may be passed for it.
    """

    text: str
    code: str
    pointer: bool = False

    def of_size(self, size: int) -> Parameter:
        """Return it with a code, where it has none, for so many bytes."""
        if self.code:
            return self
        return Parameter(self.text, _BY_SIZE.get(size, f"{size}s"), pointer=size == 8)

    def fit(self, value: Any, known: Parameter) -> Any:
        """Return `value` as `struct` packs it, whatever ctypes or tensor-map object it is.

        Args:
            known: the parameter as the source declares it: the bytes of a ctypes number are taken
                as they are only where its type is not known.
        """
        plain = as_plain(value)
        if known.code or self.code.endswith("s"):
            return plain
        if isinstance(plain, float) and isinstance(value, ctypes._SimpleCData):
            plain = bytes(value)
        # A small structure lies where a number of its size would.
        whole = isinstance(plain, bytes) and len(plain) == struct.calcsize(f"<{self.code}")
        return int.from_bytes(plain, "little", signed=True) if whole else plain


def as_plain(value: Any) -> Any:
    """Return the number or the bytes of an argument that is neither a number nor a tensor."""
    if value is None:
        return 0
    if isinstance(value, (ctypes.Structure, ctypes.Array)):
        return bytes(value)
    if isinstance(value, ctypes._SimpleCData):
        return value.value or 0
    return getattr(value, "packed", value)


def signatures(source: str) -> dict[str, list[tuple[Parameter, ...]]]:
    """Return the parameters of every ``__global__`` function of `source`, by name."""
    text = _COMMENTS.sub(" ", source)
    found: dict[str, list[tuple[Parameter, ...]]] = {}
    for start in re.finditer(r"\b__global__\b", text):
        at = start.end()
        while opening := re.compile(r"(\w+)\s*\(").search(text, at):
            end = _closing(text, opening.end())
            if not _ATTRIBUTES.fullmatch(opening[1]):
                inside = text[opening.end() : end - 1]
                parts = [part for part in _split(inside) if part.strip() not in {"", "void"}]
                found.setdefault(opening[1], []).append(tuple(_parameter(part) for part in parts))
                break
            at = end
    return found


def packed(parameters: Sequence[Parameter], offsets: Sequence[int]) -> struct.Struct:
    """Return what packs the values of `parameters`, each at its offset in bytes."""
    layout, end = "<", 0
    for parameter, offset in zip(parameters, offsets, strict=True):
        layout += "x" * (offset - end) + parameter.code
        end = offset + struct.calcsize(f"<{parameter.code}")
    return struct.Struct(layout)


def natural_offsets(parameters: Sequence[Parameter]) -> list[int]:
    """Return where the parameters lie by C's rules: each at a multiple of its size."""
    offsets, end = [], 0
    for parameter in parameters:
        size = struct.calcsize(f"<{parameter.code}")
        end = -(-end // size) * size
        offsets.append(end)
        end += size
    return offsets


def matching(
    declared: Sequence[tuple[Parameter, ...]], sizes: Sequence[int]
) -> tuple[Parameter, ...]:
    """Return the declaration that has parameters of these sizes; unnamed ones where none has."""
    for parameters in declared:
        if len(parameters) == len(sizes) and all(
            not parameter.code or struct.calcsize(f"<{parameter.code}") == size
            for parameter, size in zip(parameters, sizes, strict=True)
        ):
            return parameters
    # A macro or a template has written the signature.
    return tuple(Parameter(f"{size} bytes", "") for size in sizes)


def _closing(text: str, at: int) -> int:
    """Return the place after the parenthesis that closes the one before `at`."""
    depth = 1
    while depth and at < len(text):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += {**dict.fromkeys("(<[{", 1), **dict.fromkeys(")>]}", -1)}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _parameter(text: str) -> Parameter:
    declared = " ".join(text.partition("=")[0].split())
    if "*" in declared or "[" in declared:
        return Parameter(declared, "Q", pointer=True)
    words = _QUALIFIERS.sub(" ", declared).split()
    plain = [word for word in words if word in _BUILTIN_WORDS]
    if not plain:
        return Parameter(declared, _NAMED.get(words[0], "") if words else "")
    code = next((code for name, code in _CODES.items() if name in plain), "i")
    return Parameter(declared, code.upper() if "unsigned" in plain else code)
