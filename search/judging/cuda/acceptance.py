"""What a candidate that is right and timed is said to be: its own work, its profile, its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from search.costs.graph import OperatorGraph, Work
from search.costs.work import traced_work
from search.finding import Look
from search.judging.cpu.timing import Timing
from search.judging.cuda.batch_profile import read_windows
from search.judging.cuda.session import CudaCandidateSession
from search.judging.floor import bounded
from search.languages.cute import Cute, imports_cute, kernel_names, own_symbols
from search.outcome import Passed, Refused
from search.profilers.ncu import ProfiledCandidate
from search.profilers.ncu_cache import look
from search.profilers.static_resources import Resources, parse_cubin, parse_ptxas
from search.profilers.timeline import Timeline, doubt, own_share, read_capture, working_share
from search.reference import Problem
from search.sandbox.build import Builder
from search.sandbox.faults import Fault, forged
from search.sandbox.runner import encode
from search.sandbox.zygote import Zygote

if TYPE_CHECKING:
    from search.judged import JudgedTarget

_OWN_SHARE = 0.5
_DECOY = 0.01
_LITTLE = 0.05  # of the time in its own kernels: then launches that do nothing do not count
# A kernel by the profile, caches warm, against the same call by the events, caches cold.
_LONGER, _LATENCY, _CAPTURES = 1.25, 5e-6, 3
_SEEN, _BLUR = 0.95, 0.5e-6  # of what the device works in a call, its events must say
_LOSSES = 4  # that an outcome keeps of what the compiler warns of


class Acceptance:
    """Judges what the timed calls were made of.

    Args:
        folder: of builds, shared by tasks and runs.
        seconds: that compiling the native parts of a candidate may take.
    """

    def __init__(
        self,
        problem: Problem,
        target: JudgedTarget,
        zygote: Zygote,
        folder: Path,
        seconds: float,
    ) -> None:
        self._problem = problem
        self._target = target
        major, minor = torch.cuda.get_device_capability()
        # CuTe DSL's says what is missing, and compiles the CUDA C++ beside it as any.
        self._builder = Builder(zygote, Cute(f"sm_{major}{minor}"), folder / "native-cuda", seconds)
        self.folders = (folder / "native-cuda",)
        for path in self.folders:
            path.mkdir(parents=True, exist_ok=True)
        self._units: tuple[Resources, ...] = ()
        self._cute: frozenset[str] = frozenset()  # kernels that the source declares in CuTe DSL
        self._work: Work | None = None
        self.reference_peak = 0
        self.degenerate = False  # the reference's answer is always the same

    def trace(self) -> tuple[OperatorGraph | None, Work | None, list[str]]:
        """Return the reference's operators and their least cost, or a note why not."""
        graph, self._work, notes = traced_work(self._problem)
        return graph, self._work, notes

    def build(self, source: str) -> dict[str, str]:
        """Compile the CUDA C++ parts of `source`; return their paths by key.

        Raises:
            Fault: they do not compile.
        """
        built = self._builder.build(source)
        self._cute = kernel_names(source) if imports_cute(source) else frozenset()
        units: list[Resources] = []
        for path, log in zip(built.values(), self._builder.remarks(source).values(), strict=True):
            if path.endswith(".cubin"):
                units += parse_cubin(Path(path).read_bytes())
            units += parse_ptxas(log)
        self._units = tuple(units)
        return built

    def look(self, source: str, folder: Path, *, tf32: bool) -> Look:
        """Return the hardware counters of a candidate that passed, or why there are none."""
        problem = self._problem
        try:
            prebuilt = self.build(source)
        except Fault as fault:
            return Look(notes=(f"No hardware counters: it is {fault.outcome.kind} now.",))
        program = ProfiledCandidate(
            source=source,
            init=encode(list(problem.init_inputs)),
            inputs=problem.inputs,
            state=problem.state,
            prebuilt=prebuilt,
            seed=problem.seed,
            tf32=tf32,
        )
        return look(program, folder)

    def require_own_kernels(self, compiled: frozenset[str]) -> None:
        """Refuse a candidate that has brought none.

        Raises:
            Fault: neither its Triton nor its CUDA C++ was compiled here, and it declares no kernel in
                CuTe DSL; whether those run, the profile shows.
        """
        if not compiled and not self._units and not self._cute:
            raise Fault(
                Refused(
                    reason="it has no kernel of its own: it calls the library alone, which the baselines do as well",
                    trick="no-own-kernel",
                )
            )

    def look_at_batches(
        self,
        capture: Callable[[], Any],
        seconds: float,
        *,
        calls: int,
        flushes: int,
        flush_seconds: float,
    ) -> None:
        """Look at batches as they are timed, under the profiler.

        Args:
            capture: has the runner run a batch of `calls` calls, `flushes` emptyings before each.
            seconds: of a call, by the events of timed ones.
            flush_seconds: in which the caches can be emptied once.

        Raises:
            Fault: something runs where nothing may, or the device works longer than the events say.
        """
        least = inf
        for _ in range(_CAPTURES):
            try:
                found = read_windows(
                    capture(), calls, flushes, flush_seconds, len(self._problem.outputs)
                )
            except (KeyError, TypeError, IndexError, ValueError) as error:
                raise forged("a profile that is none") from error
            if found.strange is not None:
                raise Fault(Refused(reason=found.strange, trick="work-outside-the-clock"))
            least = min(least, found.mean)
            if seconds >= _SEEN * least - _BLUR:
                return
        raise Fault(
            Refused(
                reason=f"the device works {least * 1e6:.1f} us in a call by the profile, {seconds * 1e6:.1f} us by the events "
                "of timed calls: the timer was changed, or the calls differ",
                trick="timer-mismatch",
            )
        )

    def timeline(
        self, capture: Callable[[], tuple[Any, float]], seconds: float, names: frozenset[str]
    ) -> Timeline:
        """Return what the device does in a call, as far as it can be believed.

        Another process on the device can draw a profile out, but not each of several.

        Args:
            capture: asks the runner for a profile; returns it with the seconds that it took.
            seconds: of a call, as timed.
            names: of the kernels that Triton had compiled here.

        Raises:
            Fault: no tracer writes that, or it is not the profile of the calls that were timed.
        """
        own = {*names, *(unit.name for unit in self._units)}
        busy = inf
        for _ in range(_CAPTURES):
            told, took = capture()
            try:
                found = read_capture(told, took, own | own_symbols(told, self._cute))
            except ValueError as error:
                raise forged(f"a profile that cannot be: {error}") from error
            suspicion = doubt(found, seconds)
            if suspicion is not None:
                raise forged(suspicion)
            if found.busy_seconds <= _LONGER * seconds + _LATENCY:
                return found
            busy = min(busy, found.busy_seconds)
        raise Fault(
            Refused(
                reason=f"the device is busy for {busy * 1e6:.0f} us a call by the profile, for "
                f"{seconds * 1e6:.0f} us by the events of timed calls: the timer was changed, or the calls differ",
                trick="timer-mismatch",
            )
        )

    def passed(
        self,
        candidate_session: CudaCandidateSession,
        timing: Timing,
        timeline: Timeline,
        reports: Sequence[str],
        peak: int,
    ) -> Passed:
        """Return the outcome.

        Args:
            reports: of ptxas on what Triton had compiled here.
            peak: bytes that one call allocates.

        Raises:
            Fault: its work is not its own where it must be, or it took less time than it can.
        """
        seconds = timing.seconds["candidate"]
        share = own_share(timeline.kernels)
        self._check_share(share, working_share(timeline.kernels))
        profile = {**self._bound(seconds), **timeline.profile(seconds)}
        units = (*self._units, *(unit for text in reports for unit in parse_ptxas(text)))
        profile |= _spilled(units)
        profile |= {"peak_bytes": float(peak), "reference_peak_bytes": float(self.reference_peak)}
        return Passed(
            seconds=seconds,
            samples=timing.samples,
            speedup=timing.speedup,
            max_error=candidate_session.max_error,
            allowed_error=candidate_session.allowed_error,
            own_share=share,
            profile=profile,
            kernels=timeline.kernels,
            losses=tuple(dict.fromkeys(loss for unit in units for loss in unit.losses))[:_LOSSES],
            calls=timing.calls,
            degenerate=self.degenerate,
        )

    def _check_share(self, share: float | None, working: float) -> None:
        shown = "none of the device's time" if share is None else f"{share:.0%} of its time"
        if share is None or (share if share >= _LITTLE else working) < _DECOY:
            raise Fault(
                Refused(
                    reason=f"{shown} is in kernels of its own: they are beside the library's, which does the work",
                    trick="decoy-kernel",
                )
            )
        if self._problem.task.settings.library == "forbidden" and share < _OWN_SHARE:
            raise Fault(
                Refused(
                    reason=f"{shown} is in kernels of its own and the rest in the library's, which this task forbids",
                    trick="library-call",
                )
            )

    def _bound(self, seconds: float) -> dict[str, float]:
        return bounded(
            self._work,
            seconds,
            self._target,
            self._problem.task,
            threads=self._target.units,
            degenerate=self.degenerate,
        )


def _spilled(units: Sequence[Resources]) -> dict[str, float]:
    return {"spill_bytes": float(max(unit.spill_bytes for unit in units))} if units else {}
