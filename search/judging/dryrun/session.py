"""Questions a candidate in the interpreter, and tells a fault from what the interpreter cannot show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from search.judging.checks import check_outputs, told
from search.judging.cpu.refusals import check_inputs, reused
from search.judging.cpu.session import CandidateSession
from search.judging.cpu.timing import CpuPinning
from search.judging.dryrun.architecture import Architecture
from search.judging.dryrun.small_shapes import Variant, specialised
from search.judging.limits import Limits
from search.judging.trial import InputTrial, TrialSet, inside
from search.outcome import Crashed, TimedOut, Wrong
from search.sandbox.faults import Fault, forged, raised
from search.sandbox.runner_handle import Worker
from search.sandbox.shared_memory import Arena, poison

_SLOWER = 3.0  # seconds in the interpreter for each that a call may take on a device
_BUSY = 3.0  # times as long as its own work a call may take, on a machine with other work
_MARGIN = 5.0  # seconds after which a process that has not answered is ended
# Limits of the interpreter, not of the candidate.
_LIMITS = ("unsupported", "native", "spins", "slow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What is known of a candidate's answers.

    Attributes:
        unchecked: why nothing is, "" where they are right.
        bound: it is written for the task's own shapes, and was asked on smaller ones.
    """

    max_error: float | None = None
    allowed_error: float | None = None
    unchecked: str = ""
    notes: tuple[str, ...] = ()
    bound: bool = False


class Unchecked(Exception):
    """The interpreter cannot show whether the answers are right; the message says why.

    Args:
        bound: see `Answers`.
    """

    def __init__(self, reason: str, *, bound: bool = False) -> None:
        super().__init__(reason)
        self.bound = bound

    def answers(self) -> Answers:
        """Return what is known of answers that are not checked."""
        return Answers(unchecked=str(self), bound=self.bound)


class DryCandidateSession(CandidateSession):
    """Holds a runner that interprets one candidate on small shapes.

    Args:
        variant: the task on small shapes.
        source: of the candidate.
    """

    def __init__(
        self,
        variant: Variant,
        trial_set: TrialSet,
        arena: Arena,
        worker: Worker,
        limits: Limits,
        *,
        source: str,
    ) -> None:
        self._variant = variant
        self._source = source
        self._limits = limits
        seats = CpuPinning(stage=0, seat=0)  # nothing is timed, so no core is chosen
        self._budget = _SLOWER * limits.call_seconds
        seconds = _BUSY * self._budget + _MARGIN
        super().__init__(variant.problem, trial_set, arena, worker, seats, seconds=seconds)

    def load(  # type: ignore[override]  # the source is there already, and so is its time
        self, prebuilt: Mapping[str, str], layout: dict[str, Any]
    ) -> None:
        """Construct the model for the small shapes and hand it the parameters.

        Raises:
            Unchecked: its constructor launches what cannot be interpreted.
            Fault: it cannot be constructed, or its parameters are not the reference's.
        """
        try:
            super().load("", prebuilt, layout, self._limits.start_seconds + _BUSY * self._budget)
        except Fault as fault:
            reason = str(getattr(fault.outcome, "reason", ""))
            if "raised KernelFault" in reason:
                raise Unchecked(reason) from fault
            raise

    def aim(self, architecture: Architecture) -> None:
        """Have calls interpreted as this architecture computes."""
        message = {"op": "limit", "seconds": self._budget, "device": architecture.values()}
        self._worker.ask(message, self._limits.start_seconds)

    def answers(self) -> Answers:
        """Run the trials.

        Raises:
            Fault: an answer is wrong, or the candidate did what none may.
        """
        notes = []
        if self._variant.changed:
            sizes = ", ".join(f"{old} as {new}" for old, new in self._variant.changed.items())
            notes.append(f"answers were checked on smaller shapes ({sizes})")
        try:
            self.question()
        except Unchecked as reason:
            return reason.answers()
        except Fault as fault:
            size = specialised(self._source, self._variant.changed)
            if isinstance(fault.outcome, Wrong) and size is not None:
                return Answers(
                    unchecked=f"it is written for the task's shapes (it names {size}), which are too "
                    "large to interpret",
                    bound=True,
                )
            raise
        return Answers(
            max_error=self.max_error, allowed_error=self.allowed_error, notes=tuple(notes)
        )

    def _answer(self, trial: InputTrial) -> tuple[torch.Tensor, ...]:
        """Return what the candidate answers in the interpreter; nothing is timed, and nothing stopped."""
        first = trial is self._trial_set.trials[0]
        answer = self._ask(trial, {"op": "call", "hold": first})
        check_outputs(self._problem, answer)
        outputs = tuple(value.clone() for value in self._arena.outputs)
        if first and inside(trial, outputs):
            self._hold(trial)
        return outputs

    def _hold(self, trial: InputTrial) -> None:
        """Make another answer while the first is alive: the first must not change."""
        other = self._trial_set.trials[1 % len(self._trial_set.trials)]
        self._ask(other, {"op": "again"})
        for slot in self._arena.outputs:
            poison(slot)
        answer = self._worker.ask({"op": "recopy"}, self._seconds)
        if "raised" in answer:
            raise forged("an answer that was given is gone")
        if not inside(trial, self._arena.outputs):
            raise reused()

    def _blame(self, right: object) -> None:
        """Ask no further: nothing was timed, and nothing stopped."""

    def _ask(self, trial: InputTrial, message: dict[str, Any]) -> dict[str, Any]:
        for slot in self._arena.outputs:
            poison(slot)
        for slot, value in zip(self._arena.inputs, trial.inputs, strict=True):
            if isinstance(slot, torch.Tensor):
                slot.copy_(value)
        answer = self._worker.ask(message, self._seconds)
        if "raised" in answer:
            self._judge_raised(told(answer), trial)
        check_inputs(self._arena.inputs, trial.inputs)
        return answer

    def _judge_raised(self, given: dict[str, Any], trial: InputTrial) -> None:
        """Raise what an exception on the small shapes means."""
        kind, text = str(given.get("fault", "")), str(given.get("message", ""))[:1000]
        smaller = bool(self._variant.changed)
        if kind in _LIMITS:
            raise Unchecked(text)
        if kind == "raised" and "raised AssertionError" not in text:
            raise Unchecked(f"the interpreter cannot run it: {text}")
        # Beyond its bounds another argument's memory may lie, which other programs write.
        elsewhere = kind == "race" and specialised(self._source, self._variant.changed) is not None
        if smaller and (kind in {"bounds", "empty"} or elsewhere):
            raise Unchecked(
                f"it is written for the task's shapes: on smaller ones {text}, which was not seen at "
                "the task's own",
                bound=True,
            )
        if smaller and not kind:
            raise Unchecked(
                f"it does not take smaller shapes than the task's: {given.get('type')}: {text[:300]}",
                bound=True,
            )
        if kind == "endless":
            raise Fault(TimedOut(reason=text, seconds=self._budget))
        if kind:
            trace = str(given.get("trace") or "")
            raise Fault(Crashed(reason=text, detail=trace[:2000]))
        raise Fault(raised(given, f"forward on '{trial.distribution}' inputs"))
