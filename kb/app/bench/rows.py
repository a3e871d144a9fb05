"""One row a problem of a suite: what its run came to, with everything that a figure depends on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from search.outcome import Ratio
from search.runs.report import baseline_seconds

if TYPE_CHECKING:
    from search.task import Task

Status = Literal["solved", "checked", "unsolved", "not_judged"]
BASELINES = ("eager", "compile")
_LONGEST = 300  # characters of a reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRow:
    """What became of one problem.

    Attributes:
        key: of the problem's content and settings, see `key_of`.
        status: ``solved``: a candidate passed, and again when it was measured at the end; ``checked``:
            compiled for a device that is not here, never timed; ``unsolved``: judged, and none passed;
            ``not_judged``: the judge never began.
        reason: why it is not solved, in one line.
        run: its run, which the commands and pages around runs show.
        target, judge, torch: where it was measured, and by what.
        seconds: wall time of the run.
        baselines: seconds of one call.
        speedup: by baseline; empty where it is not solved.
        roofline: fraction of the attainable rate; None where it is not known.
        failures: what became of candidates that failed, the commonest first: fate, reason, how often.
        at: seconds since the epoch.
        degenerate: its reference answers the same whatever it is given; no figure counts it.
        samples: of an operator's other sample inputs, how many are answered by ``own`` kernels that are right,
            by the ``library``, and by kernels that are ``wrong``; empty where none was asked.
    """

    problem: str
    key: str
    status: Status
    reason: str = ""
    run: str | None = None
    target: str = ""
    language: str = ""
    author: str = ""
    precision: str = ""
    judge: str = ""
    torch: str = ""
    seconds: float = 0.0
    candidates: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    baselines: Mapping[str, float] = field(default_factory=dict)
    speedup: Mapping[str, Ratio] = field(default_factory=dict)
    roofline: float | None = None
    idea: str = ""
    failures: Sequence[tuple[str, str, int]] = ()
    at: float = 0.0
    degenerate: bool = False
    samples: Mapping[str, int] = field(default_factory=dict)

    def ratio(self, baseline: str) -> float | None:
        """Return its speed-up over a baseline, None where it has none."""
        found = self.speedup.get(baseline)
        return found.ratio if found else None


def to_values(row: SuiteRow) -> dict[str, Any]:
    """Return a row as JSON has it."""
    return asdict(row)


def from_values(values: Mapping[str, Any]) -> SuiteRow:
    """Return the row that `to_values` gave."""
    speedup = {name: Ratio(**one) for name, one in values["speedup"].items()}
    failures = tuple((kind, reason, count) for kind, reason, count in values["failures"])
    return SuiteRow(**{**values, "speedup": speedup, "failures": failures})


def key_of(task: Task) -> str:
    """Return the hash of what a problem is and of all that is asked of it."""
    parts = (task.name, task.source, task.settings.model_dump_json())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def solved_row(row: SuiteRow, report: Mapping[str, Any]) -> SuiteRow:
    """Return the row of a run that ended with `report`, from a row that names the problem.

    Args:
        row: problem, key, run and what the device is; the rest is filled in.
        report: see `search.runs.report`.
    """
    best = report["best"]
    common: dict[str, Any] = {
        "run": report["run"],
        "target": report["target"],
        "language": report["language"],
        "author": report["author"],
        "candidates": report["candidates"],
        "outcomes": dict(report["outcomes"]),
        "baselines": baseline_seconds(report),
        "seconds": report["seconds"],
    }
    if best is None:
        return replace(row, status="unsolved", reason=_why(row, report), **common)
    if not report["timed"]:
        return replace(row, status="checked", idea=best["idea"], **common)
    return replace(
        row,
        status="solved",
        speedup={name: Ratio(**one) for name, one in best["speedup"].items()},
        roofline=best["profile"].get("roofline"),
        idea=best["idea"],
        degenerate=bool(best.get("degenerate")),
        **common,
    )


def answered_row(row: SuiteRow, answers: Sequence[Sequence[str]]) -> SuiteRow:
    """Return a row with what its winner answered on other samples; one that is wrong there is not solved.

    Args:
        answers: name of the sample, who answered (``own``, ``library``, ``wrong``), and why not a right kernel.
    """
    counts = Counter(by for _, by, _ in answers)
    row = replace(row, samples={by: counts[by] for by in ("own", "library", "wrong") if answers})
    wrong = [(sample, reason) for sample, by, reason in answers if by == "wrong"]
    if not wrong:
        return row
    told = f"right on the timed input, not on {len(wrong)} of {len(answers)} others: {': '.join(wrong[0])}"
    return replace(row, status="unsolved", reason=one_line(told), speedup={}, roofline=None)


def _why(row: SuiteRow, report: Mapping[str, Any]) -> str:
    if not report["candidates"]:
        return f"no candidate was written ({report['stop_reason']})"
    gone = report.get("withdrawn")
    if gone:
        return one_line(f"measured again, the best was {gone[0]['outcome']}: {gone[0]['reason']}")
    counts = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in report["outcomes"].items())
    first = f"; most often: {row.failures[0][1]}" if row.failures else ""
    return one_line(f"no candidate passed ({counts}){first}")


def one_line(text: str) -> str:
    """Return a reason on one line, cut to what a table can hold."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
