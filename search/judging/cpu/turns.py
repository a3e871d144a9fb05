"""Turns that a runner takes: it says that it is ready, stands still, goes, and stands still again.

What a turn is about is put in place while it stands still, by whom nothing can be hidden: the kernel
counts the processor time of a process, and that must not move meanwhile.
"""

from __future__ import annotations

import time
from typing import Any

from search.judging.checks import told
from search.judging.cpu.standstill import cpu_time, settle, waited, waited_here, wake_soon
from search.judging.cpu.timing import CpuPinning
from search.judging.cpu.watching import seen_at_once
from search.outcome import Crashed, Refused, TimedOut
from search.sandbox.faults import Fault, raised
from search.sandbox.runner_handle import STARVED, Worker
from search.sandbox.shared_memory import DONE, FAILED, GO, PREPARE, READY, STOP, Arena

_SPINS = 200  # polls of a control word between two looks at the clock
_PATIENCE = 0.005  # seconds between two looks at whether a runner lives
# Seconds of its own to be ready, for all turns and for each. A busy host takes some of each turn that the kernel does not
# tell of, a session may have thousands, and a busy device may keep one waiting for a third of a second.
_ALL_READY, _EACH_READY = 1.0, 0.001


class Turns:
    """Has one runner take turns.

    Args:
        seconds: that one turn may take.
        trusted: it runs the user's own reference.

    Attributes:
        only_processor: before READY only processor time helps a program.
    """

    only_processor = True

    def __init__(
        self, arena: Arena, worker: Worker, seats: CpuPinning, *, seconds: float, trusted: bool
    ) -> None:
        self._arena = arena
        self._worker = worker
        self._seats = seats
        self._seconds = seconds
        self._trusted = trusted
        self._call = 0
        self._ticks = 0
        self._charged = 0.0
        # ns between the last two looks at a control word, of which only the second saw it
        self._late = 0
        self._turns = 0
        self.running = False
        self.doing = "forward"

    @property
    def pid(self) -> int:
        """The runner's process id."""
        return self._worker.child.pid

    def _begin(self, message: dict[str, Any]) -> None:
        """Put the runner into its loop."""
        wake_soon(self.pid)
        words, self._call, self._ticks = self._arena.words, 0, 0
        words[PREPARE] = words[READY] = words[GO] = words[DONE] = 0
        self._worker.tell({"op": "calls", **message})
        self.running = True

    def end(self) -> None:
        """Let the loop return."""
        self._arena.words[STOP] = 1
        self._worker.resume()
        if self.running:
            self.running = False
            answer = self._worker.answer(self._seconds)
            while "calls" not in answer:
                if "raised" in answer:
                    raise Fault(raised(told(answer), self.doing))
                answer = self._worker.answer(self._seconds)
        self._arena.words[STOP] = 0

    def _ready(self) -> None:
        """Have the runner ready for its next turn, and standing still."""
        self._call += 1
        self._arena.words[PREPARE] = self._call
        ticks, queued, queued_here = self._ticks, waited(self.pid), waited_here()
        began = time.monotonic_ns()
        self._worker.resume()
        self._await(READY)
        elapsed, ran, late = time.monotonic_ns() - began, self._cpu_time() - ticks, 0
        queued = waited(self.pid) - queued + waited_here() - queued_here
        self._stop()
        if self._alone:
            late = self._late  # for so long it may have waited to be stopped, and spun
            queued = queued if seen_at_once(late, elapsed) else elapsed
        # What neighbours cost it is not its own, be they of another machine; what its other threads cost it is.
        self._charge(max(elapsed - queued, (ran if ticks else 0) - late, 0) / 1e9)

    @property
    def _alone(self) -> bool:
        """Whether this process waits on a processor of its own, and only a processor's time is of use to the runner."""
        return self.only_processor and not self._seats.shared

    def _go(self) -> None:
        """Let it take its turn."""
        self._arena.words[GO] = self._call
        self._worker.resume()

    def _charge(self, own: float) -> None:
        if self._trusted or self._call == 1:  # it had its memory to look through first
            return
        self._charged += own
        self._turns += 1
        if self._charged > _ALL_READY + _EACH_READY * self._turns:
            raise Fault(
                TimedOut(
                    reason=f"before a call it took {own:.2f} s to be ready, {self._charged:.2f} s in all, where a runner "
                    "takes microseconds: what does it do between calls?",
                    seconds=own,
                )
            )

    def _await(self, word: int, since: float | None = None) -> None:
        """Wait until the runner has written a control word; `since` when nobody has looked."""
        words, call = self._arena.words, self._call
        now = time.monotonic() if since is None else since
        deadline, look = now + self._seconds, now + _PATIENCE
        while True:
            deadline = self._attend(deadline)
            for _ in range(1 if self._seats.shared else _SPINS):
                known = words[word]
                if known == call:
                    self._late = int((time.monotonic() - now) * 1e9)
                    return
            if self._seats.shared:
                self._arena.wait(word, known, longer=True)
            now = time.monotonic()
            if now > look:
                look = now + _PATIENCE
                self.check_alive(late=now > deadline)

    def check_alive(self, *, late: bool) -> None:
        """Say what keeps a call from ending, if anything does.

        Raises:
            Fault: it raised, died or is late.
        """
        if self._arena.words[FAILED]:
            answer = self._worker.answer(self._seconds)
            while "raised" not in answer:
                answer = self._worker.answer(self._seconds)
            self.running = False
            raise Fault(raised(told(answer), self.doing))
        if not self._worker.alive():
            raise self._worker.dead()
        if late:
            reason = f"{self.doing} was still running after {self._seconds:.1f} s"
            raise Fault(TimedOut(reason=reason, seconds=self._seconds))

    def _stop(self) -> None:
        """Stop the runner, and note how much processor time it has had."""
        if not (self._worker.stop() and settle(self.pid, STARVED)):
            if not self._worker.alive():
                raise self._worker.dead()
            reason = "it could not be stopped: is it stuck in the kernel?"
            raise Fault(Crashed(reason=reason))
        self._ticks = self._cpu_time()

    def _cpu_time(self) -> int:
        try:
            return cpu_time(self.pid)
        except OSError:
            raise self._worker.dead() from None

    def _require_still(self) -> None:
        """See that the runner has not run since it was stopped: a timer may have sent it SIGCONT.

        Raises:
            Fault: it has.
        """
        ran = self._cpu_time() - self._ticks
        if ran:
            raise Fault(
                Refused(
                    reason=f"it ran for {ran / 1e3:.0f} us while it was stopped: it has itself woken",
                    trick="work-outside-the-clock",
                )
            )

    def _attend(self, end: float) -> float:
        """Answer what the runner asks for in the middle of a turn; return when the turn must end."""
        return end
