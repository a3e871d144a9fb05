"""Turns a source into an outcome."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.errors import TaskError, ToolchainError
from search.costs.work import traced_work
from search.finding import Look
from search.judging.checks import check_arguments
from search.judging.cpu.baseline import Baseline, Timed
from search.judging.cpu.baselines import CpuBaselines
from search.judging.cpu.draws import RoundDraws
from search.judging.cpu.handling import UNKNOWN
from search.judging.cpu.looks import CodeTime, require_sight
from search.judging.cpu.session import CandidateSession
from search.judging.cpu.shares import OwnShare
from search.judging.cpu.standstill import check_clocks
from search.judging.cpu.timing import (
    Drawn,
    Evictor,
    Sample,
    Timing,
    TimingSession,
    choose_seats,
    one_thread,
    taken,
)
from search.judging.cpu.watching import Waking, believed, seen_share, watched
from search.judging.floor import bounded
from search.judging.inputs import input_notes
from search.judging.limits import Limits, Prepared
from search.judging.tolerance import make_trials
from search.judging.trial import TrialSet
from search.languages import LANGUAGES
from search.outcome import Outcome, Passed
from search.profilers.perf import Counters, per_call
from search.profilers.vectorization import Verbose, look
from search.reference import Problem
from search.sandbox import ptrace
from search.sandbox.build import Builder
from search.sandbox.faults import Fault, charged
from search.sandbox.runner_handle import Worker, WorkerBeside
from search.sandbox.sandbox import Cell, SandboxPart, missing_parts
from search.sandbox.shared_memory import Arena, keep_freed_memory, plan
from search.sandbox.zygote import Zygote
from search.targets.cpu import free_memory, read_facts

if TYPE_CHECKING:
    from search.judged import JudgedTarget

# Part of an outcome's identity: raise it when the same source may be judged otherwise.
JUDGE_VERSION = "cpu-38"
_CLOSE = 100_000  # ns between two samples of timed calls, where a verdict hangs on them
# The fewest audits, by whether a verdict hangs on looks, and whether infinities are asked: in one of four, so in both halves.
_AUDITS = {(False, False): 4, (False, True): 8, (True, False): 16, (True, True): 16}
_WAKINGS, _FEW_WAKINGS = 20, 2  # calls that do nothing, to know what waking a runner takes


class CpuJudge:
    """Judges candidates for one task on this machine's processor.

    Args:
        problem: the reference.
        target: the record that describes the processor.
        folder: for builds and the compiler's cache; it may be shared by runs.
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
        self._problem = problem
        self._target = target
        self._folder = folder
        self._limits = limits or Limits()
        self._shared = zygote is not None
        self._zygote = zygote or Zygote()
        self._builder = Builder(
            self._zygote, LANGUAGES.create("cpp"), folder / "native", self._limits.build_seconds
        )
        self._seats = choose_seats()
        self._trial_set: TrialSet
        self._arena: Arena | None = None
        self._waking = Waking()
        self._baselines = CpuBaselines(
            problem, self._builder, self._seat, compiled=self._limits.compile
        )
        self._draws: RoundDraws
        self._layout: dict[str, Any] = {}
        self._evict: Evictor
        self._call_seconds = self._limits.call_seconds
        self._counted: dict[str, float] = {}
        self._handling = UNKNOWN
        self.prepared: Prepared | None = None

    def prepare(self, progress: Callable[[str], None] = lambda _: None) -> Prepared:
        """Bound the right answers, build the baselines and see that candidates can be confined.

        Args:
            progress: is told what begins.

        Raises:
            TaskError: the task cannot be judged here.
            ToolchainError: this machine cannot confine candidates.
        """
        if self.prepared is not None:
            return self.prepared
        problem = self._problem
        keep_freed_memory()
        progress("the reference in float64, on several distributions of inputs")
        self._trial_set = make_trials(problem, progress=progress)
        self._draws = RoundDraws(problem, self._trial_set)
        self._layout = plan(problem.inputs, problem.state)
        self._check_memory()
        self._arena = Arena.create(self._layout)
        self._evict = Evictor(read_facts().last_level)
        progress("the sandbox")
        sandbox = self._try_sandbox()
        progress("the baselines, eager and torch.compile")
        self._baselines.start()
        graph, work, notes = traced_work(problem)
        progress("the baselines' times")
        baselines = self._time_baselines()
        with one_thread(), taken(self._seats):
            self._handling = self._measure_handling()
        self._call_seconds = self._limits.call_seconds + 30 * baselines["eager"]
        notes += [*self._baselines.notes, *input_notes(problem, self._trial_set.another_draw)]
        notes += [*self._trial_set.notes, *missing_parts(sandbox)]
        self.prepared = Prepared(
            baselines=baselines,
            compile_error=self._baselines.compile_error,
            dropped=self._trial_set.dropped,
            sandbox=sandbox,
            graph=graph,
            work=work,
            notes=tuple(notes),
        )
        return self.prepared

    def _check_memory(self) -> None:
        needed = int(self._layout["size"]) * 3
        free = free_memory()
        if needed > free:
            raise TaskError(
                f"{self._problem.task.reference}: judging needs {needed >> 20} MiB beside the reference, {free >> 20} MiB "
                "are free: make the inputs smaller"
            )

    def _try_sandbox(self) -> tuple[SandboxPart, ...]:
        check_arguments(self._problem)
        worker = self._worker(())
        try:
            worker.ready()
            try:
                ptrace.check_peek(worker.child.pid)
                check_clocks(worker.child.pid)
            except OSError as error:
                raise ToolchainError(
                    "answers are read from the candidate's memory while it stands still, which this machine does not permit "
                    f"({error}): set kernel.yama.ptrace_scope to 0 or 1, or give the container SYS_PTRACE"
                ) from error
            if self._own_only:
                require_sight(worker, shared=self._seats.shared)
            return worker.sandbox
        finally:
            worker.close()

    def _worker(self, readable: Iterable[str]) -> Worker:
        assert self._arena is not None
        if free_memory() // 2 < self._limits.memory:
            self._zygote.reap()  # what the last one holds would count
        return Worker(self._zygote, self._arena, self._cell(readable), self._seats.stage)

    def _cell(self, readable: Iterable[str]) -> Cell:
        return Cell(
            single=True,
            readable=tuple(readable),
            writable=(),
            memory=min(self._limits.memory, max(1 << 30, free_memory() // 2))
            + 4 * int(self._layout["size"]),
            cpu_seconds=3600,
            file_bytes=1 << 20,
        )

    def _seat(
        self,
        *,
        compiled: bool = False,
        own: tuple[str, Mapping[str, str]] | None = None,
        **more: Any,
    ) -> Baseline:
        """Start a baseline; torch.compile starts compilers, and has no walls around it."""
        cell = None if compiled else self._cell(() if own is None else own[1].values())
        return Baseline(
            self._problem,
            self._trial_set,
            self._zygote,
            cell,
            self._seats,
            self._waking,
            compiled=self._folder if compiled else None,
            own=own,
            **more,
        )

    def _time_baselines(self) -> dict[str, float]:
        """Return the time of each baseline from a short session."""
        with one_thread(), taken(self._seats):
            self._baselines.wake(_WAKINGS, self._empty_caches)
            race = self._race(None, blocks=3, seconds=self._limits.timing_seconds)
            seconds = watched(race.run).seconds
        return {name: seconds[name] for name in self._baselines.contenders()}

    def look(self, source: str) -> Look:
        """Say which loops of a candidate that passed the compiler left scalar."""
        builder = Builder(
            self._zygote, Verbose(), self._folder / "vectors", self._limits.build_seconds
        )
        return look(builder, source)

    @charged
    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        """Judge `source`.

        Args:
            source: a Python file that defines ``ModelNew``.
            thorough: time it long enough to report it.
        """
        prepared = self.prepare()
        # Before the candidate's: asking for what a dead zygote's child died of ends the new zygote.
        self._baselines.ensure()
        start = time.monotonic()
        build_seconds = 0.0
        with ExitStack() as ends:
            try:
                gate = ends.enter_context(closing(self._builder.gate()))
                runner = WorkerBeside(
                    lambda: ends.enter_context(closing(self._worker([str(gate.path)])))
                )
                prebuilt = gate.admit(self._builder.build(source, runner.begin))
                build_seconds = time.monotonic() - start
                outcome: Outcome = self._hear(
                    runner.standing(), source, prebuilt, prepared, thorough=thorough
                )
            except Fault as fault:
                outcome = fault.outcome
                build_seconds = build_seconds or time.monotonic() - start
        return replace(outcome, build_seconds=build_seconds)

    def _hear(
        self,
        worker: Worker,
        source: str,
        prebuilt: Mapping[str, str],
        prepared: Prepared,
        *,
        thorough: bool,
    ) -> Passed:
        assert self._arena is not None
        worker.ready()
        self._zygote.reap()  # the last one has given its memory back
        # One thread throughout: a second one waits at every barrier while the runner has its core.
        with one_thread():
            candidate_session = CandidateSession(
                self._problem,
                self._trial_set,
                self._arena,
                worker,
                self._seats,
                seconds=self._call_seconds,
            )
            candidate_session.load(source, prebuilt, self._layout, self._limits.start_seconds)
            candidate_session.question()
            timing, own = self._time(candidate_session, tuple(prebuilt.values()), thorough)
            candidate_session.end_timing()
        return self._passed(candidate_session, timing, own, prepared)

    def _time(
        self, candidate_session: CandidateSession, own: tuple[str, ...], thorough: bool
    ) -> tuple[Timing, float | None]:
        """Return the times, and which part of its time the candidate spends in its own kernels.

        Where a verdict hangs on that, timed calls are sampled, the baselines' too; else audited ones after them.
        """
        seconds = self._limits.thorough_seconds if thorough else self._limits.timing_seconds
        candidate_session.start_timing()
        race = self._race(candidate_session, blocks=12 if thorough else 6, seconds=seconds)
        before, shares = candidate_session.calls, self._shares()
        with (
            taken(self._seats),
            Counters(candidate_session.pid) as counters,
            candidate_session.looked_at(own, _CLOSE if self._own_only else 0) as looks,
        ):
            session = partial(self._session, race, whole=thorough)
            timing = watched(session, looks.forget, self._waking)
            self._counted = per_call(counters.read(), candidate_session.calls - before)
            share = shares.in_timed_calls(looks)
            if share is None:
                share = shares.in_audited_calls(looks, race.audit)
            shares.check(share)
            seconds = timing.seconds["candidate"]
            shares.check_interpreter(looks, race.audit, seconds, thorough=thorough)
        return timing, share

    def _session(self, race: TimingSession, *, whole: bool) -> Timing:
        """Time once, after what waking a runner takes by now."""
        self._baselines.wake(_FEW_WAKINGS, self._empty_caches)
        with self._baselines.sampled(_CLOSE) if self._own_only else nullcontext():
            return race.run(whole=whole)

    def _shares(self) -> OwnShare:
        return OwnShare(
            required=self._own_only,
            handling=self._handling,
            measure_handling=partial(self._measure_handling, again=True),
        )

    def _measure_handling(self, *, again: bool = False) -> CodeTime:
        return self._baselines.handling(self._draws, self._empty_caches, again=again)

    @property
    def _own_only(self) -> bool:
        return self._problem.task.settings.library == "forbidden"

    def _race(
        self, candidate_session: CandidateSession | None, *, blocks: int, seconds: float
    ) -> TimingSession:
        def check(drawn: Drawn, samples: Mapping[str, Sample]) -> None:
            if candidate_session is not None:
                eager = samples["eager"].outputs
                candidate_session.check_timed(drawn, samples["candidate"].outputs, eager)

        contenders = self._baselines.contenders()
        # A race needs a candidate; without one the framework runs against itself.
        contenders["candidate"] = (
            contenders["eager"]
            if candidate_session is None
            else Timed(candidate_session, self._waking)
        )
        return TimingSession(
            contenders=contenders,
            draw=self._draws.draw,
            check=check,
            prepare=self._empty_caches,
            blocks=blocks,
            seconds=seconds,
            audits=_AUDITS[self._own_only, self._problem.special] if candidate_session else 0,
        )

    def _empty_caches(self) -> None:
        os.sched_setaffinity(0, {self._seats.stage})
        self._evict()

    def _passed(
        self,
        candidate_session: CandidateSession,
        timing: Timing,
        own: float | None,
        prepared: Prepared,
    ) -> Passed:
        seconds, same = timing.seconds["candidate"], self._trial_set.degenerate
        profile = bounded(prepared.work, seconds, self._target, self._problem.task, degenerate=same)
        return Passed(
            seconds=seconds,
            samples=timing.samples,
            speedup=believed(timing),
            max_error=candidate_session.max_error,
            allowed_error=candidate_session.allowed_error,
            own_share=own,
            profile={**profile, **self._counted, **seen_share(timing)},
            calls=timing.calls,
            degenerate=same,
        )

    def close(self) -> None:
        """End every process that it started."""
        self._baselines.close()
        if not self._shared:
            self._zygote.close()
        if self._arena is not None:
            self._arena.close()
