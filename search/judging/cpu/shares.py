"""Which part of its time a candidate must spend in its own kernels, where the library's are forbidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from search.judging.cpu.looks import CodeTime, Looks
from search.outcome import Refused
from search.sandbox.faults import Fault

_LEAST = 0.5
_LOOKING, _PATIENT_LOOKING = 0.1, 3.0  # seconds; the longer where a verdict hangs on it
_MORE_LOOKS = (4, 8)  # times what is enough where the answer is clear
_NEAR_HANDLING = 4.0  # times what handling tensors takes: more is no noise of it


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnShare:
    """Tells a candidate's own share from looks, and refuses one that is too small.

    Attributes:
        required: the task forbids the library; else the share is only told.
        handling: seconds of a call that are spent in the library without computing there.
        measure_handling: measures it anew.
    """

    required: bool
    handling: float
    measure_handling: Callable[[], float]

    def in_timed_calls(self, looks: Looks) -> float | None:
        """Return it, None where it is not known, or may be too small for what is handling alone."""
        if not (self.required and looks.enough()):
            return None
        spent = looks.spent()
        share = spent.share(self.handling)
        return None if self._in_doubt(spent, self.handling) else share

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
        spent, handling = looks.spent(), self.handling
        for times in _MORE_LOOKS:
            if not (self.required and self._in_doubt(spent, handling)):
                break
            handling = max(handling, self.measure_handling())
            audit(partial(looks.enough, own=True, times=times), _PATIENT_LOOKING)
            spent = looks.spent()
        return spent.share(handling)

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

    def _in_doubt(self, spent: CodeTime, handling: float) -> bool:
        """Say whether it would be refused for what a busy machine may make of handling alone."""
        share = spent.share(handling)
        return (share is None or share < _LEAST) and spent.library < _NEAR_HANDLING * handling
