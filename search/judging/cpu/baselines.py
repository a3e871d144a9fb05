"""The baselines of a judge on a processor: which there are, started again where one has ended, and closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Protocol

from search.comparisons import modes_of
from search.judging.cpu.baseline import Baseline
from search.judging.cpu.draws import RoundDraws
from search.judging.cpu.handling import UNKNOWN, measure_handling
from search.judging.cpu.looks import CodeTime
from search.judging.cpu.timing import Contender, Local
from search.reference import Problem
from search.sandbox.build import Builder
from search.sandbox.faults import Fault

_FLATTERY = 40  # us; measured: a tiny reference as its own candidate was that much slower


class Seat(Protocol):
    """Puts a program into a runner of its own."""

    def __call__(
        self,
        *,
        compiled: bool = ...,
        mode: str | None = ...,
        own: tuple[str, Mapping[str, str]] | None = ...,
        program: str = ...,
    ) -> Baseline:
        """Return the reference, or the user's own kernel, ready to be timed.

        Args:
            compiled: by torch.compile, in `mode`.
            own: source and built parts of a kernel in the place of the reference.
            program: that follows the reference's own, and defines ``ModelNew``.

        Raises:
            Fault: it does not run, or the kernel's answers are wrong.
        """
        ...


class CpuBaselines:
    """Eager, torch.compile and what the task asks for beside them, each in a runner as candidates are.

    A kernel of the user's own is code that nobody has looked at: it is built, sandboxed and questioned as
    a candidate is, and one that is wrong is no baseline.

    Args:
        builder: of kernels' native parts.
        compiled: whether torch.compile is timed at all.

    Attributes:
        compile_error: why torch.compile is no baseline, None where it is one.
        notes: what else the user should know, a line each.
    """

    def __init__(self, problem: Problem, builder: Builder, seat: Seat, *, compiled: bool) -> None:
        self._problem = problem
        self._builder = builder
        self._seat = seat
        self._compiled = compiled
        self._seated: dict[str, Baseline] = {}
        self.compile_error: str | None = None
        self.notes: list[str] = []

    def start(self) -> None:
        """Start them all anew."""
        self.close()
        self.compile_error, self.notes = None, []
        try:
            self._seated["eager"] = self._seat()
        except Fault as fault:
            self.notes.append(
                f"eager is timed in this process, which flatters it by some {_FLATTERY} us, since its own would not start: "
                f"{getattr(fault.outcome, 'reason', fault.outcome.kind)}"
            )
        if self._compiled:
            try:
                self._seated["compile"] = self._seat(compiled=True)
            except Fault as fault:
                self.compile_error = str(getattr(fault.outcome, "reason", fault.outcome.kind))
        for name, start in self._further().items():
            try:
                self._seated[name] = start()
            except Fault as fault:
                reason = getattr(fault.outcome, "reason", "")
                self.notes.append(f"{name} is no baseline here ({fault.outcome.kind}): {reason}")

    def _further(self) -> Mapping[str, Callable[[], Baseline]]:
        """Return what starts each baseline that the task asks for."""
        task, wanted = self._problem.task, {}
        for mode in modes_of(task) if self._compiled else ():
            wanted[mode] = lambda mode=mode: self._seat(compiled=True, mode=mode)
        for name, source in task.kernels:
            wanted[name] = lambda source=source: self._seat(
                own=(source, self._builder.build(source))
            )
        return wanted

    def ensure(self) -> None:
        """Start them anew where one has ended: each dies with the zygote that forked it."""
        if not all(one.alive() for one in self._seated.values()):
            self.start()

    def contenders(self) -> dict[str, Contender]:
        """Return them by name; the reference is called here where no runner can hold it."""
        here = {} if "eager" in self._seated else {"eager": Local(self._problem.model)}
        return {**here, **self._seated}

    def wake(self, count: int, empty_caches: Callable[[], None]) -> None:
        """Measure what waking a runner takes, in one that no candidate has touched."""
        eager = self._seated.get("eager")
        for _ in range(count if eager is not None else 0):
            assert eager is not None
            empty_caches()
            eager.wake()

    @contextmanager
    def sampled(self, every: int) -> Iterator[None]:
        """Let their calls cost what sampling a candidate's costs.

        Args:
            every: ns of processor time between samples.
        """
        with ExitStack() as alike:
            for one in self._seated.values():
                alike.enter_context(one.sampled(every))
            yield

    def handling(
        self, draws: RoundDraws, empty_caches: Callable[[], None], *, again: bool = False
    ) -> CodeTime:
        """Return the time of a call that handles tensors and computes nothing, where a runner can tell."""
        if "eager" not in self._seated:
            return UNKNOWN
        return measure_handling(
            self._problem,
            lambda program: self._seat(program=program),
            lambda: draws.draw(audit=True),
            empty_caches,
            again=again,
        )

    def close(self) -> None:
        """End them."""
        for one in self._seated.values():
            one.close()
        self._seated = {}
