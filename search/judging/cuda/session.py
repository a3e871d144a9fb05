"""One candidate before the judge, on a GPU: questioned and timed in batches of one kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from search.judging.bounds import finite, pieces
from search.judging.checks import (
    Fingerprint,
    agrees,
    apart,
    cached,
    check_outputs,
    equal,
    same,
    surely_right,
    told,
)
from search.judging.cpu.refusals import check_inputs, reused
from search.judging.cpu.session import CandidateSession
from search.judging.cpu.timing import Drawn
from search.judging.cuda.batches import ANYWHERE, Batch, Batches, Mirror
from search.judging.cuda.draws import Draws, Given
from search.judging.cuda.memory import CudaArena, DeviceRegion
from search.judging.cuda.runner import SMALLEST
from search.judging.cuda.worker import CudaWorker
from search.judging.disputed import is_right
from search.judging.inputs import SPECIAL, scaled
from search.judging.tolerance import bounds_of
from search.judging.trial import InputTrial, TrialSet
from search.outcome import Refused
from search.reference import Problem
from search.sandbox.faults import Fault, raised, wrong
from search.sandbox.shared_memory import poisoned

_SETTLE = 0.05  # seconds that work after the clock is given to show itself
_SLOWER = 3.0  # times that a call may take on other inputs
_MOST_PEAK = 1 << 50  # bytes: no device has more
Answer = tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What is known of an answer that its runner keeps; `unwritten`: it was not there when the clock stopped."""

    fingerprint: Fingerprint
    unwritten: bool


class CudaCandidateSession(CandidateSession):
    """Holds a runner with one candidate, or with a baseline.

    Args:
        region: device memory that the runner shares.
        mirror: where the judge keeps its own copy of answers.
        seconds: that one call, or one batch of timed calls, may take.
        trusted: it is the user's own reference.
    """

    def __init__(  # noqa: PLR0913 - one runner, its memory, and what it is held to
        self,
        problem: Problem,
        trial_set: TrialSet,
        arena: CudaArena,
        worker: CudaWorker,
        region: DeviceRegion,
        mirror: Mirror,
        *,
        seconds: float,
        trusted: bool = False,
    ) -> None:
        super().__init__(
            problem, trial_set, arena, worker, ANYWHERE, seconds=seconds, trusted=trusted
        )
        self._cuda_arena = arena
        self._mirror = mirror
        self.batches = Batches(arena, worker, region, mirror, seconds=seconds, trusted=trusted)
        self._state: Mapping[str, torch.Tensor] | None = None
        # Where a batch has one call, its runner keeps the answer while it makes the next.
        self._kept: KeptAnswer | None = None
        self._earlier: KeptAnswer | None = None
        self.peak = 0

    def _hand_over(self) -> None:
        super()._hand_over()
        torch.cuda.synchronize()

    def _place_any(self) -> None:
        for row in self._cuda_arena.sets[:2]:
            for slot, value in zip(row, self._problem.inputs, strict=True):
                if isinstance(slot, torch.Tensor) and isinstance(value, torch.Tensor):
                    slot.copy_(value)
        torch.cuda.synchronize()

    def question(self) -> None:
        """Run every trial, in batches as they are timed; the first alone, for its kernels are compiled then.

        Raises:
            Fault: an answer is wrong, or is not the candidate's own work.
        """
        trials = self._trial_set.trials
        most = len(self._cuda_arena.sets)
        self.start_timing()
        self.batches.compiles = True
        begin, first = 0, 0.0
        while begin < len(trials):
            chosen = trials[begin : begin + (1 if begin == 0 else most)]
            seconds = self._seconds + _SLOWER * first * len(chosen)
            self.batches.doing = f"forward on '{chosen[0].distribution}' inputs"
            self._state = None if self._problem.packs else self._problem.state
            inputs = self._trial_set.given(chosen, forgets=self.batches.scarce)
            batch = self._run(len(chosen), 1, inputs, seconds=seconds)
            first = first or batch.wall
            self._check_told(batch)
            for number, trial in enumerate(chosen):
                self._check_inputs(number, trial.inputs)
                self._compare(begin + number, self._mirror.results[number])
            self._trial_set.forget()  # the memory is the candidate's, which begins before other inputs are drawn
            begin += len(chosen)
        self.batches.compiles = False
        self.batches.doing = "forward, in a timed call,"

    def _compare(self, number: int, outputs: Answer) -> None:
        trial = self._trial_set.trials[number]
        special = self._problem.special or trial.distribution == SPECIAL
        if trial.given is not None and not special and self._seen(number, trial, outputs):
            return
        super()._compare(number, outputs)

    def _seen(self, number: int, trial: InputTrial, outputs: Answer) -> bool:
        """Say whether an answer is right, where that is seen without the bounds of all of it; False says nothing.

        Bounds that are made again take longer than all else of a question, and more memory than there may be. Where rows stand
        apart, some are looked at at a time.
        """
        assert trial.given is not None
        first = number == 0  # of which the error is told
        if trial.cut is None:
            eager = self._problem.run(*trial.given())
            if not finite(eager):
                return True  # the framework itself cannot take them: that draw tells nothing
            if first and not self.batches.scarce:
                return False
            if not surely_right(self._problem, trial, outputs, eager):
                return False
            if first:
                self._measure_near(trial, outputs, eager)
            return True
        for rows in trial.cut.rows:
            inputs, got = trial.cut.of(trial.given(), rows), tuple(x[rows] for x in outputs)
            eager = self._problem.run(*inputs)
            if not finite(eager) or (not first and surely_right(self._problem, trial, got, eager)):
                continue
            if trial.part is not None:
                part = trial.part(rows)
            else:  # on these very rows
                name = trial.distribution
                part = bounds_of(self._problem, self._trial_set, name, inputs, eager, None)
            uncut = replace(self._trial_set, cut=None)  # these are the pieces
            if part is None or not is_right(self._problem, uncut, part, got):
                return False
            if first:
                self._measure(part, got)
        return True

    def _measure_near(self, trial: InputTrial, outputs: Answer, eager: Answer) -> None:
        """Remember how far an answer is from the framework's, where there is no memory for its bounds."""
        for value, wanted, slack in zip(outputs, eager, trial.slack, strict=True):
            for piece in pieces(wanted):
                part = piece if wanted.dim() else ...
                right = wanted[part].double()
                error = (value[part].double() - right).abs_()
                self._remember(error.flatten(), slack.margin(right).flatten())

    def _check_told(self, batch: Batch) -> None:
        """See to what the runner says of its answers, and that the first stayed what it was.

        Raises:
            Fault: they are not what the reference returns, lie in the inputs' memory, or change.
        """
        said = batch.told or {}
        if "raised" in said:
            raise Fault(raised(told(said), self.batches.doing))
        check_outputs(self._problem, said)
        views, twins = self._problem.views, self._problem.twins
        if _numbers(said.get("inside")) - views:
            raise Fault(
                Refused(
                    reason="its answer lies in the memory of its inputs: allocate the output in each call",
                    trick="input-alias",
                )
            )
        if _numbers(said.get("aliased")) - views - twins:
            reason = "two of its outputs share memory: writing to one would change the other"
            raise Fault(Refused(reason=reason, trick="aliased-outputs"))
        peak = said.get("peak")
        if isinstance(peak, int) and 0 <= peak < _MOST_PEAK:
            self.peak = self.peak or peak
        self._check_kept()

    def _check_kept(self) -> None:
        """See that the answer that its runner kept stayed what it was.

        Raises:
            Fault: it did not.
        """
        first, again = self._own(self._mirror.results[0]), self._own(self._cuda_arena.again)
        if not first:
            return
        if self._earlier is not None:
            if self._earlier.fingerprint != Fingerprint.of(again):
                raise _late() if self._earlier.unwritten else reused()
        elif not all(same(a, b) for a, b in zip(first, again, strict=True)):
            # One that was not there yet when the clock stopped came late.
            raise _late() if all(poisoned(value) for value in first) else reused()

    def _own(self, answer: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the outputs that do not lie where the inputs do, in the reference's answer."""
        return [value for n, value in enumerate(answer) if n not in self._problem.views]

    def _check_inputs(self, number: int, inputs: Sequence[Any]) -> None:
        check_inputs(self._cuda_arena.sets[number], inputs)

    def _blame(self, right: Callable[[Answer], bool]) -> None:
        """Look no further: a batch's answers were copied in one piece, with all of its work done."""

    def start_timing(self) -> None:
        """Put the runner into its loop of batches."""
        if not self.batches.running:
            self._kept = self._earlier = None  # its runner has none
            self.batches.begin()

    @property
    def timing(self) -> bool:
        """Say whether the runner is in its loop of batches."""
        return self.batches.running

    def end_timing(self) -> None:
        """Let the loop return."""
        self.batches.end()

    def batch(
        self,
        calls: int,
        flushes: int,
        *,
        empty: bool = False,
        given: tuple[Draws, Sequence[Given]] | None = None,
    ) -> Batch:
        """Time `calls` calls.

        Args:
            flushes: how often the caches are emptied before each.
            empty: do everything but the calls.
            given: what they are given, None for what is in place.
        """
        if given is None:
            self._state = None
            return self._run(calls, flushes, empty=empty)
        draws, each = given
        self._state = None if self._problem.packs else scaled(self._problem.state)
        made = map(draws.make, each, self._cuda_arena.sets)  # while the runner stands still
        return self._run(calls, flushes, made, empty=empty)

    def smallest(self, calls: int) -> Batch:
        """Time so many starts of the smallest kernel in place of calls."""
        return self.batches.run(calls, 1, empty=SMALLEST)

    def _run(
        self,
        calls: int,
        flushes: int,
        fill: Iterable[Sequence[Any]] | None = None,
        *,
        empty: bool = False,
        seconds: float | None = None,
    ) -> Batch:
        batch = self.batches.run(
            calls, flushes, fill, state=self._state, empty=empty, seconds=seconds
        )
        if not empty and not self._trusted:
            self._earlier, self._kept = self._kept, None
            if calls == 1:
                answer = self._own(self._mirror.results[0])
                self._kept = KeptAnswer(
                    Fingerprint.of(answer), all(poisoned(value) for value in answer)
                )
        return batch

    def check_batch(self, batch: Batch | None, given: tuple[Draws, Sequence[Given]]) -> None:
        """Compare every answer of the last batch with the framework's on the same inputs.

        Raises:
            Fault: an answer is wrong, was kept from another call, or was finished after the clock.
        """
        if batch is not None:
            self._check_told(batch)
        draws, each = given
        for number, one in enumerate(each):
            inputs = draws.make(one)
            self._check_inputs(number, inputs)
            failed = self._failed(one, inputs, self._mirror.results[number])
            if failed is not None:
                if not self.batches.scarce:
                    # All of it, to be compared with other calls and with what is there later.
                    answer = self._mirror.results[number]
                    failed = answer, self._problem.run(*inputs, state=self._state)
                self._blame_call(number, one, inputs, *failed)

    def _failed(
        self, given: Given, inputs: tuple[Any, ...], answer: Answer
    ) -> tuple[Answer, Answer] | None:
        """Return what is not right of the answer of a timed call, and the framework's; None where all of it is.

        Where rows stand apart, some are looked at at a time: the framework's answer to all takes memory.
        """
        looks: bool | None = None  # of all parts of a call, or of none
        began = time.monotonic()
        for some, got in self._trial_set.parts(inputs, answer):
            wanted = self._problem.run(*some, state=self._state)
            if agrees(self._problem, given.trial, some, self._state, (got, wanted)):
                continue
            if not finite(wanted):
                continue  # the framework itself cannot take them: that draw tells nothing
            looks = self._looks() if looks is None else looks
            drawn = Drawn(inputs=some, state=self._state, trial=given.trial, audit=False)
            if looks and not self._part_within(drawn, got, wanted):
                return got, wanted
        if looks is not None:
            self._bounding += time.monotonic() - began
            torch.cuda.empty_cache()  # the next batch is to find the memory that it had
        return None

    def _blame_call(
        self, number: int, given: Given, inputs: tuple[Any, ...], got: Answer, wanted: Answer
    ) -> None:
        for other, values in enumerate(self._mirror.results):
            if other != number and equal(got, values):
                raise cached("a timed call gave the answer to the inputs of another")
        if not self.batches.scarce:  # there the place has another answer by now
            self.batches.settle(_SETTLE)
            later = self._cuda_arena.results[number]
            if agrees(self._problem, given.trial, inputs, self._state, (later, wanted)):
                raise _late()
        difference = max(apart(a, b) for a, b in zip(got, wanted, strict=True))
        raise wrong(
            f"the answer of a timed call on '{given.trial.distribution}' inputs differs from the framework's by up to "
            f"{difference:.3g}, although it passed the trials: does it keep state between calls, or work on a stream "
            "that nobody waits for?",
            self._unlike,
        )

    def profile(self, calls: int, flushes: int, *, whole: bool) -> Any:
        """Return what the profiler saw of `calls` calls, as the runner says: believe none of it unchecked.

        Args:
            whole: of a batch as it is timed, the emptying of the caches and the copies included.
        """
        message = {"op": "profile", "calls": calls, "flushes": flushes, "whole": whole}
        answer = self._worker.ask(message, self._seconds + 30)
        if "raised" in answer:
            raise Fault(raised(told(answer), "forward, under the profiler,"))
        return answer.get("timeline")

    def timed_profile(self, calls: int, flushes: int) -> tuple[Any, float]:
        """Return what the profiler told of some calls, and the seconds of telling."""
        began = time.monotonic()
        told = self.profile(calls, flushes, whole=False)
        return told, time.monotonic() - began

    def profile_batch(self, draws: Draws, calls: int, flushes: int) -> Any:
        """Return the profile of a batch as it is timed, on fresh inputs, its answers checked."""
        given = draws.draw(calls, audits=True)
        self._state = None if self._problem.packs else scaled(self._problem.state)
        inputs = map(draws.make, given)  # not in its memory: its host runs
        self.batches.put(calls, inputs, self._state)
        found = self.profile(calls, flushes, whole=True)
        self.batches.take(calls)
        self.check_batch(None, (draws, given))
        return found


def _numbers(said: Any) -> set[int]:
    """Return the numbers of outputs in what a runner says."""
    return {value for value in said if isinstance(value, int)} if isinstance(said, list) else set()


def _late() -> Fault:
    return Fault(
        Refused(
            reason="it says that it is done before it is: its answer was completed after the clock had stopped",
            trick="work-after-the-clock",
        )
    )
