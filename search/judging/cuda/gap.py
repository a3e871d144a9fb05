"""What the judge's clock sees of a batch beyond its events, on a GPU."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What the judge's clock saw of a batch beyond its events and what is around its calls.

    Attributes:
        allowed: seconds that it may be, either way.
        missing: seconds by which the batch was too short to have emptied the caches.
        emptying: seconds that emptying them takes at least.
        host: share of the batch's time that the host took to enqueue it.
        beside: seconds a call of the framework's own; negative where its events see what the clock does not, as
            that a kernel starts while the caches are still being emptied.
        between: seconds by which a call's end and the next one's start are further apart, as events say, than in a batch without
            calls: a start that is recorded again when the work is done is seen there.
        between_beside: the same of the framework's own calls, the most of them.
    """

    seconds: float
    allowed: float
    missing: float
    emptying: float
    calls: int
    host: float
    beside: float = 0.0
    between: float = 0.0
    between_beside: float = 0.0

    @property
    def each(self) -> float:
        """Seconds a call."""
        return self.seconds / self.calls

    @property
    def charged(self) -> float:
        """Seconds that a call is charged: its events would have seen what the framework's see and the clock does not."""
        return self.each - min(self.beside, 0.0)

    @property
    def apart(self) -> float:
        """Seconds that a call is charged for what lies between events."""
        return self.between - min(self.between_beside, 0.0)

    def less(self, framework: Collection[Gap]) -> Gap:
        """Return it without what the framework's own calls leave unexplained, where they do.

        It is no less missing for that: a host that delays the framework has nobody empty the caches sooner. What a call of half a
        second leaves unexplained says nothing of one of microseconds: `framework` may be empty.
        """
        if not framework:
            return self
        each = max(gap.each for gap in framework)
        return replace(
            self,
            seconds=self.seconds - max(each, 0.0) * self.calls,
            beside=each,
            between_beside=max(gap.between for gap in framework),
        )
