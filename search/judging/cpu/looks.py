"""In whose code the time of a candidate's calls goes, as seen from outside."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import get_args

from kb.errors import TaskError
from search.judging.cpu.ownership import Code, Owner
from search.outcome import Refused
from search.profilers.sampling import Sampled
from search.sandbox.faults import Fault
from search.sandbox.ptrace import counter, threads
from search.sandbox.runner_handle import Worker

_FEWEST, _ENOUGH = 8, 40  # calls or samples that have met somebody's code
_FEWEST_CALLS = 8
CLOSELY = 25_000  # ns of processor time between samples, in calls whose time does not count
_OWNERS: tuple[Owner, ...] = get_args(Owner)
_OVER = 1.5  # of what handling tensors takes: only what is beyond it is the library's work


@dataclass(slots=True)
class _Call:
    """Whose code one call was met in: by samples, and by looks, which its threads share."""

    lasted: int = 0  # ns
    sampled: Counter[Owner] = field(default_factory=Counter)
    looks: int = 0
    seen: dict[Owner, float] = field(default_factory=lambda: dict.fromkeys(_OWNERS, 0.0))
    met: Counter[Owner] = field(default_factory=Counter)  # threads


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeTime:
    """Seconds of a call in the candidate's own code and in libraries', and how often they were met.

    Attributes:
        interpreter: seconds of a call in the interpreter, None where that is not known.
        calls: that count.
    """

    own: float
    library: float
    met: int
    interpreter: float | None = None
    calls: int = 0

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

    Whose code an address is in is looked up after each call, for a program may map other code there later. A call
    in which code was mapped is a library's: nobody can say what lay where in the middle of it.

    Only the faster half of the calls counts, none for more than their typical one, as a candidate is timed by the
    median: a few slow calls of its own would else hide many fast ones of a library.

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
        self._closer = False
        self._changed: frozenset[tuple[int, int]] | None = (
            None  # code that is not what its file holds
        )
        self._code_changes = False  # so that an address may have been another's when it was sampled
        self._calls: list[_Call] = []
        self._call = _Call()
        self._before: dict[int, int] = {}

    def __enter__(self) -> Looks:
        if self._period:
            self._start()
        return self

    def _start(self) -> bool:
        """Begin to sample, where the kernel permits it.

        Raises:
            Fault: there are too many threads, behind which a program could hide.
        """
        works = self._sampled.start()
        if self._sampled.crowded:
            raise Fault(
                Refused(
                    reason=f"it cannot be seen whose code it runs: {self._sampled.why}",
                    trick="library-call",
                )
            )
        return works

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sampled.close()

    @property
    def by_stops(self) -> bool:
        """Whether calls are made for looks alone, by whoever stops the runner: nothing is sampled."""
        return self._closer and not self._sampled.works

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
                self._call.seen[owner] += spent / total
                self._call.met[owner] += 1
        self._call.looks += 1
        self._before = now

    def end(self, start: int, end: int) -> None:
        """Note that a call ran between two moments, in ns of the monotonic clock; it stands still again."""
        self._call.lasted = end - start
        samples = self._sampled.between(start, end)
        mapped = [sample.moment for sample in samples if sample.address is None]
        if mapped or self._changed is None:
            self._changed = self._code.changed()
        within = any(moment >= start for moment in mapped)
        for sample in samples:
            if sample.address is not None:
                owner = "library" if within else self._owner(sample.address, self._changed)
                self._call.sampled[owner] += 1
        self._calls.append(self._call)
        self._call = _Call()

    def _owner(self, address: int, changed: frozenset[tuple[int, int]]) -> Owner:
        """Return whose code an address is in; what is not what its file holds is a library's, whatever it is named."""
        if any(start <= address < end for start, end in changed):
            return "library"
        return self._code.named(address)

    def forget(self) -> None:
        """Forget the calls so far."""
        self._calls.clear()

    def look_closer(self) -> None:
        """Sample more often, in calls whose time does not count."""
        self._closer = True
        self._sampled.close()
        self._period = CLOSELY
        self._sampled, self._changed = Sampled(self._pid, self._period), None
        if self._start():
            self._calls.clear()  # they were sampled less often, or not at all

    def spent(self) -> CodeTime:
        """Return whose time it was so far; the runner must stand still.

        Time in the interpreter or in the C library counts for neither side.

        Raises:
            OSError: its memory cannot be read.
        """
        calls = self._counting()
        if self._addresses_tell:
            sampled = self._owners(calls)
            each = self._period / max(len(calls), 1) / 1e9
            return CodeTime(
                own=sampled["own"] * each,
                library=sampled["library"] * each,
                met=self._met(),
                interpreter=sampled["interpreter"] * each,
                calls=len(calls),
            )
        looks = max(sum(call.looks for call in calls), 1)
        each = statistics.median([call.lasted for call in calls] or [0]) / looks / 1e9
        own, library = (sum(call.seen[who] for call in calls) for who in ("own", "library"))
        # Code that is not what its file holds, where it is sampled, is no interpreter's.
        interpreter = 0.0 if self._sampled.works else None
        return CodeTime(
            own=own * each, library=library * each, met=self._met(), interpreter=interpreter
        )

    def enough(self, *, own: bool = False, times: int = 1) -> bool:
        """Say whether more looks would change little.

        Args:
            own: code of its own must have been met.
            times: so many times what is enough where the answer is clear.
        """
        if len(self._counting()) < _FEWEST_CALLS:
            return False  # many samples of one long call tell nothing of the others
        return self._met() >= times * _ENOUGH and (not own or self._met("own") > 0)

    def expected(self, seconds: float) -> float:
        """Return how many samples would have met what takes so long in each call; infinity where none are taken."""
        if not self._addresses_tell:
            return math.inf
        return len(self._counting()) * seconds * 1e9 / self._period

    def _counting(self) -> list[_Call]:
        """Return the calls that count."""
        if self._addresses_tell:
            return _faster_half(self._calls)
        return _faster_half([call for call in self._calls if call.looks])

    def _met(self, *owners: Owner) -> int:
        """Return how often code of these was met in the calls that count, by the names of mappings."""
        met: Counter[Owner] = Counter()
        for call in self._counting():
            met.update(call.sampled if self._addresses_tell else call.met)
        return sum(met[owner] for owner in owners or ("own", "library"))

    @property
    def _addresses_tell(self) -> bool:
        return self._sampled.works and not self._code_changes

    def _owners(self, calls: Sequence[_Call]) -> dict[Owner, float]:
        """Return the samples by owner, those of a call for no more than the typical call has."""
        most = max(statistics.median([call.sampled.total() for call in calls] or [0]), 1)
        seen: dict[Owner, float] = dict.fromkeys(_OWNERS, 0.0)
        for call in calls:
            weight = min(1.0, most / max(call.sampled.total(), 1))
            for owner, count in call.sampled.items():
                seen[owner] += count * weight
        return seen


def _faster_half(calls: Sequence[_Call]) -> list[_Call]:
    """Return the calls that took no longer than their median."""
    if not calls:
        return []
    typical = statistics.median(call.lasted for call in calls)
    return [call for call in calls if call.lasted <= typical]


def require_sight(worker: Worker, *, shared: bool) -> None:
    """See that this machine tells whose code a candidate runs.

    Args:
        shared: the judge waits on the runner's own processor.

    Raises:
        TaskError: it does not.
    """
    pid = worker.child.pid
    if not (worker.stop() and counter(pid, pid)):
        raise TaskError(
            "library: forbidden needs to see where candidates are, which this kernel does not tell "
            "(/proc/PID/syscall): use library: allowed"
        )
    # Who waits on the runner's own processor seldom meets it in the middle of a call.
    if shared:
        sampled = Sampled(pid, CLOSELY)
        if not sampled.start():
            raise TaskError(
                "library: forbidden needs to see where candidates are, which takes a second processor here, since the "
                f"kernel samples nobody ({sampled.why}): use library: allowed, or set kernel.perf_event_paranoid to 2"
            )
        sampled.close()
