"""One candidate before the judge: loaded, questioned on the trials, timed, looked at."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from search.judging.checks import (
    cached,
    check_outputs,
    check_state,
    equal,
    near,
    same,
    told,
    varied,
)
from search.judging.compare import explain
from search.judging.cpu.timing import CpuPinning, Sample
from search.judging.tolerance import InputTrial, TrialSet, inside
from search.outcome import BuildFailed, Crashed, Refused, TimedOut
from search.reference import Problem
from search.sandbox import ptrace
from search.sandbox.faults import Fault, forged, raised, wrong
from search.sandbox.runner import encode
from search.sandbox.runner_handle import Worker
from search.sandbox.shared_memory import DONE, FAILED, GO, POINTERS, PREPARE, READY, STOP, Arena

_LOOKS, _LOOK_SECONDS = 50, 0.0004
_SPINS = 200  # polls of a control word between two looks at the clock
_PATIENCE = 0.005  # seconds between two looks at whether a runner lives
_LONG = 0.001  # seconds of a call from which waiting for it need not be all polling
_SETTLE = 0.05  # seconds that work after the clock is given to show itself


class CandidateSession:
    """Holds a runner with one candidate.

    Args:
        seconds: that one call may take.
    """

    def __init__(
        self,
        problem: Problem,
        bank: TrialSet,
        arena: Arena,
        worker: Worker,
        seats: CpuPinning,
        *,
        seconds: float,
    ) -> None:
        self._problem = problem
        self._bank = bank
        self._arena = arena
        self._worker = worker
        self._seats = seats
        self._seconds = seconds
        self._call = 0
        self._timing = False
        self._least = 0.0
        self._previous: tuple[torch.Tensor, ...] | None = None
        self.max_error, self.allowed_error = 0.0, 0.0

    def load(
        self, source: str, prebuilt: Mapping[str, str], layout: dict[str, Any], seconds: float
    ) -> None:
        """Import the candidate, construct its model and hand it the parameters.

        Raises:
            Fault: it cannot be loaded, or its parameters are not the reference's.
        """
        for name, value in self._problem.state.items():
            self._arena.state[name].copy_(value)
        self._arena.words[: POINTERS + 1] = memoryview(bytearray(8 * (POINTERS + 1))).cast("Q")
        answer = self._worker.ask(
            {
                "op": "load",
                "source": source,
                "prebuilt": dict(prebuilt),
                "seed": self._problem.seed,
                "init": encode(list(self._problem.init_inputs)),
                "layout": layout,
                "packing": self._problem.task.settings.packing == "allowed",
            },
            seconds,
        )
        if "raised" in answer:
            raise Fault(raised(told(answer), "importing it or constructing ModelNew"))
        if "missing" in answer:
            raise Fault(
                BuildFailed(reason="it defines no ModelNew: define class ModelNew(nn.Module)")
            )
        check_state(self._problem, answer.get("state"))
        answer = self._worker.ask({"op": "adopt"}, seconds)
        if "raised" in answer:
            raise Fault(raised(told(answer), "load_state_dict"))

    def question(self) -> None:
        """Run every trial, and see that an answer stays what it was when another is made.

        Raises:
            Fault: an answer is wrong, or is not the candidate's own work.
        """
        for number, trial in enumerate(self._bank.trials):
            self._poison()
            answer = self._ask(trial, {"op": "call", "hold": number == 0})
            check_outputs(self._problem, answer)
            outputs = self._arena.outputs
            if not inside(trial, outputs):
                if number and varied(outputs) and inside(self._bank.trials[number - 1], outputs):
                    raise cached(
                        f"on '{trial.distribution}' inputs it gave the answer to the inputs before"
                    )
                raise wrong(*explain(self._problem, trial, outputs))
            if number == 0:
                self._measure(trial)
                self._hold(trial)

    def _ask(self, trial: InputTrial, message: dict[str, Any]) -> dict[str, Any]:
        """Put the trial's inputs in place, have the model called, and see that they were left alone."""
        self.place(trial.inputs)
        answer = self._worker.ask(message, self._seconds)
        if "raised" in answer:
            shown = f"forward on '{trial.distribution}' inputs"
            raise Fault(raised(told(answer), shown))
        self._check_inputs(trial.inputs)
        return answer

    def place(self, inputs: Sequence[Any]) -> None:
        """Put the inputs of the next call in place."""
        for slot, value in zip(self._arena.inputs, inputs, strict=True):
            if isinstance(slot, torch.Tensor):
                slot.copy_(value)

    def _poison(self) -> None:
        for slot in self._arena.outputs:
            slot.fill_(float("nan"))

    def _check_inputs(self, inputs: Sequence[Any]) -> None:
        for number, (slot, value) in enumerate(zip(self._arena.inputs, inputs, strict=True)):
            if isinstance(slot, torch.Tensor) and not same(slot, value):
                count = int((slot != value).sum())
                raise Fault(
                    Refused(
                        reason=f"it changes its input {number} ({count} elements): write to memory of its own",
                        trick="input-mutation",
                    )
                )

    def _measure(self, trial: InputTrial) -> None:
        """Remember the greatest error on the task's own inputs."""
        for number, got in enumerate(self._arena.outputs):
            truth = trial.truth(number)
            error = (got.double() - truth).abs()
            allowed = (trial.high[number].double() - trial.low[number].double()) / 2
            share = (error / allowed.clamp(min=1e-300)).flatten()
            at = int(share.argmax())
            if self.allowed_error == 0.0 or float(share[at]) > self.max_error / self.allowed_error:
                self.max_error, self.allowed_error = (
                    float(error.flatten()[at]),
                    float(allowed.flatten()[at]),
                )

    def _hold(self, trial: InputTrial) -> None:
        """Make another answer while the first is alive: the first must not change."""
        other = self._bank.trials[1 % len(self._bank.trials)]
        self._ask(other, {"op": "again"})
        self._poison()
        answer = self._worker.ask({"op": "recopy"}, self._seconds)
        if "raised" in answer:
            raise forged("an answer that was given is gone")
        if not inside(trial, self._arena.outputs):
            raise Fault(
                Refused(
                    reason="an earlier answer changes when the next is computed: allocate the output in each call",
                    trick="reused-output-buffer",
                )
            )

    @property
    def pid(self) -> int:
        """The runner's process id."""
        return self._worker.child.pid

    @property
    def calls(self) -> int:
        """How many calls were timed so far."""
        return self._call

    # Timing ------------------------------------------------------------------------------------

    def start_timing(self) -> None:
        """Put the runner into its timed loop, standing still."""
        self._worker.tell({"op": "time"})
        self._timing = True
        self._stop()

    def sample(self) -> Sample:
        """Time one call on the inputs in place, by this process's clock, and take its answer.

        The runner is stopped as soon as it says that it is done, and its answer is read from its
        memory as it stands: nothing that it does afterwards can be part of the answer.
        """
        words, self._call = self._arena.words, self._call + 1
        pid = self._worker.child.pid
        os.sched_setaffinity(0, {self._seats.seat})
        self._worker.resume()
        words[PREPARE] = self._call
        self._await(READY)
        before = ptrace.preemptions(pid)
        start = time.perf_counter_ns()
        words[GO] = self._call
        if self._least > _LONG:
            # On few processors the core that is not waited on keeps the neighbours off the stage.
            time.sleep(0.6 * self._least)
        self._await(DONE)
        end = time.perf_counter_ns()
        self._stop()
        undisturbed = ptrace.preemptions(pid) == before
        outputs = self._take()
        os.sched_setaffinity(0, {self._seats.stage})
        seconds = (end - start) / 1e9
        self._least = min(self._least or seconds, seconds)
        return Sample(seconds, outputs, undisturbed)

    def _await(self, word: int) -> None:
        words, call = self._arena.words, self._call
        deadline = time.monotonic() + self._seconds
        look = time.monotonic() + _PATIENCE
        while True:
            for _ in range(1 if self._seats.shared else _SPINS):
                if words[word] == call:
                    return
            if self._seats.shared:
                os.sched_yield()
            now = time.monotonic()
            if now > look:
                look = now + _PATIENCE
                self._check_alive(now > deadline)

    def _check_alive(self, late: bool) -> None:
        """Say what keeps a timed call from ending, if anything does."""
        if self._arena.words[FAILED]:
            answer = self._worker.answer(self._seconds)
            self._timing = False
            raise Fault(raised(told(answer), "forward, in a timed call,"))
        if not self._worker.alive():
            raise self._worker.dead()
        if late:
            reason = f"a timed call was still running after {self._seconds:.1f} s"
            raise Fault(TimedOut(reason=reason, seconds=self._seconds))

    def _stop(self) -> None:
        if not self._worker.stop():
            if not self._worker.alive():
                raise self._worker.dead()
            raise Fault(
                Crashed(
                    reason="it could not be stopped within a second: is it stuck in the kernel?"
                )
            )

    def _take(self) -> tuple[torch.Tensor, ...]:
        taken = []
        for number, layout in enumerate(self._problem.outputs):
            buffer = torch.empty(layout.shape, dtype=layout.dtype)
            try:
                ptrace.peek(self._worker.child.pid, self._arena.words[POINTERS + number], buffer)
            except OSError as error:
                raise forged(f"the answer of a timed call is not where it says: {error}") from error
            taken.append(buffer)
        return tuple(taken)

    def check_timed(
        self, inputs: Sequence[Any], got: tuple[torch.Tensor, ...], eager: tuple[torch.Tensor, ...]
    ) -> None:
        """Compare the answer of a timed call with the framework's on the same inputs.

        Raises:
            Fault: it is wrong, was kept from an earlier call, or was finished after the clock.
        """
        self._check_inputs(inputs)
        if near(got, eager, self._bank):
            self._previous = got
            return
        if self._previous is not None and equal(got, self._previous):
            raise cached("a timed call gave the answer to the inputs before")
        self._worker.resume()
        time.sleep(_SETTLE)
        self._stop()
        later = self._take()
        if near(later, eager, self._bank):
            raise Fault(
                Refused(
                    reason="it says that it is done before it is: its answer was completed after the clock had stopped",
                    trick="work-after-the-clock",
                )
            )
        difference = max(float((a - b).abs().max()) for a, b in zip(got, eager, strict=True))
        raise wrong(
            f"the answer of a timed call differs from the framework's by up to {difference:.3g}, although it passed "
            "the trials: does it keep state between calls?"
        )

    @property
    def timing(self) -> bool:
        """Say whether the runner is in its timed loop."""
        return self._timing

    def end_timing(self) -> None:
        """Let the timed loop return."""
        self._arena.words[STOP] = 1
        self._worker.resume()
        if self._timing:
            self._timing = False
            self._worker.answer(self._seconds)
        self._arena.words[STOP] = 0

    def share(self, own: Sequence[str], patience: float) -> float | None:
        """Return which part of its time the candidate spends in its own kernels.

        It is looked at in calls that are made as the timed ones are, so that it cannot tell them apart;
        only where these are too short to be met is it put into a loop.

        Args:
            own: paths of the shared objects that it brought.
            patience: seconds that the looks may take, beyond the call that is under way.

        Raises:
            OSError: tracing is not permitted here.
        """
        os.sched_setaffinity(0, {self._seats.seat})
        self._worker.resume()
        with ptrace.Sampler(self._worker.child.pid) as sampler:
            end, enough, found = time.monotonic() + patience, _LOOKS, None
            # On a busy machine most looks meet the interpreter, which is nobody's: then more are needed.
            while found is None and time.monotonic() < end:
                self._look_at_a_call(sampler)
                if sampler.looks >= enough:
                    found, enough = sampler.share(own), enough + _LOOKS
            found = sampler.share(own) if found is None else found
        self.end_timing()
        return self._share_of_loop(own) if found is None else found

    def _look_at_a_call(self, sampler: ptrace.Sampler) -> None:
        words, self._call = self._arena.words, self._call + 1
        for slot in self._arena.inputs:
            if isinstance(slot, torch.Tensor) and slot.is_floating_point():
                slot.mul_(1 - 2.0**-12)  # values that were not seen before
        words[PREPARE] = self._call
        self._await(READY)
        words[GO] = self._call
        deadline = time.monotonic() + self._seconds
        # Looks at a fixed delay would always meet the same part of a short call.
        pause = time.perf_counter() + (sampler.looks * 0.618 % 1.0) * min(
            self._least, _LOOK_SECONDS
        )
        while time.perf_counter() < pause:
            pass
        while words[DONE] != self._call:
            sampler.look()
            time.sleep(_LOOK_SECONDS)
            self._check_alive(time.monotonic() > deadline)

    def _share_of_loop(self, own: Sequence[str]) -> float | None:
        words = self._arena.words
        words[STOP], words[READY] = 0, 0
        self._worker.tell({"op": "spin"})
        try:
            deadline = time.monotonic() + self._seconds
            while words[READY] != 1 and time.monotonic() < deadline:
                time.sleep(0.0002)
            with ptrace.Sampler(self._worker.child.pid) as sampler:
                for _ in range(_LOOKS):
                    time.sleep(_LOOK_SECONDS)
                    sampler.look()
            return sampler.share(own)
        finally:
            words[STOP] = 1
            self._worker.answer(self._seconds)
            words[STOP] = 0
