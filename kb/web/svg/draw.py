"""The small change of drawing: numbers, scales, ticks and elements."""

from __future__ import annotations

import math
from collections.abc import Iterable

from markupsafe import Markup, escape

from kb.visible import visible


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


class Scale:
    """Maps values to coordinates, by their logarithm where `log` says so.

    Args:
        low, high: values at the two ends.
        start, end: their coordinates.
    """

    __slots__ = ("_first", "_ratio", "end", "high", "log", "low", "start")

    def __init__(
        self, *, low: float, high: float, start: float, end: float, log: bool = False
    ) -> None:
        self.low, self.high, self.start, self.end, self.log = low, high, start, end, log
        self._first = math.log(max(low, 1e-300)) if log else low
        span = (math.log(max(high, 1e-300)) if log else high) - self._first
        self._ratio = 1 / span if span else 0.0

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value; what lies outside is put on the border."""
        if self._ratio == 0.0:
            return (self.start + self.end) / 2
        at = math.log(value if value > 1e-300 else 1e-300) if self.log else value
        share = (at - self._first) * self._ratio
        share = 0.0 if share < 0.0 else 1.0 if share > 1.0 else share
        return self.start + share * (self.end - self.start)

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
