"""A judge that costs nothing: outcomes follow from the source's hash.

It lets the whole search run with no compiler and no device: for the tests of the graph, of resuming,
and for measuring what the search itself costs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from search.judging.limits import Prepared
from search.outcome import Outcome, Passed, Ratio, Wrong


class Synthetic:
    """Makes outcomes up, the same for the same source."""

    def __init__(self) -> None:
        self.judged: list[str] = []

    def prepare(self, progress: Callable[[str], None] = lambda _: None) -> Prepared:  # noqa: ARG002 - nothing takes time
        """Return baselines of one millisecond."""
        return Prepared(
            baselines={"eager": 1e-3},
            compile_error=None,
            dropped=(),
            sandbox=(),
            graph=None,
            work=None,
        )

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:  # noqa: ARG002 - it costs nothing
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

    def close(self) -> None:
        """Do nothing."""
