"""The judge on a GPU: what `search.judging.cpu.judge.CpuJudge` is on a processor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kb.errors import TaskError, ToolchainError
from search.finding import Look
from search.judging.checks import check_arguments
from search.judging.cpu.baseline import trusted_environment
from search.judging.cpu.standstill import check_clocks
from search.judging.cpu.timing import Timing, turn
from search.judging.cuda.acceptance import Acceptance
from search.judging.cuda.baselines import BaselineRunners, Baselines
from search.judging.cuda.batches import Batch, Mirror
from search.judging.cuda.compiling import Compiler
from search.judging.cuda.draws import Draws, Given
from search.judging.cuda.held_device import heard_again, require_free
from search.judging.cuda.interleaved_timing import CudaTimingSession, resident_share
from search.judging.cuda.memory import (
    CudaArena,
    JudgeMemory,
    Regions,
    choose_sets,
    give_back,
    memory_room,
    memory_told,
    plan,
    unprepared,
)
from search.judging.cuda.runner import MOST_CALLS
from search.judging.cuda.session import CudaCandidateSession
from search.judging.cuda.spares import SpareRunners
from search.judging.cuda.worker import CudaWorker, hardware_queues, make_zygote, makes_streams
from search.judging.inputs import input_notes
from search.judging.limits import Limits, Prepared
from search.judging.precision import allowed_tf32
from search.judging.tolerance import trials_of
from search.judging.trial import TrialSet
from search.outcome import Crashed, Outcome, Passed
from search.reference import Problem
from search.sandbox.faults import Fault, charged
from search.sandbox.sandbox import missing_parts
from search.sandbox.zygote import Child, Zygote
from search.targets.cuda import Watch, read_device, visible_gpus

if TYPE_CHECKING:
    from search.judged import JudgedTarget

# Part of an outcome's identity: raise it when the same source may be judged otherwise.
JUDGE_VERSION = "cuda-42"
_FLUSH = 256 << 20  # bytes written between calls: several times any L2 there is
_FLUSHES = 3  # before a call that is profiled
_EXTENSION = 120.0  # seconds that an extension with all of torch's headers may take
_PROFILED = 3  # calls under the profiler
_SINGLE = 1.1  # by so much calls of gigabytes differ, of which one is profiled
_ROOMY = 0.5  # of the memory that was free before there were candidates
_BLOCKS = {False: 6, True: 30}  # ratios that a session takes; thorough: what a report needs


class CudaJudge:
    """Judges candidates for one task on this machine's GPU.

    Args:
        problem: the reference, loaded on the device.
        target: the record that describes the device.
        folder: for builds and compilers' caches; it may be shared by runs.
        limits: what a candidate may use.
        zygote: the warm process, where several judges share one; its owner closes it.
    """

    def __init__(
        self,
        problem: Problem,
        target: JudgedTarget,
        *,
        folder: Path,
        limits: Limits | None = None,
        zygote: Zygote | None = None,
    ) -> None:
        self.measured: TrialSet | None = None  # see `search.judging.Inheriting`
        self._problem = problem
        self._target = target
        self._folder = folder
        self._limits = limits or Limits()
        self._shared = zygote is not None
        self._zygote = zygote or make_zygote()
        self._zygote.begin()  # its imports take as long as the bounds of the answers do
        self._compiler = Compiler(
            self._zygote, folder / "triton-builds", self._limits.build_seconds
        )
        patience = max(self._limits.build_seconds, _EXTENSION)
        self._verdict = Acceptance(problem, target, self._zygote, folder, patience)
        self._spares = SpareRunners(self._start_runner, self._begin_runner, self._zygote)
        self._runners = BaselineRunners(self._start_baseline)
        self._timed_baselines: Baselines | None = None
        self._memory: JudgeMemory
        self._places: Iterator[Regions]  # of the candidates' memory, in turns
        self._latest: dict[int, Child] = {}  # who had each of these places last
        self._layout: dict[str, Any] = {}
        self._trial_set: TrialSet
        self._draws: Draws
        facts = read_device(torch.cuda.current_device())
        self._uuid = facts.uuid if facts is not None else ""
        self._device = f"device-{self._uuid or torch.cuda.current_device()}"
        self._resident = resident_share(facts.l2 if facts is not None else 0, _FLUSH)
        self._watch = Watch(self._uuid)
        # A runner has an environment of its own, and must work on the judge's device: one that sees several starts later.
        self._visible = {k: v for k, v in os.environ.items() if k == "CUDA_VISIBLE_DEVICES"}
        if facts is not None:
            self._visible = {"CUDA_VISIBLE_DEVICES": visible_gpus()[torch.cuda.current_device()]}
        self._call_seconds = self._limits.call_seconds
        self.prepared: Prepared | None = None

    def prepare(self, progress: Callable[[str], None] = lambda _: None) -> Prepared:
        """Bound the right answers, start the baselines and see that candidates can be confined.

        Raises:
            TaskError: the task cannot be judged here.
            ToolchainError: this machine cannot confine candidates.
        """
        if self.prepared is None:
            try:
                self.prepared = self._prepare(progress)
            except (torch.OutOfMemoryError, Fault) as error:
                raise TaskError(f"{self._problem.task.reference}: {unprepared(error)}") from error
        return self.prepared

    def _prepare(self, progress: Callable[[str], None]) -> Prepared:
        problem = self._problem
        self._set_precision()
        check_arguments(problem)
        if self._zygote.warm:
            self._runners.launch_ahead(compiled=self._limits.compile)
        progress("the reference in float64, on several distributions of inputs")
        with turn(self._device):
            self._trial_set = trials_of(problem, self.measured, memory_room(), progress)
            self.measured = self._trial_set.measured()
            self._draws = Draws(problem, self._trial_set)
            self._verdict.degenerate = self._trial_set.degenerate
            self._trial_set.forget()
            self._lay_out()
        progress("the sandbox")
        self._spares.ahead(1)
        self._runners.launch_ahead(compiled=self._limits.compile)
        sandbox = self._try_sandbox()
        progress("the baselines, eager and torch.compile")
        with turn(self._device):  # torch.compile times its kernels, and runs them
            rivals = self._pin_baselines()
        graph, work, notes = self._verdict.trace()
        notes += rivals.notes
        notes += input_notes(problem, self._trial_set.another_draw)
        self._trial_set.forget()
        progress("the baselines' times")
        with turn(self._device):
            self._before = timing = self._time_baselines()
            self._verdict.reference_peak = rivals.memory()
        self._call_seconds += 30 * timing.seconds["eager"]
        if not self._watch.states:
            notes.append(
                "the driver does not tell clocks and temperature: a drifting device is not seen"
            )
        notes += [*self._trial_set.notes, *missing_parts(sandbox)]
        return Prepared(
            baselines=timing.seconds,
            compile_error=rivals.compile_error,
            dropped=self._trial_set.dropped,
            sandbox=sandbox,
            graph=graph,
            work=work,
            notes=tuple(notes),
        )

    def _set_precision(self) -> None:
        """Let the framework use reduced precision where the task does, in every process."""
        self._tf32, self._tf32_convolutions = allowed_tf32(self._problem.task.settings.precision)
        torch.backends.cuda.matmul.allow_tf32 = self._tf32
        torch.backends.cudnn.allow_tf32 = self._tf32_convolutions

    def _lay_out(self) -> None:
        task = self._problem
        sets = choose_sets(task, max(1, min(self._limits.batch, MOST_CALLS)))
        self._layout = plan(task.inputs, task.state, task.outputs, sets)
        # The candidates' memory and the baselines': nothing that a candidate can write is read as truth.
        if self._layout["scarce"]:
            self._draws.keep_one()
        self._memory = JudgeMemory(self._layout, _FLUSH, memory_room())
        self._places = cycle(self._memory.candidates)
        self._free = torch.cuda.mem_get_info()[0]  # beside the judge's own
        self._mirror = Mirror(self._layout)

    def _told(self, regions: Regions, *, sealed: bool) -> dict[str, Any]:
        rounding = {"tf32": self._tf32, "tf32_convolutions": self._tf32_convolutions}
        return {**self._layout, **self._memory.handles(regions), "sealed": sealed, **rounding}

    def _start_runner(self, several_streams: bool) -> CudaWorker:
        builds = (self._folder / "triton-builds", *self._verdict.folders)
        environment = {**self._visible, **hardware_queues(several_streams=several_streams)}
        return CudaWorker(self._zygote, self._compiler, builds=builds, environment=environment)

    def _begin_runner(self, worker: CudaWorker) -> None:
        place = next(self._places)
        worker.begin_sharing(place, self._told(place, sealed=True))

    def _try_sandbox(self) -> tuple[Any, ...]:
        worker = self._spares.take()
        try:
            check_clocks(worker.child.pid)
        except OSError as error:
            raise ToolchainError(
                f"candidates stand still while inputs are placed, which cannot be seen to on this machine ({error}): set "
                "kernel.yama.ptrace_scope to 0 or 1, or give the container SYS_PTRACE"
            ) from error
        finally:
            worker.close()
        return worker.sandbox

    def _start_baseline(self) -> CudaWorker:
        environment = {**trusted_environment(self._folder), **self._visible}
        return CudaWorker(self._zygote, None, builds=(), environment=environment)

    def _pin_baselines(self) -> Baselines:
        memory = self._memory.baselines
        told = self._told(memory, sealed=False)
        self._timed_baselines = Baselines(
            self._problem, self._trial_set, self._draws, self._runners, memory, self._mirror, told
        )
        self._timed_baselines.start(compiled=self._limits.compile)
        return self._timed_baselines

    @charged
    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        """Judge `source`.

        Args:
            source: a Python file that defines ``ModelNew``.
            thorough: time it long enough to report it.
        """
        self.prepare()
        assert self._timed_baselines is not None
        self._timed_baselines.ensure()
        start, build_seconds = time.monotonic(), 0.0
        outcome: Outcome
        try:
            prebuilt = self._verdict.build(source)
            build_seconds = time.monotonic() - start
            passed, compiled = heard_again(lambda: self._hear(source, prebuilt, thorough))
            outcome, build_seconds = passed, build_seconds + compiled
        except torch.OutOfMemoryError:
            reason = "the device had no memory left for comparing its answers: it holds too much"
            outcome = Crashed(reason=reason)
        except Fault as fault:
            outcome = fault.outcome
            build_seconds = build_seconds or time.monotonic() - start
        if isinstance(outcome, Crashed):
            # Not before: an error's frames hold the tensors that were compared.
            told = memory_told()
            self._trial_set.forget()
            give_back()
            if "memory" in outcome.reason:
                outcome = replace(outcome, detail=f"{outcome.detail}\n{told}".strip())
        return replace(outcome, build_seconds=build_seconds)

    def _hear(
        self, source: str, prebuilt: Mapping[str, str], thorough: bool
    ) -> tuple[Passed, float]:
        worker = self._spares.take(several_streams=makes_streams(source))
        try:
            memory = worker.regions
            assert memory is not None
            # Until it is gone, what another candidate left on the device may write to its place, and holds memory.
            crowded = torch.cuda.mem_get_info()[0] < _ROOMY * self._free
            self._zygote.reap(0 if crowded else 1, self._latest.get(id(memory)))
            self._latest[id(memory)] = worker.child
            self._spares.ahead(1)
            arena = CudaArena(worker.words, memory, self._layout)
            candidate_session = CudaCandidateSession(
                self._problem,
                self._trial_set,
                arena,
                worker,
                memory[0],
                self._mirror,
                seconds=self._call_seconds,
            )
            self._memory.flush.bytes().zero_()  # the last candidate could write there
            told = self._told(memory, sealed=True)
            candidate_session.load(source, prebuilt, told, self._limits.start_seconds)
            with turn(self._device):  # what another judge runs would be timed along
                passed = self._examine(candidate_session, worker, thorough)
        finally:
            worker.close()
        figures = {**passed.profile, **self._watch.figures()}
        return replace(passed, profile=figures), worker.compile_seconds

    def _examine(
        self, candidate_session: CudaCandidateSession, worker: CudaWorker, thorough: bool
    ) -> Passed:
        """Question, time and profile a candidate that is loaded."""
        candidate_session.question()
        self._trial_set.forget()  # the memory is the candidate's now
        peak = candidate_session.peak
        self._verdict.require_own_kernels(worker.kernels)
        seconds = self._limits.thorough_seconds if thorough else self._limits.timing_seconds
        timing = self._race(candidate_session, blocks=_BLOCKS[thorough], seconds=seconds)
        candidate_session.end_timing()
        calls = min(_PROFILED, len(self._layout["sets"]))
        self._verdict.look_at_batches(
            lambda: candidate_session.profile_batch(self._draws, calls, _FLUSHES),
            timing.seconds["candidate"] * (_SINGLE if self._layout["scarce"] else 1.0),
            calls=calls,
            flushes=_FLUSHES,
            flush_seconds=_FLUSH / self._target.bandwidth,
        )
        timeline = self._verdict.timeline(
            lambda: candidate_session.timed_profile(_PROFILED, _FLUSHES),
            timing.seconds["candidate"],
            worker.kernels,
        )
        if not self._layout["scarce"]:
            self._spares.ahead(2)  # not before: it would draw profiles out
        passed = self._verdict.passed(candidate_session, timing, timeline, worker.reports, peak)
        slower = self._slower_device(worker, timing)  # last: it ends the candidate
        if slower == 1.0:
            return passed
        return replace(passed, profile={**passed.profile, "eager_slower": slower})

    def _slower_device(self, worker: CudaWorker, timing: Timing) -> float:
        """Look where eager was slow beside the candidate whether it is fast without; see `require_free`."""

        def alone() -> Timing:
            worker.close()
            return self._time_baselines()

        return require_free(self._before, timing, alone)

    def _time_baselines(self) -> Timing:
        return self._race(None, blocks=3, seconds=self._limits.timing_seconds)

    def look(self, source: str) -> Look:
        """Return the hardware counters of a candidate that passed, or why there are none."""
        return self._verdict.look(source, self._folder / "counters", tf32=self._tf32)

    def _race(
        self, candidate_session: CudaCandidateSession | None, *, blocks: int, seconds: float
    ) -> Timing:
        assert self._timed_baselines is not None
        self._spares.rest()
        if candidate_session is not None:
            self._memory.flush.bytes().zero_()  # the last candidate may have been there until now
            self._spares.start()
        self._watch = Watch(self._uuid)

        def draw(calls: int) -> tuple[Draws, list[Given]]:
            return self._draws, self._draws.draw(calls, audits=candidate_session is not None)

        def check(batch: Batch, given: tuple[Draws, list[Given]]) -> None:
            assert candidate_session is not None
            candidate_session.check_batch(batch, given)

        return CudaTimingSession(
            rivals=self._timed_baselines.hearings,
            candidate=candidate_session,
            draw=draw,
            check=check,
            watch=self._watch.sample,
            most=len(self._layout["sets"]),
            blocks=blocks,
            seconds=seconds,
            flush_seconds=_FLUSH / self._target.bandwidth,
            resident=self._resident,
        ).run()

    def close(self) -> None:
        """End every process that it started."""
        if self._timed_baselines is not None:
            self._timed_baselines.close()
        self._runners.close()
        self._spares.close()
        if not self._shared:
            self._zygote.close()
        memory = vars(self).pop("_memory", None)  # none where it could not be prepared
        if memory is not None:
            memory.close()
        self._timed_baselines = None
        for part in ("_mirror", "_draws", "_trial_set"):
            vars(self).pop(part, None)
        give_back()
