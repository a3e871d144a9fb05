"""Kernels with what their authors measured: numbers beside a source, or at its head."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ingest.document import decode
from ingest.figures.result_files import RESULTS, SAMPLE, SOURCES
from ingest.readers import Block, Reading, Section
from ingest.scope.detect import find_scope
from ingest.sources.files import read_bytes
from kb.errors import RecordError
from kb.records.schema import Evidence, GuideRecord, ScopeModel

NOTE = "as reported beside the source; not measured here"
_MOST = 200  # measurements of one source
_ANSWER = re.compile(r"^class ModelNew\b", re.MULTILINE)
_HEAD = re.compile(r"\A(?:#![^\n]*\n)?(#|//) ---[ \t]*\n((?:\1[^\n]*\n)*?)\1 ---[ \t]*\n")
_DOCUMENTATION = re.compile(r"\A(?:#[^\n]*+\n|\s)*+[rR]?(\"{3}|'{3})\s*+([^\n]{1,160})")
_UNITS = {"": 1e-3, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "s": 1.0, "sec": 1.0, "seconds": 1.0}

# Names in use: KernelBench's results, the Sakana archive's columns, and what people write.
_TASK = ("task", "problem", "problem_name", "op_name", "operator", "name")
_TARGET = ("target", "device", "hardware", "gpu", "gpu_name")
_AFTER = ("after", "runtime", "kernel_time", "kernel_runtime", "cuda_runtime", "time", "latency")
_BEFORE = (
    *("before", "ref_runtime", "baseline", "baseline_time", "baseline_runtime", "eager"),
    *("eager_time", "reference_time", "pytorch_native_runtime", "torch_time"),
)
_SPEEDUP = (
    "speedup",
    "speed_up",
    "speedup_vs_eager",
    "speedup_eager",
    "cuda_speedup_native",
    "gain",
)
_CORRECT = ("correct", "correctness", "passed")
_FACTORS = {"before": 1.0, "after": 1.0}  # our own words: seconds, as in a record's evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One measurement as it was reported; seconds."""

    task: str
    target: str
    before: float | None
    after: float | None
    speedup: float | None
    correct: bool


def with_measurements(
    reading: Reading, path: Path, beside: Sequence[Path], shown: str | None = None
) -> Reading:
    """Return a source as a kernel record where it is an answer or comes with measurements.

    Args:
        path: the source itself.
        beside: files whose names say that they hold its measurements.
        shown: its name with its path, which often tells where it applies.

    Raises:
        RecordError: one of them cannot be read.
    """
    if path.suffix.lower() not in SOURCES or reading.record is not None:
        return reading
    front = _front(reading.body)
    rows = _rows(front, path.stem)
    for file in beside:
        rows += _rows(_chosen(_load(file), file, path), path.stem)
    if not rows and _ANSWER.search(reading.body) is None:
        return reading
    rows = rows[:_MOST]
    title = str(front.get("title") or _first_line(reading.body) or reading.title)[:200]
    sections = reading.sections
    if rows:
        blocks = (Block(text=_table(rows), kind="table"), Block(text=f"Times are {NOTE}."))
        sections = (Section(trail=(reading.title, "Measurements"), blocks=blocks), *sections)
    scope = find_scope(replace(reading, title=title), shown or path.name).scope
    record = _record(title, front.get("scope") or asdict(scope), rows)
    plain = record.model_dump(mode="json", exclude_defaults=True) | {"kind": "kernel"}
    return replace(
        reading,
        kind="kernel",
        title=title,
        sections=sections,
        record=plain,
        scope=record.scope.value(),
    )


def _record(title: str, scope: object, rows: Sequence[_Row]) -> GuideRecord:
    try:
        return GuideRecord(
            kind="kernel",
            title=title if len(title) >= 3 else f"kernel {title}",
            scope=ScopeModel.model_validate(scope),
            sources=(NOTE,) if rows else (),
            evidence=tuple(_evidence(rows)),
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RecordError(
            f"its front matter has a wrong {place} ({first['msg']}, found {first['input']!r:.80}): mend it"
        ) from error


def _first_line(body: str) -> str:
    """Return what the documentation of a Python module says first, if it is a title."""
    found = _DOCUMENTATION.match(body)
    line = "" if found is None else " ".join(found.group(2).partition(found.group(1))[0].split())
    return line.rstrip(".") if 3 <= len(line) <= 120 else ""


def _front(body: str) -> Mapping[str, Any]:
    """Return the YAML between two comments of three dashes at the head of a source."""
    found = _HEAD.match(body)
    if found is None:
        return {}
    mark = found.group(1)
    lines = [line.removeprefix(mark).removeprefix(" ") for line in found.group(2).split("\n")]
    try:
        loaded = yaml.safe_load("\n".join(lines))
    except yaml.YAMLError:
        return {}  # three dashes are a ruler in many files
    return loaded if isinstance(loaded, dict) else {}


def _load(file: Path) -> object:
    try:
        text = decode(read_bytes(file))
        return json.loads(text) if file.suffix == ".json" else yaml.safe_load(text)
    except (RecordError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())[:160]
        raise RecordError(
            f"its measurements in {file.name} cannot be read ({reason}): mend or remove them"
        ) from error


def _chosen(loaded: object, file: Path, path: Path) -> object:
    """Return what one file of results says of one sample of a KernelBench run."""
    named = SAMPLE.fullmatch(path.name)
    if file.name != RESULTS or named is None or not isinstance(loaded, dict):
        return loaded
    level, problem, sample = named.groups()
    entries = loaded.get(problem, [])
    task = f"KernelBench level {level} problem {problem}"
    return [
        {"task": task, **one}
        for one in (entries if isinstance(entries, list) else [entries])
        if isinstance(one, dict) and str(one.get("sample_id", sample)) == sample
    ]


def _rows(loaded: object, stem: str) -> list[_Row]:
    """Read every measurement in a value: an object, a list of them, or one under a usual name."""
    rows: list[_Row] = []
    for one in _objects(loaded):
        values = {str(name).lower().replace(" ", "_"): value for name, value in one.items()}
        metadata = values.get("metadata")
        if isinstance(metadata, dict):
            values = {**{str(name).lower(): value for name, value in metadata.items()}, **values}
        before, after = _seconds(values, _BEFORE), _seconds(values, _AFTER)
        speedup = _number(values, _SPEEDUP)
        correct = all(values.get(name) is not False for name in (*_CORRECT, "compiled"))
        if before is None and after is None and speedup is None and correct:
            continue
        rows.append(
            _Row(
                task=_text(values, _TASK) or stem,
                target=_text(values, _TARGET) or "unknown",
                before=before,
                after=after,
                speedup=speedup or (before / after if before and after else None),
                correct=correct,
            )
        )
    return rows


def _objects(loaded: object) -> Iterator[Mapping[Any, Any]]:
    if isinstance(loaded, list):
        for one in loaded[:_MOST]:
            if isinstance(one, dict):
                yield one
    elif isinstance(loaded, dict):
        for name in ("measurements", "evidence", "results", "benchmarks"):
            if isinstance(loaded.get(name), list):
                yield from _objects(loaded[name])
        yield loaded


def _seconds(values: Mapping[str, Any], names: Sequence[str]) -> float | None:
    for name in names:
        for unit, factor in _UNITS.items():
            number = _positive(values.get(f"{name}_{unit}" if unit else name))
            if number is not None:
                return number * (_FACTORS.get(name, factor) if not unit else factor)
    return None


def _number(values: Mapping[str, Any], names: Sequence[str]) -> float | None:
    found = (_positive(values.get(name)) for name in names)
    return next((number for number in found if number is not None), None)


def _positive(value: object) -> float | None:
    # KernelBench writes -1 where nothing was measured.
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(str(value).strip().rstrip("x"))
    except ValueError:
        return None
    return number if 0 < number < 1e12 else None


def _text(values: Mapping[str, Any], names: Sequence[str]) -> str:
    found = (values[name] for name in names if isinstance(values.get(name), str | int))
    return " ".join(str(next(found, "")).split())[:120]


def _evidence(rows: Sequence[_Row]) -> Iterator[Evidence]:
    for row in rows:
        if row.before is None and row.after is not None and row.speedup is not None:
            row = replace(row, before=row.after * row.speedup)  # noqa: PLW2901
        if row.before is None or (row.correct and row.after is None):
            continue
        after = row.after if row.correct else None
        outcome = "failed" if after is None else "won" if after < row.before else "lost"
        yield Evidence(
            task=row.task,
            target=row.target,
            before=row.before,
            after=after,
            outcome=outcome,  # type: ignore[arg-type]  # one of the three words
            note=NOTE,
        )


def _table(rows: Sequence[_Row]) -> str:
    lines = ["| task | device | before | after | speed-up | correct |", "|" + " --- |" * 6]
    for row in rows:
        cells = (
            *(row.task, row.target, _time(row.before), _time(row.after)),
            *(f"{row.speedup:.3g}x" if row.speedup else "", "yes" if row.correct else "no"),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.4g} ms"
