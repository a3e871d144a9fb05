"""Evidence: what outcomes say of an idea, and its place in the idea's record, which stays as it was written."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from kb.errors import RecordError
from kb.records.schema import Evidence, IdeaRecord, parse_record
from search.outcome import Outcome, Passed, Ratio
from search.won_or_lost import fate_of

_DIGITS = 4  # that a time and a ratio are written with
_PLAIN = re.compile(r"[A-Za-z][\w.-]*(?: [\w.-]+)*")  # YAML takes it as text without quotes
_REASON = 200  # characters of why something failed
_FENCE = "---"


def evidence_of(
    outcome: Outcome, *, task: str, target: str, eager_seconds: float, at: date, told: str
) -> Evidence:
    """Return what a measurement says of an idea, against eager.

    The seconds before are those of eager in the session in which the candidate was timed: its own
    seconds times the speed-up, so that clocks that change between sessions do not count.

    Args:
        eager_seconds: of the session that prepared the task, for a candidate that was not timed.
        told: what was tried, for the note.
    """
    if not isinstance(outcome, Passed):
        reason = " ".join(str(getattr(outcome, "reason", "")).split())[:_REASON]
        why = f"{outcome.kind.replace('_', ' ')}: {reason}" if reason else outcome.kind
        before = _rounded(eager_seconds)
        note = f"{why}; {told}"
        return Evidence(task=task, target=target, before=before, at=at, outcome="failed", note=note)
    eager = outcome.speedup["eager"]
    low, high = _rounded(eager.low), _rounded(eager.high)
    return Evidence(
        task=task,
        target=target,
        before=_rounded(outcome.seconds * eager.ratio),
        after=_rounded(outcome.seconds),
        low=low,
        high=high,
        at=at,
        outcome=fate_of(replace(eager, low=low, high=high)),
        note=f"{_compiled(outcome.speedup.get('compile'))}; {told}",
    )


def _compiled(ratio: Ratio | None) -> str:
    if ratio is None:
        return "torch.compile does not run it"
    return f"{ratio.ratio:.2f}x over torch.compile ({ratio.low:.2f} to {ratio.high:.2f})"


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def line(evidence: Evidence) -> str:
    """Return a measurement as one line of front matter."""
    parts = [f"task: {_text(evidence.task)}", f"target: {_text(evidence.target)}"]
    parts.append(f"before: {evidence.before:.3e}")
    if evidence.after is not None:
        parts.append(f"after: {evidence.after:.3e}")
    for name in ("low", "high"):
        value = getattr(evidence, name)
        if value is not None:
            parts.append(f"{name}: {value:.{_DIGITS}g}")
    if evidence.at is not None:
        parts.append(f"at: {evidence.at.isoformat()}")
    parts.append(f"outcome: {evidence.outcome}")
    if evidence.note:
        parts.append(f"note: {json.dumps(evidence.note, ensure_ascii=False)}")
    return f"  - {{{', '.join(parts)}}}"


def _text(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def with_evidence(text: str, found: Sequence[Evidence], path: str) -> str:
    """Return a record with more evidence, every other line of it as it was.

    Raises:
        RecordError: it is no record, or its evidence is not a list with a line an entry.
    """
    lines = text.split("\n")
    ends = [number for number, one in enumerate(lines) if one.rstrip() == _FENCE]
    if len(ends) < 2 or ends[0] != 0:
        raise RecordError(f"{path}: expected front matter between two lines of ---, found none")
    added = [line(one) for one in found]
    start = next((n for n in range(1, ends[1]) if lines[n].startswith("evidence:")), None)
    if start is None:
        keys = ("recipe:", "asked:")
        place = next((n for n in range(1, ends[1]) if lines[n].startswith(keys)), ends[1])
        lines[place:place] = ["evidence:", *added]
        return "\n".join(lines)
    if lines[start].rstrip() != "evidence:":
        raise RecordError(
            f"{path}: expected evidence as a list with a line an entry, found {lines[start]!r}: rewrite it so"
        )
    after = start + 1
    while after < ends[1] and lines[after][:1] in (" ", "-"):
        after += 1
    indent = lines[start + 1][: len(lines[start + 1]) - len(lines[start + 1].lstrip())]
    lines[after:after] = [indent + one.lstrip() for one in added]
    return "\n".join(lines)


class IdeaRecords:
    """The idea records that evidence is added to.

    Args:
        library: folder with the records.
        output: folder for those that change; the library itself where they are changed in place.
    """

    def __init__(self, library: Path, output: Path) -> None:
        self._library = library
        self.output = output

    def measured(self, idea: str, target: str) -> frozenset[str]:
        """Return the tasks on which an idea has evidence from a target."""
        record = parse_record(self._read(idea), f"{idea}.md").record
        if not isinstance(record, IdeaRecord):
            return frozenset()
        return frozenset(one.task for one in record.evidence if one.target == target)

    def add(self, idea: str, found: Evidence) -> Path:
        """Add a measurement to an idea's record, whole or not at all; return the file.

        Raises:
            RecordError: the record cannot be written, or would not be sound with it.
        """
        path = self.output / f"{idea}.md"
        text = with_evidence(self._read(idea), [found], str(path))
        parse_record(text, str(path))
        try:
            self.output.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", dir=self.output, suffix=".part", delete=False, encoding="utf-8"
            ) as file:
                file.write(text)
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except OSError as error:
            raise RecordError(
                f"{path}: cannot be written ({error.strerror}): name another folder with --output"
            ) from error
        return path

    def _read(self, idea: str) -> str:
        changed = self.output / f"{idea}.md"
        path = changed if changed.exists() else self._library / f"{idea}.md"
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RecordError(f"{path}: expected a record as UTF-8 text, found {error}") from error
