"""One candidate before the judge: loaded, questioned on the trials, timed, looked at."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch

from search.judging.bounds import finite
from search.judging.checks import agrees, apart, cached, check_state, equal, told, varied
from search.judging.compare import explain
from search.judging.cpu.calls import Calls
from search.judging.cpu.looks import Looks
from search.judging.cpu.refusals import early, in_place
from search.judging.cpu.timing import CpuPinning, Drawn, Sample
from search.judging.disputed import is_right
from search.judging.inputs import SPECIAL
from search.judging.tolerance import bounds_of
from search.judging.trial import InputTrial, TrialSet, inside
from search.outcome import BuildFailed
from search.reference import Problem
from search.sandbox.faults import Fault, raised, wrong
from search.sandbox.runner import encode
from search.sandbox.runner_handle import Worker
from search.sandbox.shared_memory import Arena, scrub

_LOOK_SECONDS, _MOST_LOOKS = 0.002, 6  # of a long call, for each look; besides the first
_SETTLE = 0.03  # seconds that work after the clock is given to show itself
_PIECE = 1 << 24  # elements that are looked at in one go
# Timed calls whose own bounds are asked for, and seconds of asking; beyond, one in so many is looked at.
_MOST_BOUNDED, _BOUNDING_SECONDS, _BOUNDED_LATER = 32, 5.0, 8
_chance = random.SystemRandom()
_STOPPED = (True, False)  # whether an audited call is stopped, in some order
_EARLY, _LATE = 0.7, 1.2  # of what a call takes: when an audited one is stopped


class CandidateSession:
    """Holds a runner with one candidate.

    Args:
        seconds: that one call may take.
        trusted: it is the user's own reference.
    """

    def __init__(  # noqa: PLR0913 - one runner, and what it is held to
        self,
        problem: Problem,
        trial_set: TrialSet,
        arena: Arena,
        worker: Worker,
        seats: CpuPinning,
        *,
        seconds: float,
        trusted: bool = False,
    ) -> None:
        self._problem = problem
        self._trial_set = trial_set
        self._arena = arena
        self._worker = worker
        self._seats = seats
        self._seconds = seconds
        self._trusted = trusted
        self.single = Calls(problem, arena, worker, seats, seconds=seconds, trusted=trusted)
        self._previous: tuple[torch.Tensor, ...] | None = None
        self._unlike = ""  # where a timed call's answer is wrong, and how
        self._audit = False
        self._stopped: list[bool] = []  # whether the next audits are
        self._copies = False  # of the inputs, for the question that is asked
        self._bounded = 0
        self._bounding = 0.0
        self.max_error, self.allowed_error = 0.0, 0.0

    def load(
        self, source: str, prebuilt: Mapping[str, str], layout: dict[str, Any], seconds: float
    ) -> None:
        """Import the candidate, construct its model and hand it the parameters.

        Raises:
            Fault: it cannot be loaded, or its parameters are not the reference's.
        """
        self.clear()
        self.begin_load(source, prebuilt, layout, seconds)
        self.end_load(seconds)
        self.adopt(seconds)

    def clear(self) -> None:
        """Leave nothing of another candidate in the shared memory."""
        self._arena.clear()

    def begin_load(
        self, source: str, prebuilt: Mapping[str, str], layout: dict[str, Any], seconds: float
    ) -> None:
        """Have the candidate imported and its model constructed; `end_load` waits for that."""
        packs = self._problem.packs
        if packs:
            self._hand_over()
        self._worker.tell(
            {
                "op": "load",
                "source": source,
                "prebuilt": dict(prebuilt),
                "seed": self._problem.seed,
                "init": encode(list(self._problem.init_inputs)),
                "layout": layout,
                "packing": packs,
            },
            seconds,
        )

    def end_load(self, seconds: float) -> None:
        """Wait until the model is constructed, see `load`."""
        answer = self._worker.answer(seconds)
        if "raised" in answer:
            raise Fault(raised(told(answer), "importing it or constructing ModelNew"))
        if "missing" in answer:
            raise Fault(
                BuildFailed(reason="it defines no ModelNew: define class ModelNew(nn.Module)")
            )
        check_state(self._problem, answer.get("state"))

    def adopt(self, seconds: float) -> None:
        """Hand the model its parameters, see `load`."""
        packs = self._problem.packs
        self._hand_over()
        answer = self._worker.ask({"op": "adopt", "copied": packs}, seconds)
        if "raised" in answer:
            raise Fault(raised(told(answer), "load_state_dict"))
        if packs:
            # It has them now: what it computes with must be parameters of its own.
            scrub(list(self._arena.state.values()))

    def _hand_over(self) -> None:
        """Put the parameters where the runner reads them."""
        for name, value in self._problem.state.items():
            self._arena.state[name].copy_(value)

    def compile(self, seconds: float, mode: str | None = None) -> str | None:
        """Put ``torch.compile`` before the model; return why not, where it does not work."""
        self._place_any()
        answer = self._worker.ask({"op": "baseline", "mode": mode}, seconds)
        if "raised" not in answer:
            return None
        message = str(told(answer).get("message"))
        return (message.strip().splitlines() or ["it raised"])[0][:300]

    def _place_any(self) -> None:
        """Put inputs in place that tell nothing."""
        for slot, value in zip(self._arena.inputs, self._problem.inputs, strict=True):
            if isinstance(slot, torch.Tensor) and isinstance(value, torch.Tensor):
                slot.copy_(value)

    def question(self) -> None:
        """Run every trial.

        Raises:
            Fault: an answer is wrong, or is not the candidate's own work.
        """
        for number, trial in enumerate(self._trial_set.trials):
            # A program that remembers where its first inputs lay is wrong on all others.
            self._copies = number % 2 == 1
            self._compare(number, self._answer(trial))

    def _compare(self, number: int, outputs: tuple[torch.Tensor, ...]) -> None:
        """Compare the answer to a trial with its bounds."""
        trial = self._trial_set.trials[number]
        if not is_right(self._problem, self._trial_set, trial, outputs):
            # Every second question is on copies: by address, an answer was kept from two questions before.
            earlier = self._trial_set.trials[max(0, number - 2) : number]
            if varied(outputs) and any(inside(one, outputs) for one in reversed(earlier)):
                raise cached(f"on '{trial.distribution}' inputs it gave the answer to earlier ones")
            self._blame(lambda later: inside(trial, later))
            copies, self._copies = self._copies, False
            if copies and self.single.running and inside(trial, self._answer(trial)):
                raise wrong(
                    "it is right only while its inputs lie where they lay at first: take their addresses in each call"
                )
            raise wrong(*explain(self._problem, trial, outputs))
        if number == 0:
            self._measure(trial, outputs)

    def _answer(self, trial: InputTrial) -> tuple[torch.Tensor, ...]:
        """Return what the candidate answers to the trial's inputs, or to copies of them."""
        if not self.single.running:
            self._place_any()
            self.single.begin()
        self.single.doing = f"forward on '{trial.distribution}' inputs"
        self.single.place(trial.inputs, None if self._problem.packs else self._problem.state)
        return self.single.call(recheck=True, copies=self._copies).outputs

    def _measure(self, trial: InputTrial, outputs: Sequence[torch.Tensor]) -> None:
        """Remember the greatest error on the task's own inputs."""
        for number in range(len(outputs)):
            value = trial.found(number, outputs)[0]
            # Piece by piece: where there are gigabytes, each copy counts.
            whole = (value, trial.low[number], trial.high[number])
            for part, low, high in zip(
                *(torch.split(x.reshape(-1), _PIECE) for x in whole), strict=True
            ):
                allowed = high.double().sub_(low).div_(2)
                self._remember(part.double().sub_(low).sub_(allowed).abs_(), allowed)

    def _remember(self, error: torch.Tensor, allowed: torch.Tensor) -> None:
        """Keep the error that comes nearest to what is allowed there; both are flat."""
        share = error / allowed.clamp(min=1e-300)
        at = int(share.argmax())
        most = self.max_error / self.allowed_error if self.allowed_error else -1.0
        if float(share[at]) > most:
            self.max_error, self.allowed_error = float(error[at]), float(allowed[at])

    @property
    def pid(self) -> int:
        """The runner's process id."""
        return self._worker.child.pid

    @property
    def calls(self) -> int:
        """How many calls were made so far."""
        return self.single.count

    # Timing ------------------------------------------------------------------------------------

    def start_timing(self) -> None:
        """Have the runner ready for calls, standing still."""
        if not self.single.running:
            self._place_any()
            self.single.begin()
        self.single.doing, self.single.timed = "forward, in a timed call,", True
        self.single.forget()

    def place(self, drawn: Drawn) -> None:
        """Put the inputs of the next call in place, while the runner stands still."""
        self.single.place(drawn.inputs, drawn.state)
        self._audit = drawn.audit

    def sample(self) -> Sample:
        """Time one call on the inputs in place, and take its answer.

        Every second one that is audited is stopped at some moments, where it is looked at whose code it is in.
        """
        answer = self.single.call(stop_after=self._stops(), recheck=self._audit)
        return Sample(answer.seconds, answer.outputs, answer.undisturbed, answer.seen)

    def _stops(self) -> tuple[float, ...]:
        """Return when the next call is to be stopped, in seconds from its start."""
        typical = self.single.typical
        if not self._audit or typical is None or (self._trusted and self.single.looks is None):
            return ()
        # A program that sees that it was stopped could take such a call for an audit, and answer it otherwise.
        if not self._stopped:
            self._stopped = _chance.sample(_STOPPED, k=len(_STOPPED))
        sight = self.single.looks
        if not self._stopped.pop() and not (sight is not None and sight.by_stops):
            return ()
        looks = 1 + min(int(typical / _LOOK_SECONDS), _MOST_LOOKS)
        # Beside busy neighbours a call takes longer than its own work, which is to be met.
        own = min(typical, _LATE * self.single.least)
        early = sorted(_chance.uniform(0, own) for _ in range(looks))
        return (*early, _chance.uniform(_EARLY, _LATE) * typical)

    def empty(self) -> float:
        """Return the seconds of a call without a call: of waking up, and of seeing it."""
        return self.single.call(empty=True).seconds

    def check_timed(
        self, drawn: Drawn, got: tuple[torch.Tensor, ...], eager: tuple[torch.Tensor, ...]
    ) -> None:
        """Compare the answer of a timed call with the framework's on the same inputs.

        Raises:
            Fault: it is wrong, was kept from an earlier call, or was finished after the clock.
        """
        if drawn.trial.distribution == SPECIAL:
            if not self._within_its_bounds(drawn, got, eager):
                raise wrong(
                    "the answer of a timed call has other infinities or NaN than the framework's, although it passed "
                    "the trials: does it keep state between calls?"
                )
            return
        if not finite(eager):
            return  # the framework itself cannot take them: that draw tells nothing
        if self._agrees(drawn, got, eager):
            self._previous = got
            return
        if self._is_right(drawn, got, eager):
            return
        if self._previous is not None and equal(got, self._previous):
            raise cached("a timed call gave the answer to the inputs before")
        self._blame(lambda later: self._agrees(drawn, later, eager))
        difference = max(apart(a, b) for a, b in zip(got, eager, strict=True))
        raise wrong(
            f"the answer of a timed call on '{drawn.trial.distribution}' inputs differs from the framework's by up to "
            f"{difference:.3g}, although it passed the trials: does it keep state between calls?",
            self._unlike,
        )

    def _is_right(
        self, drawn: Drawn, got: tuple[torch.Tensor, ...], eager: tuple[torch.Tensor, ...]
    ) -> bool:
        """Say whether an answer is right by the bounds of these very inputs, which take float64 to know."""
        if not self._looks():
            return (
                True  # all that were looked at were right: the first that is not ends the session
            )
        began = time.monotonic()
        right = self._within_its_bounds(drawn, got, eager)
        self._bounding += time.monotonic() - began
        return right

    def _looks(self) -> bool:
        """Say whether the bounds of a timed call are asked for, and count it: of later ones, of one in so many."""
        later = self._bounded >= _MOST_BOUNDED and self._bounding > _BOUNDING_SECONDS
        if later and _chance.randrange(_BOUNDED_LATER):
            return False
        self._bounded += 1
        return True

    def _within_its_bounds(
        self, drawn: Drawn, got: tuple[torch.Tensor, ...], eager: tuple[torch.Tensor, ...]
    ) -> bool:
        return all(
            self._part_within(replace(drawn, inputs=inputs), answer, wanted)
            for inputs, answer, wanted in self._trial_set.parts(drawn.inputs, got, eager)
        )

    def _part_within(
        self, drawn: Drawn, got: tuple[torch.Tensor, ...], eager: tuple[torch.Tensor, ...]
    ) -> bool:
        """Say whether some rows of an answer are within the bounds of their inputs."""
        name = drawn.trial.distribution
        trial = bounds_of(self._problem, self._trial_set, name, drawn.inputs, eager, drawn.state)
        uncut = replace(self._trial_set, cut=None)  # these are the pieces
        if trial is None or is_right(self._problem, uncut, trial, got, drawn.state):
            return trial is not None
        with suppress(torch.OutOfMemoryError):  # then the refusal is told without it
            said = explain(self._problem, trial, got)
            self._unlike = "\n".join(("of the rows that were looked at:", *said))
        return False

    def _agrees(
        self, drawn: Drawn, got: tuple[torch.Tensor, ...], eager: tuple[torch.Tensor, ...]
    ) -> bool:
        return agrees(self._problem, drawn.trial, drawn.inputs, drawn.state, (got, eager))

    def _blame(self, right: Callable[[tuple[torch.Tensor, ...]], bool]) -> None:
        """Look why the last answer is wrong: where it lies, and whether it is right some time later.

        Raises:
            Fault: it lies in the inputs' memory, or was finished after the clock.
        """
        if self.single.answers_in_place():
            raise in_place()
        if right(self.single.later(_SETTLE)):
            raise early()

    @property
    def timing(self) -> bool:
        """Say whether the runner is in its loop of calls."""
        return self.single.running

    def end_timing(self) -> None:
        """Let the loop of calls return."""
        self.single.end()

    @contextmanager
    def looked_at(self, own: Sequence[str], every: int) -> Iterator[Looks]:
        """Look at whose code calls are in, from here on.

        Args:
            own: paths of the shared objects that it brought.
            every: ns of processor time between samples; 0 for none until it looks closer.
        """
        with Looks(self._worker.child.pid, own, every) as looks:
            self.single.looks = looks
            try:
                yield looks
            finally:
                self.single.looks = None
