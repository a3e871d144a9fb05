"""The small change of drawing: numbers, scales, ticks and elements."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from kb.web.text import visible


def number(value: float) -> str:
    """Return a coordinate with at most one digit after the point."""
    return f"{value:.1f}".removesuffix(".0")


def element(name: str, content: str | Markup = "", **attributes: object) -> Markup:
    """Return an element; text is escaped, a trailing ``_`` of a name goes, other ``_`` are hyphens."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = escape(visible(content) if not isinstance(content, Markup) else content)
    return Markup(f"<{name}{told}>{inner}</{name}>")  # noqa: S704 - both are escaped above


def _value(value: object) -> str:
    if isinstance(value, float):
        return number(value)
    return str(escape(visible(str(value))))


def joined(parts: Iterable[Markup]) -> Markup:
    """Return elements one after the other."""
    return Markup("").join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Maps values to coordinates, by their logarithm where `log` says so."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value; what lies outside is put on the border."""
        low, high, at = (self._of(one) for one in (self.low, self.high, value))
        share = 0.5 if high == low else (at - low) / (high - low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    def _of(self, value: float) -> float:
        return math.log(max(value, 1e-300)) if self.log else value

    def ticks(self, count: int = 6) -> list[float]:
        """Return round values within the scale, about `count` of them."""
        return (
            _log_ticks(self.low, self.high, count)
            if self.log
            else _ticks(self.low, self.high, count)
        )


def _ticks(low: float, high: float, count: int) -> list[float]:
    if not high > low:
        return [low]
    raw = (high - low) / max(count, 1)
    power = 10 ** math.floor(math.log10(raw))
    step = next(one * power for one in (1, 2, 2.5, 5, 10) if one * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, count: int) -> list[float]:
    for steps in ((1.0,), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)):
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        found = [
            step * 10.0**power
            for power in range(first, last + 1)
            for step in steps
            if low * 0.999 <= step * 10.0**power <= high * 1.001
        ]
        if len(found) >= min(3, count):
            break
    every = -(-len(found) // (count + 2))
    return found[::every] if found else [low]


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """Return a path through points."""
    if not points:
        return ""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
