"""A number with its unit, as a cell of a table writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_LONG = {"kilo": "k", "mega": "m", "giga": "g", "tera": "t", "peta": "p"}
_NUMBER = re.compile(r"(?<![\w.,])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![.,]?\d)")
# dimension -> what follows the prefix; a letter may be glued to the number ("80GB").
_UNITS = {
    "bandwidth": r"(?P<p>[kmgt])(?P<i>i?)b(?:yte)?s?\s*(?:/|per\s*)\s*s(?:ec|econd)?",
    "bytes": r"(?P<p>[kmgt])(?P<i>i?)b(?:ytes)?|(?P<b>bytes|b)",
    "flops": r"(?P<p>[gtp]|giga|tera|peta)\s*(?:fl)?ops?(?:/s)?",
    "clock": r"(?P<p>[mg])hz",
    "cycles": r"(?:clock )?(?:cycles|clocks)",
    "count": r"(?P<k>k)?(?:\s*(?:x\s*)?32[- ]bit)?",
}
# Outside of these a cell was read wrongly, or is about something else.
_SANE = {
    "bandwidth": (1e9, 1e15),
    "bytes": (1e3, 1e14),
    "flops": (1e9, 1e18),
    "clock": (1e8, 1e10),
    "cycles": (1, 1e5),
    "count": (1, 1e7),
}
_MARKS = re.compile(r"[*†‡§¹²³⁴]|\[\d+\]|\(\d\)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value in SI units.

    Attributes:
        marked: a footnote mark stands at it.
    """

    value: float
    marked: bool


def read_quantity(cell: str, dimension: str, unit: str = "", *, binary: bool) -> Quantity | None:
    """Read the one number of a cell; None where there is none, several, or another dimension.

    Args:
        unit: that the label gives, for cells that hold a bare number.
        binary: KB, MB and GB are powers of 1024.
    """
    marked = _MARKS.search(cell) is not None
    text = _MARKS.sub("", cell).replace("\u00a0", " ").strip().lower()
    numbers = list(_NUMBER.finditer(text))
    glued = re.match(r"\d+(?:\.\d+)?", text)
    if not numbers and glued is not None:  # "80gb": the pattern of numbers wants an end of word
        numbers = [glued]
    if len(numbers) != 1:
        return None
    number = float(numbers[0][0].replace(",", ""))
    rest = text[numbers[0].end() :].strip() or unit.lower()
    scale = _scale(rest, dimension, binary=binary)
    if scale is None:
        return None
    low, high = _SANE[dimension]
    value = number * scale
    return Quantity(value, marked) if low <= value <= high else None


def unit_of(label: str) -> str:
    """Return the unit in the brackets of a label: ``Memory bandwidth (GB/s)``."""
    found = re.search(r"[\[(]\s*([^\])]*?)\s*[\])]\s*$", label)
    return "" if found is None else found[1]


def without_unit(label: str) -> str:
    """Return a label without its unit and its footnote marks."""
    plain = _MARKS.sub("", label).strip()
    unit = unit_of(plain)
    if unit and any(_scale(unit.lower(), one, binary=False) for one in _UNITS if one != "count"):
        plain = plain[: plain.rindex(plain[plain.rfind(unit) - 1])].strip()
    return " ".join(plain.rstrip(":").split())


def _scale(text: str, dimension: str, *, binary: bool) -> float | None:
    pattern = _UNITS[dimension]
    found = re.match(rf"(?:{pattern})(?![a-z])", text)
    if found is None:
        return None
    groups = found.groupdict()
    if dimension == "count":
        return 1024.0 if groups["k"] else 1.0
    prefix = groups.get("p") or ""
    prefix = _LONG.get(prefix, prefix)
    if dimension == "bytes" and (groups["i"] or binary) and prefix:
        return 1024.0 ** " kmgt".index(prefix)
    if dimension == "bandwidth" and groups["i"]:
        return 1024.0 ** " kmgt".index(prefix)
    return _PREFIX[prefix]
