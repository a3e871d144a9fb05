"""Which loops of a candidate's C++ the compiler could not vectorise, and why, in its own words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search.finding import TOLD, Finding, Look
from search.languages import Unit
from search.languages.cpp import Cpp

if TYPE_CHECKING:
    from search.sandbox.build import Builder

_NOTE = re.compile(r"^(?:\S*/)?kernel\.cpp:(\d+):(\d+): (optimized|missed): (.*)$")
# Reasons that hold for every outer loop, or that say nothing to who wrote the loop.
_IDLE = re.compile(
    r"multiple nested loops|outer loop|loop nest|latch block not empty|control flow in loop nest"
    r"|unsupported control flow|vectorization is not profitable"
)
# What is left when every vector length has failed: the compiler no longer says why the first did.
_NO_FORM = "no vector form of it: iterations depend on one another, or the access is irregular"
_REASONS = (
    (r"complicated access pattern|not suitable for (gather|scatter)|strided", "strided-access"),
    (r"possible (alias|dependence)|dependence|depend on", "serial-reduction"),
    (r"unsupported (use in stmt|phi)|reduction", "serial-reduction"),
    (
        r"function calls|statement clobbers memory|relevant stmt not supported",
        "slow-transcendentals",
    ),
    (r"control flow|number of iterations cannot be computed", "branch-divergence"),
)
_MOST_LOOPS = 3  # that one symptom names
_TYPE = re.compile(r"^\s*scalar_type: (?:const )?(\w+)")
# Vector types, by hand or of intrinsics: what is written in them is vectorised by whoever wrote it.
_TYPEDEF = re.compile(
    r"typedef\s[^;]{0,200}?\b(\w{1,80})\s{1,20}__attribute__\s{0,20}\(\(\s{0,20}(?:__)?vector_size"
)
_USING = re.compile(r"using\s{1,20}(\w{1,80})[^;=]{0,100}=[^;]{0,200}vector_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """An innermost loop that runs one element at a time.

    Attributes:
        line: of the C++ source, from 1.
        code: that line.
        reason: the compiler's.
        symptom: from `kb.records.schema.SYMPTOMS`, what the reason amounts to.
    """

    line: int
    code: str
    reason: str
    symptom: str

    def text(self) -> str:
        """Return it as a sentence."""
        return (
            f"Line {self.line} of the C++ source, `{self.code}`, is not vectorised: {self.reason}."
        )


def parse_report(text: str, source: str) -> tuple[Missed, ...]:
    """Read what ``g++ -fopt-info-vec-missed-optimized`` writes.

    Args:
        text: the report.
        source: the C++ that it is about.

    Returns:
        Each innermost loop that no version of vectorises, in the order of the source. A loop of
        which the compiler vectorised some copy (another template instance, say) is left out, and one
        that is written in vectors.
    """
    lines = source.splitlines()
    done: set[int] = set()
    loops: dict[int, list[str]] = {}
    by_hand: set[int] = set()
    vectors = {*_TYPEDEF.findall(source), *_USING.findall(source)}
    current = 0
    for note in text.splitlines():
        typed = _TYPE.match(note)
        if typed is not None and (typed[1] in vectors or typed[1].startswith(("__m", "vector"))):
            by_hand.add(current)
        matched = _NOTE.match(note)
        if matched is None:
            continue
        line, kind, message = int(matched[1]), matched[3], matched[4].strip()
        if kind == "optimized" and "vectorized" in message and "basic block" not in message:
            done.add(line)
        elif message.startswith("couldn't vectorize loop"):
            current = line
            loops.setdefault(line, [])
        elif message.startswith("not vectorized:") and current:
            loops[current].append(message.removeprefix("not vectorized:").strip(" ."))
    found = []
    for line, reasons in sorted(loops.items()):
        telling = [reason for reason in reasons if not _IDLE.search(reason)]
        if line in done | by_hand or not telling or not 1 <= line <= len(lines):
            continue
        if any(line < inner <= _end(lines, line) for inner in {*loops, *done}):
            continue
        reason = _NO_FORM if "no vectype" in telling[0] else telling[0].split(": ")[0][:120]
        found.append(
            Missed(
                line=line,
                code=lines[line - 1].strip()[:80],
                reason=reason,
                symptom=next((s for p, s in _REASONS if re.search(p, reason)), "not-vectorised"),
            )
        )
    return tuple(found)


def _end(lines: Sequence[str], line: int) -> int:
    """Return the last line of the loop that begins on a line: where its braces are closed."""
    depth = 0
    for number in range(line, len(lines) + 1):
        code = lines[number - 1].partition("//")[0]
        depth += code.count("{") - code.count("}")
        if depth <= 0 and (number > line or "{" in code or code.rstrip().endswith(";")):
            return number
    return len(lines)


class Verbose(Cpp):
    """Compiles as `Cpp` does and has the compiler say which loops it vectorised."""

    def command(self, unit: Unit, text: str, library: str) -> Sequence[str]:
        """Return g++'s arguments."""
        return (*super().command(unit, text, library), "-fopt-info-vec-missed-optimized")


def missed_loops(builder: Builder, source: str) -> tuple[Missed, ...]:
    """Compile a candidate's native parts once more, for the report, in the builders' sandbox.

    Args:
        builder: that compiles `Verbose`.
        source: a candidate that has been built before.

    Raises:
        Fault: it does not compile.
    """
    found: list[Missed] = []
    for unit, log in zip(Verbose().units(source), builder.remarks(source).values(), strict=True):
        found += parse_report(log, unit.source)
    return tuple(found)


def look(builder: Builder, source: str) -> Look:
    """Return the loops of a candidate that run one element at a time, as findings."""
    from search.sandbox.faults import Fault

    try:
        loops = missed_loops(builder, source)
    except Fault as fault:
        return Look(notes=(f"The compiler gave no report on its loops: {fault.outcome.kind}.",))
    findings: dict[str, Finding] = {}
    for missed in loops:
        before = findings.get(missed.symptom)
        text = missed.text() if before is None else f"{before.text} {missed.text()}"
        if before is None or before.text.count("Line ") < _MOST_LOOPS:
            findings[missed.symptom] = Finding(
                symptom=missed.symptom, text=text, gain=0.3, evidence=TOLD
            )
    return Look(findings=tuple(findings.values()))
