"""Answers of a runner that are still alive: where they lie, and what becomes of them.

An answer is its caller's, who may write to it. So none may change while it is kept, no other may lie in its
memory, and before a runner releases it, it is written over: a program that finds parts of an old answer where it
puts the next one finds nothing.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from search.judging.checks import same_bytes
from search.judging.cpu.refusals import reused
from search.outcome import Refused
from search.reference import Problem
from search.sandbox.faults import Fault

_FEW_BYTES, _MOST_KEPT = 64 << 20, 3  # small answers are kept alive for some calls, others for one
_MOST_PINNED = 8  # one of the first so many is kept alive to the end

Span = tuple[int, int]  # address and bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerBytes:
    """An answer as bytes, and where they lay."""

    spans: tuple[Span, ...]
    pieces: tuple[torch.Tensor, ...]


class KeptAnswers:
    """The last answers of a runner, and one of the first, which stay alive while the next ones are made.

    Args:
        trusted: it runs the user's own reference, whose answers may lie anywhere.

    Attributes:
        most: how many of the last are kept.
        pin: number of the call whose answer stays alive to the end, 0 for none: buffers that are used in
            turn come round to it, however many there are.
    """

    def __init__(self, problem: Problem, *, trusted: bool) -> None:
        small = sum(layout.nbytes for layout in problem.outputs) * _MOST_KEPT < _FEW_BYTES
        self.most = _MOST_KEPT if small else 1
        self.pin = secrets.randbelow(_MOST_PINNED) + 1 if small and not trusted else 0
        self._views, self._twins = problem.views, problem.twins
        self._last: deque[AnswerBytes] = deque(maxlen=self.most)
        self._pinned: list[AnswerBytes] = []

    def clear(self) -> None:
        """Forget them: their runner begins anew."""
        self._last.clear()
        self._pinned.clear()

    def add(self, read: AnswerBytes, call: int) -> None:
        """Keep the answer of a call; what was kept longest goes."""
        self._last.append(read)
        if call == self.pin:
            self._pinned.append(read)

    @property
    def last(self) -> AnswerBytes:
        """The last answer."""
        return self._last[-1]

    def own(self, spans: Sequence[Span]) -> list[Span]:
        """Return those of an answer's spans that no input's memory may hold."""
        return [span for number, span in enumerate(spans) if number not in self._views]

    def changed(self, peek: Callable[[int, int], torch.Tensor]) -> bool:
        """Say whether the answer that was kept longest is not what it was, as `peek` reads it."""
        if not self._last:
            return False
        pairs = zip(self._last[0].spans, self._last[0].pieces, strict=True)
        return any(
            number not in self._views and not same_bytes(peek(*span), piece)
            for number, (span, piece) in enumerate(pairs)
        )

    def leaving(self) -> list[Span]:
        """Return where the answer lies that is released when the one that was just made is added."""
        if len(self._last) < self.most or any(self._last[0] is one for one in self._pinned):
            return []
        return self.own(self._last[0].spans)

    def check(self, spans: Sequence[Span]) -> None:
        """See that an answer has memory of its own, as far as the reference's has.

        Raises:
            Fault: it shares some with an earlier answer that is alive, or two of its tensors share some.
        """
        alive = [span for read in (*self._last, *self._pinned) for span in self.own(read.spans)]
        for number, span in enumerate(spans):
            if number in self._views:
                continue
            for other in range(number):
                twins = {number, other} <= self._twins
                if other not in self._views and not twins and overlap(span, spans[other]):
                    reason = (
                        "two of its outputs share memory: writing to one would change the other"
                    )
                    raise Fault(Refused(reason=reason, trick="aliased-outputs"))
            if any(overlap(span, other) for other in alive):
                raise reused()


def overlap(one: Span, other: Span) -> bool:
    """Say whether two spans share a byte."""
    return one[0] < other[0] + other[1] and other[0] < one[0] + one[1]
