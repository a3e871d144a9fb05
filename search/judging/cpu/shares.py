"""Where a candidate's calls must spend time: in its own kernels, where the library's are forbidden, and in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from search.judging.cpu.looks import CodeTime, Looks
from search.outcome import Refused
from search.sandbox.faults import Fault

_LEAST = 0.5
# Seconds: where the share is only told, and where too little was seen by then; where a verdict hangs on it.
_LOOKING, _LONGER_LOOKING, _PATIENT_LOOKING = 0.1, 0.5, 3.0
_MORE_LOOKS = (4, 8)  # times what is enough where the answer is clear
_NEAR_HANDLING = 4.0  # times what handling tensors takes: more is no noise of it
# Of what a call that computes nothing spends in the interpreter. On most machines honest ones spend as much and
# more; on a virtual one of 2.3 GHz such a call took 600 to 1,500 us, and honest ones 14 % of that. Cheats spend none.
_LEAST_CALLED = 0.07
# A call that lasts more than so many times as long is not looked at: it could save at most 3 %, or 1 % where the
# candidate has won and is judged thoroughly.
_LONG = {False: 30.0, True: 100.0}
_EXPECTED = (40, 160)  # samples in the interpreter, for a first and a last opinion


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnShare:
    """Tells a candidate's own share from looks, and refuses one that is too small.

    Attributes:
        required: the task forbids the library; else the share is only told.
        handling: time of a call that computes nothing.
        measure_handling: measures it anew.
    """

    required: bool
    handling: CodeTime
    measure_handling: Callable[[], CodeTime]

    def in_timed_calls(self, looks: Looks) -> float | None:
        """Return it, None where it is not known, or may be too small for what is handling alone."""
        if not (self.required and looks.enough()):
            return None
        spent = looks.spent()
        allowed = _allowed(spent, self.handling)
        return None if _in_doubt(spent, allowed) else spent.share(allowed)

    def in_audited_calls(
        self, looks: Looks, audit: Callable[[Callable[[], bool], float], None]
    ) -> float | None:
        """Return it from closer looks, None where too little was seen; where in doubt, look on, at handling too.

        Args:
            audit: makes calls that are looked at, until enough was seen or for some seconds.
        """
        looks.look_closer()
        audit(
            partial(looks.enough, own=self.required),
            _PATIENT_LOOKING if self.required else _LOOKING,
        )
        spent = looks.spent()
        allowed = _allowed(spent, self.handling)
        if not self.required and spent.share(allowed) is None:
            audit(looks.enough, _LONGER_LOOKING)
            spent = looks.spent()
            allowed = _allowed(spent, self.handling)
        for times in _MORE_LOOKS:
            if not (self.required and _in_doubt(spent, allowed)):
                break
            handling = self.measure_handling()
            audit(partial(looks.enough, own=True, times=times), _PATIENT_LOOKING)
            spent = looks.spent()
            allowed = max(_allowed(spent, self.handling), _allowed(spent, handling))
        return spent.share(allowed)

    def check(self, share: float | None) -> None:
        """Refuse a candidate that computes in the library where it must not.

        Raises:
            Fault: it does.
        """
        if not self.required or (share is not None and share >= _LEAST):
            return
        told = "none that could be seen" if share is None else f"{share:.0%}"
        raise Fault(
            Refused(
                reason=f"of its time, {told} is in kernels of its own and the rest in the library's, which this task "
                "forbids: compute in load_cpp code",
                trick="library-call",
            )
        )

    def check_interpreter(
        self,
        looks: Looks,
        audit: Callable[[Callable[[], bool], float], None],
        seconds: float,
        *,
        thorough: bool,
    ) -> None:
        """Refuse a candidate whose calls leave out the interpreter, through which a user calls it.

        With cold caches that saves some 150 us of a call. Who wants to be seen there has to spend the time there.

        Args:
            seconds: that a call takes; a long one has nothing to gain.
            thorough: it is a winner.

        Raises:
            Fault: they do.
        """
        usual, seen = self.handling.interpreter or 0.0, 0.0
        for expected in _EXPECTED:
            if not usual or seconds > _LONG[thorough] * usual:
                return
            audit(partial(_seen_enough, looks, usual, expected), _PATIENT_LOOKING)
            told = looks.spent().interpreter
            if told is None or told >= _LEAST_CALLED * usual:
                return
            seen, usual = told, min(usual, self.measure_handling().interpreter or 0.0)
        raise Fault(
            Refused(
                reason=f"a call spends {seen * 1e6:.0f} us in the interpreter, and one that computes nothing "
                f"{usual * 1e6:.0f} us: something answers in the place of forward",
                trick="work-outside-the-clock",
            )
        )


def _seen_enough(looks: Looks, usual: float, expected: int) -> bool:
    return looks.expected(usual) >= expected


def _allowed(spent: CodeTime, handling: CodeTime) -> float:
    """Return what handling tensors takes in the library, seconds of a call.

    A machine that is slower by now is slower in the interpreter too; who spends time there for this loses more.
    """
    slower = (spent.interpreter or 0.0) / handling.interpreter if handling.interpreter else 1.0
    return handling.library * max(1.0, slower)


def _in_doubt(spent: CodeTime, allowed: float) -> bool:
    """Say whether it would be refused for what a busy machine may make of handling alone."""
    share = spent.share(allowed)
    return (share is None or share < _LEAST) and spent.library < _NEAR_HANDLING * allowed
