"""Single calls of a runner, which stands still while its inputs are placed and while its answer is read.

What a call is given is nowhere before the runner has said that it is ready and has been stopped, and what
it answers is read before it runs again: nothing that its process does to itself can move work out of
the time between.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from search.judging.checks import check_outputs, told
from search.judging.cpu.glances import Glance
from search.judging.cpu.kept import AnswerBytes, KeptAnswers, Span, overlap
from search.judging.cpu.looks import Looks
from search.judging.cpu.refusals import aliased, check_inputs, early, in_place, reused
from search.judging.cpu.standstill import waited, waited_here
from search.judging.cpu.timing import CpuPinning
from search.judging.cpu.turns import Turns
from search.judging.cpu.watching import kept_processor, seen_at_once
from search.reference import Problem
from search.sandbox import ptrace
from search.sandbox.faults import Fault, forged, raised
from search.sandbox.runner_handle import Worker
from search.sandbox.shared_memory import (
    DONE,
    EMPTY,
    KEEP,
    NO_CALL,
    ON_COPIES,
    PIN,
    POINTERS,
    Arena,
    is_private,
    mappings,
    scrub,
    shared_pages,
)

_AFTERWARDS = 100_000  # ns of a processor from DONE to standing still; honest programs were seen to have up to 50 us
_LONG = 0.001  # seconds of a call from which waiting for it need not be all polling
_SPARE = 2 << 20  # bytes of memory that are spoiled before the first call, or what answers take


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """What came of one call.

    Attributes:
        seconds: from the moment at which the inputs could be read to DONE, by this process's clock.
        outputs: as they lay in the runner's memory when it was stopped.
        undisturbed: it hardly waited for its processor.
        seen: its end was seen at once; always where it was stopped, or runner and judge take turns on one processor.
    """

    seconds: float
    outputs: tuple[torch.Tensor, ...]
    undisturbed: bool
    seen: bool


def _any_overlap(spans: Sequence[Span], mapped: Sequence[tuple[int, int]]) -> bool:
    return any(overlap(span, (start, end - start)) for span in spans for start, end in mapped)


class Calls(Turns):
    """Makes calls of one runner, one after the other.

    Args:
        seconds: that one call may take.
        trusted: it runs the user's own reference, whose inputs and answers need no second look.
    """

    def __init__(
        self,
        problem: Problem,
        arena: Arena,
        worker: Worker,
        seats: CpuPinning,
        *,
        seconds: float,
        trusted: bool = False,
    ) -> None:
        super().__init__(arena, worker, seats, seconds=seconds, trusted=trusted)
        self._problem = problem
        self._placed: tuple[Any, ...] = ()
        self._kept = KeptAnswers(problem, trusted=trusted)
        self._copies = False
        self.timed = False  # whether it counts in whose caches memory is
        self._strides: list[Sequence[int]] = [layout.strides for layout in problem.outputs]
        self._recent: deque[float] = deque(maxlen=9)
        self.least = 0.0
        self.looks: Looks | None = None
        self._glance = Glance([layout.nbytes for layout in problem.outputs])

    @property
    def count(self) -> int:
        """How many calls were made."""
        return max(self._call - 1, 0)

    @property
    def typical(self) -> float | None:
        """Seconds of the middle one of the last calls, None where there are too few."""
        return statistics.median(self._recent) if len(self._recent) > 2 else None

    def forget(self) -> None:
        """Forget how long calls took: from now on they are made otherwise."""
        self._recent.clear()
        self.least = 0.0

    def begin(self) -> None:
        """Put the runner into its loop, ready for a call and standing still."""
        self._arena.words[KEEP], self._arena.words[PIN] = self._kept.most, self._kept.pin
        self._kept.clear()
        size = sum(layout.nbytes for layout in self._problem.outputs)
        count = max(self._kept.most + 1, min(64, _SPARE // size))
        spare = [layout.nbytes for layout in self._problem.outputs] * count
        processors = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self._seats.seat})  # on the stage the runner would wait for it
        try:
            self._begin({"spare": spare, "shared": self._seats.shared})
            self._ready()
        finally:
            os.sched_setaffinity(0, processors)

    def end(self) -> None:
        """Let the loop return."""
        os.sched_setaffinity(0, {self._seats.seat})  # on the stage the runner would wait for it
        super().end()

    def place(self, inputs: Sequence[Any], state: Mapping[str, torch.Tensor] | None = None) -> None:
        """Put the inputs of the next call in place, while the runner stands still.

        Args:
            state: parameters, where they are changed for each call.
        """
        self._leave_seat()
        self._put(inputs)
        for name, value in (state or {}).items():
            self._arena.state[name].copy_(value)
        self._placed = tuple(inputs)

    def _put(self, inputs: Sequence[Any]) -> None:
        for slot, value in zip(self._arena.inputs, inputs, strict=True):
            if isinstance(slot, torch.Tensor):
                slot.copy_(value)

    def call(
        self,
        *,
        empty: bool = False,
        copies: bool = False,
        recheck: bool = False,
        stop_after: Sequence[float] = (),
    ) -> CallAnswer:
        """Time one call on the inputs in place, and take its answer as it stands when it says DONE.

        Args:
            empty: do everything but the call.
            copies: give it copies of the inputs, in memory of the runner's own.
            recheck: see that the answer before has not changed.
            stop_after: seconds after which the runner is stopped wherever it is, and looked at. If it has
                said DONE by then, its answer must be whole.

        Raises:
            Fault: it raised, hung, changed its inputs, or did what no runner does.
        """
        self._arena.words[EMPTY] = NO_CALL if empty else ON_COPIES if copies else 0
        self._copies = copies
        os.sched_setaffinity(0, {self._seats.seat})
        self._require_still()
        before = self._disturbances()
        looking = not empty and not self._trusted
        if looking:
            self._glance.plan()
        if stop_after and self.looks is not None:
            self.looks.begin()
        start, end, seconds, after = self._timed(stop_after, empty=empty, looking=looking)
        seen = bool(stop_after) or self._seen(end - start)
        if self.looks is not None and not empty:
            self.looks.end(start, end)
        outputs = self._answered(empty=empty, recheck=recheck, looking=looking)
        self._leave_seat()
        if not stop_after and not empty:
            self._note(seconds)
        undisturbed = kept_processor(before, after, end - start)
        return CallAnswer(seconds=seconds, outputs=outputs, undisturbed=undisturbed, seen=seen)

    def _timed(
        self, stop_after: Sequence[float], *, empty: bool, looking: bool
    ) -> tuple[int, int, float, tuple[int, int]]:
        """Let the runner make the call, and stop it.

        It has one processor: what it had of it beyond the time until DONE, it had between DONE and standing
        still, however long the kernel took to stop it. Where this process itself waited for its processor, the
        runner was only stopped later for it. Where both have one, the runner does not run while this process does,
        and what it had by DONE is told exactly.

        Returns:
            When it began and was done, in ns; the seconds that it took, with what it had after DONE; how it was disturbed.
        """
        ticks, queue = self._ticks, waited_here()
        start = time.perf_counter_ns()
        self._go()
        self._wait_for_done(start, stop_after, empty=empty)
        end = time.perf_counter_ns()
        at_end = (self._disturbances(), self._cpu_time()) if self._seats.shared else None
        if looking:
            self._glance.take(self.pid, self._addresses())
        self._stop()
        had = at_end[1] if at_end else ticks + end - start + waited_here() - queue
        seconds = (end - start + max(0, self._ticks - had - _AFTERWARDS)) / 1e9
        return start, end, seconds, at_end[0] if at_end else self._disturbances()

    def _seen(self, took: int) -> bool:
        return self._seats.shared or seen_at_once(self._late, took)

    def _addresses(self) -> list[int]:
        """Return where the runner says that its outputs lie."""
        return list(self._arena.words[POINTERS : POINTERS + len(self._problem.outputs)])

    def _note(self, seconds: float) -> None:
        self.least = min(self.least or seconds, seconds)
        self._recent.append(seconds)

    def _wait_for_done(self, start: int, stop_after: Sequence[float], *, empty: bool) -> None:
        """Wait until the runner says DONE; stop it on the way at moments after `start`, in ns."""
        still, since = 0, time.monotonic()
        for moment in stop_after:
            still += self._interrupt(start + int(moment * 1e9) + still)
        if not (stop_after or empty or self._seats.shared) and self.least > _LONG:
            # On few processors the core that is not waited on keeps the neighbours off the stage.
            time.sleep(0.6 * self.least)
        self._await(DONE, since)

    def _answered(self, *, empty: bool, recheck: bool, looking: bool) -> tuple[torch.Tensor, ...]:
        """Take the answer as it stands, and have the runner get ready for the next call."""
        read = None if empty or self._trusted else self._read_answer(recheck=recheck)
        self._require_still()
        if looking and read is not None and self._glance.differs(read.pieces):
            # What lies in the inputs' memory reads as NaN by now.
            raise in_place() if self._shared(self._kept.own(read.spans)) else early()
        if read is not None:
            self._write_over(self._kept.leaving())
        self._ready()
        return () if empty else self._outputs(read)

    def later(self, seconds: float) -> tuple[torch.Tensor, ...]:
        """Return the last answer as it is some seconds later, its inputs being in place."""
        self._worker.resume()
        time.sleep(seconds)
        self._stop()
        pieces = tuple(self._peek(*span) for span in self._kept.last.spans)
        return self._shaped(pieces)

    def answers_in_place(self) -> bool:
        """Say whether the last answer lies in the memory that it shares with the judge, where it must not."""
        return self._shared(self._kept.own(self._kept.last.spans))

    def _shared(self, spans: Sequence[Span]) -> bool:
        return not is_private(self.pid, spans) and _any_overlap(spans, mappings(self.pid))

    # -------------------------------------------------------------------------------------------------

    def _interrupt(self, moment: int) -> int:
        """Stop the runner at `moment` wherever it is, and look; let it go on where it has not said DONE.

        Returns:
            Nanoseconds for which it stood still.
        """
        if self._arena.words[DONE] == self._call:
            return 0
        if self._seats.shared:  # who waits without a pause keeps the runner from its processor
            time.sleep(max(0, moment - time.perf_counter_ns()) / 1e9)
        while time.perf_counter_ns() < moment:
            pass
        self._stop()
        began = time.perf_counter_ns()
        if self.looks is not None:
            self.looks.take()
        if self._arena.words[DONE] != self._call:
            self._worker.resume()
        return time.perf_counter_ns() - began

    def _disturbances(self) -> tuple[int, int]:
        return ptrace.preemptions(self.pid), waited(self.pid)

    def _read_answer(self, *, recheck: bool) -> AnswerBytes:
        """Read the answer's bytes, and see what the call did to its inputs."""
        if not self._copies:
            check_inputs(self._arena.inputs, self._placed)
        if recheck and self._kept.changed(self._peek):
            raise reused()
        words, layouts = self._arena.words, self._problem.outputs
        spans = tuple((words[POINTERS + n], layout.nbytes) for n, layout in enumerate(layouts))
        try:
            # An answer that lies in the inputs' memory reads as NaN, but where the reference's lies there too.
            views = {number: self._peek(*spans[number]) for number in self._problem.views}
            scrub(self._arena.inputs)
            pieces = tuple(
                views[number] if number in views else self._peek(*span)
                for number, span in enumerate(spans)
            )
        except Fault:
            pieces = ()  # its description says first what it is instead
        self._put(self._placed)
        own = self._kept.own(spans)
        if recheck and not is_private(self.pid, own) and _any_overlap(own, shared_pages(self.pid)):
            raise aliased()
        # Whole numbers cannot be NaN.
        if self._problem.special and self._shared(own):
            raise in_place()
        return AnswerBytes(spans=spans, pieces=pieces)

    def _write_over(self, spans: Sequence[Span]) -> None:
        """Write over an answer that the runner is about to release, as its user may.

        Raises:
            Fault: that cannot be written to.
        """
        if not spans:
            return
        self._leave_seat()
        try:
            for span in spans:
                ptrace.overwrite(self.pid, *span)
        except OSError as error:
            raise forged(f"an answer that is kept cannot be written to: {error}") from error
        os.sched_setaffinity(0, {self._seats.seat})

    def _leave_seat(self) -> None:
        """Leave the processor that waits: what it has in its own caches would slow the next call down."""
        if self.timed:
            os.sched_setaffinity(0, {self._seats.stage})

    def _peek(self, address: int, size: int) -> torch.Tensor:
        buffer = torch.empty(size, dtype=torch.uint8)
        try:
            ptrace.peek(self.pid, address, buffer)
        except OSError as error:
            raise forged(f"the answer of a call is not where it says: {error}") from error
        return buffer

    def _outputs(self, read: AnswerBytes | None) -> tuple[torch.Tensor, ...]:
        """Return the answer that was read, once the runner has said how it is laid out."""
        answer = self._worker.answer(self._seconds)
        if "raised" in answer:
            raise Fault(raised(told(answer), self.doing))
        if read is None:
            return self._trusted_outputs(answer)
        check_outputs(self._problem, answer)
        if not read.pieces:
            raise forged("the answer of a call is not where it says")
        # A dimension of one element may have any stride, and none that is told is passed on unseen.
        self._strides = [
            [
                int(a) if size != 1 else 1
                for a, size in zip(output["strides"], layout.shape, strict=True)
            ]
            for output, layout in zip(answer["outputs"], self._problem.outputs, strict=True)
        ]
        self._kept.check(read.spans)
        self._kept.add(read, self.count)
        return self._shaped(read.pieces)

    def _trusted_outputs(self, answer: Mapping[str, Any]) -> tuple[torch.Tensor, ...]:
        """Return the reference's answer, which may have gaps where a candidate's may not."""
        outputs = []
        for number, (output, layout) in enumerate(
            zip(answer["outputs"], self._problem.outputs, strict=True)
        ):
            strides = output["strides"]
            reach = sum((n - 1) * s for n, s in zip(layout.shape, strides, strict=True)) + 1
            address = self._arena.words[POINTERS + number]
            piece = self._peek(address, reach * layout.dtype.itemsize).view(layout.dtype)
            outputs.append(piece.as_strided(layout.shape, strides))
        return tuple(outputs)

    def _shaped(self, pieces: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return tuple(
            piece.view(layout.dtype).as_strided(layout.shape, strides)
            for piece, layout, strides in zip(
                pieces, self._problem.outputs, self._strides, strict=True
            )
        )
