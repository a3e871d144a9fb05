"""An evaluator that costs nothing: outcomes follow from the source's hash.

It lets the whole search run with no compiler and no device: for the tests of the graph, of resuming,
and for measuring what the search itself costs.
"""

from __future__ import annotations

import hashlib

from search.outcome import Outcome, Passed, Ratio, Wrong


class Free:
    """Makes outcomes up, the same for the same source."""

    def __init__(self) -> None:
        self.judged: list[str] = []

    def evaluate(self, source: str) -> Outcome:
        """Return a speed-up between 0.5 and 4, or a wrong answer for one source in eight."""
        self.judged.append(source)
        digest = hashlib.sha256(source.encode()).digest()
        if digest[0] < 32:
            return Wrong(reason="made up")
        ratio = 0.5 + 3.5 * int.from_bytes(digest[1:4], "big") / 0xFFFFFF
        return Passed(
            seconds=1e-3 / ratio,
            samples=1,
            speedup={"eager": Ratio(ratio=ratio, low=ratio, high=ratio)},
            max_error=0.0,
            allowed_error=0.0,
        )

    def confirm(self, source: str) -> Outcome:
        """Return what `evaluate` returned."""
        return self.evaluate(source)

    def expect(self, source: str, *, thorough: bool = False) -> bool:  # noqa: ARG002 - as every evaluator
        """Do nothing: it takes no time."""
        return False
