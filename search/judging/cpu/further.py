"""The baselines that a task asks for beside eager and torch.compile, seated as candidates are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from search.comparisons import modes_of
from search.judged import JudgedTask
from search.judging.cpu.baseline import Baseline
from search.sandbox.build import Builder
from search.sandbox.faults import Fault


class Seat(Protocol):
    """Puts a program into a runner of its own."""

    def __call__(
        self, *, mode: str | None = None, own: tuple[str, Mapping[str, str]] | None = None
    ) -> Baseline:
        """Return the reference compiled in `mode`, or the user's own kernel with its built parts.

        Raises:
            Fault: it does not run, or the kernel's answers are wrong.
        """
        ...


def seat_further(
    task: JudgedTask, builder: Builder, seat: Seat, *, compiled: bool
) -> tuple[dict[str, Baseline], list[str]]:
    """Return the baselines that run, and a line for each that does not.

    A kernel of the user's own is code that nobody has looked at: it is built, sandboxed and questioned as
    a candidate is, and one that is wrong is no baseline.

    Args:
        compiled: whether torch.compile is timed at all.
    """
    found: dict[str, Baseline] = {}
    notes: list[str] = []
    wanted: dict[str, Callable[[], Baseline]] = {}
    for mode in modes_of(task) if compiled else ():
        wanted[mode] = lambda mode=mode: seat(mode=mode)  # type: ignore[misc]
    for name, source in task.kernels:
        wanted[name] = lambda source=source: seat(own=(source, builder.build(source)))  # type: ignore[misc]
    for name, start in wanted.items():
        try:
            found[name] = start()
        except Fault as fault:
            reason = getattr(fault.outcome, "reason", "")
            notes.append(f"{name} is no baseline here ({fault.outcome.kind}): {reason}")
    return found, notes
