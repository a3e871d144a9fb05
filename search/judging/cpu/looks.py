"""In whose code the time of a candidate's calls goes, as seen from outside."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from search.judging.cpu.ownership import Code, Owner
from search.profilers.sampling import Sampled
from search.sandbox.ptrace import counter, threads

_FEWEST, _ENOUGH = 8, 40  # calls or samples that have met somebody's code
CLOSELY = 25_000  # ns of processor time between samples, in calls whose time does not count
_OVER = 1.5  # of what handling tensors takes: only what is beyond it is the library's work


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTime:
    """Seconds of a call in the candidate's own code and in libraries', and how often they were met."""

    own: float
    library: float
    met: int

    def share(self, handling: float = 0.0) -> float | None:
        """Return own / (own + library), None where too few looks met either, or nothing but handling.

        Args:
            handling: seconds of a call that a program spends in the library which computes nothing there.
                With cold caches, allocating an output takes longer than computing a small one.
        """
        if self.met < _FEWEST:
            return None
        library = max(0.0, self.library - _OVER * handling)
        return self.own / (self.own + library) if self.own + library else None


class Looks:
    """Notes in whose code the threads of a runner are.

    Where the kernel permits it, program counters are sampled in every call, with their times; those
    between a call's start and its end count. Besides, whoever stops the runner in the middle of a call has
    a look at all threads that there are then. No thread can hide, none is counted for more than the
    processor time that it had, and nothing is attached to the process that it could see.

    Args:
        own: paths of the shared objects that the judge built from the candidate's source.
        period: of sampling, in ns of processor time; 0 for none until it looks closer. It takes a call some
            25 us with cold caches, so that others who are timed beside it must be sampled as well.
    """

    def __init__(self, pid: int, own: Sequence[str], period: int) -> None:
        self._pid = pid
        self._code = Code(pid, own)
        self._period = period
        self._sampled = Sampled(pid, period)
        self._addresses: Counter[int] = Counter()
        self._code_changes = False  # so that an address may have been another's when it was sampled
        self._seen: dict[Owner, float] = {
            "own": 0.0,
            "library": 0.0,
            "nobody": 0.0,
        }  # looks, shared by threads
        self._met: Counter[Owner] = Counter()  # threads
        self._taken = 0
        self._lasted: list[int] = []  # ns, of calls
        self._before: dict[int, int] = {}

    def __enter__(self) -> Looks:
        if self._period:
            self._sampled.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sampled.close()

    def begin(self) -> None:
        """Note the threads of the runner, which stands still before a call in which it will be looked at."""
        self._before = threads(self._pid)

    def take(self) -> None:
        """Look where the runner is, which stands still in the middle of a call.

        Raises:
            OSError: its memory cannot be read.
        """
        now = threads(self._pid)
        ran = {thread: spent - self._before.get(thread, 0) for thread, spent in now.items()}
        total = sum(ran.values())
        for thread, spent in ran.items():
            at = counter(self._pid, thread) if spent > 0 else None
            if at is not None:
                owner = self._code.owner(at)
                self._code_changes |= owner != self._code.named(at)
                self._seen[owner] += spent / total
                self._met[owner] += 1
        self._taken += 1
        self._before = now

    def end(self, start: int, end: int) -> None:
        """Note that a call ran between two moments, in ns of the monotonic clock; it stands still again."""
        self._lasted.append(end - start)
        for sample in self._sampled.between(start, end):
            if sample.address is None:
                self._code_changes = True
            else:
                self._addresses[sample.address] += 1

    def look_closer(self) -> None:
        """Sample more often, in calls whose time does not count."""
        self._sampled.close()
        self._addresses.clear()
        self._lasted.clear()
        self._period = CLOSELY
        self._sampled = Sampled(self._pid, self._period)
        self._sampled.start()

    def spent(self) -> CodeTime:
        """Return whose time it was so far; the runner must stand still.

        Time in the interpreter or in the C library counts for neither side.

        Raises:
            OSError: its memory cannot be read.
        """
        sampled = self._by_samples()
        if sampled is not None:
            each = self._period / max(len(self._lasted), 1) / 1e9
            met = sampled["own"] + sampled["library"]
            return CodeTime(own=sampled["own"] * each, library=sampled["library"] * each, met=met)
        each = statistics.median(self._lasted or [0]) / max(self._taken, 1) / 1e9
        met = self._met["own"] + self._met["library"]
        return CodeTime(own=self._seen["own"] * each, library=self._seen["library"] * each, met=met)

    def enough(self, *, own: bool = False) -> bool:
        """Say whether more looks would change little.

        Args:
            own: code of its own must have been met.
        """
        met = self._met if self._code_changes or not self._sampled.works else self._by_name()
        return met["own"] + met["library"] >= _ENOUGH and (met["own"] > 0 or not own)

    def _by_samples(self) -> Counter[Owner] | None:
        """Return the samples by owner, None where they tell nothing.

        Code that is not what its file holds is a library's, whatever it is named.
        """
        if self._code_changes or not self._sampled.works:
            return None
        changed = self._code.changed()
        seen: Counter[Owner] = Counter()
        for address, count in self._addresses.items():
            other = any(start <= address < end for start, end in changed)
            seen["library" if other else self._code.named(address)] += count
        return seen

    def _by_name(self) -> Counter[Owner]:
        seen: Counter[Owner] = Counter()
        for address, count in self._addresses.items():
            seen[self._code.named(address)] += count
        return seen
