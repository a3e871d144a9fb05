"""What ends a candidate's judging: its faults, as outcomes."""

from __future__ import annotations

import json
import signal
import traceback
from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from kb.errors import KbError
from search.languages.compilers import compiler_fault
from search.outcome import BuildFailed, Crashed, Outcome, Passed, Refused, Wrong

# What torch's allocator says of a full device where the walls keep the driver's monitor away.
_FULL = "nvmlInit_v2_"
_NO_MEMORY = {"MemoryError", "OutOfMemoryError"}
# Characters of a text that a runner tells, and of those that are longer: messages of compilers, names of
# kernels, texts to be compiled (which `search.judging.cuda.compiling` bounds).
_LONGEST_TEXT = 300
_LONGER = {"message": 2000, "trace": 2000, "faults": 1000, "name": 4000, "timeline": 4000,
           "natives": 4000, "compile": 1 << 26}  # fmt: skip
# What a signal that ended a candidate means.
SIGNALS: dict[int, str] = {
    signal.SIGSEGV: "it touched memory that is not its own (an index out of bounds?)",
    signal.SIGBUS: "it touched memory at an impossible address",
    signal.SIGILL: "it ran an instruction that this processor does not have",
    signal.SIGFPE: "it divided an integer by zero",
    signal.SIGABRT: "it aborted (a failed assertion, a corrupted heap or an uncaught C++ exception)",
    signal.SIGXCPU: "it used up its processor time",
    signal.SIGKILL: "it was killed (out of memory or processor time?)",
    signal.SIGSYS: "it made a system call that no kernel needs",
}
_DEEPEST = 24
_LARGEST = 1 << 63
_LONGEST_REASON, _LONGEST_DETAIL = 500, 4000


class Fault(Exception):
    """What a candidate did that ends its judging."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


def forged(detail: str) -> Fault:
    """Return the fault of a runner that reports what cannot be."""
    return Fault(
        Refused(
            reason="its process reported what cannot be: candidate code has tampered with it",
            trick="forged-report",
            detail=detail[:500],
        )
    )


def raised(told: dict[str, Any], where: str) -> Outcome:
    """Return the outcome of a candidate's exception."""
    kind, message = str(told.get("type")), str(told.get("message"))
    first = (message.strip().splitlines() or [""])[0][:300]
    reason = f"{where} raised {kind}: {first}"
    detail = f"{message}\n{told.get('trace') or ''}".strip()[:3000]
    if causes := compiler_fault(kind, message):
        return BuildFailed(
            reason=f"a kernel of it does not compile: {causes.splitlines()[0]}",
            detail=f"{causes}\n{detail}"[:3000],
        )
    if where.startswith("importing it") and kind != "MemoryError":
        return BuildFailed(reason=reason, detail=detail)
    if kind in _NO_MEMORY or "can't allocate memory" in message or _FULL in message:
        what = "the device had none left" if _FULL in message else first
        return Crashed(
            reason=f"{where} ran out of the memory that it may use: {what}", detail=detail
        )
    return Crashed(reason=reason, detail=detail)


def wrong(reason: str, detail: str = "") -> Fault:
    """Return the fault of a wrong answer."""
    return Fault(Wrong(reason=reason, detail=detail))


def read_message(line: bytes) -> dict[str, Any]:
    """Return what a runner tells, every text of it cut to what an honest one has.

    Raises:
        Fault: no runner tells that.
    """
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        raise forged(f"not JSON: {line[:80]!r}") from None
    if not isinstance(answer, dict):
        raise forged(f"not an object: {line[:80]!r}")
    cut: dict[str, Any] = _cut(answer, _LONGEST_TEXT, 0)
    return cut


def _cut(value: Any, longest: int, depth: int) -> Any:
    if depth > _DEEPEST:
        raise forged("lists in lists, deeper than any runner's")
    if isinstance(value, str):
        # JSON can say half a character, which no file and no terminal takes.
        return value[:longest].encode(errors="replace").decode()
    if isinstance(value, list):
        return [_cut(item, longest, depth + 1) for item in value]
    if isinstance(value, dict):
        return {
            _cut(key, longest, 0): _cut(item, max(longest, _LONGER.get(key, 0)), depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise forged("a number larger than any that a runner counts")
    return value


def bounded(outcome: Outcome) -> Outcome:
    """Return an outcome whose words are of a bounded length and can be printed: they may be a candidate's."""
    changed: dict[str, Any] = {}
    told = {field.name: getattr(outcome, field.name) for field in fields(outcome)}
    if "reason" in told:
        line = " ".join(told["reason"].split())
        changed["reason"] = _printable(line)[:_LONGEST_REASON]
    if "detail" in told:
        lines = told["detail"][:_LONGEST_DETAIL].splitlines()
        changed["detail"] = "\n".join(map(_printable, lines))
    if isinstance(outcome, Passed):
        names = (_printable(one.name)[:_LONGEST_TEXT] for one in outcome.kernels)
        pairs = zip(outcome.kernels, names, strict=True)
        changed["kernels"] = tuple(replace(one, name=name) for one, name in pairs)
    return replace(outcome, **changed)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


_Judging = TypeVar("_Judging", bound=Callable[..., Outcome])


def charged(judge: _Judging) -> _Judging:
    """Have a judge's method `judge` charge what a candidate's material raises in it to the candidate.

    So that a fault of the judge's own is not hidden behind candidates, the reference is judged as its own
    candidate: where that raises as well, the first exception is let through. Errors of the user are too.
    """

    @wraps(judge)
    def judged(self: Any, source: str, *, thorough: bool = False) -> Outcome:
        try:
            return bounded(judge(self, source, thorough=thorough))
        except KbError:
            raise
        except Exception as error:  # noqa: BLE001 - a candidate may make anything of the judge raise
            found = error
        try:
            judge(self, f"{self._problem.task.source}\n\nModelNew = Model\n")
        except Exception:  # noqa: BLE001 - the first one is what is told
            raise found from None
        return bounded(_unforeseen(found))

    return cast(_Judging, judged)


def _unforeseen(error: Exception) -> Outcome:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    told = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
    detail = "".join(traceback.format_exception(error)[-6:])
    # What reads sources and compiles them is called `build` in every judge.
    if any(frame.name in {"build", "needed"} for frame in frames):
        reason = f"its source cannot be compiled: it makes kb raise {told}"
        return BuildFailed(reason=reason, detail=detail)
    return Refused(
        reason=f"its process or its answers made the judge raise {told}, which the reference does not",
        trick="forged-report",
        detail=detail,
    )
